"""lm-eval's own command line, with our tasks and models registered and `predictions_<date>.jsonl` written."""

from __future__ import annotations

import importlib
import io
import logging
import re
import shlex
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from generation.errors import UserError
from generation.reading import read_yaml
from generation.redaction import RedactingStream, hide, redact
from generation.resources import data_dir, install_hint

_OUTPUT: Final = "results"
_KEY_HEADER: Final = re.compile(r"(?i)auth|key|token|secret|cookie")
_MODELS: Final = {
    "hf-prefix": "personamem_builder.evaluation.prefix_lm",
    "personamem-anthropic": "personamem_builder.evaluation.endpoints",
    "personamem-chat": "personamem_builder.evaluation.endpoints",
    "personamem-floor": "personamem_builder.evaluation.floors",
}
"""Our models, and the modules whose import registers them."""


class Unanswered(UserError):
    """Some questions got no answer; the results of all others are written.

    Attributes:
        written: The prediction files.
    """

    def __init__(self, message: str, hint: str, written: list[Path]) -> None:
        super().__init__(message, hint)
        self.written = written


@dataclass
class _Run:
    """What is known of a run before it, and what comes of it.

    Attributes:
        folder: Where results go.
        built_in: Whether lm-eval's own tasks are wanted, thousands that must be indexed.
        journal: Where answers are kept; None for a model that costs nothing.
        asked: How many requests there were.
        failed: Why some of them got no answer, each reason.
        saved: The tracker that saves the results, and the prediction rows, of each evaluation.
    """

    folder: Path
    built_in: bool
    journal: Path | None
    asked: int = 0
    failed: list[str] = field(default_factory=list)
    saved: list[tuple[Any, list[dict[str, Any]]]] = field(default_factory=list)


def run_lm_eval(arguments: Sequence[str]) -> list[Path]:
    """Run lm-eval's command line.

    What it does beyond lm-eval: our tasks and models are known; chat backends get their messages through the chat
    template (they take nothing else) and are refused for log-likelihood tasks before anything is loaded; results go
    to `results/` unless `--output_path` says otherwise; the predictions are written beside them; answers are kept as
    they come, so that the same command goes on where it stopped; keys are kept out of what is printed and written.

    Args:
        arguments: lm-eval's arguments, without the name of the program.

    Returns:
        The prediction files written; empty for lm-eval's other subcommands.

    Raises:
        UserError: lm-eval is not installed, a task cannot run with the model, or something cannot be written.
        Unanswered: Some questions got no answer.
    """
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
        _swapped(sys, "argv", ["personamem eval", *arguments]),  # lm-eval's parser reads nothing else
        _redacted_output(),
        _redacted_logs(),
    ):
        harness = HarnessCLI()
        args = harness.parse_args()
        if getattr(args, "command", None) != "run":
            _include_tasks(args)
            harness.execute(args)
            return []
        run = _prepare(args)
        with _made(run.folder), _watched(run), _readable_http_errors(run.journal):
            harness.execute(args)
    written = [tracker.save_predictions(rows) for tracker, rows in run.saved if rows]
    if run.failed:
        raise Unanswered(
            f"{len(run.failed)} of {run.asked} questions got no answer, and count in no score; the first: "
            f"{redact(run.failed[0]) or 'no reason is known'}",
            f"the same command asks only these again: personamem eval {redact(shlex.join(arguments))}",
            written,
        )
    return written


def _include_tasks(args: Namespace) -> None:
    own = str(data_dir("lm_eval_tasks"))
    theirs = getattr(args, "include_path", None)
    args.include_path = [own, theirs] if theirs else own


def _prepare(args: Namespace) -> _Run:
    """Check the arguments and fill them in."""
    import lm_eval.models  # noqa: F401 (fills the registry)

    from personamem_builder.evaluation.journal import FILE_NAME
    from personamem_builder.evaluation.task_names import choose_tasks
    from personamem_builder.evaluation.window import scores_no_loglikelihood

    config = _read_config(args)
    _hide_keys(config.model_args)
    output = Path(config.output_path or _OUTPUT)
    folder = output.parent if output.suffix == ".json" else output
    journal = folder / FILE_NAME
    if config.use_cache:
        raise UserError(
            f"--use_cache has no use: answers are kept in {journal} as they come, and the same command asks only what "
            "is missing",
            f"leave it out; to ask anew, remove {journal}",
        )
    args.include_path = config.include_path
    _include_tasks(args)
    chosen = choose_tasks(config.tasks, args.include_path)
    args.tasks = chosen.names
    model = model_class(config.model)
    if scores_no_loglikelihood(model):
        _check_key(model)
        _check_can_write(config.model, chosen.output_types)
        if not config.apply_chat_template:
            args.apply_chat_template = True
    if chosen.ours:
        if config.num_fewshot:
            raise UserError(
                f"--num_fewshot {config.num_fewshot}: {chosen.ours[0]} has no few-shot examples",
                "leave it out; other tasks need a run of their own",
            )
        _check_recipe(args)
    if not config.output_path:
        args.output_path = _OUTPUT
    return _Run(folder, chosen.built_in, None if config.model == "personamem-floor" else journal)


def _check_can_write(model: str, output_types: Mapping[str, str | None]) -> None:
    from personamem_builder.evaluation.task import no_loglikelihood

    for task, kind in output_types.items():
        if kind in ("multiple_choice", "loglikelihood", "loglikelihood_rolling"):
            raise UserError(*no_loglikelihood(model, task))


def _hide_keys(model_args: Mapping[str, Any]) -> None:
    """Have the keys among a model's arguments hidden: lm-eval prints, logs and saves them all."""
    from personamem_builder.evaluation.journal import is_key_name

    for name, value in model_args.items():
        if isinstance(value, dict) and name in ("header", "headers"):
            for header, content in value.items():
                if _KEY_HEADER.search(str(header)):
                    hide(str(content).rpartition(" ")[2])
        elif is_key_name(name):
            hide(str(value))


def model_class(name: str) -> Any:
    """Return the class of a model of lm-eval, by its name."""
    from lm_eval.api.registry import get_model

    try:
        if name in _MODELS:
            importlib.import_module(_MODELS[name])
        return get_model(name)
    except ValueError as error:
        raise UserError(str(error), "name one of them with --model") from error
    except ImportError as error:
        raise UserError(
            f"--model {name} needs more than is installed: {error}",
            f"for local models: {install_hint('hf')}",
        ) from error


def _read_config(args: Namespace) -> Any:
    """Merge arguments and config file as lm-eval will do again, but without its words."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

    if args.config and not isinstance(read_yaml(Path(args.config)), dict):
        raise UserError(f"{args.config} is no mapping of arguments to values", "examples/eval/ has some that work")
    if not args.output_path and not args.config:
        args.output_path = _OUTPUT
    try:
        with redirect_stdout(io.StringIO()):
            return EvaluatorConfig.from_cli(args)
    except (OSError, TypeError, ValueError) as error:
        raise UserError(f"lm-eval refuses the arguments: {error}", "personamem eval run --help lists them") from error


def _check_recipe(args: Namespace) -> None:
    """Refuse faulty `config` and `seed` before a model is loaded, and keep the model's own seed from the data.

    lm-eval copies the model's arguments to the metadata, where a task cannot tell one seed from the other.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.utils import simple_parse_args_string

    from personamem_builder.dataset.fresh import recipe_of

    given = args.metadata
    if not given and args.config:
        given = EvaluatorConfig.load_yaml_config(args.config).get("metadata")
    metadata = simple_parse_args_string(given) if isinstance(given, str) else dict(given or {})
    recipe = recipe_of(metadata)
    if recipe is not None:
        args.metadata = {**metadata, "seed": recipe.seed}
    elif "seed" in metadata:
        raise UserError(
            f"--metadata seed={metadata['seed']} without config: only new data have a seed",
            "name the configuration to make them from, such as config=examples/full.yaml",
        )


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


def _check_key(model: Any) -> None:
    """Raise at once if an endpoint's key is missing; lm-eval notices at the first request, and then retries."""
    try:
        _ = object.__new__(model).api_key
    except ValueError as error:
        raise UserError(str(error), "keys are read from the environment only") from error
    except Exception:
        return  # it needs more than the environment: lm-eval will tell


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
            f"see its answer in the log above; answers are kept in {journal}: the same command goes on",
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


@contextmanager
def _watched(run: _Run) -> Iterator[None]:
    """Run lm-eval with some of its public names wrapped, since its command line offers no hooks.

    `simple_evaluate` is made to return the samples, from which the predictions are made, while lm-eval writes them
    only if asked to (they hold the prompts). `evaluate` is made to tell the model to the tasks, and to keep its
    answers. `TaskManager` leaves out the built-in tasks where none is wanted: indexing them takes several seconds. The
    tracker is ours.
    """
    import lm_eval
    import lm_eval.evaluator
    import lm_eval.loggers
    import lm_eval.tasks

    from personamem_builder.evaluation.saving import Tracker
    from personamem_builder.evaluation.window import running_model

    original = lm_eval.simple_evaluate
    original_evaluate = lm_eval.evaluator.evaluate

    def simple_evaluate(*args: Any, log_samples: bool = False, evaluation_tracker: Any = None, **kwargs: Any) -> Any:
        evaluation_tracker.journal = run.journal
        with (
            _keeping(run, kwargs) as keep,
            _swapped(lm_eval.evaluator, "evaluate", partial(evaluate, keep=keep)),
        ):
            results = original(*args, log_samples=True, evaluation_tracker=evaluation_tracker, **kwargs)
        if results is not None:  # None on all ranks but the first
            from personamem_builder.evaluation.predictions import prediction_rows

            run.saved.append((evaluation_tracker, prediction_rows(results["samples"])))
            _name_model(evaluation_tracker.general_config_tracker, results["config"])
            if not log_samples:
                del results["samples"]
        return results

    def evaluate(*, keep: Callable[..., Any], lm: Any, **kwargs: Any) -> Any:
        token = running_model.set(lm)
        try:
            return original_evaluate(lm=keep(lm, **kwargs), **kwargs)
        finally:
            running_model.reset(token)

    manager = partial(lm_eval.tasks.TaskManager, include_defaults=run.built_in)
    with (
        _swapped(lm_eval, "simple_evaluate", simple_evaluate),
        _swapped(lm_eval.tasks, "TaskManager", manager),
        _swapped(lm_eval.loggers, "EvaluationTracker", Tracker),
    ):
        yield


@contextmanager
def _keeping(run: _Run, given: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    """Give what makes a model keep its answers.

    Args:
        run: Says where, and is told what came of it.
        given: The arguments of `simple_evaluate`.
    """
    path = run.journal
    if path is None:
        yield lambda lm, **_: lm
        return

    from lm_eval.utils import simple_parse_args_string

    from personamem_builder.evaluation.journal import Journal, JournalLM, identity_of

    opened: list[Journal] = []
    models: list[JournalLM] = []

    def journal() -> Journal:
        if not opened:
            opened.append(Journal(path))
        return opened[0]

    if path.exists():
        journal()  # before the model is loaded, since it may be no such file; else refused data leave none behind

    def keep(lm: Any, *, task_dict: Any, apply_chat_template: bool | str = False, **_: Any) -> Any:
        arguments = given.get("model_args") or {}
        if isinstance(arguments, str):
            arguments = simple_parse_args_string(arguments)
        seeds = [given.get(name) for name in ("random_seed", "numpy_random_seed", "torch_random_seed")]
        template = lm.chat_template(apply_chat_template) if apply_chat_template else None
        identity = identity_of(lm, given["model"], arguments, [seeds, template])
        models.append(JournalLM(lm, journal(), identity, task_dict.get("tasks", {})))
        return models[-1]

    try:
        yield keep
    finally:
        for one in opened:
            one.close()
        run.asked += sum(model.asked for model in models)
        run.failed += [reason for model in models for reason in model.failed]


@contextmanager
def _swapped(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


def _name_model(tracker: Any, config: dict[str, Any]) -> None:
    """Give a model without a name one that tells what it is; lm-eval would draw a random name for its folder."""
    arguments = config["model_args"] or {}
    if tracker._get_model_name(arguments) is None:
        values = arguments.values() if isinstance(arguments, dict) else [arguments]
        tracker.model_name = tracker.model_name_sanitized = "-".join([config["model"], *map(str, values)])
