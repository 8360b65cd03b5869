"""Letters that a chat endpoint scores, by the log-probabilities of its first tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from hypothesis import given
from hypothesis import strategies as st
from loopback_chat import LoopbackChat, Message, Raw

from generation.llm.token_choices import TokenChoice, read_choices
from personamem_builder.evaluation.letters import letter_scores

Top = dict[str, float]


def token(written: str, **top: float) -> TokenChoice:
    return TokenChoice(written, [(text, math.log(share)) for text, share in top.items()])


def shares(tokens: list[TokenChoice]) -> list[float]:
    return [math.exp(logprob) for logprob in letter_scores(tokens, 4).logprobs]


# --- the formula


def test_all_spellings_of_a_letter_are_added() -> None:
    top = {"a": 0.1, " a": 0.1, "A": 0.1, "(a": 0.1, "(b)": 0.2, "**c**": 0.05, "d.": 0.04, "an": 0.2, "ab": 0.1}
    found = letter_scores([TokenChoice("an", [(text, math.log(share)) for text, share in top.items()])], 4)
    assert [math.exp(logprob) for logprob in found.logprobs] == pytest.approx([0.4, 0.2, 0.05, 0.04])
    assert found.seen == [True] * 4
    assert found.unseen == pytest.approx(0.31)


def test_letters_behind_a_bracket_count_with_the_probability_of_the_bracket() -> None:
    tokens = [
        TokenChoice("(", [("(", math.log(0.8)), ("b", math.log(0.1)), ("I", math.log(0.1))]),
        TokenChoice("c", [("c", math.log(0.5)), ("b", math.log(0.25)), ("x", math.log(0.25))]),
        TokenChoice(")", [(")", 0.0), ("a", math.log(0.5))]),  # behind a letter nothing counts
    ]
    found = letter_scores(tokens, 4)
    assert [math.exp(found.logprobs[i]) for i in (1, 2)] == pytest.approx([0.1 + 0.2, 0.4])
    assert found.seen == [False, True, True, False]
    assert found.unseen == pytest.approx(0.3)


def test_a_letter_that_was_not_seen_has_at_most_the_probability_of_the_least_likely_token() -> None:
    found = letter_scores([token("b", b=0.7, c=0.2, the=0.01)], 4)
    assert [math.exp(logprob) for logprob in found.logprobs] == pytest.approx([0.01, 0.7, 0.2, 0.01])
    assert found.seen == [False, True, True, False]


@given(st.dictionaries(st.text('abcd( "xX', min_size=1, max_size=3), st.floats(1e-6, 1), min_size=1, max_size=20))
def test_seen_and_unseen_are_one(weights: Top) -> None:
    total = sum(weights.values())
    top = [(text, math.log(weight / total)) for text, weight in weights.items()]
    found = letter_scores([TokenChoice(top[0][0], top)], 4)
    seen = sum(math.exp(logprob) for logprob, is_seen in zip(found.logprobs, found.seen, strict=True) if is_seen)
    assert seen + found.unseen == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": []},
        {"content": [{"token": "a", "logprob": -1, "top_logprobs": []}]},
        {"content": [{"token": "a", "logprob": -1}]},
        {"content": [{"token": "a", "top_logprobs": [{"token": "a", "logprob": "high"}]}]},
        {"content": [{"token": "a", "top_logprobs": [{"token": "a", "logprob": 3.0}]}]},
        {"content": [{"token": None, "top_logprobs": [{"token": "a", "logprob": -1}]}]},
    ],
)
def test_what_has_no_alternatives_that_can_be_read_has_none(logprobs: Any) -> None:
    assert read_choices(logprobs) is None


# --- the endpoint


def reply(*tokens: TokenChoice) -> Raw:
    content = [
        {"token": t.written, "logprob": -0.1, "top_logprobs": [{"token": x, "logprob": p} for x, p in t.top]}
        for t in tokens
    ]
    message = {"role": "assistant", "content": "".join(t.written for t in tokens)}
    choice = {"index": 0, "message": message, "finish_reason": "length", "logprobs": {"content": content}}
    usage = {"prompt_tokens": 100, "completion_tokens": len(tokens)}
    return Raw({"object": "chat.completion", "choices": [choice], "usage": usage})


def by_length(messages: list[Message]) -> Raw:
    """Answer (b) or (c), by the length of the question."""
    letter, other = ("b", "c") if len(messages[-1]["content"]) % 2 else ("c", "b")
    return reply(token("(", **{"(": 0.9, "a": 0.1}), token(letter, **{letter: 0.6, other: 0.3, "d": 0.1}))


@pytest.fixture
def server(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackChat]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.chdir(tmp_path)
    with LoopbackChat(by_length) as server:
        yield server


def evaluate(server: LoopbackChat, *more: str, task: str = "personamem_32k_letters", model_args: str = "") -> Any:
    given = f"model=parrot,base_url={server.url}/v1/chat/completions,max_retries=1{model_args}"
    return personamem("eval", "--tasks", task, "--model", "personamem-chat", "--model_args", given, *more)


def written() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    (predictions,) = Path("results").rglob("predictions_*.jsonl")
    (results,) = Path("results").rglob("results_*.json")
    rows = [json.loads(line) for line in predictions.read_text(encoding="utf-8").splitlines()]
    return rows, next(iter(json.loads(results.read_text(encoding="utf-8"))["results"].values()))


def test_each_question_is_one_request_whose_letters_are_scored(server: LoopbackChat) -> None:
    assert evaluate(server).exit_code == 0
    rows, scores = written()
    assert len(server.requests) == len(rows) == 17
    body = server.requests[0].body
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"], body["temperature"]) == (True, 20, 3, 0)
    for row in rows:
        a, b, c, d = map(math.exp, row["option_logprobs"])
        assert (a, max(b, c), min(b, c), d) == pytest.approx((0.1, 0.54, 0.27, 0.09))
        assert row["predictions"] == {"acc": "b" if b > c else "c"}
        assert row["unseen"] == pytest.approx(0)
        assert (row["prompt_tokens"], row["reply_tokens"], row["outcome"]) == (100, 2, "answered")
    assert scores["acc,none"] == pytest.approx(sum(row["credits"]["acc"] for row in rows) / 17)
    assert (scores["failed,none"], scores["unseen,none"]) == (0, pytest.approx(0))
    told = " ".join(personamem("report").out.split())
    assert "parrot: on average 0.0 % of the probability was on none of the letters." in told


def test_answers_are_kept_and_asked_once(server: LoopbackChat) -> None:
    assert evaluate(server).exit_code == 0
    first, _ = written()
    for path in Path("results").rglob("*_2*"):
        path.unlink()
    assert evaluate(server).exit_code == 0
    assert len(server.requests) == 17
    assert written()[0] == first


def test_questions_that_fail_or_are_declined_are_told_apart(server: LoopbackChat) -> None:
    def answer(messages: list[Message]) -> Raw | HTTPStatus:
        kind = len(messages[-1]["content"]) % 4
        if kind == 0:
            return HTTPStatus.INTERNAL_SERVER_ERROR
        return Raw({"error": {"message": "content_filter"}}, 400) if kind == 1 else by_length(messages)

    server.answer = answer
    outcome = evaluate(server)
    rows, scores = written()
    count = {kind: sum(row["outcome"] == kind for row in rows) for kind in ("failed", "refused", "answered")}
    assert all(count.values())
    assert outcome.exit_code == 1
    assert all(row["credits"] == {} for row in rows if row["outcome"] == "failed")
    assert all(row["credits"] == {"acc": 0.0} for row in rows if row["outcome"] == "refused")
    assert scores["failed,none"] == pytest.approx(count["failed"] / 17)
    assert scores["refused,none"] == pytest.approx(count["refused"] / (17 - count["failed"]))


def test_an_endpoint_without_log_probabilities_is_refused_with_the_reason(server: LoopbackChat) -> None:
    server.answer = lambda messages: "(a)"
    outcome = evaluate(server)
    assert outcome.exit_code == 1
    assert "gives no log-probabilities (`logprobs`) for parrot" in outcome.err
    assert "use the task with _generate in place of _letters" in outcome.err


def test_an_endpoint_scores_no_whole_options(server: LoopbackChat) -> None:
    outcome = evaluate(server, task="personamem_32k")
    assert outcome.exit_code == 1
    assert "personamem_32k needs log-likelihoods, which personamem-chat (a chat backend) cannot give" in outcome.err
    assert server.requests == []


def test_fewer_alternatives_may_be_asked_for(server: LoopbackChat) -> None:
    assert evaluate(server, "--limit", "1", model_args=",top_logprobs=5").exit_code == 0
    assert server.requests[0].body["top_logprobs"] == 5
    assert "top_logprobs=50 in the model's arguments" in evaluate(server, model_args=",top_logprobs=50").err
