"""Prompts as files, answered elsewhere and scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, personamem
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from reddit_like import make_posts, write_flat

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.persona_bench.log import evaluate_log, read_answers
from personamem_builder.persona_bench.metrics import compare_conditions, score_answer
from personamem_builder.persona_bench.prompt_files import write_prompts
from personamem_builder.persona_bench.prompts import Limits
from personamem_builder.persona_bench.records import CONDITIONS, TASKS
from personamem_builder.persona_bench.write import import_file


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    import_file(write_flat(make_posts(seed=1, users=30, posts=4), folder / "raw.json"), folder / "persona_bench")
    return folder / "persona_bench"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answer(prompt: str) -> str:
    """Answer in a way that every task can read, or not at all."""
    chosen = int(sha256(prompt.encode()).hexdigest()[:6], 16)
    return "" if chosen % 7 == 0 else f"{'positive' if chosen % 2 else 'negative'} {chosen % 30}"


def answered(path: Path, key: str = "response", rule: Callable[[str], Any] = answer) -> Path:
    """Give each row of a file what a harness of somebody else would give it."""
    filled = path.with_suffix(".answered.jsonl")
    filled.write_text(
        "".join(json.dumps({**row, key: rule(row["messages"][0]["content"])}) + "\n" for row in rows_of(path)),
        encoding="utf-8",
    )
    return filled


class Rule(LM):
    """Answers as `answer` does, in lm-eval."""

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [answer(request.args[0]) for request in requests]

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError


@pytest.mark.parametrize("released", [False, True], ids=["paired", "released"])
def test_answers_come_back_as_lm_eval_scores_them(data: Path, tmp_path: Path, released: bool) -> None:
    written = write_prompts(data, tmp_path / "prompts", TASKS, ["pconv"], released=released)
    form = "_released" if released else ""
    names = {
        "sentiment": f"persona_bench_sentiment_pconv{form or '_generate'}",
        "impact": f"persona_bench_impact_pconv{form}",
        "next_text": f"persona_bench_next_text_pconv{form}",
    }
    manager = TaskManager(
        include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata={"data": str(data)}
    )
    found = simple_evaluate(model=Rule(), tasks=[*names.values()], task_manager=manager, bootstrap_iters=0)
    for task, (path, count) in zip(TASKS, written, strict=True):
        back = read_answers(answered(path), task)
        reported = found["results"][names[task]]
        assert len(back) == count == found["n-samples"][names[task]]["effective"] > 10
        assert [a.item_id for a in back] == [s["doc"]["item_id"] for s in found["samples"][names[task]]]
        for name, estimate in evaluate_log(answered(path), task).scores.items():
            assert reported[f"{name},none"] == pytest.approx(estimate.value), name


@pytest.mark.parametrize("task", TASKS)
def test_true_labels_sent_back_are_all_right_and_conditions_compare(task: str, data: Path, tmp_path: Path) -> None:
    own, other = (path for path, _ in write_prompts(data, tmp_path, [task], ["pconv", "npconv"]))
    labels = {row["prompt"]: str(row["true_label"]) for row in rows_of(own)}
    right = read_answers(answered(own, "output", labels.__getitem__), task)
    scores = evaluate_log(answered(own, "output", labels.__getitem__), task)
    best = {"sentiment": ("acc", 1), "impact": ("mae", 0), "next_text": ("rouge1", 1)}[task]
    assert scores.scores[best[0]].value == pytest.approx(best[1])
    assert (scores.dropped, scores.clustered) == (0, True)
    assert right == [score_answer(task, a.item_id, a.author, a.truth, [a.truth]) for a in right]
    difference = compare_conditions(task, right, read_answers(answered(other), task))[best[0]]
    assert (difference.value > 0) == bool(best[1])
    assert difference.n == len(right)


def test_rows_name_item_author_and_domain_as_the_source_does(data: Path, tmp_path: Path) -> None:
    ((path, _),) = write_prompts(data, tmp_path / "one.jsonl", ["sentiment"], ["pnonconv"], split="train")
    row = rows_of(path)[0]
    assert path == tmp_path / "one.jsonl"
    assert (row["task"], row["condition"], row["form"], row["split"]) == ("sentiment", "pnonconv", "paired", "train")
    assert row["domain"] == row["subreddit"]
    assert row["user"].startswith("user_")
    assert row["messages"] == [{"role": "user", "content": row["prompt"]}]
    assert row["true_label"] in ("positive", "negative")
    short = write_prompts(data, tmp_path / "two.jsonl", ["sentiment"], ["pconv"], limits=Limits(history=0))
    assert all("(none)" in r["prompt"] or "left out" in r["prompt"] for r in rows_of(short[0].path))
    first = path.read_bytes()
    assert write_prompts(data, path, ["sentiment"], ["pnonconv"], split="train")[0].path.read_bytes() == first


def test_the_command_writes_all_files_and_its_log_is_scored(data: Path, tmp_path: Path) -> None:
    done = personamem("persona-bench", "prompts", data, "--out", tmp_path / "prompts")
    assert done.exit_code == 0
    files = {path.stem for path in (tmp_path / "prompts").iterdir()}
    assert files == {f"{task}_{condition}" for task in TASKS for condition in CONDITIONS}
    path = tmp_path / "prompts" / "impact_npconv.jsonl"
    assert f"{path}: {len(rows_of(path))} prompts" in done.out
    scored = personamem("persona-bench", "evaluate-log", answered(path), "--task", "impact")
    assert f"impact: {len(rows_of(path))} rows" in scored.out
    assert "clustered by author" in scored.out


def test_what_cannot_be_written_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is one file, and there are 3 pairs"):
        write_prompts(data, tmp_path / "x.jsonl", ["impact"], CONDITIONS)
    (tmp_path / "file").write_text("", encoding="utf-8")
    fails(personamem("persona-bench", "prompts", data, "--out", tmp_path / "file"), f"{tmp_path / 'file'} cannot be")
    fails(personamem("persona-bench", "prompts", tmp_path, "--out", tmp_path / "p"), f"{tmp_path} is not a PERSONA")
    one = ("--task", "impact", "--condition", "pconv")
    released = personamem(
        "persona-bench", "prompts", data, *one, "--released", "--split", "train", "--out", tmp_path / "p.jsonl"
    )
    assert (released.exit_code, "leave out --split" in released.err) == (2, True)
    assert not (tmp_path / "p.jsonl").exists()
