"""A small generated dataset folder: what tests of export and of inspection share."""

from __future__ import annotations

from pathlib import Path

from small_runs import make_run, tiny_work

from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.build.from_run import build


def make_dataset(folder: Path, **changes: object) -> Path:
    """Generate, assemble and build `examples/tiny.yaml`, with some keys replaced: the split 32k.

    With none replaced, the fixture `generated` is that dataset, made once.

    Args:
        folder: Where the run and the dataset go.
        **changes: Keys of the configuration.

    Returns:
        The dataset folder.
    """
    make_run(tiny_work(**changes), folder / "run")
    return build_dataset(folder)


def build_dataset(folder: Path) -> Path:
    """Assemble and build the run in a folder, and return the dataset beside it."""
    store = RunStore(folder / "run")
    assemble(store, chosen_sizes(["32k"], None, None), 2, 1)
    build(store, folder / "personamem")
    return folder / "personamem"
