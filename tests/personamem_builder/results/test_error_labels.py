from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.errors import UserError
from generation.reading import clean_text
from personamem_builder.results.error_labels import (
    CATEGORIES,
    COLUMNS,
    guarded,
    read_labels,
    read_rows,
    unguarded,
    write_labels,
)

ROW = {
    "question_id": "q0",
    "persona_id": "3",
    "question_type": "suggest_new_ideas",
    "topic": "foodRecommendation",
    "message": "What now?",
    "right_option": "(a) Tea.",
    "chosen_option": "(b) Coffee.",
    "reply": "(b)",
    "category": "update",
    "rater": "ann",
    "note": "",
    "model": "m",
    "task": "personamem_32k_generate",
}

texts = st.text(st.sampled_from("=+-@'\t\r\n\",;ab1e é\0"), max_size=8) | st.text(max_size=8)


@given(st.lists(st.lists(texts, min_size=6, max_size=6), min_size=1, max_size=3))
def test_whatever_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, cells: list[list[str]]) -> None:
    rows = [{**ROW, **dict(zip(COLUMNS, own, strict=False))} for own in cells]
    path = tmp_path_factory.mktemp("labels") / "errors.csv"
    write_labels(path, rows)
    found = list(read_rows(path))
    assert found == [
        (number, {name: clean_text(text) for name, text in row.items()}) for number, row in enumerate(rows, start=2)
    ]


@given(texts)
def test_no_cell_begins_like_a_formula(text: str) -> None:
    assert guarded(text)[:1] not in ("=", "+", "-", "@", "\t", "\r", "＝")
    assert unguarded(guarded(text)) == text


def test_ids_that_a_spreadsheet_would_take_for_numbers_are_guarded_and_others_are_not() -> None:
    for text in ("123456789012345678", "12e4567", "1E5"):
        assert guarded(text) == f"'{text}"
    for text in ("", "17", "12ab", "it's", "'tis", "(a) = b", "bb3b169c-68f3"):
        assert guarded(text) == text


def test_a_spreadsheet_finds_encoding_and_columns(tmp_path: Path) -> None:
    write_labels(tmp_path / "errors.csv", [ROW])
    content = (tmp_path / "errors.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbfquestion_id,persona_id,question_type,topic,message,right_option,")
    assert next(csv.reader(io.StringIO(content.decode("utf-8-sig")))) == list(COLUMNS)


def save(path: Path, *rows: dict[str, str], delimiter: str = ",", columns: tuple[str, ...] = COLUMNS) -> Path:
    """Save rows as a spreadsheet may: without byte order mark, in an order of its own."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter=delimiter, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_what_spreadsheets_save_is_read(tmp_path: Path, delimiter: str) -> None:
    columns = ("category", "mine", "rater", "question_id", "chosen_option", "task", "model")
    rows = [
        ROW | {"category": " Update ", "mine": "x, y; z"},
        dict.fromkeys(columns, ""),
        ROW | {"question_id": "q1", "category": "", "chosen_option": "no letter", "rater": ""},
    ]
    first, second = read_labels(save(tmp_path / "errors.csv", *rows, delimiter=delimiter, columns=columns))
    assert first == (2, "q0", "b", "update", "ann", "m", "personamem_32k_generate")
    assert second == (4, "q1", None, None, "", "m", "personamem_32k_generate")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW | {"category": "updte"}], "row 2, column category: 'updte' is none of personalization, update, format"),
        ([ROW, ROW | {"category": "other"}], "row 3, column question_id: 'q0' is in row 2 already"),
        ([], " has no rows"),
        ([ROW | {"category": "\x1b[31m" + "x" * 90}], r"column category: '\\ufffd\[31mx{54}…' is none of|'�\[31mx+…'"),
    ],
)
def test_faults_are_named_with_row_and_column(tmp_path: Path, rows: list[dict[str, str]], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_labels(save(tmp_path / "errors.csv", *rows))
    assert str(tmp_path / "errors.csv") in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "row 1: there is no column question_id, chosen_option, category, model, task"),
        (b"question_id,category\nq,update\n", "row 1: there is no column chosen_option, model, task"),
        (b"question_id,chosen_option,category,model,task,category\n", "row 1: the column category appears twice"),
        (b"question_id,chosen_option,category,model,task\nq,(a) x,update\n", "row 2: 3 cells where the header has 5"),
        (b'question_id,chosen_option,category,model,task\nq,"(a) x,update,m,t\n', "row 2: no CSV"),
        (b"question_id,chosen_option,category,model,task\nq,\xff,update,m,t\n", "line 2: byte .* is not UTF-8"),
        (b"PK\x03\x04\x00\x00", "row 1: "),
    ],
)
def test_a_damaged_file_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "errors.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_labels(path)
    assert caught.value.message.startswith(str(path))


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    rows = [ROW | {"question_id": f"q{number}", "category": f"no{number}"} for number in range(3)]
    with pytest.raises(UserError) as caught:
        read_labels(save(tmp_path / "errors.csv", *rows))
    assert caught.value.message.count("column category") == 3
    assert all(name in caught.value.message for name in CATEGORIES)
