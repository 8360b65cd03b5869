"""The notebook runs from its first cell to its last, and shows what it says.

`make notebook` also writes its outputs anew.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

WRITE = bool(os.environ.get("PERSONAMEM_WRITE_NOTEBOOK"))  # read here, as tests do not see the settings of the user
NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"

pytestmark = pytest.mark.notebook


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    pytest.importorskip("ipykernel", reason="needs a kernel: make docs")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: make docs")
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat: make docs")
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copytree(NOTEBOOK.parent / "written", folder / "written")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources=resources, coalesce_streams=True, record_timing=False
    )
    client.execute()
    if WRITE:
        nbformat.write(notebook, NOTEBOOK)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell: Any) -> str:
    return "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout")


def test_the_notebook_runs(cells: list[Any]) -> None:
    text = "".join(map(printed, cells))
    for said in (
        "67 questions about 3 users",
        "=> (a) You could ask your cousins",
        "asserts Arabic lessons (current)",
        "longest option ",
        "dummy (no context)",
    ):
        assert said in text
    plots = [cell for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(plots) == 2


def test_what_it_prints_of_the_data_is_what_is_stored_in_it(cells: list[Any]) -> None:
    """The texts of the cells that load, show a question and compute floors; plots and reports may differ in looks."""
    nbformat = pytest.importorskip("nbformat")
    stored = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    for now, then in zip(cells[2:5], stored[2:5], strict=True):
        assert printed(now) == printed(then) != ""
