"""`personamem build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generation.errors import UserError
from generation.parallel import Workers
from generation.reading import read_json
from generation.store import RunStore
from personamem_builder.cli.audit import audit_installed
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import (
    dataset_out_option,
    next_step,
    note,
    ray_option,
    run_argument,
    splits_option,
    workers_of,
    workers_option,
)

if TYPE_CHECKING:
    from personamem_builder.build.write import Auditor


@click.command(cls=Command, examples=["personamem build runs/full --out personamem"])
@run_argument
@splits_option("all assembled")
@dataset_out_option()
@click.option("--replace", is_flag=True, help="Replace a folder that was built from another run.")
@workers_option()
@ray_option()
def build(run: Path, splits: tuple[str, ...], out: Path, replace: bool, workers: int, ray: str | None) -> None:
    """Build the dataset folder of a RUN, after `personamem assemble`.

    The folder holds Parquet files, a card, a manifest with digests, and an audit where the extra `audit` is installed.
    `datasets` loads it, here as on the Hub.
    """
    from personamem_builder.build.from_run import build as build_dataset
    from personamem_builder.build.verify import verify_dataset
    from personamem_builder.dataset.folder import AUDIT
    from personamem_builder.schema import SPLITS

    who = workers_of(workers, ray)
    manifest = build_dataset(RunStore(run), out, splits, replace=replace, workers=who, auditor=_auditor(out.name, who))
    verify_dataset(out)
    for name, split in manifest["splits"].items():
        click.echo(f"{name}: {split['questions']} questions, {split['shared_contexts']} contexts")
    click.echo(f"{out}: digest {manifest['digest']}")
    if (out / AUDIT).exists():
        _say_audit(out, read_json(out / AUDIT))
    first = next(iter(manifest["splits"]))
    following = f"personamem inspect {out} --split {first}"
    if first in SPLITS:  # there are tasks for these
        following = f"personamem eval --tasks personamem_{first} --model personamem-floor --model_args policy=longest"
        if out != Path("personamem"):
            following = f"PERSONAMEM_DATA={out} {following}"
    next_step(following)


def _auditor(name: str, workers: Workers) -> Auditor | None:
    """Return what audits the folder of that name; None, with a note, where the libraries for it are missing."""
    try:
        with audit_installed():
            from personamem_builder.audit.audit import audit
            from personamem_builder.audit.gates import read_gates
            from personamem_builder.audit.render import to_json
    except UserError as error:
        note(f"the folder gets no audit: {error.message} ({error.hint})")
        return None
    return lambda folder: to_json(audit(folder, (), read_gates(), workers=workers)._replace(source=name))


def _say_audit(out: Path, audit: dict[str, Any]) -> None:
    verdicts = [finding["verdict"] for split in audit["splits"] for finding in split["findings"] if finding["verdict"]]
    missed = verdicts.count("FAIL")
    click.echo(
        f"audit: {missed} of {len(verdicts)} limits are missed"
        if missed
        else f"audit: all {len(verdicts)} limits are met"
    )
    if missed:
        note(f"what the audit found: personamem audit {out}")
