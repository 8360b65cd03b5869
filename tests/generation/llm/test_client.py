"""Whatever a model sends back, the client gives a reply that fits, or one clear error; nothing is paid for twice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from generation.errors import UserError
from generation.llm.cache import ReplyCache
from generation.llm.client import MAX_REPAIRS, Call, ChatMessage, Client, Completion, ReplyError, Request, reply_key
from generation.prompts import render

Python = Callable[..., "subprocess.CompletedProcess[str]"]

REQUEST = Request(
    "filler", {"title": "why the sea is salt", "kind": "why", "words": {"user": 90, "assistant": 140}}, ("filler", 4)
)
PROMPT = render(REQUEST.template, REQUEST.facts)


class Colour(BaseModel):
    name: str
    red: int


GOOD = '{"name": "rust", "red": 183}'
WRONG = '{"name": "rust", "red": "very"}'


def too_red(colour: Colour) -> list[str]:
    return ["red is above 200", "that is loud"] if colour.red > 200 else []


class Script:
    """A backend that gives the answers it was given, and remembers what it was asked."""

    def __init__(self, *answers: str | Completion, model: str = "parrot") -> None:
        self.identity = {"model": model, "temperature": 0.7}
        self.answers = [Completion(answer, "stop") if isinstance(answer, str) else answer for answer in answers]
        self.asked: list[list[ChatMessage]] = []
        self.seeds: list[int] = []

    def complete(self, call: Call) -> Completion:
        assert call.request == REQUEST
        self.asked.append(list(call.messages))
        self.seeds.append(call.seed)
        return self.answers[len(self.asked) - 1]


@pytest.fixture
def cache(tmp_path: Path) -> ReplyCache:
    return ReplyCache(tmp_path / "replies.sqlite")


def test_a_good_reply_is_returned_and_the_backend_got_the_rendered_prompt() -> None:
    backend = Script(GOOD)
    assert Client(backend).ask(REQUEST, Colour) == Colour(name="rust", red=183)
    assert backend.asked == [[ChatMessage("user", PROMPT)]]


@pytest.mark.parametrize("escape", ["\\ud83d", "\\u0000", "\\u001b", "\\ude00\\ud83d"])
def test_what_no_file_can_hold_does_not_come_out_of_a_reply(escape: str, cache: ReplyCache) -> None:
    backend = Script(f'{{"name": "rust{escape} \\u00e9 \\ud83d\\ude00", "red": 183}}')
    for _ in range(2):
        name = Client(backend, cache).ask(REQUEST, Colour).name
        assert name.replace("\ufffd", "") == "rust é 😀"
        assert "\ufffd" in name
    assert len(backend.asked) == 1


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (WRONG, "red: Input should be a valid integer"),
        ('{"name": "rust"}', "red: Field required"),
        ('{"name": "rust", ', "Invalid JSON"),
        ("", "Invalid JSON"),
        (f"Sure! {GOOD}", "Invalid JSON"),
        ('{"name": "rust", "red": 201}', "red is above 200"),
    ],
)
def test_a_bad_reply_goes_back_with_its_faults(bad: str, fault: str) -> None:
    backend = Script(bad, GOOD)
    assert Client(backend).ask(REQUEST, Colour, too_red).red == 183
    first, second = backend.asked
    assert first == [ChatMessage("user", PROMPT)]
    assert second[:2] == [*first, ChatMessage("assistant", bad)]
    assert [message.role for message in second] == ["user", "assistant", "user"]
    assert fault in second[2].content


def test_every_fault_is_named_in_a_repair() -> None:
    backend = Script('{"name": "rust", "red": 255}', GOOD)
    Client(backend).ask(REQUEST, Colour, too_red)
    assert "- red is above 200\n- that is loud\n" in backend.asked[1][2].content


def test_a_second_repair_sees_the_whole_conversation() -> None:
    backend = Script(WRONG, '{"name": "rust", "red": 255}', GOOD)
    assert Client(backend).ask(REQUEST, Colour, too_red).red == 183
    last = backend.asked[2]
    assert last[:3] == backend.asked[1]
    assert [message.role for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "valid integer" in last[2].content
    assert "valid integer" not in last[4].content


def test_after_two_repairs_the_error_names_the_call_and_the_last_faults(cache: ReplyCache) -> None:
    backend = Script(WRONG, WRONG, '{"name": "rust", "red": 255}', GOOD)
    with pytest.raises(ReplyError) as caught:
        Client(backend, cache).ask(REQUEST, Colour, too_red)
    assert len(backend.asked) == 1 + MAX_REPAIRS == 3
    assert isinstance(caught.value, UserError)
    for part in ("filler for filler 4", "2 repairs", "red is above 200", "that is loud"):
        assert part in caught.value.message
    assert "valid integer" not in caught.value.message


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_cut_or_refused_reply_is_an_error_at_once_whatever_it_says(cache: ReplyCache, reason: str) -> None:
    backend = Script(Completion(GOOD, reason), GOOD)
    with pytest.raises(ReplyError, match=f"filler for filler 4: the reply ended with '{reason}'"):
        Client(backend, cache).ask(REQUEST, Colour)
    assert len(backend.asked) == 1
    # Nothing was kept: the next try asks again.
    Client(backend, cache).ask(REQUEST, Colour)
    assert len(backend.asked) == 2


def test_a_cut_repair_is_an_error_at_once(cache: ReplyCache) -> None:
    backend = Script(WRONG, Completion(GOOD, "length"), GOOD)
    with pytest.raises(ReplyError, match="'length'"):
        Client(backend, cache).ask(REQUEST, Colour)
    assert len(backend.asked) == 2


def test_an_attempt_that_fails_is_begun_anew_with_another_seed(cache: ReplyCache) -> None:
    backend = Script(Completion(GOOD, "length"), WRONG, WRONG, WRONG, GOOD)
    assert Client(backend, cache, attempts=3).ask(REQUEST, Colour).red == 183
    assert [len(messages) for messages in backend.asked] == [1, 1, 3, 5, 1]
    first, second, *others, third = backend.seeds
    assert others == [second, second]
    assert len({first, second, third}) == 3
    again = Script(WRONG, WRONG, WRONG, Completion(GOOD, "refusal"))
    with pytest.raises(ReplyError, match=r"no usable reply after 2 repairs.*; the reply ended with 'refusal'"):
        Client(again, attempts=2).ask(REQUEST, Colour)
    assert again.seeds[0] == first


def test_a_good_reply_is_never_asked_for_again(cache: ReplyCache, tmp_path: Path) -> None:
    Client(Script(GOOD), cache).ask(REQUEST, Colour)
    silent = Script()
    assert Client(silent, ReplyCache(tmp_path / "replies.sqlite")).ask(REQUEST, Colour).name == "rust"
    assert silent.asked == []


def test_a_good_reply_is_never_asked_for_again_in_another_process(python: Python, tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from pydantic import BaseModel
from generation.llm.cache import ReplyCache
from generation.llm.client import Client, Completion, Request

class Colour(BaseModel):
    name: str

class Once:
    identity = {"model": "parrot", "options": {"b": 1, "a": 2}}
    def complete(self, call):
        print("asked")
        return Completion('{"name": "rust"}', "stop")

client = Client(Once(), ReplyCache(Path("replies.sqlite")))
facts = {"title": "salt", "kind": "why", "words": {"user": 9, "assistant": 9}}
print(client.ask(Request("filler", facts, (1,)), Colour).name)
"""
    assert python(code, PYTHONHASHSEED="1").stdout == "asked\nrust\n"
    assert python(code, PYTHONHASHSEED="2").stdout == "rust\n"


def test_a_repaired_reply_is_kept_for_the_original_request(cache: ReplyCache) -> None:
    Client(Script(WRONG, WRONG, GOOD), cache).ask(REQUEST, Colour)
    silent = Script()
    assert Client(silent, cache).ask(REQUEST, Colour).red == 183
    assert silent.asked == []


def test_only_what_passed_is_kept(cache: ReplyCache) -> None:
    Client(Script(WRONG, '{"name": "rust", "red": 255}', GOOD), cache).ask(REQUEST, Colour, too_red)
    key = reply_key(Script().identity, [ChatMessage("user", PROMPT)], Colour)
    assert cache.get(key) == GOOD


def test_a_kept_reply_that_no_longer_passes_is_asked_for_again(cache: ReplyCache) -> None:
    Client(Script('{"name": "rust", "red": 255}'), cache).ask(REQUEST, Colour)
    backend = Script(GOOD)
    assert Client(backend, cache).ask(REQUEST, Colour, too_red).red == 183
    assert backend.asked == [[ChatMessage("user", PROMPT)]]
    # The new one has taken its place.
    assert Client(Script(), cache).ask(REQUEST, Colour, too_red).red == 183


def test_a_damaged_reply_in_the_cache_is_asked_for_again(cache: ReplyCache) -> None:
    cache.put(reply_key(Script().identity, [ChatMessage("user", PROMPT)], Colour), "half of {")
    assert Client(Script(GOOD), cache).ask(REQUEST, Colour).red == 183


def test_failures_are_not_kept(cache: ReplyCache) -> None:
    for _ in range(2):
        backend = Script(WRONG, WRONG, WRONG)
        with pytest.raises(ReplyError):
            Client(backend, cache).ask(REQUEST, Colour)
        assert len(backend.asked) == 3
        assert cache.get(reply_key(backend.identity, [ChatMessage("user", PROMPT)], Colour)) is None


def test_without_a_cache_every_call_is_made() -> None:
    backend = Script(GOOD, GOOD)
    client = Client(backend)
    client.ask(REQUEST, Colour)
    client.ask(REQUEST, Colour)
    assert len(backend.asked) == 2


def test_another_model_is_asked_anew(cache: ReplyCache) -> None:
    Client(Script(GOOD), cache).ask(REQUEST, Colour)
    backend = Script(GOOD, model="cockatoo")
    Client(backend, cache).ask(REQUEST, Colour)
    assert len(backend.asked) == 1


def test_an_error_of_the_backend_passes_through_and_keeps_nothing(cache: ReplyCache) -> None:
    class Down(Script):
        def complete(self, call: Call) -> Completion:
            raise UserError("no answer from parrot")

    with pytest.raises(UserError, match="no answer from parrot"):
        Client(Down(), cache).ask(REQUEST, Colour)
    assert Client(Script(GOOD), cache).ask(REQUEST, Colour).red == 183


# --- the key


class Shade(BaseModel):
    name: str
    red: float


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
identities = st.dictionaries(st.text(), values, max_size=4)
conversations = st.lists(
    st.builds(ChatMessage, st.sampled_from(["user", "assistant"]), st.text()), min_size=1, max_size=4
)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@given(identities, identities, conversations, conversations)
def test_the_key_differs_exactly_where_something_differs(
    identity: dict[str, Any], other: dict[str, Any], messages: list[ChatMessage], others: list[ChatMessage]
) -> None:
    key = reply_key(identity, messages, Colour)
    assert (key == reply_key(other, messages, Colour)) == (canonical(identity) == canonical(other))
    assert (key == reply_key(identity, others, Colour)) == (messages == others)
    assert key != reply_key(identity, messages, Shade)


@given(identities, conversations, st.randoms())
def test_the_order_of_the_keys_does_not_matter(
    identity: dict[str, Any], messages: list[ChatMessage], random: Any
) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = random.sample(list(value), len(value))
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(entry) for entry in value] if isinstance(value, list) else value

    assert reply_key(shuffled(identity), messages, Colour) == reply_key(identity, messages, Colour)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_text_that_moves_to_the_next_message_changes_the_key(first: str, second: str) -> None:
    apart = [ChatMessage("user", first), ChatMessage("assistant", second)]
    together = [ChatMessage("user", first + second), ChatMessage("assistant", "")]
    assert reply_key({}, apart, Colour) != reply_key({}, together, Colour)
