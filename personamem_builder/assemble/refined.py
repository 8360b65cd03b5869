"""What `personamem refine` decided about the questions of a run: which were reworded, which are left out, and why."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ValidationError

from generation.errors import UserError
from generation.files import file_digest
from generation.reading import describe
from generation.records import Record
from generation.store import RunStore

REFINED: Final = "refined.json"

Format = Literal["personamem-refined-1"]
Reason = Literal["probe", "no_context"]
"""Why a question is left out: probes go on finding its answer, or a model finds it without the history."""

REASONS: Final[tuple[Reason, ...]] = ("probe", "no_context")


class Fate(Record):
    """What became of a question.

    Attributes:
        rewritten: The rounds in which it was put into other words.
        dropped: Why it is left out; None if it is not.
        votes: Whether each answer of a model without the history was right; None for one that could not be used.
    """

    rewritten: tuple[int, ...] = ()
    dropped: Reason | None = None
    votes: tuple[bool | None, ...] = ()


class Count(Record):
    """How many questions were made and rewritten, dropped and kept; what was made is what was dropped and kept."""

    made: int
    rewritten: int
    dropped: dict[Reason, int]
    kept: int


class Funnel(Record):
    """How many questions of the run, and of each type, went where."""

    all: Count
    types: dict[str, Count]


class Filtered(Record):
    """How many questions a model was asked without the history, and how many it answered too often to keep them.

    Attributes:
        by_chance: How many of them would fall if each answer were a guess of its own.
        by_taste: How many would fall to a model that has favourites among the options for no good reason: a third of
            those questions of which it chose one wrong option so often.
    """

    asked: int
    dropped: int
    by_chance: float
    by_taste: float


class NoContext(Record):
    """What a model answered without the history, in all and by question type.

    Attributes:
        votes: Answers to each question.
        at_least: Right answers to a question that drop it.
        unusable: Answers that could not be used.
    """

    model: str
    votes: int
    at_least: int
    unusable: int
    all: Filtered
    types: dict[str, Filtered]


class Refined(Record):
    """The content of `refined.json`: what decided, and what became of each question, by its id.

    Attributes:
        made: sha256 of the questions as they were made.
        result: sha256 of the questions that belong to this: `stages/questions.jsonl`.
        missed_at_first: The limits of probes that the questions missed as they were made.
        missed_at_last: Those that the kept ones miss.
        unwritten: How often a backend gave no usable new words for a question.
        no_context: None if no model was asked.
    """

    format: Format = "personamem-refined-1"
    made: str
    result: str
    settings: dict[str, Any]
    missed_at_first: tuple[str, ...]
    missed_at_last: tuple[str, ...]
    unwritten: int
    funnel: Funnel
    no_context: NoContext | None
    questions: dict[str, Fate]

    def dropped(self) -> frozenset[str]:
        """Return the ids of the questions that are left out."""
        return frozenset(question_id for question_id, fate in self.questions.items() if fate.dropped)

    def published(self) -> dict[str, Any]:
        """Return what a manifest says of it."""
        rest = self.model_dump(mode="json", include={"no_context", "missed_at_first", "missed_at_last"})
        return self.funnel.model_dump(mode="json") | rest


def find_refined(store: RunStore) -> Refined | None:
    """Read what was decided about the questions of a run, whether or not these are still there.

    Raises:
        UserError: The file is damaged.
    """
    path = store.folder / REFINED
    try:
        return Refined.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        reason = describe(error) if isinstance(error, ValidationError) else error.strerror
        raise UserError(f"{path} cannot be read: {reason}", _again(store)) from error


def read_refined(store: RunStore) -> Refined | None:
    """Read what was decided about the questions that a run has; None if nothing was.

    Raises:
        UserError: The file is damaged, or speaks of other questions.
    """
    refined = find_refined(store)
    if refined is not None and file_digest(store.finished("questions")) != refined.result:
        raise UserError(
            f"{store.folder / REFINED} is of other questions than {store.path('questions')} has: they were made anew, "
            "or personamem refine was interrupted",
            _again(store),
        )
    return refined


def _again(store: RunStore) -> str:
    return f"personamem refine {store.folder}; or remove {REFINED}, to take the questions as they are"
