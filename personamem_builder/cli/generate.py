"""`personamem generate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from generation.banks.load import load_banks
from generation.config import load_config
from generation.pipeline import BACKENDS, Work
from generation.pipeline import generate as generate_run
from generation.preview import estimate as estimate_run
from generation.preview import preview as preview_run
from generation.store import RunStore


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run. [default: runs/NAME of CONFIG]")
@click.option(
    "--backend", type=click.Choice(BACKENDS), default="offline", show_default=True, help="Who writes the text."
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@click.option("--preview", is_flag=True, help="Print a sample and write nothing.")
@click.option("--estimate", is_flag=True, help="Print what the run would take, and write nothing.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    envvar="PERSONAMEM_GENERATE_JSON",
    help="Print the counts, or the estimate, as JSON.",
)
def generate(
    config: Path, out: Path | None, backend: str, workers: int, preview: bool, estimate: bool, as_json: bool
) -> None:
    """Generate personas, histories, sessions and questions from CONFIG, a YAML file such as examples/tiny.yaml.

    The same command again goes on where an interrupted run stopped. The same configuration gives the same bytes, with
    any number of workers.

    personamem generate examples/tiny.yaml --preview

    personamem generate examples/full.yaml --out runs/full --workers 2
    """
    settings = load_config(config)
    work = Work(settings, load_banks(settings), backend)
    if preview:
        click.echo(preview_run(work))
        return
    if estimate:
        _print_estimate(work, as_json)
        return
    folder = out or Path("runs") / config.stem
    store = RunStore.open(folder, work.fingerprint())
    counts = generate_run(work, store, workers)
    if as_json:
        click.echo(json.dumps({"run": str(folder), **counts}))
    else:
        click.echo(f"{folder}: " + ", ".join(f"{count} {stage}" for stage, count in counts.items()))
    asked = settings.personas * len(settings.topics) * sum(settings.questions_per_topic.values())
    if counts["questions"] < asked:
        click.echo(f"note: {asked} questions were asked for; the histories give {counts['questions']}", err=True)
    topic = next(iter(work.banks.topics))
    click.echo(f"next: personamem timeline {folder} --persona 0 --topic {topic}", err=True)


def _print_estimate(work: Work, as_json: bool) -> None:
    entries = estimate_run(work)
    if as_json:
        click.echo(json.dumps([entry._asdict() for entry in entries]))
        return
    click.echo(f"{'call':45} {'calls':>7} {'prompt tokens':>14} {'reply tokens':>13}")
    for entry in entries:
        click.echo(f"{entry.template:45} {entry.calls:7,} {entry.prompt_tokens:14,} {entry.reply_tokens:13,}")
    prompts, replies = (sum(getattr(entry, name) for entry in entries) for name in ("prompt_tokens", "reply_tokens"))
    click.echo(f"{'all':45} {sum(entry.calls for entry in entries):7,} {prompts:14,} {replies:13,}")
    seconds = sum(entry.seconds for entry in entries)
    click.echo(f"the offline backend needs about {seconds:.0f} s in one process and costs nothing", err=True)
