"""From a run to its splits: which context holds what, and where which question is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.files import file_digest, replacing
from generation.parallel import ordered_results, process_pool
from generation.pipeline import STAGES
from generation.progress import track
from generation.seeds import rng_for
from generation.store import RunStore, writing_records
from personamem_builder.assemble.check import Replay
from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.material import Material, Piece, read_fillers, read_material
from personamem_builder.assemble.place import place_questions
from personamem_builder.assemble.records import AskedQuestion, ContextPlan
from personamem_builder.assemble.select import Chosen, fill, select_sessions
from personamem_builder.assemble.sizes import FULLEST, Size
from personamem_builder.official.contexts import context_id

CONTEXTS: Final = "contexts.jsonl"
QUESTIONS: Final = "questions.jsonl"
ASSEMBLY: Final = "assembly.json"


class Assembled(NamedTuple):
    """A context of a split and the questions asked of it."""

    split: str
    plan: ContextPlan
    questions: list[AskedQuestion]


def split_folder(store: RunStore, split: str) -> Path:
    """Return where a split of a run lies."""
    return store.folder / "splits" / split


def assemble(store: RunStore, sizes: Sequence[Size], n_variants: int, workers: int = 1) -> dict[str, dict[str, int]]:
    """Put contexts together and place questions in them.

    Args:
        store: A finished run.
        sizes: The splits to make. Sizes without a limit of tokens share their sessions: each history is then a prefix
            of the next.
        n_variants: Contexts of each persona and split, each with sessions of its own choice.
        workers: Processes.

    Returns:
        For each split the number of contexts and of questions.

    Raises:
        UserError: The run is not finished or was damaged, a persona cannot fill a split, an answer contradicts its
            context, or the disk refuses. Splits are then as they were before.
    """
    fingerprint = store.fingerprint()
    fillers = read_fillers(store)
    task = _Task(fingerprint["seed"], tuple(sizes), n_variants)
    counts = {size.split: {"contexts": 0, "questions": 0} for size in sizes}
    with ExitStack() as stack:
        write = {
            (size.split, name): stack.enter_context(writing_records(split_folder(store, size.split) / name))
            for size in sizes
            for name in (CONTEXTS, QUESTIONS)
        }
        personas = fingerprint["personas"]
        for assembled in track(_assembled(store, task, fillers, workers), "assembling", personas):
            for context in assembled:
                write[context.split, CONTEXTS](context.plan)
                for question in context.questions:
                    write[context.split, QUESTIONS](question)
                counts[context.split]["contexts"] += 1
                counts[context.split]["questions"] += len(context.questions)
    for size in sizes:
        _write_assembly(store, size, n_variants)
    return counts


class _Task(NamedTuple):
    """What all personas are assembled to."""

    seed: int
    sizes: tuple[Size, ...]
    n_variants: int


def _assembled(store: RunStore, task: _Task, fillers: Sequence[Piece], workers: int) -> Iterator[list[Assembled]]:
    if workers == 1:
        _start_worker(task, fillers)
        yield from map(_assemble_persona, read_material(store))
        return
    with process_pool(workers, _start_worker, task, fillers) as pool:
        yield from ordered_results(pool, 2 * workers, _assemble_persona, read_material(store))


_worker: tuple[_Task, dict[str, Piece]] | None = None


def _start_worker(task: _Task, fillers: Sequence[Piece]) -> None:
    global _worker
    _worker = (task, {filler.id: filler for filler in fillers})


def _assemble_persona(material: Material) -> list[Assembled]:
    assert _worker is not None, "no worker was started in this process"
    task, fillers = _worker
    persona_id = material.persona.persona_id
    lengths = {id_: piece.num_tokens + material.system_tokens for id_, piece in material.sessions.items()}
    result = []
    for variant in range(task.n_variants):
        unlimited: list[Chosen] | None = None
        for size in sorted(task.sizes, key=lambda size: -size.n_blocks):
            rng = rng_for(task.seed, "assemble", persona_id, size.split if size.max_tokens else "prefixes", variant)
            choose = partial(select_sessions, material.history, lengths, material.questions, size.n_blocks)
            if size.max_tokens is not None:
                chosen = choose(int(FULLEST * size.max_tokens), rng)
            else:
                unlimited = choose(None, rng) if unlimited is None else unlimited
                chosen = unlimited[: size.n_blocks]
            if not chosen:
                raise UserError(
                    f"the split {size.split} has no room for one session: the shortest of persona {persona_id} has "
                    f"{min(lengths.values()):,} tokens",
                    "raise --max-tokens, or lower turns_per_session in the configuration",
                )
            result.append(_context(material, chosen, fillers, size, variant, task.seed))
    order = [size.split for size in task.sizes]
    return sorted(result, key=lambda assembled: (order.index(assembled.split), assembled.plan.variant))


def _context(
    material: Material, chosen: Sequence[Chosen], fillers: dict[str, Piece], size: Size, variant: int, seed: int
) -> Assembled:
    rng = rng_for(seed, "place", material.persona.persona_id, size.split, variant)
    blocks = fill(material, chosen, list(fillers.values()), size, rng)
    layout = lay_out(material, blocks, fillers)
    plan = ContextPlan(
        shared_context_id=context_id(layout.messages),
        persona_id=material.persona.persona_id,
        variant=variant,
        blocks=tuple(blocks),
        num_tokens=layout.tokens_before[-1],
    )
    questions = place_questions(material, layout, plan.shared_context_id, size, rng)
    _check(material, layout, size, questions)
    return Assembled(size.split, plan, questions)


def _check(material: Material, layout: Layout, size: Size, asked: Sequence[AskedQuestion]) -> None:
    questions = {question.question_id: question for question in material.questions}
    if not asked:
        raise UserError(
            f"no question of persona {material.persona.persona_id} can be asked in its context of {size.split}",
            "raise questions_per_topic or --n-blocks",
        )
    replay = Replay(material.history, layout)
    faults = [
        f"question {row.source_question_id} at message {row.end_index_in_shared_context}: {fault}"
        for row in asked
        for fault in replay.contradictions(questions[row.source_question_id], row.end_index_in_shared_context)
    ]
    if faults:
        raise UserError(
            f"persona {material.persona.persona_id}, split {size.split}: answers contradict their context: "
            + "; ".join(faults[:10]),
            "this is a fault of the run: generate it anew",
        )


def _write_assembly(store: RunStore, size: Size, n_variants: int) -> None:
    """Write what a split was made from, so that a change of the run can be noticed."""
    folder = split_folder(store, size.split)
    files = [store.path(stage) for stage in STAGES] + [folder / CONTEXTS, folder / QUESTIONS]
    content = {
        **size._asdict(),
        "n_variants": n_variants,
        "files": {str(path.relative_to(store.folder)): file_digest(path) for path in files},
    }
    with replacing(folder / ASSEMBLY) as part:
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_assembly(store: RunStore, split: str) -> dict[str, Any]:
    """Read what a split was made from, and check that nothing of it has changed since.

    Raises:
        UserError: The split was not assembled, or a file is not as it was; it is named.
    """
    path = split_folder(store, split) / ASSEMBLY
    try:
        assembly: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = f"personamem assemble {store.folder} --split {split}"
        raise UserError(f"{store.folder} has no split {split!r}: {path} is missing", hint) from error
    for name, digest in assembly["files"].items():
        file = store.folder / name
        if not file.exists() or file_digest(file) != digest:
            raise UserError(
                f"{file} is not what the split {split} was assembled from: its digest differs",
                f"assemble it again: personamem assemble {store.folder}",
            )
    return assembly


def assembled_splits(store: RunStore) -> list[str]:
    """Return the splits that a run has."""
    return sorted(path.parent.name for path in (store.folder / "splits").glob(f"*/{ASSEMBLY}"))
