"""The command line. Each command lives in a module of its own, imported when it is called."""

from __future__ import annotations

import codecs
import errno
import gc
import importlib
import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from generation.errors import UserError
from generation.interruption import Interruption, interruptible, kept
from generation.progress import bars_as_lines
from generation.redaction import hide_keys
from personamem_builder.cli.help import Group, no_such_command, write_groups

_GROUPS: Final = {
    "Make": {
        "init": "Write example configurations to start from.",
        "generate": "Generate users, their histories, sessions and questions.",
        "assemble": "Assemble sessions into long contexts.",
        "build": "Build the dataset folder.",
        "import-official": "Turn the official release into a dataset folder.",
        "refine": "Rewrite or drop questions that give their answer away.",
        "new-topic": "Have a language model write a new topic.",
        "banks": "Check topic banks, the texts of the offline backend.",
    },
    "Check": {
        "audit": "Check whether a benchmark can be beaten unread.",
        "annotate": "Draw questions, or wrong answers, for people to rate.",
        "agreement": "Show how far raters agree.",
        "canary": "Test whether a model has seen the data.",
        "doctor": "Show what is installed, cached and missing.",
    },
    "Evaluate": {
        "eval": "Evaluate a model with lm-eval.",
        "report": "Show scores with floors and intervals.",
        "merge": "Merge the parts of a divided evaluation.",
        "tasks": "List the lm-eval tasks, or install them for lm_eval.",
        "persona-bench": "Import, audit and score PERSONA-Bench.",
    },
    "Look": {
        "view": "Read histories, questions and answers in a browser.",
        "inspect": "Show a question with its evidence in the history.",
        "timeline": "Show how a user's preferences change.",
        "stats": "Describe a benchmark in tables and pictures.",
    },
    "Publish": {
        "publish": "Publish a dataset on the Hub as a version.",
        "download": "Download a published version and verify it.",
        "diff": "Compare two versions of a dataset.",
        "export": "Export a dataset as the official release's files.",
        "space": "Write a leaderboard as a static website.",
        "publish-space": "Publish a leaderboard on the Hub as a Space.",
    },
    "Memory": {
        "memory": "Run memory systems and compare what they find.",
    },
}
"""What each command does, in groups; its module and its function there have its name."""

_COMMANDS: Final = {name: summary for commands in _GROUPS.values() for name, summary in commands.items()}

_VERSIONS: Final = ("lm-eval", "datasets", "torch")
"""The libraries on which scores depend, whose versions `--version` prints beside ours."""

_KEPT: Final = {
    "download": "nothing was written; rerun the command to resume the download",
    "eval": "what was answered is kept; rerun the command to ask for the rest",
    "memory": "what was found so far is kept; rerun the command to resume",
    "publish": "rerun the command to send the rest",
    "publish-space": "rerun the command to send the rest",
}
"""What interrupted commands have kept that did not say so themselves; the others have written nothing by then."""


class _Interrupted(Exception):
    """Takes an interruption, its cause, past click, which has words of its own for it."""


class _Commands(Group):
    """A group that knows its commands by name and imports only the one that runs."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            raise _Interrupted from stopped

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = name.replace("-", "_")
        function = "evaluate" if name == "eval" else module  # `eval` is Python's own
        command: click.Command = getattr(importlib.import_module(f"personamem_builder.cli.{module}"), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(no_such_command(args[0], list(_COMMANDS)))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        near = {name: summary for name, summary in _COMMANDS.items() if name.startswith(incomplete)}
        commands = [CompletionItem(name, help=summary) for name, summary in near.items()]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_groups(_GROUPS, formatter)


def _print_versions(ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    from personamem_builder.installation import version_of

    for name in ("personamem", *_VERSIONS):
        click.echo(f"{name} {version_of(name) or 'not installed'}")
    ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"auto_envvar_prefix": "PERSONAMEM", "help_option_names": ["-h", "--help"]},
    epilog="Any option can be set in the environment: --out of import-official is PERSONAMEM_IMPORT_OFFICIAL_OUT.\n\n"
    "Tab completion: add this line to ~/.bashrc (docs/settings.md has zsh and fish):\n\n"
    '\b\n  eval "$(_PERSONAMEM_COMPLETE=bash_source personamem)"',
    examples=[
        "personamem generate tiny --out runs/tiny",
        "personamem assemble runs/tiny --split 32k",
        "personamem build runs/tiny --out personamem",
        "personamem audit personamem",
        "personamem eval --tasks personamem_32k --model hf --model_args pretrained=MODEL --apply_chat_template",
        "personamem report results",
    ],
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,
    callback=_print_versions,
    help="Show the versions of personamem, lm-eval, datasets and torch.",
)
def cli() -> None:
    """Build, check and publish benchmarks of how well chat models know their users, and evaluate models on them.

    New here? `personamem init` writes configurations to edit; `personamem COMMAND --help` explains a command.
    """


def main() -> None:
    """Run the command line; errors meant for people are printed without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Tables have lines that some terminals cannot show; where the encoding is ASCII, click writes UTF-8 anyway.
        is_ascii = codecs.lookup(sys.stdout.encoding).name == "ascii"
        sys.stdout.reconfigure(encoding="utf-8" if is_ascii else None, errors="replace")
    hide_keys()
    bars_as_lines()
    sys.exit(_run())


def _run() -> int:
    """Run the command and return its exit status."""
    try:
        with interruptible():
            status = cli.main(standalone_mode=False)
            sys.stdout.flush()  # here, where a reader that has gone is noticed
            return status if isinstance(status, int) else 0
    except UserError as error:
        print_error(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (_Interrupted, click.Abort, KeyboardInterrupt) as stopped:
        return _end(stopped)
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        where = f"{error.filename}: " if error.filename else ""
        hint = "free some space and rerun the command; what was finished is kept"
        print_error(UserError(f"{where}the disk is full", hint))
    return 1


def _end(stopped: BaseException) -> int:
    """Say what is kept, and return the exit status that belongs to the signal."""
    cause = stopped.__cause__ or stopped
    signum = cause.signum if isinstance(cause, Interruption) else signal.SIGINT
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rest takes a moment
    with suppress(OSError):
        click.echo(f"interrupted: {kept(cause) or _KEPT.get(_command(), 'nothing was written')}", err=True)
        sys.stdout.flush()
    status = 128 + signum
    # What a traceback holds, such as pools and their semaphores, is let go before the end.
    for error in (stopped, cause):
        error.__traceback__ = None
    gc.collect()
    if _is_anything_left():
        os._exit(status)
    return status


def _is_anything_left() -> bool:
    """Say whether threads that wait for somebody else would keep the process from ending."""
    for child in multiprocessing.active_children():
        child.kill()
    end = time.monotonic() + 1
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                return True
    return False


def _command() -> str:
    return next((word for word in sys.argv[1:] if word in _COMMANDS), "")


def _forget_output() -> None:
    """Let the end of the process write nothing to a reader that has gone."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                os.dup2(null, stream.fileno())


def print_error(error: UserError) -> None:
    """Print an error, and its hint, to stderr."""
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
