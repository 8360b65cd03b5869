"""Damaged files of every kind, read by every command that reads the kind: none may do harm.

A command has to refuse a damaged file with `error:` and the name of the file, and leave nothing behind; or to take it
and change no input. It never shows a traceback, and takes less than 10 s of the processor and 1 GiB. The same seed
damages the same way:

    python benchmarks/fuzz_readers.py --seed 3 --cases 500 --only manifest

Exit 1 if a command did wrong; each fault comes with how to repeat it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzz.kinds import KINDS
from fuzz.run import cases, lay_out, read_all, to_text, undamaged
from fuzz.valid import served


def main() -> int:
    """Run the cases that the command line asks for, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="another seed damages otherwise")
    parser.add_argument("--cases", type=int, default=400, help="how many damaged files, of all kinds together")
    parser.add_argument("--only", action="append", choices=KINDS, default=[], help="only this kind (repeatable)")
    parser.add_argument("--case", type=int, help="with --only: this case alone, with all that was said")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="with --case: put the files there")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--quick", action="store_true", help="one case of each kind")
    parser.add_argument("--undamaged", action="store_true", help="read the valid files: all have to be taken")
    parser.add_argument(
        "--valid", type=Path, metavar="DIR", help="keep the valid files there, and find them there again"
    )
    args = parser.parse_args()
    count = len(KINDS) if args.quick else args.cases if args.case is None else args.case + 1
    wanted = undamaged(args.only) if args.undamaged else cases(args.seed, count, args.only)
    if args.case is not None:
        if len(args.only) != 1:
            parser.error("--case needs one --only")
        wanted = wanted[-1:]
    readings = []
    with tempfile.TemporaryDirectory(prefix="valid-") as temporary, served(Path(temporary), args.valid) as valid:
        if args.keep:
            lay_out(wanted[0], valid, args.keep)
            print(f"the files are in {args.keep}")
        of = sum(len(KINDS[case.kind].commands) for case in wanted)
        told = time.monotonic()
        for reading in read_all(wanted, valid, args.processes):
            readings.append(reading)
            if args.case is not None:
                print(f"\n$ personamem {reading.command.arguments}\n{reading.said[-4000:]}\nexit {reading.exit_code}")
            elif time.monotonic() - told > 10:
                told = time.monotonic()
                failed = sum(bool(reading.faults) for reading in readings)
                print(f"{len(readings)} of {of} readings, {failed} failed", file=sys.stderr, flush=True)
    print(to_text(readings))
    return int(any(reading.faults for reading in readings))


if __name__ == "__main__":
    sys.exit(main())
