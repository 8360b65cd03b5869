"""Answers kept as they come, so that an evaluation that stopped asks only what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from generation.llm.cache import ReplyCache
from personamem_builder.evaluation.responses import LetterAnswer, LogLikelihood, Reply
from personamem_builder.usage import AnswerUsage

FILE_NAME: Final = "answers.sqlite"


MISSING: Final = object()
"""Stands for an answer that is not kept."""


class Journal:
    """The answers of any number of models and tasks, in one SQLite file, which is made if it is not there.

    Raises:
        UserError: It is no such file, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cache = ReplyCache(path, "a journal of answers")

    def get(self, key: str) -> Any:
        """Return the answer kept under a key as lm-eval takes it, or `MISSING`."""
        text = self._cache.get(key)
        if text is None:
            return MISSING
        try:
            return _decoded(json.loads(text))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise UserError(f"{self.path}: an answer in it is damaged: {error}", "move it away") from error

    def put(self, key: str, answer: Any, *, wait: bool) -> None:
        """Keep an answer, on the disk when this returns if `wait`, else soon after.

        A failure, or what no answer has the form of, is not kept.

        Raises:
            UserError: It, or one before it, could not be written.
        """
        form = _encoded(answer)
        if form is not None:
            (self._cache.put if wait else self._cache.put_soon)(key, json.dumps(form))

    def flush(self) -> None:
        """Return when all is on the disk."""
        self._cache.flush()

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        self._cache.close()


def _encoded(answer: Any) -> Any:
    """Return an answer as JSON has it; None for what is not kept.

    An empty text without more is not kept: lm-eval's backends give it for an endpoint's failure, too.
    """
    if isinstance(answer, Reply):
        known = {name: value for name, value in answer.usage._asdict().items() if value is not None}
        kept = {"text": str(answer), "outcome": answer.outcome, "finish_reason": answer.finish_reason, **known}
        return None if answer.outcome == "failed" else kept
    if isinstance(answer, str):
        return answer or None
    if isinstance(answer, LetterAnswer):
        if answer.outcome == "failed":
            return None
        known = {name: value for name, value in answer.usage._asdict().items() if value is not None}
        return {
            "logprob": answer[0],
            "is_greedy": answer[1],
            "unseen": answer.unseen,
            "outcome": answer.outcome,
            **known,
        }
    if isinstance(answer, LogLikelihood):
        return {"token_logprobs": answer.token_logprobs, "is_greedy": bool(answer[1])}
    if isinstance(answer, tuple) and len(answer) == 2:
        return [float(answer[0]), bool(answer[1])]
    return answer if isinstance(answer, float) else None  # of a rolling log-likelihood


def _decoded(form: Any) -> Any:
    if isinstance(form, dict):
        if "token_logprobs" in form:
            return LogLikelihood([float(value) for value in form["token_logprobs"]], bool(form["is_greedy"]))
        if "logprob" in form:
            logprob, unseen = float(form["logprob"]), float(form["unseen"])
            return LetterAnswer(logprob, bool(form["is_greedy"]), unseen, form["outcome"], "", _usage(form))
        return Reply(form["text"], form["outcome"], form["finish_reason"], _usage(form))
    if isinstance(form, list):
        return float(form[0]), bool(form[1])
    if not isinstance(form, str | float):
        raise TypeError(f"{form!r} has the form of none")
    return form


def _usage(form: dict[str, Any]) -> AnswerUsage:
    """Return what an answer took; journals of earlier versions do not say it."""
    seconds, *tokens = (form.get(name) for name in AnswerUsage._fields)
    return AnswerUsage(
        None if seconds is None else float(seconds), *(None if count is None else int(count) for count in tokens)
    )
