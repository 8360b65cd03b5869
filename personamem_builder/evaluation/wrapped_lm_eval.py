"""lm-eval's command line with some of its public names wrapped, since it offers no hooks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from personamem_builder.evaluation.journal import Journal
from personamem_builder.evaluation.journal_lm import JournalLM, identity_of
from personamem_builder.evaluation.predictions import prediction_rows, usage_of_tasks
from personamem_builder.evaluation.result_table import fitted
from personamem_builder.evaluation.window import running_model
from personamem_builder.schema import Prediction
from personamem_builder.text_table import terminal_width


@dataclass
class EvaluationRun:
    """What is known of a run before it, and what comes of it.

    Attributes:
        folder: Where results go.
        built_in: Whether lm-eval's own tasks are wanted, thousands that must be indexed.
        journal: Where answers are kept; None for a model that costs nothing.
        asked: How many requests there were.
        failed: Why some of them got no answer, each reason.
        saved: The tracker that saves the results, and the predictions, of each evaluation.
    """

    folder: Path
    built_in: bool
    journal: Path | None
    asked: int = 0
    failed: list[str] = field(default_factory=list)
    saved: list[tuple[Any, list[Prediction]]] = field(default_factory=list)


@contextmanager
def wrapped(run: EvaluationRun) -> Iterator[None]:
    """Run lm-eval with some of its public names wrapped, since its command line offers no hooks.

    `simple_evaluate` is made to return the samples, from which the predictions are made, while lm-eval writes them
    only if asked to (they hold the prompts), and what the answers took (`usage`). `evaluate` is made to tell the model
    to the tasks, and to keep its answers. `TaskManager` leaves out the built-in tasks where none is wanted: indexing
    them takes several seconds. The tracker is ours.
    """
    import lm_eval
    import lm_eval.evaluator
    import lm_eval.loggers
    import lm_eval.tasks
    import lm_eval.utils

    from personamem_builder.evaluation.saving import Tracker

    original = lm_eval.simple_evaluate
    original_evaluate = lm_eval.evaluator.evaluate
    original_table = lm_eval.utils.make_table

    def simple_evaluate(*args: Any, log_samples: bool = False, evaluation_tracker: Any = None, **kwargs: Any) -> Any:
        evaluation_tracker.journal = run.journal
        with (
            _keeping(run, kwargs) as keep,
            swapped(lm_eval.evaluator, "evaluate", partial(evaluate, keep=keep)),
        ):
            results = original(*args, log_samples=True, evaluation_tracker=evaluation_tracker, **kwargs)
        if results is not None:  # None on all ranks but the first
            rows = prediction_rows(results["samples"])
            run.saved.append((evaluation_tracker, rows))
            if usage := usage_of_tasks(rows):
                results["usage"] = usage
            _name_model(evaluation_tracker.general_config_tracker, results["config"])
            if not log_samples:
                del results["samples"]
        return results

    def evaluate(*, keep: Callable[..., Any], lm: Any, **kwargs: Any) -> Any:
        token = running_model.set(lm)
        try:
            results = original_evaluate(lm=keep(lm, **kwargs), **kwargs)
            if results is not None and lm.world_size > 1:
                _complete(results, kwargs["bootstrap_iters"])
            return results
        finally:
            running_model.reset(token)

    def make_table(*args: Any, **kwargs: Any) -> str:
        return fitted(original_table(*args, **kwargs), terminal_width())

    manager = partial(lm_eval.tasks.TaskManager, include_defaults=run.built_in)
    with (
        swapped(lm_eval, "simple_evaluate", simple_evaluate),
        swapped(lm_eval.tasks, "TaskManager", manager),
        swapped(lm_eval.loggers, "EvaluationTracker", Tracker),
        swapped(lm_eval.evaluator, "get_git_commit_hash", _commit),
        swapped(lm_eval.utils, "make_table", make_table),
    ):
        yield


def _commit() -> str | None:
    """Return the commit of the current folder, as lm-eval does, but without git's words where there is none."""
    from lm_eval.loggers.utils import get_commit_from_path

    try:
        found = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=True)
    except (subprocess.CalledProcessError, OSError):
        commit: str | None = get_commit_from_path(Path.cwd())
        return commit
    return found.stdout.strip()


@contextmanager
def _keeping(run: EvaluationRun, given: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    """Give what makes a model keep its answers; `given` are the arguments of `simple_evaluate`."""
    path = run.journal
    if path is None:
        yield lambda lm, **_: lm
        return

    from lm_eval.utils import simple_parse_args_string

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
def swapped(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    """Have a module's attribute be something else in the block."""
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


def _complete(results: dict[str, Any], bootstrap_iters: int) -> None:
    """Compute the results of our tasks from the samples of all processes: lm-eval has only the metrics of the first."""
    from personamem_builder.evaluation.task_results import task_results

    by_task: dict[str, list[Prediction]] = {}
    for row in prediction_rows(results["samples"]):
        by_task.setdefault(row["task"], []).append(row)
    for task, rows in by_task.items():
        results["results"][task] = task_results(results["results"][task], rows, bootstrap_iters)


def _name_model(tracker: Any, config: dict[str, Any]) -> None:
    """Give a model without a name one that tells what it is; lm-eval would draw a random name for its folder."""
    arguments = config["model_args"] or {}
    if tracker._get_model_name(arguments) is None:
        values = arguments.values() if isinstance(arguments, dict) else [arguments]
        tracker.model_name = tracker.model_name_sanitized = "-".join([config["model"], *map(str, values)])
