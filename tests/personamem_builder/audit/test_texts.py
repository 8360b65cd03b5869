"""What the visible conversation, and the persona's description in it, tell of the options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_contexts import context_row

from personamem_builder.audit.audit import Audit
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.audit.texts import text_findings
from personamem_builder.schema import ContextRow, option_texts

TEXTS = ("You swim in lakes.", "You dive in lakes.", "You row in lakes.", "You sail in lakes.")


def question(texts: Sequence[str] = TEXTS, answer: int = 0, end: int = 3, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": "q",
        "persona_id": 1,
        "question_type": "recall_user_shared_facts",
        "all_options": [f"({letter}) {text}" for letter, text in zip("abcdefgh", texts, strict=False)],
        "answer_index": answer,
        "shared_context_id": "c",
        "end_index_in_shared_context": end,
        **changes,
    }


def context(*contents: str, system: str | None = "About the user.", name: str = "c") -> ContextRow:
    """Return a context of a system message, where one is given, and messages of user and assistant in turn."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return context_row(messages, name, 1)


def find(check: str, rows: Sequence[dict[str, Any]], *contexts: ContextRow) -> Finding:
    split = AuditedSplit("small", rows, lambda: iter(contexts))
    return next(f for f in text_findings(split) if (f.check, f.slice) == (f"text.{check}", "all"))


# --- word for word


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ("Well: you SWIM —\n in lakes! I knew it.", 1),
        ("You swim in a lake. You in lakes.", 0),
        ("You swim in lakesides.", 0),
        ("swim in lakes you swim in", 0),
    ],
)
def test_a_right_option_that_a_message_says(said: str, counted: int) -> None:
    assert find("gold_in_context", [question()], context("Hello.", said)).value == counted


def test_only_what_stands_before_the_end_index_counts() -> None:
    told = context("Hello.", "Hello.", "You swim in lakes.", "You swim in lakes.")
    rows = [question(question_id="before", end=3), question(question_id="after", end=4)]
    finding = find("gold_in_context", rows, told)
    assert (finding.value, finding.examples) == (1, ("after",))


def test_two_messages_together_do_not_say_an_option() -> None:
    assert find("gold_in_context", [question()], context("You swim", "in lakes.")).value == 0


def test_each_question_reads_its_own_context() -> None:
    rows = [question(question_id=name, shared_context_id=name) for name in ("said", "silent", "missing")]
    contexts = [context("Hello.", "Hello.", name="silent"), context(TEXTS[0], "Hello.", name="said")]
    assert find("gold_in_context", rows, *contexts).examples == ("said",)


def test_options_without_words_stand_nowhere() -> None:
    assert find("gold_in_context", [question(("?", "!"))], context("?", "!")).value == 0


@pytest.mark.parametrize(
    ("said", "answer", "credit"),
    [
        ((), 0, 1 / 4),
        ((0,), 0, 1),
        ((1,), 0, 0),
        ((0, 1), 0, 1 / 2),
        ((1, 2), 0, 0),
    ],
)
def test_options_that_stand_there_are_preferred(said: tuple[int, ...], answer: int, credit: float) -> None:
    told = context(" ".join(TEXTS[i] for i in said) or "Hello.", "Hello.")
    finding = find("option_in_context", [question(answer=answer)], told)
    assert finding.value == credit
    assert finding.note == f"a wrong option stands there in {int(bool(set(said) - {answer}))} questions"


WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(" ".join)


@given(
    options=st.lists(WORDS, min_size=2, max_size=4),
    messages=st.lists(st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join), min_size=1, max_size=5),
    ends=st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_search_agrees_with_a_plain_one(options: list[str], messages: list[str], ends: list[int]) -> None:
    rows = [question(options, question_id=str(i), end=end) for i, end in enumerate(ends)]
    told = context(*messages, system=None)
    expected = [
        str(i) for i, end in enumerate(ends) if any(f" {options[0]} " in f" {text} " for text in messages[:end])
    ]
    finding = find("gold_in_context", rows, told)
    assert (finding.value, finding.examples) == (len(expected), tuple(expected))


# --- the persona's description


@pytest.mark.parametrize(("system", "chosen"), [("Rows. Loves to row.", 2), ("A diver who may dive.", 1)])
def test_a_description_that_names_the_answer(system: str, chosen: int) -> None:
    rows = [question(answer=answer, question_id=str(answer)) for answer in range(4)]
    finding = find("persona_overlap", rows, context("You swim in lakes.", "Yes.", system=system))
    assert finding.examples == (str(chosen),)
    assert finding.value == finding.chance == 1 / 4


def test_rare_words_weigh_more_than_common_ones() -> None:
    """Two words that three options of four have count less than one that a single option has."""
    texts = ("He and I.", "Sailing.", "I and you.", "You and I.")
    told = context("Hello.", "Hello.", system="I and sailing")
    assert find("persona_overlap", [question(texts, 1)], told).value == 1


def test_a_description_that_comes_later_is_not_shown() -> None:
    told = context("Hello.", "Hello.", "Hello.")
    told["messages"].append({"role": "system", "content": "swim"})
    rows = [question(end=4), question(end=5)]
    assert find("persona_overlap", rows, told).value == (1 / 4 + 1) / 2


def test_a_description_that_shares_nothing_leaves_chance() -> None:
    assert find("persona_overlap", [question()], context("You swim.", "Yes.", system="Age: 30.")).value == 1 / 4


# --- what is lacking


def test_without_contexts_or_end_indices_the_checks_say_so() -> None:
    checks = {"text.gold_in_context", "text.option_in_context", "text.persona_overlap"}
    row = question()
    del row["end_index_in_shared_context"]
    alone = text_findings(AuditedSplit("alone", [row]))
    assert {f.check for f in alone} == checks
    assert {(f.value, f.needs) for f in alone} == {(None, "contexts")}
    endless = text_findings(AuditedSplit("endless", [row], lambda: iter([context("Hello.")])))
    assert {(f.value, f.needs) for f in endless} == {(None, "end_index_in_shared_context")}


def test_without_system_messages_persona_overlap_says_so() -> None:
    finding = find("persona_overlap", [question()], context("You swim.", "Yes.", system=None))
    assert (finding.value, finding.needs) == (None, "persona text")
    assert find("option_in_context", [question()], context("You swim.", "Yes.", system=None)).value == 1 / 4


def test_contexts_are_read_once_and_one_at_a_time() -> None:
    reads = []

    def contexts() -> Iterator[ContextRow]:
        for name in "cde":
            reads.append(name)
            yield context("You swim in lakes.", name=name)

    rows = [question(shared_context_id=name) for name in "cec"]
    text_findings(AuditedSplit("small", rows, contexts))
    assert reads == ["c", "d", "e"]


# --- whole benchmarks


def test_a_generated_dataset_is_quiet(generated: Path) -> None:
    [split] = read_splits(generated)
    found = {f.check: f for f in text_findings(split) if f.slice == "all"}
    assert found["text.gold_in_context"].value == 0
    assert found["text.option_in_context"].value == 1 / 4
    assert found["text.persona_overlap"].needs == ""


@pytest.mark.slow
def test_the_official_32k_contexts_say_some_wrong_options_and_no_right_one(
    release_dir: Path, official_audit: Audit
) -> None:
    [split] = read_splits(release_dir, ["32k"])
    assert split.contexts is not None
    contexts = {c["shared_context_id"]: c["messages"] for c in split.contexts()}
    # A search that shares no code: it sees punctuation, and so may miss an option, but invents none.
    said = [
        [any(text.lower() in content for content in visible) for text in option_texts(row)]
        for row in split.rows
        for visible in [
            [m["content"].lower() for m in contexts[row["shared_context_id"]][: row["end_index_in_shared_context"]]]
        ]
    ]
    questions = sum(any(found) for found in said)
    findings = {one.finding.check: one.finding for one in official_audit.judged if one.finding.slice == "all"}
    assert findings["text.gold_in_context"].value == 0
    assert 0 < questions <= int(findings["text.option_in_context"].note.split()[-2]) <= questions + 2
    assert (findings["text.option_in_context"].high or 1) < 1 / 4
