"""lm-eval's own command line, with our tasks and models registered and `predictions_<date>.jsonl` written."""

from __future__ import annotations

import io
import logging
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, cast

from generation.errors import UserError
from generation.redaction import RedactingStream, redact
from generation.resources import install_hint
from personamem_builder.evaluation.arguments import include_tasks, prepare
from personamem_builder.evaluation.estimate import Estimate
from personamem_builder.evaluation.estimated_run import estimate_run
from personamem_builder.evaluation.own_arguments import take_own
from personamem_builder.evaluation.wrapped_lm_eval import swapped, wrapped


class Unanswered(UserError):
    """Some questions got no answer; the results of all others are `written`, in these prediction files."""

    def __init__(self, message: str, hint: str, written: list[Path]) -> None:
        super().__init__(message, hint)
        self.written = written


def run_lm_eval(arguments: Sequence[str]) -> list[Path]:
    """Run lm-eval's command line.

    What it does beyond lm-eval: our tasks and models are known; chat backends get their messages through the chat
    template (they take nothing else) and are refused for log-likelihood tasks before anything is loaded; results go
    to `results/` unless `--output_path` says otherwise; the predictions are written beside them; answers are kept as
    they come, so that the same command goes on where it stopped; keys are kept out of what is printed and written;
    `--shard I/N` asks one part of the questions.

    Returns:
        The prediction files written; empty for lm-eval's other subcommands.

    Raises:
        UserError: lm-eval is not installed, a task cannot run with the model, or something cannot be written.
        Unanswered: Some questions got no answer.
    """
    theirs, own = take_own(arguments)
    with _harness(theirs) as harness:
        args = harness.parse_args()
        if getattr(args, "command", None) != "run":
            include_tasks(args)
            harness.execute(args)
            return []
        run = prepare(args, own.shard)
        with _made(run.folder), wrapped(run), _readable_http_errors(run.journal):
            harness.execute(args)
    written = [tracker.save_predictions(rows) for tracker, rows in run.saved if rows]
    if run.failed:
        raise Unanswered(
            f"{len(run.failed)} of {run.asked} questions got no answer and count towards no score; the first: "
            f"{redact(run.failed[0]) or 'no reason is known'}",
            f"rerun the command to ask only these again: personamem eval {redact(shlex.join(arguments))}",
            written,
        )
    return written


def estimate_lm_eval(arguments: Sequence[str]) -> Estimate:
    """Return what a run of lm-eval's command line will take, `--estimate` and what belongs to it among the arguments.

    Raises:
        UserError: See `estimate_run`.
    """
    theirs, own = take_own(arguments)
    with _harness(theirs) as harness:
        args = harness.parse_args()
        if getattr(args, "command", None) != "run":
            raise UserError("--estimate is for runs only", "personamem eval --tasks … --model … --estimate")
        return estimate_run(args, own)


@contextmanager
def _harness(arguments: Sequence[str]) -> Iterator[Any]:
    """Yield lm-eval's command line, which reads these arguments; keys are kept out of what is printed and logged."""
    try:
        from lm_eval._cli import HarnessCLI
        from lm_eval.utils import setup_logging
    except ModuleNotFoundError as error:
        raise UserError(f"lm-eval is not installed ({error})", install_hint("eval")) from error
    setup_logging()
    # A question counts towards its own type's metric only, which lm-eval takes for a mishap, at length.
    logging.getLogger("lm_eval.evaluator_utils").addFilter(
        lambda record: (
            "not scored on the same number" not in record.getMessage() or "personamem" not in record.getMessage()
        )
    )
    with (
        swapped(sys, "argv", ["personamem eval", *arguments]),  # lm-eval's parser reads nothing else
        _redacted_output(),
        _redacted_logs(),
    ):
        yield HarnessCLI()


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder of the results; one that nothing was written to goes where the block fails."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{folder} cannot be written to: {error}", "name another --output_path") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty, and so are those above it
            for path in new:
                path.rmdir()
        raise


@contextmanager
def _readable_http_errors(journal: Path | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Named by module: the libraries are there only with lm-eval's API backends.
        if type(error).__module__.partition(".")[0] not in ("requests", "aiohttp", "tenacity"):
            raise
        raise UserError(
            f"the endpoint failed: {redact(str(error)) or type(error).__name__}",
            f"see its answer in the log above; answers are kept in {journal}: rerun the command to resume",
        ) from error


@contextmanager
def _redacted_output() -> Iterator[None]:
    """Keep keys out of what is printed: lm-eval prints the arguments of the model."""
    stream = RedactingStream(sys.stdout)
    try:
        with redirect_stdout(cast(io.TextIOBase, stream)):
            yield
    finally:
        stream.flush()


@contextmanager
def _redacted_logs() -> Iterator[None]:
    """Keep keys out of all log records: lm-eval's backends log errors with the headers of the request."""
    make = logging.getLogRecordFactory()
    formatter = logging.Formatter()

    def redacted(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            record.msg, record.args = redact(record.getMessage()), ()
        except (TypeError, ValueError):  # its handler will tell of the faulty format
            return record
        if record.exc_info:
            record.exc_text = redact(formatter.formatException(record.exc_info))
        return record

    logging.setLogRecordFactory(redacted)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
