from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, fails, personamem, started, typed
from small_runs import contents

from personamem_builder.dataset.load import iter_examples
from personamem_builder.schema import SHORT_TYPES


@pytest.fixture(scope="module")
def row(generated: Path) -> dict[str, Any]:
    """Its first question, with its context."""
    return next(iter(iter_examples("32k", data=generated)))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem inspect` in a folder of its own."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)

    return partial(personamem, "inspect")


def test_a_question_is_shown_on_stdout_and_nothing_is_changed(run: Run, generated: Path, row: dict[str, Any]) -> None:
    before = contents(generated)
    outcome = run(generated, "--split", "32k", "--question", row["question_id"][:6])
    assert outcome.exit_code == 0
    assert outcome.err == ""
    assert outcome.out.startswith(f"question  {row['question_id']} (32k)\npersona   {row['persona_id']}\n")
    assert outcome.out.count("[evidence: ") == len(set(row["evidence_message_indices"]))
    assert f"\n=> {row['all_options'][row['answer_index']]}\n       right; " in outcome.out
    assert "\x1b" not in outcome.out
    assert contents(generated) == before
    assert list(Path().iterdir()) == []


def test_in_full_nothing_is_left_out(run: Run, generated: Path, row: dict[str, Any]) -> None:
    short, full = (run(generated, "--question", row["question_id"], *flag).out for flag in ([], ["--full"]))
    assert "…\n" in short
    assert all(line.rstrip() in full for message in row["context"] for line in message["content"].split("\n"))


def test_the_history_as_a_string_and_nothing_else(run: Run, generated: Path, row: dict[str, Any]) -> None:
    outcome = run(generated, "--question", row["question_id"], "--format", "string")
    assert outcome == (0, "\n\n".join(f"{m['role']}: {m['content']}" for m in row["context"]) + "\n", "")


def test_the_history_as_messages_and_nothing_else(run: Run, generated: Path, row: dict[str, Any]) -> None:
    outcome = run(generated, "--question", row["question_id"], "--format", "api_dict")
    assert json.loads(outcome.out) == row["context"]
    assert outcome.err == ""


def test_without_a_question_it_lists_some_and_says_what_to_type_next(
    run: Run, generated: Path, row: dict[str, Any]
) -> None:
    outcome = run(generated)
    lines = outcome.out.splitlines()
    assert lines[0].split()[:3] == ["question", "type", "topic"]
    assert len(lines) == 2 + 20
    assert max(map(len, lines)) <= 80
    short = SHORT_TYPES[row["question_type"]]
    assert re.fullmatch(rf"{row['question_id']} +{short} +{row['topic']} +\d+ +[\d,]+ +\d+%", lines[2])
    cut, following = outcome.err.splitlines()
    assert re.fullmatch(r"note: the first 20 of \d+ questions", cut)
    assert following == f"next: personamem inspect {generated} --split 32k --question {row['question_id']}"
    following = typed(following)
    assert following.exit_code == 0
    assert following.out.startswith(f"question  {row['question_id']} (32k)\n")


def test_the_official_data_is_shown_too(run: Run, dataset_folder: Path) -> None:
    shutil.copytree(dataset_folder, "personamem")
    question = run().out.splitlines()[2].split()[0]
    outcome = run("--question", question)
    assert outcome.exit_code == 0
    assert "evidence  none is recorded in this dataset\n" in outcome.out


def test_every_flag_can_be_set_in_the_environment(
    run: Run, generated: Path, row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(generated))
    monkeypatch.setenv("PERSONAMEM_INSPECT_SPLIT", "32k")
    monkeypatch.setenv("PERSONAMEM_INSPECT_QUESTION", row["question_id"])
    monkeypatch.setenv("PERSONAMEM_INSPECT_FORMAT", "api_dict")
    assert json.loads(run().out) == row["context"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--split", "1M"], "{} has no split '1M', it has 32k", "choose one of these"),
        (["--question", "abc"], "'abc' is not the id of a question in 32k", "give an id, or the first 6 characters"),
        (["--question", "abcdefg"], "{}: no id begins with 'abcdefg'", "list ids of 32k: leave --question out"),
    ],
)
def test_what_is_not_there_is_an_error(
    run: Run, generated: Path, arguments: list[str], message: str, hint: str
) -> None:
    fails(run(generated, *arguments), message.format(generated), hint)


def test_a_folder_that_is_no_dataset_is_an_error(run: Run) -> None:
    fails(run("nowhere"), "nowhere is not a personamem dataset folder", "make one: personamem ")
    fails(run(), "no dataset: ", "name one, or make one: personamem ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--format", "string"], "--format needs --question"),
        (["--format", "string", "--question", "x", "--full"], "--format and --full cannot be used together"),
        (["--format", "yaml", "--question", "x"], "'yaml' is not one of"),
        (["--questions", "x"], "No such option"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(run: Run, generated: Path, arguments: list[str], complaint: str) -> None:
    outcome = run(generated, *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.err
    assert outcome.out == ""


def test_the_help_shows_examples() -> None:
    output = personamem("inspect", "--help").out
    assert re.search(r"^  personamem inspect personamem --split 32k --question ", output, re.MULTILINE)


@pytest.mark.parametrize("flags", [["--full"], ["--format", "string"]])
def test_a_pipe_that_is_closed_is_no_error(
    generated: Path, row: dict[str, Any], tmp_path: Path, flags: list[str]
) -> None:
    with started(tmp_path, "inspect", generated, "--question", row["question_id"], *flags) as command:
        assert command.process.stdout
        assert command.process.stderr
        command.process.stdout.readline()
        command.process.stdout.close()
        assert "Traceback" not in command.process.stderr.read()
