"""A text is believed when a reader found in it what it is to say; until then it is rewritten, and begun anew once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from generation.errors import UserError
from generation.llm.cache import ReplyCache
from generation.llm.client import Call, Client, Completion, ReplyError, Request
from generation.revision import REWRITES, STARTS, ask_and_read_back

REQUEST = Request(
    "filler", {"title": "why the sea is salt", "kind": "why", "words": {"user": 90, "assistant": 140}}, ("filler", 4)
)


class Text(BaseModel):
    text: str


class Writer:
    """Writes the texts it was given, in order; one that is an error is raised."""

    identity: dict[str, Any] = {"backend": "writer"}  # noqa: RUF012

    def __init__(self, *texts: str | Exception) -> None:
        self.texts = list(texts)
        self.calls: list[Call] = []

    def complete(self, call: Call) -> Completion:
        text = self.texts[len(self.calls)]
        self.calls.append(call._replace(messages=list(call.messages)))
        if isinstance(text, Exception):
            raise text
        return Completion(Text(text=text).model_dump_json(), "stop")

    @property
    def templates(self) -> list[str]:
        return [call.request.template for call in self.calls]


class Reader:
    """Finds the faults it was told of, and remembers what it read."""

    def __init__(self, **faults: Sequence[str]) -> None:
        self.faults = faults
        self.read: list[str] = []

    def __call__(self, reply: Text) -> list[str]:
        self.read.append(reply.text)
        return list(self.faults.get(reply.text, []))


def write(
    writer: Writer,
    reader: Callable[[Text], list[str]],
    cache: ReplyCache | None = None,
    finish: Callable[[Text], Text] = lambda reply: reply,
) -> str:
    check = lambda reply: ["too loud"] if reply.text.isupper() else []  # noqa: E731
    return ask_and_read_back(Client(writer, cache), REQUEST, Text, check, reader, finish).text


@pytest.fixture
def cache(tmp_path: Path) -> ReplyCache:
    return ReplyCache(tmp_path / "replies.sqlite")


BAD = {name: [f"{name} lies"] for name in "abcdefgh"}


def test_a_text_without_faults_is_read_once() -> None:
    writer, reader = Writer("good"), Reader()
    assert write(writer, reader) == "good"
    assert (writer.templates, reader.read) == (["filler"], ["good"])
    assert writer.calls[0].request == REQUEST


def test_what_the_check_finds_is_not_read() -> None:
    writer, reader = Writer("LOUD", "good"), Reader()
    assert write(writer, reader) == "good"
    assert reader.read == ["good"]
    assert len(writer.calls[1].messages) == 3


def test_a_rewriting_sees_the_task_the_text_and_what_the_reader_found() -> None:
    writer, reader = Writer("a", "good"), Reader(**BAD)
    assert write(writer, reader) == "good"
    assert writer.templates == ["filler", "rewrite"]
    task, rewriting = (call.messages[0].content for call in writer.calls)
    assert rewriting.startswith(task)
    assert '{"text":"a"}' in rewriting
    assert "- a lies\n" in rewriting
    assert len(writer.calls[1].messages) == 1


def test_a_rewriting_is_checked_and_read_like_the_first_text() -> None:
    writer, reader = Writer("a", "LOUD", "b", "good"), Reader(**BAD)
    assert write(writer, reader) == "good"
    assert reader.read == ["a", "b", "good"]
    assert "- too loud\n" in writer.calls[2].messages[-1].content
    last = writer.calls[3].messages[0].content
    assert "- b lies\n" in last
    assert "a lies" not in last


def test_a_rewriting_that_changes_nothing_is_sent_back() -> None:
    writer, reader = Writer("a", "a", "good"), Reader(**BAD)
    assert write(writer, reader) == "good"
    assert reader.read == ["a", "good"]
    assert "- a lies\n" in writer.calls[2].messages[-1].content


def test_after_the_rewritings_a_text_is_begun_anew_with_another_seed() -> None:
    writer, reader = Writer("a", "b", "c", "good"), Reader(**BAD)
    assert write(writer, reader) == "good"
    assert writer.templates == ["filler", "rewrite", "rewrite", "filler"]
    assert writer.calls[3].messages == writer.calls[0].messages
    assert writer.calls[3].seed != writer.calls[0].seed


def test_there_is_an_end_and_the_error_names_the_last_faults() -> None:
    writer, reader = Writer(*"abcdef", "good"), Reader(**BAD)
    with pytest.raises(ReplyError, match=r"filler for filler 4: still wrong after 2 rewrites: f lies$"):
        write(writer, reader)
    assert len(writer.calls) == STARTS * (1 + REWRITES) == 6


def test_what_is_finished_is_read_and_kept_and_rewritten() -> None:
    writer, reader = Writer("a", "good"), Reader(A=["A lies"])
    assert write(writer, reader, finish=lambda reply: Text(text=reply.text.capitalize())) == "Good"
    assert reader.read == ["A", "Good"]
    assert '{"text":"A"}' in writer.calls[1].messages[0].content


def test_a_run_that_was_stopped_anywhere_pays_for_nothing_twice(cache: ReplyCache) -> None:
    """Stopped at each call in turn, each time the next run goes on from there."""
    texts = ["a", "b", "c", "good"]
    paid: list[str] = []
    for done in range(len(texts)):
        writer = Writer(texts[done], UserError("stopped"))
        if done + 1 < len(texts):
            with pytest.raises(UserError, match="stopped"):
                write(writer, Reader(**BAD), cache)
        else:
            assert write(writer, Reader(**BAD), cache) == "good"
        paid.append(writer.calls[0].messages[0].content)
    assert paid[0] == paid[3]
    assert len(set(paid)) == 3
    writer = Writer()
    assert write(writer, Reader(**BAD), cache) == "good"
    assert writer.calls == []


def test_a_run_after_a_failure_asks_anew(cache: ReplyCache) -> None:
    with pytest.raises(ReplyError):
        write(Writer(*"abcdef"), Reader(**BAD), cache)
    writer, reader = Writer("good"), Reader(**BAD)
    assert write(writer, reader, cache) == "good"
    assert reader.read == ["d", "e", "f", "good"]  # the last text that was begun, and what became of it, are kept
    assert writer.templates == ["filler"]


def test_what_was_finished_and_refused_is_not_begun_with_again(cache: ReplyCache) -> None:
    upper = Reader(**{name.upper(): [f"{name} lies"] for name in "abcd"})

    def finish(reply: Text) -> Text:
        return Text(text=reply.text.capitalize())

    writer = Writer("a", "b", "c", "d", "good")
    assert write(writer, upper, cache, finish) == "Good"
    assert writer.templates == ["filler", "rewrite", "rewrite", "filler", "rewrite"]
    assert upper.read == ["A", "B", "C", "D", "Good"]


def test_a_model_that_always_writes_the_same_is_told_what_was_found_and_given_up() -> None:
    writer = Writer(*["a"] * 20)
    with pytest.raises(ReplyError, match="a lies"):
        write(writer, Reader(**BAD))
    assert len(writer.calls) < 20
