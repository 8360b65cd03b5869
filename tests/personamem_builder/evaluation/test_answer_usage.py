"""Seconds and tokens of the answers of chat endpoints: measured, kept, written."""

from __future__ import annotations

import json
import pickle
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from answering_lm import AnsweringChat, right
from loopback_chat import LoopbackChat, Raw
from loopback_llm import LoopbackLLM, error, rate_limited, script
from loopback_llm import Reply as Sent

from generation.http import PrivateHeaders, address_of
from generation.llm.chat_request import EndpointLabels
from personamem_builder.evaluation.chat_client import ChatClient, Endpoint
from personamem_builder.evaluation.responses import Reply
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.usage import AnswerUsage

TASK = "personamem_32k_generate_nocontext"
DELAY = 0.1
HANGING = 600.0
"""Far more seconds than an answer takes here."""

FIELDS = AnswerUsage._fields


@pytest.fixture(autouse=True)
def workplace(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.chdir(tmp_path)


def ask(url: str, **more: Any) -> Reply:
    """Ask one question."""
    address = address_of(url)
    assert address is not None
    headers = PrivateHeaders({"Content-Type": "application/json"})
    endpoint = Endpoint(address, headers, EndpointLabels(url, "m", "KEY", "base_url", "/v1"), 60, 5, 1)
    payload = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
    (answered,) = ChatClient(endpoint, **more).ask_all([[0]], lambda number: payload)
    return answered.reply


def body(usage: Any, *, anthropic: bool = False) -> dict[str, Any]:
    if anthropic:
        return {"type": "message", "content": [{"type": "text", "text": "(a)"}], "stop_reason": "end_turn"} | usage
    return {"choices": [{"index": 0, "message": {"content": "(a)"}, "finish_reason": "stop"}], **usage}


# ---- measured


def test_seconds_hold_the_time_of_the_request() -> None:
    with LoopbackLLM(script(Sent("(a)", delay=DELAY))) as llm:
        usage = ask(f"{llm.base_url}/chat/completions").usage
    assert usage.seconds is not None
    assert DELAY <= usage.seconds < HANGING
    assert usage[1:] == (11, 7, None)


def test_waits_and_tries_before_the_answer_are_not_in_it() -> None:
    passed = [0.0]
    faults = script(rate_limited("3"), error(503, "busy"), Sent(drop=0), Sent(text=None), Sent("(a)"))

    def answer(request: dict[str, Any]) -> Sent:
        sent = faults(request)
        passed[0] += HANGING * (sent.text != "(a)")  # a try that fails seems to take long
        return sent

    def wait(seconds: float) -> bool:
        passed[0] += HANGING
        return False

    with LoopbackLLM(answer) as llm:
        reply = ask(f"{llm.base_url}/chat/completions", clock=lambda: time.monotonic() + passed[0], wait=wait)
        assert len(llm.requests) == 5
    assert passed[0] == 8 * HANGING
    assert reply.outcome == "answered"
    assert reply.usage.seconds is not None
    assert 0 < reply.usage.seconds < HANGING


def test_a_question_that_failed_took_nothing_that_is_known() -> None:
    with LoopbackLLM(script(error(500, "broken"))) as llm:
        reply = ask(f"{llm.base_url}/chat/completions", wait=lambda seconds: False)
    assert (reply.outcome, reply.usage) == ("failed", AnswerUsage())


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 90, "completion_tokens": 5}, (90, 5, None)),
        ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}, (90, 5, 64)),
        ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}, (90, 5, 0)),
        ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": None}, (90, 5, None)),
        ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_cache_hit_tokens": 60}, (90, 5, 60)),
        ({"prompt_tokens": 90, "input_tokens": 1, "completion_tokens": 5}, (90, 5, None)),
        (
            {"prompt_tokens": -4, "completion_tokens": "5", "prompt_tokens_details": {"cached_tokens": True}},
            (None,) * 3,
        ),
        ({"prompt_tokens_details": [64]}, (None,) * 3),
        (None, (None,) * 3),
        ("many", (None,) * 3),
    ],
)
def test_tokens_are_those_that_an_endpoint_like_openai_s_counts(usage: Any, counts: tuple[int | None, ...]) -> None:
    with LoopbackChat(Raw(body({"usage": usage}))) as chat:
        assert ask(f"{chat.url}/v1/chat/completions").usage[1:] == counts


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 90, "output_tokens": 5}, (90, 5, None)),
        (
            {"input_tokens": 6, "output_tokens": 5, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 20},
            (90, 5, 64),
        ),
        ({"input_tokens": 26, "output_tokens": 5, "cache_read_input_tokens": 64}, (90, 5, 64)),
        ({"input_tokens": 90, "output_tokens": 5, "cache_read_input_tokens": None}, (90, 5, None)),
        ({"input_tokens": 0, "output_tokens": 5}, (None, 5, None)),
    ],
)
def test_the_prompt_of_anthropic_s_form_is_what_it_sums_up_to(usage: Any, counts: tuple[int | None, ...]) -> None:
    with LoopbackChat(Raw(body({"usage": usage}, anthropic=True))) as chat:
        assert ask(f"{chat.url}/v1/messages").usage[1:] == counts


def test_a_stream_of_events_tells_cached_tokens_too() -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}
    events = [{"choices": [{"delta": {"content": "(a)"}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    with LoopbackChat(Raw(stream.encode())) as chat:
        reply = ask(f"{chat.url}/v1/chat/completions")
    assert (str(reply), reply.usage[1:]) == ("(a)", (90, 5, 64))


def test_a_reply_keeps_it_when_pickled() -> None:
    reply = Reply("(a)", "cut", "length", AnswerUsage(1.5, 90, 5, 64))
    copy = pickle.loads(pickle.dumps(reply))
    assert (copy, copy.outcome, copy.finish_reason, copy.usage) == ("(a)", "cut", "length", reply.usage)


# ---- kept and written


def evaluate(llm: LoopbackLLM, *more: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Ask a chat endpoint; return predictions and results."""
    model = f"model=m,base_url={llm.base_url}/chat/completions,num_concurrent=4"
    (path,) = run_lm_eval(["--model", "personamem-chat", "--model_args", model, "--tasks", TASK, *more])
    return written(path)


def written(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    results = path.with_name(path.name.replace("predictions", "results")).with_suffix(".json")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return rows, json.loads(results.read_text(encoding="utf-8"))


def taken(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in FIELDS) for row in rows]


def counting() -> Callable[[dict[str, Any]], Sent]:
    """Every reply has as many tokens as requests came before it."""
    numbers = iter(range(1, 100))
    return lambda request: Sent("<final_answer>(a)", usage=(100, next(numbers)), delay=DELAY)


def test_predictions_and_results_say_what_answers_took_also_those_that_were_kept() -> None:
    with LoopbackLLM(counting()) as llm:
        first, _ = evaluate(llm, "--limit", "4")
        rows, results = evaluate(llm, "--limit", "6")
        again, results_again = evaluate(llm, "--limit", "6")
        assert len(llm.requests) == 6
    assert taken(rows)[:4] == taken(first)
    assert taken(again) == taken(rows)
    assert all(DELAY <= row["seconds"] < HANGING for row in rows)
    assert sorted(row["reply_tokens"] for row in rows) == [1, 2, 3, 4, 5, 6]
    assert {(row["prompt_tokens"], row["cached_tokens"]) for row in rows} == {(100, None)}
    assert results["usage"] == results_again["usage"]
    seconds = results["usage"][TASK].pop("seconds")
    assert DELAY <= seconds["median"] <= seconds["p95"] <= max(row["seconds"] for row in rows)
    assert seconds["n"] == 6
    assert results["usage"] == {
        TASK: {"prompt_tokens": {"mean": 100, "n": 6}, "reply_tokens": {"mean": 3.5, "n": 6}, "cached_tokens": None}
    }


def test_answers_kept_by_earlier_versions_are_still_answers() -> None:
    with LoopbackLLM(counting()) as llm:
        evaluate(llm, "--limit", "3")
        old = json.dumps({"text": "<final_answer>(b)", "outcome": "answered", "finish_reason": "stop"})
        with closing(sqlite3.connect("results/answers.sqlite")) as database, database:
            database.execute("UPDATE replies SET text = ?", (old,))
        rows, results = evaluate(llm, "--limit", "3")
        assert len(llm.requests) == 3
        assert {row["predictions"]["robust"] for row in rows} == {"b"}
        assert taken(rows) == [(None,) * 4] * 3
        assert "usage" not in results
        rows, results = evaluate(llm, "--limit", "5")
    assert [row["seconds"] is None for row in rows] == [True, True, True, False, False]
    assert results["usage"][TASK]["seconds"]["n"] == 2


def test_a_question_without_an_answer_has_nulls() -> None:
    def answer(request: dict[str, Any]) -> Sent:
        return Sent("<final_answer>(a)") if len(llm.requests) > 1 else error(HTTPStatus.BAD_REQUEST, "content_filter")

    with LoopbackLLM(answer) as llm:
        model = f"model=m,base_url={llm.base_url}/chat/completions,num_concurrent=1"
        (path,) = run_lm_eval(["--model", "personamem-chat", "--model_args", model, "--tasks", TASK, "--limit", "3"])
    rows, results = written(path)
    assert [row["outcome"] for row in rows] == ["refused", "answered", "answered"]
    assert taken(rows)[0] == (None,) * 4
    assert results["usage"][TASK]["seconds"]["n"] == 2


def test_of_other_models_nothing_is_said() -> None:
    AnsweringChat.answer, AnsweringChat.asked = staticmethod(right), []  # type: ignore[assignment]
    (path,) = run_lm_eval(["--model", "chat-for-tests", "--model_args", "model=m", "--tasks", TASK, "--limit", "3"])
    rows, results = written(path)
    assert all(row.keys().isdisjoint(FIELDS) for row in rows)
    assert "usage" not in results
