"""A small generated dataset folder: what tests of export and of inspection share."""

from __future__ import annotations

from pathlib import Path

from small_runs import make_run, tiny_work

from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.dataset.build import build


def make_dataset(folder: Path, **changes: object) -> Path:
    """Generate, assemble and build `examples/tiny.yaml`, with some keys replaced: the split 32k.

    Args:
        folder: Where the run and the dataset go.
        **changes: Keys of the configuration.

    Returns:
        The dataset folder.
    """
    store = make_run(tiny_work(**changes), folder / "run")
    assemble(store, chosen_sizes(["32k"], None, None), 2, 1)
    build(store, folder / "personamem")
    return folder / "personamem"
