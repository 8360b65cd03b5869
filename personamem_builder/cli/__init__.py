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

from generation.errors import UserError
from generation.interruption import Interruption, interruptible, kept
from generation.redaction import hide_keys

_COMMANDS: Final = {
    "generate": "Generate personas, histories, sessions and questions.",
    "banks": "Check topic banks: what the offline backend knows of a topic.",
    "new-topic": "Have a language model write the bank of a new topic.",
    "refine": "Rewrite or drop questions that can be answered without reading.",
    "timeline": "Show how a persona's preferences evolve.",
    "assemble": "Put the sessions of a run together to long contexts.",
    "build": "Write the dataset folder of a run.",
    "audit": "Check whether a benchmark can be beaten without reading it, and is whole.",
    "import-official": "Turn the official release into a dataset folder.",
    "export": "Write a dataset folder as the files of the official release.",
    "diff": "Compare two versions of a dataset and propose the next number.",
    "publish": "Publish a dataset folder on the Hub as a version.",
    "download": "Fetch a published version from the Hub and verify it.",
    "stats": "Say what a benchmark consists of, in tables and pictures.",
    "inspect": "Show a question with its evidence marked in the history.",
    "view": "Open a page to read the histories, questions and answers.",
    "annotate": "Draw questions for people to rate.",
    "agreement": "Show how far raters agree.",
    "memory": "Run memory systems, and compare what they find.",
    "eval": "Run lm-eval with the personamem tasks and models.",
    "merge": "Make the whole run of the parts of an evaluation.",
    "report": "Print a table of scores with floors and intervals.",
    "space": "Write a leaderboard with viewer and audit as a static Space.",
    "publish-space": "Publish a leaderboard as a Space on the Hub.",
    "persona-bench": "Import, audit and score PERSONA-Bench.",
    "canary": "Test whether a model has seen our data.",
    "tasks": "Show or install the lm-eval task files.",
}
"""What each command does; its module and its function there have its name."""


_KEPT: Final = {
    "download": "nothing was written; the same command goes on with what was fetched",
    "eval": "what was answered is kept; the same command asks only for the rest",
    "memory": "what was found so far is kept; the same command goes on from there",
    "publish": "the same command goes on with what was not sent yet",
    "publish-space": "the same command goes on with what was not sent yet",
}
"""What interrupted commands have kept that did not say so themselves; the others have written nothing by then."""


class _Interrupted(Exception):
    """Takes an interruption, its cause, past click, which has words of its own for it."""


class _Commands(click.Group):
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


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
        # Tables have lines that some terminals cannot show; where the encoding is ASCII, click writes UTF-8 anyway.
        is_ascii = codecs.lookup(sys.stdout.encoding).name == "ascii"
        sys.stdout.reconfigure(encoding="utf-8" if is_ascii else None, errors="replace")
    hide_keys()
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
        hint = "free some space and run the same command again; what was finished is kept"
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
