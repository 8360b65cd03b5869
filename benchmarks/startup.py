"""Start of the command line, and of the package, against the bare interpreter.

Each run is a new process: `personamem --help`, `python -c "import personamem_builder"` and `python -c pass`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from support.measure import Target, argument_parser, conclude, interleave, median_ratio, print_table


def main() -> None:
    """Measure and print."""
    args = argument_parser(__doc__).parse_args()
    rounds = 15 if args.quick else 40
    script = Path(sys.executable).with_name("personamem")
    help_command = (
        [str(script), "--help"]
        if script.exists()
        else [sys.executable, "-c", "from personamem_builder.cli import main; main()", "--help"]
    )
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import personamem_builder": [sys.executable, "-c", "import personamem_builder"],
        "personamem --help": help_command,
    }
    for command in commands.values():
        time_process(command)  # fills the caches of the disk and of byte code
    seconds = interleave({name: partial(time_process, command) for name, command in commands.items()}, rounds)

    print(f"personamem is run as {'its console script' if script.exists() else 'python -c'}")
    base = seconds["python -c pass"]
    print_table(
        f"{rounds} rounds, interleaved",
        ["process", "median ms", "min ms", "ratio"],
        [
            [name, f"{statistics.median(v) * 1e3:.0f}", f"{min(v) * 1e3:.0f}", f"{median_ratio(v, base):.2f}"]
            for name, v in seconds.items()
        ],
    )
    ratio = median_ratio(seconds["personamem --help"], base)
    conclude(args, [Target("personamem --help / python -c pass", ratio, 6, "x")], {"seconds": seconds})


def time_process(command: Sequence[str]) -> float:
    """Run a command to its end."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
