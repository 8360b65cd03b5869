"""The command line. Each command lives in a module of its own, imported when it is called."""

from __future__ import annotations

import importlib
import io
import sys
from typing import Final

import click

from generation.errors import UserError

_COMMANDS: Final = {
    "generate": ("generate:generate", "Generate personas, histories, sessions and questions."),
    "refine": ("refine:refine", "Rewrite or drop questions that can be answered without reading."),
    "timeline": ("timeline:timeline", "Show how a persona's preferences evolve."),
    "assemble": ("assemble:assemble", "Put the sessions of a run together to long contexts."),
    "build": ("build:build", "Write the dataset folder of a run."),
    "audit": ("audit:audit", "Check whether a benchmark can be beaten without reading it, and is whole."),
    "import-official": (
        "import_official:import_official",
        "Turn the official release into a dataset folder.",
    ),
    "export": ("export:export", "Write a dataset folder as the files of the official release."),
    "diff": ("diff:diff", "Compare two versions of a dataset and propose the next number."),
    "publish": ("publish:publish", "Publish a dataset folder on the Hub as a version."),
    "download": ("download:download", "Fetch a published version from the Hub and verify it."),
    "inspect": ("inspect:inspect", "Show a question with its evidence marked in the history."),
    "view": ("view:view", "Open a page to read the histories, questions and answers."),
    "annotate": ("annotate:annotate", "Draw questions for people to rate."),
    "agreement": ("agreement:agreement", "Show how far raters agree."),
    "memory": ("memory:memory", "Run memory systems, and compare what they find."),
    "eval": ("eval:evaluate", "Run lm-eval with the personamem tasks and models."),
    "report": ("report:report", "Print a table of scores with floors and intervals."),
    "persona-bench": ("persona_bench:persona_bench", "Import, audit and score PERSONA-Bench."),
    "canary": ("canary:canary", "Test whether a model has seen our data."),
    "tasks": ("tasks:tasks", "Show or install the lm-eval task files."),
}


class _Commands(click.Group):
    """A group that knows its commands by name and imports only the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"personamem_builder.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"auto_envvar_prefix": "PERSONAMEM", "help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="personamem")
def cli() -> None:
    """Build, check, publish and evaluate benchmarks of dynamic user profiling.

    Every flag can also be set in the environment: --out of import-official is PERSONAMEM_IMPORT_OFFICIAL_OUT.
    """


def main() -> None:
    """Run the command line; errors meant for people are printed without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # tables have lines that some terminals cannot show
    try:
        cli()
    except UserError as error:
        print_error(error)
        sys.exit(1)


def print_error(error: UserError) -> None:
    """Print an error, and its hint, to stderr."""
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
