"""`personamem refine`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generation.errors import UserError
from generation.llm.ledger import check_budget
from generation.store import RunStore
from personamem_builder.cli.audit import audit_installed
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, json_option, run_argument

if TYPE_CHECKING:
    from personamem_builder.refine.refine import Refinement


@click.command(
    cls=Command,
    examples=[
        "personamem refine runs/full",
        "personamem refine runs/full --no-context openai:MODEL --budget 20",
    ],
)
@run_argument
@click.option(
    "--rounds",
    type=click.IntRange(0, 100),
    default=2,
    show_default=True,
    help="Rewrite questions at most this often.",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="[questions=]NAME",
    help="Who rewrites them: offline, openai:MODEL or hf:PATH. [default: who wrote them]",
)
@click.option(
    "--no-context",
    metavar="NAME",
    help="Drop the questions that this backend answers without the history: openai:MODEL or hf:PATH.",
)
@click.option(
    "--votes",
    type=int,
    default=5,
    show_default=True,
    help="With --no-context: answers to each question, each with the options in another order.",
)
@click.option(
    "--at-least",
    type=int,
    default=4,
    show_default=True,
    help="With --no-context: drop a question at this many right answers.",
)
@click.option(
    "--gates",
    type=PATH,
    help="YAML file of limits. [default: those of `personamem audit`]",
)
@click.option(
    "--config",
    type=PATH,
    help="The configuration of the run, where it has prices or topic banks of your own.",
)
@click.option("--budget", type=float, help="Stop when the run has cost this many US dollars, `generate` included.")
@json_option("Print the funnel as JSON.")
def refine(
    run: Path,
    rounds: int,
    backends: tuple[str, ...],
    no_context: str | None,
    votes: int,
    at_least: int,
    gates: Path | None,
    config: Path | None,
    budget: float | None,
    as_json: bool,
) -> None:
    """Rewrite or drop questions of a RUN that can be answered without reading the history.

    While the probes of `personamem audit` miss a limit, the questions they answer are reworded. If they still beat
    chance, some of these questions are dropped, at most 10 % of each type. With --no-context, questions are dropped too
    that a model answers from the question and its options alone.

    Decisions are kept in refined.json, which `personamem assemble` follows. Rerunning the command changes nothing;
    other options start again from the original questions.
    """
    check_budget(budget)
    with audit_installed():
        from personamem_builder.audit.gates import read_gates
        from personamem_builder.refine.no_context import NoContextFilter
        from personamem_builder.refine.refine import Settings
        from personamem_builder.refine.refine import refine as refine_run

    filter_ = NoContextFilter(no_context, votes, at_least) if no_context else None
    settings = Settings(rounds, read_gates(gates), _writer(backends), filter_)
    outcome = refine_run(RunStore(run), settings, config, budget)
    if as_json:
        click.echo(json.dumps(_as_json(outcome)))
    else:
        _print(run, outcome)
    if outcome.was_stale:
        click.echo("note: the questions were made anew since the last refinement, which is gone", err=True)
    if outcome.missed_at_last:
        click.echo(
            f"note: probes still miss {len(outcome.missed_at_last)} limits: personamem audit {run}",
            err=True,
        )
    click.echo(f"next: personamem assemble {run}", err=True)


def _writer(backends: tuple[str, ...]) -> str | None:
    """Return who rewrites; None for who wrote.

    Raises:
        UserError: There is no such backend, or it is for another stage.
    """
    from generation.llm.backends import parse_backend
    from generation.run_stages import STAGES

    writer = None
    for text in backends:
        stage, equals, name = text.partition("=")
        if equals and stage in STAGES and stage != "questions":
            raise UserError(f"--backend {text}: only questions are rewritten", "leave out the stage")
        writer = name if equals and stage == "questions" else text
        parse_backend(writer)
    return writer


def _as_json(outcome: Refinement) -> dict[str, object]:
    if outcome.refined is not None:
        return outcome.refined.published()
    return {"missed_at_first": list(outcome.missed_at_first), "missed_at_last": list(outcome.missed_at_last)}


def _print(run: Path, outcome: Refinement) -> None:
    from personamem_builder.text_table import terminal_width, text_table

    first, last = outcome.missed_at_first, outcome.missed_at_last
    refined = outcome.refined
    if refined is None:
        reason = (
            f"probes miss {len(first)} limits, but not by what can be repaired" if first else "probes meet all limits"
        )
        click.echo(f"{run}: {reason}; nothing was done")
        return
    if not outcome.is_new:
        click.echo(f"{run}: was refined like this before; nothing was done")
    click.echo(f"probes: {len(first)} limits missed at first, {len(last)} now")
    rows = [["", "made", "rewritten", "dropped\nby probes", "without\nhistory", "kept"]]
    for name, count in {"all": refined.funnel.all, **refined.funnel.types}.items():
        dropped = (count.dropped["probe"], count.dropped["no_context"])
        rows.append([name, *(f"{number:,}" for number in (count.made, count.rewritten, *dropped, count.kept))])
    click.echo(text_table(rows, "lr", width=terminal_width()))
    if refined.unwritten:
        click.echo(f"{refined.unwritten} times no usable new words came; rerun the command to ask again")
    if (asked := refined.no_context) is None:
        return
    click.echo(f"{asked.model} without the history: dropped where {asked.at_least} of {asked.votes} answers are right")
    rows = [["", "asked", "dropped", "by chance", "by taste"]]
    for name, part in {"all": asked.all, **asked.types}.items():
        rows.append([name, f"{part.asked:,}", f"{part.dropped:,}", f"{part.by_chance:.1f}", f"{part.by_taste:.1f}"])
    click.echo(text_table(rows, "lr", width=terminal_width()))
    if asked.unusable:
        click.echo(f"{asked.unusable} answers could not be used; rerun the command to ask again")
