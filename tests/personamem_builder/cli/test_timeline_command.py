from __future__ import annotations

import json
import re
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import Run, fails, personamem
from small_runs import TINY, tiny_work

from generation.history_records import History
from generation.records import PERIODS, QUESTION_TYPES, Persona, Question
from generation.resources import install_hint
from generation.store import RunStore
from personamem_builder.dataset.load import iter_examples


@pytest.fixture
def folder(tiny_run: Path) -> Path:
    return tiny_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem timeline` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    return partial(personamem, "timeline")


def test_the_text_goes_to_stdout(run: Run, folder: Path, tmp_path: Path) -> None:
    outcome = run(folder, "--topic", "writing")
    name = next(RunStore(folder).read("personas", Persona)).name
    assert outcome.exit_code == 0
    assert outcome.out.startswith(f"{name} (persona 0), writing\n  session 1: ")
    assert ", because " in outcome.out
    assert outcome.err == ""
    assert list(tmp_path.iterdir()) == []


def test_another_persona_can_be_chosen(run: Run, folder: Path) -> None:
    first, second = (p.name for p in RunStore(folder).read("personas", Persona))
    assert first != second
    assert run(folder, "--topic", "writing", "--persona", "1").out.startswith(f"{second} (persona 1), writing\n")


@pytest.mark.parametrize("name", ["picture.svg", "picture.png"])
def test_a_picture_is_written_as_well(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    outcome = run(folder, "--topic", "writing", "--out", name)
    assert outcome.exit_code == 0
    assert outcome.out == run(folder, "--topic", "writing").out
    assert f"wrote {name}\n" in outcome.err
    assert (tmp_path / name).stat().st_size > 10_000


def test_a_topic_that_the_run_lacks_is_an_error(run: Run, folder: Path) -> None:
    fails(run(folder, "--topic", "chess"), "persona 0 has no topic 'chess'", "its topics are ")


@pytest.mark.parametrize("number", ["2", "-1"])
def test_a_persona_that_the_run_lacks_is_an_error(run: Run, folder: Path, number: str) -> None:
    outcome = run(folder, "--topic", "writing", "--persona", number)
    fails(outcome, f"{folder} has no persona {number}", "its personas are 0-1")


# --- up to a date


def test_what_comes_later_is_left_out(run: Run, folder: Path) -> None:
    whole = run(folder, "--topic", "writing").out
    days = re.findall(r"^    (\d{4}-\d\d-\d\d) ", whole, re.MULTILINE)
    until = sorted(days)[len(days) // 2]
    outcome = run(folder, "--topic", "writing", "--until", until)
    assert outcome.exit_code == 0
    shown = re.findall(r"^    (\d{4}-\d\d-\d\d) ", outcome.out, re.MULTILINE)
    assert sorted(shown) == sorted(day for day in days if day <= until)
    later = len(days) - len(shown)
    assert f"\n  --- cut after {until}: {later} later events not shown ---\n" in outcome.out


@pytest.mark.parametrize(("period", "sessions"), [("initial", 1), ("next week", 2), ("next year", 4)])
def test_a_timeline_can_end_with_the_session_of_a_period(run: Run, folder: Path, period: str, sessions: int) -> None:
    lines = run(folder, "--topic", "writing", "--until", period).out.splitlines()
    assert [line.split(", ")[-1] for line in lines if line.startswith("  session ")] == list(PERIODS[:sessions])
    day = lines[sessions].split(": ")[1].split(",")[0]
    assert lines[sessions + 1].startswith(f"  --- cut after {day}: ")
    assert run(folder, "--topic", "writing", "--until", day).out.splitlines() == lines


def test_a_day_after_all_leaves_nothing_out(run: Run, folder: Path) -> None:
    whole = run(folder, "--topic", "writing").out
    outcome = run(folder, "--topic", "writing", "--until", "2099-01-01")
    assert outcome.out.replace("  --- cut after 2099-01-01: 0 later events not shown ---\n", "") == whole


@pytest.mark.parametrize(
    ("until", "message", "hint"),
    [
        ("2001-01-01", "--until 2001-01-01: nothing of writing has happened by then", "it begins on 20"),
        ("soon", "--until 'soon' is neither a date nor a period", "give a date such as 20"),
        ("2019-02-30", "--until '2019-02-30' is neither a date nor a period", "give a date such as 20"),
        ("", "--until '' is neither a date nor a period", "give a date such as 20"),
    ],
)
def test_another_cut_off_is_an_error(run: Run, folder: Path, until: str, message: str, hint: str) -> None:
    fails(run(folder, "--topic", "writing", f"--until={until}"), message, hint)


def test_a_period_that_the_run_lacks_is_an_error(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(
        TINY.read_text().replace("personas: 2", "personas: 1").replace("updates_per_topic: 5", "updates_per_topic: 2")
        + "periods: [initial, next week]\n"
    )
    assert personamem("generate", config, "--out", "short").exit_code == 0
    outcome = run("short", "--topic", "writing", "--until", "next month")
    fails(outcome, "--until 'next month': writing does not run so far", "its periods are initial, next week")


# --- with a question


def questions_of(folder: Path) -> dict[str, Question]:
    """A question of each type, of the second user."""
    questions = RunStore(folder).read("questions", Question)
    return {question.question_type: question for question in questions if question.persona_id == 1}


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_the_events_that_decide_a_question_are_marked_and_later_ones_left_out(
    run: Run, folder: Path, question_type: str
) -> None:
    question = questions_of(folder)[question_type]
    [history] = [one for one in RunStore(folder).read("histories", History) if one.persona_id == 1]
    [topic] = [t for t in history.topics if {*question.evidence_event_ids} & {e.event_id for e in t.events}]
    outcome = run(folder, "--question", question.question_id)
    assert outcome.exit_code == 0
    lines = outcome.out.splitlines()
    assert lines[0].endswith(f" (persona 1), {topic.topic}")
    marked = [line for line in lines if line.startswith(">>> 20")]
    evidence = [event for event in topic.events if event.event_id in question.evidence_event_ids]
    assert sorted(line.split()[1] for line in marked) == [str(event.date) for event in evidence]
    assert lines.count(f">>> question {question.question_id}, {question_type}: {question.message}") == 1
    [last] = [s for s in topic.sessions if s.session_id == question.after_session_ids[-1]]
    at = lines.index(f">>> question {question.question_id}, {question_type}: {question.message}")
    assert lines[at - 1] == f"  session {last.period + 1}: {last.date}, {PERIODS[last.period]}"
    assert lines[at + 1].startswith(f"  --- cut after {last.date}: ")
    assert run(folder, "--question", question.question_id[:8]).out == outcome.out


def test_another_cut_off_can_be_given_with_a_question(run: Run, folder: Path) -> None:
    question = next(q for q in questions_of(folder).values() if q.before_session_id is None)
    id_ = question.question_id
    whole = run(folder, "--question", id_, "--until", "next year").out
    assert whole.count("  session ") == 4
    assert ": 0 later events not shown" in whole
    assert whole.count("\n>>> 20") == len(question.evidence_event_ids)
    assert ">>> question" in whole


def test_a_question_of_a_split_is_placed_where_it_is_asked(run: Run, generated: Path) -> None:
    """After the sessions of its topic that its context shows before it."""
    store = RunStore(generated.parent / "run")
    for row in islice(iter_examples("32k", data=generated), 0, 32, 4):
        outcome = run(store.folder, "--question", row["question_id"])
        assert outcome.exit_code == 0
        shown = outcome.out.splitlines()
        at = next(i for i, line in enumerate(shown) if line.startswith(f">>> question {row['question_id']}, "))
        topic = shown[0].rpartition(", ")[2]
        [context] = [c for c in contexts_of(generated) if c["shared_context_id"] == row["shared_context_id"]]
        before = [
            date
            for start, name, date in zip(
                context["session_starts"], context["session_topics"], context["session_dates"], strict=True
            )
            if start < row["end_index_in_shared_context"] and name == topic
        ]
        assert shown[at - 1].split(": ")[1].split(",")[0] == before[-1]
        assert sum(line.startswith(">>> 20") for line in shown) == len(row["evidence_event_ids"])


def contexts_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "data" / "shared_contexts_32k.parquet").to_pylist()
    return rows


def test_the_picture_shows_the_cut_and_the_question(run: Run, folder: Path) -> None:
    id_ = questions_of(folder)["suggest_new_ideas"].question_id
    assert run(folder, "--question", id_, "--out", "picture.svg").exit_code == 0
    text = Path("picture.svg").read_text(encoding="utf-8")
    assert f"ringed: the evidence of question {id_}, asked at the red line" in text
    assert ", cut after 20" in text


@pytest.mark.parametrize("id_", ["0123456789abcdef", "abc", "", "zzzzzzzz"])
def test_an_unknown_question_is_an_error(run: Run, folder: Path, id_: str) -> None:
    fails(run(folder, f"--question={id_}"), f"{id_!r} names no question of {folder}", "give an id of ")


@pytest.mark.parametrize("other", [["--persona", "0"], ["--topic", "chess"], ["--persona", "1", "--topic", "chess"]])
def test_a_question_of_another_persona_or_topic_is_an_error(run: Run, folder: Path, other: list[str]) -> None:
    id_ = questions_of(folder)["suggest_new_ideas"].question_id
    fails(run(folder, "--question", id_, *other), f"question {id_} is about persona 1 and topic ", "leave --persona")


def test_without_a_topic_or_a_question_it_says_so(run: Run, folder: Path) -> None:
    outcome = run(folder)
    assert outcome.exit_code == 2
    assert "give --topic, or --question" in outcome.err


def test_a_folder_without_a_run_is_an_error(run: Run, tmp_path: Path) -> None:
    fails(
        run(tmp_path / "nowhere", "--topic", "writing"), f"{tmp_path / 'nowhere'} is not a run", "make one: personamem"
    )


def test_another_ending_is_an_error(run: Run, folder: Path) -> None:
    outcome = run(folder, "--topic", "writing", "--out", "picture.jpg")
    fails(outcome._replace(out=""), "picture.jpg: a picture ends in .svg or .png", "give such a name to --out")


def test_without_matplotlib_the_text_is_still_shown(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run(folder, "--topic", "writing", "--out", "picture.svg")
    assert "(persona 0), writing" in outcome.out
    fails(outcome._replace(out=""), "drawing needs matplotlib", install_hint("plots"))


def test_an_interrupted_run_says_to_finish_it(run: Run, tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "run", tiny_work().fingerprint())
    fails(run(store.folder, "--topic", "writing"), f"{store.path('personas')}: No such file", "finish the run")


def test_every_flag_can_be_set_in_the_environment(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_TIMELINE_TOPIC", "writing")
    monkeypatch.setenv("PERSONAMEM_TIMELINE_PERSONA", "1")
    assert "(persona 1), writing\n" in run(folder).out


def test_the_help_shows_an_example() -> None:
    result = personamem("timeline", "--help")
    assert result.exit_code == 0
    assert re.search(r"^  personamem timeline runs/full .*--topic travelPlanning", result.out, re.MULTILINE)
    assert "[default: that of --question, else the first]" in " ".join(result.out.split())


def test_the_run_is_left_as_it_was(run: Run, folder: Path) -> None:
    config = (folder / "config.json").read_text()
    run(folder, "--topic", "writing")
    assert json.loads(config) == tiny_work().fingerprint()
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "config.json", "stages"]
