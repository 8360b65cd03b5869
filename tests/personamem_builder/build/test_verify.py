"""A folder is loaded as users load it; whatever differs from the manifest is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_runs import contents

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.build.verify import verify_dataset


@pytest.fixture
def folder(dataset_folder: Path, tmp_path: Path) -> Path:
    """A copy of the dataset folder of the official excerpt."""
    return Path(shutil.copytree(dataset_folder, tmp_path / "personamem"))


def faults(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        verify_dataset(folder)
    assert raised.value.message.startswith(f"{folder} is not as it was written: ")
    assert raised.value.hint == "build it again"
    return raised.value.message


def change(folder: Path, changes: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    changes(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def accept(folder: Path, name: str) -> None:
    """Put a file's bytes into the manifest, as if it had been written so."""
    change(folder, lambda manifest: manifest["files"][name].update(sha256=file_digest(folder / name)))


def test_a_sound_folder_passes_and_stays_as_it_is(folder: Path) -> None:
    before = contents(folder)
    verify_dataset(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["questions_32k", "shared_contexts_32k"])
@pytest.mark.parametrize("how", ["removed", "emptied", "cut", "changed"])
def test_a_damaged_file_is_named(folder: Path, name: str, how: str) -> None:
    path = folder / "data" / f"{name}.parquet"
    data = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"emptied": b"", "cut": data[:-100], "changed": changed}[how])
    assert f"data/{name}.parquet is damaged" in faults(folder)


def test_other_counts_are_named(folder: Path) -> None:
    change(folder, lambda manifest: manifest["splits"]["32k"].update(questions=18, shared_contexts=3))
    message = faults(folder)
    assert "32k: 17 questions load and not 18" in message
    assert "32k: there are 2 contexts and not 3" in message


def test_another_digest_of_the_questions_is_named(folder: Path) -> None:
    change(folder, lambda manifest: manifest["splits"]["32k"]["digests"].update(benchmark="0" * 64))
    assert "32k: the questions have another digest than the manifest says" in faults(folder)


def test_another_digest_of_the_contexts_is_named(folder: Path) -> None:
    change(folder, lambda manifest: manifest["splits"]["32k"]["digests"].update(shared_contexts="0" * 64))
    assert "32k: the contexts have another digest than the manifest says" in faults(folder)


def test_rows_lost_from_a_whole_file_are_named(folder: Path) -> None:
    name = "data/questions_32k.parquet"
    pq.write_table(pq.read_table(folder / name).slice(0, 16), folder / name)
    accept(folder, name)
    message = faults(folder)
    assert "32k: 16 questions load and not 17" in message
    assert "another digest" in message
    assert "damaged" not in message


def test_what_is_no_dataset_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a personamem dataset folder"):
        verify_dataset(tmp_path)


def test_the_cache_of_the_user_stays_empty(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    verify_dataset(folder)
    assert not (tmp_path / "cache").exists()
