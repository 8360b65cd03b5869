"""Tables of several files: the same rows, order and digests as in one."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_parts import cut_dataset

from generation.errors import UserError
from generation.store import RunStore
from personamem_builder.build.copy_dataset import copy_dataset
from personamem_builder.build.export import export_release
from personamem_builder.build.from_run import build
from personamem_builder.build.materialise import materialise
from personamem_builder.build.parts import PartWriter
from personamem_builder.build.questions_parquet import write_questions
from personamem_builder.build.sorted_rows import SortedRows
from personamem_builder.build.verify import verify_dataset
from personamem_builder.build.write import CANARY, CANARY_KEY, Source, write_dataset
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import changed_files, context_files, question_files
from personamem_builder.dataset.load import iter_examples, load_dataset
from personamem_builder.manifest import Manifest, read_manifest
from personamem_builder.publish.compare import changes, compare
from personamem_builder.schema import QUESTION_SCHEMA, table_order

SMALL = 3000
"""Bytes after which a file of `cut` ends: several files for each table."""


@pytest.fixture(scope="module")
def cut(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = cut_dataset(generated, tmp_path_factory.mktemp("cut") / "personamem", SMALL)
    assert len(question_files(folder, "32k")) > 2
    assert len(context_files(folder, "32k")) > 2
    return folder


def context(number: int, letters: int) -> dict[str, Any]:
    text = "".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz ", k=letters))
    return {
        "shared_context_id": f"c{number:03}",
        "persona_id": number,
        "messages": [{"role": role, "content": f"{role} {text}"} for role in ("system", "user", "assistant")],
        "session_starts": [0],
        "session_topics": [""],
        "session_dates": [""],
        "num_tokens": letters,
    }


def question(of: int, end: int) -> dict[str, Any]:
    return {
        "persona_id": of,
        "question_id": f"q{of}-{end}",
        "question_type": "suggest_new_ideas",
        "topic": f"topic {of % 3}",
        "context_length_in_tokens": 10 * end,
        "context_length_in_letters": 40 * end,
        "distance_to_ref_in_blocks": 0,
        "distance_to_ref_in_tokens": of,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.5,
        "user_question_or_message": "What now?",
        "correct_answer": "(b)",
        "all_options": ["(a) w", "(b) x", "(c) y", "(d) z"],
        "shared_context_id": f"c{of:03}",
        "end_index_in_shared_context": end,
        "source_question_type": "suggest_new_ideas",
        "answer_index": 1,
        "evidence_message_indices": [],
        "evidence_event_ids": [],
    }


def write(out: Path, letters: list[int], pieces: int = 1, **more: Any) -> Manifest:
    contexts = [context(number, length) for number, length in enumerate(letters)]
    rows = [question(number, end) for number in range(len(letters)) for end in (1, 2, 3)]
    step = -(-len(rows) // pieces)
    tables = [
        pa.Table.from_pylist(rows[start : start + step], schema=QUESTION_SCHEMA) for start in range(0, len(rows), step)
    ]
    source = Source("a test", "", "mit", "1.0.0", "f" * 64)
    return write_dataset(out, {"32k": tables}, (("32k", row) for row in contexts), source, **more)


def told(manifest: Manifest) -> dict[str, Any]:
    """What a manifest says that must not depend on the files."""
    splits = {name: {**entry, "num_bytes": None} for name, entry in manifest["splits"].items()}
    return {**manifest, "files": None, "splits": splits}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    letters=st.lists(st.integers(0, 3000), min_size=1, max_size=8),
    limit=st.sampled_from([1, 500, 2000, 4000, 9000, 10**9]),
    pieces=st.integers(1, 9),
)
def test_how_tables_are_cut_changes_nothing_but_the_files(
    tmp_path: Path, letters: list[int], limit: int, pieces: int
) -> None:
    whole = write(tmp_path / "whole", letters)
    other = write(tmp_path / "cut", letters, pieces, file_limit=limit)
    assert told(other) == told(whole)
    assert (
        other["splits"]["32k"]["num_bytes"]["shared_contexts"] == whole["splits"]["32k"]["num_bytes"]["shared_contexts"]
    )
    for read in (
        lambda folder: read_questions(folder, "32k"),
        lambda folder: list(iter_contexts(*context_files(folder, "32k"))),
        lambda folder: list(iter_examples("32k", data=folder)),
    ):
        assert read(tmp_path / "cut") == read(tmp_path / "whole")
    if limit == 1:
        assert len(context_files(tmp_path / "cut", "32k")) == len(letters)
    # With pieces of any size, one file has the bytes that it had before.
    if limit == 10**9:
        assert other["files"] == whole["files"]


def without_manifest(folder: Path, out: Path) -> Path:
    """Copy a dataset so that `datasets` reads it by its card, without our builder."""
    shutil.copytree(folder, out)
    (out / "manifest.json").unlink()
    return out


@pytest.mark.parametrize("config", ["benchmark", "shared_contexts"])
@pytest.mark.parametrize("streaming", [False, True])
def test_plain_datasets_loads_the_same_rows(
    cut: Path, generated: Path, tmp_path: Path, config: str, streaming: bool
) -> None:
    def rows(folder: Path) -> list[dict[str, Any]]:
        copy = without_manifest(folder, tmp_path / folder.parent.name)
        cache = str(tmp_path / "cache")
        return list(datasets.load_dataset(str(copy), config, split="32k", cache_dir=cache, streaming=streaming))

    found = rows(cut)
    assert found == rows(generated)
    assert found


def test_a_file_that_is_missing_is_an_error_of_plain_datasets_too(cut: Path, tmp_path: Path) -> None:
    folder = without_manifest(cut, tmp_path / "d")
    (folder / "data" / question_files(cut, "32k")[1].name).unlink()
    with pytest.raises(datasets.exceptions.NonMatchingSplitsSizesError):
        datasets.load_dataset(str(tmp_path / "d"), split="32k", cache_dir=str(tmp_path / "cache"))


def test_lazy_contexts_are_found_in_all_files(cut: Path, generated: Path, tmp_path: Path) -> None:
    def rows(folder: Path) -> list[dict[str, Any]]:
        loaded = load_dataset("32k", data=folder, cache_dir=str(tmp_path / folder.parent.name))
        return [dict(row) for row in loaded.shuffle(seed=1)]

    found = rows(cut)
    assert found == rows(generated)
    assert all(row["context"] for row in found)


def test_what_is_made_of_a_dataset_is_the_same(cut: Path, generated: Path, tmp_path: Path) -> None:
    verify_dataset(cut)
    for folder, name in ((cut, "cut"), (generated, "whole")):
        export_release(folder, tmp_path / name)
        materialise("32k", tmp_path / f"{name}.parquet", data=folder)
    for file in (tmp_path / "whole").iterdir():
        assert (tmp_path / "cut" / file.name).read_bytes() == file.read_bytes()
    assert (tmp_path / "cut.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    copy_dataset(cut, tmp_path / "copy", ["32k"])
    assert changed_files(tmp_path / "copy") == []


def test_another_way_of_cutting_is_no_other_version(cut: Path, generated: Path) -> None:
    comparison = compare(generated, cut)
    assert not comparison.splits["32k"].questions.changed
    assert not comparison.splits["32k"].contexts.changed
    assert not [line for line in changes(comparison) if line.startswith("32k")]


def test_every_file_carries_the_canary_and_contexts_the_span_of_their_personas(cut: Path) -> None:
    files = read_manifest(cut)["files"]
    for path in sorted((cut / "data").iterdir()):
        file = pq.ParquetFile(path)
        assert file.metadata.metadata[CANARY_KEY.encode()] == CANARY.encode()
        personas = files[f"data/{path.name}"].get("personas")
        if path.name.startswith("shared_contexts"):
            found = file.read(["persona_id"])["persona_id"].to_pylist()
            assert personas == [min(found), max(found)]
        else:
            assert personas is None


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_built_the_same_whatever_the_files(generated: Path, tmp_path: Path, workers: int) -> None:
    build(RunStore(generated.parent / "run"), tmp_path / "personamem", workers=workers, file_limit=SMALL)
    assert len(question_files(tmp_path / "personamem", "32k")) > 1
    assert told(read_manifest(tmp_path / "personamem")) == told(read_manifest(generated))
    assert [path.name for path in tmp_path.iterdir()] == ["personamem"]
    verify_dataset(tmp_path / "personamem")


def test_an_older_dataset_of_one_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "d", [2000, 2000])
    write(tmp_path / "d", [2000, 2000], file_limit=1)
    assert not (tmp_path / "d" / "data" / "questions_32k.parquet").exists()
    verify_dataset(tmp_path / "d")


def test_a_split_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="32k has no questions"):
        write_questions(tmp_path / "q.parquet", "32k", iter(()))


def test_files_end_after_the_limit_and_are_named_at_the_end(tmp_path: Path) -> None:
    rng = random.Random(0)
    group = pa.table({"x": [rng.randbytes(1000).hex() for _ in range(10)]})
    writer = PartWriter(tmp_path / "t.parquet", group.schema, limit=25_000)
    for _ in range(5):
        writer.write(group)
    assert not list(tmp_path.glob("*-of-*"))
    writer.close()
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [f"t-{i:05}-of-00003.parquet" for i in range(3)]
    assert [pq.ParquetFile(path).num_row_groups for path in files] == [2, 2, 1]


def test_memory_holds_a_row_group_of_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personamem_builder.build.questions_parquet._ROW_GROUP", 20_000)
    alive: list[int] = []
    before = pa.total_allocated_bytes()

    def tables() -> Iterator[pa.Table]:
        for number in range(1000):
            alive.append(pa.total_allocated_bytes() - before)
            yield pa.Table.from_pylist([question(number, 1)], schema=QUESTION_SCHEMA)

    written = write_questions(tmp_path / "q.parquet", "32k", tables())
    assert written.figures.questions == 1000
    assert pq.ParquetFile(tmp_path / "q.parquet").num_row_groups > 5
    assert max(alive[500:]) <= 1.5 * max(alive[:500])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), unique=True), st.integers(1, 5))
def test_rows_are_sorted_on_disk(tmp_path: Path, places: list[tuple[int, int]], size: int) -> None:
    rows = [question(of, end) for of, end in places]
    with SortedRows(tmp_path) as sorted_rows:
        for start in range(0, len(rows), size):
            sorted_rows.add(rows[start : start + size])
        tables = [table.to_pylist() for table in sorted_rows.tables(QUESTION_SCHEMA)]
    expected = sorted(rows, key=table_order)
    assert tables == [list(own) for _, own in groupby(expected, key=lambda row: row["shared_context_id"])]
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_of_an_incomplete_set_is_refused(cut: Path, tmp_path: Path) -> None:
    for number, change in enumerate(
        (
            lambda files, names: files.pop(names[1]),
            lambda files, names: files.update({"data/questions_32k-00000-of-00099.parquet": files[names[0]]}),
            lambda files, names: files.update({"data/questions_32k.parquet": files[names[0]]}),
        )
    ):
        folder = tmp_path / str(number)
        shutil.copytree(cut, folder)
        content = json.loads((folder / "manifest.json").read_text())
        change(content["files"], [f"data/{path.name}" for path in question_files(cut, "32k")])
        (folder / "manifest.json").write_text(json.dumps(content))
        with pytest.raises(UserError, match=r"is missing of|two ways of cutting"):
            read_manifest(folder)
