"""Data made on demand: the same recipe gives the same dataset anywhere, and is followed once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from small_manifests import manifest_folder
from small_runs import TINY

from generation.errors import UserError
from personamem_builder.build import on_demand
from personamem_builder.build.on_demand import data_or_official, fresh_source, read_recipe, recipe_of
from personamem_builder.dataset.folder import changed_files
from personamem_builder.dataset.load import iter_examples
from personamem_builder.manifest import read_manifest
from personamem_builder.official.download import OFFICIAL_REVISION, ReleaseDownload

ROOT = Path(__file__).parents[3]
Python = Callable[..., "subprocess.CompletedProcess[str]"]

MAKE = """
import sys
from personamem_builder.build.on_demand import fresh_source, read_recipe
seed = int(sys.argv[2]) if sys.argv[2:] else None
print(fresh_source(read_recipe(sys.argv[1], seed), "32k").digest)
"""


def fresh_dataset(config: str | Path, seed: int | None, split: str) -> Path:
    return fresh_source(read_recipe(config, seed), split).folder


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the data of `examples/tiny.yaml`; tests leave it as it is."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HOME", str(cache))
        fresh_dataset(TINY, None, "32k")
    return cache


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of `examples/tiny.yaml`, named from the current folder."""
    (tmp_path / "configs").mkdir()
    shutil.copy(TINY, tmp_path / "configs" / "mine.yaml")
    monkeypatch.chdir(tmp_path)
    return "configs/mine.yaml"


@pytest.fixture
def cache(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the filled cache."""
    folder = tmp_path / "cache"
    shutil.copytree(filled, folder)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(folder))
    return folder


@pytest.fixture
def never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(*_: Any) -> None:
        raise AssertionError("the data are there")

    monkeypatch.setattr(on_demand, "generate", generate)


def digest(folder: Path) -> str:
    return str(read_manifest(folder)["digest"])


def spoil(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def test_only_the_split_asked_for_is_made_and_lies_in_the_cache_under_its_fingerprint(filled: Path) -> None:
    (folder,) = (filled / "personamem" / "fresh").glob("*/personamem-*")
    assert folder.parent.name == read_recipe(TINY).fingerprint[:16]
    assert list(read_manifest(folder)["splits"]) == ["32k"]
    rows = list(iter_examples("32k", data=folder))
    assert len(rows) == read_manifest(folder)["splits"]["32k"]["questions"] > 30


@pytest.mark.usefixtures("never_made")
def test_finished_data_are_taken_at_once_whatever_the_path_of_the_configuration(
    cache: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fresh_dataset(TINY, None, "32k")
    assert folder.is_relative_to(cache)
    assert fresh_dataset(config, None, "32k") == fresh_dataset(Path(config).resolve(), 7, "32k") == folder
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("cache")
def test_the_source_names_the_configuration_as_given_the_seed_and_the_fingerprint(config: str) -> None:
    recipe = read_recipe(config)
    source = fresh_source(recipe, "32k")
    assert source.origin == f"made from configs/mine.yaml, seed 7, fingerprint {recipe.fingerprint[:16]}"
    assert source.digest == digest(source.folder)


@pytest.mark.usefixtures("cache")
def test_another_seed_gives_other_data_beside_them(capsys: pytest.CaptureFixture[str]) -> None:
    own, other = fresh_dataset(TINY, None, "32k"), fresh_dataset(TINY, 8, "32k")
    assert own.parent.parent == other.parent.parent
    assert own.parent != other.parent
    assert digest(own) != digest(other)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"making the 32k data of {TINY}, seed 8 in {other}\n"


@pytest.mark.slow
def test_another_process_with_another_cache_makes_the_same_data(python: Python, filled: Path, config: str) -> None:
    (folder,) = (filled / "personamem" / "fresh").glob("*/personamem-*")
    assert python(MAKE, config).stdout.strip() == digest(folder)


@pytest.mark.slow
def test_processes_that_ask_at_the_same_time_make_the_data_once(config: str, tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "hf")}
    command = [sys.executable, "-c", MAKE, config, "9"]
    processes = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    done = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], done
    assert len({out for out, _ in done}) == 1
    assert sum(err.count("making the 32k data") for _, err in done) == 1


@pytest.mark.parametrize("step", ["generate", "assemble", "build"])
@pytest.mark.usefixtures("cache")
def test_an_interrupted_build_is_finished(step: str) -> None:
    expected = fresh_dataset(TINY, None, "32k")
    wanted = digest(expected)
    shutil.rmtree(expected)
    run = expected.parent / "run"
    if step == "generate":  # killed within a line of the sessions
        sessions = run / "stages" / "sessions.jsonl"
        sessions.write_bytes(sessions.read_bytes()[:20_000])
        (run / "stages" / "questions.jsonl").unlink()
    elif step == "assemble":
        shutil.rmtree(run / "splits")
    written = (run / "stages" / "personas.jsonl").stat().st_mtime_ns
    assert digest(fresh_dataset(TINY, None, "32k")) == wanted
    assert (run / "stages" / "personas.jsonl").stat().st_mtime_ns == written  # what was there is kept


@pytest.mark.parametrize("damage", ["spoilt", "deleted", "no manifest"])
@pytest.mark.usefixtures("cache")
def test_damaged_data_are_made_again(damage: str) -> None:
    folder = fresh_dataset(TINY, None, "32k")
    wanted = digest(folder)
    file = folder / "data" / "questions_32k.parquet"
    if damage == "spoilt":
        spoil(file)
    elif damage == "deleted":
        file.unlink()
    else:
        (folder / "manifest.json").unlink()
    assert digest(fresh_dataset(TINY, None, "32k")) == wanted
    assert changed_files(folder) == []


@pytest.mark.usefixtures("cache", "never_made")
def test_data_that_older_code_assembled_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "_code_digest", lambda: "0" * 64)
    with pytest.raises(AssertionError, match="the data are there"):
        fresh_dataset(TINY, None, "32k")


# Errors.


@pytest.mark.usefixtures("cache")
def test_a_split_that_the_configuration_cannot_fill() -> None:
    with pytest.raises(UserError) as raised:
        fresh_dataset(TINY, None, "128k")
    assert raised.value.message.startswith(f"{TINY}, seed 7: persona 0 cannot fill the split 128k")
    assert re.search(r"about [1-9]\d* fillers are missing", raised.value.message)
    assert "`fillers`" in raised.value.hint


@pytest.mark.usefixtures("cache", "never_made")
def test_a_split_that_there_is_not() -> None:
    with pytest.raises(UserError, match="'64k' is not made on demand; those that are: 32k, 128k, 1M"):
        fresh_dataset(TINY, None, "64k")


@pytest.mark.usefixtures("never_made")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "absent.yaml: No such file"),
        ("seed: [", "is not YAML"),
        ("topics: [writing, coding, cookery]", "there is no bank 'cookery'"),
        ("topics: [writing]\nusers: 3", "unknown key 'users'"),
    ],
)
def test_a_bad_configuration_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, message: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "hf"))
    path = tmp_path / "absent.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        fresh_dataset(path, 7, "32k")
    assert not (tmp_path / "hf").exists()


@pytest.mark.usefixtures("never_made")
def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot be made") as raised:
        fresh_dataset(TINY, None, "32k")
    assert "HF_HOME" in raised.value.hint


# What metadata ask for.


def test_metadata_without_config_ask_for_nothing() -> None:
    assert recipe_of({"data": "org/name", "seed": 3}) is None


def test_the_seed_of_metadata_takes_the_place_of_the_configurations_own() -> None:
    recipes = [recipe_of({"config": str(TINY), "seed": seed}) for seed in (None, 7, 0, -1)]
    assert [recipe.seed for recipe in recipes if recipe] == [7, 7, 0, -1]
    assert len({recipe.fingerprint for recipe in recipes if recipe}) == 3


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"config": str(TINY), "data": "personamem"}, "has both config=.* and data=personamem"),
        ({"config": 7}, "config=7 is not a path"),
        ({"config": ""}, "config='' is not a path"),
        *(({"config": str(TINY), "seed": seed}, "is not a whole number") for seed in ("7", "x", 7.0, True, [7])),
    ],
)
def test_metadata_that_make_no_sense(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe_of(metadata)


def test_a_shipped_example_can_be_named_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    recipe = recipe_of({"config": "examples/tiny.yaml", "seed": 7})

    assert recipe is not None
    assert recipe.fingerprint == read_recipe(TINY, 7).fingerprint
    assert recipe.words.startswith("examples/tiny.yaml")


# The official release, where nothing else is there.


@pytest.fixture
def releases(excerpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The splits that were downloaded of the official release, which here is the excerpt."""
    asked: list[Sequence[str]] = []

    def download_release(splits: Sequence[str], *, revision: str = OFFICIAL_REVISION) -> ReleaseDownload:
        assert revision == OFFICIAL_REVISION
        asked.append(splits)
        return ReleaseDownload(excerpt, "bowen-upenn/PersonaMem", revision)

    monkeypatch.setattr("personamem_builder.build.from_official.download_release", download_release)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "hf"))
    monkeypatch.chdir(tmp_path)
    return asked


def test_the_official_release_is_converted_once_into_the_cache(tmp_path: Path, releases: list[Sequence[str]]) -> None:
    source = data_or_official(None, None, "32k")
    assert source.folder.is_relative_to(tmp_path / "hf")
    assert OFFICIAL_REVISION in source.origin
    assert "split 32k" in source.origin
    assert len(list(iter_examples("32k", data=source.folder))) == 17

    assert data_or_official(None, None, "32k") == source
    assert releases == [["32k"]]


@pytest.mark.parametrize("damage", ["cut off", "deleted", "no manifest", "deleted folder"])
def test_a_damaged_copy_is_converted_again(releases: list[Sequence[str]], damage: str) -> None:
    source = data_or_official(None, None, "32k")
    file = source.folder / "data" / "shared_contexts_32k.parquet"
    if damage == "cut off":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "deleted":
        file.unlink()
    elif damage == "no manifest":
        (source.folder / "manifest.json").unlink()
    else:
        shutil.rmtree(source.folder)
    assert data_or_official(None, None, "32k") == source
    assert changed_files(source.folder) == []
    assert releases == [["32k"], ["32k"]]


def test_the_official_release_is_not_fetched_where_there_is_other_data(
    tmp_path: Path, releases: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = manifest_folder(tmp_path / "personamem")
    assert data_or_official(None, None, "32k").folder == folder
    monkeypatch.setenv("PERSONAMEM_DATA", "./typo")
    with pytest.raises(UserError, match="typo"):
        data_or_official(None, None, "32k")
    assert releases == []
