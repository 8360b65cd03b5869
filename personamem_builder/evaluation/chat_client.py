"""Asks a chat endpoint many questions, several at a time: each ends in a reply or in the reason why there is none."""

from __future__ import annotations

import logging
import queue
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.http import Address, PrivateHeaders
from generation.llm.chat_request import (
    EndpointLabels,
    asked_wait,
    backoff,
    described,
    end_of_run,
    is_declined,
    is_refused,
    is_too_long,
    not_there,
    refuses_system,
    send_chat,
)
from generation.llm.replies import ChatReply, RequestFailure, spoken
from generation.llm.request_fields import RequestFields, refused_temperature
from generation.llm.token_choices import TokenChoice
from generation.progress import Waiting
from generation.redaction import redact
from personamem_builder.evaluation.responses import Reply
from personamem_builder.usage import AnswerUsage

MOST_AT_ONCE: Final = 256
"""Most requests under way at a time."""

_PATIENCE: Final = 600.0
"""Seconds that an endpoint may ask to wait for one question, all its tries together."""

_GIVE_UP_AFTER: Final = 20
"""Questions in a row that get no answer, after which the rest is not asked."""

_LONGEST_BACKOFF: Final = 10.0

Payload = Mapping[str, Any]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """Where and how questions are asked.

    Attributes:
        headers: They hold the key.
        named: How errors name it.
        timeout: Seconds that one request may take.
        tries: Most requests for a question; those that follow a wait that the endpoint asked for are not counted.
        at_once: Most requests under way.
        context: For https; None for the certificates that the machine trusts.
    """

    address: Address
    headers: PrivateHeaders
    named: EndpointLabels
    timeout: float
    tries: int
    at_once: int
    context: ssl.SSLContext | None = None


class _QuestionResult(NamedTuple):
    """What came of a question: the reply, be it a failure, and where its text is still to be cut.

    `error` says, for a failure, what is wrong with the endpoint if it never answered. `tokens` are those of the reply,
    where their log-probabilities were asked for and given.
    """

    reply: Reply
    stops: list[str]
    error: UserError | None = None
    tokens: Sequence[TokenChoice] | None = None


_Tasks = queue.SimpleQueue[int | None]
_Results = queue.SimpleQueue[tuple[int, int, _QuestionResult | BaseException]]
"""Of each a worker, a question, and what came of it."""


class Answered(NamedTuple):
    """A question's number, its reply, where to cut its text, and the tokens of the reply, see `_QuestionResult`."""

    number: int
    reply: Reply
    stops: list[str]
    tokens: Sequence[TokenChoice] | None = None


class _Dealer:
    """Deals questions to workers, by their numbers: each is through with a group before it gets the next."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._groups = deque(map(deque, groups))
        self._own: dict[int, deque[int]] = {}

    def next(self, worker: int) -> int | None:
        """Return the next question of a worker; None where there is none."""
        if not self._own.get(worker):
            if not self._groups:
                return None
            self._own[worker] = self._groups.popleft()
        return self._own[worker].popleft()

    def left(self) -> list[int]:
        """Return what was dealt to nobody."""
        return [number for group in (*self._own.values(), *self._groups) for number in group]


class ChatClient:
    """Asks one endpoint.

    `wait` waits so many seconds, or until the work is over, and says whether it is; the default waits for real.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._over = threading.Event()
        self._wait = wait or (lambda seconds: self._over.wait(seconds))
        self._lock = threading.Lock()
        self._fields = RequestFields()
        self._answered = False
        self._done = self._total = 0
        self._waiting = Waiting(endpoint.address.place, clock, lambda: f"{self._done:,} of {self._total:,} done")

    def ask_all(self, groups: Sequence[Sequence[int]], payload: Callable[[int], Payload]) -> Iterator[Answered]:
        """Yield what came of each question, as it comes.

        The requests are made by threads that nobody waits for, so that what stops the program stops it at once.

        Args:
            groups: The numbers of the questions. Those of a group, which share a history, are asked one after another
                on one connection: behind it there may be several servers, each with a cache of its own.
            payload: Gives the request of a question by its number, when its turn comes.

        Raises:
            UserError: The endpoint cannot be used.
        """
        self._total, self._done = sum(map(len, groups)), 0
        self._over = threading.Event()
        results: _Results = queue.SimpleQueue()
        workers: list[_Tasks] = [queue.SimpleQueue() for _ in range(min(self._endpoint.at_once, len(groups)))]
        for worker, tasks in enumerate(workers):
            threading.Thread(target=self._work, args=(worker, tasks, results, payload), daemon=True).start()
        try:
            yield from self._collect(_Dealer(groups), workers, results)
        finally:
            self._over.set()
            for tasks in workers:
                tasks.put(None)

    def _collect(self, dealer: _Dealer, workers: Sequence[_Tasks], results: _Results) -> Iterator[Answered]:
        under_way = failed_in_a_row = 0
        idle = list(range(len(workers)))
        doubt: UserError | None = None
        while True:
            # An endpoint that may be of no use gets no more questions until those under way have come back.
            while idle and doubt is None and failed_in_a_row < _GIVE_UP_AFTER:
                worker = idle.pop(0)
                if (question := dealer.next(worker)) is not None:
                    workers[worker].put(question)
                    under_way += 1
            if not under_way:
                break
            worker, number, asked = results.get()
            under_way -= 1
            idle.append(worker)
            if isinstance(asked, BaseException):
                raise asked
            self._done += 1
            failed_in_a_row = failed_in_a_row + 1 if asked.reply.outcome == "failed" else 0
            if self._answered:
                doubt = None
            elif doubt is None:
                doubt = asked.error
            yield Answered(number, asked.reply, asked.stops, asked.tokens)
            last = asked.reply
        if doubt is not None:
            raise doubt
        for number in dealer.left():
            reason = f"not asked, since {failed_in_a_row} questions in a row failed, the last: {last.finish_reason}"
            yield Answered(number, Reply("", "failed", reason), [])

    def _work(self, worker: int, tasks: _Tasks, results: _Results, payload: Callable[[int], Payload]) -> None:
        while (number := tasks.get()) is not None:
            try:
                with self._waiting.call():
                    asked = self._ask(number, payload(number))
            except BaseException as error:  # it is raised where the results are collected
                results.put((worker, number, error))
            else:
                results.put((worker, number, asked))

    def _ask(self, number: int, payload: Payload) -> _QuestionResult:
        """Ask until there is a reply, or no more sense in it."""
        endpoint = self._endpoint
        tries = 0
        patience = _PATIENCE
        while True:
            fields = self._fields
            started = self._clock()
            result = send_chat(
                endpoint.address, fields.of(payload), endpoint.headers, endpoint.timeout, endpoint.context
            )
            seconds = round(self._clock() - started, 6)
            if isinstance(result, ChatReply):
                if result.outcome != "failed":
                    self._answered = True
                    return _QuestionResult(
                        Reply(result.text, result.outcome, result.finish_reason, AnswerUsage(seconds, *result.tokens)),
                        fields.stops(payload),
                        None,
                        result.choices,
                    )
                problem, asked = result.problem, 0.0
            else:
                if self._adapt(fields, payload, result):
                    continue
                if final := self._final(payload, result):
                    return final
                problem, asked = described(result), asked_wait(result.headers)
            if not asked:
                tries += 1
            wait = asked or backoff(number, tries, first=1.0, longest=_LONGEST_BACKOFF)
            patience -= wait
            if tries >= endpoint.tries or patience < 0:
                return _failed(f"{problem} (tried {tries} times)" if tries > 1 else problem)
            if self._over.is_set():
                return _failed(problem)
            self._waiting.retry(wait)
            if self._wait(wait):
                return _failed(problem)

    def _adapt(self, sent: RequestFields, payload: Payload, failure: RequestFailure) -> bool:
        """Leave out what the endpoint does not understand; say whether there is something else to send now."""
        simpler = sent.without(payload, failure)
        with self._lock:
            if self._fields == sent and simpler != sent:  # else another thread has been told already, and perhaps more
                self._fields = simpler
                _logger.warning("%s; requests are changed to fit: %s", redact(described(failure)), simpler)
        return simpler != sent

    def _final(self, payload: Payload, failure: RequestFailure) -> _QuestionResult | None:
        """Return what comes of a question that no further try will answer, else None.

        Raises:
            UserError: No question will be answered any more.
        """
        named, said = self._endpoint.named, spoken(failure.body)
        if is_declined(failure):
            self._answered = True
            return _QuestionResult(Reply("", "refused", redact(described(failure))), [])
        if error := end_of_run(failure, named):
            raise UserError(redact(error.message), error.hint)
        if failure.unreachable and not self._answered:
            error = not_there(failure, named)
        elif is_too_long(failure):
            error = UserError(
                f"a question is too long for {named.model} at {named.at}: {said}",
                "give the model's window as max_length in --model_args, and --metadata overlength=skip",
            )
        elif refuses_system(failure) and _has_system(payload):
            error = UserError(
                f"{named.at} takes no system message for {named.model}: {said}",
                """--metadata '{"roles": "no_system"}' puts the persona into the first user message""",
            )
        elif is_refused(failure):
            hint = ""
            if refused_temperature(payload, str(failure.body)):
                hint = """--gen_kwargs '{"temperature": null}' leaves it to the endpoint; answers may then differ"""
            error = UserError(f"{named.at} refuses a request to {named.model} (status {failure.status}): {said}", hint)
        else:
            return None
        error = UserError(redact(error.message), error.hint)
        return _failed(described(failure), error)


def _has_system(payload: Payload) -> bool:
    return bool(payload.get("system")) or any(message.get("role") == "system" for message in payload["messages"])


def _failed(reason: str, error: UserError | None = None) -> _QuestionResult:
    return _QuestionResult(Reply("", "failed", redact(reason)), [], error)
