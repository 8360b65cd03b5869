"""`personamem annotate --errors --judge`, against a model over HTTP."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, fails, personamem, started
from loopback_llm import LoopbackLLM, Reply, error
from small_results import write_results

from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.results.error_labels import read_rows
from personamem_builder.schema import QuestionRow

KEY = "sk-a-key-that-nobody-may-see"
NAMES = ("personalization", "update", "hallucination", "other")


@pytest.fixture
def results(tmp_path: Path, dataset_folder: Path) -> Path:
    """A model that always takes (b), and writes no letter to every fifth question."""
    folder = tmp_path / "results"
    write_results(folder, dataset_folder, "m", lambda row, number: None if number % 5 == 0 else 1, kind="_generate")
    return folder


def verdict(body: dict[str, Any]) -> Reply:
    """Choose by the length of the prompt: the same for the same prompt."""
    prompt = body["messages"][0]["content"]
    return Reply(json.dumps({"why": f"= {len(prompt)}", "category": NAMES[len(prompt) % 4]}), usage=(2000, 100))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackLLM]:
    with LoopbackLLM(verdict) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(
        (Path(__file__).parents[3] / "examples" / "tiny.yaml").read_text()
        + "llm: {concurrency: 1, max_tokens: 100, prices: {parrot: {input: 10, output: 10}}}\n"
    )
    return path


def judge(folder: Path, results: Path, out: Path, *more: object) -> Outcome:
    return personamem("annotate", folder, "--errors", results, "--judge", "openai:parrot", "--out", out, *more)


def cells(path: Path) -> dict[str, dict[str, str]]:
    return {row["question_id"]: row for _, row in read_rows(path)}


def test_a_judge_reads_the_whole_history_and_fills_in_the_categories(
    server: LoopbackLLM, tmp_path: Path, dataset_folder: Path, results: Path
) -> None:
    out = tmp_path / "errors.csv"
    outcome = judge(dataset_folder, results, out)
    assert outcome.exit_code == 0, outcome.err
    rows = cells(out)
    judged = {id_: row for id_, row in rows.items() if row["rater"] != "rule"}
    assert 0 < len(judged) < len(rows)
    assert len(server.requests) == len(judged)
    assert {request.body["temperature"] for request in server.requests} == {0}
    assert {row["category"] for row in rows.values() if row["rater"] == "rule"} == {"format"}
    assert {row["rater"] for row in judged.values()} == {"openai:parrot"}

    questions: dict[str, QuestionRow] = {
        row["question_id"]: row for row in read_questions(dataset_folder, "32k").to_pylist()
    }
    contexts = ContextStore(dataset_folder)
    seen = set()
    for request in server.requests:
        (id_,) = [one for one in judged if f"then wrote: {judged[one]['message']}\n" in request.prompt]
        question = questions[id_]
        seen.add(id_)
        history = contexts.messages(question["shared_context_id"], question["end_index_in_shared_context"])
        place = -1
        for message in history:
            if message["role"] != "system":
                place = request.prompt.index(message["content"], place + 1)
        after = contexts.messages(question["shared_context_id"], question["end_index_in_shared_context"] + 1)[-1]
        assert after["role"] == "system" or after["content"] not in request.prompt
        assert all(option in request.prompt for option in question["all_options"])
        assert f"The right one is {question['correct_answer']}. The model chose (b)." in request.prompt
        why = f"= {len(request.prompt)}"
        assert (judged[id_]["note"], judged[id_]["category"]) == (why, NAMES[len(request.prompt) % 4])
    assert seen == set(judged)
    assert server.keys == {KEY}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in kept

    ledger = [json.loads(line) for line in (tmp_path / "errors.csv.calls" / "ledger.jsonl").read_text().splitlines()]
    assert {(line["stage"], line["template"], line["model"]) for line in ledger} == {
        ("errors", "judge_error", "parrot")
    }
    assert f"cost: unknown; {len(judged)} calls" in outcome.err


def test_after_a_stop_nothing_is_paid_for_twice(
    server: LoopbackLLM, tmp_path: Path, dataset_folder: Path, results: Path, prices: Path
) -> None:
    run = partial(judge, dataset_folder, results)
    assert run(tmp_path / "whole.csv").exit_code == 0
    count = len(server.requests)

    def stopping(body: dict[str, Any]) -> Reply:
        return error(401, "Incorrect API key provided") if len(server.requests) > count + 3 else verdict(body)

    server.answer = stopping
    out = tmp_path / "errors.csv"
    fails(run(out, "--config", prices), "http://127.0.0.1")
    assert not out.exists()
    asked = len(server.requests)
    server.answer = verdict
    assert run(out, "--config", prices).exit_code == 0
    assert len(server.requests) - asked == count - 3
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    # It may be filled in by now.
    fails(run(out), f"{out} already exists")


def test_a_budget_stops_it_and_a_higher_one_goes_on(
    server: LoopbackLLM, tmp_path: Path, dataset_folder: Path, results: Path, prices: Path
) -> None:
    out = tmp_path / "errors.csv"  # a call costs 2.1 cents
    fails(judge(dataset_folder, results, out, "--config", prices, "--budget", 0.04), "stopped after $0.042 of $0.04")
    assert len(server.requests) == 2
    outcome = judge(dataset_folder, results, out, "--config", prices, "--budget", 10)
    assert outcome.exit_code == 0, outcome.err
    judged = sum(row["rater"] == "openai:parrot" for row in cells(out).values())
    assert len(server.requests) == judged
    assert f"cost: ${0.021 * judged:.2g}; {judged} calls" in outcome.err
    (tmp_path / "other").mkdir()
    fails(judge(dataset_folder, results, tmp_path / "other" / "e.csv", "--budget", 1), "--budget needs the price of")


def test_what_could_not_be_judged_is_left_to_people_and_asked_for_again(
    server: LoopbackLLM, tmp_path: Path, dataset_folder: Path, results: Path
) -> None:
    out = tmp_path / "errors.csv"
    silent: set[str] = set()

    def answer(body: dict[str, Any]) -> Reply:
        prompt = body["messages"][0]["content"]
        silent.update([prompt] if not silent else [])
        return Reply('{"why": "", "category": "format"}') if prompt in silent else verdict(body)

    server.answer = answer
    outcome = judge(dataset_folder, results, out)
    assert outcome.exit_code == 1
    assert re.search(
        r"error: 1 answers have no category, as no usable reply came, such as: judge_error for", outcome.err
    )
    (row,) = [row for row in cells(out).values() if not row["category"]]
    assert row["rater"] == ""
    out.unlink()
    asked = len(server.requests)
    server.answer = verdict
    assert judge(dataset_folder, results, out).exit_code == 0
    assert len(server.requests) == asked + 1
    assert all(row["category"] for row in cells(out).values())


@pytest.mark.slow
def test_an_interruption_says_what_is_kept(
    server: LoopbackLLM, tmp_path: Path, dataset_folder: Path, results: Path
) -> None:
    server.answer = lambda body: Reply("late", delay=300) if len(server.requests) > 2 else verdict(body)
    command = ("annotate", dataset_folder, "--errors", results, "--judge", "openai:parrot", "--out", "errors.csv")
    with started(tmp_path, *command) as stopped:
        stopped.wait_for(lambda: len(server.requests) > 2)
        stopped.send(signal.SIGINT, to_group=True)
        status, out, err = stopped.ends(20)
    assert (status, out) == (130, "")
    kept = "the judge's replies are kept in errors.csv.calls; rerun the command to resume"
    assert err.splitlines()[-1] == f"interrupted: {kept}"
    assert not (tmp_path / "errors.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--judge", "offline"), "--judge: the offline backend cannot read answers"),
        (("--judge", "parrot"), "there is no backend 'parrot'"),
        (("--judge", "openai:x", "--budget", "0"), "--budget must be above 0"),
    ],
)
def test_a_judge_that_cannot_work(
    tmp_path: Path, dataset_folder: Path, results: Path, options: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "errors.csv"
    fails(personamem("annotate", dataset_folder, "--errors", results, "--out", out, *options), message)
    assert not out.exists()
    assert not (tmp_path / "errors.csv.calls").exists()
