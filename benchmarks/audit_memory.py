"""What an audit of many questions needs of memory: is the peak flat beyond the sample that the probes learn from?

    python benchmarks/audit_memory.py

The datasets are one generated dataset, many times over: each copy has personas, contexts and ids of its own. They are
read from Parquet as any other. Each is audited in a process of its own, whose whole memory is watched, libraries
included. Probes are trained on a sample of fewer questions than usual, so that two datasets are larger; the growth
between these two has the target.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from support.measure import Target, argument_parser, conclude, in_child, print_table

SPLIT = "32k"


class Size(NamedTuple):
    """How many questions are audited, and on how many the probes are trained."""

    questions: int
    sample: int


SIZES = (Size(2_000, 5_000), Size(8_000, 5_000), Size(32_000, 5_000))
QUICK_SIZES = (Size(300, 200), Size(600, 200))


def main() -> None:
    """Measure and print."""
    args = argument_parser(__doc__).parse_args()
    sizes = QUICK_SIZES if args.quick else SIZES
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary) / "base"
        in_child(make_base, str(base))
        for size in sizes:
            folder = Path(temporary) / str(size.questions)
            in_child(repeat, str(base / "personamem"), str(folder), size.questions)
            found.append(in_child(run_audit, str(folder), size.sample))
    print_table(
        "Audit",
        ["questions", "personas", "sample", "peak MB", "of its own", "s"],
        [
            [
                f"{child.result['questions']:,}",
                f"{child.result['personas']:,}",
                f"{child.result['sample']:,}",
                f"{child.rss_mb:,.0f}",
                f"{child.private_mb:,.0f}",
                f"{child.result['seconds']:.0f}",
            ]
            for child in found
        ],
    )
    growth = found[-1].rss_mb / found[-2].rss_mb
    target = Target(f"peak of {sizes[-1].questions:,} to {sizes[-2].questions:,} questions", growth, 1.2, "x")
    conclude(args, [target], {"audits": [vars(child) for child in found]})


def make_base(folder: str) -> None:
    """Generate, assemble and build the dataset that is repeated, in a folder `personamem`."""
    from support.measure import REPOSITORY
    from support.runs import generate_run

    from personamem_builder.assemble.assemble import assemble
    from personamem_builder.assemble.sizes import chosen_sizes
    from personamem_builder.build.from_run import build

    store, _ = generate_run(Path(folder) / "run", 1, REPOSITORY / "examples" / "tiny.yaml")
    assemble(store, chosen_sizes([SPLIT], None, None), 2, 1)
    build(store, Path(folder) / "personamem")


def repeat(base: str, folder: str, questions: int) -> None:
    """Write a dataset folder with so many questions: those of another one, and their contexts, again and again."""
    import pyarrow as pa

    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.dataset.check import read_questions
    from personamem_builder.dataset.contexts import iter_contexts
    from personamem_builder.table_files import contexts_path

    rows = read_questions(Path(base), SPLIT)
    contexts: list[Any] = list(iter_contexts(Path(base) / contexts_path(SPLIT)))
    personas = 1 + max(context["persona_id"] for context in contexts)
    copies = range(-(-questions // len(rows)))

    def repeated() -> Iterator[tuple[str, Any]]:
        for copy in copies:
            for context in contexts:
                changed = _renamed(context, copy, personas, "shared_context_id")
                yield SPLIT, changed

    tables = [
        pa.Table.from_pylist(
            [_renamed(row, copy, personas, "shared_context_id", "question_id") for row in rows.to_pylist()],
            schema=rows.schema,
        )
        for copy in copies
    ]
    write_dataset(
        Path(folder),
        {SPLIT: [pa.concat_tables(tables).slice(0, questions).combine_chunks()]},
        repeated(),
        Source(name="one dataset again and again", url="", license="mit", version="1.0.0", fingerprint=""),
    )


def _renamed(row: dict[str, Any], copy: int, personas: int, *ids: str) -> dict[str, Any]:
    """Return a row of a copy: its ids begin with the number of the copy, so that their order stays."""
    return {
        **row,
        "persona_id": row["persona_id"] + copy * personas,
        **{name: f"{copy:06}-{row[name]}" for name in ids},
    }


def run_audit(folder: str, sample: int) -> dict[str, Any]:
    """Audit a dataset folder; return how large it is and how long that took."""
    from personamem_builder.audit.audit import audit_splits
    from personamem_builder.audit.gates import read_gates
    from personamem_builder.audit.inputs import read_splits
    from personamem_builder.audit.render import to_json

    started = time.perf_counter()
    found = to_json(audit_splits(read_splits(Path(folder)), read_gates(), most_probed=sample))
    [split] = found["splits"]
    probed = next(one["n"] for one in split["findings"] if one["check"] == "probe.words")
    return {
        "questions": split["questions"],
        "personas": split["personas"],
        "sample": probed,
        "seconds": time.perf_counter() - started,
    }


if __name__ == "__main__":
    main()
