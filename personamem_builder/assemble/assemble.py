"""From a run to its splits: which context holds what, and where which question is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from generation.errors import UserError
from generation.history_records import SessionPlan
from generation.interruption import kept_if_interrupted
from generation.parallel import Workers, ordered_results, worker_pool
from generation.progress import track
from generation.record_files import record_line, writing_lines
from generation.seeds import rng_for
from generation.store import RunStore
from personamem_builder.assemble.check import Replay
from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.place import place_questions
from personamem_builder.assemble.records import AskedQuestion, ContextPlan
from personamem_builder.assemble.run_records import (
    Conversation,
    PersonaRecords,
    PersonaSpans,
    find_personas,
    read_fillers,
    read_persona,
)
from personamem_builder.assemble.select import fill, select_sessions
from personamem_builder.assemble.sizes import FULLEST, Size
from personamem_builder.assemble.splits import CONTEXTS, QUESTIONS, replacing_splits, write_assembly

_FEW_QUESTIONS: Final = "raise questions_per_topic or --n-blocks"


class _ContextLines(NamedTuple):
    """A context of a split and the questions asked of it, as lines of its files."""

    split: str
    plan: bytes
    questions: list[bytes]


def assemble(
    store: RunStore, sizes: Sequence[Size], n_variants: int, workers: Workers = 1
) -> dict[str, dict[str, int]]:
    """Put contexts together and place questions in them.

    Args:
        store: A finished run.
        sizes: The splits to make. Sizes without a limit of tokens share their sessions: each history is then a prefix
            of the next.
        n_variants: Contexts of each persona and split, each with sessions of its own choice.
        workers: Processes, or a cluster.

    Returns:
        For each split the number of contexts and of questions.

    Raises:
        UserError: The run is not finished or was damaged, a persona cannot fill a split, an answer contradicts its
            context, another process is writing to the run, or the disk refuses. Splits are then as they were before.
    """
    with kept_if_interrupted(f"the splits of {store.folder} are as they were before"), store.writing():
        return _assemble(store, sizes, n_variants, workers)


def _assemble(store: RunStore, sizes: Sequence[Size], n_variants: int, workers: Workers) -> dict[str, dict[str, int]]:
    fingerprint = store.fingerprint()
    read_fillers(store)  # damage is said here, not by a worker that cannot start
    settings = _Settings(store, fingerprint["seed"], tuple(sizes), n_variants)
    counts = {size.split: {"contexts": 0, "questions": 0} for size in sizes}
    with replacing_splits(store, [size.split for size in sizes]) as new:
        with ExitStack() as stack:
            write = {
                (size.split, name): stack.enter_context(writing_lines(new / size.split / name))
                for size in sizes
                for name in (CONTEXTS, QUESTIONS)
            }
            for assembled in track(_assembled(settings, workers, new), "assembling", fingerprint["personas"]):
                for context in assembled:
                    write[context.split, CONTEXTS](context.plan)
                    for question in context.questions:
                        write[context.split, QUESTIONS](question)
                    counts[context.split]["contexts"] += 1
                    counts[context.split]["questions"] += len(context.questions)
        RunStore(store.folder).parts()  # refuses shards that were begun anew meanwhile
        for size in sizes:
            if not counts[size.split]["questions"]:
                raise UserError(f"no question can be asked in a context of {size.split}", _FEW_QUESTIONS)
            write_assembly(store, size, n_variants, new / size.split)
    return counts


class _Settings(NamedTuple):
    """What the contexts of all personas are made by."""

    store: RunStore
    seed: int
    sizes: tuple[Size, ...]
    n_variants: int


def _assembled(settings: _Settings, workers: Workers, new: Path) -> Iterator[list[_ContextLines]]:
    run = settings.store.folder
    with worker_pool(workers, _start_worker, settings, visible=[run], spool_in=new) as pool:
        personas = find_personas(settings.store)
        if pool is None:
            yield from map(_assemble_persona, personas)
        else:
            yield from ordered_results(pool.executor, 2 * pool.workers, _assemble_persona, personas)


_worker: tuple[_Settings, dict[str, Conversation]] | None = None


def _start_worker(settings: _Settings) -> None:
    global _worker
    _worker = (settings, read_fillers(settings.store))


def _assemble_persona(spans: PersonaSpans) -> list[_ContextLines]:
    assert _worker is not None, "no worker was started in this process"
    settings, fillers = _worker
    records = read_persona(spans)
    persona_id = records.persona.persona_id
    lengths = records.session_tokens()
    result: dict[tuple[str, str], _PlannedContext] = {}
    taken: dict[str, list[list[SessionPlan]]] = {}
    asked: dict[str, Counter[str]] = defaultdict(Counter)
    for variant in range(settings.n_variants):
        unlimited: list[SessionPlan] | None = None
        for size in sorted(settings.sizes, key=lambda size: -size.n_blocks):
            key = size.split if size.max_tokens else "prefixes"
            rng = rng_for(settings.seed, "assemble", persona_id, key, variant)
            choose = partial(select_sessions, records.history, lengths, records.questions, size.n_blocks)
            others = taken.setdefault(key, [])
            if size.max_tokens is not None:
                chosen = choose(int(FULLEST * size.max_tokens), rng, others)
                others.append(chosen)
            else:
                if unlimited is None:
                    unlimited = choose(None, rng, others)
                    others.append(unlimited)
                chosen = unlimited[: size.n_blocks]
                _check_number(persona_id, chosen, size)
            if not chosen:
                raise UserError(
                    f"the split {size.split} has no room for one session: the shortest of persona {persona_id} has "
                    f"{min(lengths.values()):,} tokens",
                    "raise --max-tokens, or lower turns_per_session in the configuration",
                )
            context = _context(records, chosen, fillers, size, variant, settings.seed, asked[size.split])
            # The sessions of two variants, or the first few of them, can be the same: that is one context, not two.
            if context.questions:
                result.setdefault((size.split, context.plan.shared_context_id), context)
    order = [size.split for size in settings.sizes]
    return [
        _ContextLines(
            context.split, record_line(context.plan), [record_line(question) for question in context.questions]
        )
        for context in sorted(result.values(), key=lambda context: (order.index(context.split), context.plan.variant))
    ]


def _check_number(persona_id: int, chosen: Sequence[SessionPlan], size: Size) -> None:
    if (missing := size.n_blocks - len(chosen)) > 0:
        raise UserError(
            f"persona {persona_id} cannot fill the split {size.split}: it has {len(chosen)} sessions; "
            f"{missing} are missing",
            "give a smaller --n-blocks, or generate with more topics or periods",
        )


class _PlannedContext(NamedTuple):
    split: str
    plan: ContextPlan
    questions: list[AskedQuestion]


def _context(
    records: PersonaRecords,
    chosen: Sequence[SessionPlan],
    fillers: dict[str, Conversation],
    size: Size,
    variant: int,
    seed: int,
    asked_before: Counter[str],
) -> _PlannedContext:
    rng = rng_for(seed, "place", records.persona.persona_id, size.split, variant)
    blocks = fill(records, chosen, list(fillers.values()), size, rng)
    layout = lay_out(records, blocks, fillers)
    plan = ContextPlan(
        shared_context_id=layout.shared_context_id,
        persona_id=records.persona.persona_id,
        variant=variant,
        blocks=tuple(blocks),
        num_tokens=layout.tokens_before[-1],
    )
    questions = place_questions(records, layout, plan.shared_context_id, size, rng, asked_before)
    _check(records, layout, size, questions)
    return _PlannedContext(size.split, plan, questions)


def _check(records: PersonaRecords, layout: Layout, size: Size, asked: Sequence[AskedQuestion]) -> None:
    questions = {question.question_id: question for question in records.questions}
    if not asked and size.max_tokens is not None:  # a short history of a range may be left out
        raise UserError(
            f"no question of persona {records.persona.persona_id} can be asked in its context of {size.split}",
            _FEW_QUESTIONS,
        )
    replay = Replay(records.history, layout)
    faults = [
        f"question {row.source_question_id} at message {row.end_index_in_shared_context}: {fault}"
        for row in asked
        for fault in replay.contradictions(questions[row.source_question_id], row.end_index_in_shared_context)
    ]
    if faults:
        raise UserError(
            f"persona {records.persona.persona_id}, split {size.split}: answers contradict their context: "
            + "; ".join(faults[:10]),
            "this is a fault of the run: generate it anew",
        )
