"""`personamem doctor`: what is installed, which data are used, what is cached."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem

from generation.resources import install_hint
from personamem_builder import installation
from personamem_builder.cli.doctor import _PURPOSES
from personamem_builder.installation import extras

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERSONAMEM_DATA", raising=False)


def report() -> dict[str, Any]:
    outcome = personamem("doctor", "--json")
    assert outcome.exit_code == 0
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_every_extra_has_a_purpose() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert set(tomllib.load(file)["project"]["optional-dependencies"]) <= set(_PURPOSES)


class Metadata(dict[str, Any]):
    get_all = dict.get


class Distribution:
    """A distribution with extras of which some can be used."""

    metadata = Metadata({"Provides-Extra": ["good", "old", "lacking", "both"]})
    requires = (
        "click>=8",
        "click>=8; extra == 'good'",
        "click>=99; extra == 'old'",
        "no-such-package-of-ours>=1; extra == 'lacking'",
        "personamem[lacking,old]; extra == 'both'",
        "no-such-thing; extra == 'both' and python_version < '3'",
    )


def test_an_extra_is_usable_when_all_it_needs_is_there_and_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "distribution", lambda name: Distribution)
    old = f"click>=99 ({version('click')} is installed)"
    assert {extra.name: extra.missing for extra in extras()} == {
        "good": (),
        "old": (old,),
        "lacking": ("no-such-package-of-ours>=1",),
        "both": ("no-such-package-of-ours>=1", old),
    }
    by_name = {extra["name"]: extra for extra in report()["extras"]}
    assert by_name["good"]["install"] is None
    assert by_name["lacking"]["install"] == install_hint("lacking")
    text = personamem("doctor").out
    assert "needs no-such-package-of-ours>=1" in text
    assert f"To add one: {install_hint('NAME')}" in text


def test_the_dataset_is_the_one_that_commands_use(
    dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report()["data"]["says"] == "none: PERSONAMEM_DATA is not set, and ./personamem is not a dataset folder"
    (tmp_path / "personamem").symlink_to(dataset_folder)
    found = report()["data"]
    assert (Path(found["folder"]), found["splits"]) == (dataset_folder.resolve(), {"32k": 17})
    assert "splits: 32k (17 questions)" in personamem("doctor").out
    monkeypatch.setenv("PERSONAMEM_DATA", "org/name@v1.0.0")
    assert report()["data"]["says"] == "org/name@v1.0.0 on the Hub, by PERSONAMEM_DATA"
    monkeypatch.setenv("PERSONAMEM_DATA", "/no/where")
    assert report()["data"]["says"] == "none: PERSONAMEM_DATA is /no/where, which is not a dataset folder"


def test_a_damaged_dataset_is_said_and_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "personamem").mkdir()
    (tmp_path / "personamem" / "manifest.json").write_text('{"format": "personamem"}', encoding="utf-8")
    found = report()["data"]
    assert found["folder"] == str((tmp_path / "personamem").resolve())
    assert "manifest.json" in found["says"]


WITH_A_CACHE = """
import sys
from personamem_builder.cli import cli
cli.main(["doctor", "--json"], standalone_mode=False)
heavy = ["datasets", "lm_eval", "matplotlib", "pandas", "scipy", "sklearn", "torch", "transformers"]
print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""


def test_caches_have_sizes_and_nothing_heavy_is_loaded(python: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("personamem/fresh/a", "hub/datasets--org--ours/blobs/b", "hub/datasets--org--other/blobs/b"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(bytes(1000))
    manifest = tmp_path / "hub/datasets--org--ours/snapshots/c0ffee/manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.touch()
    done = python(WITH_A_CACHE, HF_HOME=str(tmp_path), HF_HUB_CACHE=str(tmp_path / "hub"))
    caches = {cache["what"]: cache["bytes"] for cache in json.loads(done.stdout)["caches"]}
    assert caches.pop("the tokenizer's vocabulary") >= 0
    assert caches == {"datasets and memories made here": 1000, "org/ours of the Hub": 1000}
    assert done.stderr.splitlines()[-1] == "[]"


def test_it_says_where_it_runs_and_what_is_free() -> None:
    found = report()
    assert found["personamem"]["checkout"] == str(ROOT)
    assert found["personamem"]["python"] == sys.version.split()[0]
    assert found["disks"][0]["free"] > 0
    assert "Free disk:" in personamem("doctor").out
