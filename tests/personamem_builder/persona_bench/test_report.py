"""Reports on what lm-eval leaves: real evaluations of a toy model, read back from disk."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from reddit_like import make_posts, write_flat
from small_datasets import make_dataset
from small_results import first, write_results

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.persona_bench.floors import floors
from personamem_builder.persona_bench.log import read_answers
from personamem_builder.persona_bench.metrics import ScoredItem, compare_conditions, summarise
from personamem_builder.persona_bench.records import CONDITIONS, TASKS
from personamem_builder.persona_bench.report import BenchReport, BenchTable, make_report, render_report, to_json
from personamem_builder.persona_bench.runs import read_runs
from personamem_builder.persona_bench.write import import_file


class Toy(LM):
    """Answers by the hash of the prompt: some numbers, some words, sometimes nothing that can be read."""

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        return [(-float(self.hash(*request.args)), False) for request in requests]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [self.answer(request.args[0], number) for number, request in enumerate(requests)]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError

    def answer(self, prompt: str, number: int) -> str:
        chosen = self.hash(prompt, number)
        words = prompt.split()[chosen % 50 : chosen % 50 + 20]
        return "" if chosen % 7 == 0 else f"{'positive' if chosen % 2 else 'negative'} {' '.join(words)} {chosen % 30}"

    @staticmethod
    def hash(*values: Any) -> int:
        return int(sha256(repr(values).encode()).hexdigest()[:6], 16)


def evaluate(tasks: list[str], data: Path, out: Path, limit: int | None = None) -> Path:
    """Evaluate the toy as lm-eval's command line does, and return the results file."""
    manager = TaskManager(
        include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata={"data": str(data)}
    )
    tracker = EvaluationTracker(output_path=str(out))
    results = simple_evaluate(
        model=Toy(), tasks=tasks, task_manager=manager, limit=limit, bootstrap_iters=0, evaluation_tracker=tracker
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name in results["configs"]:
        tracker.save_results_samples(task_name=name, samples=samples[name])
    return max(out.rglob("results_*.json"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    import_file(write_flat(make_posts(seed=1, users=40, posts=4), folder / "raw.json"), folder / "persona_bench")
    return folder / "persona_bench"


@pytest.fixture(scope="module")
def paired(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of all paired tasks."""
    return evaluate(["persona_bench"], data, tmp_path_factory.mktemp("paired"))


@pytest.fixture(scope="module")
def report(paired: Path) -> BenchReport:
    return make_report(read_runs([paired.parent]))


@pytest.fixture
def copied(paired: Path, tmp_path: Path) -> Path:
    """Results that may be broken."""
    return shutil.copytree(paired.parent, tmp_path / "copied") / paired.name


def samples(results: Path, task: str, condition: str) -> Path:
    (found,) = results.parent.glob(f"samples_persona_bench_{task}_{condition}_2*.jsonl")
    return found


def logged(results: Path, task: str, condition: str) -> list[ScoredItem]:
    return read_answers(samples(results, task, condition), task)


def table_of(report: BenchReport, task: str) -> BenchTable:
    (found,) = (table for table in report.tables if table.task == task)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_those_of_the_same_answers(task: str, report: BenchReport, paired: Path) -> None:
    table = table_of(report, task)
    assert [row.run.condition for row in table.rows] == list(CONDITIONS)
    for row in table.rows:
        assert row.scores == summarise(task, logged(paired, task, row.run.condition))
    reported = json.loads(paired.read_text(encoding="utf-8"))["results"][f"persona_bench_{task}_pconv"]
    for name, estimate in table.rows[0].scores.items():
        assert reported[f"{name},none"] == pytest.approx(estimate.value), name


@pytest.mark.parametrize("task", TASKS)
def test_differences_are_paired_and_negate_when_swapped(task: str, report: BenchReport, paired: Path) -> None:
    differences = table_of(report, task).differences
    assert [(row.condition, row.baseline) for row in differences] == [("pconv", "pnonconv"), ("pconv", "npconv")]
    for row in differences:
        swapped = compare_conditions(task, logged(paired, task, row.baseline), logged(paired, task, row.condition))
        assert any(estimate.value for estimate in row.scores.values())
        for name, estimate in row.scores.items():
            assert estimate.value == pytest.approx(-swapped[name].value), name
            if estimate.low is not None:
                assert (estimate.low, estimate.high) == pytest.approx((-swapped[name].high, -swapped[name].low))


def test_floors_are_those_of_the_run_and_know_only_the_train_split(report: BenchReport) -> None:
    for table in report.tables:
        assert table.floors == table.rows[0].run.recorded_floors
        assert table.floors.keys() == floors(table.task, table.rows[0].run.docs, [1]).keys()
    assert "items_impact_train.parquet" in table_of(report, "impact").floors_from


def test_without_the_data_floors_are_those_that_the_results_hold(copied: Path, report: BenchReport) -> None:
    rewrite(copied, lambda config: config["metadata"].update(data="moved/away"))
    alone = make_report(read_runs([copied]))
    assert [table.floors for table in alone.tables] == [table.floors for table in report.tables]
    assert any("no PERSONA-Bench folder moved/away" in note for note in alone.notes)


def test_the_text_has_counts_of_unread_answers_and_the_published_table_as_quoted(report: BenchReport) -> None:
    text = render_report(report, width=100)
    table = table_of(report, "impact")
    unread = sum(answer.values["unparsed"] for answer in table.rows[0].run.answers)
    assert 0 < unread < table.items
    assert f"pconv: {unread:g} of {table.items} answers could not be read" in text
    assert "pconv − npconv" in text
    assert "floor: median" in text
    assert "quoted from the README of PERSONA-Bench" in text
    assert "* acc, GPT-4o-mini, pconv: 0.6875; always_positive" in text
    tables = text.split("quoted from")[0].split("\n")
    assert all(len(line) <= 100 for line in tables if "[" in line)


def test_the_newest_run_counts_and_a_partial_one_hides_no_whole_one(data: Path, tmp_path: Path) -> None:
    name = "persona_bench_sentiment_pconv"
    evaluate([name], data, tmp_path)
    newest = evaluate([name], data, tmp_path)
    partial = evaluate([name], data, tmp_path, limit=5)
    both = make_report(read_runs([tmp_path]))
    (row,) = both.tables[0].rows
    assert row.run.path == newest
    assert len(both.notes) == 2
    alone = make_report(read_runs([partial]))
    assert (alone.tables[0].items, alone.tables[0].of) == (5, both.tables[0].items)
    assert f"a partial run: 5 of {both.tables[0].items} items" in render_report(alone)


def test_the_released_form_has_tables_of_its_own_with_all_ten_samples(data: Path, tmp_path: Path) -> None:
    names = [f"persona_bench_{name}" for name in ("next_text_pconv_released", "impact_pconv", "impact_pconv_released")]
    path = evaluate(names, data, tmp_path, limit=6)
    found = make_report(read_runs([path]))
    assert [(table.task, table.released) for table in found.tables] == [
        ("impact", False),
        ("impact", True),
        ("next_text", True),
    ]
    reported = json.loads(path.read_text(encoding="utf-8"))["results"]["persona_bench_next_text_pconv_released"]
    scores = found.tables[2].rows[0].scores
    assert scores["best_of_10_rouge1"].value > scores["rouge1"].value
    for name, estimate in scores.items():
        assert reported[f"{name},none"] == pytest.approx(estimate.value), name


@pytest.mark.slow
def test_models_of_one_name_are_told_apart_by_their_settings(copied: Path, paired: Path) -> None:
    rewrite(copied, lambda config: config["metadata"].update(history_chars=400))
    labels = {row.model for row in make_report(read_runs([paired, copied])).tables[0].rows}
    assert len(labels) == 2
    assert any("(history_chars=400)" in label for label in labels)


def test_all_faults_are_told_and_hide_no_other_results(copied: Path, report: BenchReport) -> None:
    samples(copied, "sentiment", "pconv").unlink()
    cut, shorter = samples(copied, "impact", "pconv"), samples(copied, "impact", "npconv")
    cut.write_bytes(cut.read_bytes()[:-50])
    shorter.write_bytes(b"".join(shorter.read_bytes().splitlines(keepends=True)[:-1]))
    found = make_report(read_runs([copied]))
    lines = [error.message for error in found.unreadable]
    assert len(lines) == 3
    assert "no samples beside it" in next(line for line in lines if "sentiment_pconv" in line)
    assert "is not JSON" in next(line for line in lines if "impact_pconv" in line)
    assert "truncated?" in next(line for line in lines if "impact_npconv" in line)
    assert table_of(found, "next_text").rows[0].scores == table_of(report, "next_text").rows[0].scores
    assert [row.run.condition for row in table_of(found, "impact").rows] == ["pnonconv"]

    outcome = personamem("persona-bench", "report", copied)
    assert outcome.exit_code == 1
    assert "next_text, test split" in outcome.out
    assert all(line in outcome.err for line in lines)
    assert "--log_samples" in outcome.err
    assert json.loads(personamem("report", copied, "--json").out)["unreadable"] == lines


def test_results_of_other_data_than_the_folder_holds_are_left_out(copied: Path) -> None:
    name = "data/items_impact_train.parquet"
    rewrite(copied, lambda config: config["metadata"]["data_digests"].update({name: "0" * 64}), of="impact")
    found = make_report(read_runs([copied]))
    assert {table.task for table in found.tables} == {"sentiment", "next_text"}
    assert all(f"{name} had the digest {'0' * 64}, now " in error.message for error in found.unreadable)


def test_items_without_an_answer_are_in_no_score(copied: Path) -> None:
    path = samples(copied, "impact", "pconv")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows[:3]:
        row |= {"failed": 1.0, "filtered_resps": [[""]]}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = make_report(read_runs([copied]))
    (table,) = (table for table in found.tables if table.task == "impact" and table.items == len(rows) - 3)
    kept = path.with_name("kept.jsonl")
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows[3:]), encoding="utf-8")
    assert table.rows[0].scores == summarise("impact", read_answers(kept, "impact"))
    assert {next(iter(scores.values())).n for scores in table.floors.values()} == {len(rows) - 3}
    assert f"(!) {table.rows[0].model}, pconv: 3 of {len(rows)} items got no answer" in render_report(found)


def test_results_of_two_datasets_are_refused_in_one_table(copied: Path, paired: Path) -> None:
    def move(config: dict[str, Any]) -> None:
        config["metadata"] |= {"data": "moved/away", "history_chars": 400}
        config["metadata"]["data_digests"] = dict.fromkeys(config["metadata"]["data_digests"], "f" * 64)

    rewrite(copied, move)
    with pytest.raises(UserError, match=r"is of other data than .*has the digest [0-9a-f]{64}, not [0-9a-f]{64}"):
        make_report(read_runs([paired, copied]))


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="no results of a PERSONA-Bench task"):
        make_report(read_runs([tmp_path]))
    with pytest.raises(UserError, match="no such file or folder"):
        make_report(read_runs([tmp_path / "nowhere"]))
    with pytest.raises(UserError, match="not a results file"):
        make_report(read_runs([tmp_path / "notes.json"]))


@pytest.mark.slow
def test_the_commands_agree_alone_and_beside_other_results(paired: Path, report: BenchReport, tmp_path: Path) -> None:
    text = personamem("persona-bench", "report", paired.parent)
    assert text.exit_code == 0
    assert text.out == personamem("report", paired.parent).out
    told = json.loads(personamem("persona-bench", "report", paired, "--json").out)
    assert told == json.loads(json.dumps(to_json(report)))
    assert json.loads(personamem("report", paired, "--json").out) == {"persona_bench": told}

    other = write_results(tmp_path / "other", make_dataset(tmp_path), "org/toy", first).parent
    beside = personamem("report", other, paired.parent)
    assert beside.exit_code == 0
    assert "org/toy" in beside.out
    assert beside.out.endswith(text.out)
    assert "left out" not in beside.err
    assert json.loads(personamem("report", other, paired, "--json").out)["persona_bench"] == told
    assert personamem("report", paired, "--markdown").exit_code == 1


@pytest.mark.slow
def test_results_of_other_harness_tasks_are_of_no_concern(copied: Path) -> None:
    other = copied.with_name("results_2026-01-01T00-00-00.json")
    other.write_text(json.dumps({"configs": {"arithmetic": {}}}), encoding="utf-8")
    assert [run.path for run in read_runs([copied.parent]).runs] == [copied] * len(TASKS) * len(CONDITIONS)
    assert personamem("report", copied.parent).exit_code == 0


def test_an_audit_of_the_folder_is_that_of_persona_bench(data: Path) -> None:
    assert personamem("audit", data) == personamem("persona-bench", "audit", data)
    assert "takes no options" in personamem("audit", data, "--split", "test").err


def rewrite(results: Path, change: Callable[[dict[str, Any]], None], of: str = "") -> None:
    """Change the configs of a results file."""
    content = json.loads(results.read_text(encoding="utf-8"))
    for name, config in content["configs"].items():
        if of in name:
            change(config)
    results.write_text(json.dumps(content), encoding="utf-8")


ODD = (None, True, -1, 10**18, float("nan"), 1e300, "", "x" * 3000, "\ud800\x1b[2J", [], {}, [[None]], {"a": {"b": 1}})


def mutated(value: Any, rng: random.Random) -> Any:
    """Change or remove one value somewhere within a value."""
    made = copy.deepcopy(value)
    target, key = made, rng.choice(list(made))
    while isinstance(target[key], dict | list) and target[key] and rng.random() < 0.85:
        target = target[key]
        key = rng.choice(list(target)) if isinstance(target, dict) else rng.randrange(len(target))
    if rng.random() < 0.25:
        del target[key]
    else:
        target[key] = copy.deepcopy(rng.choice(ODD))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_mutated_results_are_reported_or_refused(copied: Path, seed: int) -> None:
    rng = random.Random(seed)
    content = json.loads(copied.read_text(encoding="utf-8"))
    name = "persona_bench_impact_pconv"
    content = {key: content[key] for key in ("config", "model_name")} | {
        "configs": {name: content["configs"][name]},
        "n-samples": {name: content["n-samples"][name]},
    }
    path = samples(copied, "impact", "pconv")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found, refused = set(), []
    for _ in range(40):
        results, lines = content, [*rows]
        if rng.random() < 0.5:
            results = mutated(content, rng)
        else:
            place = rng.randrange(len(lines))
            lines[place] = mutated(lines[place], rng)
        copied.write_text(json.dumps(results), encoding="utf-8")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        try:
            render_report(make_report(read_runs([copied]))).encode()
            found.add("reported")
        except UserError as error:
            refused.append(error)
            found.add("refused")
    assert all(error.message and error.hint for error in refused)
    assert found == {"reported", "refused"}
