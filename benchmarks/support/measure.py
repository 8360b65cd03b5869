"""What the benchmarks share: interleaved rounds, the memory of child processes, targets, tables and JSON."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

REPOSITORY = Path(__file__).resolve().parents[2]
OFFICIAL = REPOSITORY.parent / "shared" / "data" / "personamem_v1"
"""Where the official files are, if they are there."""
FULL_CONFIG = REPOSITORY / "examples" / "full.yaml"
MB = 1e6

T = TypeVar("T")


@dataclass(frozen=True)
class Child:
    """What a function did in a process of its own.

    Attributes:
        private_mb: Peak of the memory that is the process's alone: mapped files do not count. Where there is no
            `/proc` it is the peak of the whole memory.
        rss_mb: Peak of the whole memory.
    """

    result: Any
    private_mb: float
    rss_mb: float


@dataclass(frozen=True)
class Target:
    """A figure that the project promises: the median found, and the most that it may be."""

    what: str
    measured: float
    limit: float
    unit: str


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller data; ends in under 45 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure of every round to FILE")
    return parser


def add_release(parser: argparse.ArgumentParser) -> None:
    """Add `--release`: by default the official files where they are, else the excerpt in `examples/`."""
    default = OFFICIAL if OFFICIAL.is_dir() else REPOSITORY / "examples" / "official_excerpt"
    parser.add_argument("--release", type=Path, default=default, help="folder with the release files of the 32k split")


def release_arguments(description: str | None) -> argparse.Namespace:
    """Return the arguments of a benchmark whose only flag of its own is `--release`."""
    parser = argument_parser(description)
    add_release(parser)
    return parser.parse_args()


def interleave(sides: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every side once a round, in turn, so that what else the machine does hits all of them alike."""
    results: dict[str, list[T]] = {name: [] for name in sides}
    for number in range(1, rounds + 1):
        print(f"round {number}/{rounds}", file=sys.stderr)
        for name, run in sides.items():
            results[name].append(run())
    return results


def median_ratio(side: Sequence[float], base: Sequence[float]) -> float:
    """Return the median, over the rounds, of a side's figure divided by the base's of the same round."""
    return statistics.median(a / b for a, b in zip(side, base, strict=True))


def spread(figures: Sequence[float], form: str = ".2f") -> list[str]:
    """Return the cells of figures of several rounds: their median, the least and the most."""
    return [f"{figure:{form}}" for figure in (statistics.median(figures), min(figures), max(figures))]


def in_child(function: Callable[..., Any], *arguments: Any) -> Child:
    """Call a module-level function in a fresh interpreter and watch its memory from here, every 2 ms.

    The calling script is imported there: heavy imports at its top would count.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, function, arguments))
    process.start()
    sender.close()
    private = 0.0
    while process.is_alive():
        private = max(private, _status_mb("RssAnon", process.pid))
        time.sleep(0.002)
    if process.exitcode != 0:
        raise SystemExit(f"{function.__name__} failed in its process")
    result, rss = receiver.recv()
    return Child(result, private or rss, rss)


def _report(sender: Connection, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    result = function(*arguments)
    # Linux starts `ru_maxrss` of a new process at its parent's peak; VmHWM is the process's own.
    sender.send((result, _status_mb("VmHWM", os.getpid()) or _max_rss_mb()))


def _status_mb(field: str, pid: int | None) -> float:
    """Return a field of `/proc/PID/status` in MB; 0 where there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / MB for line in lines if line.startswith(f"{field}:")), 0.0)


def _max_rss_mb() -> float:
    import resource  # absent from Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB


def can_run_models() -> bool:
    """Say whether what runs a model is installed, and print what is missing."""
    missing = [name for name in ("torch", "transformers", "accelerate", "lm_eval") if find_spec(name) is None]
    if missing:
        print(f"\nnothing was run: {', '.join(missing)} not installed (pip install '.[hf]')")
    return not missing


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}")
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [
            f"{row[0]:<{widths[0]}}",
            *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        print("  ".join(cells).rstrip())


def conclude(args: argparse.Namespace, targets: Sequence[Target], figures: Mapping[str, Any]) -> None:
    """Print the targets and, where asked, write JSON: the targets, and the figures of every round."""
    print_table(
        "Targets",
        ["figure", "measured", "target", ""],
        [
            [
                target.what,
                f"{target.measured:,.2f} {target.unit}",
                f"<= {target.limit:,g} {target.unit}",
                "met" if target.measured <= target.limit else "MISSED",
            ]
            for target in targets
        ],
    )
    machine = {"python": platform.python_version(), "system": platform.system(), "cpus": os.cpu_count()}
    print(f"\nPython {machine['python']}, {machine['system']}, {machine['cpus']} CPUs; figures are medians")
    if args.json:
        report = {
            "benchmark": Path(sys.argv[0]).stem,
            "quick": args.quick,
            "machine": machine,
            "targets": [asdict(target) for target in targets],
            "figures": figures,
        }
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
