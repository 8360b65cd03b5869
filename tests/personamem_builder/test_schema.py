from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from generation.records import QUESTION_TYPES
from personamem_builder.schema import (
    COUNT_COLUMNS,
    QUESTION_SCHEMA,
    QUESTION_TYPE_ALIASES,
    ContextRow,
    has_labels,
    numbered_sessions,
    option_index,
    option_labels,
    option_letter,
    option_letters,
    option_text,
    option_texts,
)

TEXTS = st.lists(st.text(min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=9)


def labelled(texts: list[str]) -> list[str]:
    return [f"({option_letter(i)}) {text}" for i, text in enumerate(texts)]


# Three generations of labels, of which the official files mix two (issues 19 and 27 of the original project).
@pytest.mark.parametrize(
    ("label", "question_type"),
    [
        ("recalling_facts_mentioned_by_the_user", "recall_user_shared_facts"),
        ("identifying_new_things_not_mentioned_by_the_user", "suggest_new_ideas"),
        ("recalling_the_latest_user_preferences", "acknowledge_latest_user_preferences"),
        ("acknowledge_latest_preferences", "acknowledge_latest_user_preferences"),
        ("tracking_the_full_sequence_of_preference_updates", "track_full_preference_evolution"),
        ("recalling_the_reasons_behind_previous_updates", "revisit_reasons_behind_preference_updates"),
        (
            "recommendation_aligned_with_users_latest_preferences",
            "provide_preference_aligned_recommendations",
        ),
        ("generalizing_past_reasons_in_memory_to_new_scenarios", "generalize_to_new_scenarios"),
        ("generalizing_to_new_scenarios", "generalize_to_new_scenarios"),
        *((question_type, question_type) for question_type in QUESTION_TYPES),
    ],
)
def test_every_label_seen_in_a_release_maps_to_a_type_of_the_paper(label: str, question_type: str) -> None:
    assert QUESTION_TYPE_ALIASES[label] == question_type


def test_the_aliases_cover_the_seven_types_and_nothing_else() -> None:
    assert len(QUESTION_TYPES) == 7
    assert set(QUESTION_TYPE_ALIASES.values()) == set(QUESTION_TYPES)


def test_columns_of_counts() -> None:
    assert len(COUNT_COLUMNS) == 7
    assert {COUNT_COLUMNS[0], COUNT_COLUMNS[-1]} == {"persona_id", "end_index_in_shared_context"}


def test_the_question_table_starts_with_the_official_columns_in_their_order(excerpt: Path) -> None:
    with (excerpt / "questions_32k.csv").open(newline="", encoding="utf-8") as file:
        official = next(csv.reader(file))
    assert QUESTION_SCHEMA.names[: len(official)] == official


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("(c) I see.", "I see."),
        ("(a) (b) is wrong", "(b) is wrong"),
        ("(a) two\nlines", "two\nlines"),
        ("no label", "no label"),
        ("(A) upper case is no label", "(A) upper case is no label"),
        ("(a)no blank is no label", "(a)no blank is no label"),
        ("text (a) inside", "text (a) inside"),
    ],
)
def test_option_text(option: str, text: str) -> None:
    assert option_text(option) == text


def test_the_options_of_a_row() -> None:
    row = {"all_options": ["(a) tea", "(b) coffee", "(c) water"]}
    assert option_texts(row) == ["tea", "coffee", "water"]
    assert option_labels(row) == ["(a)", "(b)", "(c)"]
    assert option_letters(3) == ["a", "b", "c"]
    assert [option_index(letter) for letter in option_letters(26)] == list(range(26))


@given(TEXTS)
@example(["(a) tea", "(a) (b) tea"])
@example(["\n.", " x"])
def test_labels_are_recognised_and_taken_off_again(texts: list[str]) -> None:
    options = labelled(texts)
    assert has_labels(options)
    assert option_texts({"all_options": options}) == texts
    assert [option[:3] for option in options] == option_labels({"all_options": options})


@given(TEXTS, st.data())
def test_labels_must_be_in_order(texts: list[str], data: st.DataObject) -> None:
    options = labelled(texts)
    shuffled = data.draw(st.permutations(options))
    assert has_labels(shuffled) == (shuffled == options)


@pytest.mark.parametrize(
    "options",
    [
        ["tea", "coffee"],
        ["(a) tea", "coffee"],
        ["(a) tea", "(a) coffee"],
        ["(a) tea", "(c) coffee"],
        ["(b) tea", "(c) coffee"],
        ["(A) tea", "(B) coffee"],
        ["(a)tea", "(b)coffee"],
        [" (a) tea", "(b) coffee"],
        ["(a) ", "(b) coffee"],
        ["(a) \t", "(b) coffee"],
        [""],
    ],
)
def test_what_is_not_labelled(options: list[str]) -> None:
    assert not has_labels(options)


def context(topics: list[str], dates: list[str]) -> ContextRow:
    return {
        "shared_context_id": "c",
        "persona_id": 0,
        "messages": [],
        "session_starts": list(range(0, 2 * len(topics), 2)),
        "session_topics": topics,
        "session_dates": dates,
        "num_tokens": 0,
    }


def test_sessions_are_numbered_without_fillers() -> None:
    sessions = numbered_sessions(context(["travel", "", "music"], ["2020-01-01", "", "2020-02-01"]))
    assert [tuple(session) for session in sessions] == [
        (0, 1, "travel", "2020-01-01"),
        (2, 0, "", ""),
        (4, 2, "music", "2020-02-01"),
    ]


def test_where_no_topic_is_known_no_session_is_a_filler() -> None:
    assert [session.number for session in numbered_sessions(context(["", ""], ["", ""]))] == [1, 2]
