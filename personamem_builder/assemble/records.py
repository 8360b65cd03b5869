"""What assembling writes: the plan of each context, and the questions asked of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import ConfigDict, PositiveInt

from generation.records import Record


class Block(NamedTuple):
    """A conversation of a context, with the id of the session or filler."""

    kind: Literal["session", "filler"]
    id: str


class ContextPlan(Record):
    """A shared context, without its texts; `variant` says which of its persona's contexts of this size it is.

    Its id is the sha256 of the messages, as the official release computes it.
    """

    shared_context_id: str
    persona_id: int
    variant: int
    blocks: tuple[Block, ...]
    num_tokens: int


class AskedQuestion(Record):
    """A question at a point of a context: the official columns but for texts, and where it comes from.

    For each option as shown, `option_order` has its index among those of the question of the run. Distances are from
    the reference event to the question, in tokens with its own, and in sessions, 1 being the last.
    """

    question_id: str
    source_question_id: str
    shared_context_id: str
    end_index_in_shared_context: int
    option_order: tuple[int, ...]
    context_length_in_tokens: int
    context_length_in_letters: int
    distance_to_ref_in_blocks: int
    distance_to_ref_in_tokens: int
    num_irrelevant_tokens: int
    evidence_message_indices: tuple[int, ...]


class Assembly(Record):
    """The content of `assembly.json`: the size of a split (see `sizes.Size`), and what it was made from.

    Attributes:
        n_variants: Contexts of each persona.
        files: The sha256 of each file, by its path in the folder of the run.
    """

    model_config = ConfigDict(strict=True)

    split: str
    n_blocks: PositiveInt
    max_tokens: PositiveInt | None
    rows: PositiveInt
    end_points: PositiveInt
    n_variants: PositiveInt
    files: dict[str, str]
