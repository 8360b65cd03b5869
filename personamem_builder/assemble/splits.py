"""The splits of a run: which there are, what they hold, and whether they still fit the run that they were made from."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from generation.errors import UserError
from generation.files import file_digest, replacing
from generation.reading import read_model
from generation.record_files import LineSpan, named_persona, persona_spans, read_records
from generation.run_stages import STAGES
from generation.store import RunStore
from personamem_builder.assemble.records import AskedQuestion, Assembly, ContextPlan
from personamem_builder.assemble.refined import REFINED
from personamem_builder.assemble.sizes import SIZES, Size

CONTEXTS: Final = "contexts.jsonl"
QUESTIONS: Final = "questions.jsonl"
_ASSEMBLY: Final = "assembly.json"
_CONFIG: Final = "config.json"
_CONTEXT: Final = re.compile(rb'"shared_context_id":"([^"]*)"')


def assembled_splits(store: RunStore) -> list[str]:
    """Return the splits that a run has: those of the paper first, then by number of sessions."""
    found = (path.parent.name for path in (store.folder / "splits").glob(f"*/{_ASSEMBLY}"))
    return sorted(found, key=_order)


def _order(split: str) -> tuple[int, int, str]:
    if split in SIZES:
        return (0, list(SIZES).index(split), split)
    number = split.removesuffix("blocks")
    return (1, int(number) if number.isdecimal() else 0, split)


def asked_questions(store: RunStore, split: str, span: LineSpan | None = None) -> Iterator[AskedQuestion]:
    """Yield the questions of a split, or those about a persona."""
    return read_records(_folder(store, split) / QUESTIONS, AskedQuestion, span)


def question_spans(store: RunStore, split: str) -> dict[int, LineSpan]:
    """Return where the questions about each persona lie, see `asked_questions`."""
    owners: dict[bytes, int] = {}

    def owner(line: bytes) -> int | None:
        persona_id, context_id = named_persona(line), _context_id(line)
        if persona_id is not None and context_id is not None:
            owners[context_id] = persona_id
        return persona_id

    persona_spans(_folder(store, split) / CONTEXTS, owner)
    return persona_spans(_folder(store, split) / QUESTIONS, lambda line: owners.get(_context_id(line) or b""))


def _context_id(line: bytes) -> bytes | None:
    match = _CONTEXT.search(line)
    return match[1] if match else None


def context_spans(store: RunStore, split: str) -> dict[int, LineSpan]:
    """Return where the contexts of each persona lie, see `context_plans`."""
    return persona_spans(_folder(store, split) / CONTEXTS)


def context_plans(store: RunStore, split: str, span: LineSpan) -> Iterator[ContextPlan]:
    """Yield the contexts of a persona in a split."""
    return read_records(_folder(store, split) / CONTEXTS, ContextPlan, span)


def read_assembly(store: RunStore, split: str) -> Assembly:
    """Read what a split was made from, and check that nothing of it has changed since.

    Raises:
        UserError: The split was not assembled, or a file is not as it was; it is named.
    """
    path = _folder(store, split) / _ASSEMBLY
    again = f"personamem assemble {store.folder} " + (
        f"--n-blocks {split.removesuffix('blocks')}" if split.endswith("blocks") else f"--split {split}"
    )
    if not path.exists():
        raise UserError(f"{store.folder} has no split {split!r}: {path} is missing", again)
    assembly = read_model(path, Assembly, f"assemble it again: {again}")
    files = dict(assembly.files)
    own = [_folder(store, split) / name for name in (CONTEXTS, QUESTIONS)]
    needed = {_CONFIG, *map(_stage_file, STAGES), *(file.relative_to(store.folder).as_posix() for file in own)}
    if assembly.split != split or not needed.issubset(files):
        raise UserError(f"{path} is damaged: it is of another split, or lacks files", f"assemble it again: {again}")
    if (store.folder / REFINED).exists():
        files.setdefault(REFINED, "")  # the run was refined since
    for name, digest in files.items():
        if _digest(store, name) != digest:
            raise UserError(
                f"{store.folder / name} is not what the split {split} was assembled from: its digest differs",
                f"assemble it again: {again}",
            )
    return assembly


def write_assembly(store: RunStore, size: Size, n_variants: int, new: Path) -> None:
    """Write what a split, whose files are in the folder `new`, was made from, so that a change can be noticed."""
    names = [_CONFIG, *map(_stage_file, STAGES), *([REFINED] if (store.folder / REFINED).exists() else [])]
    own = _folder(store, size.split).relative_to(store.folder)
    content = Assembly(
        **size._asdict(),
        n_variants=n_variants,
        files={name: _digest(store, name) for name in names}
        | {(own / name).as_posix(): file_digest(new / name) for name in (CONTEXTS, QUESTIONS)},
    )
    with replacing(new / _ASSEMBLY) as part:
        part.write_text(content.model_dump_json(indent=2) + "\n", encoding="utf-8")


@contextmanager
def replacing_splits(store: RunStore, splits: Sequence[str]) -> Iterator[Path]:
    """Give a folder for new splits; their files take the place of the old ones when the block ends well.

    Raises:
        UserError: The disk refuses.
    """
    new = store.folder / "splits" / ".new"
    shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
    try:
        yield new
        # All are whole and on the disk. A kill in here leaves files that `read_assembly` refuses as a mixture.
        for split in splits:
            _folder(store, split).mkdir(parents=True, exist_ok=True)
            for name in (_ASSEMBLY, CONTEXTS, QUESTIONS):
                (new / split / name).replace(_folder(store, split) / name)
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        raise UserError(f"{new.parent} cannot be written: {reason}", "the splits are as they were before") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if new.parent.is_dir() and not any(new.parent.iterdir()):
            new.parent.rmdir()


def _folder(store: RunStore, split: str) -> Path:
    return store.folder / "splits" / split


def _stage_file(stage: str) -> str:
    """Return what a stage file is called, also where it lies in shards: one after another they are it."""
    return f"stages/{stage}.jsonl"


def _digest(store: RunStore, name: str) -> str:
    """Return the sha256 of a file of a run; empty if it is not there."""
    stage = next((stage for stage in STAGES if name == _stage_file(stage)), None)
    files = [store.folder / name] if stage is None else [part.path(stage) for part in store.parts()]
    return file_digest(*files) if all(file.is_file() for file in files) else ""
