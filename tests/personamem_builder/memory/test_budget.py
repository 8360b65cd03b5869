"""A budget of tokens: what is cut, what still stands for messages, and that a run and a comparison keep to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem

from generation.errors import UserError
from generation.tokenizer import num_tokens
from personamem_builder.dataset.load import iter_examples
from personamem_builder.dataset.locate import resolve_data
from personamem_builder.memory.budget import check_budget, control_settings, within_budget
from personamem_builder.memory.conditions import condition_of
from personamem_builder.memory.system import Memory

TEXTS = ["one two three", "four five six", "seven eight nine"]
EACH = [Memory(text, "", (i,)) for i, text in enumerate(TEXTS)]
ALL = Memory("\n\n".join(TEXTS), "2024-05-01", (0, 1, 2))


def test_the_best_that_fit_are_kept_and_the_next_is_cut() -> None:
    assert within_budget(EACH, None, TEXTS) == within_budget(EACH, 9, TEXTS) == EACH
    assert within_budget(EACH, 6, TEXTS) == EACH[:2]
    assert within_budget(EACH, 5, TEXTS) == [EACH[0], Memory("four five", "", ())]
    assert within_budget(EACH, 3, TEXTS) == EACH[:1]
    assert within_budget([], 3, TEXTS) == []


def test_what_was_cut_stands_for_the_messages_that_it_holds_as_a_whole() -> None:
    (cut,) = within_budget([ALL], num_tokens("\n\n".join(TEXTS[:2])) + 1, TEXTS)
    assert cut == Memory("one two three\n\nfour five six", "2024-05-01", (0, 1))


@pytest.mark.parametrize(
    "text", ["x" * 3000, "日本語のとても長い文章です。" * 50, "🧶" * 200, "word " * 500, " " * 500]
)
@pytest.mark.parametrize("budget", [1, 7, 100])
def test_no_text_has_more_tokens_than_the_budget(text: str, budget: int) -> None:
    kept = within_budget([Memory(text), Memory("more")], budget, [])
    assert sum(num_tokens(memory.text) for memory in kept) <= budget
    assert all(memory.text and text.startswith(memory.text) for memory in kept if memory.text != "more")


@pytest.mark.parametrize("budget", [0, -1, True, 1.5, "2000", 10**12])
def test_what_is_no_budget(budget: Any) -> None:
    with pytest.raises(UserError, match="is not a budget"):
        check_budget(budget)


def test_controls_that_keep_to_a_budget_and_those_that_cannot() -> None:
    assert control_settings("recent", None, 500) == {"tokens": 500}
    assert control_settings("recent", {"tokens": 300}, 500) == {"tokens": 300}
    assert control_settings("none", None, 500) == {}
    assert control_settings("full", None, None) == {}
    for name, settings in (("full", None), ("oracle", None), ("recent", {"sessions": 2}), ("recent", {"tokens": 600})):
        with pytest.raises(UserError):
            control_settings(name, settings, 500)


def run(data: Path, *more: object) -> dict[str, float]:
    outcome = personamem("memory", "run", "--data", data, "--json", *more)
    assert outcome.exit_code == 0, outcome.err
    shown = json.loads(outcome.out)
    return {line["measure"]: line["value"] for line in shown["measures"] if line["slice"] == "all"} | {
        "budget": shown.get("budget_tokens")
    }


def test_a_run_under_a_budget_searches_once_and_shows_less(generated: Path, tmp_path: Path) -> None:
    out = tmp_path / "bm25"
    whole = run(generated, "--system", "bm25", "--out", out)
    kept = (out / "questions.jsonl").read_bytes()
    capped = run(generated, "--system", "bm25", "--out", out, "--budget-tokens", 300)
    assert (out / "questions.jsonl").read_bytes() == kept
    assert capped["budget"] == 300
    assert 0 < capped["tokens per query"] <= 300 < whole["tokens per query"]
    assert 0 < capped["evidence recall"] < whole["evidence recall"]
    recent = run(generated, "--system", "recent", "--budget-tokens", 300)
    assert 0 < recent["tokens per query"] <= 300
    refused = personamem("memory", "run", "--system", "oracle", "--data", generated, "--budget-tokens", 300)
    assert "memory=oracle keeps to no budget of tokens" in refused.err

    run(generated, "--system", "recent", "--set", "tokens=2000", "--out", tmp_path / "recent")
    compared = personamem(
        "memory", "compare", out, tmp_path / "recent", "--data", generated, "--budget-tokens", 300, "--json"
    )
    lines = {line["name"]: line for line in json.loads(compared.out)["measures"]}
    assert lines["tokens per query"]["first"] == capped["tokens per query"]
    assert lines["tokens per query"]["second"] <= 300


def test_a_model_is_shown_no_more_than_the_budget(generated: Path, tmp_path: Path) -> None:
    run(generated, "--system", "bm25", "--out", tmp_path / "bm25")
    rows: list[Any] = list(iter_examples("32k", data=generated))
    source = resolve_data(str(generated), splits=["32k"])
    prompts: dict[int | None, list[str]] = {}
    for budget in (None, 100):
        metadata = {"store": str(tmp_path / "bm25"), "budget_tokens": budget}
        condition = condition_of(metadata, rows, rows, source)
        found = condition.prepare("32k", rows)
        shown = {line["measure"]: line["value"] for line in found["memory_measures"]}
        assert shown["seconds per session"] > 0
        assert (shown["tokens per query"] <= 100) == (budget is not None)
        prompts[budget] = [str(condition.history(_Contexts(row), row)[0]) for row in rows[:5]]  # type: ignore[arg-type]
    for whole, capped in zip(prompts[None], prompts[100], strict=True):
        assert len(capped) < len(whole)


class _Contexts:
    """The context of one question, as a `ContextStore` gives it."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def messages(self, context_id: str, end: int) -> Any:
        return self.row["context"][:end]

    def session_starts(self, context_id: str) -> list[int]:
        return [0]
