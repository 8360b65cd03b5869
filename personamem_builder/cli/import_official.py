"""`personamem import-official`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.errors import UserError
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, dataset_out_option, next_step, note


@click.command(
    cls=Command,
    examples=[
        "personamem import-official downloads/PersonaMem --out personamem",
        "personamem import-official --hub --split 32k",
    ],
)
@click.argument("path", required=False, type=PATH)
@click.option("--hub", is_flag=True, help="Download the release from the Hub, at a pinned revision.")
@click.option("--split", "splits", multiple=True, help="With --hub: only this split (repeatable).")
@click.option("--revision", help="With --hub: another revision than the pinned one.")
@dataset_out_option()
def import_official(path: Path | None, hub: bool, splits: tuple[str, ...], revision: str | None, out: Path) -> None:
    """Turn the official release of PersonaMem into a dataset folder.

    PATH is a folder with any of questions_{32k,128k,1M}.csv and the shared_contexts_{32k,128k,1M}.jsonl that go with
    them. All files are checked before anything is written, and all faults are listed.
    """
    from generation.tokenizer import load_encoding
    from personamem_builder.build.from_official import import_from_hub, import_release

    if hub == (path is not None):
        raise UserError(
            "give either PATH or --hub",
            "personamem import-official FOLDER, or personamem import-official --hub",
        )
    if path is not None and (splits or revision):
        raise UserError("--split and --revision go with --hub, not with PATH", "leave them out")
    _, vocabulary = load_encoding()
    click.echo(f"token counts: o200k_base, vocabulary from {vocabulary}", err=True)
    imported = import_release(path, out) if path is not None else import_from_hub(out, splits, revision)
    for text in imported.notes:
        note(text)
    for name, split in imported.manifest["splits"].items():
        strangers = imported.strangers[name]
        mismatches = f"{len(strangers)} mismatch{'' if len(strangers) == 1 else 'es'}"
        click.echo(f"{name}: {split['questions']} questions, {split['shared_contexts']} contexts, {mismatches}")
        if strangers:
            note(
                f"{name}: {len(strangers)} contexts, such as {strangers[0]}, show another user than an earlier one of "
                "the same persona_id: intervals, and memory=wrong-user, take them for one user"
            )
    click.echo(f"{out}: digest {imported.manifest['digest']}")
    first = next(iter(imported.manifest["splits"]))
    next_step(f"personamem eval --tasks personamem_{first} --model personamem-floor --model_args policy=longest")
