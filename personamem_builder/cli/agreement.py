"""`personamem agreement`: what raters say of a sample, and how far they agree."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    short_help="Show what raters say of a sample, and how far they agree.",
    epilog="Example: personamem agreement annotations_ann.json annotations_bob.json --key study/key.json",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--key", "key_path", type=click.Path(path_type=Path), required=True, help="key.json of `personamem annotate`."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; `personamem_builder.annotation.render` defines it.")
def agreement(files: tuple[Path, ...], key_path: Path, as_json: bool) -> None:
    """Show what raters say of a sample, and how far they agree.

    FILES are what raters saved from sheet.html, a JSON export of Label Studio, or the user_state.json files of potato.

    For each of the four questions: the share of yes with Wilson's interval, the share of equal answers, and Gwet's AC1.
    """
    import json

    from personamem_builder.annotation.agreement import make_study
    from personamem_builder.annotation.answers import read_key, read_raters
    from personamem_builder.annotation.render import to_json, to_text

    key = read_key(key_path)
    study = make_study(key, read_raters(files, key))
    click.echo(json.dumps(to_json(study), indent=2, ensure_ascii=False) if as_json else to_text(study))
    if missing := sum(outcome.missing for outcome in study.questions.values()):
        click.echo(f"note: {missing} answers are missing: a rater has not answered all questions", err=True)
    if len(study.raters) < 2:
        click.echo("note: agreement needs two raters or more", err=True)
    if study.disputed:
        question = f"--split {key.split} --question {study.disputed[0].item}"
        click.echo(f"next: personamem inspect {question}  (is the item wrong, or are the raters?)", err=True)
