"""`personamem eval`."""

from __future__ import annotations

import click

from personamem_builder.cli.options import next_step


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def evaluate(arguments: tuple[str, ...]) -> None:
    """Run lm-eval with the personamem tasks and models: ARGUMENTS are lm-eval's own."""
    from personamem_builder.evaluation.run import Unanswered, run_lm_eval

    if not arguments or arguments[0] in ("-h", "--help"):
        click.echo("personamem eval takes the arguments of lm-eval's command line, which says of itself:\n")
    unanswered: Unanswered | None = None
    try:
        written = run_lm_eval(arguments)
    except Unanswered as error:
        unanswered, written = error, error.written
    for path in written:
        click.echo(f"wrote {path}", err=True)
        next_step(f"personamem report {path.parent}")
    if unanswered:
        raise unanswered
