"""What an audit finds with a model; its answers are made up, or those of a floor that reads no conversation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from small_datasets import make_dataset

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder import statistics
from personamem_builder.audit.gates import judge, read_gates
from personamem_builder.audit.model import model_findings
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.build.write import Source, write_dataset
from personamem_builder.cli.audit import audit
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.table_files import contexts_path

PERSONAS = 10
TYPES = ("recall_user_shared_facts", "suggest_new_ideas")
ROWS = [
    {
        "question_id": f"q{persona}-{number}",
        "persona_id": persona,
        "question_type": TYPES[number % 2],
        "all_options": ["(a) A", "(b) B", "(c) C", "(d) D"],
    }
    for persona in range(PERSONAS)
    for number in range(4)
]
SPLIT = AuditedSplit("32k", ROWS)


def answered(*credits_: float) -> dict[str, float]:
    """Give each persona's four questions these credits."""
    return {row["question_id"]: credits_[int(row["question_id"][-1])] for row in ROWS}


def found(**arms: dict[str, float]) -> dict[tuple[str, str], Finding]:
    return {(one.check, one.slice): one for one in model_findings(SPLIT, arms)}


def verdicts(**arms: dict[str, float]) -> dict[str, str]:
    judged = judge(model_findings(SPLIT, arms), read_gates())
    return {one.finding.check: one.verdict for one in judged if one.finding.slice == "all"}


NOTHING = answered(0.25, 0.25, 0.25, 0.25)
GUESSES = {row["question_id"]: float((i * 7 + i // 4) % 4 == 0) for i, row in enumerate(ROWS)}
ALL = answered(1, 1, 1, 1)


def test_each_arm_has_its_accuracy_over_all_questions_and_by_type():
    findings = found(no_context=NOTHING, wrong_user=answered(1, 0, 0, 0), oracle=ALL, full=answered(1, 1, 1, 0))
    values = {key: finding.value for key, finding in findings.items()}
    assert values == {
        **{("model.no_context", of): 0.25 for of in ("all", *TYPES)},
        **{("model.wrong_user", of): value for of, value in zip(("all", *TYPES), (0.25, 0.5, 0), strict=True)},
        **{("model.oracle", of): 1.0 for of in ("all", *TYPES)},
        **{("model.full", of): value for of, value in zip(("all", *TYPES), (0.75, 1, 0.5), strict=True)},
        ("model.context_gain", "all"): pytest.approx(2 / 3),
        ("model.full_minus_wrong_user", "all"): 0.5,
    }
    for finding in findings.values():
        of_accuracy = "gain" not in finding.check and "minus" not in finding.check
        assert finding.chance == (0.25 if of_accuracy else None)
        assert (finding.n, finding.clusters) == (20 if finding.slice in TYPES else 40, PERSONAS)
        assert finding.note == finding.needs == ""
    assert findings["model.wrong_user", "all"].examples[0] == "q0-0"


def test_a_model_that_needs_the_history_passes_with_a_gain_of_one():
    arms = {"no_context": NOTHING, "wrong_user": GUESSES, "oracle": ALL, "full": ALL}
    assert sum(GUESSES.values()) == 10
    assert verdicts(**arms) == {
        "model.no_context": "pass",
        "model.wrong_user": "pass",
        "model.oracle": "",
        "model.full": "",
        "model.context_gain": "",
        "model.full_minus_wrong_user": "",
    }
    assert found(**arms)["model.context_gain", "all"].value == 1.0


@pytest.mark.parametrize("arm", ["no_context", "wrong_user"])
def test_an_arm_that_is_surely_above_chance_fails(arm: str):
    arms = {"no_context": NOTHING, "wrong_user": NOTHING, "full": ALL}
    failed = [check for check, verdict in verdicts(**arms | {arm: answered(1, 1, 1, 1)}).items() if verdict == "FAIL"]
    assert failed == [f"model.{arm}"]


def test_an_arm_above_chance_by_no_more_than_luck_passes():
    lucky = {**GUESSES, **{f"q0-{i}": 1.0 for i in range(4)}}
    assert sum(lucky.values()) > 10
    assert verdicts(no_context=lucky, full=ALL)["model.no_context"] == "pass"


def test_differences_are_paired_by_question():
    partly = {row["question_id"]: 0.0 for row in ROWS[:16]}
    full = {row["question_id"]: float(i % 2) for i, row in reversed(list(enumerate(ROWS[:24])))}
    findings = found(no_context=partly, wrong_user=partly, full=full)
    scores, personas = [i % 2 for i in range(16)], [i // 4 for i in range(16)]
    gain, difference = findings["model.context_gain", "all"], findings["model.full_minus_wrong_user", "all"]
    assert (gain.value, gain.low, gain.high, gain.n, gain.clusters) == statistics.context_gain(
        scores, [0.0] * 16, personas
    )
    assert (difference.value, difference.n) == (0.5, 16)
    assert findings["model.full", "all"].note == "24 of 40 questions were asked"


def test_an_arm_that_the_data_do_not_allow_is_named_with_what_it_needs():
    findings = found(no_context=NOTHING, full=ALL)
    needs = {check: finding.needs for (check, _), finding in findings.items() if finding.needs}
    assert needs == {
        "model.wrong_user": "two personas",
        "model.oracle": "generated data",
        "model.full_minus_wrong_user": "two personas",
    }


def test_there_is_no_gain_where_all_is_right_without_context():
    gain = found(no_context=ALL, full=ALL)["model.context_gain", "all"]
    assert gain.value is None
    assert "right already" in gain.note


# The command, with the floor `longest` for a model.


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("generated"), personas=3)


def lengthened(generated: Path, out: Path) -> Path:
    """Copy a dataset, its right options made the longest."""
    table = read_questions(generated, "32k")
    rows = table.to_pylist()
    for row in rows:
        row["all_options"][row["answer_index"]] += " That is what you told me, and I have not forgotten a word of it."
    contexts = (("32k", row) for row in iter_contexts(generated / contexts_path("32k")))
    questions = {"32k": [pa.Table.from_pylist(rows, schema=table.schema)]}
    write_dataset(out, questions, contexts, Source("a leak", "", "mit", "1.0.0", "none"))
    return out


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(audit, [str(argument) for argument in arguments])


def of_model(path: Path) -> dict[str, dict[str, Any]]:
    (split,) = json.loads(path.read_text(encoding="utf-8"))["splits"]
    return {
        finding["check"]: finding
        for finding in split["findings"]
        if finding["check"].startswith("model.") and finding["slice"] == "all"
    }


@pytest.mark.slow
def test_a_model_that_goes_by_length_gives_a_leak_away(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # lm-eval's table comes as it is
    floor = ("--model", "personamem-floor", "--model_args", "policy=longest")
    leaky = lengthened(generated, tmp_path / "leaky")
    result = invoke(leaky, *floor, "--out", "leaky.json")
    assert result.exit_code == 1, result.output
    findings = of_model(tmp_path / "leaky.json")
    assert {check: (one["value"], one["verdict"]) for check, one in findings.items()} == {
        "model.no_context": (1.0, "FAIL"),
        "model.wrong_user": (1.0, "FAIL"),
        "model.oracle": (1.0, ""),
        "model.full": (1.0, ""),
        "model.context_gain": (None, ""),
        "model.full_minus_wrong_user": (0.0, ""),
    }
    # Only the audit's own words are data; what lm-eval prints is talk.
    assert "model.no_context" in result.stdout
    assert "|personamem_32k" not in result.stdout
    assert "|personamem_32k" in result.stderr
    assert "personamem report results/audit" in result.stderr
    assert len(list(Path("results/audit").rglob("predictions_*.jsonl"))) == 3


@pytest.mark.slow
def test_the_same_model_passes_without_the_leak_in_the_setting_asked_for(generated: Path, tmp_path: Path):
    floor = ("--model", "personamem-floor", "--model_args", "policy=longest")
    more = ("--setting", "generate", "--limit", "40", "--apply_chat_template", "--metadata", "roles=no_system")
    invoke(generated, *floor, *more, "--results", tmp_path, "--out", tmp_path / "sound.json")
    findings = of_model(tmp_path / "sound.json")
    assert findings["model.no_context"]["verdict"] == "pass"
    assert findings["model.no_context"]["n"] == 40
    assert findings["model.context_gain"]["value"] == 0
    results = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.rglob("results_*.json")]
    assert len(results) == 3
    for one in results:
        assert all("personamem_32k_generate" in task for task in one["configs"])
        assert all(config["metadata"]["roles"] == "no_system" for config in one["configs"].values())
        assert one["config"]["limit"] == 40
        assert one["chat_template"] == ""  # None without the flag


def test_without_a_model_nothing_is_said_of_one(generated: Path, tmp_path: Path):
    invoke(generated, "--out", tmp_path / "audit.json")
    assert of_model(tmp_path / "audit.json") == {}


def test_a_model_is_asked_about_a_dataset_folder_and_splits_with_tasks(generated: Path, excerpt: Path, tmp_path: Path):
    floor = ("--model", "personamem-floor")
    for arguments, message in (
        ((excerpt,), "--model needs a dataset folder"),
        ((generated, "--split", "128k"), "has no split '128k'"),
    ):
        result = invoke(*arguments, *floor, "--results", tmp_path)
        assert isinstance(result.exception, UserError)
        assert message in result.exception.message
    contexts = (("64k", row) for row in iter_contexts(generated / contexts_path("32k")))
    other = tmp_path / "other"
    write_dataset(other, {"64k": [read_questions(generated, "32k")]}, contexts, Source("s", "", "mit", "1.0.0", "none"))
    result = invoke(other, *floor)
    assert isinstance(result.exception, UserError)
    assert "the tasks of the splits 32k, 128k, 1M" in result.exception.message
    assert list(tmp_path.iterdir()) == [other]


def test_without_lm_eval_the_error_says_what_to_install(generated: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "lm_eval._cli", None)
    result = invoke(generated, "--model", "personamem-floor")
    assert isinstance(result.exception, UserError)
    assert result.exception.hint == install_hint("eval")
