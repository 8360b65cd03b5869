"""lm-eval's own command line, with our tasks and models registered and `predictions_<date>.jsonl` written."""

from __future__ import annotations

import importlib
import io
import logging
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from generation.errors import UserError
from generation.resources import data_dir

_OUTPUT: Final = "results"
_MODELS: Final = {
    "hf-prefix": "personamem_builder.evaluation.prefix_lm",
    "personamem-anthropic": "personamem_builder.evaluation.endpoints",
    "personamem-chat": "personamem_builder.evaluation.endpoints",
    "personamem-floor": "personamem_builder.evaluation.floors",
}
"""Our models, and the modules whose import registers them."""


def run_lm_eval(arguments: Sequence[str]) -> list[Path]:
    """Run lm-eval's command line.

    What it does beyond lm-eval: our tasks and models are known; chat backends get their messages through the chat
    template (they take nothing else) and are refused for log-likelihood tasks before anything is loaded; results go
    to `results/` unless `--output_path` says otherwise; the predictions are written beside them.

    Args:
        arguments: lm-eval's arguments, without the name of the program.

    Returns:
        The prediction files written; empty for lm-eval's other subcommands.

    Raises:
        UserError: lm-eval is not installed, or a task cannot run with the model.
    """
    try:
        from lm_eval._cli import HarnessCLI
        from lm_eval.utils import setup_logging
    except ModuleNotFoundError as error:
        raise UserError(f"lm-eval is not installed ({error})", "pip install 'personamem[eval]'") from error
    setup_logging()
    # A question counts towards its own type's metric only, which lm-eval takes for a mishap, at length.
    logging.getLogger("lm_eval.evaluator_utils").addFilter(
        lambda record: (
            "not scored on the same number" not in record.getMessage() or "personamem" not in record.getMessage()
        )
    )
    with _swapped(sys, "argv", ["personamem eval", *arguments]):  # lm-eval's parser reads nothing else
        harness = HarnessCLI()
        args = harness.parse_args()
        if getattr(args, "command", None) != "run":
            _include_tasks(args)
            harness.execute(args)
            return []
        ours_only = _prepare(args)
        with _watched(ours_only) as watched, _readable_http_errors():
            harness.execute(args)
    return [_write(tracker, samples) for tracker, samples in watched if samples]


def _include_tasks(args: Namespace) -> None:
    own = str(data_dir("lm_eval_tasks"))
    theirs = getattr(args, "include_path", None)
    args.include_path = [own, theirs] if theirs else own


def _prepare(args: Namespace) -> bool:
    """Fill in the arguments; say whether all tasks are ours, so that lm-eval's thousands need no indexing."""
    import lm_eval.models  # noqa: F401 (fills the registry)
    from lm_eval.tasks import TaskManager

    from personamem_builder.evaluation.task import no_loglikelihood
    from personamem_builder.evaluation.window import scores_no_loglikelihood

    config = _read_config(args)
    named = [config.tasks] if isinstance(config.tasks, str) else config.tasks
    tasks = [task for names in named for task in names.split(",") if task]
    if not tasks:
        raise UserError("no task is named", "personamem eval --tasks personamem_32k …")
    ours = [task for task in tasks if task.startswith("personamem") and not task.endswith(".yaml")]
    model = model_class(config.model)
    if config.model == "personamem-floor" and config.use_cache:
        # lm-eval's cache knows a request by its text, and a floor looks at more than that.
        raise UserError("--use_cache does not go with personamem-floor", "leave it out: floors cost nothing")
    if ours and scores_no_loglikelihood(model):
        _check_key(model)
        for task in ours:
            if "_generate" not in task:
                raise UserError(*no_loglikelihood(config.model, task if task != "personamem" else "personamem_32k"))
        if not config.apply_chat_template:
            args.apply_chat_template = True
    if ours:
        _check_recipe(args)
    if not config.output_path:
        args.output_path = _OUTPUT
    _make_writable(Path(config.output_path or _OUTPUT))
    args.include_path = config.include_path
    _include_tasks(args)
    ours_only = len(ours) == len(tasks)
    known = TaskManager(include_path=args.include_path, include_defaults=False)
    if ours_only and (unknown := [task for task in ours if not known.match_tasks([task])]):
        raise UserError(f"no task {', '.join(unknown)}", f"use one of {', '.join(known.all_tasks)}")
    return ours_only


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
            "for local models: pip install 'personamem[hf]'",
        ) from error


def _read_config(args: Namespace) -> Any:
    """Merge arguments and config file as lm-eval will do again, but without its words."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

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


def _make_writable(output: Path) -> None:
    folder = output.parent if output.suffix == ".json" else output
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{folder} cannot be written to: {error}", "name another --output_path") from error


def _check_key(model: Any) -> None:
    """Raise at once if an endpoint's key is missing; lm-eval notices at the first request, and then retries."""
    try:
        _ = object.__new__(model).api_key
    except ValueError as error:
        raise UserError(str(error), "keys are read from the environment only") from error
    except Exception:
        return  # it needs more than the environment: lm-eval will tell


@contextmanager
def _readable_http_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Named by module: the libraries are there only with lm-eval's API backends.
        if type(error).__module__.partition(".")[0] not in ("requests", "aiohttp"):
            raise
        raise UserError(
            f"the endpoint failed: {error}", "see its answer in the log above; use_cache keeps answers"
        ) from error


@contextmanager
def _watched(ours_only: bool) -> Iterator[list[tuple[Any, Any]]]:
    """Run lm-eval with three of its public names wrapped, since its command line offers no hooks.

    `simple_evaluate` is made to return the samples, from which the predictions are made, while lm-eval writes them
    only if asked to (they hold the prompts). `evaluate` is made to tell the model to the tasks. `TaskManager` leaves
    out the built-in tasks where none is wanted: indexing them takes several seconds.
    """
    import lm_eval
    import lm_eval.evaluator
    import lm_eval.tasks

    from personamem_builder.evaluation.window import running_model

    watched: list[tuple[Any, Any]] = []
    original = lm_eval.simple_evaluate

    def simple_evaluate(*args: Any, log_samples: bool = False, evaluation_tracker: Any = None, **kwargs: Any) -> Any:
        results = original(*args, log_samples=True, evaluation_tracker=evaluation_tracker, **kwargs)
        if results is not None:  # None on all ranks but the first
            from personamem_builder.evaluation.predictions import prediction_rows

            watched.append((evaluation_tracker, prediction_rows(results["samples"])))
            _name_model(evaluation_tracker.general_config_tracker, results["config"])
            if not log_samples:
                del results["samples"]
        return results

    original_evaluate = lm_eval.evaluator.evaluate

    def evaluate(lm: Any, *args: Any, **kwargs: Any) -> Any:
        token = running_model.set(lm)
        try:
            return original_evaluate(lm, *args, **kwargs)
        finally:
            running_model.reset(token)

    manager = partial(lm_eval.tasks.TaskManager, include_defaults=not ours_only)
    with (
        _swapped(lm_eval, "simple_evaluate", simple_evaluate),
        _swapped(lm_eval.evaluator, "evaluate", evaluate),
        _swapped(lm_eval.tasks, "TaskManager", manager),
    ):
        yield watched


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


def _write(tracker: Any, rows: list[dict[str, Any]]) -> Path:
    from personamem_builder.evaluation.predictions import write_predictions

    output = Path(tracker.output_path)
    folder = output.parent if output.suffix == ".json" else output / tracker.general_config_tracker.model_name_sanitized
    if not hasattr(tracker, "date_id"):
        raise UserError(f"lm-eval could not save its results to {output}", "see the warning above")
    path = folder / f"predictions_{tracker.date_id}.jsonl"
    write_predictions(path, rows)
    return path
