"""`personamem-chat` and `personamem-anthropic` against endpoints that misbehave in every way that was met."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from loopback_chat import Answer, LoopbackChat, Message, Raw

from generation import progress
from generation.errors import UserError
from generation.http import MAX_REPLY_BYTES
from personamem_builder.evaluation.chat_client import ChatClient, Endpoint
from personamem_builder.evaluation.endpoints import AnthropicEndpoint, ChatEndpoint
from personamem_builder.evaluation.responses import Reply
from personamem_builder.schema import AnswerOutcome

ROOT = Path(__file__).parents[3]
KEY = "sk-SeCrEt-0123456789abcdef"
GOOD = "<final_answer>(c)"
GZIP = {"Content-Encoding": "gzip"}
SETTINGS: dict[str, Any] = {"until": [], "max_gen_toks": 64, "temperature": 0.0, "do_sample": False}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test waits between two tries; what it would have waited is kept."""
    kept: list[float] = []
    original = ChatClient.__init__

    def init(self: ChatClient, endpoint: Endpoint) -> None:
        original(self, endpoint, wait=lambda seconds: bool(kept.append(seconds)))

    monkeypatch.setattr(ChatClient, "__init__", init)
    return kept


class Hook:
    """Keeps what is handed over for keeping."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, Reply]] = []

    def add_partial(self, name: str, arguments: Any, reply: Reply) -> None:
        assert name == "generate_until"
        self.kept.append((arguments, reply))


def chat_model(server: LoopbackChat, **arguments: Any) -> Any:
    model = ChatEndpoint(**{"model": "parrot", "base_url": f"{server.url}/v1/chat/completions"} | arguments)
    model.cache_hook = Hook()
    return model


def claude(server: LoopbackChat, **arguments: Any) -> Any:
    model = AnthropicEndpoint(**{"model": "claude", "base_url": f"{server.url}/v1/messages"} | arguments)
    model.cache_hook = Hook()
    return model


Model = Callable[..., Any]
BOTH = pytest.mark.parametrize("model", [chat_model, claude])


def questions(model: Any, count: int = 3, system: bool = False, **settings: Any) -> list[Instance]:
    persona = [{"role": "system", "content": "You are kind."}] if system else []
    prompts = [
        model.apply_chat_template([*persona, {"role": "user", "content": f"Question {n}"}]) for n in range(count)
    ]
    return [Instance("generate_until", {}, (prompt, {**SETTINGS, **settings}), n) for n, prompt in enumerate(prompts)]


def ask(model: Any, count: int = 3, **settings: Any) -> list[Reply]:
    return model.generate_until(questions(model, count, **settings), disable_tqdm=True)


def number(messages: list[Message]) -> int:
    return int(messages[-1]["content"].rpartition(" ")[2])


def second(fault: Any, *, tries: int = 99) -> Answer:
    """Answer all questions but the one with the number 1, which gets the fault for so many tries."""
    seen = [0]

    def answer(messages: list[Message]) -> Any:
        if number(messages) != 1:
            return GOOD
        seen[0] += 1
        return fault if seen[0] <= tries else GOOD

    return answer


def openai(content: Any, finish: str | None = "stop", **message: Any) -> Raw:
    return Raw({"choices": [{"index": 0, "message": {"content": content, **message}, "finish_reason": finish}]})


def anthropic(content: Any, stop: str | None = "end_turn") -> Raw:
    return Raw({"type": "message", "content": content, "stop_reason": stop})


def error(status: int, message: str, code: str = "", **headers: str) -> Raw:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw({"error": {"message": message, "code": code}}, status, names)


# --- answers


@BOTH
def test_replies_come_in_the_order_of_the_questions_and_are_kept_as_they_come(model: Model) -> None:
    def answer(messages: list[Message]) -> Any:
        time.sleep(0.02 * (9 - number(messages) % 10))
        return f"({number(messages)})"

    with LoopbackChat(answer) as server:
        asked = model(server, num_concurrent=5)
        replies = ask(asked, 10)
    assert replies == [f"({n})" for n in range(10)]
    assert {reply.outcome for reply in replies} == {"answered"}
    assert all(isinstance(reply, Reply) for reply in replies)
    assert sorted(reply for _, reply in asked.cache_hook.kept) == sorted(replies)
    assert asked.cache_hook.kept[0][1] != replies[0]
    for (prompt, settings), reply in asked.cache_hook.kept:
        assert f"Question {reply[1:-1]}" in str(prompt)
        assert settings == SETTINGS


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(
    ("fault", "outcome", "text"),
    [
        (openai([{"type": "text", "text": GOOD}]), "answered", GOOD),
        (openai([{"type": "thinking", "thinking": "(a)?"}, {"type": "text", "text": GOOD}]), "answered", GOOD),
        (Raw({"choices": [{"message": {"content": GOOD}, "finish_reason": "stop"}]}), "answered", GOOD),
        (Raw(b"\xef\xbb\xbf" + json.dumps(openai(GOOD).body).encode()), "answered", GOOD),
        (Raw(gzip.compress(json.dumps(openai(GOOD).body).encode()), 200, GZIP), "answered", GOOD),
        (Raw(b'data: {"choices": [{"delta": {"content": "(c)"}}]}\n\ndata: [DONE]\n\n'), "answered", "(c)"),
        (Raw(json.dumps(openai("(c) XX").body).replace("XX", "\\ud83d").encode()), "answered", "(c) \ufffd"),
        (openai("(c)\x00\x1b"), "answered", "(c)\ufffd\ufffd"),
        (openai("<think>(a)?</think>(c)"), "answered", "<think>(a)?</think>(c)"),
        (openai(None, "length", reasoning_content="Let me think"), "cut", ""),
        (openai("At first (b), but", "length"), "cut", "At first (b), but"),
        (openai("", "content_filter"), "refused", ""),
        (openai(None, refusal="I will not."), "refused", "I will not."),
        (error(400, "The prompt was flagged.", "content_filter"), "refused", ""),
    ],
)
def test_what_a_reply_is(fault: Raw, outcome: AnswerOutcome, text: str, at_once: int) -> None:
    with LoopbackChat(second(fault)) as server:
        model = chat_model(server, num_concurrent=at_once)
        replies = ask(model)
    assert [reply.outcome for reply in replies] == ["answered", outcome, "answered"]
    assert list(replies) == [GOOD, text, GOOD]
    assert len(server.requests) == 3
    assert len(model.cache_hook.kept) == 3


FAULTS = [
    (openai(None), "without any text"),
    (openai(""), "without any text"),
    (openai(None, reasoning=f"thinking {GOOD}"), "but reasoning"),
    (openai(None, "tool_calls", tool_calls=[{"id": "c"}]), "tool_calls"),
    (openai(3), "type int"),
    (Raw({"error": {"message": "Provider returned error", "code": 502}}), "Provider returned error"),
    (Raw({"choices": []}), "without any choice"),
    (Raw({"choices": None}), "without any choice"),
    (Raw({"choices": [{"message": None, "finish_reason": "stop"}]}), "without any text"),
    (Raw(b"<html>Bad gateway</html>", headers={"Content-Type": "text/html"}), "Bad gateway"),
    (Raw(b'data: {"choices": [{"delta": {"content": "(c)"}}]}\n\n'), "ends early"),
    (Raw(gzip.compress(b"z" * (MAX_REPLY_BYTES + 9), 1), headers=GZIP), "limit of 32 MiB"),
    (Raw(None), "connection broke"),
    (error(500, "Oops"), "status 500: Oops"),
    (error(503, "overloaded"), "status 503"),
    (error(429, "slow down"), "status 429"),
    (error(408, "time"), "status 408"),
]


@pytest.mark.parametrize(("fault", "reason"), FAULTS, ids=[str(reason) for _, reason in FAULTS])
def test_what_fails_is_tried_again_and_then_no_answer(fault: Raw, reason: str, waits: list[float]) -> None:
    with LoopbackChat(second(fault)) as server:
        model = chat_model(server, max_retries=3)
        replies = ask(model)
    assert [reply.outcome for reply in replies] == ["answered", "failed", "answered"]
    assert replies[1] == ""
    assert reason in replies[1].finish_reason
    assert len(server.requests) == 5
    assert len(waits) == 2
    assert [str(reply) for _, reply in model.cache_hook.kept] == [GOOD, GOOD]
    with LoopbackChat(second(fault, tries=2)) as server:
        assert [reply.outcome for reply in ask(chat_model(server, max_retries=3))] == ["answered"] * 3


@pytest.mark.parametrize(
    ("fault", "outcome", "text"),
    [
        (anthropic([{"type": "thinking", "thinking": "(a)?"}, {"type": "text", "text": GOOD}]), "answered", GOOD),
        (anthropic([{"type": "text", "text": "It is"}], "max_tokens"), "cut", "It is"),
        (anthropic([], "max_tokens"), "cut", ""),
        (anthropic([], "refusal"), "refused", ""),
        (anthropic([]), "failed", ""),
        (anthropic(None), "failed", ""),
        (Raw({"type": "message", "stop_reason": "end_turn"}), "failed", ""),
        (Raw({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "failed", ""),
        (Raw({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529), "failed", ""),
    ],
)
def test_what_a_reply_of_anthropic_is(fault: Raw, outcome: AnswerOutcome, text: str) -> None:
    with LoopbackChat(second(fault)) as server:
        replies = ask(claude(server))
    assert [(reply.outcome, str(reply)) for reply in replies] == [
        ("answered", GOOD),
        (outcome, text),
        ("answered", GOOD),
    ]


def test_a_reply_that_takes_too_long_has_failed() -> None:
    with LoopbackChat(second(Raw({}, delay=30))) as server:
        replies = ask(chat_model(server, timeout=0.3, max_retries=1))
    assert [reply.outcome for reply in replies] == ["answered", "failed", "answered"]
    assert "within 0.3 s" in replies[1].finish_reason


def test_the_wait_that_is_asked_for_is_kept_and_is_no_try(waits: list[float]) -> None:
    with LoopbackChat(second(error(429, "slow down", Retry_After="7"), tries=5)) as server:
        replies = ask(chat_model(server, max_retries=1))
    assert [reply.outcome for reply in replies] == ["answered"] * 3
    assert waits == [7] * 5
    with LoopbackChat(second(error(429, "slow down", Retry_After="86400"))) as server:
        assert ask(chat_model(server))[1].outcome == "failed"
    assert waits == [7] * 5


def test_after_many_failures_in_a_row_the_rest_is_not_asked() -> None:
    with LoopbackChat(lambda messages: GOOD if number(messages) < 3 else HTTPStatus.SERVICE_UNAVAILABLE) as server:
        replies = ask(chat_model(server, max_retries=1), 60)
    assert [reply.outcome for reply in replies] == ["answered"] * 3 + ["failed"] * 57
    assert len(server.requests) == 23
    assert "not asked" in replies[-1].finish_reason
    assert "503" in replies[-1].finish_reason


# --- an endpoint that cannot be used


@BOTH
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (error(401, "Incorrect API key provided."), "does not accept the key in {key}"),
        (error(403, "Not in your country."), "may not use"),
        (error(404, "No such model."), "there is no model"),
        (error(402, "Insufficient Balance"), "no credit left"),
        (error(429, "You exceeded your current quota", "insufficient_quota"), "no credit left"),
        (error(400, "Your credit balance is too low"), "no credit left"),
        (error(400, "Nonsense"), "refuses a request"),
        (error(400, "This model's maximum context length is 20 tokens"), "too long"),
        (Raw(b"<html>Welcome!</html>"), "no chat endpoint can be reached"),
        (Raw(b"", 307, {"Location": "http://elsewhere.example/v1/messages"}), "http://elsewhere.example/v1/messages"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_one_error(
    model: Model, fault: Raw, said: str, at_once: int, waits: list[float]
) -> None:
    with LoopbackChat(fault) as server:
        asked = model(server, num_concurrent=at_once)
        with pytest.raises(UserError) as caught:
            ask(asked, 30)
    key = "OPENAI_API_KEY" if model is chat_model else "ANTHROPIC_API_KEY"
    assert said.format(key=key) in caught.value.message
    assert server.url.removeprefix("http://") in caught.value.message
    assert len(server.requests) <= at_once
    assert waits == []


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_key_that_is_revoked_ends_the_run_at_any_time(status: int) -> None:
    with LoopbackChat(second(error(status, "No more."))) as server:
        model = chat_model(server)
        with pytest.raises(UserError):
            ask(model)
    assert [str(reply) for _, reply in model.cache_hook.kept] == [GOOD]


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("message", ["maximum context length is 20 tokens", "Nonsense"])
def test_a_question_that_is_refused_costs_only_itself(message: str, at_once: int, waits: list[float]) -> None:
    with LoopbackChat(second(error(400, message))) as server:
        replies = ask(chat_model(server, num_concurrent=at_once), 6)
    assert [reply.outcome for reply in replies] == ["answered", "failed", *["answered"] * 4]
    assert message in replies[1].finish_reason
    assert len(server.requests) == 6
    assert waits == []


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    model = ChatEndpoint(model="parrot", base_url=f"http://127.0.0.1:{port}/v1/chat/completions")
    with pytest.raises(UserError, match="connection is refused") as caught:
        ask(model)
    assert caught.value.hint == "check base_url"


@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_server_without_a_system_role_is_told_what_to_do_about(message: str, status: int) -> None:
    with LoopbackChat(error(status, message)) as server:
        model = chat_model(server)
        with pytest.raises(UserError, match="no system message") as caught:
            model.generate_until(questions(model, system=True), disable_tqdm=True)
    assert """--metadata '{"roles": "no_system"}'""" in caught.value.hint
    assert len(server.requests) == 1


# --- fields that an endpoint does not know


def picky(known: Callable[[dict[str, Any]], str]) -> Any:
    """Refuse requests with a complaint, which is empty for those that do."""

    class Picky(LoopbackChat):
        def __init__(self) -> None:
            super().__init__(self.reply)

        def reply(self, messages: list[Message]) -> Any:
            complaint = known(self.requests[-1].body)
            return error(400, complaint) if complaint else "One. STOP Two. (c)"

    return Picky()


def test_fields_that_change_nothing_are_left_out_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    def known(body: dict[str, Any]) -> str:
        if "max_tokens" in body:
            return "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        unknown = [name for name in ("seed", "stop", "temperature") if name in body]
        return f"Unsupported parameter: '{unknown[0]}'" if unknown else ""

    with picky(known) as server:
        replies = ask(chat_model(server), until=["STOP"], temperature=1)
    assert list(replies) == ["One. "] * 3
    assert [request.body["max_completion_tokens"] for request in server.requests[-3:]] == [64] * 3
    assert len(server.requests) == 4 + 3
    assert "max_completion_tokens for max_tokens" in caplog.text
    assert "without seed, without stop" in caplog.text


def test_a_temperature_is_not_left_out_in_silence() -> None:
    with picky(lambda body: "temperature does not support 0" if "temperature" in body else "") as server:
        with pytest.raises(UserError, match="temperature does not support 0") as caught:
            ask(chat_model(server))
        assert """--gen_kwargs '{"temperature": null}'""" in caught.value.hint
        assert len(ask(chat_model(server), temperature=None)) == 3


def test_what_was_cut_behind_its_end_is_an_answer() -> None:
    def answer(messages: list[Message]) -> Any:
        return error(400, "unknown field stop") if "stop" in server.requests[-1].body else openai("(c) STOP", "length")

    with LoopbackChat(answer) as server:
        (reply,) = ask(chat_model(server), 1, until=["STOP"])
    assert (reply, reply.outcome) == ("(c) ", "answered")


# --- arguments


@pytest.mark.parametrize("end", ["</think>", None])
def test_thoughts_end_where_the_arguments_say(end: str | None) -> None:
    with LoopbackChat("<think>(a)?</think> (c)") as server:
        (reply,) = ask(chat_model(server, think_end_token=end), 1)
    assert reply == ("(c)" if end else "<think>(a)?</think> (c)")


def test_headers_that_are_given_take_the_place_of_the_key() -> None:
    with LoopbackChat(GOOD) as server:
        ask(chat_model(server, header={"X-Mine": "1"}), 1)
        ask(claude(server, header={"X-Mine": "1"}), 1)
    mine, theirs = server.requests
    assert (mine.headers["x-mine"], mine.headers.get("authorization")) == ("1", None)
    assert (theirs.headers["x-mine"], theirs.headers["x-api-key"]) == ("1", KEY)


def test_a_local_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with LoopbackChat(GOOD) as server:
        ask(chat_model(server), 1)
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": "soon"}, "timeout=soon"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"num_concurrent": 0}, "num_concurrent=0"),
        ({"num_concurrent": 100_000}, "from 1 to 256"),
        ({"max_retries": -1}, "max_retries=-1"),
        ({"base_url": None}, "base_url=None"),
        ({"base_url": "localhost:8000"}, "base_url=localhost:8000"),
        ({"header": "X-Mine"}, "header"),
        ({"ca_cert_path": "no/such/file.pem"}, "ca_cert_path=no/such/file.pem"),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, Any], said: str) -> None:
    with LoopbackChat(GOOD) as server, pytest.raises(UserError) as caught:
        ask(chat_model(server, **arguments))
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert server.requests == []


def test_a_key_that_cannot_be_sent_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nsecond")
    with LoopbackChat(GOOD) as server, pytest.raises(UserError, match="characters that no header has") as caught:
        ask(chat_model(server))
    assert "sk-secret" not in str(caught.value)


def test_the_endpoint_may_be_slow_by_default() -> None:
    assert ChatEndpoint(model="m", base_url="http://a/v1/chat/completions").timeout == 600
    assert AnthropicEndpoint(model="m").timeout == 600


# --- the end of the program, and what it shows meanwhile


PROGRAM = """
import sys
from lm_eval.api.instance import Instance
from personamem_builder.evaluation.endpoints import ChatEndpoint

model = ChatEndpoint(model="parrot", base_url=sys.argv[1], num_concurrent=3, max_retries=9)
prompt = model.apply_chat_template([{"role": "user", "content": "Question 0"}])
settings = {"until": [], "max_gen_toks": 64}
print("ready", flush=True)
model.generate_until([Instance("generate_until", {}, (prompt, settings), n) for n in range(9)], disable_tqdm=True)
"""


@pytest.mark.parametrize("fault", [Raw({}, delay=30), error(503, "busy", Retry_After="300")], ids=["slow", "busy"])
def test_ctrl_c_gets_through_at_once(fault: Raw) -> None:
    with LoopbackChat(fault) as server:
        command = [sys.executable, "-c", PROGRAM, f"{server.url}/v1/chat/completions"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            until = time.monotonic() + 20
            while len(server.requests) < 3 and time.monotonic() < until:
                time.sleep(0.01)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
            assert time.monotonic() - began < 3
    assert b"KeyboardInterrupt" in said
    assert process.returncode != 0


def test_a_wait_is_not_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SILENT_SECONDS", {True: 0.1, False: 0.1})
    monkeypatch.setattr(progress, "_LOOK_SECONDS", 0.02)
    with LoopbackChat(second(Raw({}, 503, delay=0.5), tries=1)) as server:
        ask(chat_model(server))
    place = server.url.removeprefix("http://")
    assert f"waiting for {place}, 1 request under way, 1 of 3 done\n" in capsys.readouterr().err


def test_a_bug_in_a_thread_is_raised() -> None:
    with LoopbackChat(GOOD) as server:
        model = chat_model(server)
        with pytest.raises(AssertionError, match="apply_chat_template"):
            model.generate_until([Instance("generate_until", {}, ("plain text", SETTINGS), 0)], disable_tqdm=True)
    assert server.requests == []


def test_threads_end_with_the_work() -> None:
    with LoopbackChat(GOOD) as server:
        before = threading.active_count()
        ask(chat_model(server, num_concurrent=8), 20)
        until = time.monotonic() + 5
        while threading.active_count() > before and time.monotonic() < until:
            time.sleep(0.05)
        assert threading.active_count() <= before
