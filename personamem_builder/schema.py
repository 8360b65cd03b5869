"""The records of a benchmark: question types, options, and the rows of the two tables, as types and Arrow schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, NotRequired

import pyarrow as pa
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from generation.records import QUESTION_TYPES, Question

SCHEMA_VERSION: Final = 1
"""Version of the two tables below; a breaking change raises it."""

SPLITS: Final = ("32k", "128k", "1M")
"""Splits of the official release, shortest first."""

_ALIASES: Final = {
    # Three generations of labels live side by side in the official files.
    "recalling_facts_mentioned_by_the_user": "recall_user_shared_facts",
    "identifying_new_things_not_mentioned_by_the_user": "suggest_new_ideas",
    "recalling_the_latest_user_preferences": "acknowledge_latest_user_preferences",
    "acknowledge_latest_preferences": "acknowledge_latest_user_preferences",
    "tracking_the_full_sequence_of_preference_updates": "track_full_preference_evolution",
    "track_full_preference_updates": "track_full_preference_evolution",
    "recalling_the_reasons_behind_previous_updates": "revisit_reasons_behind_preference_updates",
    "recommendation_aligned_with_users_latest_preferences": "provide_preference_aligned_recommendations",
    "generalizing_past_reasons_in_memory_to_new_scenarios": "generalize_to_new_scenarios",
    "generalizing_to_new_scenarios": "generalize_to_new_scenarios",
}
QUESTION_TYPE_ALIASES: Final[Mapping[str, str]] = {**{t: t for t in QUESTION_TYPES}, **_ALIASES}
"""Every label seen in a release, and the canonical type it stands for."""

SHORT_TYPES: Final[Mapping[str, str]] = {
    "recall_user_shared_facts": "facts",
    "suggest_new_ideas": "new ideas",
    "acknowledge_latest_user_preferences": "latest",
    "track_full_preference_evolution": "evolution",
    "revisit_reasons_behind_preference_updates": "reasons",
    "provide_preference_aligned_recommendations": "aligned",
    "generalize_to_new_scenarios": "generalize",
}
"""What the seven question types are called where there is little room."""


MIXED: Final = "mixed"
"""The telling of a question whose evidence is told in several ways."""

ROLES: Final = ("system", "user", "assistant")
"""Who a message of a history may be from."""


class Message(TypedDict):
    """A message of a history; `role` is one of `ROLES`."""

    role: str
    content: str


class QuestionRow(TypedDict):
    """A row of `QUESTION_SCHEMA`; a question's context is `messages[:end_index_in_shared_context]`.

    Columns that say how a question stands to its context are absent where it is asked in none. Those that not every
    dataset has are the columns of `OPTIONAL_QUESTION_FIELDS` and `GENERATED_QUESTION_FIELDS`, and the `context` that
    `load_dataset` adds.
    """

    persona_id: int
    question_id: str
    question_type: str
    topic: str
    context_length_in_tokens: NotRequired[int]
    context_length_in_letters: NotRequired[int]
    distance_to_ref_in_blocks: NotRequired[int]
    distance_to_ref_in_tokens: NotRequired[int]
    num_irrelevant_tokens: NotRequired[int]
    distance_to_ref_proportion_in_context: NotRequired[float]
    user_question_or_message: str
    correct_answer: str
    all_options: list[str]
    shared_context_id: NotRequired[str]
    end_index_in_shared_context: NotRequired[int]
    source_question_type: str
    answer_index: int
    evidence_message_indices: NotRequired[list[int]]
    evidence_event_ids: list[str]
    stereotypical: NotRequired[str | None]
    groundtruth_info: NotRequired[str | None]
    option_states: NotRequired[list[list[str]]]
    option_roles: NotRequired[list[str]]
    option_stereotypical: NotRequired[list[bool]]
    updates_spanned: NotRequired[int]
    telling: NotRequired[str]
    evidence_tellings: NotRequired[list[str]]
    source_question_id: NotRequired[str]
    context: NotRequired[list[Message]]


class ContextRow(TypedDict):
    """A row of `CONTEXT_SCHEMA`."""

    shared_context_id: str
    persona_id: int
    messages: list[Message]
    session_starts: list[int]
    session_topics: list[str]
    session_dates: list[str]
    num_tokens: int


AnswerOutcome = Literal["answered", "refused", "cut", "failed"]
"""`answered`: whole. `refused`: declined by the model, or withheld by a filter. `cut`: at the longest reply.
`failed`: no answer came within all tries; says nothing about the model."""


class Prediction(TypedDict):
    """A line of `predictions_<date>.jsonl`: a question as one model answered it, see `evaluation.predictions`."""

    task: str
    doc_id: int
    question_id: str
    persona_id: int
    question_type: str
    shared_context_id: str
    answer: str
    n_options: int
    outcome: AnswerOutcome
    finish_reason: str | None
    predictions: dict[str, str | None]
    credits: dict[str, float]
    skipped: bool
    truncated: bool
    response: NotRequired[str | None]
    option_logprobs: NotRequired[list[float] | None]
    option_tokens: NotRequired[list[int] | None]
    # Of answers of the chat endpoints that are asked by our own client, see `usage.AnswerUsage`.
    seconds: NotRequired[float | None]
    prompt_tokens: NotRequired[int | None]
    reply_tokens: NotRequired[int | None]
    cached_tokens: NotRequired[int | None]
    # Of letters that such an endpoint scored: the probability that is on none of them.
    unseen: NotRequired[float]


_LABEL = re.compile(r"^\(([a-z])\) ")


def option_letter(index: int) -> str:
    """Return the letter of an option, `a` for 0."""
    return chr(ord("a") + index)


def option_index(letter: str) -> int:
    """Return the index of the option with a letter, 0 for `a`."""
    return ord(letter) - ord("a")


def best_letter(values: Sequence[float]) -> str:
    """Return the letter of the option with the highest value, the first of those that tie."""
    return option_letter(max(range(len(values)), key=values.__getitem__))


def option_letters(number: int) -> list[str]:
    """Return the letters of so many options: `["a", "b", …]`."""
    return [option_letter(index) for index in range(number)]


def option_label(index: int) -> str:
    """Return the label of an option, `(a)` for 0."""
    return f"({option_letter(index)})"


def option_text(option: str) -> str:
    """Return an option without its label: `"(c) I see."` becomes `"I see."`."""
    return _LABEL.sub("", option, count=1)


# Task files, of users too, name the two that follow.


def option_labels(row: QuestionRow) -> list[str]:
    """Return the labels of a question row's options: `["(a)", "(b)", …]`."""
    return [option_label(index) for index in range(len(row["all_options"]))]


def option_texts(row: QuestionRow) -> list[str]:
    """Return the options of a question row without their labels, in order."""
    return [option_text(option) for option in row["all_options"]]


def has_labels(options: Sequence[str]) -> bool:
    """Say whether options start with `(a) `, `(b) `, … in order, each followed by some text."""
    return all(
        (match := _LABEL.match(option)) is not None
        and match[1] == option_letter(i)
        and option_text(option).strip() != ""
        for i, option in enumerate(options)
    )


def question_columns(question: Question, option_order: Sequence[int] | None = None) -> QuestionRow:
    """Return what a row says of a question of a run, wherever it is asked; its options get their labels here.

    Args:
        question: The question.
        option_order: For each option as shown, its index among those of the question; as they stand by default.
    """
    order = range(len(question.options)) if option_order is None else option_order
    options = [question.options[i] for i in order]
    answer = order.index(question.answer_index)
    return {
        "persona_id": question.persona_id,
        "question_id": question.question_id,
        "question_type": question.question_type,
        "topic": question.topic,
        "user_question_or_message": question.message,
        "correct_answer": option_label(answer),
        "all_options": [f"{option_label(i)} {option.text}" for i, option in enumerate(options)],
        "source_question_type": question.question_type,
        "answer_index": answer,
        "evidence_event_ids": list(question.evidence_event_ids),
        "option_states": [list(option.states) for option in options],
        "option_roles": [option.role for option in options],
        "option_stereotypical": [option.stereotypical for option in options],
        "updates_spanned": question.updates_spanned,
        "telling": _telling(question.evidence_tellings),
        "evidence_tellings": list(question.evidence_tellings),
        "source_question_id": question.question_id,
    }


def _telling(tellings: Sequence[str]) -> str:
    return tellings[0] if len(set(tellings)) == 1 else MIXED


def table_order(row: QuestionRow) -> tuple[str, int, str]:
    """Return what questions are sorted by, so that those of one context, and of one point in it, stand together."""
    return row["shared_context_id"], row["end_index_in_shared_context"], row["question_id"]


def shown_profile(messages: Sequence[Message]) -> str:
    """Return the profile of the user that a history shows: its first system message, empty where it shows none."""
    return next((message["content"] for message in messages if message["role"] == "system"), "")


class NumberedSession(NamedTuple):
    """A session of a shared context, as people are shown it.

    Attributes:
        start: Index of its first message.
        number: From 1, fillers not counted; 0 for a filler.
        topic: Empty for a filler, or where the source does not say.
        date: As `topic`.
    """

    start: int
    number: int
    topic: str
    date: str


def numbered_sessions(context: ContextRow) -> list[NumberedSession]:
    """Return the sessions of a shared context; in one that names topics, a session without a topic is a filler."""
    known = any(context["session_topics"])
    number = 0
    sessions = []
    for start, topic, date in zip(
        context["session_starts"], context["session_topics"], context["session_dates"], strict=True
    ):
        is_filler = known and not topic
        number += not is_filler
        sessions.append(NumberedSession(start, 0 if is_filler else number, topic, date))
    return sessions


def evidence_events(row: QuestionRow) -> dict[int, list[str]]:
    """Return the ids of the events that each message of the evidence tells, by the index of the message."""
    told: dict[int, list[str]] = {}
    for index, event_id in zip(row["evidence_message_indices"] or (), row["evidence_event_ids"] or (), strict=True):
        told.setdefault(index, []).append(event_id)
    return told


QUESTION_SCHEMA: Final = pa.schema(
    [
        # The official columns, in the official order.
        ("persona_id", pa.int32()),
        ("question_id", pa.string()),
        ("question_type", pa.string()),
        ("topic", pa.string()),
        ("context_length_in_tokens", pa.int32()),
        ("context_length_in_letters", pa.int32()),
        ("distance_to_ref_in_blocks", pa.int32()),
        ("distance_to_ref_in_tokens", pa.int32()),
        ("num_irrelevant_tokens", pa.int32()),
        ("distance_to_ref_proportion_in_context", pa.float32()),
        ("user_question_or_message", pa.string()),
        ("correct_answer", pa.string()),
        ("all_options", pa.list_(pa.string())),
        ("shared_context_id", pa.string()),
        ("end_index_in_shared_context", pa.int32()),
        # Ours.
        ("source_question_type", pa.string()),
        ("answer_index", pa.int8()),
        ("evidence_message_indices", pa.list_(pa.int32())),
        ("evidence_event_ids", pa.list_(pa.string())),
    ]
)
"""A row per question. A question's context is `messages[:end_index_in_shared_context]` of its shared context."""

COUNT_COLUMNS: Final = tuple(field.name for field in QUESTION_SCHEMA if field.type == pa.int32())
"""Columns of questions that hold a whole number from 0 up."""

OPTIONAL_QUESTION_FIELDS: Final = (
    pa.field("stereotypical", pa.string()),
    pa.field("groundtruth_info", pa.string()),
)
"""Columns that some official files carry; a dataset has them, null where unknown, when any of its files has."""

GENERATED_QUESTION_FIELDS: Final = (
    pa.field("option_states", pa.list_(pa.list_(pa.string()))),
    pa.field("option_roles", pa.list_(pa.string())),
    pa.field("option_stereotypical", pa.list_(pa.bool_())),
    pa.field("updates_spanned", pa.int32()),
    pa.field("telling", pa.string()),
    pa.field("evidence_tellings", pa.list_(pa.string())),
    pa.field("source_question_id", pa.string()),
)
"""Columns of generated data: what each option asserts, how that stands to the history (`current`, `outdated`, …),
whether it follows a stereotype, the updates among the evidence, how the evidence is told (as a whole, and event by
event), and the question of the run that is asked here."""

CONTEXT_SCHEMA: Final = pa.schema(
    [
        ("shared_context_id", pa.string()),
        ("persona_id", pa.int32()),
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("session_starts", pa.list_(pa.int32())),
        ("session_topics", pa.list_(pa.string())),
        ("session_dates", pa.list_(pa.string())),
        ("num_tokens", pa.int32()),
    ]
)
"""A row per shared context; the three `session_…` lists have one entry a session, `""` for what is unknown."""
