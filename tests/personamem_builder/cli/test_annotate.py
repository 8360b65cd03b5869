from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from command_line import Outcome, fails, personamem, typed
from small_results import write_results

from personamem_builder.results.error_labels import CATEGORIES, read_rows

run = partial(personamem, "annotate")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_study_has_a_sheet_a_key_and_imports(tmp_path: Path, dataset_folder: Path) -> None:
    result = run(dataset_folder, "--sample", 8, "--out", tmp_path / "study")

    assert result.exit_code == 0, result.err
    assert set(files_of(tmp_path / "study")) == {
        *("sheet.html", "histories/1.js", "histories/2.js", "key.json", "items.jsonl"),
        *("label_studio.json", "label_studio.xml"),
        *("potato/best.yaml", "potato/best.jsonl", "potato/response.yaml", "potato/response.jsonl"),
    }
    assert "8 questions of 32k" in result.err
    assert "keep key.json" in result.err
    assert f"next: personamem agreement annotations_*.json --key {tmp_path}/study/key.json" in result.err


def test_only_the_key_tells_the_right_letters(tmp_path: Path, dataset_folder: Path) -> None:
    run(dataset_folder, "--sample", 8, "--out", tmp_path / "study")

    key = json.loads((tmp_path / "study" / "key.json").read_text())
    items = [json.loads(line) for line in (tmp_path / "study" / "items.jsonl").read_text().splitlines()]
    assert [item["id"] for item in items] == [item["id"] for item in key["items"]]
    assert {letter for item in key["items"] for letter in item["answer"]} <= set("abcd")
    assert all(set(item["options"]) == set("abcd") for item in items)
    assert not any("answer" in name for item in items for name in item)
    assert all(
        text not in (tmp_path / "study" / "sheet.html").read_text() for text in ("answer_index", "correct_answer")
    )


def test_the_same_call_gives_the_same_bytes_and_another_seed_others(tmp_path: Path, dataset_folder: Path) -> None:
    for name, seed in {"one": 3, "two": 3, "other": 4}.items():
        run(dataset_folder, "--sample", 6, "--seed", seed, "--out", tmp_path / name)

    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert files_of(tmp_path / "one")["key.json"] != files_of(tmp_path / "other")["key.json"]


def test_limits_may_leave_a_smaller_sample_and_it_is_said(tmp_path: Path, dataset_folder: Path) -> None:
    result = run(dataset_folder, "--per-topic", 2, "--per-type", 1, "--out", tmp_path / "study")

    items = json.loads((tmp_path / "study" / "key.json").read_text())["items"]
    assert f"note: {len(items)} of 90 questions" in result.err
    assert max(Counter(item["topic"] for item in items).values()) <= 2
    assert max(Counter(item["question_type"] for item in items).values()) == 1


def test_a_folder_that_is_in_use_is_left_alone(tmp_path: Path, dataset_folder: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "annotations_ann.json").write_text("{}")

    fails(run(dataset_folder, "--out", tmp_path / "study"), f"{tmp_path / 'study'} already exists")

    assert list(files_of(tmp_path)) == ["study/annotations_ann.json"]


def test_a_split_that_is_not_there_is_named(tmp_path: Path, dataset_folder: Path) -> None:
    fails(run(dataset_folder, "--split", "64k", "--out", tmp_path / "study"), f"{dataset_folder} has no split '64k'")


# --- wrong answers


def draw(folder: Path, results: Path, out: Path, *more: object) -> Outcome:
    return run(folder, "--errors", results, "--out", out, *more)


def test_wrong_answers_of_the_official_release_are_drawn_evenly_over_types(tmp_path: Path, official: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "study" / "errors.csv"
    write_results(results, official, "m", lambda row, n: None if n % 11 == 0 else n % 4, kind="_generate")
    outcome = draw(official, results, out)
    assert outcome.exit_code == 0, outcome.err
    rows = [row for _, row in read_rows(out)]
    types = Counter(row["question_type"] for row in rows)
    assert len(rows) == 100
    assert max(types.values()) - min(types.values()) <= 1
    assert len({row["question_id"] for row in rows}) == 100
    assert Counter(row["category"] for row in rows).keys() == {"", "format"}
    lines = outcome.err.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")][: len(CATEGORIES)] == list(CATEGORIES)
    shown = [line for line in lines if line.startswith("  personamem inspect ")]
    history = personamem(*shown[0].split()[1:])
    assert history.exit_code == 0, history.err
    assert rows[0]["message"].split("\n")[0] in history.out
    report = typed(lines[-1])
    assert report.exit_code == 0, report.err
    assert f"Errors of m on personamem_32k_generate, labelled ({out})" in report.out


def test_the_same_command_draws_the_same_and_leaves_a_file_alone(tmp_path: Path, dataset_folder: Path) -> None:
    write_results(tmp_path / "results", dataset_folder, "m", lambda row, n: 1)
    for name, seed in {"one": 3, "two": 3, "other": 4}.items():
        assert draw(dataset_folder, tmp_path / "results", tmp_path / name, "--sample", 5, "--seed", seed).exit_code == 0
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two != other
    fails(draw(dataset_folder, tmp_path / "results", tmp_path / "one"), f"{tmp_path / 'one'} already exists")
    assert (tmp_path / "one").read_bytes() == one


def test_one_of_several_models_has_to_be_named(tmp_path: Path, dataset_folder: Path) -> None:
    for name in ("m", "n"):
        write_results(tmp_path / "results" / name, dataset_folder, name, lambda row, n: 1)
    out = tmp_path / "errors.csv"
    fails(draw(dataset_folder, tmp_path / "results", out), "there are several runs: --model 'm' --task personamem_32k;")
    fails(draw(dataset_folder, tmp_path / "results", out, "--model", "o"), "--model o: no such run of a model")
    assert draw(dataset_folder, tmp_path / "results", out, "--model", "n").exit_code == 0
    assert {row["model"] for _, row in read_rows(out)} == {"n"}


def test_a_run_that_showed_less_is_said(tmp_path: Path, dataset_folder: Path) -> None:
    write_results(tmp_path / "results", dataset_folder, "m", lambda row, n: 1, kind="_nocontext")
    outcome = draw(dataset_folder, tmp_path / "results", tmp_path / "errors.csv")
    assert "note: the model was not shown the whole history; whoever labels its errors is" in outcome.err


def test_results_on_another_dataset_are_refused(tmp_path: Path, dataset_folder: Path, generated: Path) -> None:
    write_results(tmp_path / "results", dataset_folder, "m", lambda row, n: 1)
    outcome = draw(generated, tmp_path / "results", tmp_path / "errors.csv")
    fails(outcome, f"{generated} has the digest ")
    assert not (tmp_path / "errors.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "m"), "--model needs --errors"),
        (("--judge", "openai:m"), "--judge needs --errors"),
        (("--errors", "results", "--budget", 1), "--budget needs --judge"),
    ],
)
def test_options_that_mean_nothing_alone(tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    outcome = run(tmp_path, "--out", tmp_path / "out", *options)
    assert outcome.exit_code == 2
    assert message in outcome.err
