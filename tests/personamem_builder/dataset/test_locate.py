from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from small_manifests import small_manifest

from generation.errors import UserError
from personamem_builder.dataset.folder import changed_files
from personamem_builder.dataset.load import iter_examples
from personamem_builder.dataset.locate import HubPlace, find_folder, resolve_data, split_folder
from personamem_builder.official.hub import OFFICIAL_REVISION, ReleaseDownload


def fake_folder(folder: Path, **changes: Any) -> Path:
    """A folder that says of itself that it is a dataset, which is all that finding one looks at."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(small_manifest(**changes)))
    return folder


@pytest.fixture(autouse=True)
def current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# The order.


def test_the_argument_comes_first_then_the_environment_then_the_current_folder(
    tmp_path: Path, current: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argument, environment = fake_folder(tmp_path / "argument"), fake_folder(tmp_path / "environment")
    assert find_folder() is None

    beside = fake_folder(current / "personamem")
    assert find_folder() == resolve_data().folder == beside

    monkeypatch.setenv("PERSONAMEM_DATA", str(environment))
    assert find_folder() == resolve_data().folder == environment

    assert find_folder(argument) == resolve_data(argument).folder == argument
    assert find_folder(str(argument)) == resolve_data(str(argument)).folder == argument


def test_the_source_says_what_was_found_and_where(tmp_path: Path) -> None:
    folder = fake_folder(tmp_path / "mine", digest="d" * 64)
    source = resolve_data(folder)
    assert (source.folder, source.origin, source.digest) == (folder, str(folder), "d" * 64)


def test_relative_paths_and_the_home_folder(tmp_path: Path, current: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fake_folder(current / "data" / "mine")
    monkeypatch.setenv("HOME", str(current))
    for name in ("data/mine", "./data/mine", "~/data/mine"):
        assert find_folder(name) == resolve_data(name).folder == folder


def test_a_folder_of_that_name_that_is_no_dataset_is_not_taken(current: Path) -> None:
    (current / "personamem").mkdir()
    assert find_folder() is None
    for content in ("", "[]", '{"format": "another"}', "\xff"):
        (current / "personamem" / "manifest.json").write_text(content, encoding="latin-1")
        assert find_folder() is None


# What goes wrong is said.


def test_nothing_given_and_nothing_there() -> None:
    with pytest.raises(UserError) as raised:
        resolve_data()
    assert "PERSONAMEM_DATA is not set" in raised.value.message
    assert "./personamem" in raised.value.message
    assert "personamem import-official" in raised.value.hint


@pytest.mark.parametrize("how", ["argument", "environment"])
@pytest.mark.parametrize("name", ["typo", "./typo", "a/b/typo", "/no/typo", "~/typo", "exists/empty"])
def test_a_named_folder_that_is_no_dataset(current: Path, monkeypatch: pytest.MonkeyPatch, how: str, name: str) -> None:
    (current / "exists" / "empty").mkdir(parents=True)
    fake_folder(current / "personamem")  # is not taken in its place
    monkeypatch.setenv("HOME", str(current))
    if how == "environment":
        monkeypatch.setenv("PERSONAMEM_DATA", name)
    with pytest.raises(UserError) as raised:
        resolve_data(name if how == "argument" else None)
    assert str(Path(name).expanduser()) in raised.value.message
    assert "is not a personamem dataset folder" in raised.value.message
    assert "personamem import-official" in raised.value.hint


def test_a_dataset_of_a_newer_personamem(tmp_path: Path) -> None:
    folder = fake_folder(tmp_path / "newer", schema_version=2)
    with pytest.raises(UserError) as raised:
        resolve_data(folder)
    assert raised.value.message == f"{folder} has schema version 2, this personamem reads up to 1"
    assert "newer personamem" in raised.value.hint


def test_a_split_that_the_dataset_lacks(tmp_path: Path) -> None:
    source = resolve_data(fake_folder(tmp_path / "mine", splits=("32k", "1M")))
    assert split_folder(source, "1M") == source.folder
    with pytest.raises(UserError) as raised:
        split_folder(source, "128k")
    assert raised.value.message == f"{source.folder} has no split '128k', it has 32k, 1M"


# Datasets on the Hub.


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What was asked of the Hub, which has a dataset under every name."""
    asked: list[tuple[str, str | None]] = []
    snapshot = fake_folder(tmp_path / "snapshot")

    def download_dataset(repo_id: str, revision: str | None, splits: Sequence[str], *, contexts: bool) -> Path:
        asked.append((repo_id, revision))
        return snapshot

    monkeypatch.setattr("personamem_builder.official.hub.download_dataset", download_dataset)
    return asked


@pytest.mark.parametrize(
    ("name", "revision", "asked"),
    [
        ("org/name", None, ("org/name", None)),
        ("org/name", "v2", ("org/name", "v2")),
        ("org/name@v1", None, ("org/name", "v1")),
        ("org/name@v1", "v2", ("org/name", "v1")),
        ("org/name@refs/pr/1", None, ("org/name", "refs/pr/1")),
    ],
)
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_place_on_the_hub(
    tmp_path: Path,
    downloads: list[tuple[str, str | None]],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    name: str,
    revision: str | None,
    asked: tuple[str, str | None],
) -> None:
    if how == "environment":
        monkeypatch.setenv("PERSONAMEM_DATA", name)
    source = resolve_data(name if how == "argument" else None, revision)
    assert downloads == [asked]
    assert source.folder == tmp_path / "snapshot"
    assert source.origin == f"org/name@{asked[1] or 'main'} on the Hub"
    assert source.hub == HubPlace("org/name", asked[1] or "main", "snapshot")


def test_a_local_folder_wins_over_the_hub(current: Path, downloads: list[tuple[str, str | None]]) -> None:
    folder = fake_folder(current / "org" / "name")
    assert resolve_data("org/name", "v2").folder == folder
    assert downloads == []


# The official release, where nothing else is there.


@pytest.fixture
def releases(excerpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The splits that were downloaded of the official release, which here is the excerpt."""
    asked: list[Sequence[str]] = []

    def download_release(splits: Sequence[str], *, revision: str = OFFICIAL_REVISION) -> ReleaseDownload:
        assert revision == OFFICIAL_REVISION
        asked.append(splits)
        return ReleaseDownload(excerpt, "bowen-upenn/PersonaMem", revision)

    monkeypatch.setattr("personamem_builder.dataset.official.download_release", download_release)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "hf"))
    return asked


def test_the_official_release_is_converted_once_into_the_cache(tmp_path: Path, releases: list[Sequence[str]]) -> None:
    source = resolve_data(official_split="32k")
    assert source.folder.is_relative_to(tmp_path / "hf")
    assert OFFICIAL_REVISION in source.origin
    assert "split 32k" in source.origin
    assert len(list(iter_examples("32k", data=source.folder))) == 17

    assert resolve_data(official_split="32k") == source
    assert releases == [["32k"]]


@pytest.mark.parametrize("damage", ["cut off", "deleted", "no manifest", "deleted folder"])
def test_a_damaged_copy_is_converted_again(releases: list[Sequence[str]], damage: str) -> None:
    source = resolve_data(official_split="32k")
    file = source.folder / "data" / "shared_contexts_32k.parquet"
    if damage == "cut off":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "deleted":
        file.unlink()
    elif damage == "no manifest":
        (source.folder / "manifest.json").unlink()
    else:
        shutil.rmtree(source.folder)
    assert resolve_data(official_split="32k") == source
    assert changed_files(source.folder) == []
    assert releases == [["32k"], ["32k"]]


def test_the_official_release_is_not_fetched_where_there_is_other_data(
    current: Path, releases: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_folder(current / "personamem")
    assert resolve_data(official_split="32k").folder == folder
    monkeypatch.setenv("PERSONAMEM_DATA", "./typo")
    with pytest.raises(UserError, match="typo"):
        resolve_data(official_split="32k")
    assert releases == []
