"""What `personamem report` costs: seconds of text, page and plots, for 6,000 questions answered by 5 models.

    python benchmarks/report.py

The questions are made up: 20 personas, seven types, distances, updates, roles of options. Three models give
log-probabilities of the options and two give letters; each also ran without context, and one more on a part. All is
read from files, as `personamem eval` leaves them, and each report is made in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.made_up import SPLIT, write_made_up
from support.measure import Child, Target, argument_parser, conclude, in_child, interleave, print_table, spread

QUESTIONS = 6000
MODELS = ("gold/seven-letters-70B", "tin/small-1B-instruct", "zinc/old-8B", "chat-large", "chat-small")
WRITING = ("chat-large", "chat-small")
DATE = "2026-11-27T10-11-12.123456"
FORMATS = {"text": (), "json": ("--json",), "page": ("--html", "report.html"), "plots": ("--plots", "plots")}


def run_report(folder: str, options: tuple[str, ...]) -> float:
    """Make a report in a folder; return the seconds that it took."""
    import os
    import time
    from contextlib import redirect_stdout
    from io import StringIO

    from personamem_builder.cli.report import report

    os.chdir(folder)
    start = time.perf_counter()
    with redirect_stdout(StringIO()):
        report(["results", *options, "--compare", MODELS[0], MODELS[1]], standalone_mode=False)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    args = argument_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), QUESTIONS // 6 if args.quick else QUESTIONS)
        children = interleave(
            {name: lambda options=options: in_child(run_report, folder, options) for name, options in FORMATS.items()},
            1 if args.quick else 3,
        )
        sizes = {
            "page": (Path(folder) / "report.html").stat().st_size,
            "plots": sum(path.stat().st_size for path in (Path(folder) / "plots").iterdir()),
        }
    show(args, children, sizes)


def show(args: argparse.Namespace, children: dict[str, list[Child]], sizes: dict[str, int]) -> None:
    """Print the table and the targets."""
    seconds = {name: [child.result for child in runs] for name, runs in children.items()}
    print_table(
        "Report",
        ["", "median s", "min s", "max s", "peak MB", "files kB"],
        [
            [
                name,
                *spread(own),
                f"{statistics.median(child.rss_mb for child in children[name]):.0f}",
                f"{sizes[name] / 1000:.0f}" if name in sizes else "-",
            ]
            for name, own in seconds.items()
        ],
    )
    conclude(
        args,
        [Target(f"report as {name}", statistics.median(own), 30, "s") for name, own in seconds.items()],
        {"seconds": seconds, "bytes": sizes},
    )


# ---- data


def write(folder: Path, count: int) -> None:
    """Write a dataset and the results of five models on it."""
    from personamem_builder.manifest import read_manifest

    write_made_up(folder / "personamem", contexts=20, letters=20_000, messages=100, questions=count)
    rows = enrich(folder / "personamem")
    digest = read_manifest(folder / "personamem")["digest"]
    for number, model in enumerate(MODELS):
        task = f"personamem_{SPLIT}" + ("_generate" if model in WRITING else "")
        skill = 0.7 - 0.1 * number
        write_results(folder / "results" / f"whole{number}", model, folder / "personamem", digest, task, rows, skill)
        bare = f"{task}_nocontext"
        write_results(folder / "results" / f"bare{number}", model, folder / "personamem", digest, bare, rows, 0.28)
    part = rows[: max(2, count // 30)]
    task = f"personamem_{SPLIT}"
    write_results(folder / "results" / "part", "gold/part", folder / "personamem", digest, task, part, 0.5, len(part))


def enrich(folder: Path) -> list[dict[str, Any]]:
    """Give made-up questions what a report looks at, and write them back."""
    import pyarrow as pa

    from generation.records import QUESTION_TYPES
    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.dataset.check import read_questions
    from personamem_builder.dataset.contexts import iter_contexts
    from personamem_builder.dataset.folder import context_files
    from personamem_builder.schema import GENERATED_QUESTION_FIELDS, QUESTION_SCHEMA

    rng = random.Random(5)
    rows = read_questions(folder, SPLIT).to_pylist()
    for row in rows:
        right, distance = rng.randrange(4), rng.random()
        roles = rng.sample(["outdated", "never", "never"], 3)
        row |= {
            "question_type": rng.choice(QUESTION_TYPES),
            "topic": rng.choice(["travel", "music", "food", "films", "sport", "study"]),
            "context_length_in_tokens": 110_000,
            "distance_to_ref_in_tokens": int(distance * 110_000),
            "distance_to_ref_in_blocks": int(distance * 20),
            "distance_to_ref_proportion_in_context": distance,
            "answer_index": right,
            "correct_answer": f"({'abcd'[right]})",
            "option_states": [["x"], ["y"], ["z"], ["w"]],
            "option_roles": [*roles[:right], "current", *roles[right:]],
            "option_stereotypical": [i == 1 for i in range(4)],
            "updates_spanned": rng.randrange(4),
            "source_question_id": row["question_id"],
        }
    contexts = [(SPLIT, row) for row in iter_contexts(*context_files(folder, SPLIT))]
    schema = pa.schema([*QUESTION_SCHEMA, *GENERATED_QUESTION_FIELDS])
    source = Source(name="random words", url="", license="mit", version="1.0.0", fingerprint="")
    write_dataset(folder, {SPLIT: [pa.Table.from_pylist(rows, schema=schema)]}, contexts, source)
    return rows


def write_results(
    folder: Path,
    model: str,
    data: Path,
    digest: str,
    task: str,
    rows: list[dict[str, Any]],
    skill: float,
    limit: int | None = None,
) -> None:
    """Write what `personamem eval` leaves of a run."""
    folder.mkdir(parents=True)
    results = {
        "results": {},
        "configs": {task: {"test_split": SPLIT, "metadata": {"data": str(data), "data_digest": digest}}},
        "config": {"model": "hf", "model_args": {"pretrained": model}, "limit": limit},
    }
    (folder / f"results_{DATE}.json").write_text(json.dumps(results), encoding="utf-8")
    with (folder / f"predictions_{DATE}.jsonl").open("w", encoding="utf-8") as file:
        for line in predictions(model, task, rows, skill):
            file.write(json.dumps(line) + "\n")


def predictions(model: str, task: str, rows: list[dict[str, Any]], skill: float) -> Iterator[dict[str, Any]]:
    """Yield the answers of a model that is right with some probability, less so far from the evidence."""
    rng = random.Random(f"{model} {task}")
    for row in rows:
        right = row["answer_index"]
        chance = skill * (1.1 - 0.3 * row["distance_to_ref_proportion_in_context"])
        options = row.get("option_roles") or [""] * 4
        weights = [0.0 if i == right else {"outdated": 2.0}.get(options[i], 1.0) + (i == 0) for i in range(4)]
        chosen = right if rng.random() < chance else rng.choices(range(4), weights)[0]
        letter: str | None = "abcd"[chosen]
        line: dict[str, Any] = {
            "task": task,
            **{name: row[name] for name in ("question_id", "persona_id", "question_type", "shared_context_id")},
            "answer": "abcd"[right],
            "n_options": 4,
            "skipped": False,
            "truncated": False,
        }
        if "_generate" in task:
            letter = None if rng.random() < 0.02 else letter
            score = {"robust": float(letter == line["answer"])}
            yield line | {"response": "so", "predictions": {"robust": letter}, "credits": score}
        else:
            scores = [-20 - rng.expovariate(0.4) for _ in range(4)]
            scores[chosen] = max(scores) + rng.expovariate(1.2)
            credit = float(chosen == right)
            yield line | {
                "option_logprobs": scores,
                "option_tokens": [20] * 4,
                "predictions": {"acc": letter, "acc_per_token": letter},
                "credits": {"acc": credit, "acc_per_token": credit},
            }


if __name__ == "__main__":
    main()
