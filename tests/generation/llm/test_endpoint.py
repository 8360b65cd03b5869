"""Whatever an endpoint does, a call ends in an answer, a failed item, or one clear error; the key is in none."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from loopback_llm import Answer, LoopbackLLM, Reply, cut, error, rate_limited, script
from pydantic import BaseModel

from generation import http, progress
from generation.errors import UserError
from generation.llm.client import Call, ChatMessage, Completion, ReplyError, Request
from generation.llm.endpoint import PATIENCE, Endpoint
from generation.llm.rate_limit import RateLimit
from generation.tokenizer import num_tokens

Serve = Callable[..., LoopbackLLM]

KEY = "sk-proj-SeCrEt-0123456789abcdef"
GOOD = '{"name": "rust", "red": 183}'
OK = Reply(GOOD)
NO_SCHEMA = error(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.")


class Colour(BaseModel):
    name: str
    red: int


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 50.0
        self.waits: list[float] = []
        self._lock = threading.Lock()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.waits.append(seconds)
            self.now += seconds


def call(prompt: str = "Name a colour, as JSON.", seed: int = 5) -> Call:
    return Call(Request("filler", {}, ("filler", 4)), [ChatMessage("user", prompt)], Colour, seed)


@pytest.fixture
def fake() -> Time:
    return Time()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Run a server that is what the environment names."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:

        def run(*answer: Reply | Answer) -> LoopbackLLM:
            first = answer[0]
            server = stack.enter_context(
                LoopbackLLM(script(*answer) if isinstance(first, Reply) else first)  # type: ignore[arg-type]
            )
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            return server

        yield run


def endpoint(fake: Time, **more: Any) -> Endpoint:
    options: dict[str, Any] = {
        "temperature": 0.7,
        "max_tokens": 300,
        "timeout": 120,
        "clock": fake.clock,
        "sleep": fake.sleep,
    }
    return Endpoint("parrot", **options | more)


# --- an answer


def test_a_call_sends_the_conversation_and_the_form_of_the_reply(serve: Serve, fake: Time) -> None:
    server = serve(OK)
    messages = [ChatMessage("user", "One."), ChatMessage("assistant", "{}"), ChatMessage("user", "Two.")]
    done = endpoint(fake).complete(call()._replace(messages=messages))
    assert done == Completion(GOOD, "stop", 11, 7)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {
        "model": "parrot",
        "messages": [message._asdict() for message in messages],
        "temperature": 0.7,
        "max_tokens": 300,
        "seed": 5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "Colour",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "red": {"type": "integer"}},
                    "required": ["name", "red"],
                    "additionalProperties": False,
                },
            },
        },
    }
    assert server.keys == {KEY}
    assert KEY not in str(request)


def test_tokens_are_counted_where_the_endpoint_does_not_tell(serve: Serve, fake: Time) -> None:
    serve(Reply(GOOD, usage=None), Reply(GOOD, usage=(0, 0)))
    backend = endpoint(fake)
    counted = Completion(GOOD, "stop", num_tokens(call().messages[0].content), num_tokens(GOOD))
    assert backend.complete(call()) == backend.complete(call()) == counted


@pytest.mark.parametrize(
    ("reply", "text", "reason"),
    [
        (cut('{"name": "ru'), '{"name": "ru', "length"),
        (cut(""), "", "length"),
        (Reply(None, finish_reason="length"), "", "length"),
        (Reply(GOOD, finish_reason="content_filter"), GOOD, "refusal"),
        (Reply(None, refusal="I will not."), "I will not.", "refusal"),
        (Reply("I\u2019m sorry, but I can\u2019t help with that."), None, "refusal"),
        (Reply(""), "", "empty"),
        (Reply(" \n"), None, "empty"),
        (Reply(None), "", "empty"),
        (Reply("<think>A colour? Rust.</think>"), "", "empty"),
        (Reply(f"<think>Perhaps {{}}?</think>Here it is:\n```json\n{GOOD}\n```\nEnjoy!"), GOOD, "stop"),
        (Reply(f"{GOOD} or {GOOD}"), f"{GOOD} or {GOOD}", "stop"),
        (Reply("Only the colour, no JSON: rust."), "Only the colour, no JSON: rust.", "stop"),
        (Reply(GOOD, finish_reason="eos"), GOOD, "stop"),
        (Reply(GOOD, finish_reason="tool_calls"), GOOD, "tool_calls"),
        (Reply(GOOD, finish_reason=None), GOOD, "unknown"),
        (Reply(body={"choices": [{"finish_reason": "length"}]}), "", "length"),
    ],
)
def test_how_a_reply_ended(serve: Serve, fake: Time, reply: Reply, text: str | None, reason: str) -> None:
    server = serve(reply)
    done = endpoint(fake).complete(call())
    assert done.finish_reason == reason
    assert text is None or done.text == text
    assert len(server.requests) == 1


# --- what passes is waited for


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Date": "Mon, 05 Jan 2026 10:00:00 GMT", "Retry-After": "Mon, 05 Jan 2026 10:01:30 GMT"}, 90),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_wait_that_is_asked_for_is_kept(
    serve: Serve, fake: Time, headers: dict[str, str], wait: float, status: int
) -> None:
    server = serve(Reply(status=status, body={"error": {"message": "Slow down."}}, headers=headers), OK)
    assert endpoint(fake).complete(call()).text == GOOD
    assert fake.waits == [wait]
    assert len(server.requests) == 2
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Retry-After": "soon"},
        {"Retry-After": "0"},
        {"Retry-After": "-5"},
        {"Retry-After": "nan"},
        {"Retry-After": "Mon, 05 Jan 2026 10:01:30 GMT"},  # without a date to compare it with
        {"Date": "Mon, 05 Jan 2026 10:00:00 GMT", "Retry-After": "Mon, 05 Jan 2026 09:00:00 GMT"},
        {"retry-after-ms": "?"},
    ],
)
def test_without_a_sensible_wish_the_waits_grow_and_differ_between_calls(serve: Serve, headers: dict[str, str]) -> None:
    def waits(seed: int) -> list[float]:
        fake = Time()
        busy = Reply(status=429, body={}, headers=headers)
        serve(*[busy] * 9, OK)
        assert endpoint(fake).complete(call(seed=seed)).text == GOOD
        return fake.waits

    first = waits(1)
    assert all(2**n / 2 <= wait <= 2**n for n, wait in enumerate(first[:5], 1))
    assert all(30 <= wait <= 60 for wait in first[5:])
    assert waits(1) == first
    assert waits(2) != first


@pytest.mark.parametrize(
    "fault",
    [
        error(500, "The server had an error."),
        error(529, "Overloaded."),
        error(408, "Request timeout."),
        error(409, "Conflict."),
        Reply(status=503, body=b"<html>Bad gateway</html>", headers={"Content-Type": "text/html"}),
        Reply(drop=0),
        Reply(GOOD, drop=40),
        Reply(status=500, body={"error": "x" * 100}, drop=40),
        Reply(GOOD, delay=30),
        Reply(body={"error": {"code": 429, "message": "Provider returned error"}}),
        Reply(body={"error": "upstream"}),
        Reply(body={"choices": []}),
    ],
    ids=lambda fault: f"{fault.status} {str(fault.body)[:20]} drop={fault.drop} delay={fault.delay}",
)
def test_what_passes_is_tried_again(serve: Serve, fake: Time, fault: Reply) -> None:
    server = serve(fault, fault, OK)
    assert endpoint(fake, timeout=0.2).complete(call()).text == GOOD
    assert len(server.requests) == 3
    assert len(fake.waits) == 2


def test_an_answer_that_trickles_is_given_up_when_its_time_is_over(serve: Serve, fake: Time) -> None:
    # Each part comes well within the limit.
    server = serve(Reply(GOOD, pieces=100, delay=0.05), OK)
    backend = endpoint(fake, timeout=0.2, clock=time.monotonic)
    backend.connect()  # the package takes its time to load
    began = time.monotonic()
    assert backend.complete(call()).text == GOOD
    assert time.monotonic() - began < 3
    assert len(server.requests) == 2


def test_a_wait_is_not_silent(
    serve: Serve, fake: Time, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_SILENT_SECONDS", {True: 0.1, False: 0.1})
    monkeypatch.setattr(progress, "_LOOK_SECONDS", 0.02)
    server = serve(error(503, "busy", retry_after="0.3"), Reply(GOOD, delay=0.3))
    Endpoint("parrot", temperature=0, max_tokens=9).complete(call())
    place = server.url.removeprefix("http://")
    said = capsys.readouterr().err
    assert f"waiting for {place}, 1 request under way, 1 retry, next in " in said
    assert f"waiting for {place}, 1 request under way, 1 retry\n" in said


def test_a_busy_endpoint_defers_a_call_and_never_drops_it(serve: Serve, fake: Time) -> None:
    server = serve(*[rate_limited("20")] * 25, OK)
    assert endpoint(fake).complete(call()).text == GOOD
    assert fake.waits == [20] * 25
    assert len(server.requests) == 26


def test_a_limit_on_long_requests_is_waited_for_as_well(serve: Serve, fake: Time) -> None:
    serve(error(429, "Rate limit for prompts of this context length", retry_after="30"), OK)
    assert endpoint(fake).complete(call()).text == GOOD
    assert fake.waits == [30]


@pytest.mark.parametrize("fault", [error(500, "The server had an error."), rate_limited("50"), Reply(drop=0)])
def test_patience_ends(serve: Serve, fake: Time, fault: Reply) -> None:
    server = serve(fault)
    with pytest.raises(UserError, match=r"does not answer .* given up after 10 minutes") as caught:
        endpoint(fake).complete(call())
    assert not isinstance(caught.value, ReplyError)
    assert PATIENCE - 60 < sum(fake.waits) <= PATIENCE
    assert len(server.requests) == len(fake.waits) + 1
    assert "finished calls are kept" in caught.value.hint
    assert ("requests_per_minute" in caught.value.hint) == (fault.status == 429)


def test_slow_failures_use_up_patience_too(serve: Serve, fake: Time) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        fake.now += 250
        return error(500, "The server had an error.")

    server = serve(answer)
    with pytest.raises(UserError, match="given up after 10 minutes"):
        endpoint(fake, timeout=300).complete(call())
    assert len(server.requests) == 3


def test_a_wait_beyond_all_patience_is_not_begun(serve: Serve, fake: Time) -> None:
    server = serve(rate_limited("86400"))
    with pytest.raises(UserError, match="the next try would be in 86,400 s"):
        endpoint(fake).complete(call())
    assert fake.waits == []
    assert len(server.requests) == 1


# --- what no waiting will mend


def fails(backend: Endpoint, *parts: str, kind: type[UserError] = UserError) -> UserError:
    with pytest.raises(UserError) as caught:
        backend.complete(call())
    assert type(caught.value) is kind
    for part in parts:
        assert part in str(caught.value), caught.value
    return caught.value


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        (error(401, "Incorrect API key provided."), ["does not accept the key in OPENAI_API_KEY"]),
        (error(403, "Your country is not supported."), ["OPENAI_API_KEY", "parrot", "Your country is not supported."]),
        (error(402, "Insufficient Balance"), ["no credit left"]),
        (error(429, "You exceeded your current quota.", "insufficient_quota"), ["no credit left", "current quota"]),
        (error(404, "The model `parrot` does not exist."), ["no model parrot", "does not exist", "/v1"]),
        (error(400, "temperature must be 1"), ["filler", "parrot", "status 400", "temperature must be 1"]),
        (Reply(status=422, body={"detail": [{"msg": "Input should be less"}]}), ["status 422", "should be less"]),
        (Reply(status=400, body=[{"error": {"code": 400, "message": "API key not valid."}}]), ["API key not valid."]),
        (Reply(status=405, body=b"no"), ["status 405"]),
    ],
)
def test_a_request_that_will_never_do_stops_the_run(serve: Serve, fake: Time, reply: Reply, parts: list[str]) -> None:
    server = serve(reply)
    fails(endpoint(fake), server.base_url, *parts)
    assert len(server.requests) == 1
    assert fake.waits == []


def test_a_model_that_takes_no_temperature_is_not_sent_one(serve: Serve, fake: Time) -> None:
    server = serve(error(400, "Unsupported value: 'temperature' does not support 0.7 with this model."), OK)
    with pytest.raises(UserError, match="does not support") as caught:
        endpoint(fake).complete(call())
    assert caught.value.hint == "set llm.temperature to null in the configuration"
    endpoint(fake, temperature=None).complete(call())
    assert "temperature" not in server.requests[-1].body


def test_further_fields_are_sent_and_shape_the_reply(serve: Serve, fake: Time) -> None:
    server = serve(OK)
    fields = {"reasoning_effort": "low", "provider": {"order": ["one", "another"]}}
    thinking = endpoint(fake, fields=fields)
    thinking.complete(call())
    assert fields.items() <= server.requests[0].body.items()
    assert thinking.identity != endpoint(fake).identity
    assert endpoint(fake, fields={}).identity == endpoint(fake).identity


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_endpoint_that_has_answered_before_refuses_an_item(serve: Serve, fake: Time, status: int) -> None:
    serve(OK, error(status, "No such luck."), OK)
    backend = endpoint(fake)
    backend.complete(call())
    fails(backend, f"status {status}", "No such luck.", "filler", kind=ReplyError)
    assert backend.complete(call()).text == GOOD


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_ends_all_calls_stops_the_run_at_any_time(serve: Serve, fake: Time, status: int) -> None:
    serve(OK, error(status, "No more."))
    backend = endpoint(fake)
    backend.complete(call())
    fails(backend)


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "The response was filtered due to the prompt", "content_filter"),
        error(400, "Invalid prompt: it was flagged as potentially violating our usage policy.", "invalid_prompt"),
        error(403, "your input was flagged"),
    ],
)
def test_a_prompt_that_is_declined_is_a_refusal(serve: Serve, fake: Time, reply: Reply) -> None:
    server = serve(reply)
    assert endpoint(fake).complete(call()).finish_reason == "refusal"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "This model's maximum context length is 20 tokens.", "context_length_exceeded"),
        error(400, "request (6 tokens) exceeds the available context size (20 tokens), try increasing it"),
        Reply(status=500, body={"error": {"code": 500, "message": "Context size has been exceeded: 20 tokens"}}),
        error(400, "prompt is too long: 6 tokens > 20 tokens maximum"),
        error(400, "The input token count (6) exceeds the maximum number of tokens allowed (20 tokens)."),
        error(400, "'max_tokens' is too large: 300. This model's maximum context length is 20 tokens."),
        Reply(body={"error": {"code": 400, "message": "the request exceeds the available context size: 20 tokens"}}),
        Reply(status=413, body={"error": {"message": "Please reduce the length of the messages: 20 tokens."}}),
    ],
    ids=lambda reply: str(reply.body)[:60],
)
def test_a_window_that_is_too_small_is_named(serve: Serve, fake: Time, reply: Reply) -> None:
    server = serve(OK, reply)
    backend = endpoint(fake)
    backend.complete(call())
    tokens = num_tokens(call().messages[0].content)
    fails(backend, "window of parrot", f"prompt of filler has {tokens} tokens", "300", "20 tokens", server.base_url)
    assert len(server.requests) == 2


def test_a_refused_connection_names_the_url(fake: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackLLM(script(OK)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    fails(endpoint(fake), f"no chat endpoint can be reached at {server.base_url}", "refused", "OPENAI_BASE_URL")
    assert fake.waits == []


def test_a_server_that_goes_away_later_is_waited_for(fake: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with LoopbackLLM(script(OK)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        backend = endpoint(fake)
        backend.complete(call())
    fails(backend, server.base_url, "does not answer", "the connection is refused")
    assert sum(fake.waits) > PATIENCE - 60


def test_an_unknown_host_names_the_url(fake: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://nowhere.example/v1")
    fails(endpoint(fake), "no chat endpoint can be reached at http://nowhere.example/v1", "no such host")
    assert fake.waits == []


def test_a_page_instead_of_an_answer_names_the_url(serve: Serve, fake: Time) -> None:
    server = serve(Reply(body=b"<html>Welcome!</html>", headers={"Content-Type": "text/html"}))
    fails(endpoint(fake), server.base_url, "not an answer of a chat endpoint", "Welcome!")
    assert fake.waits == []


def test_a_path_that_is_not_there_names_the_url(serve: Serve, fake: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(OK)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    fails(endpoint(fake), server.url, "/v1")


# --- what the endpoint does not understand


def forms(server: LoopbackLLM) -> list[str]:
    return [request.body.get("response_format", {"type": "none"})["type"] for request in server.requests]


def test_a_form_that_is_not_understood_is_left_out_from_then_on(serve: Serve, fake: Time) -> None:
    no_object = error(400, "response_format: json_object is unavailable")
    server = serve(NO_SCHEMA, no_object, OK)
    backend = endpoint(fake)
    backend.complete(call())
    backend.complete(call())
    assert forms(server) == ["json_schema", "json_object", "none", "none"]
    assert fake.waits == []
    # There is nothing left to leave out.
    server.answer = script(error(400, "response_format is unknown"))
    fails(backend, "response_format is unknown", kind=ReplyError)
    assert len(server.requests) == 5


def test_other_complaints_leave_the_request_as_it_is(serve: Serve, fake: Time) -> None:
    server = serve(OK, error(400, "messages: too many"), error(500, "no response_format here"), OK)
    backend = endpoint(fake)
    backend.complete(call())
    fails(backend, kind=ReplyError)
    backend.complete(call())
    assert all(request.body == server.requests[0].body for request in server.requests)


def test_a_seed_that_is_not_understood_is_left_out(serve: Serve, fake: Time) -> None:
    message = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
    server = serve(Reply(status=400, body=[{"error": {"code": 400, "message": message}}]), OK)
    backend = endpoint(fake)
    backend.complete(call())
    backend.complete(call())
    assert ["seed" in request.body for request in server.requests] == [True, False, False]
    assert forms(server) == ["json_schema"] * 3


def test_a_limit_that_is_not_understood_gets_its_newer_name(serve: Serve, fake: Time) -> None:
    message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    server = serve(error(400, message, "unsupported_parameter"), OK)
    backend = endpoint(fake)
    backend.complete(call())
    first, second = (request.body for request in server.requests)
    assert (first.get("max_tokens"), first.get("max_completion_tokens")) == (300, None)
    assert (second.get("max_tokens"), second.get("max_completion_tokens")) == (None, 300)


def test_several_fields_can_go_at_once(serve: Serve, fake: Time) -> None:
    faults = [{"loc": ["body", "seed"], "msg": "Extra"}, {"loc": ["body", "response_format"], "msg": "Extra"}]
    server = serve(Reply(status=422, body={"detail": faults}), OK)
    endpoint(fake).complete(call())
    assert "seed" not in server.requests[1].body
    assert forms(server) == ["json_schema", "json_object"]


def test_many_threads_learn_it_together(serve: Serve, fake: Time) -> None:
    barrier = threading.Barrier(8, timeout=10)

    def answer(body: dict[str, Any]) -> Reply:
        form = body.get("response_format", {"type": "none"})["type"]
        if form == "json_schema":
            barrier.wait()  # all have sent it before anybody is told
            return NO_SCHEMA
        return OK

    server = serve(answer)
    backend = endpoint(fake)
    with ThreadPoolExecutor(8) as pool:
        assert {done.text for done in pool.map(lambda _: backend.complete(call()), range(8))} == {GOOD}
    assert sorted(forms(server)) == ["json_object"] * 8 + ["json_schema"] * 8


def test_one_who_is_told_late_takes_nothing_back(serve: Serve, fake: Time) -> None:
    waiting, others_are_done = threading.Event(), threading.Event()

    def answer(body: dict[str, Any]) -> Reply:
        form = body.get("response_format", {"type": "none"})["type"]
        if form == "json_schema" and body["messages"][-1]["content"] == "slow":
            waiting.set()
            assert others_are_done.wait(10)
        return OK if form == "none" else error(400, f"response_format {form} is unknown")

    server = serve(answer)
    backend = endpoint(fake)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(backend.complete, call("slow"))
        assert waiting.wait(10)
        backend.complete(call("quick"))
        others_are_done.set()
        assert slow.result(10).text == GOOD
    assert [request.prompt for request in server.requests] == ["slow", "quick", "quick", "quick", "slow"]
    assert forms(server)[-1] == "none"


# --- the key, and what is said of the endpoint


def test_the_identity_has_no_credentials(monkeypatch: pytest.MonkeyPatch, fake: Time) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://me:hidden@host.example:8443/v1/?token=hidden#part")
    backend = endpoint(fake, max_tokens=5, timeout=1)
    assert backend.identity == {
        "backend": "openai",
        "model": "parrot",
        "base_url": "https://host.example:8443/v1",
        "temperature": 0.7,
    }
    assert backend.identity == endpoint(fake, max_tokens=500, timeout=9).identity
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    assert endpoint(fake).identity["base_url"] == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[::1]:8080/v1")
    assert endpoint(fake).identity["base_url"] == "http://[::1]:8080/v1"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 429, 500, 200])
def test_a_server_that_echoes_the_key_does_not_make_it_known(
    serve: Serve, fake: Time, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    serve(Reply(status=status, body={"error": {"message": f"Bad key {KEY}", "detail": f"Bearer {KEY}"}}))
    backend = endpoint(fake)
    with pytest.raises(UserError) as caught:
        backend.complete(call())
    shown = [str(caught.value), repr(caught.value), *traceback.format_exception(caught.value)]
    shown += [repr(backend), str(vars(backend)), json.dumps(backend.identity), caplog.text, *capfd.readouterr()]
    assert KEY not in "".join(shown)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_that_names_the_other_host(serve: Serve, fake: Time, status: int) -> None:
    with LoopbackLLM(script(OK)) as other:
        elsewhere = other.base_url.replace("127.0.0.1", "localhost")
        serve(Reply(status=status, body="", headers={"Location": f"{elsewhere}/chat/completions?key={KEY}"}))
        error = fails(endpoint(fake), "redirects to", elsewhere, str(status))
        assert KEY not in str(error)
        assert other.requests == []
    assert fake.waits == []


def test_a_reply_over_the_limit_is_a_failure_however_small_it_travels(
    serve: Serve, fake: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 2**20)
    bomb = gzip.compress(b'{"choices": [{"message": {"content": "' + b"z" * 2**20)
    server = serve(Reply(body=bomb, headers={"Content-Encoding": "gzip"}), OK)
    assert endpoint(fake).complete(call()).text == GOOD
    assert len(server.requests) == 2
    server.answer = script(Reply(body=bomb, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(UserError, match="longer than the limit of 1 MiB"):
        endpoint(fake).complete(call())


@pytest.mark.parametrize("usage", [(-5, -7), (10**30, 7), ("11", None), (1.5, True), (float("inf"), [])])
def test_usage_that_is_no_count_is_counted_here(serve: Serve, fake: Time, usage: Any) -> None:
    serve(Reply(GOOD, usage=usage))
    backend = endpoint(fake)
    done = backend.complete(call())
    assert done.prompt_tokens == num_tokens(call().messages[0].content)
    assert done.reply_tokens == (7 if usage[1] == 7 else num_tokens(GOOD))


def test_a_lost_connection_does_not_make_the_key_known(serve: Serve, fake: Time) -> None:
    serve(Reply(drop=0))
    with pytest.raises(UserError) as caught:
        endpoint(fake).complete(call())
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_long_messages_are_quoted_in_part(serve: Serve, fake: Time) -> None:
    serve(error(400, "very " * 1000))
    assert len(str(fails(endpoint(fake)))) < 600


def test_a_placeholder_for_a_key_is_no_secret(serve: Serve, fake: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server = serve(error(400, "nonetheless"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    fails(endpoint(fake), "nonetheless")
    assert server.keys == {"none"}


# --- before the first call


@pytest.mark.parametrize("key", [None, "", "  "])
def test_no_key(serve: Serve, fake: Time, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    server = serve(OK)
    if key is None:
        monkeypatch.delenv("OPENAI_API_KEY")
    else:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    backend = endpoint(fake)
    assert backend.identity["model"] == "parrot"  # an estimate needs no key
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        backend.connect()
    fails(backend, "OPENAI_API_KEY is not set")
    assert server.requests == []


@pytest.mark.parametrize("key", ["sk-ab\ncd", "sk-ab…cd", "sk-\x7f"])
def test_a_key_that_cannot_be_one(fake: Time, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UserError, match="OPENAI_API_KEY has characters") as caught:
        endpoint(fake).connect()
    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "https://", "http://[", "http://host:port/v1"])
def test_a_url_that_is_none(fake: Time, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(UserError, match="OPENAI_BASE_URL is not an http or https URL"):
        endpoint(fake)


# --- pace and threads


def test_every_attempt_keeps_the_pace(serve: Serve, fake: Time) -> None:
    begun = []

    def answer(body: dict[str, Any]) -> Reply:
        begun.append(fake.now - 50)
        return error(500, "The server had an error.") if len(begun) == 1 else OK

    serve(answer)
    backend = endpoint(fake, rate_limit=RateLimit(6, None, fake.clock, fake.sleep))
    backend.complete(call())
    backend.complete(call())
    assert begun == pytest.approx([0, 10, 20], abs=0.01)


def test_tokens_that_a_call_did_not_take_are_given_back(serve: Serve, fake: Time) -> None:
    # Each call may take a little more than 300 tokens and takes 18, or none when it fails.
    serve(Reply(status=500, body={}, headers={"Retry-After": "1"}), OK)
    backend = endpoint(fake, rate_limit=RateLimit(None, 400, fake.clock, fake.sleep))
    for _ in range(5):
        backend.complete(call())
    assert fake.now == 51
    for _ in range(10):
        backend.complete(call())
    assert fake.now > 100


def test_waiting_for_ones_turn_uses_up_no_patience(serve: Serve, fake: Time) -> None:
    serve(error(500, "The server had an error."), OK)
    limit = RateLimit(1, None, fake.clock, fake.sleep)
    for _ in range(20):
        limit.wait(1)
    assert endpoint(fake, rate_limit=limit).complete(call()).text == GOOD


def test_replies_that_come_out_of_order_reach_who_asked(serve: Serve, fake: Time) -> None:
    count = 32
    barrier = threading.Barrier(count, timeout=20)

    def answer(body: dict[str, Any]) -> Reply:
        number = int(body["messages"][-1]["content"])
        barrier.wait()  # all are under way; then the last is answered first
        return Reply(json.dumps({"name": "n", "red": number}), delay=(count - number) * 0.004)

    server = serve(answer)
    backend = endpoint(fake, timeout=30)
    with ThreadPoolExecutor(count) as pool:
        replies = list(pool.map(lambda number: backend.complete(call(str(number))), range(count)))
    assert [json.loads(reply.text)["red"] for reply in replies] == list(range(count))
    assert server.most_at_once == count


def test_many_threads_at_a_busy_endpoint_all_get_their_answer(serve: Serve, fake: Time) -> None:
    seen: dict[str, int] = {}
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> Reply:
        prompt = body["messages"][-1]["content"]
        with lock:
            seen[prompt] = seen.get(prompt, 0) + 1
            tries = seen[prompt]
        if tries <= int(prompt) % 4:
            return [rate_limited("1"), error(503, "busy", retry_after="2"), Reply(drop=0)][tries - 1]
        return Reply(json.dumps({"name": prompt, "red": 1}))

    server = serve(answer)
    backend = endpoint(fake, clock=time.monotonic)  # the waits of one are no time that passes for the others
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda number: backend.complete(call(str(number))), range(96)))
    assert [json.loads(reply.text)["name"] for reply in replies] == [str(number) for number in range(96)]
    assert len(server.requests) == sum(1 + number % 4 for number in range(96)) == len(fake.waits) + 96
