"""`personamem annotate`: a sample of questions for people to rate."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.options import (
    PATH,
    chosen_split,
    dataset_argument,
    dataset_folder,
    next_step,
    note,
    split_option,
)


@click.command(
    short_help="Draw questions for people to rate, with a sheet to rate them on.",
    epilog="Example: personamem annotate personamem --sample 90 --per-topic 5 --out study",
)
@dataset_argument
@split_option
@click.option(
    "--sample", "size", type=click.IntRange(min=1), default=90, show_default=True, help="How many questions to draw."
)
@click.option("--per-topic", type=click.IntRange(min=1), help="Draw at most so many from a topic.")
@click.option("--per-type", type=click.IntRange(min=1), help="Draw at most so many of a question type.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed draws other questions.")
@click.option("--out", type=PATH, required=True, help="The folder to make.")
def annotate(
    folder: Path | None,
    split: str | None,
    size: int,
    per_topic: int | None,
    per_type: int | None,
    seed: int,
    out: Path,
) -> None:
    """Draw questions of a dataset FOLDER for people to rate: is the benchmark right?

    The sample is balanced over the seven question types, and then over topics. The folder --out gets sheet.html, a page
    that works without a network; key.json, which the raters do not get; items.jsonl; and imports for Label Studio and
    for potato. FOLDER is by default PERSONAMEM_DATA, then ./personamem.
    """
    from collections import Counter

    from personamem_builder.annotation.items import make_items, read_split
    from personamem_builder.annotation.sample import draw_sample
    from personamem_builder.annotation.write import KEY, write_study
    from personamem_builder.manifest import read_manifest

    folder = dataset_folder(folder)
    split = chosen_split(folder, split)
    rows = draw_sample(read_split(folder, split), size, per_topic=per_topic, per_type=per_type, seed=seed)
    items = make_items(folder, split, rows)
    source = f"{folder.resolve().name} {split}"
    write_study(out, items, source=source, split=split, data_digest=read_manifest(folder)["digest"], seed=seed)
    if len(rows) < size:
        note(f"{len(rows)} of {size} questions: the split, or a limit, allows no more")
    types = Counter(row["question_type"] for row in rows)
    topics = Counter(row["topic"] for row in rows)
    click.echo(
        f"{out}: {len(rows)} questions of {split}; {min(types.values())} to {max(types.values())} of each of "
        f"{len(types)} types, {min(topics.values())} to {max(topics.values())} on each of {len(topics)} topics",
        err=True,
    )
    histories = " and histories/" if any(item.whole for item in items) else ""
    click.echo(
        f"give raters sheet.html{histories}, and keep {KEY}, label_studio.json and potato/ to yourself", err=True
    )
    next_step(f"personamem agreement annotations_*.json --key {out / KEY}")
