"""Putting the task files into an installed lm_eval."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from generation.errors import UserError
from personamem_builder.evaluation.install import install_tasks, uninstall_tasks


@pytest.fixture
def lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name with a tasks folder, found before the real one."""
    package = tmp_path / "lm_eval"
    (package / "tasks").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in [name for name in sys.modules if name.partition(".")[0] == "lm_eval"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


def test_install_copies_every_task_file_and_uninstall_removes_them(lm_eval: Path) -> None:
    folder = install_tasks()
    assert folder == lm_eval / "tasks" / "personamem"
    assert (folder / "personamem_32k.yaml").exists()
    assert (folder / "_default_yaml").exists()
    assert install_tasks() == folder
    assert uninstall_tasks() == folder
    assert not folder.exists()
    assert uninstall_tasks() is None


def test_a_folder_of_lm_eval_itself_is_never_touched(lm_eval: Path) -> None:
    theirs = lm_eval / "tasks" / "personamem" / "theirs.yaml"
    theirs.parent.mkdir()
    theirs.touch()
    for command in (install_tasks, uninstall_tasks):
        with pytest.raises(UserError, match="was not made by personamem tasks install"):
            command()
    assert theirs.exists()


@pytest.mark.slow
def test_the_plain_lm_eval_command_knows_the_tasks_after_install(dataset_folder: Path, tmp_path: Path) -> None:
    """With the real package; lm-eval takes seconds to index its own tasks."""
    environment = {**os.environ, "PERSONAMEM_DATA": str(dataset_folder)}
    command = [sys.executable, "-m", "lm_eval", "--tasks", "personamem_32k_letters", "--model", "dummy"]
    install_tasks()
    try:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    finally:
        uninstall_tasks()
    assert "personamem_32k_letters" in done.stdout, done.stderr
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
