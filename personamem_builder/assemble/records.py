"""What assembling writes: the plan of each context, and the questions asked of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import ConfigDict, PositiveInt

from generation.records import Record


class Block(NamedTuple):
    """A conversation of a context.

    Attributes:
        kind: `session` of the user, or `filler`.
        id: Of the session or filler.
    """

    kind: Literal["session", "filler"]
    id: str


class ContextPlan(Record):
    """A shared context, without its texts.

    Attributes:
        shared_context_id: sha256 of the messages, as the official release computes it.
        persona_id: The user.
        variant: Which of the persona's contexts of this size it is.
        blocks: The conversations in order.
        num_tokens: Tokens of all messages.
    """

    shared_context_id: str
    persona_id: int
    variant: int
    blocks: tuple[Block, ...]
    num_tokens: int


class AskedQuestion(Record):
    """A question at a point of a context: the official columns but for texts, and where it comes from.

    Attributes:
        question_id: From the content, the context and the point.
        source_question_id: The question of the run.
        shared_context_id: The context.
        end_index_in_shared_context: The question follows `messages[:end_index]`.
        option_order: For each option as shown, its index among those of the question of the run.
        context_length_in_tokens: Tokens before the question, and its own.
        context_length_in_letters: Letters before the question.
        distance_to_ref_in_blocks: Sessions from the one with the reference event to the question; 1 for the last.
        distance_to_ref_in_tokens: Tokens from the reference event to the question, and its own.
        num_irrelevant_tokens: Tokens of fillers before the question.
        evidence_message_indices: Where the evidence stands in the context.
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
    """The content of `assembly.json`: the size of a split, and what it was made from.

    Attributes:
        split: Its name.
        n_blocks: See `sizes.Size`, as for the next three.
        max_tokens: See there.
        rows: See there.
        end_points: See there.
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
