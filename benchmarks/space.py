"""How large a leaderboard is: `personamem space` for 20 models on three splits, and what it takes to write it.

    python benchmarks/space.py

The questions are made up, in contexts as long as those of the splits 32k, 128k and 1M. Each model scores full options
and also writes replies of 1,500 letters, so there are six tables; the viewer has three histories of each split. `--keep
FOLDER` leaves the Space there, to be looked at.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.made_up import make_context, make_question, make_words
from support.measure import Target, argument_parser, conclude, in_child, print_table

MODELS: Final = 20
DATE: Final = "2026-11-27T10-11-12.123456"
REPLY: Final = "so " * 490 + "the answer is "


class Size(NamedTuple):
    """A split: letters and messages of a context, and questions about each."""

    letters: int
    messages: int
    questions: int


SPLITS: Final = {"32k": Size(120_000, 240, 16), "128k": Size(500_000, 1000, 70), "1M": Size(4_200_000, 3600, 72)}
"""Of the size of `examples/full.yaml`; a token has about four letters."""


def write_data(folder: Path, contexts: int) -> dict[str, list[dict[str, Any]]]:
    """Write a dataset with so many contexts of each split, a persona each; return the questions."""
    import pyarrow as pa

    from generation.records import QUESTION_TYPES
    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.schema import QUESTION_SCHEMA

    rng = random.Random(7)
    words = make_words(rng)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SPLITS}

    def made() -> Iterator[tuple[str, dict[str, Any]]]:
        for name, size in SPLITS.items():
            for number in range(contexts):
                yield name, make_context(number, words, size.letters, size.messages)

    for name, row in made():
        for end in sorted(rng.randint(10, SPLITS[name].messages) for _ in range(SPLITS[name].questions)):
            kind, right = QUESTION_TYPES[len(rows[name]) % len(QUESTION_TYPES)], rng.randrange(4)
            changed = {"question_type": kind, "answer_index": right, "correct_answer": f"({'abcd'[right]})"}
            rows[name].append(make_question(len(rows[name]), row, end) | changed)
    tables = {name: [pa.Table.from_pylist(own, schema=QUESTION_SCHEMA)] for name, own in rows.items()}
    write_dataset(folder, tables, made(), Source("random words", "", "mit", "1.0.0", ""))
    return rows


def write_results(folder: Path, digest: str, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write what `personamem eval` leaves of 20 models, in two settings."""
    for number in range(MODELS):
        for kind in ("", "_generate"):
            own = folder / f"{number}{kind}"
            own.mkdir(parents=True)
            tasks = {f"personamem_{name}{kind}": name for name in rows}
            results = {
                "results": {},
                "configs": {t: {"test_split": s, "metadata": {"data_digest": digest}} for t, s in tasks.items()},
                "config": {"model": "hf", "model_args": {"pretrained": f"organisation/model-{number:02}-instruct"}},
            }
            (own / f"results_{DATE}.json").write_text(json.dumps(results), encoding="utf-8")
            with (own / f"predictions_{DATE}.jsonl").open("w", encoding="utf-8") as file:
                for task, name in tasks.items():
                    rng = random.Random(f"{number} {task}")
                    file.writelines(f"{json.dumps(answer(task, row, number, rng))}\n" for row in rows[name])


def answer(task: str, row: dict[str, Any], number: int, rng: random.Random) -> dict[str, Any]:
    """Answer a question, the better the lower the number of the model."""
    right = row["answer_index"]
    chosen = right if rng.random() < 0.8 - 0.025 * number else rng.randrange(4)
    letter, credit = "abcd"[chosen], float(chosen == right)
    line = {name: row[name] for name in ("question_id", "persona_id", "question_type", "shared_context_id")}
    line |= {"task": task, "answer": "abcd"[right], "n_options": 4, "skipped": False, "truncated": False}
    if task.endswith("_generate"):
        return line | {"response": REPLY + letter, "predictions": {"robust": letter}, "credits": {"robust": credit}}
    scores = [-20 - rng.expovariate(0.4) for _ in range(4)]
    scores[chosen] = max(scores) + rng.expovariate(1.2)
    both = ("acc", "acc_per_token")
    line |= {"option_logprobs": scores, "option_tokens": [20] * 4}
    return line | {"predictions": dict.fromkeys(both, letter), "credits": dict.fromkeys(both, credit)}


def make_space(out: str, data: str, results: str) -> tuple[float, dict[str, int]]:
    """Write the Space; return the seconds that it took, and its sizes."""
    import time

    from personamem_builder.results.runs import read_runs
    from personamem_builder.space.write import SpaceRequest, write_space

    start = time.perf_counter()
    size = write_space(Path(out), Path(data), read_runs([Path(results)]).runs, SpaceRequest("Made-up models"))
    return time.perf_counter() - start, size._asdict()


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the Space there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_data(folder / "personamem", 6 if args.quick else 20)
        digest = json.loads((folder / "personamem" / "manifest.json").read_text(encoding="utf-8"))["digest"]
        write_results(folder / "results", digest, rows)
        out = args.keep or folder / "space"
        child = in_child(make_space, str(out), str(folder / "personamem"), str(folder / "results"))
    show(args, *child.result, child.rss_mb)


def show(args: argparse.Namespace, seconds: float, sizes: dict[str, int], memory: float) -> None:
    """Print the table and the targets."""
    print_table(
        "Space",
        ["", "all MB", "viewer MB", "first page kB", "files", "seconds", "peak MB"],
        [
            [
                f"{MODELS} models, {len(SPLITS)} splits, 2 settings",
                f"{sizes['size'] / 1e6:.1f}",
                f"{sizes['viewer'] / 1e6:.1f}",
                f"{sizes['first_page'] / 1e3:.0f}",
                str(sizes["files"]),
                f"{seconds:.1f}",
                f"{memory:.0f}",
            ]
        ],
    )
    targets = [
        Target("all files", sizes["size"] / 1e6, 30, "MB"),
        Target("first page", sizes["first_page"] / 1e6, 1, "MB"),
    ]
    conclude(args, targets, {"seconds": seconds, "bytes": sizes})


if __name__ == "__main__":
    main()
