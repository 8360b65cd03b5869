"""A run of ever more users, made in shards of 50: seconds a user, and the peak memory of each step.

Users have one topic, two short sessions and few questions, so that a thousand of them take minutes. A step runs in a
process of its own; `generate` makes the shards one after another, so its memory is that of one shard. Time a user
should not depend on how many there are, nor should the memory of generating.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from support.measure import Target, argument_parser, conclude, in_child, print_table

USERS = (100, 300, 1000)
QUICK = (20, 60)
SHARD = 50
SPLIT = "2blocks"
CONFIG = {
    "seed": 7,
    "topics": ["foodRecommendation"],
    "periods": 2,
    "items_per_topic": 3,
    "slots_per_topic": 2,
    "facts_per_topic": 1,
    "updates_per_topic": 2,
    "turns_per_session": {"min": 4, "max": 5},
    "fillers": 0,
}


def main() -> None:
    """Measure and print."""
    args = argument_parser(__doc__).parse_args()
    counts = QUICK if args.quick else USERS
    seconds: dict[str, list[float]] = {}
    peaks: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for count in counts:
            folder = Path(name) / str(count)
            folder.mkdir()
            for step, function in STEPS.items():
                done = in_child(function, folder, count, SHARD // 5 if args.quick else SHARD)
                seconds.setdefault(step, []).append(done.result / count)
                peaks.setdefault(step, []).append(done.private_mb)
    heads = ["users", *(f"{count:,}" for count in counts)]
    print_table("Milliseconds a user", heads, [[s, *(f"{1000 * v:.1f}" for v in own)] for s, own in seconds.items()])
    print_table("Peak of private memory, MB", heads, [[s, *(f"{v:,.0f}" for v in own)] for s, own in peaks.items()])
    targets = [
        Target(f"{step}: time a user, {counts[-1]:,} over {counts[0]:,} users", own[-1] / own[0], 1.10, "times")
        for step, own in seconds.items()
    ]
    grown = peaks["generate"][-1] / peaks["generate"][0]
    targets.append(Target(f"generate: memory, {counts[-1]:,} over {counts[0]:,} users", grown, 1.10, "times"))
    conclude(args, targets, {"users": list(counts), "seconds_a_user": seconds, "private_mb": peaks})


def generate(folder: Path, count: int, shard: int) -> float:
    """Make the run in shards of so many users; return the seconds."""
    from generation.banks.load import load_banks
    from generation.config import Config
    from generation.run_inputs import RunInputs
    from generation.sharded_run import make_shards

    config = Config.model_validate({**CONFIG, "personas": count})
    work = RunInputs(config, load_banks(config))
    started = time.perf_counter()
    for _ in make_shards(work, folder / "run", max(1, count // shard)):
        pass
    return time.perf_counter() - started


def assemble(folder: Path, count: int, shard: int) -> float:
    """Put the contexts together; return the seconds."""
    from generation.store import RunStore
    from personamem_builder.assemble.assemble import assemble as assemble_run
    from personamem_builder.assemble.sizes import chosen_sizes

    started = time.perf_counter()
    assemble_run(RunStore(folder / "run"), chosen_sizes((), "2", None), 1, 1)
    return time.perf_counter() - started


def build(folder: Path, count: int, shard: int) -> float:
    """Write the dataset, without an audit; return the seconds."""
    from generation.store import RunStore
    from personamem_builder.build.from_run import build as build_dataset

    started = time.perf_counter()
    build_dataset(RunStore(folder / "run"), folder / "personamem")
    return time.perf_counter() - started


def audit(folder: Path, count: int, shard: int) -> float:
    """Audit the dataset; return the seconds."""
    from personamem_builder.audit.audit import audit as audit_dataset
    from personamem_builder.audit.gates import read_gates

    started = time.perf_counter()
    audit_dataset(folder / "personamem", [SPLIT], read_gates(None))
    return time.perf_counter() - started


STEPS: dict[str, Callable[[Path, int, int], float]] = {
    "generate": generate,
    "assemble": assemble,
    "build": build,
    "audit": audit,
}


if __name__ == "__main__":
    main()
