"""Small runs: what tests of the pipeline, of the preview, of timelines and of the command line share."""

from __future__ import annotations

from pathlib import Path

from generation.banks.load import load_banks
from generation.config import Config, Turns, load_config
from generation.pipeline import generate
from generation.run_inputs import RunInputs
from generation.store import RunStore

TINY = Path(__file__).parents[1] / "examples" / "tiny.yaml"

CLI = "import sys; from personamem_builder.cli import main; sys.argv[0] = 'personamem'; main()"
"""For the fixture `python`: what the console script `personamem` does."""


def work_of(config: Config) -> RunInputs:
    """Return the work of a configuration, with the offline backend."""
    return RunInputs(config, load_banks(config), "offline")


def tiny_work(**changes: object) -> RunInputs:
    """Return the work of `examples/tiny.yaml`, with some keys replaced."""
    return work_of(load_config(TINY).model_copy(update=changes))


def sparse_work(**changes: object) -> RunInputs:
    """Two users of whom there is little to tell, with some keys replaced."""
    counts: dict[str, object] = {
        "items_per_topic": 3,
        "slots_per_topic": 1,
        "facts_per_topic": 1,
        "updates_per_topic": 2,
        "fillers": 6,
        "turns_per_session": Turns(min=3, max=4),
    }
    return tiny_work(**counts | changes)


def make_run(work: RunInputs, folder: Path, workers: int = 1) -> RunStore:
    """Make a run, or finish it, as the command does."""
    store = RunStore.open(folder, work.fingerprint())
    generate(work, store, workers)
    return store


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file in a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
