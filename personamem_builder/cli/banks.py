"""`personamem banks`."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.help import Group
from personamem_builder.cli.options import next_step


@click.group(cls=Group)
def banks() -> None:
    """Check topic banks, the texts from which the offline backend writes."""


@banks.command(
    short_help="Check topic banks and print their faults.", examples=["personamem banks check banks/chess.yaml"]
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check topic banks and print each fault as FILE:LINE: FAULT.

    The exit status is 1 if there is a fault. docs/banks.md describes the files.
    """
    from generation.banks.bank_file import HINT, placed, read_bank
    from generation.banks.load import faults_beside_shipped
    from generation.banks.topic import TopicBank
    from generation.banks.topic_faults import bad_prose
    from generation.errors import UserError
    from generation.reading import read_bytes

    count = 0
    for file in files:
        content = read_bytes(file, HINT)
        bank, faults = read_bank(file, content, TopicBank)
        if bank is not None:
            faults += placed(file, content, [*faults_beside_shipped(bank), *bad_prose(bank)])
        count += len(faults)
        for fault in faults:
            click.echo(fault)
        if bank is not None and not faults:
            click.echo(
                f"{file}: no faults; {len(bank.items)} items, {len(bank.slots)} slots, {len(bank.facts)} kinds of "
                f"facts, {len(bank.threads)} threads"
            )
    if count:
        raise UserError(f"{count} faults" if count > 1 else "1 fault", HINT)
    next_step(f"name {files[0]} under topics: in a configuration, and personamem generate CONFIG --preview")
