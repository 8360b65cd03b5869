"""Peak memory of writing, checking and reading a dataset of several files a table, at 1, 2, 4 and 8 times the rows.

Each figure is that of a process of its own. Files, and with them row groups, end after a few MB, so that already the
smallest dataset has several. `write` is `write_dataset` fed context by context, `check` what every reader does first,
`iter_examples` and `datasets` a pass over all rows with their contexts, `export` and `materialise` the commands' own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lazy_contexts import pass_datasets, pass_iter_examples, time_materialise
from support.made_up import SPLIT, write_made_up
from support.measure import Target, argument_parser, conclude, in_child, print_table

SIZE = {"contexts": 200, "letters": 200_000, "messages": 100, "questions": 20_000}
FILE_LIMIT = 4 * 10**6
SMALLER = 5
"""What sizes are divided by with --quick."""

TIMES = (1, 2, 4, 8)
GROWTH = 1.25
"""The most that memory may grow from the smallest dataset to the largest, as a factor: ids are kept of all rows."""


def main() -> None:
    """Measure and print."""
    args = argument_parser(__doc__).parse_args()
    scales = TIMES[:: len(TIMES) - 1] if args.quick else TIMES
    peaks: dict[str, list[float]] = {}
    files = []
    with tempfile.TemporaryDirectory() as name:
        for times in scales:
            folder = Path(name) / str(times)
            folder.mkdir()
            for side, (function, *arguments) in sides(folder, times, SMALLER if args.quick else 1).items():
                peaks.setdefault(side, []).append(in_child(function, *arguments).private_mb)
            files.append(len(list((folder / "personamem" / "data").iterdir())))
    rows = [[side, *(f"{peak:,.0f}" for peak in own)] for side, own in peaks.items()]
    print_table("Peak of private memory, MB", ["rows", *(f"{times}x" for times in scales)], rows)
    print(f"files: {', '.join(map(str, files))}")
    targets = [
        Target(f"{side}: {TIMES[-1]}x over 1x", own[-1] / own[0], GROWTH, "times") for side, own in peaks.items()
    ]
    conclude(args, targets, {"private_mb": peaks, "files": files})


def sides(folder: Path, times: int, smaller: int) -> dict[str, tuple[Callable[..., Any], *tuple[Any, ...]]]:
    """Return what is measured, in the order in which it must run: a function and its arguments."""
    data = folder / "personamem"
    size = {key: SIZE[key] // smaller * times for key in ("contexts", "questions")}
    shape = {key: SIZE[key] for key in ("letters", "messages")}
    return {
        "write": (write, data, size | shape, FILE_LIMIT // smaller),
        "check": (check, data),
        "iter_examples": (pass_iter_examples, data, SPLIT),
        "datasets": (pass_datasets, data, SPLIT),
        "export": (export, data, folder / "release"),
        "materialise": (time_materialise, data, SPLIT, folder / "materialised.parquet"),
    }


def write(folder: Path, size: dict[str, int], file_limit: int) -> None:
    """Write the made-up dataset."""
    write_made_up(folder, **size, file_limit=file_limit)


def check(folder: Path) -> None:
    """Check the questions and the form of the contexts."""
    from personamem_builder.dataset.check import check_questions

    check_questions(folder, SPLIT)


def export(folder: Path, out: Path) -> None:
    """Write the files of the official release."""
    from personamem_builder.build.export import export_release

    export_release(folder, out)


if __name__ == "__main__":
    main()
