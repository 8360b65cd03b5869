"""`personamem agreement`: what raters say of a sample, and how far they agree."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, json_option, next_step, note, print_json


@click.command(
    cls=Command,
    examples=["personamem agreement annotations_ann.json annotations_bob.json --key study/key.json"],
)
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--key", "key_path", type=PATH, required=True, help="key.json, from `personamem annotate`.")
@json_option()
def agreement(files: tuple[Path, ...], key_path: Path, as_json: bool) -> None:
    """Show what raters say of a sample, and how far they agree.

    FILES are the ratings: saved from sheet.html, exported from Label Studio as JSON, or potato's user_state.json.

    For each of the four questions it shows the share of yes with Wilson's interval, the share of equal answers, and
    Gwet's AC1.
    """
    from personamem_builder.annotation.agreement import make_study
    from personamem_builder.annotation.ratings import read_key, read_raters
    from personamem_builder.annotation.render import to_json, to_text
    from personamem_builder.text_table import terminal_width

    key = read_key(key_path)
    study = make_study(key, read_raters(files, key))
    if as_json:
        print_json(to_json(study))
    else:
        click.echo(to_text(study, terminal_width()))
    if missing := sum(outcome.missing for outcome in study.questions.values()):
        note(f"{missing} answers are missing: a rater has not answered all questions")
    if len(study.raters) < 2:
        note("agreement needs at least two raters")
    if study.disputed:
        question = f"--split {key.split} --question {study.disputed[0].item}"
        next_step(f"personamem inspect {question}  (is the item wrong, or are the raters?)")
