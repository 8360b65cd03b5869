"""Reading tables of several files: faults are placed in the right one, and no more is opened than is needed."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import datasets
import pytest
from command_line import personamem
from damaged_data import damaged
from small_parts import cut_dataset

import personamem_builder
from generation.errors import UserError
from personamem_builder.audit.inputs import read_splits
from personamem_builder.dataset import context_places
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import ContextStore, iter_contexts, read_context
from personamem_builder.dataset.folder import context_files, question_files
from personamem_builder.dataset.load import iter_examples
from personamem_builder.manifest import read_manifest


@pytest.fixture(scope="module")
def cut(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut_dataset(generated, tmp_path_factory.mktemp("cut") / "personamem", 3000)


@pytest.fixture
def copy(cut: Path, tmp_path: Path) -> Path:
    shutil.copytree(cut, tmp_path / "personamem")
    return tmp_path / "personamem"


def test_the_hook_finds_all_rows_and_their_contexts(cut: Path, generated: Path, tmp_path: Path) -> None:
    def rows(folder: Path, **more: Any) -> list[dict[str, Any]]:
        cache = str(tmp_path / folder.parent.name)
        found = datasets.load_dataset("personamem", split="32k", data_dir=str(folder), cache_dir=cache, **more)
        return [dict(row) for row in found]

    expected = list(iter_examples("32k", data=generated))
    assert rows(cut) == rows(generated) == rows(cut, streaming=True) == expected


@pytest.mark.parametrize("table", [question_files, context_files])
def test_one_file_of_several_that_is_missing_is_one_error(
    copy: Path, table: Callable[[Path, str], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = table(copy, "32k")[1]
    absent.unlink()
    for call in (
        lambda: list(iter_examples("32k", data=copy)),
        lambda: personamem_builder.load_dataset("32k", data=copy, cache_dir=str(tmp_path / "cache")),
        lambda: datasets.load_dataset("personamem", data_dir=str(copy), cache_dir=str(tmp_path / "cache")),
        lambda: personamem_builder.materialise("32k", tmp_path / "out.parquet", data=copy),
    ):
        with pytest.raises(UserError) as raised:
            call()
        assert raised.value.message.startswith(f"{absent} is missing, of ")
        assert "download" in raised.value.hint
    monkeypatch.chdir(copy.parent)
    for command in (["export", "personamem", "--out", "out"], ["view", "personamem", "--out", "out", "--no-open"]):
        outcome = personamem(*command)
        assert outcome.exit_code == 1
        assert f"data/{absent.name} is not as the manifest says" in outcome.err


def test_a_context_whose_file_is_missing_is_said_to_be_in_it(copy: Path) -> None:
    absent = context_files(copy, "32k")[1]
    ids = [row["shared_context_id"] for row in iter_contexts(absent)]
    absent.unlink()
    with pytest.raises(UserError, match=f"has no shared context {ids[0]}: {absent} is missing"):
        ContextStore(copy).messages(ids[0], 1)


def test_files_of_an_earlier_cut_that_were_left_are_not_read(copy: Path, generated: Path, tmp_path: Path) -> None:
    for name in ("questions_32k.parquet", "shared_contexts_32k.parquet"):
        shutil.copyfile(generated / "data" / name, copy / "data" / name)
    expected = read_questions(generated, "32k")
    assert read_questions(copy, "32k") == expected
    found = datasets.load_dataset(str(copy), split="32k", cache_dir=str(tmp_path / "cache"))
    assert found["question_id"][:] == expected["question_id"].to_pylist()


def test_a_fault_is_placed_in_its_file(cut: Path, tmp_path: Path) -> None:
    name = f"data/{question_files(cut, '32k')[1].name}"
    folder = damaged(cut, tmp_path / "d", name, lambda rows: rows[1].update(answer_index=7))
    with pytest.raises(UserError, match=rf"{name}, row 2, column answer_index: 7"):
        read_questions(folder, "32k")

    first = question_files(cut, "32k")[0]
    known = read_questions(cut, "32k")["question_id"][0].as_py()
    folder = damaged(cut, tmp_path / "e", name, lambda rows: rows[0].update(question_id=known))
    with pytest.raises(UserError, match=rf"{name}, row 1, column question_id: .*stands in an earlier row too"):
        read_questions(folder, "32k")

    name = f"data/{context_files(cut, '32k')[2].name}"
    context_id = next(iter_contexts(context_files(cut, "32k")[0]))["shared_context_id"]
    folder = damaged(cut, tmp_path / "f", name, lambda rows: rows[0].update(shared_context_id=context_id))
    with pytest.raises(UserError, match=rf"{name}, row 1, column shared_context_id: .*stands in an earlier row too"):
        read_questions(folder, "32k")
    folder = damaged(cut, tmp_path / "g", f"data/{first.name}", lambda rows: rows[0].update(shared_context_id="no"))
    with pytest.raises(UserError, match=r"shared_contexts_32k-\*-of-00004.parquet has no such context"):
        read_questions(folder, "32k")


def test_an_audit_reads_all_files(cut: Path, generated: Path) -> None:
    [split], [whole] = read_splits(cut), read_splits(generated)
    assert split.rows == whole.rows
    assert split.contexts is not None
    assert whole.contexts is not None
    assert list(split.contexts()) == list(whole.contexts())
    assert not split.source_faults


def test_a_context_is_read_from_whichever_file_it_is_in(cut: Path) -> None:
    files = context_files(cut, "32k")
    for row in iter_contexts(*files):
        assert read_context(files, row["shared_context_id"]) == row
    with pytest.raises(UserError, match="and the 3 files after it have no context nosuch"):
        read_context(files, "nosuch")


def test_few_files_are_open_at_a_time(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_places, "_FILES_OPEN", 1)
    rows = list(iter_contexts(*context_files(cut, "32k")))
    store = ContextStore(cut)
    for row in [*rows, *reversed(rows)]:
        assert store.messages(row["shared_context_id"], 1) == row["messages"][:1]
        assert store.session_starts(row["shared_context_id"]) == row["session_starts"]
    assert store.places.file.cache_info().currsize == 1


class Remote(NamedTuple):
    """A file elsewhere that tells when it is opened."""

    path: Path
    personas: tuple[int, ...]
    opened: list[str]

    def __hash__(self) -> int:
        return hash(self.path)

    def open(self) -> BinaryIO:
        self.opened.append(self.path.name)
        return io.BytesIO(self.path.read_bytes())


@pytest.mark.parametrize("known", [True, False])
def test_elsewhere_only_files_that_hold_the_personas_are_opened(cut: Path, known: bool) -> None:
    opened: list[str] = []
    files, entries = context_files(cut, "32k"), read_manifest(cut)["files"]
    remote = tuple(
        Remote(path, tuple(entries[f"data/{path.name}"]["personas"]) if known else (), opened) for path in files
    )
    wanted = list(iter_contexts(files[-1]))[-1]
    store = ContextStore(cut, remote)
    own = {wanted["shared_context_id"]: wanted["persona_id"]}
    assert store.groups_of(own) == {(len(files) - 1, 0)}
    assert store.messages(wanted["shared_context_id"], 2) == wanted["messages"][:2]
    holding = [r.path.name for r in remote if not known or r.personas[0] <= wanted["persona_id"] <= r.personas[1]]
    assert opened == holding
    assert not known or len(opened) < len(files)
    # A wrong persona costs time, and nothing else.
    assert ContextStore(cut, remote).groups_of({wanted["shared_context_id"]: 77}) == {(len(files) - 1, 0)}
    assert store.places.has_more_groups_than(1)
    assert not store.places.has_more_groups_than(len(files))
