"""The wheel, alone in a new environment, does what the checkout does."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_carries_every_data_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("lm_eval_tasks", "hub_card", "templates"):
        for path in (ROOT / folder).iterdir():
            assert f"personamem_builder/_data/{folder}/{path.name}" in names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        "generation",
        "personamem_builder",
    }


def test_the_wheel_alone_imports_the_excerpt_and_loads_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", with_pip=True)
    bin_ = tmp_path / "v" / "bin"

    def run(*command: str) -> str:
        return subprocess.run(
            [bin_ / command[0], *command[1:]], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    run("pip", "install", "-q", str(wheel))
    assert "import-official" in run("personamem", "--help")
    tasks = Path(run("personamem", "tasks", "path").strip())
    assert (tasks / "personamem_32k.yaml").is_file()
    assert tasks.is_relative_to(tmp_path)
    output = run("personamem", "import-official", str(ROOT / "examples" / "official_excerpt"))
    assert "17 questions, 2 contexts" in output
    load = "import personamem_builder; from datasets import load_dataset; d = load_dataset('personamem', split='32k');"
    assert run("python", "-c", f"{load} print(len(d), len(d[0]['context']))").split()[0] == "17"
    spec = (
        "from importlib.util import find_spec; print(find_spec('personamem_builder._data.lm_eval_tasks') is not None)"
    )
    assert run("python", "-c", spec).strip() == "True"  # what the entry point lm_eval.tasks names
