from __future__ import annotations

import ast
import csv
import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_datasets import make_dataset

from generation.errors import UserError
from personamem_builder.build import export
from personamem_builder.build.export import export_release, official_cells
from personamem_builder.build.from_official import import_release
from personamem_builder.build.write import Source, write_dataset
from personamem_builder.official.contexts_jsonl import context_id
from personamem_builder.official.questions_csv import OFFICIAL_COLUMNS
from personamem_builder.schema import (
    GENERATED_QUESTION_FIELDS,
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
)

FILES = ["questions_32k.csv", "shared_contexts_32k.jsonl"]


@pytest.fixture(scope="module", params=["no_occupation", "none"])
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated dataset; tests leave it as it is."""
    return make_dataset(tmp_path_factory.mktemp("generated"), persona_visible=request.param)


def questions(folder: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return pq.read_table(folder / "data" / "questions_32k.parquet", columns=columns).to_pylist()  # type: ignore[no-any-return]


def contexts(folder: Path) -> dict[str, dict[str, Any]]:
    columns = ["shared_context_id", "persona_id", "messages", "num_tokens"]
    rows = pq.read_table(folder / "data" / "shared_contexts_32k.parquet", columns=columns).to_pylist()
    return {row["shared_context_id"]: row for row in rows}


def records(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def small(folder: Path, text: str = "What now?", **changes: Any) -> Path:
    """Write a dataset of one question whose context, lengths and id are sound; some columns replaced."""
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "Hm."}]
    key = context_id(messages)
    row = {
        "persona_id": 0,
        "question_id": "q1",
        "question_type": "suggest_new_ideas",
        "source_question_type": "suggest_new_ideas",
        "topic": "x",
        "context_length_in_tokens": 10,
        "context_length_in_letters": 10,
        "distance_to_ref_in_blocks": 1,
        "distance_to_ref_in_tokens": 1,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.5,
        "user_question_or_message": text,
        "correct_answer": "(b)",
        "all_options": [f"({letter}) {text}{letter}" for letter in "abcd"],
        "shared_context_id": key,
        "end_index_in_shared_context": 1,
        "answer_index": 1,
        "evidence_message_indices": [],
        "evidence_event_ids": [],
    } | changes
    context = {"shared_context_id": key, "persona_id": 0, "messages": messages, "session_starts": [0], "num_tokens": 9}
    context |= {"session_topics": [""], "session_dates": [""]}
    schema = pa.schema([*QUESTION_SCHEMA, *(field for field in OPTIONAL_QUESTION_FIELDS if field.name in changes)])
    questions = {"32k": [pa.Table.from_pylist([row], schema=schema)]}
    write_dataset(folder, questions, [("32k", context)], Source("a test", "", "mit", "1.0.0", "f"))
    return folder


def same_after_a_round_trip(folder: Path, tmp_path: Path) -> None:
    export_release(folder, tmp_path / "release")
    import_release(tmp_path / "release", tmp_path / "again")
    columns = [*OFFICIAL_COLUMNS, "source_question_type", "answer_index"]
    assert questions(tmp_path / "again", columns) == questions(folder, columns)
    assert contexts(tmp_path / "again") == contexts(folder)


def test_a_generated_dataset_comes_back_as_it_was(generated: Path, tmp_path: Path) -> None:
    same_after_a_round_trip(generated, tmp_path)


def test_the_official_excerpt_comes_back_as_it_was(dataset_folder: Path, tmp_path: Path) -> None:
    same_after_a_round_trip(dataset_folder, tmp_path)


def test_the_official_release_comes_back_as_it_was(official: Path, release_dir: Path, tmp_path: Path) -> None:
    same_after_a_round_trip(official, tmp_path)
    # Our order is by context; but for that, and for the options that are Python literals, it is the official file.
    for name in FILES:
        lines, expected = (
            sorted((folder / name).read_text(encoding="utf-8").splitlines())
            for folder in (tmp_path / "release", release_dir)
        )
        assert sum(a != b for a, b in zip(lines, expected, strict=True)) == (303 if name == FILES[0] else 0)
    cells = {row["question_id"]: row for row in records(tmp_path / "release" / FILES[0])}
    for row in records(release_dir / FILES[0]):
        for column in set(OFFICIAL_COLUMNS) - {"all_options"}:
            assert cells[row["question_id"]][column] == row[column]


def test_exporting_again_gives_the_same_bytes(generated: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_release(generated, tmp_path / name)
    import_release(tmp_path / "a", tmp_path / "imported")
    export_release(tmp_path / "imported", tmp_path / "c")
    for name in FILES:
        first = (tmp_path / "a" / name).read_bytes()
        assert (tmp_path / "b" / name).read_bytes() == first
        assert sorted((tmp_path / "c" / name).read_bytes().splitlines()) == sorted(first.splitlines())


def test_the_csv_has_the_official_columns_in_the_official_order(generated: Path, tmp_path: Path) -> None:
    export_release(generated, tmp_path)
    header = (tmp_path / FILES[0]).read_bytes().split(b"\n")[0].decode().split(",")
    assert header == [
        "persona_id",
        "question_id",
        "question_type",
        "topic",
        "context_length_in_tokens",
        "context_length_in_letters",
        "distance_to_ref_in_blocks",
        "distance_to_ref_in_tokens",
        "num_irrelevant_tokens",
        "distance_to_ref_proportion_in_context",
        "user_question_or_message",
        "correct_answer",
        "all_options",
        "shared_context_id",
        "end_index_in_shared_context",
    ]
    assert not {field.name for field in GENERATED_QUESTION_FIELDS} & set(header)


def test_the_contexts_are_found_by_an_index_of_lines(generated: Path, tmp_path: Path) -> None:
    """As the official scripts do: remember where each line starts, then read one."""
    export_release(generated, tmp_path)
    places: dict[str, int] = {}
    with (tmp_path / FILES[1]).open(encoding="utf-8") as file:
        while True:
            place = file.tell()
            line = file.readline()
            if not line:
                break
            places[next(iter(json.loads(line)))] = place
        for row in records(tmp_path / FILES[0]):
            file.seek(places[row["shared_context_id"]])
            messages = json.loads(file.readline())[row["shared_context_id"]]
            assert context_id(messages) == row["shared_context_id"]
            assert 1 <= int(row["end_index_in_shared_context"]) <= len(messages)
    assert len(places) == 4


def test_the_label_of_the_source_is_kept(tmp_path: Path) -> None:
    old = "identifying_new_things_not_mentioned_by_the_user"
    export_release(small(tmp_path / "d", source_question_type=old), tmp_path / "out")
    assert records(tmp_path / "out" / FILES[0])[0]["question_type"] == old


def test_columns_of_some_official_files_are_written_where_there_is_something_in_them(tmp_path: Path) -> None:
    folder = small(tmp_path / "d", stereotypical="", groundtruth_info=None)
    export_release(folder, tmp_path / "out")
    row = records(tmp_path / "out" / FILES[0])[0]
    assert list(row) == [*OFFICIAL_COLUMNS, "stereotypical"]


@pytest.mark.parametrize(
    "text",
    [
        "a\nb",
        "a\rb",
        "a\r\nb\r",
        'a "quoted" text, and more',
        "\u2028 and \u2029 and \x85 and \x0b",
        "  blanks  ",
        "emoji \U0001f600 and \\ud83d and \\n",
        "{'role'}",
        "None",
        "\ufeffmark",
    ],
)
def test_any_text_survives_in_cells_and_lines(tmp_path: Path, text: str) -> None:
    export_release(small(tmp_path / "d", text), tmp_path / "out")
    row = records(tmp_path / "out" / FILES[0])[0]
    options = [f"({letter}) {text}{letter}" for letter in "abcd"]
    assert row["user_question_or_message"] == text
    assert json.loads(row["all_options"]) == ast.literal_eval(row["all_options"]) == options
    lines = (tmp_path / "out" / FILES[1]).read_bytes().split(b"\n")
    assert len(lines) == 2
    messages = json.loads(lines[0])[row["shared_context_id"]]
    assert messages[0] == {"role": "user", "content": text}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_options_are_json_and_a_python_literal_alike(text: str) -> None:
    row = {"source_question_type": "x", "distance_to_ref_proportion_in_context": 0.5, "all_options": [text, "b"]}
    cell = official_cells(row)["all_options"]
    assert json.loads(cell) == ast.literal_eval(cell) == [text, "b"]


def percentage(fraction: float) -> str:
    row = {"source_question_type": "x", "distance_to_ref_proportion_in_context": fraction, "all_options": []}
    return str(official_cells(row)["distance_to_ref_proportion_in_context"])


@given(st.integers(0, 10_000))
def test_a_distance_of_two_decimals_is_written_with_two(number: int) -> None:
    cell = f"{number / 100:.2f}%"
    assert percentage(pa.scalar(float(cell[:-1]) / 100, pa.float32()).as_py()) == cell


@given(st.floats(0, 1, width=32))
def test_a_distance_is_read_as_the_same_number(fraction: float) -> None:
    cell = percentage(fraction)
    assert pa.scalar(float(cell.removesuffix("%")) / 100, pa.float32()).as_py() == pytest.approx(fraction, abs=1e-15)
    assert len(cell.split(".")[1]) >= len("00%")


def test_what_was_written_is_told(generated: Path, tmp_path: Path) -> None:
    exported = export_release(generated, tmp_path / "on" / "the" / "way")
    assert list(exported) == ["32k"]
    assert exported["32k"].questions == len(questions(generated))
    assert exported["32k"].contexts == 4
    assert [path.name for path in exported["32k"].files] == FILES
    assert names(tmp_path / "on" / "the" / "way") == FILES


def test_files_of_the_same_names_are_replaced_and_those_of_other_splits_kept(tmp_path: Path) -> None:
    folder, out = small(tmp_path / "d"), tmp_path / "out"
    out.mkdir()
    (out / FILES[0]).write_text("old")
    (out / "questions_1M.csv").write_text("another split")
    (out / f".{FILES[0]}.1234.part").write_text("by a run that was killed")
    export_release(folder, out)
    assert names(out) == ["questions_1M.csv", *FILES]
    assert (out / "questions_1M.csv").read_text() == "another split"
    assert len(records(out / FILES[0])) == 1


@pytest.mark.parametrize("name", ["thesis.tex", "questions_32k.csv.gz", "manifest.json", ".git"])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, name: str) -> None:
    folder, out = small(tmp_path / "d"), tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    with pytest.raises(UserError, match=f"out holds something other .*: {name}"):
        export_release(folder, out)
    assert names(out) == [name]


def test_the_dataset_folder_itself_and_a_file_are_refused(tmp_path: Path) -> None:
    folder = small(tmp_path / "d")
    with pytest.raises(UserError, match="holds something other"):
        export_release(folder, folder)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="exists and is not a folder"):
        export_release(folder, tmp_path / "file")


def test_a_folder_that_is_no_dataset_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a personamem dataset folder"):
        export_release(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_split_that_is_not_there_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no split '1M', it has 32k"):
        export_release(small(tmp_path / "d"), tmp_path / "out", ["32k", "1M"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_dataset_is_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    folder = small(tmp_path / "d")
    path = folder / "data" / "shared_contexts_32k.parquet"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        path.unlink()
    with pytest.raises(UserError, match=r"data/shared_contexts_32k\.parquet is not as the manifest says"):
        export_release(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_all_files_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    export_release(small(tmp_path / "d"), out)
    before = {name: (out / name).read_bytes() for name in FILES}

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.rmtree(tmp_path / "d")
    monkeypatch.setattr(export, "_write_contexts", full)
    with pytest.raises(UserError, match=r"out cannot be written: .*No space left"):
        export_release(small(tmp_path / "d", "Something else?"), out)
    assert {name: (out / name).read_bytes() for name in names(out)} == before
