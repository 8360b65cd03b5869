"""`personamem generate`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from generation.banks.load import load_banks
from generation.config import load_config
from generation.errors import UserError
from generation.llm.backends import OFFLINE, parse_backend
from generation.llm.ledger import check_budget
from generation.pipeline import STAGES, RunInputs
from generation.pipeline import generate as generate_run
from generation.preview import estimate as estimate_run
from generation.preview import preview as preview_run
from generation.store import FailedItem, RunStore
from personamem_builder.cli.options import PATH, json_option, workers_option


@click.command()
@click.argument("config", type=PATH)
@click.option("--out", type=PATH, help="Folder of the run. [default: runs/NAME of CONFIG]")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="[STAGE=]NAME",
    help="Who writes the text: offline, openai:MODEL or hf:PATH; with STAGE= for that stage alone (repeatable). "
    "[default: offline]",
)
@click.option("--budget", type=float, help="US dollars that the calls of the run may cost; the same command goes on.")
@workers_option("Processes of the offline backend.")
@click.option("--preview", is_flag=True, help="Print a sample and write nothing.")
@click.option("--estimate", is_flag=True, help="Print what the run would take, and write nothing.")
@json_option("Print the counts, or the estimate, as JSON.", "PERSONAMEM_GENERATE_JSON")
def generate(
    config: Path,
    out: Path | None,
    backends: tuple[str, ...],
    budget: float | None,
    workers: int,
    preview: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Generate personas, histories, sessions and questions from CONFIG, a YAML file such as examples/tiny.yaml.

    The same command again goes on where an interrupted run stopped. The same configuration gives the same bytes, with
    any number of workers. Items that a model gives no usable reply for are listed in failed.jsonl, and the exit status
    is 1; the same command asks for them anew. Replies that were paid for are kept, and never paid for twice.

    openai:MODEL is any OpenAI-compatible endpoint: OPENAI_API_KEY, and OPENAI_BASE_URL for others than OpenAI's own.

    personamem generate examples/tiny.yaml --preview

    personamem generate examples/full.yaml --out runs/full --workers 2

    personamem generate examples/tiny.yaml --backend openai:MODEL --budget 5 --estimate
    """
    check_budget(budget)
    settings = load_config(config)
    work = RunInputs(settings, load_banks(settings), *_backends(backends))
    if preview:
        click.echo(preview_run(work))
        return
    if estimate:
        _print_estimate(work, as_json)
        return
    folder = out or Path("runs") / config.stem
    store = RunStore.open(folder, work.fingerprint())
    counts, failures = generate_run(work, store, workers, budget)
    if as_json:
        click.echo(json.dumps({"run": str(folder), **counts, "failed": len(failures)}))
    else:
        click.echo(f"{folder}: " + ", ".join(f"{count} {stage}" for stage, count in counts.items()))
    asked = settings.personas * len(settings.topics) * sum(settings.questions_per_topic.values())
    if counts["questions"] < asked:
        click.echo(f"note: {asked} questions were asked for; the histories give {counts['questions']}", err=True)
    if failures:
        _fail(folder, failures)
    topic = next(iter(work.banks.topics))
    click.echo(f"next: personamem timeline {folder} --persona 0 --topic {topic}", err=True)


def _fail(folder: Path, failures: Sequence[FailedItem]) -> NoReturn:
    listed = ", ".join(f"{count} {stage}" for stage, count in Counter(failure.stage for failure in failures).items())
    click.echo(f"failed: {listed}; why is in {folder / 'failed.jsonl'}", err=True)
    click.echo(f"next: the same command asks for them anew; or personamem assemble {folder}, without them", err=True)
    sys.exit(1)


def _backends(given: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the backend of a run, and those of single stages."""
    backend, stages = OFFLINE, {}
    for text in given:
        stage, equals, name = text.partition("=")
        if equals and stage in STAGES:
            parse_backend(name)
            stages[stage] = name
        elif equals and ":" not in stage:
            raise UserError(f"--backend {text}: there is no stage {stage!r}", f"the stages are {', '.join(STAGES)}")
        else:
            parse_backend(text)
            backend = text
    return backend, stages


def _print_estimate(work: RunInputs, as_json: bool) -> None:
    entries = estimate_run(work)
    if as_json:
        click.echo(json.dumps([entry._asdict() for entry in entries]))
        return
    click.echo(f"{'call':45} {'calls':>7} {'prompt tokens':>14} {'reply tokens':>13}  {'$':>8}")
    for entry in entries:
        cost = "unknown" if entry.cost is None else f"{entry.cost:.2f}"
        figures = f"{entry.calls:7,} {entry.prompt_tokens:14,} {entry.reply_tokens:13,}  {cost:>8}"
        name = f"({entry.template} of {entry.stage})" if entry.if_needed else entry.template
        click.echo(f"{name:45} {figures}  {entry.model}".rstrip())
    sure = [entry for entry in entries if not entry.if_needed]
    prompts, replies = (sum(getattr(entry, name) for entry in sure) for name in ("prompt_tokens", "reply_tokens"))
    costs = [entry.cost for entry in sure]
    known = f"{sum(cost for cost in costs if cost is not None):.2f}{' and more' if None in costs else ''}"
    name = "all" if sure == entries else "all but those in ( )"
    click.echo(f"{name:45} {sum(entry.calls for entry in sure):7,} {prompts:14,} {replies:13,}  {known:>8}")
    if not any(entry.model for entry in entries):
        seconds = sum(entry.seconds for entry in entries)
        click.echo(f"the offline backend needs about {seconds:.0f} s in one process and costs nothing", err=True)
        return
    if sure != entries:
        click.echo("note: ( ) is one call for each text; it is made where one is too short or found faulty", err=True)
    most = sum(entry.most_calls for entry in entries if entry.model)
    click.echo(f"note: repairs cannot be known; with all that there may be, it is {most:,} calls at most", err=True)
    if unpriced := list(dict.fromkeys(entry.model for entry in entries if entry.cost is None)):
        click.echo(f"note: llm.prices in the configuration lacks {', '.join(unpriced)}", err=True)
