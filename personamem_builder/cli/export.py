"""`personamem export`."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, dataset_argument, dataset_folder, next_step, note, splits_option


@click.command(cls=Command, examples=["personamem export personamem --out release"])
@dataset_argument
@splits_option("all of the dataset")
@click.option("--out", required=True, type=PATH, help="The folder for the files.")
def export(folder: Path | None, splits: tuple[str, ...], out: Path) -> None:
    """Export a dataset FOLDER as files of the official release, for official scripts to read.

    Writes questions_SPLIT.csv and shared_contexts_SPLIT.jsonl for each split. These files have no place for evidence,
    what options assert, and the topics and dates of sessions: `personamem import-official` reads them without. Files of
    the same names are replaced; --out may hold nothing else. FOLDER is by default PERSONAMEM_DATA, then ./personamem.
    """
    from personamem_builder.build.export import export_release
    from personamem_builder.schema import SPLITS

    exported = export_release(dataset_folder(folder), out, splits)
    for name, split in exported.items():
        click.echo(f"{name}: {split.questions} questions, {split.contexts} contexts")
    click.echo(", ".join(str(path) for split in exported.values() for path in split.files))
    if own := [name for name in exported if name not in SPLITS]:
        note(f"import-official reads {', '.join(SPLITS)}, and not {', '.join(own)}")
    if len(own) < len(exported):
        next_step(f"personamem import-official {out} --out imported")
