from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import generation
from generation.errors import UserError
from generation.resources import data_dir


@pytest.mark.parametrize(("name", "file"), [("hub_card", "README.md.j2"), ("lm_eval_tasks", "personamem.yaml")])
def test_the_data_folders_are_found(name: str, file: str) -> None:
    assert (data_dir(name) / file).is_file()


def test_in_a_wheel_they_lie_inside_the_package(python: Callable[..., Any], tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    shutil.copytree(Path(generation.__file__).parent, site / "generation")
    inside = site / "personamem_builder" / "_data" / "hub_card"
    inside.mkdir(parents=True)
    (site / "hub_card").mkdir()  # of another distribution
    code = "from generation.resources import data_dir; print(data_dir('hub_card'))"
    assert Path(python(code, PYTHONPATH=str(site)).stdout.strip()) == inside


def test_a_folder_that_does_not_exist_is_an_error_for_people() -> None:
    with pytest.raises(UserError) as raised:
        data_dir("no_such_folder")
    assert "no_such_folder" in raised.value.message
    assert "pip install" in raised.value.hint
