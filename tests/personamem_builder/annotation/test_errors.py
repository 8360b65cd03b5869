"""Whose wrong answers are drawn, and what a row says of one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from small_results import make_answers, make_run, write_lines, write_results

from generation.errors import UserError
from generation.reading import json_lines
from personamem_builder.annotation.errors import choose_run, draw_errors, label_rows, wrong_answers
from personamem_builder.dataset.check import read_questions
from personamem_builder.results.error_labels import LONGEST_CELL
from personamem_builder.results.runs import Run, read_runs
from personamem_builder.results.shown import MemoryShown
from personamem_builder.schema import QuestionRow

ANSWERS = make_answers([0, 1, 0])


def test_the_only_model_needs_no_name_and_floors_are_none() -> None:
    model, floor = make_run("m", ANSWERS), make_run("floor: longest", ANSWERS)
    assert choose_run([floor, model]) is model
    assert choose_run([floor, model], "floor: longest") is floor


def test_where_there_are_several_the_choices_are_named() -> None:
    runs = [make_run("m", ANSWERS), make_run("m", ANSWERS, task="personamem_32k_letters"), make_run("n", ANSWERS)]
    with pytest.raises(UserError, match="there are several runs") as caught:
        choose_run(runs)
    assert "--model 'm' --task personamem_32k; --model 'm' --task personamem_32k_letters; --model 'n'" in str(
        caught.value.message
    )
    assert caught.value.hint == "choose one with --model NAME and --task TASK"
    assert choose_run(runs, "n") is runs[2]
    assert choose_run(runs, "m", "personamem_32k_letters") is runs[1]
    with pytest.raises(UserError, match="--model o: no such run") as caught:
        choose_run(runs, "o")
    assert "--model 'n' --task personamem_32k" in str(caught.value.hint)
    with pytest.raises(UserError, match="--errors: no such run") as caught:
        choose_run([])
    assert caught.value.hint == "evaluate a model on this split: personamem eval"


def test_a_plain_name_means_the_run_with_the_whole_history() -> None:
    whole = make_run("m", ANSWERS)
    found = make_run("m", ANSWERS, shown=MemoryShown("bm25", (("k", "10"),)))
    assert choose_run([found, whole], "m") is whole
    assert choose_run([found, whole], "m [bm25, k=10]") is found


def test_runs_of_one_name_are_told_apart_by_their_files() -> None:
    runs = [make_run("m", ANSWERS, path=Path(name)) for name in ("a/results.json", "b/results.json")]
    with pytest.raises(UserError, match=r"a/results\.json; b/results\.json") as caught:
        choose_run(runs)
    assert caught.value.hint == "give --errors one of these files"


def evaluated(folder: Path, dataset: Path, **changes: Any) -> tuple[Run, dict[str, QuestionRow]]:
    """Results of a model that always takes (b), and writes no letter to every fifth question."""
    write_results(
        folder, dataset, "m", lambda row, number: None if number % 5 == 0 else 1, kind=changes.pop("kind", "_generate")
    )
    if changes:
        (path,) = folder.glob("predictions_*.jsonl")
        write_lines(path, [line | changes for _, line in json_lines(path)])
    (run,) = read_runs([folder]).runs
    return run, {row["question_id"]: row for row in read_questions(dataset, "32k").to_pylist()}


def test_rows_say_what_was_right_chosen_and_written(tmp_path: Path, dataset_folder: Path) -> None:
    run, questions = evaluated(tmp_path, dataset_folder, response="I think <b>")
    errors = wrong_answers(run, questions)
    assert len(errors) == sum(answer.credits["robust"] == 0 for answer in run.answers.values())
    rows = label_rows(run, errors)
    for row in rows:
        question = questions[row["question_id"]]
        assert row["right_option"] == question["all_options"][question["answer_index"]]
        assert row["right_option"] != row["chosen_option"]
        has_letter = run.answers[row["question_id"]].predictions["robust"] == "b"
        assert row["chosen_option"] == (question["all_options"][1] if has_letter else "I think <b>")
        assert (row["category"], row["rater"]) == (("", "") if has_letter else ("format", "rule"))
        assert (row["reply"], row["model"], row["task"]) == ("I think <b>", "m", "personamem_32k_generate")
    assert {row["category"] for row in rows} == {"", "format"}


def test_how_a_reply_ended_is_noted_and_a_long_one_keeps_its_end(tmp_path: Path, dataset_folder: Path) -> None:
    run, questions = evaluated(tmp_path, dataset_folder, response="x" * 40_000 + "(b)", outcome="cut")
    row = label_rows(run, wrong_answers(run, questions))[0]
    assert row["note"] == "the reply was cut"
    assert (len(row["reply"]), row["reply"][0], row["reply"][-4:]) == (LONGEST_CELL, "…", "x(b)")


def test_options_that_were_scored_have_no_reply(tmp_path: Path, dataset_folder: Path) -> None:
    run, questions = evaluated(tmp_path, dataset_folder, kind="")
    with_letter = [row for row in label_rows(run, wrong_answers(run, questions)) if row["category"] == ""]
    assert {row["reply"] for row in with_letter} == {""}
    assert {row["chosen_option"][:4] for row in with_letter} == {"(b) "}


def test_questions_that_were_not_asked_and_ties_with_the_right_option_are_no_errors(
    tmp_path: Path, dataset_folder: Path
) -> None:
    rows = read_questions(dataset_folder, "32k").to_pylist()[:2]
    skipped, tied = (
        next(iter(make_answers([credit], predictions={"acc": "b"}, skipped=credit == 0).values()))
        for credit in (0, 0.5)
    )
    answers = {rows[0]["question_id"]: skipped, rows[1]["question_id"]: tied}
    run = make_run("m", answers, path=tmp_path / "results.json")
    write_lines(tmp_path / f"predictions_{run.date}.jsonl", [])
    with pytest.raises(UserError, match="m answered nothing wrong on personamem_32k"):
        wrong_answers(run, {row["question_id"]: row for row in rows})


def test_the_sample_is_spread_over_types_and_the_seed_decides(tmp_path: Path, dataset_folder: Path) -> None:
    errors = wrong_answers(*evaluated(tmp_path, dataset_folder))
    drawn = draw_errors(errors, 6, seed=1)
    assert max(Counter(error.row["question_type"] for error in drawn).values()) <= 2
    assert draw_errors(list(reversed(errors)), 6, seed=1) == drawn
    assert draw_errors(errors, 3, seed=1) == drawn[:3]
    assert draw_errors(errors, 6, seed=2) != drawn
    assert len(draw_errors(errors, 10**6)) <= len(errors)
