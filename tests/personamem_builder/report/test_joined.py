"""What joins tables: accuracy over sessions, and one model in several settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import personamem
from small_results import first, make_answers, make_run, right, right_half_the_time, write_results

from personamem_builder.report.columns import curve_columns, pair_columns, setting_columns
from personamem_builder.report.curve import session_curves
from personamem_builder.report.groups import group_runs
from personamem_builder.report.one_model import settings_of_models
from personamem_builder.report.question_columns import Questions
from personamem_builder.report.report import make_report
from personamem_builder.results.runs import Run

NOTHING = Questions({}, {}, {})


def runs_over_sessions(kind: str = "") -> list[Run]:
    made = [
        make_run("m", make_answers(credits), task=f"personamem_{count}blocks{kind}", split=f"{count}blocks")
        for count, credits in ((10, [1, 0, 0, 0]), (1, [1, 1, 1, 1]), (2, [1, 1, 0, 0]))
    ]
    return [*made, make_run("late", make_answers([1, 1, 0, 0]), task=f"personamem_2blocks{kind}", split="2blocks")]


def test_splits_of_several_lengths_give_a_curve_in_the_order_of_their_sessions() -> None:
    (curve,) = make_report(runs_over_sessions(), NOTHING).curves
    assert curve.title == "Accuracy over sessions, personamem_blocks"
    assert curve.bins == ("1", "2", "10")
    assert [value and value.value for value in curve.series["m"]] == [1, 0.5, 0.25]
    assert [value and value.value for value in curve.series["late"]] == [None, 0.5, None]
    assert curve.expected == (0.25, 0.25, 0.25)
    columns = {column.head: column.cells for column in curve_columns(curve)}
    assert columns["sessions"] == ["m", "late", "a blind guess"]
    assert [cell.partition(" ")[0] for cell in columns["2"]] == ["50.0", "50.0", "25.0"]


def test_curves_are_of_one_setting_and_dataset_and_of_whole_runs() -> None:
    report = make_report([*runs_over_sessions(), *runs_over_sessions("_letters")], NOTHING)
    assert [curve.name for curve in report.curves] == [
        "personamem_blocks-over-sessions",
        "personamem_blocks_letters-over-sessions",
    ]
    one = make_run("m", make_answers([1, 0]), task="personamem_1blocks")
    other = make_run("m", make_answers([1, 0]), task="personamem_2blocks", data_digest="other")
    part = make_run("m", make_answers([1]), task="personamem_2blocks", limit=1)
    assert session_curves((group, []) for group in group_runs([one, other, part])) == []
    assert make_report([one, other, part], NOTHING).curves == []


def settings() -> list[Run]:
    sums, means = make_answers([0, 0, 0, 0]), make_answers([1, 0, 1, 1], "acc_per_token")
    full = {id_: replace(sums[id_], credits={**sums[id_].credits, **means[id_].credits}) for id_ in sums}
    return [
        make_run("m", make_answers([1, 1, 0, 0], "robust"), task="personamem_32k_generate"),
        make_run("m", full),
        make_run("m", make_answers([0, 0, 0, 1]), task="personamem_32k_nocontext"),
        make_run("n", make_answers([0, 0, 0, 1])),
        make_run("floor: longest", make_answers([0, 0, 0, 1]), task="personamem_32k_generate"),
    ]


def test_settings_of_a_model_are_joined_by_the_score_that_counts_in_each() -> None:
    (model,) = settings_of_models(group_runs(settings()))
    assert (model.model, model.split, model.data_digest) == ("m", "32k", "abc")
    assert [(one.name, one.score, one.overall.value) for one in model.settings] == [
        ("full options", "acc_per_token", 0.75),
        ("full options, no context", "acc", 0.25),
        ("generate", "robust", 0.5),
    ]
    assert [(one.first, one.second, one.mcnemar.better, one.mcnemar.worse) for one in model.pairs] == [
        ("full options", "full options, no context", 2, 0),
        ("full options", "generate", 2, 1),
        ("full options, no context", "generate", 1, 2),
    ]
    assert [one.difference.value for one in model.pairs] == pytest.approx([0.5, 0.25, -0.25])
    assert all(one.holm_p >= one.mcnemar.p for one in model.pairs)
    assert setting_columns(model)[2].cells == ["4", "4", "4"]
    assert pair_columns(model)[2].cells == ["4", "4", "4"]


def test_a_pair_of_settings_is_compared_on_what_both_answered() -> None:
    answers = make_answers([1, 1, 0, 0])
    few = {id_: answers[id_] for id_ in ("q1", "q2")}
    runs = [make_run("m", answers), make_run("m", few, task="personamem_32k_letters", limit=2)]
    (model,) = settings_of_models(group_runs(runs))
    assert [one.difference.n for one in model.pairs] == [2]
    assert settings_of_models(group_runs(runs[:1])) == []


def test_the_command_shows_both_and_says_which_score_is_which(generated: Path, tmp_path: Path) -> None:
    for kind, choose in (("", right), ("_generate", right_half_the_time), ("_generate_nocontext", first)):
        write_results(tmp_path / f"m{kind}", generated, "m", choose, kind=kind)
    outcome = personamem("report", tmp_path, COLUMNS="200")
    assert outcome.exit_code == 0, outcome.err
    assert "m in 3 settings on 32k (data " in outcome.out
    assert "p (Holm) is corrected for the number of pairs" in " ".join(outcome.out.split())
    for form in ("--markdown", "--latex", "--json"):
        assert "generate, no context" in personamem("report", tmp_path, form).out
