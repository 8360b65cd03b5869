"""What `personamem eval` sends to chat endpoints, and what it makes of their answers."""

from __future__ import annotations

import ast
import csv
import inspect
import json
from http import HTTPStatus
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from lm_eval.api.registry import get_model
from lm_eval.config.evaluate_config import EvaluatorConfig
from lm_eval.tasks import TaskManager
from loopback_chat import Answer, LoopbackChat, Message, Raw

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.build.from_official import import_release
from personamem_builder.evaluation import endpoints  # noqa: F401 (registers models that the examples name)
from personamem_builder.evaluation.run import run_lm_eval

EXAMPLES = Path(__file__).parents[3] / "examples"
TASK = "personamem_32k_generate"
INSTRUCTION = (
    "Which of these is the most fitting response? Give your final answer, the letter of one of them in brackets, "
    "after the\nspecial token <final_answer>."
)

Question = dict[str, Any]


def read_questions() -> list[Question]:
    with (EXAMPLES / "official_excerpt/questions_32k.csv").open(newline="", encoding="utf-8") as file:
        rows: list[Question] = list(csv.DictReader(file))
    for row in rows:
        row["options"] = "\n".join(ast.literal_eval(row["all_options"]))
        row["end"] = int(row["end_index_in_shared_context"])
        row["text"] = f"{row['user_question_or_message']}\n\n{INSTRUCTION}\n\n{row['options']}"
    return rows


def read_contexts() -> dict[str, list[Message]]:
    contexts: dict[str, list[Message]] = {}
    with (EXAMPLES / "official_excerpt/shared_contexts_32k.jsonl").open(encoding="utf-8") as file:
        for line in file:
            contexts |= json.loads(line)
    return contexts


QUESTIONS = read_questions()
CONTEXTS = read_contexts()


def history_of(question: Question) -> list[Message]:
    return CONTEXTS[question["shared_context_id"]][: question["end"]]


def expected_messages(question: Question) -> list[Message]:
    """What a model is to see, made from the release itself: in the excerpt each session starts with the persona."""
    history = history_of(question)
    turns: list[tuple[str, str]] = []
    session = 0
    for previous, message in pairwise(history):
        if message["role"] == "system":
            continue
        mark = ""
        if previous["role"] == "system":
            session += 1
            mark = f"[Session {session}]\n"
        turns.append((message["role"], mark + message["content"]))
    turns.append(("user", question["text"]))
    merged = [
        (role, "\n\n".join(text for _, text in group)) for role, group in groupby(turns, key=lambda turn: turn[0])
    ]
    return [history[0], *({"role": role, "content": text} for role, text in merged)]


def asked(messages: list[Message]) -> Question:
    """Find the question by its options, which the last message ends with."""
    (question,) = (q for q in QUESTIONS if messages[-1]["content"].endswith(q["options"]))
    return question


def gold(messages: list[Message]) -> str:
    return f"Let me see. <final_answer>{asked(messages)['correct_answer']}"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "personamem"
    import_release(EXAMPLES / "official_excerpt", folder)
    return folder


@pytest.fixture(autouse=True)
def _workplace(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset))
    monkeypatch.setenv("OPENAI_API_KEY", "openai-test-key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "anthropic-test-key")


def evaluate(chat: LoopbackChat, *arguments: str, task: str = TASK, **model_args: Any) -> list[dict[str, Any]]:
    """Run one task with lm-eval's backend for any OpenAI-compatible server; return the predictions."""
    model_args = {
        "model": "test-model",
        "base_url": f"{chat.url}/v1/chat/completions",
        "max_retries": 1,
        **model_args,
    }
    listed = ",".join(f"{name}={value}" for name, value in model_args.items())
    (path,) = run_lm_eval(["--model", "local-chat-completions", "--model_args", listed, "--tasks", task, *arguments])
    return read_jsonl(path)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def results(task: str = TASK) -> dict[str, Any]:
    (path,) = Path("results").glob("*/results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))["results"][task]


def ask_ours(chat: LoopbackChat, tasks: str, num_concurrent: int = 3) -> None:
    """Run tasks with our own client."""
    model = f"model=m,base_url={chat.url}/v1/chat/completions,num_concurrent={num_concurrent}"
    run_lm_eval(["--model", "personamem-chat", "--model_args", model, "--tasks", tasks])


def completion(messages: list[Message]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"content": gold(messages)}, "finish_reason": "stop"}]}


# ---- what is sent


def test_a_server_gets_the_history_as_chat_messages() -> None:
    with LoopbackChat("(a)") as chat:
        evaluate(chat)
    assert len(chat.requests) == len(QUESTIONS)
    for request in chat.requests:
        messages = request.body.pop("messages")
        assert messages == expected_messages(asked(messages))
        # The task's own generation settings, in the words of the API and with nothing left over.
        assert request.body == {"model": "test-model", "max_tokens": 2048, "temperature": 0, "stop": [], "seed": 1234}


def test_messages_start_with_the_persona_and_end_with_the_question() -> None:
    with LoopbackChat("(a)") as chat:
        evaluate(chat, "--limit", "1")
    (request,) = chat.requests
    system, first, second, *_, last = request.messages
    assert system["role"] == "system"
    assert system["content"].startswith("Current user persona: Name: Kanoa Manu")
    assert first["role"] == "user"
    assert first["content"].startswith("[Session 1]\nUser: Hi there! I've recently been diving deeper into my passion")
    assert second["role"] == "assistant"
    assert last["role"] == "user"
    assert last["content"].endswith(asked(request.messages)["text"])
    roles = [message["role"] for message in request.messages[1:]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_questions_go_out_context_by_context_with_growing_histories() -> None:
    with LoopbackChat("(a)") as chat:
        evaluate(chat)
    places = [(q["shared_context_id"], q["end"]) for q in (asked(request.messages) for request in chat.requests)]
    assert places == sorted(places)


def test_each_history_goes_over_one_connection_and_grows() -> None:
    with LoopbackChat(lambda messages: Raw(completion(messages), delay=0.01)) as chat:
        ask_ours(chat, f"{TASK},personamem_32k_generate_nocontext")
    by_connection: dict[int, list[tuple[str, int]]] = {}
    for request in chat.requests:
        if len(request.messages) > 1:
            question = asked(request.messages)
            by_connection.setdefault(request.port, []).append((question["shared_context_id"], question["end"]))
    histories = {question["shared_context_id"] for question in QUESTIONS}
    assert len(histories) > 1
    assert 1 < len(by_connection) <= 3
    in_a_row = [context for places in by_connection.values() for context, _ in groupby(places, lambda place: place[0])]
    assert sorted(in_a_row) == sorted(histories)  # each once: on one connection, with nothing in between
    for places in by_connection.values():
        for _, own in groupby(places, lambda place: place[0]):
            ends = [end for _, end in own]
            assert ends == sorted(ends)


@pytest.mark.slow
def test_tasks_about_one_history_are_asked_together() -> None:
    shared = data_dir("lm_eval_tasks") / "_generate_yaml"
    Path("again.yaml").write_text(f"include: {shared}\ntask: personamem_again\ntest_split: 32k\n")
    with LoopbackChat("(a)") as chat:
        ask_ours(chat, f"{TASK},again.yaml", num_concurrent=1)
    places = [(q["shared_context_id"], q["end"]) for q in (asked(request.messages) for request in chat.requests)]
    assert len(places) == 2 * len(QUESTIONS)
    assert places == sorted(places)


def test_roles_verbatim_sends_the_stored_messages() -> None:
    with LoopbackChat("(a)") as chat:
        evaluate(chat, "--limit", "3", "--metadata", "roles=verbatim")
    assert len(chat.requests) == 3
    for request in chat.requests:
        question = asked(request.messages)
        assert request.messages == [*history_of(question), {"role": "user", "content": question["text"]}]


def test_limit() -> None:
    with LoopbackChat("(a)") as chat:
        predictions = evaluate(chat, "--limit", "2")
    assert [p["question_id"] for p in predictions] == [asked(r.messages)["question_id"] for r in chat.requests]
    assert len(predictions) == 2


# ---- what becomes of the answers


def test_right_answers_score_1() -> None:
    with LoopbackChat(gold) as chat:
        predictions = evaluate(chat)
    scores = results()
    for rule in ("robust", "v1_parity"):
        assert scores[f"acc,{rule}"] == 1
        assert scores[f"acc_macro,{rule}"] == pytest.approx(1)
        assert scores[f"invalid_rate,{rule}"] == 0
    assert {p["question_id"] for p in predictions} == {q["question_id"] for q in QUESTIONS}
    for prediction in predictions:
        assert prediction["predictions"] == dict.fromkeys(("robust", "v1_parity"), prediction["answer"])
        assert prediction["credits"] == {"robust": 1, "v1_parity": 1}
        assert prediction["response"] == f"Let me see. <final_answer>({prediction['answer']})"


@pytest.mark.parametrize("answer", [None, "", "I would rather not say."])
def test_an_answer_without_a_letter_is_invalid(answer: str | None) -> None:
    with LoopbackChat(answer) as chat:
        predictions = evaluate(chat, "--limit", "3")
    assert results()["acc,robust"] == 0
    assert results()["invalid_rate,robust"] == 1
    for prediction in predictions:
        assert prediction["response"] == (answer or "")
        assert prediction["predictions"] == {"robust": None, "v1_parity": None}
        assert prediction["credits"] == {"robust": 0, "v1_parity": 0}
        assert not prediction["skipped"]


@pytest.mark.parametrize(
    ("task", "instead"),
    [
        ("personamem_32k", "personamem_32k_generate"),
        ("personamem_128k_letters", "personamem_128k_generate"),
        ("personamem_32k_letters_nocontext", "personamem_32k_generate_nocontext"),
    ],
)
def test_a_loglikelihood_task_is_refused_before_anything_is_sent(task: str, instead: str) -> None:
    with LoopbackChat("(a)") as chat, pytest.raises(UserError, match=f"{task} needs log-likelihoods") as caught:
        evaluate(chat, task=task)
    assert caught.value.hint == f"use --tasks {instead}"
    assert chat.requests == []


def test_a_broken_off_run_goes_on() -> None:
    def out_of_quota(messages: list[Message]) -> str | HTTPStatus:
        return gold(messages) if len(chat.requests) <= 2 else HTTPStatus.TOO_MANY_REQUESTS

    with LoopbackChat(out_of_quota) as chat:
        with pytest.raises(UserError, match="429"):
            evaluate(chat, "--limit", "5")
        chat.requests.clear()
        chat.answer = gold
        predictions = evaluate(chat, "--limit", "5")
    assert len(chat.requests) == 3
    assert [p["credits"]["robust"] for p in predictions] == [1] * 5


# ---- questions too long for the model: without a window lm-eval would send them, and stop at the server's error

WINDOW = 30_500
FITTING = {q["question_id"] for q in QUESTIONS if int(q["context_length_in_tokens"]) < 26_000}


def test_too_long_questions_stop_the_run_before_anything_is_sent() -> None:
    too_long = f"{len(QUESTIONS) - len(FITTING)} of {len(QUESTIONS)} questions are too long for the model"
    with LoopbackChat("(a)") as chat, pytest.raises(UserError, match=too_long) as caught:
        evaluate(chat, max_length=WINDOW)
    assert "--metadata overlength=skip" in str(caught.value.hint)
    assert chat.requests == []


def test_too_long_questions_can_be_skipped_and_count_as_wrong() -> None:
    with LoopbackChat(gold) as chat:
        predictions = evaluate(chat, "--metadata", "overlength=skip", max_length=WINDOW)
    assert {asked(request.messages)["question_id"] for request in chat.requests} == FITTING
    assert len(predictions) == len(QUESTIONS)
    for prediction in predictions:
        fits = prediction["question_id"] in FITTING
        assert prediction["skipped"] is not fits
        assert prediction["predictions"]["robust"] == (prediction["answer"] if fits else None)
        assert prediction["credits"]["robust"] == fits
    scores = results()
    assert scores["acc,robust"] == pytest.approx(len(FITTING) / len(QUESTIONS))
    assert scores["skipped,robust"] == pytest.approx(1 - len(FITTING) / len(QUESTIONS))
    assert scores["invalid_rate,robust"] == 0


# ---- examples/eval


def load_config(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / f"eval/{name}.yaml").read_text(encoding="utf-8"))


def run_config(name: str, answer: Answer | str, model: str = "test-model") -> LoopbackChat:
    """Run two questions of each task of an example file, at the path of its API but on the loopback server."""
    config = load_config(name)
    default_url = inspect.signature(get_model(config["model"]).__init__).parameters["base_url"].default
    path = urlsplit(config["model_args"].get("base_url", default_url)).path
    with LoopbackChat(answer) as chat:
        config["model_args"] |= {"model": model, "base_url": chat.url + path}
        Path("config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        run_lm_eval(["--config", "config.yaml", "--limit", "2"])
    return chat


@pytest.mark.parametrize("path", sorted((EXAMPLES / "eval").iterdir()), ids=lambda path: path.stem)
def test_example_is_a_config_of_lm_eval(path: Path) -> None:
    config = EvaluatorConfig.from_config(path)  # refuses unknown keys
    tasks = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    assert tasks.match_tasks(config.tasks) == sorted(config.tasks)
    assert config.apply_chat_template is True
    assert "MODEL" in config.model_args.values()
    # lm-eval writes model_args into its results.
    assert not {"api_key", "auth_token", "header"} & config.model_args.keys()


OPENAI_BODY = {"model": "test-model", "max_tokens": 16384, "temperature": 0, "stop": None, "seed": 1234}


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        ("openai-compatible-server", "/v1/chat/completions", OPENAI_BODY),
        ("gemini", "/v1beta/openai/chat/completions", {"model": "test-model", "max_tokens": 16384, "temperature": 0}),
        ("deepseek", "/chat/completions", OPENAI_BODY),
        (
            "openai",
            "/v1/chat/completions",
            {"model": "test-model", "max_completion_tokens": 16384, "temperature": 0, "stop": None, "seed": 1234},
        ),
    ],
)
def test_example_for_an_openai_api(name: str, path: str, body: dict[str, Any]) -> None:
    chat = run_config(name, gold)
    assert len(chat.requests) == 4
    for request in chat.requests:
        assert request.path == path
        assert request.headers["authorization"] == "Bearer openai-test-key"
    with_context, without = chat.requests[0], chat.requests[2]
    question = asked(with_context.messages)
    assert with_context.body == {**body, "messages": expected_messages(question)}
    assert without.body == {**body, "messages": [{"role": "user", "content": question["text"]}]}
    assert results(TASK)["acc,robust"] == results(f"{TASK}_nocontext")["acc,robust"] == 1


def test_example_for_openai_with_a_reasoning_model() -> None:
    body = run_config("openai", gold, model="gpt-5").requests[0].body
    assert body["temperature"] == 1
    assert "stop" not in body


def test_example_for_anthropic() -> None:
    chat = run_config("anthropic", gold)
    assert len(chat.requests) == 4
    for request in chat.requests:
        assert request.path == "/v1/messages"
        assert request.headers["x-api-key"] == "anthropic-test-key"
        assert request.headers["anthropic-version"]
        assert "authorization" not in request.headers
    request, without = chat.requests[0], chat.requests[2]
    system, *turns = expected_messages(asked(request.messages))
    assert request.body == {
        "model": "test-model",
        "system": system["content"],
        "messages": [{"role": t["role"], "content": [{"type": "text", "text": t["content"]}]} for t in turns],
        "max_tokens": 16384,
        "temperature": 0,
    }
    assert "system" not in without.body
    assert results(TASK)["acc,robust"] == results(f"{TASK}_nocontext")["acc,robust"] == 1


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_key_is_an_error_before_the_first_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(UserError, match=f"(?i){name}_api_key"):
        run_config(name, gold)


def test_an_endpoint_that_refuses_is_an_error_without_a_traceback() -> None:
    with LoopbackChat(HTTPStatus.PAYMENT_REQUIRED) as chat:
        model = f"model=m,base_url={chat.url}/v1/chat/completions,max_retries=1"
        with pytest.raises(UserError, match="402"):
            run_lm_eval(["--tasks", TASK, "--model", "local-chat-completions", "--model_args", model, "--limit", "1"])


def test_an_unknown_key_in_a_config_file_is_an_error_that_names_it() -> None:
    Path("config.yaml").write_text("model: dummy\ntasks: [personamem_32k]\nmodle: x\n", encoding="utf-8")
    with pytest.raises(UserError, match="modle"):
        run_lm_eval(["--config", "config.yaml"])


def test_skipping_every_question_is_an_error_too() -> None:
    with LoopbackChat(gold) as chat:
        model = f"model=m,base_url={chat.url}/v1/chat/completions,max_length=1000"
        arguments = ["--tasks", TASK, "--model", "local-chat-completions", "--model_args", model]
        with pytest.raises(UserError, match="17 of 17 questions are too long"):
            run_lm_eval([*arguments, "--metadata", "overlength=skip"])
    assert chat.requests == []
