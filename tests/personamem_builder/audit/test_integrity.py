"""Whether a split is whole."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from official_splits import official_questions
from small_contexts import context_row

from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.integrity import integrity_findings
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.schema import ContextRow

COUNTS = (
    "source_faults",
    "duplicate_ids",
    "missing_contexts",
    "orphan_contexts",
    "wrong_persona",
    "end_index",
    "letters",
    "order",
    "evidence_after_end",
    "evidence_empty",
    "tokens",
    "distance",
)
SHARES = ("repeated_questions", "across_personas", "distance_coverage")


@dataclass
class Parts:
    """A whole split that a test may spoil: two users with a context of 12 messages each, ten questions of each."""

    contexts: list[ContextRow] = field(default_factory=lambda: [_context(persona) for persona in (0, 1)])
    rows: list[dict[str, Any]] = field(default_factory=lambda: [_row(i // 10, i % 10) for i in range(20)])
    source_faults: list[str] = field(default_factory=list)

    @property
    def split(self) -> AuditedSplit:
        return AuditedSplit("32k", self.rows, lambda: iter(self.contexts), self.source_faults)


def _context(persona: int) -> ContextRow:
    messages = [{"role": ("user", "assistant")[i % 2], "content": "x" * (i + 1)} for i in range(12)]
    return context_row(messages, f"context {persona}", persona)


def _row(persona: int, number: int) -> dict[str, Any]:
    end = number + 3
    return {
        "persona_id": persona,
        "question_id": f"q{persona}{number}",
        "question_type": "recall_user_shared_facts",
        "topic": "writing",
        "user_question_or_message": f"What of {number}, said user {persona}?",
        "correct_answer": "(b)",
        "answer_index": 1,
        "all_options": [f"({letter}) {letter} {number}" for letter in "abcd"],
        "option_states": [[letter] for letter in "abcd"],
        "shared_context_id": f"context {persona}",
        "end_index_in_shared_context": end,
        "context_length_in_tokens": 1000,
        "context_length_in_letters": end * (end + 1) // 2,
        "distance_to_ref_in_tokens": 100 * number + 50,
        "distance_to_ref_proportion_in_context": number / 10 + 0.05,
        "evidence_message_indices": [0, end - 1],
        "evidence_event_ids": ["e0", "e1"],
    }


def found(split: AuditedSplit) -> dict[str, Finding]:
    findings = {finding.check.removeprefix("integrity."): finding for finding in integrity_findings(split)}
    assert set(findings) == {*COUNTS, *SHARES}
    assert all(finding.split == split.name and finding.slice == "all" for finding in findings.values())
    return findings


def values(split: AuditedSplit) -> dict[str, float | str | None]:
    """Return the value of each check, or what it needs."""
    return {check: finding.needs or finding.value for check, finding in found(split).items()}


def test_a_whole_split_has_no_fault() -> None:
    findings = found(Parts().split)
    assert {check: finding.value for check, finding in findings.items()} == dict.fromkeys((*COUNTS, *SHARES), 0)
    assert not any(finding.needs or finding.examples for finding in findings.values())
    assert {check: finding.n for check, finding in findings.items()} == dict.fromkeys((*COUNTS, *SHARES), 20) | {
        "orphan_contexts": 2
    }


# --- planted faults

Spoil = Callable[[Parts], None]


def cells(*places: int, **changed: Any) -> Spoil:
    """Change cells of some questions."""

    def spoil(parts: Parts) -> None:
        for place in places:
            parts.rows[place] |= changed

    return spoil


def elsewhere(parts: Parts) -> None:
    for row in parts.rows[:10]:  # all of a context, so that it is no orphan
        row["shared_context_id"] = "another context"
    del parts.contexts[0]


def orphan(parts: Parts) -> None:
    parts.contexts.append({**parts.contexts[0], "shared_context_id": "lonely"})


def shorter_context(parts: Parts) -> None:
    parts.contexts[1] = {**parts.contexts[1], "messages": parts.contexts[1]["messages"][:11]}


def other_text(parts: Parts) -> None:
    first, *others = parts.contexts[0]["messages"]
    parts.contexts[0] = {**parts.contexts[0], "messages": [first | {"content": "xyz"}, *others]}


def swapped(parts: Parts) -> None:
    parts.rows[4], parts.rows[5] = parts.rows[5], parts.rows[4]


def two_questions_again(parts: Parts) -> None:
    for target, source in ((3, 1), (7, 6)):
        for column in ("user_question_or_message", "all_options"):
            parts.rows[target][column] = parts.rows[source][column]
    # The same options in another order, after other letters.
    parts.rows[7]["all_options"] = ["(a) c 6", "(b) a 6", "(c) d 6", "(d) b 6"]


def asked_of_both(parts: Parts) -> None:
    parts.rows[12]["user_question_or_message"] = parts.rows[2]["user_question_or_message"]


FAULTS: dict[str, tuple[str, Spoil, float, tuple[str, ...]]] = {
    "a fault of the source": ("source_faults", lambda parts: parts.source_faults.append("row 3"), 1, ("row 3",)),
    "an id thrice": ("duplicate_ids", cells(4, 5, question_id="q03"), 2, ("q03", "q03")),
    "a context that is not there": ("missing_contexts", elsewhere, 10, ("q00", "q01", "q02", "q03", "q04")),
    "a context without questions": ("orphan_contexts", orphan, 1, ("lonely",)),
    "the context of somebody else": ("wrong_persona", cells(2, persona_id=7), 1, ("q02",)),
    "an end at nothing": ("end_index", cells(0, end_index_in_shared_context=0, evidence_message_indices=[]), 1, ()),
    "an end before the start": ("end_index", cells(0, end_index_in_shared_context=-2), 1, ()),
    "an end past the context": ("end_index", shorter_context, 1, ("q19",)),
    "letters of another text": ("letters", other_text, 10, ("q00", "q01", "q02", "q03", "q04")),
    "one letter too many": ("letters", cells(6, context_length_in_letters=46), 1, ("q06",)),
    "an order of its own": ("order", swapped, 1, ("q04",)),
    "evidence in the next message": ("evidence_after_end", cells(3, evidence_message_indices=[0, 6]), 1, ("q03",)),
    "evidence before the context": ("evidence_after_end", cells(3, evidence_message_indices=[-1]), 1, ("q03",)),
    "no message with the evidence": ("evidence_empty", cells(3, evidence_message_indices=[]), 1, ("q03",)),
    "no event": ("evidence_empty", cells(3, evidence_event_ids=[]), 1, ("q03",)),
    "a longer context than the split": (
        "tokens",
        cells(9, context_length_in_tokens=32_001, distance_to_ref_in_tokens=30_401),
        1,
        ("q09",),
    ),
    "farther than the start": (
        "distance",
        cells(9, distance_to_ref_in_tokens=1001, distance_to_ref_proportion_in_context=1.001),
        1,
        ("q09",),
    ),
    "another proportion": ("distance", cells(5, distance_to_ref_proportion_in_context=0.5502), 1, ("q05",)),
    "a question again": ("repeated_questions", two_questions_again, 2 / 20, ("q03", "q07")),
    "a question of two users": ("across_personas", asked_of_both, 2 / 20, ("q02", "q12")),
    "no question from far away": (
        "distance_coverage",
        cells(*(7, 8, 9, 17, 18, 19), distance_to_ref_in_tokens=650, distance_to_ref_proportion_in_context=0.65),
        3 / 10,
        (),
    ),
}
ALSO = {
    # Without its end it has no message before it that could be evidence, and none at all is a fault of its own.
    "an end at nothing": "evidence_empty",
    "an end before the start": "evidence_after_end",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_its_check_alone(name: str) -> None:
    check, spoil, value, examples = FAULTS[name]
    parts = Parts()
    spoil(parts)
    findings = found(parts.split)
    faulty = {check: finding.value for check, finding in findings.items() if finding.value != 0}
    faulty.pop(ALSO.get(name, ""), None)
    assert faulty == {check: pytest.approx(value)}
    if examples:
        assert findings[check].examples == examples


def test_the_notes_give_the_counts() -> None:
    parts = Parts()
    two_questions_again(parts)
    asked_of_both(parts)
    findings = found(parts.split)
    assert findings["repeated_questions"].note.startswith("18 distinct questions")
    assert findings["across_personas"].note.startswith("2 of 20 ")
    assert findings["distance_coverage"].note.endswith(": 2, 2, 2, 2, 2, 2, 2, 2, 2, 2")


@pytest.mark.parametrize(
    ("proportion", "stratum"), [(0.0, 0), (0.0999, 0), (0.1, 1), (0.95, 9), (1.0, 9)], ids=lambda value: str(value)
)
def test_the_strata_of_the_distance(proportion: float, stratum: int) -> None:
    parts = Parts()
    parts.rows = [_row(0, 0) | {"distance_to_ref_proportion_in_context": proportion}]
    finding = found(parts.split)["distance_coverage"]
    assert finding.value == 0.9
    counts = [int(number) for number in re.findall(r"\d+", finding.note.rpartition(":")[2])]
    assert counts == [int(i == stratum) for i in range(10)]


@pytest.mark.parametrize("distance", [92_674, 92_666])
def test_a_proportion_may_be_rounded_to_a_hundredth_of_a_percent(distance: int) -> None:
    parts = Parts()
    cells(
        0,
        distance_to_ref_in_tokens=distance,
        context_length_in_tokens=100_000,
        distance_to_ref_proportion_in_context=0.9267,
    )(parts)
    assert found(replace(parts.split, name="1M"))["distance"].value == 0


@given(st.randoms(use_true_random=False), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_repeats_depend_neither_on_the_order_of_questions_nor_on_that_of_options(
    rng: random.Random, asked: list[tuple[int, int]]
) -> None:
    def row(number: int, persona: int, question: int) -> dict[str, Any]:
        texts = rng.sample([f"{letter} {question}" for letter in "abcd"], 4)
        options = [f"({letter}) {text}" for letter, text in zip("abcd", texts, strict=True)]
        return _row(persona, question) | {
            "question_id": str(number),
            "user_question_or_message": str(question),
            "all_options": options,
        }

    findings = found(AuditedSplit("32k", [row(i, *pair) for i, pair in enumerate(asked)]))
    assert findings["repeated_questions"].value == (len(asked) - len(set(asked))) / len(asked)
    both = [question for _, question in asked if len({p for p, q in asked if q == question}) > 1]
    assert findings["across_personas"].value == len(both) / len(asked)


# --- what a source lacks


def test_users_who_share_one_id_are_told_apart_by_the_profile_that_their_history_shows() -> None:
    parts = Parts()
    for number, context in enumerate(parts.contexts):
        messages = [{"role": "system", "content": "ab"[number]}, *context["messages"][1:]]
        parts.contexts[number] = {**context, "messages": messages}
    assert found(parts.split)["wrong_persona"].value == 0
    parts.contexts = [{**context, "persona_id": 0} for context in parts.contexts]
    for row in parts.rows:
        row["persona_id"] = 0
    finding = found(parts.split)["wrong_persona"]
    assert (finding.value, finding.examples) == (10, ("q10", "q11", "q12", "q13", "q14"))


def test_without_contexts() -> None:
    needs = {check: f.needs for check, f in found(replace(Parts().split, contexts=None)).items() if f.needs}
    assert needs == dict.fromkeys(
        ("missing_contexts", "orphan_contexts", "wrong_persona", "end_index", "letters"), "contexts"
    )


@pytest.mark.parametrize(
    ("column", "checks"),
    [
        ("end_index_in_shared_context", {"end_index", "letters", "order", "evidence_after_end"}),
        ("context_length_in_letters", {"letters"}),
        ("context_length_in_tokens", {"tokens", "distance"}),
        ("distance_to_ref_in_tokens", {"distance"}),
        ("distance_to_ref_proportion_in_context", {"distance", "distance_coverage"}),
        ("evidence_message_indices", {"evidence_after_end"}),
    ],
)
def test_without_a_column(column: str, checks: set[str]) -> None:
    parts = Parts()
    for row in parts.rows:
        del row[column]
    findings = found(parts.split)
    assert {check: f.needs for check, f in findings.items() if f.needs} == dict.fromkeys(checks, column)
    assert all(f.value == 0 for f in findings.values() if not f.needs)


def test_without_generated_data() -> None:
    parts = Parts()
    for row in parts.rows:
        row["evidence_message_indices"] = row["evidence_event_ids"] = []
        del row["option_states"]
    needs = {check: f.needs for check, f in found(parts.split).items() if f.needs}
    assert needs == {"evidence_after_end": "generated data", "evidence_empty": "generated data"}


def test_a_split_of_no_nominal_size() -> None:
    findings = found(replace(Parts().split, name="8blocks"))
    assert [check for check, f in findings.items() if f.needs] == ["tokens"]


def test_contexts_are_streamed_once_and_none_is_kept() -> None:
    alive = 0

    class Messages(list[dict[str, str]]):
        def __init__(self) -> None:
            nonlocal alive
            alive += 1
            super().__init__({"role": "user", "content": "x" * (i + 1)} for i in range(12))

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    streams = 0

    def contexts() -> Iterator[ContextRow]:
        nonlocal streams
        streams += 1
        for i in range(20):
            assert alive <= 1
            yield {**context_row([], f"context {i}", i), "messages": Messages()}

    rows = [_row(i, 5) for i in range(20)]
    assert values(AuditedSplit("32k", rows, contexts))["letters"] == 0
    assert streams == 1


# --- real data


def test_a_generated_dataset_and_its_run_are_whole(generated: Path) -> None:
    [split] = read_splits(generated)
    found_ = values(split)
    assert {check: found_[check] for check in COUNTS} == dict.fromkeys(COUNTS, 0)
    assert found_["across_personas"] == 0
    [run] = read_splits(generated.parent / "run")
    counted = {check: value for check, value in values(run).items() if not isinstance(value, str)}
    # A run has whole histories, but no splits with a size and distances to cover.
    lacking = {"tokens", "distance", "distance_coverage"}
    assert counted == dict.fromkeys(values(run).keys() - lacking, 0)


def test_an_imported_release_is_in_order_and_the_release_need_not_be(excerpt: Path, dataset_folder: Path) -> None:
    [release], [imported] = read_splits(excerpt), read_splits(dataset_folder)
    assert values(release) == values(imported) | {"order": "a dataset folder"}
    assert values(imported)["order"] == 0


def test_the_official_32k_split(release_dir: Path) -> None:
    [split] = read_splits(release_dir, ["32k"])
    findings = found(split)
    needs = {"order": "a dataset folder", "evidence_after_end": "generated data", "evidence_empty": "generated data"}
    assert {check: f.needs for check, f in findings.items() if f.needs} == needs
    assert all(findings[check].value == 0 for check in COUNTS if check not in needs)
    assert (findings["orphan_contexts"].n, findings["letters"].n) == (37, 589)
    assert findings["across_personas"].value == findings["distance_coverage"].value == 0
    # Of the 189 questions whose text repeats, eleven have other options.
    assert findings["repeated_questions"].value == pytest.approx(178 / 589)
    assert findings["repeated_questions"].note.startswith("411 distinct questions")


@pytest.mark.parametrize(
    ("name", "distinct", "questions"),
    [("128k", 1708, 2727), pytest.param("1M", 2145, 2674, marks=pytest.mark.slow)],
)
def test_the_official_questions_alone(name: str, distinct: int, questions: int) -> None:
    findings = found(official_questions(name))
    assert findings["repeated_questions"].value == pytest.approx(1 - distinct / questions)
    assert findings["across_personas"].value == 0
    assert findings["missing_contexts"].needs == "contexts"
