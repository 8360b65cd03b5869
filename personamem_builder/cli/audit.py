"""`personamem audit`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import (
    PATH,
    json_option,
    next_step,
    print_json,
    ray_option,
    splits_option,
    workers_of,
    workers_option,
)

if TYPE_CHECKING:
    from personamem_builder.audit.audit import Audit
    from personamem_builder.audit.model import ConditionCredits

_Setting = Literal["options", "letters", "generate"]


@contextmanager
def audit_installed() -> Iterator[None]:
    """Say what to install where an import in the block fails.

    Raises:
        UserError: scikit-learn, or scipy, is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise UserError(f"an audit needs {package}, which is not installed", install_hint("audit")) from error


@click.command(
    cls=Command,
    examples=[
        "personamem audit personamem",
        "personamem audit personamem --split 32k --html audit.html --out audit.json",
        "personamem audit personamem --model hf --model_args pretrained=MODEL --setting letters",
    ],
)
@click.argument("path", type=PATH)
@splits_option("all")
@click.option(
    "--gates",
    type=PATH,
    help="YAML file of limits. [default: the release standard, personamem_builder/audit/gates.yaml]",
)
@json_option("Print every finding as JSON.")
@click.option("--out", type=PATH, metavar="FILE", help="Also write every finding to this file, as JSON.")
@click.option("--html", type=PATH, metavar="FILE", help="Also write a page with every finding.")
@click.option(
    "--export-hard",
    type=PATH,
    metavar="FILE",
    help="Also write the ids of the questions that no shortcut answers, for --metadata '{\"subset\": FILE}'.",
)
@click.option(
    "--other-seed",
    "other_seeds",
    type=PATH,
    multiple=True,
    help="A run or dataset folder made with another seed, from which history.memoriser learns (repeatable).",
)
@click.option("--model", help="Also ask a model: its kind, as lm-eval calls it (hf, vllm, …).")
@click.option("--model_args", default="", help="Its arguments, as in lm-eval: pretrained=MODEL.")
@click.option(
    "--setting",
    type=click.Choice(["options", "letters", "generate"]),
    default="options",
    show_default=True,
    help="How the model is asked. Chat endpoints support `generate` only.",
)
@click.option("--apply_chat_template", is_flag=True, help="Use the model's chat template.")
@click.option("--metadata", help="Settings of the tasks, such as roles=no_system or overlength=skip.")
@click.option("--limit", type=click.IntRange(min=1), help="Ask the model only the first questions of each split.")
@click.option(
    "--results",
    type=PATH,
    default=Path("results", "audit"),
    show_default=True,
    help="The folder for the model's results, for `personamem report`.",
)
@workers_option()
@ray_option()
def audit(
    path: Path,
    splits: tuple[str, ...],
    gates: Path | None,
    as_json: bool,
    out: Path | None,
    html: Path | None,
    export_hard: Path | None,
    other_seeds: tuple[Path, ...],
    model: str | None,
    model_args: str,
    setting: _Setting,
    apply_chat_template: bool,
    metadata: str | None,
    limit: int | None,
    results: Path,
    workers: int,
    ray: str | None,
) -> None:
    """Check whether a benchmark can be beaten without reading it, and whether its files are intact.

    PATH is a dataset folder, a run, a folder of release files, a CSV of questions, or a PERSONA-Bench folder. The exit
    status is 1 when a limit is missed.

    With --model, a model answers the questions of a dataset folder too: without the history, with another user's, with
    the evidence alone and with the whole history.

    In splits of more than 20,000 questions, probes are trained and tested on a sample; the output says so.
    """
    from personamem_builder.cli.persona_bench import show_audit
    from personamem_builder.persona_bench.write import is_persona_bench

    if is_persona_bench(path):
        if splits or gates or as_json or out or html or export_hard or other_seeds or model or workers > 1 or ray:
            raise UserError(f"{path} is a PERSONA-Bench folder, whose audit takes no options", "name the folder alone")
        show_audit(path)
        return
    with audit_installed():
        from personamem_builder.audit.audit import audit as run_audit
        from personamem_builder.audit.gates import read_gates
        from personamem_builder.audit.render import to_json, to_text
        from personamem_builder.text_table import terminal_width

    limits = read_gates(gates)
    who = workers_of(workers, ray)
    for file in (out, html, export_hard):
        if file is not None and not file.parent.is_dir():  # said before a minute of work is lost
            raise UserError(f"{file} cannot be written: there is no folder {file.parent}", "make it first")
    options = ["--apply_chat_template"] if apply_chat_template else []
    options += ["--metadata", metadata] if metadata else []
    options += ["--limit", str(limit)] if limit else []
    answered = _ask(path, splits, model, model_args, options, results, setting) if model else None
    found = run_audit(path, splits, limits, answered, other_seeds, who)
    if as_json:
        print_json(to_json(found))
    else:
        click.echo(to_text(found, terminal_width()))
    _write_files(found, out, html, export_hard)
    if html is None:
        next_step(f"personamem audit {path} --html audit.html  (every finding, on a page)")
    if found.failed:
        sys.exit(1)


def _write_files(found: Audit, out: Path | None, html: Path | None, export_hard: Path | None) -> None:
    from generation.files import replacing
    from personamem_builder.audit.hard import write_hard
    from personamem_builder.audit.page import to_html
    from personamem_builder.audit.render import to_json

    def write(path: Path, text: str) -> None:
        with _writing(path), replacing(path) as part:
            part.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path}", err=True)

    if out is not None:
        write(out, json.dumps(to_json(found), indent=2, ensure_ascii=False) + "\n")
    if html is not None:
        write(html, to_html(found))
    if export_hard is not None:
        with _writing(export_hard):
            hard = write_hard(export_hard, found)
        for name, ids in hard.items():
            click.echo(f"{name}: {len(ids)} questions that no shortcut answers, in {export_hard}", err=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def _ask(
    path: Path,
    splits: Sequence[str],
    model: str,
    model_args: str,
    options: Sequence[str],
    results: Path,
    setting: _Setting,
) -> Mapping[str, ConditionCredits]:
    """Have a model answer the questions of some splits in each condition that they allow."""
    from personamem_builder.dataset.folder import check_split
    from personamem_builder.evaluation.audit_conditions import possible_conditions, run_conditions
    from personamem_builder.manifest import is_dataset_folder, read_manifest
    from personamem_builder.schema import SPLITS

    if not is_dataset_folder(path):
        raise UserError(f"--model needs a dataset folder, and {path} is not one", "leave out --model")
    manifest = read_manifest(path)
    for split in splits:
        check_split(manifest, split, path)
    chosen = [split for split in splits or manifest["splits"] if split in SPLITS]
    if not chosen or not {*splits} <= {*SPLITS}:
        raise UserError(
            f"a model is asked through the tasks of the splits {', '.join(SPLITS)}, and {path} has "
            f"{', '.join(manifest['splits'])}",
            "choose one of those with --split, or leave out --model",
        )
    with redirect_stdout(sys.stderr):  # where lm-eval prints its tables
        answered = {
            split: run_conditions(
                path, split, model, model_args, options, results, possible_conditions(path, split), setting
            )
            for split in dict.fromkeys(chosen)
        }
    click.echo(f"the answers of {model} are in {results}: personamem report {results}", err=True)
    return answered
