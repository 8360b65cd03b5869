"""`personamem build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generation.errors import UserError
from generation.parallel import MAX_WORKERS
from generation.reading import read_json
from generation.store import RunStore
from personamem_builder.cli.audit import audit_installed

if TYPE_CHECKING:
    from personamem_builder.dataset.write import Auditor


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
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), default=1, show_default=True, help="Processes.")
def build(run: Path, splits: tuple[str, ...], out: Path, replace: bool, workers: int) -> None:
    """Write the dataset folder of a RUN whose splits were assembled.

    personamem build runs/full --out personamem
    """
    from personamem_builder.dataset.build import build as build_dataset
    from personamem_builder.dataset.folder import AUDIT
    from personamem_builder.dataset.verify import verify_dataset
    from personamem_builder.schema import SPLITS

    manifest = build_dataset(RunStore(run), out, splits, replace=replace, workers=workers, auditor=_auditor(out.name))
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
    click.echo(f"next: {following}", err=True)


def _auditor(name: str) -> Auditor | None:
    """Return what audits the folder of that name; None, with a note, where the libraries for it are missing."""
    try:
        with audit_installed():
            from personamem_builder.audit.audit import audit
            from personamem_builder.audit.gates import read_gates
            from personamem_builder.audit.render import to_json
    except UserError as error:
        click.echo(f"note: the folder gets no audit: {error.message} ({error.hint})", err=True)
        return None
    return lambda folder: to_json(audit(folder, (), read_gates())._replace(source=name))


def _say_audit(out: Path, audit: dict[str, Any]) -> None:
    verdicts = [finding["verdict"] for split in audit["splits"] for finding in split["findings"] if finding["verdict"]]
    missed = verdicts.count("FAIL")
    click.echo(
        f"audit: {missed} of {len(verdicts)} limits are missed"
        if missed
        else f"audit: all {len(verdicts)} limits are met"
    )
    if missed:
        click.echo(f"note: what the audit found: personamem audit {out}", err=True)
