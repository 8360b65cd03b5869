"""`personamem build`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.store import RunStore


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--split", "splits", multiple=True, help="Only this split (repeatable). [default: all assembled]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="personamem",
    show_default=True,
    help="The dataset folder to write.",
)
@click.option("--replace", is_flag=True, help="Replace a folder that was built from something else.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
def build(run: Path, splits: tuple[str, ...], out: Path, replace: bool, workers: int) -> None:
    """Write the dataset folder of a RUN whose splits were assembled.

    personamem build runs/full --out personamem
    """
    from personamem_builder.dataset.build import build as build_dataset
    from personamem_builder.dataset.verify import verify_dataset
    from personamem_builder.schema import SPLITS

    manifest = build_dataset(RunStore(run), out, splits, replace=replace, workers=workers)
    verify_dataset(out)
    for name, split in manifest["splits"].items():
        click.echo(f"{name}: {split['questions']} questions, {split['shared_contexts']} contexts")
    click.echo(f"{out}: digest {manifest['digest']}")
    first = next(iter(manifest["splits"]))
    following = f"personamem inspect {out} --split {first}"
    if first in SPLITS:  # there are tasks for these
        following = f"personamem eval --tasks personamem_{first} --model personamem-floor --model_args policy=longest"
        if out != Path("personamem"):
            following = f"PERSONAMEM_DATA={out} {following}"
    click.echo(f"next: {following}", err=True)
