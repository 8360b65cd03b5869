"""The wheel, alone in a new environment, does what the checkout does."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

# One worker runs them all, as each would make an environment of its own.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (path,) = folder.glob("*.whl")
    return path


class Installed(NamedTuple):
    """A new environment with the wheel in it."""

    wheel: Path
    bin: Path

    def run(self, *command: str, cwd: Path, exits: int = 0) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        arguments = [self.bin / command[0], *command[1:]]
        done = subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == exits, done.stderr
        return done


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    made = Installed(wheel, folder / "bin")
    made.run("pip", "install", "-q", str(wheel), cwd=folder)
    return made


def test_the_wheel_carries_every_data_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("lm_eval_tasks", "hub_card", "templates"):
        for path in (ROOT / folder).iterdir():
            assert any(name.startswith(f"personamem_builder/_data/{folder}/{path.name}") for name in names), path
    for path in (*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples").glob("eval/*.yaml")):
        assert f"personamem_builder/_data/{path.relative_to(ROOT)}" in names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        "generation",
        "personamem.py",
        "personamem_builder",
    }


def test_the_wheel_carries_every_file_of_the_packages(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("generation", "personamem_builder"):
        files = (path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        assert {str(path.relative_to(ROOT)) for path in files} <= names


def test_the_wheel_alone_writes_configurations_and_says_what_is_installed(installed: Installed, tmp_path: Path) -> None:
    assert "wrote eval/hf.yaml" in installed.run("personamem", "init", cwd=tmp_path).stdout
    report = installed.run("personamem", "doctor", cwd=tmp_path).stdout
    assert "an installed package" in report
    assert f"To add one: pip install '{installed.wheel}[NAME]'" in report


def test_the_wheel_alone_generates_from_a_shipped_example(installed: Installed, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []

    done = installed.run("personamem", "generate", "examples/tiny.yaml", cwd=tmp_path)

    assert "runs/tiny: 2 personas" in done.stdout
    assert "session" in installed.run("personamem", "generate", "full", "--estimate", cwd=tmp_path).stdout
    absent = installed.run("personamem", "generate", "examples/mine.yaml", cwd=tmp_path, exits=1)
    assert "hint: give the path of a YAML file, or the name of an example: full, tiny" in absent.stderr


def test_the_wheel_alone_names_itself_where_an_extra_is_missing(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("personamem", "eval", "--tasks", "personamem_32k", cwd=tmp_path, exits=1)

    assert f"hint: pip install '{installed.wheel}[eval]'" in done.stderr


def test_the_wheel_alone_imports_the_excerpt_and_loads_it(installed: Installed, tmp_path: Path) -> None:
    def run(*command: str) -> str:
        return installed.run(*command, cwd=tmp_path).stdout

    assert "import-official" in run("personamem", "--help")
    tasks = Path(run("personamem", "tasks", "path").strip())
    assert (tasks / "personamem_32k.yaml").is_file()
    assert tasks.is_relative_to(installed.bin.parent)
    output = run("personamem", "import-official", str(ROOT / "examples" / "official_excerpt"))
    assert "17 questions, 2 contexts" in output
    load = "import personamem_builder; from datasets import load_dataset; d = load_dataset('personamem', split='32k');"
    assert run("python", "-c", f"{load} print(len(d), len(d[0]['context']))").split()[0] == "17"
    spec = (
        "from importlib.util import find_spec; print(find_spec('personamem_builder._data.lm_eval_tasks') is not None)"
    )
    assert run("python", "-c", spec).strip() == "True"  # what the entry point lm_eval.tasks names
