"""A preview shows what the run will hold, an estimate says what it will take, and neither writes anything."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from small_runs import make_run, tiny_work

from generation.pipeline import Work
from generation.preview import Estimate, estimate, preview, sample
from generation.records import QUESTION_TYPES, Filler, History, Persona, Question, Session
from generation.store import RunStore
from generation.tokenizer import token_length


@pytest.fixture(scope="module")
def work() -> Work:
    return tiny_work()


@pytest.fixture(scope="module")
def run(work: Work, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return make_run(work, tmp_path_factory.mktemp("tiny") / "run")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sample_is_a_part_of_the_run(work: Work, run: RunStore) -> None:
    shown = sample(work)
    assert shown.persona == next(run.read("personas", Persona))
    assert shown.history == next(run.read("histories", History))
    assert shown.session == next(run.read("sessions", Session))
    questions = {question.question_id: question for question in run.read("questions", Question)}
    assert all(questions[question.question_id] == question for question in shown.questions)
    assert [question.question_type for question in shown.questions] == list(QUESTION_TYPES)


def test_a_preview_shows_a_profile_a_session_and_a_question_of_each_type(work: Work) -> None:
    persona, _, session, questions = sample(work)
    text = preview(work)
    lines = text.splitlines()
    assert lines[:2] == [persona.demographics, persona.profile]
    for message in session.messages[:4]:
        assert any(line.startswith(f"  {message.role}: {message.content}") for line in lines)
    for question in questions:
        assert f"{question.question_type} ({question.topic})" in lines
        assert f"  user: {question.message}" in lines


def test_a_preview_marks_the_right_option_of_each_question_and_no_other(work: Work) -> None:
    blocks = preview(work).split("\n\n")[2:]
    questions = sample(work).questions
    assert len(blocks) == len(questions) == 7
    for block, question in zip(blocks, questions, strict=True):
        options = block.splitlines()[2:]
        marks = ["*" if i == question.answer_index else " " for i in range(4)]
        assert [line[2:6] for line in options] == [f"{m}({c})" for m, c in zip(marks, "abcd", strict=True)]
        assert [re.sub(r"^  [* ]\([a-d]\) |  \[\w+\]$", "", line) for line in options] == [
            option.text for option in question.options
        ]


def test_a_preview_says_which_events_a_message_tells(work: Work) -> None:
    session = sample(work).session
    text = preview(work)
    for message in session.messages[:4]:
        for event_id in message.event_ids:
            assert f"[tells {event_id}]" in text


def test_a_preview_of_a_configuration_without_some_types_leaves_them_out() -> None:
    work = tiny_work(questions_per_topic=dict.fromkeys(QUESTION_TYPES, 0) | {"suggest_new_ideas": 1})
    assert [question.question_type for question in sample(work).questions] == ["suggest_new_ideas"]
    assert preview(work).count("*(") == 1


def test_neither_writes_a_file(work: Work, tmp_path: Path) -> None:
    preview(work)
    estimate(work)
    assert list(tmp_path.iterdir()) == []


# --- the estimate


def calls_of(run: RunStore) -> Counter[str]:
    """Count the calls that a run made, by template."""
    counts = Counter(question.question_type for question in run.read("questions", Question))
    counts["persona"] = sum(1 for _ in run.read("personas", Persona))
    counts["general_history"] = sum(1 for _ in run.read("histories", History))
    counts["session"] = sum(1 for _ in run.read("sessions", Session))
    counts["filler"] = sum(1 for _ in run.read("fillers", Filler))
    return counts


def test_the_number_of_calls_is_that_of_the_run(work: Work, run: RunStore) -> None:
    assert {entry.template: entry.calls for entry in estimate(work)} == calls_of(run)


@pytest.mark.parametrize("personas", [1, 5])
def test_the_number_of_calls_grows_with_the_users(tmp_path: Path, personas: int) -> None:
    work = tiny_work(personas=personas)
    entries = {entry.template: entry.calls for entry in estimate(work)}
    assert entries == calls_of(make_run(work, tmp_path / "run"))
    assert entries["session"] == personas * 4 * 4


def test_the_tokens_of_the_replies_are_about_those_of_the_run(work: Work, run: RunStore) -> None:
    texts = {
        "persona": [persona.profile for persona in run.read("personas", Persona)],
        "general_history": [event.text for history in run.read("histories", History) for event in history.general],
        "session": [message.content for session in run.read("sessions", Session) for message in session.messages],
        "filler": [message.content for filler in run.read("fillers", Filler) for message in filler.messages],
    }
    for question in run.read("questions", Question):
        texts.setdefault(question.question_type, []).append(question.message)
        texts[question.question_type] += [option.text for option in question.options]
    real = {template: sum(map(token_length, written)) for template, written in texts.items()}
    said = {entry.template: entry.reply_tokens for entry in estimate(work)}
    assert set(said) == set(real)
    assert sum(said.values()) == pytest.approx(sum(real.values()), rel=0.2)
    for template, tokens in real.items():
        assert said[template] == pytest.approx(tokens, rel=0.2), template


def test_an_estimate_is_in_the_order_of_use_and_has_a_time_for_every_call(work: Work) -> None:
    entries = estimate(work)
    assert [entry.template for entry in entries] == [
        "persona",
        "general_history",
        "session",
        *QUESTION_TYPES,
        "filler",
    ]
    assert all(entry.seconds > 0 and entry.prompt_tokens > 0 for entry in entries)


def test_an_estimate_without_fillers_has_none() -> None:
    assert "filler" not in {entry.template for entry in estimate(tiny_work(fillers=0))}


def test_an_estimate_counts_prompts_whole(work: Work) -> None:
    by_template: dict[str, Estimate] = {entry.template: entry for entry in estimate(work)}
    # A prompt for a session holds at least its profile and its events; ten tokens a line are the least.
    assert by_template["session"].prompt_tokens > 300 * by_template["session"].calls
    assert by_template["session"].prompt_tokens < by_template["session"].reply_tokens
