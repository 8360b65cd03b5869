"""What generating examples/full.yaml costs: time and memory for 5, 10 and 20 personas, in one process and in two.

python benchmarks/generate.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from support.measure import Target, argument_parser, conclude, in_child, print_table
from support.runs import generate_run


def make(personas: int, workers: int) -> tuple[float, dict[str, int], float]:
    """Generate a run; return the seconds, the number of records of each stage, and the MB on disk."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        _, counts = generate_run(Path(folder) / "run", workers, personas=personas)
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in (Path(folder) / "run").rglob("*.jsonl"))
    return seconds, counts, size / 1e6


def main() -> None:
    """Run the script."""
    arguments = argument_parser(__doc__).parse_args()
    sizes = (1, 2, 4) if arguments.quick else (5, 10, 20)
    rows, figures = [], {}
    for personas in sizes:
        for workers in (1, 2):
            child = in_child(make, personas, workers)
            seconds, counts, megabytes = child.result
            figures[f"{personas} personas, {workers} workers"] = {"seconds": seconds, "mb": child.rss_mb, **counts}
            rows.append(
                [
                    f"{personas} personas, {workers} process{'es' if workers > 1 else ''}",
                    f"{counts['sessions']:,}",
                    f"{counts['questions']:,}",
                    f"{seconds:.1f}",
                    f"{seconds / personas:.2f}",
                    f"{child.rss_mb:.0f}",
                    f"{megabytes:.0f}",
                ]
            )
    print_table(
        "Generation",
        ["", "sessions", "questions", "seconds", "seconds a persona", "MB, main process", "MB on disk"],
        rows,
    )
    first, last = (figures[f"{personas} personas, 1 workers"] for personas in (sizes[0], sizes[-1]))
    per_persona = (last["seconds"] / sizes[-1]) / (first["seconds"] / sizes[0])
    whole = figures[f"{sizes[-1]} personas, 2 workers"]
    conclude(
        arguments,
        [
            Target(f"{sizes[-1]} personas, 2 processes", whole["seconds"], 300, "s"),
            Target(f"memory of {sizes[-1]} personas in one process", last["mb"], 1500, "MB"),
            Target(f"time a persona, {sizes[-1]} against {sizes[0]} personas", per_persona, 1.2, ""),
        ],
        figures,
    )


if __name__ == "__main__":
    main()
