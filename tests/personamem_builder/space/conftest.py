"""Results of models on the small generated dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_results import right_as_often, write_results

Results = Callable[..., Path]


@pytest.fixture
def results(generated: Path, tmp_path: Path) -> Results:
    """Write the results of one more model on the generated dataset; returns the folder of all of them."""

    def write(model: str, skill: float = 0.5, **more: object) -> Path:
        folder = tmp_path / "results"
        seed = len([*folder.iterdir()]) if folder.exists() else 0
        write_results(folder / str(seed), generated, model, right_as_often(skill, seed), **more)  # type: ignore[arg-type]
        return folder

    return write
