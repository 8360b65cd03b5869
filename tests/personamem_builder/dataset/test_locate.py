from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from small_manifests import manifest_folder

from generation.errors import UserError
from personamem_builder.dataset.locate import HubPlace, find_folder, resolve_data, split_folder


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
    argument, environment = manifest_folder(tmp_path / "argument"), manifest_folder(tmp_path / "environment")
    assert find_folder() is None

    beside = manifest_folder(current / "personamem")
    assert find_folder() == resolve_data().folder == beside

    monkeypatch.setenv("PERSONAMEM_DATA", str(environment))
    assert find_folder() == resolve_data().folder == environment

    assert find_folder(argument) == resolve_data(argument).folder == argument
    assert find_folder(str(argument)) == resolve_data(str(argument)).folder == argument


def test_the_source_says_what_was_found_and_where(tmp_path: Path) -> None:
    folder = manifest_folder(tmp_path / "mine", digest="d" * 64)
    source = resolve_data(folder)
    assert (source.folder, source.origin, source.digest) == (folder, str(folder), "d" * 64)


def test_relative_paths_and_the_home_folder(tmp_path: Path, current: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = manifest_folder(current / "data" / "mine")
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
    manifest_folder(current / "personamem")  # is not taken in its place
    monkeypatch.setenv("HOME", str(current))
    if how == "environment":
        monkeypatch.setenv("PERSONAMEM_DATA", name)
    with pytest.raises(UserError) as raised:
        resolve_data(name if how == "argument" else None)
    assert str(Path(name).expanduser()) in raised.value.message
    assert "is not a personamem dataset folder" in raised.value.message
    assert "personamem import-official" in raised.value.hint


def test_a_dataset_of_a_newer_personamem(tmp_path: Path) -> None:
    folder = manifest_folder(tmp_path / "newer", schema_version=2)
    with pytest.raises(UserError) as raised:
        resolve_data(folder)
    assert raised.value.message == f"{folder} has schema version 2, this version of personamem reads up to 1"
    assert "newer personamem" in raised.value.hint


def test_a_split_that_the_dataset_lacks(tmp_path: Path) -> None:
    source = resolve_data(manifest_folder(tmp_path / "mine", splits=("32k", "1M")))
    assert split_folder(source, "1M") == source.folder
    with pytest.raises(UserError) as raised:
        split_folder(source, "128k")
    assert raised.value.message == f"{source.folder} has no split '128k', it has 32k, 1M"


# Datasets on the Hub.


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What was asked of the Hub, which has a dataset under every name."""
    asked: list[tuple[str, str | None]] = []
    snapshot = manifest_folder(tmp_path / "snapshot")

    def download_dataset(repo_id: str, revision: str | None, splits: Sequence[str], *, contexts: bool) -> Path:
        asked.append((repo_id, revision))
        return snapshot

    monkeypatch.setattr("personamem_builder.hub.download.download_dataset", download_dataset)
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
    folder = manifest_folder(current / "org" / "name")
    assert resolve_data("org/name", "v2").folder == folder
    assert downloads == []
