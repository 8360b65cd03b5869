"""A model of lm-eval that asks only what is not kept in a journal.

lm-eval's own cache knows a request by its text alone: two models with one file get each other's answers, and a failure
counts for an answer from then on.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from generation.redaction import redact_data
from personamem_builder.evaluation.journal import MISSING, Journal
from personamem_builder.evaluation.responses import LetterAnswer, Reply

_log = logging.getLogger("lm_eval.personamem")

SHAPES_NO_ANSWER: Final = frozenset(
    [
        "num_concurrent",
        "batch_size",
        "max_batch_size",
        "timeout",
        "max_retries",
        "verify_certificate",
        "ca_cert_path",
        "prefill_chunk",
        "gpu_memory_utilization",
    ]
)
"""Arguments of models that say how answers are got, not which."""

_KEY_NAME: Final = re.compile(r"(?i)(?:^|_)(?:api_?key|(?:auth|access|hf)_?token|secret|password)$|^token$")


def is_key_name(name: str) -> bool:
    """Say whether an argument of a model holds a key, by its name; `think_end_token` is none."""
    return _KEY_NAME.search(name) is not None


def identity_of(lm: Any, model: str, arguments: Mapping[str, Any], more: Sequence[Any] = ()) -> str:
    """Return a digest of what shapes the answers of a model, whatever it is asked.

    Keys are no part of it, nor how many requests are under way or how long they may take. A model on this machine is
    known by its files too: others under the same path are another model. `more` is what else there is, such as seeds
    and the chat template.
    """
    given = {
        name: redact_data(value)
        for name, value in arguments.items()
        if name not in SHAPES_NO_ANSWER and not is_key_name(name)
    }
    inner = getattr(lm, "model", None)
    shapes = [
        model,
        given,
        {name: _files(value) for name, value in given.items() if isinstance(value, str)},
        [str(inner) if isinstance(inner, str) else None, redact_data(getattr(lm, "base_url", None))],
        getattr(getattr(inner, "config", None), "_commit_hash", None),  # where `main` was on the Hub
        str(getattr(lm, "device", None)).partition(":")[0],
        list(more),
    ]
    return _sha256(json.dumps(shapes, sort_keys=True, default=str))


def _files(value: str) -> list[tuple[str, int, int]]:
    path = Path(value).expanduser()
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
        return [(file.name, (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files if file.is_file()]
    except (OSError, ValueError):  # no path at all, or one that cannot be read: the model will tell
        return []


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _NotWritten(BaseException):
    """Stops a model that asks on and on: as an `Exception`, what failed would count for the request and be retried."""

    def __init__(self, error: UserError) -> None:
        super().__init__(str(error))
        self.error = error


class JournalLM:
    """A model of lm-eval that answers what is kept, and keeps what the model itself answers.

    Args:
        lm: The model.
        journal: Where answers are kept.
        identity: What shapes all of them, see `identity_of`.
        tasks: The tasks of the run by name. What shapes the answers to one beside the request is its
            `answers_shaped_by`, if it has that, and such a task can do with failures.

    Attributes:
        asked: How many requests there were.
        failed: Why some of them got no answer, each reason.
    """

    def __init__(self, lm: Any, journal: Journal, identity: str, tasks: Mapping[str, Any]) -> None:
        self._lm = lm
        self._journal = journal
        self._identity = identity
        self._tasks = tasks
        self.asked = 0
        self.failed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def gather_object(self, obj: Any, dst: int = 0) -> Any:
        """Gather what the processes of a run have, by task.

        lm-eval looks every metric of the first up in the others, which may have no question of that type.
        """
        gathered = self._lm.gather_object(obj, dst)
        return gathered and [
            {task: defaultdict(list, own) if isinstance(own, dict) else own for task, own in by_task.items()}
            for by_task in gathered
        ]

    def loglikelihood(self, requests: Sequence[Any], **kwargs: Any) -> list[Any]:
        """Score continuations."""
        return self._ask("loglikelihood", requests, kwargs)

    def loglikelihood_rolling(self, requests: Sequence[Any], **kwargs: Any) -> list[Any]:
        """Score whole texts."""
        return self._ask("loglikelihood_rolling", requests, kwargs)

    def generate_until(self, requests: Sequence[Any], **kwargs: Any) -> list[Any]:
        """Let the model write."""
        return self._ask("generate_until", requests, kwargs)

    def _ask(self, method: str, requests: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        keeper = _AnswerKeeper(method, self._journal)
        answers = [self._kept(keeper, index, request) for index, request in enumerate(requests)]
        missing = [index for index, answer in enumerate(answers) if answer is MISSING]
        self._tell(len(requests), len(requests) - len(missing))
        if missing:
            for index, answer in zip(missing, self._new(keeper, requests, missing, kwargs), strict=True):
                answers[index] = answer
        failed = [
            (request.task_name, answer.finish_reason)
            for request, answer in zip(requests, answers, strict=True)
            if isinstance(answer, Reply | LetterAnswer) and answer.outcome == "failed"
        ]
        self.asked += len(requests)
        self.failed += [reason for _, reason in failed]
        self._check_failed(failed)
        return answers

    def _kept(self, keeper: _AnswerKeeper, index: int, request: Any) -> Any:
        task = self._tasks.get(request.task_name)
        key = keeper.expect(index, request, [self._identity, getattr(task, "answers_shaped_by", None)])
        return MISSING if key is None else self._journal.get(key)

    def _new(
        self, keeper: _AnswerKeeper, requests: Sequence[Any], missing: list[int], kwargs: dict[str, Any]
    ) -> list[Any]:
        keeper.wait_for(missing)
        before = self._lm.cache_hook
        self._lm.set_cache_hook(keeper)
        try:
            new = list(getattr(self._lm, keeper.method)([requests[index] for index in missing], **kwargs))
            for index, answer in zip(missing, new, strict=True):
                keeper.keep(index, answer)  # for models that tell of no answer before the last
            self._journal.flush()
        except _NotWritten as stopped:
            raise stopped.error from stopped
        finally:
            self._lm.set_cache_hook(before)
        return new

    def _tell(self, asked: int, kept: int) -> None:
        if self._lm.rank:
            return
        if kept:
            _log.info("%d of %d answers are kept in %s; remove it to ask anew", kept, asked, self._journal.path)
        else:
            _log.info("answers are kept in %s as they come", self._journal.path)

    def _check_failed(self, failed: list[tuple[str, str]]) -> None:
        foreign = [(t, reason) for t, reason in failed if not hasattr(self._tasks.get(t), "answers_shaped_by")]
        if foreign:
            raise UserError(
                f"no answer came for {len(foreign)} requests of {', '.join(dict.fromkeys(t for t, _ in foreign))}, "
                f"which would score them as wrong, so there are no results; the first: {foreign[0][1]}",
                f"rerun the command to ask only these again: all other answers are kept in {self._journal.path}",
            )


class _AnswerKeeper:
    """Keeps the answers of one call of `method`: what the model calls its cache hook."""

    def __init__(self, method: str, journal: Journal) -> None:
        self.method = method
        self._journal = journal
        # A prompt is long and shared by the options of a question: it is hashed once, and found by its identity.
        self._prompts: dict[int, tuple[Any, str]] = {}
        self._digests: dict[int, str] = {}
        self._keys: dict[int, str] = {}
        self._times: Counter[str] = Counter()
        self._waiting: dict[str, deque[int]] = {}
        self._lock = threading.Lock()

    def expect(self, index: int, request: Any, shaped_by: list[Any]) -> str | None:
        """Return the key of a request's answer; None for one that no key can be made of."""
        prompt = request.args[0]
        if id(prompt) not in self._prompts:
            self._prompts[id(prompt)] = (prompt, self._hashed(prompt))
        digest = self._digest(request.args)
        if digest is None:
            return None
        key = _sha256(json.dumps([*shaped_by, digest]))
        self._times[key] += 1  # a request that is repeated gets an answer each time
        self._digests[index] = digest
        self._keys[index] = f"{key} {self._times[key]}"
        return self._keys[index]

    def wait_for(self, indices: Sequence[int]) -> None:
        """Say which requests the model is asked."""
        for index in indices:
            if index in self._keys:
                self._waiting.setdefault(self._digests[index], deque()).append(index)

    def add_partial(self, method: str, request: Any, answer: Any) -> None:
        """Keep an answer that has just come; lm-eval's models call it."""
        digest = self._digest(tuple(request)) if method == self.method else None
        with self._lock:
            waiting = self._waiting.get(digest) if digest else None
            index = waiting.popleft() if waiting else None
        if index is not None:
            self._put(index, answer)

    def keep(self, index: int, answer: Any) -> None:
        """Keep an answer unless that is done."""
        waiting = self._waiting.get(self._digests.get(index, ""), deque())
        if index in waiting:
            waiting.remove(index)
            self._put(index, answer)

    def _put(self, index: int, answer: Any) -> None:
        # Written text took seconds and perhaps money; log-likelihoods come by the dozen.
        try:
            self._journal.put(self._keys[index], answer, wait=self.method == "generate_until")
        except UserError as error:
            raise _NotWritten(error) from error

    def _digest(self, args: tuple[Any, ...]) -> str | None:
        prompt, *rest = args
        held, digest = self._prompts.get(id(prompt), (None, ""))
        if held is not prompt:
            digest = self._hashed(prompt)
        try:
            return _sha256(json.dumps([self.method, digest, *rest], sort_keys=True)) if digest else None
        except (TypeError, ValueError):
            return None

    @staticmethod
    def _hashed(prompt: Any) -> str:
        if isinstance(prompt, str):
            return _sha256(prompt)
        try:
            return _sha256(json.dumps(prompt, sort_keys=True))
        except (TypeError, ValueError):  # an image
            return ""
