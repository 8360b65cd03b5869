"""`personamem export`."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.options import PATH, dataset_argument, dataset_folder, next_step, note, splits_option


@click.command()
@dataset_argument
@splits_option("all of the dataset", "PERSONAMEM_EXPORT_SPLIT")
@click.option("--out", required=True, type=PATH, help="Folder for the files.")
def export(folder: Path | None, splits: tuple[str, ...], out: Path) -> None:
    """Write a dataset FOLDER as the files of the official release.

    For each split questions_SPLIT.csv and shared_contexts_SPLIT.jsonl, as official scripts read them; import-official
    makes a dataset folder of them again, without what this layout has no place for: evidence, what options assert,
    topics and dates of sessions. Older files of the same names are replaced; --out may hold nothing else.
    FOLDER is by default PERSONAMEM_DATA, then ./personamem.

    personamem export personamem --out release
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
