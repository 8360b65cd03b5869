"""`personamem export`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    type=click.Choice(["csv"]),
    default="csv",
    show_default=True,
    envvar="PERSONAMEM_EXPORT_FORMAT",
    help="The layout: that of the official release.",
)
@click.option(
    "--split",
    "splits",
    multiple=True,
    envvar="PERSONAMEM_EXPORT_SPLIT",
    help="Only this split (repeatable). [default: all of the dataset]",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the files.")
def export(folder: Path | None, format_: str, splits: tuple[str, ...], out: Path) -> None:
    """Write a dataset FOLDER as the files of the official release.

    For each split questions_SPLIT.csv and shared_contexts_SPLIT.jsonl, as official scripts read them; import-official
    makes a dataset folder of them again, without what this layout has no place for: evidence, what options assert,
    topics and dates of sessions. Older files of the same names are replaced; --out may hold nothing else.
    FOLDER is by default PERSONAMEM_DATA, then ./personamem.

    personamem export personamem --out release
    """
    from personamem_builder.dataset.export import export_release
    from personamem_builder.dataset.locate import resolve_data
    from personamem_builder.schema import SPLITS

    del format_  # there is one so far
    exported = export_release(folder or resolve_data().folder, out, splits)
    for name, split in exported.items():
        click.echo(f"{name}: {split.questions} questions, {split.contexts} contexts")
    click.echo(", ".join(str(path) for split in exported.values() for path in split.files))
    if own := [name for name in exported if name not in SPLITS]:
        click.echo(f"note: import-official reads {', '.join(SPLITS)}, and not {', '.join(own)}", err=True)
    if len(own) < len(exported):
        click.echo(f"next: personamem import-official {out} --out imported", err=True)
