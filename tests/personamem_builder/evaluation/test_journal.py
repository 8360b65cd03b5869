"""Answers are kept as they come: the same command asks only what is missing; a failure is never an answer."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from answering_lm import AnsweringChat, AnsweringScorer, right
from command_line import personamem
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback_chat import LoopbackChat, Message

from generation.errors import UserError
from personamem_builder.dataset.load import iter_examples
from personamem_builder.evaluation.journal import MISSING, Journal
from personamem_builder.evaluation.responses import LogLikelihood, Reply
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.usage import AnswerUsage

GENERATE = "personamem_32k_generate_nocontext"
SCORE = "personamem_32k_nocontext"
QUESTIONS = 17
JOURNAL = Path("results/answers.sqlite")

Answer = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def workplace(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-that-nobody-sees")
    monkeypatch.chdir(tmp_path)


def ask(*arguments: str, answer: Answer = right, model: str = "model=m", task: str = GENERATE) -> list[Any]:
    """Run the chat model; return the questions it was asked."""
    AnsweringChat.answer, AnsweringChat.asked = staticmethod(answer), []  # type: ignore[assignment]
    run_lm_eval(["--model", "chat-for-tests", "--model_args", model, "--tasks", task, *arguments])
    return AnsweringChat.asked


def score(*arguments: str, answer: Answer, task: str = SCORE) -> list[Any]:
    """Run the model that scores texts; return the questions it was asked, once for each option."""
    AnsweringScorer.answer, AnsweringScorer.asked = staticmethod(answer), []  # type: ignore[assignment]
    run_lm_eval(["--model", "scorer-for-tests", "--model_args", "model=m", "--tasks", task, *arguments])
    return AnsweringScorer.asked


def stopping_after(count: int, answer: Answer, error: BaseException) -> Answer:
    calls = iter(range(count))

    def stopping(request: Any) -> Any:
        if next(calls, None) is None:
            raise error
        return answer(request)

    return stopping


def predictions(folder: str = "results") -> list[dict[str, Any]]:
    path = max(Path(folder).rglob("predictions_*.jsonl"))
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ---- a run that stopped goes on


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("gone"), RuntimeError("a bug")], ids=repr)
def test_a_run_that_stopped_asks_only_what_is_missing(error: BaseException) -> None:
    import lm_eval
    from lm_eval import loggers, tasks

    names = (lm_eval.simple_evaluate, tasks.TaskManager, loggers.EvaluationTracker, logging.getLogRecordFactory())
    with pytest.raises(type(error)):
        ask(answer=stopping_after(5, right, error))
    assert names == (
        lm_eval.simple_evaluate,
        tasks.TaskManager,
        loggers.EvaluationTracker,
        logging.getLogRecordFactory(),
    )
    first = AnsweringChat.asked[:5]
    second = ask()
    assert len(second) == QUESTIONS - 5
    assert len({*first, *second}) == QUESTIONS
    assert ask() == []
    assert [row["credits"]["robust"] for row in predictions()] == [1] * QUESTIONS


def test_log_likelihoods_are_kept_with_their_tokens() -> None:
    def likelihood(request: Any) -> LogLikelihood:
        return LogLikelihood([-0.1 * len(request.args[1]), -1 / 3], request.idx == 1)

    with pytest.raises(KeyboardInterrupt):
        score(answer=stopping_after(30, likelihood, KeyboardInterrupt()))
    assert len(score(answer=likelihood)) == 4 * QUESTIONS - 30
    kept = predictions()
    assert score("--output_path", "anew", answer=likelihood)
    assert kept == predictions("anew")
    assert {tuple(row["option_tokens"]) for row in kept} == {(2, 2, 2, 2)}


@pytest.mark.slow
def test_a_killed_run_asks_nothing_twice_but_what_was_under_way() -> None:
    """The server kills it while it answers the seventh question."""
    asked: Counter[str] = Counter()

    def answer(messages: list[Message]) -> str:
        asked[messages[-1]["content"]] += 1
        if asked.total() == 7:
            child.kill()
            child.wait()
        return "<final_answer>(a)"

    with LoopbackChat(answer) as chat:
        model = f"model=m,base_url={chat.url}/v1/chat/completions,max_retries=1"
        arguments = ["--model", "local-chat-completions", "--model_args", model, "--tasks", GENERATE]
        code = f"import sys; sys.argv = ['personamem', 'eval', *{arguments}]\n"
        code += "from personamem_builder.cli import main\nmain()"
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        assert child.wait(60) == -9
        run_lm_eval(arguments)
    assert asked.total() == QUESTIONS + 1
    assert sorted(asked.values()) == [1] * (QUESTIONS - 1) + [2]


def test_what_is_kept_is_told_with_how_to_ask_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    logger = logging.getLogger("lm_eval.personamem")
    monkeypatch.setattr(logger, "handle", lambda record: told.append(record.getMessage()))
    ask("--limit", "4")
    assert f"answers are kept in {JOURNAL} as they come" in told
    ask("--limit", "6")
    assert f"4 of 6 answers are kept in {JOURNAL}; remove it to ask anew" in told
    JOURNAL.unlink()
    assert len(ask("--limit", "6")) == 6


def test_a_limit_raised_later_asks_the_rest() -> None:
    assert len(ask("--limit", "3")) == 3
    assert len(ask()) == QUESTIONS - 3


# ---- what an answer is known by


@pytest.mark.slow
def test_models_share_a_folder_and_keep_their_answers_apart() -> None:
    ask()
    assert len(ask(model="model=other", answer=lambda doc: "<final_answer>(a)")) == QUESTIONS
    assert ask() == []
    assert {row["credits"]["robust"] for row in predictions("results/m")} == {1}
    assert len(list(Path("results").rglob("answers.sqlite"))) == 1


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["--gen_kwargs", "temperature=0.5"], "model=m"),
        (["--gen_kwargs", "max_gen_toks=99"], "model=m"),
        (["--system_instruction", "Be brief."], "model=m"),
        (["--metadata", "roles=no_system"], "model=m"),
        (["--seed", "7"], "model=m"),
        ([], "model=m,base_url=http://127.0.0.1:1/v1"),
        ([], "model=m,dtype=float32"),
    ],
)
def test_what_shapes_an_answer_asks_anew(arguments: list[str], model: str) -> None:
    with_context = "personamem_32k_generate"
    ask("--limit", "2", task=with_context)
    assert len(ask("--limit", "2", *arguments, model=model, task=with_context)) == 2


@pytest.mark.parametrize(
    "model",
    [
        "model=m,num_concurrent=4",
        "model=m,timeout=9,max_retries=2,api_key=sk-another-key",
        "verify_certificate=False,model=m",
    ],
)
def test_what_shapes_no_answer_asks_nothing_anew(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("--limit", "2")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-that-nobody-sees")
    assert ask("--limit", "2", model=model) == []


def test_other_data_are_asked_about_anew(excerpt: Path) -> None:
    from personamem_builder.build.from_official import import_release

    shutil.copytree(excerpt, "release")
    table = Path("release/questions_32k.csv")
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    table.write_text("".join(lines[:10]), encoding="utf-8")
    import_release(Path("release"), Path("fewer"))
    ask()
    assert len(ask("--metadata", "data=fewer")) == 9


def test_a_model_in_a_folder_is_known_by_its_files() -> None:
    Path("model").mkdir()
    Path("model/weights").write_text("old", encoding="utf-8")
    ask("--limit", "2", model="pretrained=model")
    assert ask("--limit", "2", model="pretrained=model") == []
    Path("model/weights").write_text("new ones", encoding="utf-8")
    assert len(ask("--limit", "2", model="pretrained=model")) == 2


def foreign_task(**more: Any) -> list[str]:
    """Write a task that is none of ours; return the arguments that find it."""
    Path("foreign").mkdir(exist_ok=True)
    rows = [{"q": f"{n} + {n}", "a": str(n + n)} for n in (1, 2, 3)]
    Path("foreign/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "task": "sums",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(Path("foreign/rows.jsonl").absolute())}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "generation_kwargs": {"until": ["\n"]},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        **more,
    }
    Path("foreign/sums.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    return ["--include_path", "foreign"]


def test_tasks_of_others_are_kept_too() -> None:
    found = foreign_task()
    with pytest.raises(KeyboardInterrupt):
        ask(*found, task="sums", answer=stopping_after(2, lambda doc: doc["a"], KeyboardInterrupt()))
    assert ask(*found, task="sums", answer=lambda doc: doc["a"]) == [{"q": "3 + 3", "a": "6"}]


def test_a_request_that_is_repeated_gets_an_answer_each_time() -> None:
    found = foreign_task(repeats=3, filter_list=[{"name": "first", "filter": [{"function": "take_first"}]}])
    assert len(ask(*found, task="sums", answer=lambda doc: doc["a"])) == 9
    assert ask(*found, task="sums", answer=lambda doc: doc["a"]) == []


def test_a_task_of_others_is_not_scored_where_answers_failed() -> None:
    def answer(doc: dict[str, Any]) -> str:
        return Reply("", "failed", "status 500") if doc["q"] == "2 + 2" else doc["a"]

    found = foreign_task()
    with pytest.raises(UserError, match=r"no answer came for 1 requests of sums.*status 500"):
        ask(*found, task="sums", answer=answer)
    assert not list(Path("results").rglob("*.json"))
    assert len(ask(*found, task="sums", answer=lambda doc: doc["a"])) == 1


# ---- a failure is no answer


def failing(*numbers: int) -> Answer:
    ids = [row["question_id"] for row in iter_examples("32k")]
    failed = {ids[number] for number in numbers}
    return lambda doc: Reply("", "failed", "status 503: busy") if doc["question_id"] in failed else right(doc)


def results() -> dict[str, Any]:
    path = max(Path("results").rglob("results_*.json"))
    return json.loads(path.read_text(encoding="utf-8"))["results"][GENERATE]


def test_failed_questions_are_told_and_asked_again_by_the_same_command() -> None:
    AnsweringChat.answer, AnsweringChat.asked = staticmethod(failing(2, 7)), []  # type: ignore[assignment]
    arguments = ["eval", "--model", "chat-for-tests", "--model_args", "model=m", "--tasks", GENERATE]
    ended = personamem(*arguments)
    assert ended.exit_code == 1
    assert f"error: 2 of {QUESTIONS} questions got no answer" in ended.err
    assert "status 503: busy" in ended.err
    assert f"personamem {' '.join(arguments)}" in ended.err
    assert "wrote results/m/predictions_" in ended.err
    scores = results()
    assert scores["failed,robust"] == pytest.approx(2 / QUESTIONS)
    assert [scores[name] for name in ("acc,robust", "acc,v1_parity", "acc_macro,robust")] == pytest.approx([1] * 3)
    assert scores["invalid_rate,robust"] == 0
    rows = predictions()
    assert len(rows) == QUESTIONS
    assert [(row["predictions"], row["credits"]) for row in rows if row["outcome"] == "failed"] == [({}, {})] * 2
    assert {row["finish_reason"] for row in rows if row["outcome"] == "failed"} == {"status 503: busy"}
    assert len(ask()) == 2
    assert results()["failed,robust"] == 0


@pytest.mark.parametrize("numbers", [(0,), (0, 1, 2, 3), (3, 8, 15)])
def test_the_macro_score_is_the_mean_over_the_types_of_what_was_answered(numbers: tuple[int, ...]) -> None:
    ids = [row["question_id"] for row in iter_examples("32k")]
    wrong = set(ids[1::3])
    fails = failing(*numbers)

    def answer(doc: dict[str, Any]) -> Any:
        return "<final_answer>none" if doc["question_id"] in wrong and fails(doc) != "" else fails(doc)

    with pytest.raises(UserError, match=f"{len(numbers)} of {QUESTIONS} questions got no answer"):
        ask(answer=answer)
    answered = [row for i, row in enumerate(iter_examples("32k")) if i not in numbers]
    types: dict[str, list[bool]] = {}
    for row in answered:
        types.setdefault(row["question_type"], []).append(row["question_id"] not in wrong)
    means = {kind: sum(values) / len(values) for kind, values in types.items()}
    scores = results()
    assert scores["acc_macro,robust"] == pytest.approx(sum(means.values()) / len(means))
    assert {kind: scores[f"acc_{kind},robust"] for kind in means} == pytest.approx(means)


def test_where_everything_failed_there_is_no_score() -> None:
    with pytest.raises(UserError, match=f"{QUESTIONS} of {QUESTIONS} questions got no answer"):
        ask(answer=lambda doc: Reply("", "failed", "status 500"))
    scores = results()
    assert scores["failed,robust"] == 1
    assert not [name for name in scores if name.startswith(("acc", "invalid"))]
    assert len(ask()) == QUESTIONS


def test_an_empty_reply_of_another_backend_is_invalid_and_asked_again() -> None:
    """lm-eval's backends give it for whatever they cannot read."""
    ask("--limit", "3", answer=lambda doc: "")
    assert results()["invalid_rate,robust"] == 1
    assert len(ask("--limit", "3")) == 3


def test_an_endpoint_that_fails_leaves_what_was_answered() -> None:
    def answer(messages: list[Message]) -> str | HTTPStatus:
        return "<final_answer>(a)" if len(chat.requests) <= 3 else HTTPStatus.BAD_GATEWAY

    with LoopbackChat(answer) as chat:
        model = f"model=m,base_url={chat.url}/v1/chat/completions,max_retries=1"
        arguments = ["--model", "local-chat-completions", "--model_args", model, "--tasks", GENERATE, "--limit", "5"]
        with pytest.raises(UserError, match="502") as caught:
            run_lm_eval(arguments)
        assert f"answers are kept in {JOURNAL}" in caught.value.hint
        chat.requests.clear()
        run_lm_eval(arguments)
        assert len(chat.requests) == 2


# ---- cut and refused replies


def test_cut_and_refused_replies_are_marked_and_counted() -> None:
    replies = {
        0: Reply("I like (a), (b)", "cut", "length"),
        1: Reply("<final_answer>({})", "cut", "length"),
        2: Reply("<final_answer>({})", "refused", "content_filter"),
        3: Reply("<final_answer>({})", "answered", "stop"),
    }
    ids = [row["question_id"] for row in iter_examples("32k")]

    def answer(doc: dict[str, Any]) -> Reply:
        reply = replies[ids.index(doc["question_id"])]
        return Reply(reply.format("abcd"[doc["answer_index"]]), reply.outcome, reply.finish_reason)

    ask("--limit", "4", answer=answer)
    for _ in range(2):  # the second time from the journal
        scores = results()
        assert scores["cut,robust"] == scores["cut,v1_parity"] == 0.5
        assert scores["refused,robust"] == 0.25
        assert scores["acc,robust"] == scores["acc,v1_parity"] == 0.5
        assert scores["invalid_rate,robust"] == 0.5
        rows = predictions()
        assert [(row["outcome"], row["finish_reason"]) for row in rows] == [
            ("cut", "length"),
            ("cut", "length"),
            ("refused", "content_filter"),
            ("answered", "stop"),
        ]
        assert [row["predictions"]["robust"] is not None for row in rows] == [False, True, False, True]
        assert ask("--limit", "4") == []


def test_replies_with_characters_that_no_file_takes_are_written() -> None:
    ask("--limit", "2", "--log_samples", answer=lambda doc: f"\ud800\x00 {right(doc)} \udfff")
    rows = predictions()
    assert [row["credits"]["robust"] for row in rows] == [1, 1]
    assert rows[0]["response"].startswith("\ufffd\ufffd <final_answer>")
    assert ask("--limit", "2") == []
    assert predictions() == rows
    (samples,) = Path("results").rglob("samples_*.jsonl")
    assert len(samples.read_text(encoding="utf-8").splitlines()) == 2 * 2


# ---- the file


COUNTS = st.none() | st.integers(0, 2**31 - 1)
USAGES = st.builds(AnswerUsage, st.none() | st.floats(0, 1e6), COUNTS, COUNTS, COUNTS)
ANSWERS = st.one_of(
    st.text(min_size=1),
    st.floats(allow_nan=False),
    st.tuples(st.floats(allow_nan=False), st.booleans()),
    st.builds(Reply, st.text(), st.sampled_from(["answered", "cut", "refused"]), st.text(), USAGES),
    st.builds(LogLikelihood, st.lists(st.floats(-1e3, 0)), st.booleans()),
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), ANSWERS, max_size=5), st.booleans())
def test_any_answer_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, answers: dict[str, Any], wait: bool
) -> None:
    path = tmp_path_factory.mktemp("journal") / "answers.sqlite"
    journal = Journal(path)
    for key, answer in answers.items():
        journal.put(key, answer, wait=wait)
    journal.flush()
    kept = Journal(path)
    for key, answer in answers.items():
        found = kept.get(key)
        assert (found, type(found)) == (answer, type(answer))
        assert getattr(found, "__dict__", None) == getattr(answer, "__dict__", None)
        if isinstance(answer, Reply):
            assert (found.outcome, found.finish_reason) == (answer.outcome, answer.finish_reason)
            assert found.usage == answer.usage


@pytest.mark.parametrize("answer", [Reply("", "failed", "status 500"), Reply("(a)", "failed"), "", None, [], object()])
def test_no_failure_is_kept(answer: Any, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "answers.sqlite")
    journal.put("key", answer, wait=True)
    assert journal.get("key") is MISSING


SOON = '{"text": "(a)", "outcome": "answered", "finish_reason": "", "seconds": "soon"}'


@pytest.mark.parametrize("damage", ["{", "null", '{"text": 1}', '{"token_logprobs": 3}', SOON, "[]", "[" * 100_000])
def test_damage_is_an_error_that_names_the_file(damage: str) -> None:
    ask("--limit", "1")
    with closing(sqlite3.connect(JOURNAL)) as database, database:
        database.execute("UPDATE replies SET text = ?", (damage,))
    with pytest.raises(UserError, match=r"results/answers\.sqlite: an answer in it is damaged"):
        ask("--limit", "1")


def test_a_file_that_is_no_journal_is_an_error_before_anything_is_asked() -> None:
    JOURNAL.parent.mkdir()
    JOURNAL.write_text("my thesis " * 1000, encoding="utf-8")
    with pytest.raises(UserError, match="cannot be used as a journal of answers"):
        ask()
    assert AnsweringChat.asked == []


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_loses_no_answer(python: Callable[..., Any], dataset_folder: Path) -> None:
    """First the journal cannot grow; then only the results and predictions cannot be written."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from answering_lm import AnsweringChat, right
from command_line import personamem
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
AnsweringChat.limits = {{}}

def answer(doc):
    if len(AnsweringChat.asked) in AnsweringChat.limits:
        limit = AnsweringChat.limits[len(AnsweringChat.asked)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    return right(doc) + " " * 5000

AnsweringChat.answer = answer
arguments = ["eval", "--model", "chat-for-tests", "--model_args", "model=m", "--tasks", "{GENERATE}"]
for limits in ({{5: 100_000}}, {{}}):
    AnsweringChat.asked, AnsweringChat.limits = [], limits
    ended = personamem(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    named = "cannot be used as a journal" in ended.err
    print(ended.exit_code, len(AnsweringChat.asked), named, "Traceback" in ended.err)
"""
    first, second = python(code, PERSONAMEM_DATA=str(dataset_folder)).stdout.splitlines()
    code_1, asked_1, named, traceback = first.split()
    assert (code_1, named, traceback) == ("1", "True", "False")
    assert 5 < int(asked_1) < QUESTIONS
    assert second.split()[0] == "0"
    assert int(second.split()[1]) == QUESTIONS - int(asked_1) + 1


@pytest.mark.parametrize(("limit", "what"), [(2_000, "results_"), (12_000, "predictions_")])
@pytest.mark.slow
def test_results_that_cannot_be_written_are_an_error_and_no_answer_is_lost(
    limit: int, what: str, python: Callable[..., Any], dataset_folder: Path, tmp_path: Path
) -> None:
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from answering_lm import AnsweringChat, right
from command_line import personamem
from personamem_builder.evaluation.saving import Tracker
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
AnsweringChat.answer = lambda doc: right(doc) + " long" * 500
arguments = ["eval", "--model", "chat-for-tests", "--model_args", "model=m", "--tasks", "{GENERATE}"]
save = Tracker.save_results_aggregated

def limited(self, **arguments):
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, most))
    save(self, **arguments)

for function in (limited, save):
    Tracker.save_results_aggregated = function
    AnsweringChat.asked = []
    ended = personamem(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    print(len(AnsweringChat.asked), ended.exit_code, " ".join(ended.err.split()))
"""
    first, second = python(code, PERSONAMEM_DATA=str(dataset_folder)).stdout.strip().split("\n")
    assert first.startswith(f"{QUESTIONS} 1 ")
    assert f"error: results/m/{what}" in first
    assert "cannot be written: File too large (" in first
    assert "reads all answers from results/answers.sqlite and asks nothing again" in first
    assert "Traceback" not in first
    assert second.startswith("0 0 ")
    names = sorted(path.name.partition("_")[0] for path in (tmp_path / "results/m").iterdir())
    assert names == ["predictions", "results"]
