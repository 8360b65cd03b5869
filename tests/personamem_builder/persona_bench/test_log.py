"""Logged outputs, scored by the source's rules and by ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.persona_bench.log import evaluate_log, read_answers, render_log


@pytest.fixture
def log(tmp_path: Path) -> Any:
    def write(*rows: Any) -> Path:
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
        return path

    return write


def scored_row(label: Any, response: Any, reply: str = "u1p1-c2") -> dict[str, Any]:
    task = {"prompt_text": "?", "target_reply_id": reply, "true_label": label, "subreddit": "science"}
    return {"post_data_store": {}, "prediction_task": task, "response": response}


def test_classes_by_the_sources_rules_and_by_ours(log: Any) -> None:
    path = log(
        scored_row("positive", "<think>negative</think> Positive!", "u1p1-c2"),
        scored_row("positive", "first positive, then negative", "u1p2-c2"),
        scored_row("negative", "NEGATIVE", "u2p1-c1"),
        scored_row("negative", "I cannot say", "u3p1-c1"),
    )
    scores = evaluate_log(path, "sentiment")
    assert (scores.rows, scores.dropped, scores.clustered) == (4, 1, True)
    # Of the three that are left: F1 is 2/3 for both classes, of sizes 2 and 1.
    assert scores.source == pytest.approx({"acc": 2 / 3, "f1_weighted": 2 / 3, "mcc": 1 / 2})
    assert scores.scores["acc"].value == 2 / 4
    assert scores.scores["acc"].clusters == 3


def test_scores_take_the_last_number(log: Any) -> None:
    path = log(scored_row(10, "at 9 it is 13", "u1p1-c1"), scored_row("-2", "no idea"), scored_row(1, "5"))
    scores = evaluate_log(path, "impact")
    assert scores.dropped == 1
    assert scores.source == pytest.approx({"rmse": (25 / 2) ** 0.5, "mae": 7 / 2})
    # The unparsed one counts as 0.
    assert scores.scores["mae"].value == pytest.approx((3 + 2 + 4) / 3)


def test_only_the_first_candidate_of_a_text_counts_and_errors_and_empty_ones_are_dropped(log: Any) -> None:
    path = log(
        {"user": "ann", "prompt": "?", "true_label": "good dog", "responses": ["bad cat", "good dog"]},
        {"user": "ann", "prompt": "?", "true_label": "good dog", "responses": ["good dog"]},
        {"user": "bob", "prompt": "?", "true_label": "good dog", "output": "Error: good dog"},
        {"user": "bob", "prompt": "?", "true_label": "good dog", "output": None},
    )
    scores = evaluate_log(path, "next_text")
    assert scores.dropped == 2
    assert scores.source["rouge1"] == pytest.approx(1 / 2)
    assert scores.scores["rouge1"].value == pytest.approx((0 + 1 + 4 / 5 + 0) / 4)
    assert scores.scores["rouge1"].clusters == 2


def test_samples_of_lm_eval_are_read_with_their_authors(log: Any) -> None:
    choice = {"doc": {"item_id": "i1", "author": "ann", "truth": True}, "resps": [[[-1.5, False]], [[-2.0, False]]]}
    text = {"doc": {"item_id": "i2", "author": "bob", "truth": True}, "resps": [["negative"]]}
    one, other = read_answers(log(choice, text), "sentiment")
    assert (one.item_id, one.author, one.prediction) == ("i1", "ann", True)
    assert (other.item_id, other.author, other.prediction) == ("i2", "bob", False)


def test_rows_without_authors_are_each_on_their_own_and_that_is_said(log: Any) -> None:
    scores = evaluate_log(log({"truth": 1, "output": 2}, {"label": 3, "prediction": "3"}), "impact")
    assert (scores.clustered, scores.scores["mae"].clusters) == (False, 2)
    text = render_log(scores)
    assert "2 rows; the source's rules leave out 0" in text
    assert "rows name no authors" in text


def test_all_faulty_rows_are_listed(log: Any) -> None:
    path = log(
        '{"true_label": 1, ',
        {"response": "1"},
        {"true_label": 1},
        scored_row("many", "1"),
        scored_row(1, {"text": "1"}),
        ["a list"],
        scored_row(1, "1"),
    )
    with pytest.raises(UserError) as error:
        evaluate_log(path, "impact")
    assert "line 1 is not JSON: " in str(error.value)
    for line in range(2, 7):
        assert f"line {line}: " in str(error.value)
    assert "line 7" not in str(error.value)
    assert "'many', not a number of 64 bits" in str(error.value)


@pytest.mark.parametrize(("task", "message"), [("impact", "has no rows"), ("mood", "no task 'mood'")])
def test_nothing_to_score(log: Any, task: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_log(log("\n"), task)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        evaluate_log(tmp_path / "none.jsonl", "impact")
