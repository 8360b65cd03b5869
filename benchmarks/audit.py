"""What `personamem audit` costs on the official questions: seconds, memory, and how the seconds grow with questions.

    python benchmarks/audit.py

Each round audits all questions, and every second one, each in a process of its own. The clock starts when a split is
read, and stops when its audit is JSON. How the time grows is told by the seconds of all processors: what else a machine
does changes them less. Of 32k the contexts are read too, of 128k and 1M the questions alone. Where the official files
are absent, a dataset folder of random words stands in for them.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from support.made_up import write_made_up
from support.measure import (
    OFFICIAL,
    Child,
    Target,
    argument_parser,
    conclude,
    in_child,
    interleave,
    median_ratio,
    print_table,
    spread,
)

QUESTIONS = 5990


class Cost(NamedTuple):
    """What an audit of so many questions took: seconds of the clock, and of all processors."""

    questions: int
    seconds: float
    cpu_seconds: float


def run_audit(path: str, names: tuple[str, ...], step: int) -> dict[str, Cost]:
    """Audit every step-th question of some splits; return what each took."""
    from personamem_builder.audit.audit import audit_splits
    from personamem_builder.audit.gates import read_gates
    from personamem_builder.audit.inputs import read_splits
    from personamem_builder.audit.render import to_json

    costs = {}
    for name in names:
        start, cpu_start = time.perf_counter(), time.process_time()
        [split] = read_splits(Path(path), [name])
        rows = split.rows[::step]
        to_json(audit_splits([dataclasses.replace(split, rows=rows)], read_gates()))
        costs[name] = Cost(len(rows), time.perf_counter() - start, time.process_time() - cpu_start)
    return costs


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--release", type=Path, default=OFFICIAL, help="folder with the files of the official release")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, names = args.release, ("32k", "128k", "1M")
        if not (path / "questions_32k.csv").is_file():
            print(f"the official files are absent ({path}): measuring a folder of random words instead")
            path, names = Path(folder) / "personamem", ("128k",)
            write_made_up(path, contexts=20, letters=400_000, messages=400, questions=600 if args.quick else QUESTIONS)
        elif args.quick:
            names = ("32k",)
        children = interleave(
            {
                "all questions": lambda: in_child(run_audit, str(path), names, 1),
                "every second": lambda: in_child(run_audit, str(path), names, 2),
            },
            1 if args.quick else 3,
        )
    report(args, names, children)


def report(args: argparse.Namespace, names: tuple[str, ...], children: dict[str, list[Child]]) -> None:
    """Print the tables and the targets."""
    sides = {
        side: [{**run.result, "together": together(run.result)} for run in runs] for side, runs in children.items()
    }
    print_table(
        "Audit",
        ["", "questions", "median s", "min s", "max s", "CPU s", "CPU ms a question"],
        [
            [f"{name}, {side}", *cells([costs[name] for costs in runs])]
            for side, runs in sides.items()
            for name in (*names, "together")
        ],
    )
    whole, half = ([costs["together"] for costs in sides[side]] for side in ("all questions", "every second"))
    memory = statistics.median(run.rss_mb for run in children["all questions"])
    growth = median_ratio([cost.cpu_seconds for cost in whole], [cost.cpu_seconds for cost in half])
    conclude(
        args,
        [
            Target(f"audit of {whole[0].questions:,} questions", statistics.median(c.seconds for c in whole), 90, "s"),
            Target("peak memory, libraries included", memory, 2000, "MB"),
            Target(
                "CPU time a question, all against half", growth * half[0].questions / whole[0].questions, 1.2, "times"
            ),
        ],
        {
            side: [
                {"rss_mb": child.rss_mb, "splits": {name: cost._asdict() for name, cost in costs.items()}}
                for child, costs in zip(children[side], runs, strict=True)
            ]
            for side, runs in sides.items()
        },
    )


def together(costs: Mapping[str, Cost]) -> Cost:
    """Return the sum of what some splits took."""
    counts, seconds, cpu_seconds = zip(*costs.values(), strict=True)
    return Cost(sum(counts), sum(seconds), sum(cpu_seconds))


def cells(costs: Sequence[Cost]) -> list[str]:
    """Return the cells of a line: the same audit in every round."""
    cpu_seconds = statistics.median(cost.cpu_seconds for cost in costs)
    return [
        f"{costs[0].questions:,}",
        *spread([cost.seconds for cost in costs]),
        f"{cpu_seconds:.2f}",
        f"{1000 * cpu_seconds / costs[0].questions:.2f}",
    ]


if __name__ == "__main__":
    main()
