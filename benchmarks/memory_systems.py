"""The memory systems that `personamem memory setup` installs, with models by rule on this machine: do they conform?

    personamem memory setup langmem
    python benchmarks/memory_systems.py langmem

No yardstick, but a check: each system that is set up takes in made-up users through its own environment, asked for by
its own public API, with a language model and an embedding model that follow rules. It prints the report of
`personamem memory check` for each.
"""

from __future__ import annotations

import json
import os
from typing import Any

from support.measure import argument_parser, print_table
from support.scripted_llm import scripted_models


def main() -> None:
    """Check and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("systems", nargs="*", help="only these")
    parser.add_argument("--embedder", help="a folder of a model of sentence-transformers in place of the one by rule")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds that one call may take (120)")
    args = parser.parse_args()
    from personamem_builder.memory.conformance import check_system
    from personamem_builder.memory.isolated.environments import isolated_systems, python_of

    os.environ["HF_HUB_OFFLINE"] = "1"  # no model is loaded by its name: asking the Hub for one may take a minute
    figures = {}
    with scripted_models() as url:
        for name in args.systems or isolated_systems():
            if python_of(name) is None:
                print(f"{name}: not set up")
                continue
            settings: dict[str, Any] = {"model": "m", "base_url": url, "timeout": args.timeout}
            settings |= {"embedder": args.embedder} if args.embedder else {"embedder": "e", "embedder_url": url}
            verdicts = check_system(name, settings, args.timeout)
            print_table(name, ["check", "result", "what was found"], [list(verdict) for verdict in verdicts])
            figures[name] = [verdict._asdict() for verdict in verdicts]
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
