"""The records of a benchmark: question types, options, and the two tables as Arrow schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from generation.records import QUESTION_TYPES

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

_LABEL = re.compile(r"^\(([a-z])\) ")


def option_letter(index: int) -> str:
    """Return the letter of an option, `a` for 0."""
    return chr(ord("a") + index)


def option_text(option: str) -> str:
    """Return an option without its label: `"(c) I see."` becomes `"I see."`."""
    return _LABEL.sub("", option, count=1)


def option_texts(row: Mapping[str, Any]) -> list[str]:
    """Return the options of a question row without their labels, in order."""
    return [option_text(option) for option in row["all_options"]]


def option_labels(row: Mapping[str, Any]) -> list[str]:
    """Return the labels of a question row's options: `["(a)", "(b)", …]`."""
    return [f"({option_letter(i)})" for i in range(len(row["all_options"]))]


def has_labels(options: Sequence[str]) -> bool:
    """Say whether options start with `(a) `, `(b) `, … in order, each followed by some text."""
    return all(
        (match := _LABEL.match(option)) is not None
        and match[1] == option_letter(i)
        and option_text(option).strip() != ""
        for i, option in enumerate(options)
    )


def shown_profile(messages: Sequence[Mapping[str, str]]) -> str:
    """Return the profile of the user that a history shows: its first system message, empty where it shows none."""
    return next((message["content"] for message in messages if message["role"] == "system"), "")


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
    pa.field("source_question_id", pa.string()),
)
"""Columns of generated data: what each option asserts, how that stands to the history (`current`, `outdated`, …),
whether it follows a stereotype, the updates among the evidence, and the question of the run that is asked here."""

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
