"""What a Ray cluster costs beside `--workers` on the same CPUs, for generation: by the work alone, and with its start.

python benchmarks/ray_overhead.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from support.measure import Target, argument_parser, conclude, in_child, print_table
from support.runs import generate_run

WORKERS = 2


def with_processes(folder: str, personas: int) -> float:
    """Generate a run in processes of this machine; return the seconds."""
    start = time.perf_counter()
    generate_run(Path(folder) / "processes", WORKERS, personas=personas)
    return time.perf_counter() - start


def with_ray(folder: str, personas: int) -> tuple[float, float]:
    """Generate the same run on a cluster of as many CPUs; return the seconds, and those that its start and end took."""
    from generation.ray_cluster import RayCluster, connected

    start = time.perf_counter()
    with connected(RayCluster(cpus=WORKERS)):
        begun = time.perf_counter()
        generate_run(Path(folder) / "ray", RayCluster(), personas=personas)
        ended = time.perf_counter()
    return ended - begun, (begun - start) + (time.perf_counter() - ended)


def main() -> None:
    """Run the script."""
    arguments = argument_parser(__doc__).parse_args()
    if find_spec("ray") is None:
        print("nothing was run: ray is not installed (pip install '.[ray]')")
        return
    personas, rounds = (2, 1) if arguments.quick else (20, 5)
    rows, processes, rays, starts = [], [], [], []
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            processes.append(in_child(with_processes, folder, personas).result)
            work, start = in_child(with_ray, folder, personas).result
            rays.append(work)
            starts.append(start)
            for stage in sorted((Path(folder) / "ray" / "stages").iterdir()):
                if stage.read_bytes() != (Path(folder) / "processes" / "stages" / stage.name).read_bytes():
                    raise SystemExit(f"{stage.name} is not the same")
        cells = [processes[-1], work, start]
        rows.append([f"round {number}", *(f"{seconds:.1f}" for seconds in cells), f"{work / processes[-1]:.2f}"])
    ratio = statistics.median(ray / alone for ray, alone in zip(rays, processes, strict=True))
    print_table(
        f"Generation of {personas} personas, {WORKERS} CPUs, seconds",
        ["", "--workers", "--ray", "start and end of Ray", "ratio"],
        rows,
    )
    conclude(
        arguments,
        [Target("--ray against --workers, without start and end of Ray", ratio, 1.15, "")],
        {"processes": processes, "ray": rays, "start": starts, "ratio": ratio},
    )


if __name__ == "__main__":
    main()
