"""What the body of an endpoint's reply says: the one reader of chat replies, for generation and for evaluation.

It takes bodies as OpenAI and as Anthropic have them, whole or as a stream of events, and every likeness of these that
servers send. What it cannot read is a `RequestFailure`, never an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from generation.http import MAX_VALUES, body_as_json
from generation.llm.token_choices import TokenChoice, read_choices
from generation.llm.token_counts import TokenCounts, read_counts
from generation.reading import clean_text

ReplyOutcome = Literal["answered", "refused", "cut", "failed"]
"""`answered`: whole. `refused`: declined by the model, or withheld by a filter. `cut`: at the longest reply.
`failed`: no text, or an end that is none."""

QUOTED: Final = 300
"""Characters of what an endpoint said that are shown."""

# How servers name the ways in which a reply ends, in lower case. A text that ends in another way is an answer.
WHOLE: Final = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence", "end", "complete", "completed"})
_CUT: Final = frozenset(
    {"length", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded"}
)
_REFUSED: Final = frozenset(
    {
        "content_filter",
        "content-filter",
        "refusal",
        "refused",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "sensitive",
        "guardrail_intervened",
    }
)
_BROKEN: Final = frozenset(
    {
        "error",
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "timeout",
        "insufficient_system_resource",
        "tool_calls",
        "tool_use",
        "function_call",
        "malformed_function_call",
        "pause_turn",
    }
)
_NOT_SAID: Final = ("thinking", "reasoning", "redacted_thinking", "thought", "reasoning_content")


class ChatReply(NamedTuple):
    """What a model sent back.

    Attributes:
        text: What it said, without the reasoning that came beside it; encodable.
        finish_reason: As the endpoint gave it; empty where it gave none.
        problem: For a failure, what is wrong.
        tokens: As counted by the endpoint.
        choices: Of the reply's tokens, where the endpoint gave their log-probabilities.
    """

    text: str
    outcome: ReplyOutcome
    finish_reason: str = ""
    problem: str = ""
    reasoning: str = ""
    tokens: TokenCounts = TokenCounts()
    choices: Sequence[TokenChoice] | None = None


class RequestFailure(NamedTuple):
    """Why there is no reply.

    Attributes:
        status: Of HTTP; 0 where none came.
        body: What the endpoint said, as data; or what happened to the connection.
        headers: Of the reply, by names in lower case.
        unreachable: Whether there is no such server, none that can be trusted, or none that speaks of chats.
    """

    status: int
    body: object
    headers: Mapping[str, str] = {}
    unreachable: bool = False


def read_reply(content: bytes) -> ChatReply | RequestFailure:
    """Return what a body of status 200 says."""
    text = content.decode("utf-8-sig", errors="replace").strip()
    is_stream = text.startswith(("data:", "event:", "id:", "retry:", ":"))
    body = _assembled(text) if is_stream else _parsed(text)
    if not isinstance(body, dict):
        shown = clean_text(text[: 2 * QUOTED]) or "an empty body"
        return RequestFailure(502, f"not an answer of a chat endpoint: {shown}", unreachable=True)
    if error := body.get("error"):
        return _reported(error)
    # A reply in Anthropic's form.
    if body.get("type") == "message" or ("choices" not in body and "content" in body):
        said = _content(body.get("content"))
        return _judged(said, body.get("stop_reason"), body.get("usage"))
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return RequestFailure(502, "an answer without any choice")
    first: dict[str, Any] = choices[0]
    if error := first.get("error"):
        return _reported(error)
    return _read_choice(first, body.get("usage"))


def error_body(content: bytes) -> object:
    """Return what an endpoint says with a status that is an error: data where it is JSON, else text."""
    text = content.decode("utf-8-sig", errors="replace").strip()
    body = _parsed(text)
    return clean_text(text[: 2 * QUOTED]) if body is None else body


def spoken(body: object) -> str:
    """Return the words of an error, wherever a server puts them, on one line and encodable."""
    for _ in range(10):
        match body:
            case [first, *_]:
                body = first
            case {"error": inner} | {"message": inner} | {"detail": inner} if inner:
                body = inner
            case _:
                break
    return " ".join(clean_text(str(body)[: 4 * QUOTED]).split())[:QUOTED]


def _reported(error: object) -> RequestFailure:
    code = error.get("code") if isinstance(error, dict) else None
    return RequestFailure(code if isinstance(code, int) and 400 <= code < 600 else 502, {"error": error})


def _parsed(text: str) -> Any:
    """Return what a text is as JSON; None where it is none that an endpoint sends."""
    try:
        return body_as_json(text)
    except ValueError:
        return None


# --- a whole reply


def _read_choice(choice: dict[str, Any], usage: object) -> ChatReply:
    """Read one of the `choices` of OpenAI's form."""
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    said = _content(message.get("content"))
    refusal = message.get("refusal")
    reasoning = next((text for key in _NOT_SAID if isinstance(text := message.get(key), str) and text), "")
    return _judged(
        said._replace(
            refusal=said.refusal or (refusal if isinstance(refusal, str) else ""),
            reasoning=said.reasoning or reasoning,
            calls_tool=said.calls_tool or bool(message.get("tool_calls") or message.get("function_call")),
        ),
        choice.get("finish_reason"),
        usage,
        choice.get("logprobs"),
    )


class _MessageContent(NamedTuple):
    """What stands in a `content`; `problem` where it is of no known form."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls_tool: bool = False
    problem: str = ""


def _content(content: object) -> _MessageContent:
    if content is None or isinstance(content, str):
        return _MessageContent(content or "")
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return _MessageContent(problem=f"its content is of the type {type(content).__name__}")
    texts: list[str] = []
    reasoning: list[str] = []
    refusals: list[str] = []
    calls_tool = False
    for part in content:
        match part:
            case str():
                texts.append(part)
            case {"type": "refusal", "refusal": str(words)}:
                refusals.append(words)
            case {"type": kind} if kind in _NOT_SAID:
                reasoning.extend(words for words in part.values() if isinstance(words, str) and words != kind)
            case {"type": "tool_use" | "tool_call" | "server_tool_use" | "function_call"}:
                calls_tool = True
            case {"text": str(words)}:
                texts.append(words)
    return _MessageContent("".join(texts), "".join(reasoning), "".join(refusals), calls_tool)


def _judged(said: _MessageContent, ended: object, usage: object, logprobs: object = None) -> ChatReply:
    """Return a reply with its outcome."""
    finish_reason = clean_text(ended)[:100] if isinstance(ended, str) else ""
    text = clean_text(said.text)
    outcome, problem = _outcome(said, text, finish_reason.lower())
    if outcome == "refused" and not text.strip():
        text = clean_text(said.refusal)
    reasoning = clean_text(said.reasoning)
    return ChatReply(text, outcome, finish_reason, problem, reasoning, read_counts(usage), read_choices(logprobs))


def _outcome(said: _MessageContent, text: str, reason: str) -> tuple[ReplyOutcome, str]:
    if reason in _CUT:
        return "cut", ""
    if reason in _REFUSED or said.refusal:
        return "refused", ""
    if said.problem:
        return "failed", said.problem
    if reason in _BROKEN:
        return "failed", f"the reply ended with {reason!r}"
    if not text.strip():
        beside = " but a call of a tool" if said.calls_tool else " but reasoning" if said.reasoning.strip() else ""
        return "failed", f"a reply without any text{beside}"
    return "answered", ""


# --- a stream of events


def _events(text: str) -> Iterator[str]:
    """Yield the data of each event."""
    lines: list[str] = []
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []


def _assembled(text: str) -> dict[str, Any]:
    """Return the body that a stream of events amounts to; one with an error where it was not whole."""
    stream = _Stream()
    if text.count("{") + text.count("[") > MAX_VALUES:
        return {"error": "a stream of too many events"}
    for data in _events(text):
        if data.strip() == "[DONE]":
            stream.is_done = True
            break
        event = _parsed(data)
        if not isinstance(event, dict):
            return {"error": f"a stream with an event that is not JSON: {data[:QUOTED]}"}
        if error := event.get("error"):
            return {"error": error}
        stream.add(event)
    return stream.body()


class _Stream:
    """Puts the events of a stream together.

    Attributes:
        is_done: Whether the server said that there is no more to come.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._refusals: list[str] = []
        self._calls_tool = False
        self._ended: object = None
        self._usage: dict[str, Any] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Take in what one event says."""
        self._count(event.get("usage"))
        match event:
            case {"choices": [{"index": int(index)}, *_]} if index > 0:
                return
            case {"choices": [dict(choice), *_]}:
                said = choice.get("delta") or choice.get("message")
                if isinstance(said, dict):
                    self._say(said)
                self._ended = choice.get("finish_reason") or self._ended
            case {"type": "message_start", "message": dict(message)}:
                self._count(message.get("usage"))
                self._say(message)
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._say({"content": [block]})
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(words)}}:
                self._reasoning.append(words)
            case {"type": "content_block_delta", "delta": {"text": str(words)}}:
                self._texts.append(words)
            case {"type": "message_delta", "delta": {"stop_reason": reason}}:
                self._ended = reason or self._ended
            case {"type": "message_stop"}:
                self.is_done = True

    def _say(self, message: dict[str, Any]) -> None:
        said = _content(message.get("content"))
        self._texts.append(said.text)
        self._reasoning.append(said.reasoning)
        self._reasoning.extend(text for key in _NOT_SAID if isinstance(text := message.get(key), str))
        self._refusals.append(said.refusal)
        if isinstance(refusal := message.get("refusal"), str):
            self._refusals.append(refusal)
        self._calls_tool |= said.calls_tool or bool(message.get("tool_calls"))

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage |= usage

    def body(self) -> dict[str, Any]:
        """Return what the events amount to, in OpenAI's form."""
        if not (self.is_done or self._ended):
            return {"error": "a stream of events that ends early"}
        message = {
            "content": "".join(self._texts),
            "reasoning": "".join(self._reasoning),
            "refusal": "".join(self._refusals),
            "tool_calls": self._calls_tool,
        }
        return {"choices": [{"message": message, "finish_reason": self._ended or "stop"}], "usage": self._usage}
