from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

from command_line import fails, personamem

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

    fails(run(dataset_folder, "--out", tmp_path / "study"), f"{tmp_path / 'study'} is there already")

    assert list(files_of(tmp_path)) == ["study/annotations_ann.json"]


def test_a_split_that_is_not_there_is_named(tmp_path: Path, dataset_folder: Path) -> None:
    fails(run(dataset_folder, "--split", "64k", "--out", tmp_path / "study"), f"{dataset_folder} has no split '64k'")
