"""Runs that the benchmarks generate with the offline backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.measure import FULL_CONFIG

if TYPE_CHECKING:
    from generation.parallel import Workers
    from generation.store import RunStore


def generate_run(
    folder: Path, workers: Workers, config_file: Path = FULL_CONFIG, **settings: Any
) -> tuple[RunStore, dict[str, int]]:
    """Generate a run, or what a folder lacks of it; `settings` such as `personas` go before those of the file.

    Returns:
        The run, and the number of records of each stage.
    """
    from generation.banks.load import load_banks
    from generation.config import load_config
    from generation.pipeline import generate
    from generation.run_inputs import RunInputs
    from generation.store import RunStore

    config = load_config(config_file).model_copy(update=settings)
    work = RunInputs(config, load_banks(config), "offline")
    store = RunStore.open(folder, work.fingerprint())
    return store, generate(work, store, workers).counts
