"""`personamem timeline`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.errors import UserError
from generation.history_records import History
from generation.records import Persona
from generation.store import RunStore
from personamem_builder.cli.options import PATH, run_argument
from personamem_builder.evolution import draw_timeline, timeline_text, topic_history


@click.command()
@run_argument
@click.option(
    "--persona",
    "persona_id",
    type=int,
    default=0,
    show_default=True,
    envvar="PERSONAMEM_TIMELINE_PERSONA",
    help="Number of the persona.",
)
@click.option("--topic", required=True, help="Id of the topic, e.g. travelPlanning.")
@click.option("--out", type=PATH, help="Also draw a picture: a path that ends in .svg or .png.")
def timeline(run: Path, persona_id: int, topic: str, out: Path | None) -> None:
    """Show how the preferences of a persona evolve in a topic, from the folder of a RUN.

    personamem timeline runs/full --topic travelPlanning --out travel.svg
    """
    store = RunStore(run)
    store.fingerprint()
    persona = next((p for p in store.read("personas", Persona) if p.persona_id == persona_id), None)
    history = next((h for h in store.read("histories", History) if h.persona_id == persona_id), None)
    if persona is None or history is None:
        raise UserError(f"{run} has no persona {persona_id}", "personas are numbered from 0")
    found = topic_history(history, topic)
    click.echo(timeline_text(persona, found))
    if out is not None:
        draw_timeline(persona, found, out)
        click.echo(f"wrote {out}", err=True)
