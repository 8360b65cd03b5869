"""Scores as the Hub shows them on a model's page and a benchmark's leaderboard: `.eval_results/*.yaml`.

The files belong into the model's repository; https://huggingface.co/docs/hub/eval-results has their form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from generation.errors import UserError
from generation.files import replacing
from personamem_builder.hub.repository import LOG_IN, hub_api
from personamem_builder.hub.retries import patiently
from personamem_builder.memory.controls import Full
from personamem_builder.publish.explain import explained
from personamem_builder.report.analysis import primary_score
from personamem_builder.report.rows import ScoreRow, score_row
from personamem_builder.results.runs import Run
from personamem_builder.statistics import Estimate

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry


_SHAPING: Final = ("roles", "explain", "gen_kwargs", "solver", "system_instruction")
"""Settings that a reader of a score should know."""


class ModelResults(NamedTuple):
    """The files of one model, by their paths in its repository; `names` are all that it may be called."""

    model: str
    files: Mapping[str, str]
    names: Collection[str]


def model_results(runs: Iterable[Run]) -> tuple[list[ModelResults], list[str]]:
    """Return the files for the runs whose scores can stand beside others, and why the others cannot.

    There is a file for each model and dataset, with an entry for each task: the share of right answers, in per cent,
    by the score that counts for the task, with the interval and what shaped the answers in its notes.

    Raises:
        UserError: A model has several scores for one task, or the Hub client is too old.
    """
    entries: dict[str, dict[str, dict[str, EvalResultEntry]]] = {}
    names: dict[str, Collection[str]] = {}
    refused = []
    for run in sorted(runs, key=lambda run: (run.model, run.task)):
        reason = refusal(run)
        if reason or not run.hub:
            refused.append(f"{run.model} on {run.task}: {reason}")
            continue
        tasks = entries.setdefault(run.model, {}).setdefault(run.hub[0], {})
        if run.task in tasks:
            raise UserError(
                f"{run.model} has several scores for {run.task} of {run.hub[0]}, and a leaderboard takes one",
                "name the results of one: personamem report RESULTS --eval-results DIR",
            )
        tasks[run.task] = _entry(run, *run.hub)
        names[run.model] = run.names
    results = [
        ModelResults(
            model, {_path(repo): _yaml(list(tasks.values())) for repo, tasks in sorted(datasets.items())}, names[model]
        )
        for model, datasets in sorted(entries.items())
    ]
    return results, refused


def refusal(run: Run) -> str | None:
    """Say why a run's score is not one of its model on the benchmark as it is; None where it is."""
    truncated = sum(answer.truncated for answer in run.answers.values())
    reasons = (
        (run.is_floor, "a shortcut answered, not a model"),
        (run.shown.tainted, f"tainted: its memory showed text of the options for {run.shown.tainted} questions"),
        (not run.has_context, "it was asked without the history"),
        (
            run.shown.memory != Full.name,
            f"it is a score of the memory {run.shown.memory} as much as of the model, and the Hub has no row for that",
        ),
        (run.subset, f"only the questions of {run.subset.file} were asked" if run.subset else ""),
        (run.shard, f"it is part {run.shard} of a run: put the parts together with personamem merge"),
        (not run.is_whole, f"only {len(run.asked)} questions were asked"),
        (run.failed, f"{len(run.failed)} of {len(run.asked)} questions got no answer: run the command again"),
        (truncated, f"the histories of {truncated} questions were cut"),
        ("instruction" in dict(run.model_args), "it was asked with an instruction of its own"),
        (
            run.hub is None,
            "its data are not from the Hub, where they need a place: evaluate with "
            """--metadata '{"repo": "ORG/NAME", "revision": "v1.0.0"}', or in Inspect -T repo=ORG/NAME""",
        ),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _entry(run: Run, repo: str, commit: str) -> EvalResultEntry:
    try:
        from huggingface_hub import EvalResultEntry
    except ImportError as error:
        raise UserError(
            "this version of huggingface_hub knows no evaluation results",
            "pip install --upgrade 'huggingface_hub>=1.4'",
        ) from error
    score = primary_score(run.scores, run.task)
    row = score_row(run, run.model, score)
    assert row.overall is not None  # a run in which nothing failed has answers
    return EvalResultEntry(
        dataset_id=repo,
        task_id=run.task,
        value=round(100 * row.overall.value, 2),
        dataset_revision=commit,
        date=run.date[:10],
        notes="; ".join(_notes(run, score, row, row.overall)),
    )


def _notes(run: Run, score: str, row: ScoreRow, estimate: Estimate) -> Iterator[str]:
    yield f"accuracy in per cent ({score}) of {estimate.n} questions"
    if estimate.low is not None and estimate.high is not None:
        yield f"95 % interval {100 * estimate.low:.1f} to {100 * estimate.high:.1f}, clustered by persona"
    if row.macro is not None:
        yield f"mean of the question types {100 * row.macro.value:.1f}"
    yield from (f"{100 * row.shares[name]:.1f} % of the answers {name}" for name in row.flags)
    if row.skipped_rate:
        yield f"{100 * row.skipped_rate:.1f} % of the questions too long for the model, counted as wrong"
    yield from (f"{name}={value}" for name, value in run.model_args if name in _SHAPING)
    yield f"personamem, backend {run.backend}"


def _yaml(entries: list[EvalResultEntry]) -> str:
    from huggingface_hub import eval_result_entries_to_yaml

    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)


def _path(repo: str) -> str:
    return f".eval_results/{repo.replace('/', '__')}.yaml"


def write_results(results: Sequence[ModelResults], folder: Path) -> list[Path]:
    """Write the files of each model into a folder of its own, as they lie in its repository; return their paths."""
    written = []
    for model in results:
        for name, text in model.files.items():
            path = folder / re.sub(r"[^\w.-]+", "__", model.model).lstrip(".") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def results_of(results: Sequence[ModelResults], repo_id: str) -> ModelResults:
    """Return the results of the model that a repository holds: the one of its name, or the only one.

    Raises:
        UserError: There are several, and none has its name.
    """
    own = [model for model in results if repo_id in model.names]
    candidates = own or results
    if len(candidates) != 1:
        raise UserError(
            f"the results are of several models, and none is called {repo_id}: "
            + ", ".join(model.model for model in candidates),
            "name the results of the one whose repository it is",
        )
    return candidates[0]


def open_pull_request(model: ModelResults, repo_id: str) -> str:
    """Open a pull request that adds the files of a model to its repository `ORG/MODEL`; return its address.

    Raises:
        UserError: The Hub refuses it, or there is no such repository.
    """
    from huggingface_hub import CommitOperationAdd

    with explained(repo_id, "model"):
        api = hub_api()
        if api.token is None:
            raise UserError(f"no pull request can be opened on {api.endpoint} without a token", LOG_IN)
        operations = [CommitOperationAdd(path, text.encode()) for path, text in model.files.items()]
        commit = patiently(
            api.create_commit,
            repo_id,
            operations,
            commit_message="Add evaluation results on PersonaMem",
            create_pr=True,
        )
    return str(commit.pr_url)
