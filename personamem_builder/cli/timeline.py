"""`personamem timeline`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.errors import UserError
from generation.history_records import History
from generation.records import Persona
from generation.run_config import numbers_shown
from generation.store import RunStore
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, run_argument
from personamem_builder.evolution import (
    QuestionPoint,
    cut_off,
    draw_timeline,
    find_question,
    timeline_text,
    topic_history,
)


@click.command(
    cls=Command,
    examples=[
        "personamem timeline runs/full --topic travelPlanning --out travel.svg",
        'personamem timeline runs/full --persona 3 --topic travelPlanning --until "next month"',
        "personamem timeline runs/full --question QUESTION_ID",
    ],
)
@run_argument
@click.option(
    "--persona",
    "persona_id",
    type=int,
    help="Number of the user. [default: that of --question, else the first]",
)
@click.option("--topic", help="Id of the topic, such as travelPlanning. [default: that of --question]")
@click.option(
    "--until",
    metavar="DATE|PERIOD",
    help="Stop at a date, such as 2019-05-31, or at the session of a period: initial, next week, next month or next "
    "year. [default: where --question is asked]",
)
@click.option(
    "--question",
    "question_id",
    metavar="ID",
    help="Mark where this question is asked and what decides it: an id, or at least its first 6 characters.",
)
@click.option("--out", type=PATH, help="Also draw it to this file, .svg or .png.")
def timeline(
    run: Path,
    persona_id: int | None,
    topic: str | None,
    until: str | None,
    question_id: str | None,
    out: Path | None,
) -> None:
    """Show how a user's preferences change in one topic of a RUN."""
    if topic is None and question_id is None:
        raise click.UsageError("give --topic, or --question")
    store = RunStore(run)
    users = store.users()
    asked = find_question(store, question_id) if question_id is not None else None
    if asked is not None:
        _check(asked, persona_id, topic)
        persona_id, topic = asked.question.persona_id, asked.topic.topic
    number = users.start if persona_id is None else persona_id
    part = store.part_of(number)
    persona = next((p for p in part.read("personas", Persona) if p.persona_id == number), None)
    history = next((h for h in part.read("histories", History) if h.persona_id == number), None)
    if persona is None or history is None:
        raise UserError(f"{run} has no persona {number}", f"its personas are {numbers_shown(users)}")
    found = topic_history(history, topic or "")
    last = cut_off(found, until) if until is not None else asked.session.date if asked is not None else None
    click.echo(timeline_text(persona, found, last, asked))
    if out is not None:
        draw_timeline(persona, found, out, last, asked)
        click.echo(f"wrote {out}", err=True)


def _check(asked: QuestionPoint, persona_id: int | None, topic: str | None) -> None:
    """Refuse a persona or topic that is not that of the question."""
    own = asked.question.persona_id, asked.topic.topic
    if (persona_id, topic) not in {(a, b) for a in (own[0], None) for b in (own[1], None)}:
        raise UserError(
            f"question {asked.question_id} is about persona {own[0]} and topic {own[1]}",
            "leave out --persona and --topic, or give these",
        )
