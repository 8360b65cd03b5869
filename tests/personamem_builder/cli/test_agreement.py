from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem


@pytest.fixture
def study(tmp_path: Path, dataset_folder: Path) -> Path:
    """A study of eight questions of the official excerpt."""
    result = personamem("annotate", dataset_folder, "--sample", "8", "--out", tmp_path / "study")
    assert result.exit_code == 0, result.err
    return tmp_path / "study"


def rate(study: Path, rater: str, *, wrong: int = 0, leave: int = 0) -> Path:
    """Answer all but the last items, the first ones wrongly."""
    key = json.loads((study / "key.json").read_text())
    answers: dict[str, Any] = {}
    for number, item in enumerate(key["items"][: len(key["items"]) - leave]):
        best = item["answer"] if number >= wrong else "a" if item["answer"] != "a" else "b"
        answers[item["id"]] = {"best": best, "appropriate": "yes", "relevant": "yes", "correct": "unsure"}
    path = study.parent / f"annotations_{rater}.json"
    content = {"format": "personamem-annotations", "version": 1, "sample": key["sample"], "rater": rater}
    path.write_text(json.dumps(content | {"answers": answers}))
    return path


run = partial(personamem, "agreement")


def test_a_table_says_what_raters_say_and_how_far_they_agree(study: Path) -> None:
    result = run(rate(study, "ann"), rate(study, "bob", wrong=2), "--key", study / "key.json")

    assert result.exit_code == 0, result.err
    rows = {line.split("  ")[0]: line.split() for line in result.out.splitlines() if line}
    assert rows["best"][1:6] == ["14", "2", "0", "0", "87.5"]
    assert rows["best"][8] == "75.0"
    assert rows["appropriate"][1:6] == ["16", "0", "0", "0", "100.0"]
    assert rows["correct"][1:6] == ["0", "0", "16", "0", "0.0"]
    assert "next: personamem inspect --split 32k --question" in result.err


def test_json_has_the_documented_form(study: Path) -> None:
    result = run(rate(study, "ann"), rate(study, "bob", wrong=2, leave=1), "--key", study / "key.json", "--json")

    content = json.loads(result.out)
    assert content["schema_version"] == 1
    assert (content["items"], content["raters"]) == (8, ["ann", "bob"])
    best = content["questions"]["best"]
    assert (best["yes"], best["no"], best["unsure"], best["missing"]) == (13, 2, 0, 1)
    assert best["share"]["low"] < best["share"]["value"] == 13 / 15 < best["share"]["high"]
    assert best["agreement"]["items"] == 7
    assert best["agreement"]["ac1"].keys() == {"value", "low", "high"}
    assert sum(group["items"] for group in content["types"].values()) == 8
    assert sum(group["items"] for group in content["topics"].values()) == 8
    assert {one["question"] for one in content["disputed"]} == {"best", "correct"}
    assert "note: 4 answers are missing" in result.err


def test_one_rater_has_shares_but_no_agreement(study: Path) -> None:
    result = run(rate(study, "ann"), "--key", study / "key.json", "--json")

    best = json.loads(result.out)["questions"]["best"]
    assert best["share"]["value"] == 1
    assert best["agreement"] is None
    assert "agreement needs at least two raters" in result.err


def test_the_key_of_another_sample_is_refused(study: Path, dataset_folder: Path) -> None:
    other = study.parent / "other"
    personamem("annotate", dataset_folder, "--sample", "7", "--out", other)

    result = run(rate(study, "ann"), "--key", other / "key.json")

    assert result.exit_code == 1
    assert "annotations_ann.json answers the sample" in result.err
