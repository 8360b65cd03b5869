"""The files of a refined run: after a kill they are as before, or say what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from generation.errors import UserError
from generation.files import file_digest
from generation.record_files import writing_lines
from generation.store import RunStore
from personamem_builder.assemble.refined import REFINED, Refined, find_refined
from personamem_builder.refine.drafts import QuestionDraft

MADE: Final = "questions_made.jsonl"
"""The questions as they were made, where some of them are in other words now."""


class RefinementState(NamedTuple):
    """What an earlier refinement left.

    Attributes:
        made: Where the questions as they were made lie.
        refined: What was decided about them; None if nothing was.
        is_whole: Whether the questions are those that were decided on.
        is_stale: Whether there is a `refined.json` that is of other questions.
    """

    made: Path
    refined: Refined | None
    is_whole: bool
    is_stale: bool


def read_state(store: RunStore) -> RefinementState:
    """Find out what an earlier refinement left.

    Raises:
        UserError: The run has no questions, or the files of the refinement are damaged.
    """
    questions, made = store.finished("questions"), store.folder / MADE
    refined, now = find_refined(store), file_digest(questions)
    if refined is None or now not in (refined.made, refined.result):
        return RefinementState(questions, None, is_whole=False, is_stale=refined is not None)
    if now == refined.made:
        return RefinementState(questions, refined, is_whole=now == refined.result, is_stale=False)
    if not made.exists() or file_digest(made) != refined.made:
        raise UserError(
            f"{made} is not what it was: the questions from before personamem refine",
            f"restore it; or remove {store.folder / REFINED}, to go on from the questions as they are",
        )
    return RefinementState(made, refined, is_whole=True, is_stale=False)


def commit(store: RunStore, made: Path, drafts: Sequence[QuestionDraft], refined: Refined | None) -> None:
    """Write what was decided.

    At every moment the questions are those that were made, or those that `refined.json` is of.

    Args:
        store: The run.
        made: Where the questions as they were made lie.
        drafts: Those as they are to be.
        refined: What was decided; None for nothing: the questions are then as they were made.

    Raises:
        UserError: A file cannot be written.
    """
    questions = store.path("questions")
    original, now = made.read_bytes(), file_digest(questions)
    if refined is not None and refined.result != refined.made and made == questions:
        _write(store.folder / MADE, [original])
    if now != file_digest(made) and (refined is None or now != refined.result):
        _write(questions, [original])
    if refined is None:
        for name in (REFINED, MADE):
            (store.folder / name).unlink(missing_ok=True)
        return
    _write(store.folder / REFINED, [refined.model_dump_json(indent=1).encode(), b"\n"])
    if now != refined.result:
        _write(questions, [draft.line for draft in drafts])


def forget(store: RunStore) -> bool:
    """Make the questions again what they were before `personamem refine`, and remove what it decided.

    Returns:
        Whether there was anything to forget.

    Raises:
        UserError: The files of the refinement are damaged, or a file cannot be written.
    """
    if not (store.folder / REFINED).exists():
        return False
    commit(store, read_state(store).made, (), None)
    return True


def _write(path: Path, lines: Sequence[bytes]) -> None:
    with writing_lines(path) as write:
        for line in lines:
            write(line)
