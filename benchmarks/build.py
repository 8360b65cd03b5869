"""What assembling and building examples/full.yaml costs, against encoding its distinct texts once with tiktoken.

    python benchmarks/build.py

For 5, 10 and 20 personas, in one process and in two: seconds, memory of the main process, size on disk; then a full
lazy pass over the generated 1M split. tiktoken encodes in one thread, in turn with ours, three times each: figures are
medians. Memory grows until the row groups of the three splits are full (32 MiB of distinct text each), which those of
1M are with about twenty personas, and no further.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from support.measure import Child, Target, argument_parser, conclude, in_child, print_table
from support.runs import generate_run

SPLITS = ("32k", "128k", "1M")
ROUNDS = 3


def make_run(folder: str, personas: int) -> None:
    """Generate the run."""
    generate_run(Path(folder) / "run", workers=2, personas=personas)


def assemble_and_build(folder: str, workers: int) -> tuple[float, float, dict[str, Any]]:
    """Assemble and build all splits; return the seconds of each and the manifest."""
    from generation.store import RunStore
    from personamem_builder.assemble.assemble import assemble
    from personamem_builder.assemble.sizes import chosen_sizes
    from personamem_builder.build.from_run import build

    store = RunStore(Path(folder) / "run")
    start = time.perf_counter()
    assemble(store, chosen_sizes(SPLITS, None, None), n_variants=2, workers=workers)
    middle = time.perf_counter()
    manifest = build(store, Path(folder) / "personamem", replace=True, workers=workers)
    return middle - start, time.perf_counter() - middle, manifest


def encode(folder: str) -> tuple[float, int]:
    """Encode each distinct text of a run once; return the seconds, and the zstd size of texts and questions."""
    import pyarrow as pa

    from generation.records import Filler, Question, Session
    from generation.store import RunStore
    from generation.tokenizer import load_encoding

    store = RunStore(Path(folder) / "run")
    texts = {m.content: None for s in store.read("sessions", Session) for m in s.messages}
    texts |= {m.content: None for f in store.read("fillers", Filler) for m in f.messages}
    questions = list(store.read("questions", Question))
    size = len(pa.compress("\n".join(texts).encode(), codec="zstd", asbytes=True))
    size += len(pa.compress("\n".join(q.model_dump_json() for q in questions).encode(), codec="zstd", asbytes=True))
    texts |= {question.message: None for question in questions}
    encoding, _ = load_encoding()
    start = time.perf_counter()
    for text in texts:
        encoding.encode_ordinary(text)
    return time.perf_counter() - start, size


def lazy_pass(folder: str) -> tuple[float, int]:
    """Read every row of the 1M split with its context; return the seconds and the number of rows."""
    from personamem_builder import load_dataset

    start = time.perf_counter()
    rows = load_dataset("1M", data=Path(folder) / "personamem")
    messages = sum(len(row["context"]) for row in rows)
    assert messages > 0
    return time.perf_counter() - start, len(rows)


def measure(folder: str, workers: int) -> dict[str, Any]:
    """Return the figures of a run in so many processes."""
    encoded: list[tuple[float, int]] = []
    made: list[Child] = []
    for _ in range(ROUNDS):
        encoded.append(in_child(encode, folder).result)
        made.append(in_child(assemble_and_build, folder, workers))
    lazy = in_child(lazy_pass, folder)
    disk = sum(path.stat().st_size for path in (Path(folder) / "personamem").rglob("*") if path.is_file())
    return {
        "tiktoken": median(seconds for seconds, _ in encoded),
        "assemble": median(run.result[0] for run in made),
        "build": median(run.result[1] for run in made),
        "rss_mb": max(run.rss_mb for run in made),
        "disk_mb": disk / 1e6,
        "distinct_zstd_mb": encoded[0][1] / 1e6,
        "lazy_seconds": lazy.result[0],
        "lazy_mb": lazy.private_mb,
        "rows": {name: split["questions"] for name, split in made[0].result[2]["splits"].items()},
    }


def cells(name: str, figure: dict[str, Any]) -> list[str]:
    """Return the cells of a line."""
    return [
        name,
        " / ".join(f"{count:,}" for count in figure["rows"].values()),
        f"{figure['tiktoken']:.1f}",
        f"{figure['assemble']:.1f} + {figure['build']:.1f}",
        f"{(figure['assemble'] + figure['build']) / figure['tiktoken']:.2f}",
        f"{figure['rss_mb']:.0f}",
        f"{figure['disk_mb']:.1f}",
        f"{figure['distinct_zstd_mb']:.1f}",
        f"{figure['lazy_seconds']:.1f}",
        f"{figure['lazy_mb']:.0f}",
    ]


def main() -> None:
    """Run the script."""
    arguments = argument_parser(__doc__).parse_args()
    sizes = (2, 4) if arguments.quick else (5, 10, 20)
    figures: dict[str, dict[str, Any]] = {}
    for personas in sizes:
        with tempfile.TemporaryDirectory() as folder:
            in_child(make_run, folder, personas)
            for workers in (1, 2):
                figures[f"{personas} personas, {workers} processes"] = measure(folder, workers)
    rows = [cells(name.replace(", 1 processes", ", 1 process"), figure) for name, figure in figures.items()]
    header = ["", "rows 32k / 128k / 1M", "tiktoken s", "assemble + build s", "ratio", "MB", "disk MB", "zstd MB"]
    print_table("Assembly and build", [*header, "lazy 1M s", "lazy MB"], rows)
    first, last = (figures[f"{personas} personas, 1 processes"] for personas in (sizes[0], sizes[-1]))
    both = figures[f"{sizes[-1]} personas, 2 processes"]
    ours = both["assemble"] + both["build"]
    growth = (last["assemble"] + last["build"]) / sizes[-1] / ((first["assemble"] + first["build"]) / sizes[0])
    conclude(
        arguments,
        [
            Target("assembly and build in two processes over tiktoken", ours / both["tiktoken"], 3, "times"),
            Target("memory", last["rss_mb"], 2000, "MB"),
            Target(f"time a persona, {sizes[-1]} against {sizes[0]}", growth, 1.2, ""),
            Target("disk over zstd of the distinct texts", last["disk_mb"] / last["distinct_zstd_mb"], 1.3, "times"),
            Target("lazy pass over 1M", last["lazy_seconds"], 6, "s"),
            Target("memory of the lazy pass", last["lazy_mb"], 700, "MB"),
        ],
        figures,
    )


if __name__ == "__main__":
    main()
