"""The tasks for Inspect: the same messages, letters and scores as lm-eval's, question by question; reports of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from answering_lm import AnsweringChat
from command_line import fails, personamem
from lm_eval.models.api_models import JsonChatStr

pytest.importorskip("inspect_ai", reason="needs inspect-ai: pip install '.[inspect]' (make test-inspect)")

import inspect_ai
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model

from personamem import personamem_32k, personamem_32k_nocontext
from personamem_builder.dataset.load import iter_examples
from personamem_builder.evaluation.responses import Reply
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.results.responses import read_responses
from personamem_builder.results.runs import Run, read_runs
from personamem_builder.schema import AnswerOutcome, QuestionRow

pytestmark = pytest.mark.inspect

TASKS = {"personamem_32k_generate": personamem_32k, "personamem_32k_generate_nocontext": personamem_32k_nocontext}
STOPS: Mapping[AnswerOutcome, str] = {"answered": "stop", "cut": "max_tokens", "refused": "content_filter"}


class Said(NamedTuple):
    text: str
    outcome: AnswerOutcome = "answered"


SAID = (
    Said("<final_answer>({right})"),
    Said("<final_answer>({wrong})"),
    Said("I cannot tell."),
    Said("A walk is what I would take."),
    Said("Either (a) or (b)."),
    Said("<think>({wrong})?</think>The answer is {right}."),
    Said("First ({wrong}), but then ({right}) seems", "cut"),
    Said("It comes to this: <final_answer>({right})", "cut"),
    Said("<final_answer>({right})", "refused"),
    Said("<final_answer>{right}</final_answer>, not ({wrong})"),
)


@pytest.fixture(autouse=True)
def workplace(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.setenv("INSPECT_EVAL_LOG_FILE_PATTERN", "{task}_{id}")
    monkeypatch.chdir(tmp_path)


def shown(row: QuestionRow) -> tuple[str, str]:
    return row["user_question_or_message"], "\n".join(row["all_options"])


def replies() -> dict[tuple[str, str], Said]:
    """What is said to each question of the excerpt; questions that look the same get the same."""
    texts = {}
    for row in iter_examples("32k"):
        right = row["answer_index"]
        said = SAID[len(texts) % len(SAID)]
        text = said.text.format(right="abcd"[right], wrong="abcd"[(right + 1) % 4])
        texts.setdefault(shown(row), said._replace(text=text))
    return texts


def output_for(messages: list[ChatMessage]) -> ModelOutput:
    turn = messages[-1].text
    (said,) = {said for (question, options), said in replies().items() if question in turn and options in turn}
    output = ModelOutput.from_content("mock", said.text, stop_reason=STOPS[said.outcome])  # type: ignore[arg-type]
    output.usage = ModelUsage(input_tokens=9, output_tokens=1)  # else the mock counts all tokens
    return output


def evaluate(
    task: Any, answer: Callable[[list[ChatMessage]], ModelOutput] = output_for, **arguments: Any
) -> tuple[EvalLog, list[list[ChatMessage]]]:
    """Run a task of Inspect's; return its log, and the messages of each request in the order of arrival."""
    asked: list[list[ChatMessage]] = []

    def output(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        asked.append(messages)
        return answer(messages)

    model = get_model("mockllm/model", custom_outputs=output, memoize=False)
    (log,) = inspect_ai.eval(task, model=model, log_dir="logs", display="none", **arguments)
    return log, asked


def evaluate_with_lm_eval(
    task: str, monkeypatch: pytest.MonkeyPatch, metadata: Mapping[str, Any], *arguments: str
) -> list[Any]:
    """Run the lm-eval task; return the messages of each question, in their order."""
    prompts: list[Any] = []
    said = replies()

    def noting(self: Any, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> Any:
        prompts.append(list(chat_history))
        return JsonChatStr(json.dumps(chat_history))

    def answer(doc: QuestionRow) -> Reply:
        return Reply(said[shown(doc)].text, said[shown(doc)].outcome)

    monkeypatch.setattr(AnsweringChat, "apply_chat_template", noting)
    monkeypatch.setattr(AnsweringChat, "answer", staticmethod(answer), raising=False)
    given = ["--metadata", json.dumps(metadata)] if metadata else []
    run_lm_eval(["--model", "chat-for-tests", "--model_args", "model=m", "--tasks", task, *given, *arguments])
    return prompts


def plain(messages: list[ChatMessage]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in messages]


def by_harness(*places: str) -> dict[str, Run]:
    reading = read_runs(map(Path, places))
    assert not reading.unreadable
    return {run.backend: run for run in reading.runs}


@pytest.mark.parametrize("name", TASKS)
def test_the_two_harnesses_agree_question_by_question(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = evaluate_with_lm_eval(name, monkeypatch, {})
    log, asked = evaluate(TASKS[name](), max_connections=1)
    assert [plain(messages) for messages in asked] == prompts

    runs = by_harness("results", "logs")
    theirs, ours = runs["chat-for-tests"], runs["inspect_ai"]
    assert (ours.task, ours.data_digest, ours.is_whole) == (theirs.task, theirs.data_digest, True)
    assert list(ours.answers) == list(theirs.answers) == [row["question_id"] for row in iter_examples("32k")]
    differing = ("usage",)  # the model of lm-eval's counts nothing
    for question_id, answer in ours.answers.items():
        expected = vars(theirs.answers[question_id])
        assert {k: v for k, v in vars(answer).items() if k not in differing} == {
            k: v for k, v in expected.items() if k not in differing
        }, question_id
    assert {answer.outcome for answer in ours.answers.values()} == {"answered", "cut", "refused"}

    scores = {score.name: score.metrics for score in log.results.scores} if log.results else {}
    (path,) = Path("results").rglob("results_*.json")
    measured = json.loads(path.read_text(encoding="utf-8"))["results"][name]
    for rule in ("robust", "v1_parity"):
        for metric in ("acc", "acc_macro", "acc_suggest_new_ideas", "invalid_rate", "cut", "refused", "skipped"):
            own = scores[rule]["accuracy" if metric == "acc" else metric].value
            assert own == pytest.approx(measured[f"{metric},{rule}"], abs=1e-12), metric
    assert 0 < measured["acc,v1_parity"] < measured["acc,robust"] < 1


@pytest.mark.parametrize(
    "settings",
    [
        {"explain": True},
        {"memory": "recent", "settings": {"tokens": 300}},
        {"instruction": "mine.txt"},
        {"subset": "some.txt"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_mean_the_same(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.txt").write_text("Which of these would suit me?", encoding="utf-8")
    ids = [row["question_id"] for row in iter_examples("32k")][3:9]
    Path("some.txt").write_text("\n".join(ids), encoding="utf-8")
    prompts = evaluate_with_lm_eval("personamem_32k_generate", monkeypatch, settings, "--limit", "4")
    _, asked = evaluate(personamem_32k(**settings), max_connections=1, limit=4)
    assert [plain(messages) for messages in asked] == prompts
    runs = by_harness("results", "logs")
    theirs, ours = runs["chat-for-tests"], runs["inspect_ai"]
    assert (ours.shown, ours.subset) == (theirs.shown, theirs.subset)
    assert {*theirs.model_args} - {("model", "m")} == {*ours.model_args}


def test_a_sample_has_its_question_and_no_history() -> None:
    rows = list(iter_examples("32k"))
    samples = list(personamem_32k().dataset)
    assert [sample.id for sample in samples] == [row["question_id"] for row in rows]
    for sample, row in zip(samples, rows, strict=True):
        (message,) = sample.input
        assert message.text.startswith(row["user_question_or_message"])
        assert sample.metadata["question_type"] == row["question_type"]
        assert sample.metadata["topic"] == row["topic"]
        assert sample.target == "abcd"[row["answer_index"]]


def test_the_next_questions_about_a_history_follow_one_another() -> None:
    contexts = [sample.metadata["shared_context_id"] for sample in personamem_32k().dataset]
    changes = sum(before != after for before, after in pairwise(contexts))
    assert changes == len(set(contexts)) - 1


# ---- what is too long


WINDOW = 30_500
"""A window, reply included, that takes some of the histories of the excerpt."""


def test_questions_too_long_for_the_model_end_the_run_before_the_first_request() -> None:
    log, asked = evaluate(personamem_32k(max_length=WINDOW))
    assert (log.status, asked) == ("error", [])
    assert log.error is not None
    assert "questions are too long for the model, whose window is 30500 tokens" in log.error.message


def test_or_they_count_as_wrong_and_are_told() -> None:
    log, asked = evaluate(personamem_32k(max_length=WINDOW, overlength="skip"))
    run = by_harness("logs")["inspect_ai"]
    skipped = [answer for answer in run.answers.values() if answer.skipped]
    assert 0 < len(skipped) == len(run.answers) - len(asked)
    assert all(answer.credits == {"robust": 0.0, "v1_parity": 0.0} for answer in skipped)
    assert log.results is not None
    assert log.results.scores[0].metrics["skipped"].value == len(skipped) / len(run.answers)


def test_none_that_fits_is_an_error_either_way() -> None:
    log, _ = evaluate(personamem_32k(max_length=3_000, overlength="skip"))
    assert log.error is not None
    assert "17 of 17 questions" in log.error.message


@pytest.mark.parametrize("overlength", ["error", "skip"])
def test_an_endpoint_that_refuses_an_input_for_its_length_is_believed(overlength: str) -> None:
    def too_long(messages: list[ChatMessage]) -> ModelOutput:
        output = ModelOutput.from_content("mock", "maximum context length is (a)", stop_reason="model_length")
        output.usage = ModelUsage()
        return output

    log, _ = evaluate(personamem_32k(overlength=overlength), too_long)
    if overlength == "error":
        assert log.error is not None
        assert "the endpoint says that a question is too long" in log.error.message
    else:
        assert all(answer.skipped for answer in by_harness("logs")["inspect_ai"].answers.values())


def test_cutting_is_not_offered() -> None:
    with pytest.raises(click.ClickException, match="overlength=left: no such value"):
        personamem_32k(overlength="left")


# ---- reports


def test_a_report_shows_both_harnesses_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_with_lm_eval("personamem_32k_generate", monkeypatch, {})
    evaluate(personamem_32k())
    evaluate(personamem_32k_nocontext())
    outcome = personamem("report", "results", "logs", "--json")
    assert outcome.exit_code == 0, outcome.err
    (table,) = json.loads(outcome.out)["tables"]
    rows = {(row["model"], row["score"]): row for row in table["rows"] if row["context"]}
    mine, theirs = rows["mockllm/model", "robust"], rows["m", "robust"]
    assert mine["overall"] == theirs["overall"]
    assert mine["macro"] == theirs["macro"]
    assert mine["context_gain"] is not None
    assert any(row["floor"] and row["model"] == "floor: longest" for row in table["rows"])


def test_a_limited_run_has_a_table_of_its_own() -> None:
    evaluate(personamem_32k(), limit=4)
    run = by_harness("logs")["inspect_ai"]
    assert (run.limit, len(run.answers), run.is_whole) == (4, 4, False)


def test_a_sample_that_ended_in_an_error_is_failed_and_not_wrong() -> None:
    calls = iter(range(100))

    def sometimes(messages: list[ChatMessage]) -> ModelOutput:
        if next(calls) % 5 == 0:
            raise RuntimeError("gone")
        return output_for(messages)

    evaluate(personamem_32k(), sometimes, fail_on_error=False, max_connections=1)
    run = by_harness("logs")["inspect_ai"]
    assert (len(run.failed), len(run.answers), run.is_whole) == (4, 13, True)


def test_what_answers_took_is_read() -> None:
    def counted(messages: list[ChatMessage]) -> ModelOutput:
        output = output_for(messages)
        output.usage = ModelUsage(
            input_tokens=10, output_tokens=5, input_tokens_cache_read=700, input_tokens_cache_write=20
        )
        return output

    evaluate(personamem_32k(), counted)
    usage = next(iter(by_harness("logs")["inspect_ai"].answers.values())).usage
    assert usage.seconds is not None
    assert usage[1:] == (730, 5, 700)


def test_what_the_model_wrote_is_read() -> None:
    evaluate(personamem_32k())
    written = dict(read_responses(by_harness("logs")["inspect_ai"]))
    assert written == {row["question_id"]: replies()[shown(row)].text for row in iter_examples("32k")}


def test_settings_of_the_generation_tell_runs_apart_and_those_of_the_connection_do_not() -> None:
    evaluate(personamem_32k(), temperature=0.5, max_connections=2)
    assert by_harness("logs")["inspect_ai"].model_args == (("gen_kwargs", '{"temperature": 0.5}'),)


def test_a_log_that_is_not_whole_is_left_out_with_the_command_that_goes_on() -> None:
    def broken(messages: list[ChatMessage]) -> ModelOutput:
        raise RuntimeError("gone")

    evaluate(personamem_32k_nocontext(), broken)
    (path,) = Path("logs").glob("*.eval")
    outcome = personamem("report", "logs")
    fails(outcome, "logs: no results of a personamem task")
    assert f"left out {path}: not finished (error); go on with: inspect eval-retry {path}" in outcome.err

    inspect_ai.eval_retry(str(path), log_dir="logs", display="none")  # asks the mock that comes with Inspect
    reading = read_runs([Path("logs")])
    assert (len(reading.runs), reading.notes) == (1, [])


def test_a_log_that_cannot_be_read_hides_no_other() -> None:
    evaluate(personamem_32k())
    Path("logs/broken.eval").write_bytes(b"PK\x03\x04 no archive")
    outcome = personamem("report", "logs")
    assert outcome.exit_code == 1
    assert "mockllm/model" in outcome.out
    assert "broken.eval cannot be read as a log of Inspect: " in outcome.err


def test_several_answers_to_a_question_are_refused() -> None:
    evaluate(personamem_32k_nocontext(), epochs=2)
    fails(personamem("report", "logs"), "logs/")
    assert "each question was asked 2 times" in personamem("report", "logs").err


# ---- the command


def test_the_command_finds_the_tasks_by_the_name_of_the_distribution(dataset_folder: Path) -> None:
    if "personamem" not in {entry.name for entry in entry_points(group="inspect_ai")}:
        pytest.skip("this installation is older than the tasks: pip install -e '.[inspect]' (make test-inspect)")
    command = [Path(sys.executable).with_name("inspect"), "eval", "personamem/personamem_32k", "--limit", "2"]
    given = ["--model", "mockllm/model", "--display", "plain", "-T", f"data={dataset_folder}", "-T", "explain=true"]
    done = subprocess.run([*command, *given], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = read_runs([Path("logs")]).runs
    assert ("explain", "true") in run.model_args
