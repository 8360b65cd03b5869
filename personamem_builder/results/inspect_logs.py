"""Logs of Inspect (`*.eval`) in the form in which lm-eval's results are read; `personamem.py` has the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.results.answers import PredictionLine, ScoredAnswer, collect_answers, line_from_prediction
from personamem_builder.results.files import MOST_FAULTS, ResultsFile
from personamem_builder.results.settings import printable

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSampleSummary

BACKEND: Final = "inspect_ai"
"""What stands for the backend of lm-eval in runs of Inspect's."""

_RULES: Final = ("robust", "v1_parity")
"""Our scorers; what others of the user's said is passed over."""

# Of the generation settings these do not shape a reply.
_CONNECTION: Final = {
    *("max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "max_connections", "adaptive_connections"),
    *("cache", "cache_prompt", "batch"),
}


class InspectLog(ResultsFile):
    """A log; `content` says what it holds as lm-eval's `results_<date>.json` would."""

    @property
    def date(self) -> str:
        """The date of the run, in UTC, in the form of lm-eval's."""
        return str(self.content["date"])

    def answers(self, faults: list[UserError]) -> dict[str, dict[str, ScoredAnswer]]:
        """Return the answers by task and question id; `faults` gets what is wrong with those that cannot be used.

        Raises:
            UserError: The log holds none.
        """
        (task,) = self.content["configs"]
        answers = collect_answers(self.path, self._lines(task, faults), faults)
        if not answers and not faults:
            raise UserError(f"{self.path}: the log holds no samples", "evaluate without --no-log-samples")
        return answers

    def _lines(self, task: str, faults: list[UserError]) -> Iterator[tuple[str, PredictionLine]]:
        before = len(faults)
        for summary in _summaries(self.path):
            where = f"{self.path}, sample {printable(str(summary.id))}"
            try:
                yield where, line_from_prediction(_prediction(task, summary), where)
            except UserError as fault:
                faults.append(fault)
                if len(faults) - before >= MOST_FAULTS:
                    return


def read_logs(paths: Iterable[Path], faults: list[UserError], notes: list[str]) -> list[InspectLog]:
    """Read logs that are whole; `notes` says which are not, and `faults` gets what is wrong with others."""
    headers: dict[Path, EvalLog] = {}
    logs = []
    for path in paths:
        try:
            headers[path] = log = _read_header(path)
            if _is_whole(log):
                logs.append(InspectLog(path, False, _content(path, log)))
        except UserError as fault:
            faults.append(fault)
    gone_on_with = {log.eval.task_id for log in headers.values() if _is_whole(log)}
    for path, log in headers.items():
        if not _is_whole(log) and log.eval.task_id not in gone_on_with:
            state = "invalidated" if log.invalidated else f"not finished ({log.status})"
            notes.append(f"left out {path}: {state}; go on with: inspect eval-retry {path}")
    return logs


def _is_whole(log: EvalLog) -> bool:
    return bool(log.status == "success" and not log.invalidated)


def read_replies(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what the model wrote, by question id; `read_logs` has read the file."""
    from inspect_ai.log import read_eval_log_sample

    unread = {"messages", "events", "events_data", "attachments", "store"}
    for summary in _summaries(path):
        sample = read_eval_log_sample(path, summary.id, exclude_fields=unread)
        if sample.output.choices:
            yield str(sample.id), sample.output.completion


def _read_header(path: Path) -> EvalLog:
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise UserError(f"{path}: reading logs of Inspect needs inspect-ai", install_hint("inspect")) from error
    try:
        return read_eval_log(path, header_only=True)
    except Exception as error:  # whatever the bytes of a broken archive lead to
        raise _unreadable(path, error) from error


def _summaries(path: Path) -> list[EvalSampleSummary]:
    """Return what a log says of its samples without their messages, which are most of it."""
    from inspect_ai.log import read_eval_log_sample_summaries

    try:
        summaries: list[EvalSampleSummary] = read_eval_log_sample_summaries(path)
    except Exception as error:
        raise _unreadable(path, error) from error
    return summaries


def _unreadable(path: Path, error: Exception) -> UserError:
    what = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    return UserError(f"{path} cannot be read as a log of Inspect: {what}", "remove it, or evaluate again")


def _content(path: Path, log: EvalLog) -> dict[str, Any]:
    spec = log.eval
    metadata = spec.metadata or {}
    is_ours = "task" in metadata and "data_digest" in metadata
    if is_ours and (spec.config.epochs or 1) > 1:
        raise UserError(
            f"{path}: each question was asked {spec.config.epochs} times, and a report takes one answer a question",
            "evaluate without --epochs",
        )
    task = str(metadata["task"]) if is_ours else spec.task
    limit = spec.config.limit
    given = {name: value for name, value in spec.model_args.items() if value is not None}
    own = metadata.get("generation") or {}
    settings = {
        name: value
        for config in (spec.model_generate_config, log.plan.config)
        for name, value in config.model_dump(exclude_none=True, exclude=_CONNECTION).items()
        if own.get(name) != value
    }
    return {
        "config": {
            "model": BACKEND,
            "model_args": given | ({"solver": spec.solver} if spec.solver else {}),
            "gen_kwargs": settings or None,
            "limit": limit[1] - limit[0] if isinstance(limit, tuple) else limit,
        },
        "model_name": spec.model,
        "configs": {task: {"metadata": metadata, "test_split": metadata.get("split")}},
        "n-samples": {
            task or spec.task: {"original": metadata.get("questions", 0), "effective": len(_summaries(path))}
        },
        "date": spec.created[:19].replace(":", "-"),
    }


def _prediction(task: str, summary: EvalSampleSummary) -> dict[str, Any]:
    """Return what stands in a line of a predictions file."""
    scores = {rule: score for rule, score in (summary.scores or {}).items() if rule in _RULES}
    told = next((score.metadata or {} for score in scores.values()), {})
    failed = summary.error is not None or not scores
    return {
        **{name: value for name, value in summary.metadata.items() if name in PredictionLine.model_fields},
        **{name: value for name, value in told.items() if name in PredictionLine.model_fields},
        "task": task,
        "question_id": summary.id,
        "answer": summary.target,
        "predictions": {rule: score.answer for rule, score in scores.items()},
        "credits": {rule: score.value for rule, score in scores.items()},
        "outcome": "failed" if failed else told.get("outcome"),
        "skipped": bool(told.get("skipped")),
        "truncated": False,
    }
