"""Whatever a body says, it is an answer only where a model answered."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.llm.replies import ChatReply, ReplyOutcome, RequestFailure, error_body, read_reply, spoken

GOOD = "<final_answer>(c)"


def openai(content: Any, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    }


def anthropic(content: Any, stop: Any = "end_turn") -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": stop,
        "usage": {"input_tokens": 5, "output_tokens": 3},
    }


def without(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in keys}


def read(body: Any) -> ChatReply | RequestFailure:
    return read_reply(body if isinstance(body, bytes) else json.dumps(body).encode())


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


THINKING = {"type": "thinking", "thinking": "perhaps (a)?", "signature": "x"}
NO_INDEX = {"choices": [{"message": {"content": GOOD}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "body",
    [
        openai(GOOD),
        openai([text(GOOD)]),
        openai([text("<final_answer>"), text("(c)")]),
        openai([GOOD]),
        openai(text(GOOD)),
        openai([{"type": "thinking", "thinking": [text("hm (a)?")]}, text(GOOD)]),
        openai([{"type": "reasoning", "text": "hm (a)?"}, {"type": "output_text", "text": GOOD}]),
        openai([{"type": "image_url", "image_url": {}}, None, 3, text(GOOD)]),
        openai(GOOD, reasoning="hm (a)?"),
        openai(GOOD, reasoning_content="hm (a)?", tool_calls=[]),
        openai(GOOD, "STOP"),
        openai(GOOD, "eos_token"),
        openai(GOOD, None),
        openai(GOOD, 7),
        openai(GOOD, "of its own accord"),
        openai(GOOD, refusal=None),
        NO_INDEX,
        {**openai(GOOD), "error": None},
        {"choices": [{"index": 1, "message": {"content": GOOD}}], "usage": None},
        anthropic([text(GOOD)]),
        anthropic([THINKING, text(GOOD)]),
        anthropic([text(GOOD)], "stop_sequence"),
        anthropic(GOOD),
        without(anthropic([text(GOOD)]), "type", "stop_reason", "usage"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps(openai(GOOD)).encode(), id="byte order mark"),
        pytest.param(b"  \r\n" + json.dumps(openai(GOOD)).encode() + b"\n\n", id="space around it"),
    ],
)
def test_an_answer_is_its_text(body: Any) -> None:
    reply = read(body)
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.outcome) == (GOOD, "answered")


@pytest.mark.parametrize(
    ("body", "outcome", "said"),
    [
        (openai("It is (b) at first but", "length"), "cut", "It is (b) at first but"),
        (openai("It is", "max_tokens"), "cut", "It is"),
        (openai("It is", "MAX_TOKENS"), "cut", "It is"),
        (openai(None, "length", reasoning_content="Let me think"), "cut", ""),
        (openai("", "length"), "cut", ""),
        ({"choices": [{"finish_reason": "length"}]}, "cut", ""),
        ({"choices": [{"finish_reason": "length", "message": None}]}, "cut", ""),
        (anthropic([THINKING], "max_tokens"), "cut", ""),
        (anthropic([text("It is")], "max_tokens"), "cut", "It is"),
        (anthropic(None, "model_context_window_exceeded"), "cut", ""),
        (openai("", "content_filter"), "refused", ""),
        (openai(None, "content_filter"), "refused", ""),
        (openai("It is", "content_filter"), "refused", "It is"),
        (openai(None, "SAFETY"), "refused", ""),
        (openai(None, refusal="I will not."), "refused", "I will not."),
        (openai([{"type": "refusal", "refusal": "I will not."}]), "refused", "I will not."),
        (anthropic([], "refusal"), "refused", ""),
        (anthropic(None, "refusal"), "refused", ""),
        (anthropic([text("I")], "refusal"), "refused", "I"),
    ],
)
def test_what_is_cut_or_refused_keeps_its_text(body: Any, outcome: ReplyOutcome, said: str) -> None:
    reply = read(body)
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.outcome) == (said, outcome)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (openai(None), "without any text"),
        (openai(""), "without any text"),
        (openai(" \n"), "without any text"),
        (openai([]), "without any text"),
        (openai([THINKING]), "but reasoning"),
        (openai(None, reasoning=f"thinking … {GOOD}"), "but reasoning"),
        (openai(None, tool_calls=[{"id": "1", "function": {"name": "answer"}}]), "call of a tool"),
        (openai(None, "tool_calls"), "'tool_calls'"),
        (openai(GOOD, "error"), "'error'"),
        (openai(GOOD, "abort"), "'abort'"),
        (openai(3), "type int"),
        (openai(True), "type bool"),
        (openai(0.5), "type float"),
        ({"choices": [{"message": None, "finish_reason": "stop"}]}, "without any text"),
        ({"choices": [{"message": "(c)", "finish_reason": "stop"}]}, "without any text"),
        ({"choices": [{}]}, "without any text"),
        (anthropic([]), "without any text"),
        (anthropic(None), "without any text"),
        (without(anthropic(None), "content"), "without any text"),
        (anthropic([{"type": "tool_use", "name": "answer"}], "tool_use"), "tool_use"),
        (anthropic(3), "type int"),
    ],
)
def test_a_reply_without_an_answer_has_failed(body: Any, problem: str) -> None:
    reply = read(body)
    assert isinstance(reply, ChatReply)
    assert reply.outcome == "failed"
    assert problem in reply.problem


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"error": {"message": "Provider returned error", "code": 502}}, 502, "Provider returned error"),
        ({"error": {"message": "Slow down", "code": 429}, "choices": []}, 429, "Slow down"),
        ({**openai(GOOD), "error": {"message": "Broke off", "code": "x"}}, 502, "Broke off"),
        ({"error": "upstream"}, 502, "upstream"),
        ({"error": {"code": 7}}, 502, "7"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 502, "Overloaded"),
        ({"choices": [{"message": {"content": "It"}, "error": {"message": "Broke off", "code": 503}}]}, 503, "Broke"),
        ({"choices": []}, 502, "without any choice"),
        ({"choices": None}, 502, "without any choice"),
        ({"choices": [None]}, 502, "without any choice"),
        ({"choices": {"0": {}}}, 502, "without any choice"),
        ({}, 502, "without any choice"),
        ([], 502, "not an answer"),
        (None, 502, "not an answer"),
        ("(c)", 502, "not an answer"),
        pytest.param(b"", 502, "an empty body", id="empty"),
        pytest.param(b"<html><body>Bad gateway</body></html>", 502, "Bad gateway", id="html"),
        pytest.param(b"\xff\xfe\x00", 502, "not an answer", id="binary"),
        pytest.param(b'{"choices": [{"message": {"content": "(c', 502, "not an answer", id="cut"),
        pytest.param(b"[" * 100_000, 502, "not an answer", id="deep"),
        pytest.param(b'{"choices":' + b"[" * 100_000, 502, "not an answer", id="deep choices"),
        pytest.param(b'{"choices": [' + b"{}," * 1_000_000 + b"{}]}", 502, "not an answer", id="many choices"),
        pytest.param(gzip.compress(b"{}", mtime=0), 502, "not an answer", id="gzip"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_no_reply_is_a_failure(body: Any, status: int, said: str) -> None:
    failure = read(body)
    assert isinstance(failure, RequestFailure)
    assert failure.status == status
    assert said in spoken(failure.body)
    assert len(spoken(failure.body)) <= 300


def test_no_text_holds_what_cannot_be_written() -> None:
    body = json.dumps(openai("(c) XX\u202e\U0001f600", "stop\ud83d", reasoning="\udc00")).replace(
        "XX", "\\ud83d\\u0000"
    )
    reply = read_reply(body.encode())
    assert isinstance(reply, ChatReply)
    assert reply.text == "(c) \ufffd\ufffd\u202e\U0001f600"
    assert (reply.finish_reason, reply.reasoning) == ("stop\ufffd", "\ufffd")
    for failure in (read({"error": {"message": "\ud83d\x00"}}), read("\ud83d\x00"), read(b"\x00\x1b[2J")):
        assert isinstance(failure, RequestFailure)
        spoken(failure.body).encode()
        assert "\x1b" not in spoken(failure.body)
    assert spoken(error_body(b"\x1b[2J<h1>\xff</h1>")) == "\ufffd[2J<h1>\ufffd</h1>"


@pytest.mark.parametrize("count", [-1, 0, 10**9, 10**40, 1.5, 5.0, True, None, "5", [], {}, float("nan")])
def test_a_usage_that_is_no_count_is_let_be(count: Any) -> None:
    body = openai(GOOD)
    body["usage"] = {"prompt_tokens": count, "completion_tokens": 4}
    reply = read(body)
    assert isinstance(reply, ChatReply)
    assert reply.tokens[:2] == (None, 4)
    reply = read({**body, "usage": count})
    assert isinstance(reply, ChatReply)
    assert reply.tokens == (None, None, None)


def test_usage_is_read_in_both_forms() -> None:
    for body in (openai(GOOD), anthropic([text(GOOD)])):
        reply = read(body)
        assert isinstance(reply, ChatReply)
        assert reply.tokens == (5, 3, None)


# --- streams of events


def stream(*events: Any, end: str = "\n\n") -> bytes:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}{end}" for event in events).encode()


def delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


PARTS = (delta(role="assistant"), delta(content="<final_"), delta(content="answer>(c)"))
CLAUDE = (
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm (a)"}},
    {"type": "content_block_start", "index": 1, "content_block": text("")},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": GOOD}},
)


@pytest.mark.parametrize(
    ("body", "outcome", "said"),
    [
        (stream(*PARTS, "[DONE]"), "answered", GOOD),
        (stream(*PARTS, delta("stop")), "answered", GOOD),
        (stream(*PARTS, delta("stop"), {"choices": [], "usage": {"prompt_tokens": 5}}, "[DONE]"), "answered", GOOD),
        (stream(*PARTS, delta("length"), "[DONE]"), "cut", GOOD),
        (stream(*PARTS, delta("content_filter"), "[DONE]"), "refused", GOOD),
        (b": OPENROUTER PROCESSING\n\n" + stream(*PARTS, "[DONE]"), "answered", GOOD),
        (stream(*PARTS, "[DONE]", end="\r\n\r\n"), "answered", GOOD),
        (stream(openai(GOOD), "[DONE]"), "answered", GOOD),
        (stream(delta(reasoning="hm (a)"), *PARTS, "[DONE]"), "answered", GOOD),
        (stream(delta(reasoning="hm (a)"), "[DONE]"), "failed", ""),
        (stream(*CLAUDE, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}), "answered", GOOD),
        (stream(*CLAUDE, {"type": "message_stop"}), "answered", GOOD),
        (stream(*CLAUDE, {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}), "cut", GOOD),
        (b"event: message_start\n" + stream(*CLAUDE, {"type": "message_stop"}), "answered", GOOD),
    ],
    ids=[
        *("done", "stop", "usage", "length", "filtered", "comment", "crlf", "whole", "reasoning", "only reasoning"),
        *("end of turn", "end of message", "most tokens", "named event"),
    ],
)
def test_a_stream_that_was_not_asked_for_is_put_together(body: bytes, outcome: ReplyOutcome, said: str) -> None:
    reply = read_reply(body)
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.outcome) == (said, outcome)


@pytest.mark.parametrize(
    "body",
    [
        stream(*PARTS),
        stream(*CLAUDE),
        stream(*PARTS, {"error": {"message": "Overloaded"}}, "[DONE]"),
        stream(*CLAUDE, {"type": "error", "error": {"message": "Overloaded"}}),
        stream(*PARTS, '{"choices": [', "[DONE]"),
        stream(*PARTS)[:-20],
        b"data: hello\n\n",
        b"data:",
        b": ping\n\n",
    ],
    ids=["openai", "claude", "error", "claude's error", "no json", "cut", "words", "empty event", "comment"],
)
def test_a_stream_that_is_not_whole_is_a_failure(body: bytes) -> None:
    assert isinstance(read_reply(body), RequestFailure)


# --- anything


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["stop", "length"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("choices", "message", "content", "text", "type", "error", "delta", "usage", "finish_reason"),
                    *("index", "refusal", "thinking", "stop_reason", "code", "prompt_tokens", "input_tokens"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(JSON, st.booleans())
def test_any_json_is_read(value: Any, is_stream: bool) -> None:
    body = stream({"choices": [value]}, value, "[DONE]") if is_stream else json.dumps(value).encode()
    reply = read_reply(body)
    if isinstance(reply, ChatReply):
        assert reply.text.strip() or reply.outcome != "answered"
        for words in (reply.text, reply.finish_reason, reply.problem, reply.reasoning):
            words.encode()
    else:
        spoken(reply.body).encode()


@settings(max_examples=70, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_failure_or_a_reply(body: bytes) -> None:
    reply = read_reply(body)
    assert isinstance(reply, RequestFailure) or reply.outcome != "answered"
