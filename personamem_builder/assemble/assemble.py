"""From a run to its splits: which context holds what, and where which question is asked."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.files import file_digest, replacing
from generation.interruption import kept_if_interrupted
from generation.parallel import ordered_results, process_pool
from generation.pipeline import STAGES
from generation.progress import track
from generation.reading import read_model
from generation.seeds import rng_for
from generation.store import RunStore, record_line, writing_lines
from personamem_builder.assemble.check import Replay
from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.material import Material, Piece, Place, find_material, read_fillers, read_material
from personamem_builder.assemble.place import place_questions
from personamem_builder.assemble.records import AskedQuestion, Assembly, ContextPlan
from personamem_builder.assemble.refined import REFINED
from personamem_builder.assemble.select import Chosen, fill, select_sessions
from personamem_builder.assemble.sizes import FULLEST, Size

CONTEXTS: Final = "contexts.jsonl"
QUESTIONS: Final = "questions.jsonl"
ASSEMBLY: Final = "assembly.json"
_FEW_QUESTIONS: Final = "raise questions_per_topic or --n-blocks"


class Assembled(NamedTuple):
    """A context of a split and the questions asked of it, as lines of its files."""

    split: str
    plan: bytes
    questions: list[bytes]


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
            context, another process is writing to the run, or the disk refuses. Splits are then as they were before.
    """
    with kept_if_interrupted(f"the splits of {store.folder} are as they were before"), store.writing():
        return _assemble(store, sizes, n_variants, workers)


def _assemble(store: RunStore, sizes: Sequence[Size], n_variants: int, workers: int) -> dict[str, dict[str, int]]:
    fingerprint = store.fingerprint()
    read_fillers(store)  # damage is said here, not by a worker that cannot start
    places = find_material(store)
    task = _Task(store, fingerprint["seed"], tuple(sizes), n_variants)
    counts = {size.split: {"contexts": 0, "questions": 0} for size in sizes}
    with _replaced(store, sizes) as new:
        with ExitStack() as stack:
            write = {
                (size.split, name): stack.enter_context(writing_lines(new / size.split / name))
                for size in sizes
                for name in (CONTEXTS, QUESTIONS)
            }
            for assembled in track(_assembled(task, places, workers), "assembling", len(places)):
                for context in assembled:
                    write[context.split, CONTEXTS](context.plan)
                    for question in context.questions:
                        write[context.split, QUESTIONS](question)
                    counts[context.split]["contexts"] += 1
                    counts[context.split]["questions"] += len(context.questions)
        for size in sizes:
            if not counts[size.split]["questions"]:
                raise UserError(f"no question can be asked in a context of {size.split}", _FEW_QUESTIONS)
            _write_assembly(store, size, n_variants, new / size.split)
    return counts


@contextmanager
def _replaced(store: RunStore, sizes: Sequence[Size]) -> Iterator[Path]:
    """Give a folder for the new splits; their files take the place of the old ones when the block ends well."""
    new = store.folder / "splits" / ".new"
    shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
    try:
        yield new
        # All are whole and on the disk. A kill in here leaves files that `read_assembly` refuses as a mixture.
        for size in sizes:
            split_folder(store, size.split).mkdir(parents=True, exist_ok=True)
            for name in (ASSEMBLY, CONTEXTS, QUESTIONS):
                (new / size.split / name).replace(split_folder(store, size.split) / name)
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        raise UserError(f"{new.parent} cannot be written: {reason}", "the splits are as they were before") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if new.parent.is_dir() and not any(new.parent.iterdir()):
            new.parent.rmdir()


class _Task(NamedTuple):
    """What all personas are assembled to."""

    store: RunStore
    seed: int
    sizes: tuple[Size, ...]
    n_variants: int


def _assembled(task: _Task, places: Sequence[Place], workers: int) -> Iterator[list[Assembled]]:
    if workers == 1:
        _start_worker(task)
        yield from map(_assemble_persona, places)
        return
    with process_pool(workers, _start_worker, task) as pool:
        yield from ordered_results(pool, 2 * workers, _assemble_persona, places)


_worker: tuple[_Task, dict[str, Piece]] | None = None


def _start_worker(task: _Task) -> None:
    global _worker
    _worker = (task, {filler.id: filler for filler in read_fillers(task.store)})


def _assemble_persona(place: Place) -> list[Assembled]:
    assert _worker is not None, "no worker was started in this process"
    task, fillers = _worker
    material = read_material(task.store, place)
    persona_id = material.persona.persona_id
    lengths = {id_: piece.num_tokens + material.persona.shown_tokens for id_, piece in material.sessions.items()}
    result: dict[tuple[str, str], _Context] = {}
    taken: dict[str, list[list[Chosen]]] = {}
    for variant in range(task.n_variants):
        unlimited: list[Chosen] | None = None
        for size in sorted(task.sizes, key=lambda size: -size.n_blocks):
            key = size.split if size.max_tokens else "prefixes"
            rng = rng_for(task.seed, "assemble", persona_id, key, variant)
            choose = partial(select_sessions, material.history, lengths, material.questions, size.n_blocks)
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
            context = _context(material, chosen, fillers, size, variant, task.seed)
            # The sessions of two variants, or the first few of them, can be the same: that is one context, not two.
            if context.questions:
                result.setdefault((size.split, context.plan.shared_context_id), context)
    order = [size.split for size in task.sizes]
    return [
        Assembled(context.split, record_line(context.plan), [record_line(question) for question in context.questions])
        for context in sorted(result.values(), key=lambda context: (order.index(context.split), context.plan.variant))
    ]


def _check_number(persona_id: int, chosen: Sequence[Chosen], size: Size) -> None:
    if (missing := size.n_blocks - len(chosen)) > 0:
        raise UserError(
            f"persona {persona_id} cannot fill the split {size.split}: it has {len(chosen)} sessions; "
            f"{missing} are missing",
            "give a smaller --n-blocks, or generate with more topics or periods",
        )


class _Context(NamedTuple):
    split: str
    plan: ContextPlan
    questions: list[AskedQuestion]


def _context(
    material: Material, chosen: Sequence[Chosen], fillers: dict[str, Piece], size: Size, variant: int, seed: int
) -> _Context:
    rng = rng_for(seed, "place", material.persona.persona_id, size.split, variant)
    blocks = fill(material, chosen, list(fillers.values()), size, rng)
    layout = lay_out(material, blocks, fillers)
    plan = ContextPlan(
        shared_context_id=layout.shared_context_id,
        persona_id=material.persona.persona_id,
        variant=variant,
        blocks=tuple(blocks),
        num_tokens=layout.tokens_before[-1],
    )
    questions = place_questions(material, layout, plan.shared_context_id, size, rng)
    _check(material, layout, size, questions)
    return _Context(size.split, plan, questions)


def _check(material: Material, layout: Layout, size: Size, asked: Sequence[AskedQuestion]) -> None:
    questions = {question.question_id: question for question in material.questions}
    if not asked and size.max_tokens is not None:  # a short history of a range may be left out
        raise UserError(
            f"no question of persona {material.persona.persona_id} can be asked in its context of {size.split}",
            _FEW_QUESTIONS,
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


def _write_assembly(store: RunStore, size: Size, n_variants: int, new: Path) -> None:
    """Write what a split was made from, so that a change of the run can be noticed."""
    files = [store.folder / "config.json", *(store.path(stage) for stage in STAGES)]
    if (refined := store.folder / REFINED).exists():
        files.append(refined)
    own = split_folder(store, size.split).relative_to(store.folder)
    content = Assembly(
        **size._asdict(),
        n_variants=n_variants,
        files={path.relative_to(store.folder).as_posix(): file_digest(path) for path in files}
        | {(own / name).as_posix(): file_digest(new / name) for name in (CONTEXTS, QUESTIONS)},
    )
    with replacing(new / ASSEMBLY) as part:
        part.write_text(content.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_assembly(store: RunStore, split: str) -> dict[str, Any]:
    """Read what a split was made from, and check that nothing of it has changed since.

    Raises:
        UserError: The split was not assembled, or a file is not as it was; it is named.
    """
    path = split_folder(store, split) / ASSEMBLY
    again = f"personamem assemble {store.folder} " + (
        f"--n-blocks {split.removesuffix('blocks')}" if split.endswith("blocks") else f"--split {split}"
    )
    if not path.exists():
        raise UserError(f"{store.folder} has no split {split!r}: {path} is missing", again)
    assembly = read_model(path, Assembly, f"assemble it again: {again}")
    files = dict(assembly.files)
    if assembly.split != split or not _made_from(store, split).issubset(files):
        raise UserError(f"{path} is damaged: it is of another split, or lacks files", f"assemble it again: {again}")
    if (store.folder / REFINED).exists():
        files.setdefault(REFINED, "")  # the run was refined since
    for name, digest in files.items():
        file = store.folder / name
        if not file.is_file() or file_digest(file) != digest:
            raise UserError(
                f"{file} is not what the split {split} was assembled from: its digest differs",
                f"assemble it again: {again}",
            )
    return assembly.model_dump(mode="json")


def _made_from(store: RunStore, split: str) -> set[str]:
    """Return the files that every assembly of a split names."""
    paths = [store.folder / "config.json", *map(store.path, STAGES)]
    paths += [split_folder(store, split) / name for name in (CONTEXTS, QUESTIONS)]
    return {path.relative_to(store.folder).as_posix() for path in paths}


def assembled_splits(store: RunStore) -> list[str]:
    """Return the splits that a run has."""
    return sorted(path.parent.name for path in (store.folder / "splits").glob(f"*/{ASSEMBLY}"))
