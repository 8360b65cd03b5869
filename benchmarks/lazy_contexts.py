"""A full pass over the questions with their contexts, resolved lazily, against the materialised table.

Each side is a process of its own that reads every row in file order and has its context decoded to Python once:
  datasets      `load_dataset("personamem")` after `import personamem_builder`, with an empty cache
  iter_examples `personamem_builder.iter_examples`
  materialised  the file of `personamem_builder.materialise`, read with pyarrow a row at a time, so that it too holds
                one context
  materialised, datasets  the same file streamed by `load_dataset("parquet")`; not with --quick
`open` is what comes before the first row (for `datasets`, filling its cache). Imports are in neither time, except
what a library imports on first use. `private` is the peak of the memory that is the process's alone: mapped files
are in RSS only.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from support.made_up import SPLIT, write_made_up
from support.measure import MB, Child, Target, conclude, in_child, interleave, print_table, release_arguments

LIMITS = {"release": (1.0, 250.0), "made-up": (6.0, 700.0)}
"""The most seconds, and MB of private memory, of a pass over each dataset."""

FULL_SIZE = {"contexts": 60, "letters": 4_500_000, "messages": 3000, "questions": 2674}
QUICK_SIZE = FULL_SIZE | {"contexts": 6, "questions": 250}


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    size = QUICK_SIZE if args.quick else FULL_SIZE
    targets: list[Target] = []
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_child(import_release, args.release, folder / "release")
        in_child(make_up, folder / "made-up", size)
        titles = {
            "release": f"{args.release.name}, split 32k",
            "made-up": "made up: {contexts} contexts x {letters:,} letters, {messages:,} messages each, "
            "{questions:,} questions".format(**size),
        }
        for dataset, split in (("release", "32k"), ("made-up", SPLIT)):
            figures[dataset] = measure(folder / dataset, split, quick=args.quick)
            show(titles[dataset], figures[dataset])
            seconds, megabytes = LIMITS[dataset]
            label = dataset + (" (quick size)" if args.quick and dataset == "made-up" else "")
            for side in ("datasets", "iter_examples"):
                found = figures[dataset]["sides"][side]
                targets.append(Target(f"{label}, {side}: pass", statistics.median(found["pass_s"]), seconds, "s"))
                targets.append(
                    Target(f"{label}, {side}: private", statistics.median(found["private_mb"]), megabytes, "MB")
                )
    conclude(args, targets, figures)


def measure(folder: Path, split: str, *, quick: bool) -> dict[str, Any]:
    """Build the materialised file of a dataset, run all sides, and return the figures."""
    materialised = folder / "materialised.parquet"
    build = in_child(time_materialise, folder, split, materialised)
    runs: dict[str, Callable[[], Child]] = {
        "datasets": partial(in_child, pass_datasets, folder, split),
        "iter_examples": partial(in_child, pass_iter_examples, folder, split),
        "materialised": partial(in_child, pass_materialised, materialised),
    }
    if not quick:
        runs["materialised, datasets"] = partial(in_child, pass_materialised_stream, materialised)
    children = interleave(runs, 3 if quick else 5)
    counts = {child.result["messages"] for side in children.values() for child in side}
    if len(counts) != 1:
        raise SystemExit(f"the sides read different numbers of messages: {sorted(counts)}")
    sides = {
        side: {
            "open_s": [child.result["open_s"] for child in rounds],
            "pass_s": [child.result["pass_s"] for child in rounds],
            "private_mb": [child.private_mb for child in rounds],
            "rss_mb": [child.rss_mb for child in rounds],
        }
        for side, rounds in children.items()
    }
    data = sum(path.stat().st_size for path in (folder / "data").iterdir()) / MB
    disk = {"lazy": data, "materialised": materialised.stat().st_size / MB}
    return {
        "messages": counts.pop(),
        "disk_mb": disk,
        "build_materialised": {"s": build.result, "private_mb": build.private_mb, "rss_mb": build.rss_mb},
        "sides": sides,
    }


def show(title: str, figures: dict[str, Any]) -> None:
    """Print one dataset's table."""
    disk, build = figures["disk_mb"], figures["build_materialised"]
    rows = [
        [
            side,
            f"{disk['materialised' if side.startswith('materialised') else 'lazy']:,.1f}",
            *(f"{statistics.median(found[key]):,.2f}" for key in ("open_s", "pass_s")),
            *(f"{statistics.median(found[key]):,.0f}" for key in ("private_mb", "rss_mb")),
        ]
        for side, found in figures["sides"].items()
    ]
    print_table(f"{title}; {figures['messages']:,} messages a pass", HEADER, rows)
    print(
        f"build of the materialised file: {build['s']:.1f} s, {build['private_mb']:,.0f} MB private, "
        f"{build['rss_mb']:,.0f} MB RSS"
    )


HEADER = ["side", "disk MB", "open s", "pass s", "private MB", "RSS MB"]


def import_release(release: Path, out: Path) -> None:
    """Write the dataset folder of the official release."""
    from personamem_builder.build import from_official

    from_official.import_release(release, out)


def make_up(folder: Path, size: dict[str, int]) -> None:
    """Write the made-up dataset folder."""
    write_made_up(folder, **size)


def time_materialise(folder: Path, split: str, out: Path) -> float:
    """Write the materialised file."""
    from personamem_builder.build.materialise import materialise

    start = time.perf_counter()
    materialise(split, out, data=folder)
    return time.perf_counter() - start


def pass_datasets(folder: Path, split: str) -> dict[str, float]:
    """Read all rows through `datasets`."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    import personamem_builder  # noqa: F401 - registers the name and the row format

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        rows = datasets.load_dataset("personamem", split=split, data_dir=str(folder), cache_dir=cache)
        opened = time.perf_counter()
        messages = sum(len(row["context"]) for row in rows)
        return {"open_s": opened - start, "pass_s": time.perf_counter() - opened, "messages": messages}


def pass_iter_examples(folder: Path, split: str) -> dict[str, float]:
    """Read all rows as a plain stream, whose opening is part of the pass."""
    from personamem_builder import iter_examples

    start = time.perf_counter()
    messages = sum(len(row["context"]) for row in iter_examples(split, data=folder))
    return {"open_s": 0.0, "pass_s": time.perf_counter() - start, "messages": messages}


def pass_materialised(file: Path) -> dict[str, float]:
    """Read all rows of a materialised file."""
    import pyarrow.parquet as pq

    start = time.perf_counter()
    messages = 0
    parquet = pq.ParquetFile(file, memory_map=True)
    opened = time.perf_counter()
    for batch in parquet.iter_batches(batch_size=1):
        row = batch.drop_columns(["context"]).to_pylist()[0]
        context = batch["context"].flatten()
        columns = (context.field(name).to_pylist() for name in ("role", "content"))
        row["context"] = [{"role": role, "content": content} for role, content in zip(*columns, strict=True)]
        messages += len(row["context"])
    return {"open_s": opened - start, "pass_s": time.perf_counter() - opened, "messages": messages}


def pass_materialised_stream(file: Path) -> dict[str, float]:
    """Stream all rows of a materialised file through `datasets`: not streamed, it would be copied into the cache."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    start = time.perf_counter()
    rows = datasets.load_dataset("parquet", data_files=str(file), split="train", streaming=True)
    opened = time.perf_counter()
    messages = sum(len(row["context"]) for row in rows)
    return {"open_s": opened - start, "pass_s": time.perf_counter() - opened, "messages": messages}


if __name__ == "__main__":
    main()
