from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import generation
from generation.config import load_config
from generation.errors import UserError
from generation.resources import data_dir, example_names, find_example, install_hint

ROOT = Path(generation.__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "file"),
    [("hub_card", "README.md.j2"), ("lm_eval_tasks", "personamem.yaml"), ("examples", "tiny.yaml")],
)
def test_the_data_folders_are_found(name: str, file: str) -> None:
    assert (data_dir(name) / file).is_file()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The package `generation` as an installer would have put it."""
    shutil.copytree(ROOT / "generation", tmp_path / "site-packages" / "generation")
    return tmp_path / "site-packages"


def test_in_a_wheel_they_lie_inside_the_package(python: Callable[..., Any], site: Path) -> None:
    inside = site / "personamem_builder" / "_data" / "hub_card"
    inside.mkdir(parents=True)
    (site / "hub_card").mkdir()  # of another distribution
    code = "from generation.resources import data_dir; print(data_dir('hub_card'))"
    assert Path(python(code, PYTHONPATH=str(site)).stdout.strip()) == inside


def test_a_folder_that_does_not_exist_is_an_error_for_people() -> None:
    with pytest.raises(UserError) as raised:
        data_dir("no_such_folder")
    assert "no_such_folder" in raised.value.message
    assert "install personamem again" in raised.value.hint


@pytest.mark.parametrize("name", ["tiny", "tiny.yaml", "examples/tiny.yaml"])
def test_where_there_is_no_such_file_a_shipped_example_is_meant(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_example(Path(name)) == ROOT / "examples" / "tiny.yaml"
    assert load_config(Path(name)) == load_config(ROOT / "examples" / "tiny.yaml")


@pytest.mark.parametrize("name", ["mine/tiny.yaml", "/tiny.yaml", "tiny.yml", "tiny.json", "../tiny.yaml", "huge", ""])
def test_no_other_path_means_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_example(Path(name)) == Path(name)


def test_a_file_of_ones_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text("seed: 1\n")
    Path("full").mkdir()  # a folder is no configuration

    assert find_example(Path("tiny.yaml")) == Path("tiny.yaml")
    assert find_example(Path("full")) == ROOT / "examples" / "full.yaml"


def test_a_configuration_that_is_not_there_names_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UserError, match=r"my\.yaml") as raised:
        load_config(Path("my.yaml"))
    assert "full, tiny, written" in raised.value.hint
    assert example_names() == ["full", "tiny", "written"]


def test_in_a_checkout_the_hint_is_to_install_it() -> None:
    assert install_hint("eval,plots") == f"pip install -e '{ROOT}[eval,plots]'"


@pytest.mark.parametrize(
    ("origin", "hint"),
    [
        ({"url": "file:///home/me/my%20code", "dir_info": {}}, "'/home/me/my code[eval]'"),
        (
            {"url": "file:///tmp/personamem-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'/tmp/personamem-0.1.0-py3-none-any.whl[eval]'",
        ),
        (
            {"url": "https://example.org/personamem-0.1.0.tar.gz", "archive_info": {}},
            "'personamem[eval] @ https://example.org/personamem-0.1.0.tar.gz'",
        ),
        (
            {"url": "https://example.org/personamem.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}},
            "'personamem[eval] @ git+https://example.org/personamem.git@abc123'",
        ),
        (None, "'personamem[eval]'"),
    ],
)
def test_elsewhere_the_hint_names_where_the_installation_came_from(
    origin: dict[str, Any] | None, hint: str, python: Callable[..., Any], site: Path
) -> None:
    info = site / "personamem-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: personamem\nVersion: 0.1.0\n")
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))
    code = "from generation.resources import install_hint; print(install_hint('eval'))"

    assert python(code, PYTHONPATH=str(site)).stdout == f"pip install {hint}\n"
