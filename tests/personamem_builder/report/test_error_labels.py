"""`personamem report --errors`: what went wrong, and how far raters agree."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_line import fails, personamem
from small_results import make_answers, make_run, write_results

from generation.errors import UserError
from personamem_builder.rater_agreement import gwet_ac1, wilson
from personamem_builder.report.error_labels import (
    QUOTED,
    agreement_lines,
    error_columns,
    error_notes,
    read_error_report,
    to_json,
    to_text,
)
from personamem_builder.results.error_labels import CATEGORIES, read_rows
from personamem_builder.results.runs import Run
from personamem_builder.results.shown import MemoryShown

COLUMNS = ("question_id", "chosen_option", "category", "rater", "model", "task")
TASK = "personamem_32k_generate"


def labels(path: Path, categories: Sequence[str], *, rater: str = "ann", **changes: str) -> Path:
    """Write labels of q0, q1, …, of which each is the choice of (b)."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for number, category in enumerate(categories):
            row = {"question_id": f"q{number}", "chosen_option": "(b) Coffee.", "category": category}
            writer.writerow({**row, "rater": rater, "model": "m", "task": TASK, **changes})
    return path


def wrong(count: int, letter: str | None = "b", **changes: object) -> Run:
    return make_run("m", make_answers([0.0] * count, "robust", predictions={"robust": letter}), task=TASK, **changes)


def test_categories_are_counted_with_wilson_intervals_beside_the_papers_shares(tmp_path: Path) -> None:
    file = labels(tmp_path / "errors.csv", ["update", "update", "other", "format", "update", "", ""])
    (table,) = read_error_report([file], [wrong(7)]).tables
    assert (table.model, table.task, table.raters) == ("m", TASK, ["ann"])
    assert (table.rows, table.labelled, table.unlabelled) == (7, 5, 2)
    assert {name: own.total() for name, own in table.counts.items()} == {
        **dict.fromkeys(CATEGORIES, 0),
        "update": 3,
        "other": 1,
        "format": 1,
    }
    assert table.share("update") == wilson(3 / 5, 5)
    columns = {column.head: column.cells for column in error_columns(table)}
    assert columns["category"] == list(CATEGORIES)
    assert columns["share"][1].startswith("60.0 [23.1, 88.2]")
    assert columns["GPT-4o (quoted)"] == ["48", "24", "14", "12", "2"]
    # q0, q1 and q4 are of the first, the second and the fifth type.
    assert (columns["facts"][1], columns["new ideas"][1]) == ("1", "1")
    assert error_notes(table) == ["2 of 7 answers have no category yet."]
    assert sum(QUOTED.values()) == pytest.approx(1)


def test_replies_without_a_letter_weigh_too_much_while_others_have_no_category(tmp_path: Path) -> None:
    file = labels(tmp_path / "errors.csv", ["format", "format"], rater="rule")
    with file.open("a") as more:
        more.write(f"q2,(b) x,,,m,{TASK}\n")
    (table,) = read_error_report([file], [wrong(3, None)]).tables
    assert (table.by_rule, table.raters) == (2, [])
    assert error_notes(table) == [
        "1 of 3 answers have no category yet; those without a letter have one, so the share of format is too high."
    ]


def test_nothing_labelled_gives_no_shares(tmp_path: Path) -> None:
    report = read_error_report([labels(tmp_path / "errors.csv", ["", ""])], [wrong(2)])
    assert set(error_columns(report.tables[0])[2].cells) == {"-"}
    assert to_json(report)["tables"][0]["categories"]["update"]["share"] is None
    assert max(map(len, to_text(report, 60).split("\n\n")[-1].splitlines())) <= 60


def test_agreement_is_over_the_rows_that_both_label_and_no_rule_did(tmp_path: Path) -> None:
    ann = ["update", "update", "other", "personalization", "", "hallucination"]
    judge = ["update", "other", "other", "personalization", "update"]
    first = labels(tmp_path / "ann.csv", ann)
    second = labels(tmp_path / "judge.csv", judge, rater="openai:x")
    third = labels(tmp_path / "rule.csv", ["format"] * 6, rater="rule")
    report = read_error_report([first, second, third], [wrong(6)])
    (one,) = report.agreements
    assert (one.first, one.second) == (str(first), str(second))
    assert one.agreement == gwet_ac1(zip(ann[:4], judge[:4], strict=True), list(CATEGORIES))
    assert (one.agreement.items, one.agreement.percent) == (4, 0.75)
    (line,) = agreement_lines(report)
    assert f"agree on 75.0 % of the 4 answers of m on {TASK} that both label; Gwet's AC1 0." in line


def test_labels_belong_to_the_run_whose_answers_they_name(tmp_path: Path) -> None:
    file = labels(tmp_path / "errors.csv", ["update", "other"])
    others = [wrong(2, "c", path=Path("other.json")), wrong(1, path=Path("part.json"))]
    assert read_error_report([file], [*others, wrong(2)]).tables[0].rows == 2
    memory = labels(tmp_path / "memory.csv", ["update"], model="m [bm25, k=10]")
    found = wrong(2, shown=MemoryShown("bm25", (("k", "10"),)))
    assert read_error_report([memory], [wrong(2), found]).tables[0].model == "m [bm25, k=10]"


@pytest.mark.parametrize(
    ("changes", "run", "message"),
    [
        ({"question_id": "q9"}, {}, "row 2, column question_id: 'q9' is not a question of personamem_32k_generate"),
        ({"chosen_option": "(c) Tea."}, {}, r"row 2, column chosen_option: it is \(c\), in the results \(b\)"),
        ({"chosen_option": "Tea."}, {}, r"row 2, column chosen_option: it is no option, in the results \(b\)"),
        ({"model": "n"}, {}, "row 2, column model: the results have no 'n' on 'personamem_32k_generate'"),
        ({"task": "t"}, {}, "row 2, column model: the results have no 'm' on 't'"),
        ({}, {"answers": make_answers([1.0], "robust")}, "row 2, column question_id: 'q0' was answered right"),
        ({"category": "wrong"}, {}, "row 2, column category: 'wrong' is none of personalization"),
    ],
)
def test_labels_of_other_results_are_refused(
    tmp_path: Path, changes: Mapping[str, str], run: Mapping[str, object], message: str
) -> None:
    file = labels(tmp_path / "errors.csv", ["update"], **changes)
    made = make_run("m", **{"answers": wrong(1).answers, "task": TASK, **run})
    with pytest.raises(UserError, match=message) as caught:
        read_error_report([file], [made])
    assert caught.value.message.startswith(f"{file}, row 2, column ")
    assert caught.value.hint


def test_a_file_is_named_once(tmp_path: Path) -> None:
    file = labels(tmp_path / "errors.csv", ["update"])
    with pytest.raises(UserError, match=r"errors\.csv appears twice"):
        read_error_report([file, file], [wrong(1)])


# --- the command


@pytest.fixture
def study(tmp_path: Path, dataset_folder: Path) -> tuple[Path, Path, Path]:
    """Results, and two files of labels of all their wrong answers."""
    results = tmp_path / "results"
    write_results(results, dataset_folder, "a|m", lambda row, n: None if n % 5 == 0 else 1, kind="_generate")
    files = []
    for rater in ("ann", "bob"):
        drawn = tmp_path / f"{rater}.csv"
        done = personamem("annotate", dataset_folder, "--errors", results, "--out", drawn)
        assert done.exit_code == 0, done.err
        rows = [row for _, row in read_rows(drawn)]
        for number, row in enumerate(rows):
            if not row["category"]:
                row |= {"rater": rater, "category": "other" if rater == "bob" and number % 3 else "update"}
        with drawn.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, rows[0], delimiter=";")  # as a spreadsheet in German
            writer.writeheader()
            writer.writerows(rows)
        files.append(drawn)
    return results, *files


def test_the_report_has_the_labels_in_all_its_forms(
    study: tuple[Path, Path, Path], tmp_path: Path, dataset_folder: Path
) -> None:
    results, ann, bob = study
    page = tmp_path / "report.html"
    command = ("report", results, "--data", dataset_folder, "--errors", ann, "--errors", bob)
    text = personamem(*command, "--html", page)
    assert text.exit_code == 0, text.err
    assert f"Errors of a|m on {TASK}, labelled by ann ({ann})" in text.out
    assert "Gwet's AC1" in text.out
    form = json.loads(personamem(*command, "--json").out)["errors"]
    assert [table["raters"] for table in form["tables"]] == [["ann"], ["bob"]]
    first = form["tables"][0]["categories"]
    assert first["update"]["count"] + first["format"]["count"] == form["tables"][0]["rows"]
    assert sum(first["update"]["types"].values()) == first["update"]["count"]
    assert (first["update"]["quoted"], set(first)) == (0.24, set(CATEGORIES))
    (agreement,) = form["agreements"]
    assert agreement["items"] == first["update"]["count"]
    assert 0 < agreement["percent"] < 1
    markdown = personamem(*command, "--markdown").out
    assert rf"### Errors of a\|m on {TASK}, labelled by bob" in markdown
    assert "| update | " in markdown
    assert r"hallucination & " in personamem(*command, "--latex").out
    root = ET.fromstring(page.read_text().partition("\n")[2])
    (section,) = [one for one in root.iter("section") if one.get("aria-labelledby") == "errors"]
    assert len(list(section.iter("table"))) == 2
    assert "errors" not in json.loads(personamem(*command[:4], "--json").out)


def test_the_command_names_what_is_wrong_with_a_file(study: tuple[Path, Path, Path], dataset_folder: Path) -> None:
    results, ann, _ = study
    ann.write_text(ann.read_text(encoding="utf-8-sig").replace(";update;", ";upd;", 1))
    outcome = personamem("report", results, "--data", dataset_folder, "--errors", ann)
    fails(outcome, f"{ann}, row ", "give one of these, or none")
    assert "column category: 'upd' is none of" in outcome.err
