r"""Evaluate a model in parts on the GPUs of a Ray cluster, one part at a time on each, then merge.

Needs: `pip install 'personamem[eval,hf]' ray` on all nodes; a file system that all nodes see, with the dataset; a
running cluster (`ray start`), or one machine, where Ray is started here. Not run on a cluster yet: it was run on one
machine, with `--gpus-each 0`.

    python examples/scale/ray_eval.py --out results --parts 16 -- \
        --tasks personamem_32k --model hf-prefix --model_args pretrained=MODEL,dtype=bfloat16 --apply_chat_template

What stands after `--` is what `personamem eval` takes. Parts that failed are named at the end; the same command asks
only what is missing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import ray
from ray.util import ActorPool


@ray.remote
class Worker:
    """Has a GPU to itself, and runs one part after another on it."""

    def evaluate(self, arguments: list[str], shard: str) -> tuple[str, int]:
        """Run a part; return it with its exit status. What it printed is in the log of the part."""
        done = subprocess.run(["personamem", "eval", *arguments, "--shard", shard], check=False)
        return shard, done.returncode


def main() -> int:
    """Evaluate all parts and merge them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the results")
    parser.add_argument("--parts", type=int, required=True, help="number of parts: as many as GPUs, or some times that")
    parser.add_argument("--gpus-each", type=float, default=1, help="GPUs of a worker")
    parser.add_argument("--workers", type=int, help="number of workers [default: as many as the cluster has GPUs for]")
    parser.add_argument("arguments", nargs="+", help="those of personamem eval, after --")
    args = parser.parse_args()
    ray.init()
    workers = args.workers or int(ray.cluster_resources().get("GPU", 0) // (args.gpus_each or 1)) or 1
    folder = args.out.resolve() / "parts"
    arguments = [*args.arguments, "--output_path", str(folder)]
    pool = ActorPool([Worker.options(num_gpus=args.gpus_each).remote() for _ in range(workers)])
    shards = [f"{number}/{args.parts}" for number in range(1, args.parts + 1)]
    failed = []
    for shard, status in pool.map_unordered(lambda worker, shard: worker.evaluate.remote(arguments, shard), shards):
        print(f"part {shard}: {'done' if status == 0 else f'exit status {status}'}", file=sys.stderr)
        failed += [shard] if status else []
    if failed:
        print(f"not finished: {', '.join(failed)}; the same command asks only what is missing", file=sys.stderr)
        return 1
    return subprocess.run(["personamem", "merge", folder, "--out", args.out / "whole"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
