"""What a run will take, before its first request: requests, tokens, dollars, hours, memory. Nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, NamedTuple

from generation.llm.endpoint import DEFAULT_URL
from generation.llm.prices import KnownPrice, published_price
from personamem_builder.evaluation.kv_memory import find_config, kv_cache
from personamem_builder.evaluation.letters import MOST_TOKENS
from personamem_builder.evaluation.prompt_costs import QuestionCost, question_costs, shared_tokens, tokens_in_common

_LETTER: Final = 8
"""Tokens of a reply that is the marker and a letter, as the instruction asks for."""

_EXPLANATION: Final = 80
"""Tokens of a reply that explains itself in a sentence or two."""

_CACHED_FROM: Final = 1024
"""Tokens of a shared beginning from which endpoints cache it."""

_MINUTES: Final = 60
_PRICED_BY: Final = 1000
"""Tokens to which the length of a prompt is rounded up before its price is looked up."""

_SHARE_PREFIXES: Final = ("hf-prefix", "personamem-vllm")
"""Local models that compute a shared beginning once; lm-eval's `vllm` does where the model writes."""

_MARKS_NOTHING: Final = "personamem-anthropic"
"""A model whose endpoint caches only what requests mark, which ours do not."""


class TaskEstimate(NamedTuple):
    """What one task takes; tokens are those of `o200k_base`.

    Attributes:
        requests: To the model: a question each, but for local models that score options, where it is an option each.
        prompt_tokens: Of all requests, one by one.
        cached_tokens: Those of them that the request before has too, in the order in which ours are sent.
        distinct_tokens: Distinct prefixes of all requests: about as few as any way of asking computes.
        computed_tokens: What a local model of this name runs; None for an endpoint.
        reply_tokens: If replies are as short as the instruction asks for.
        most_reply_tokens: If each is as long as it may be.
        longest: Tokens of the longest request, with its reply at its longest.
        too_long: Questions that do not fit the model's `max_length`, as far as that was given.
    """

    task: str
    questions: int
    requests: int
    prompt_tokens: int
    cached_tokens: int
    distinct_tokens: int
    computed_tokens: int | None
    reply_tokens: int
    most_reply_tokens: int
    longest: int
    too_long: int


class Dollars(NamedTuple):
    """What an endpoint will charge: `expected`, with what it caches; `without_cache`; and at `most`."""

    expected: float
    without_cache: float
    most: float


@dataclass(frozen=True)
class Limits:
    """What the user knows of an endpoint.

    Attributes:
        price: Given for the model, and where it was given.
        requests_per_minute: Most requests; None for no limit.
        tokens_per_minute: Most tokens of prompts and replies; None for no limit.
    """

    price: KnownPrice | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class KVMemory(NamedTuple):
    """The key-value cache of the longest request."""

    bytes: int
    tokens: int
    dtype: str


class Estimate(NamedTuple):
    """What a run will take.

    Attributes:
        model: The model behind the backend.
        is_local: Whether it runs on this machine, so that it costs no dollars.
        prices: Those that apply; several where long prompts cost more.
        hours: By the limits; None where none was given.
        kv_cache: Of a local model; None where its configuration is not here, or does not tell.
        notes: What its reader should know.
    """

    model: str
    is_local: bool
    tasks: list[TaskEstimate]
    prices: list[KnownPrice]
    dollars: Dollars | None
    hours: float | None
    kv_cache: KVMemory | None
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            **self._asdict(),
            "tasks": [task._asdict() for task in self.tasks],
            "prices": [{**known.price.model_dump(), "source": known.source} for known in self.prices],
            "dollars": self.dollars and self.dollars._asdict(),
            "kv_cache": self.kv_cache and self.kv_cache._asdict(),
        }


@dataclass(frozen=True)
class EstimatedRun:
    """A run whose cost is asked for.

    Attributes:
        backend: lm-eval's name of the model.
        arguments: Of the model.
        settings: Generation settings of the command line, which go before those of tasks.
        instruction: lm-eval's system instruction.
    """

    backend: str
    arguments: Mapping[str, Any]
    settings: Mapping[str, Any]
    instruction: str | None
    is_local: bool

    @property
    def model(self) -> str:
        """The model behind the backend."""
        return str(self.arguments.get("model") or self.arguments.get("pretrained") or self.backend)

    @property
    def url(self) -> str:
        """Where an endpoint is, as far as prices depend on it."""
        own = "https://api.anthropic.com/v1" if "anthropic" in self.backend else DEFAULT_URL
        return str(self.arguments.get("base_url") or own)

    @property
    def max_length(self) -> int | None:
        """The model's window, where it was given."""
        value = self.arguments.get("max_length") or self.arguments.get("max_model_len")
        return int(value) if value else None


def estimate(run: EstimatedRun, asked: Sequence[tuple[Any, Sequence[Any]]], limits: Limits) -> Estimate:
    """Return what a run will take.

    Args:
        run: The run.
        asked: Its tasks, each with the questions that it asks.
        limits: What is known of the endpoint.
    """
    tasks: list[TaskEstimate] = []
    bills: list[_Bill] = []
    unknown = False
    for task, docs in asked:
        costs = list(question_costs(task, docs, run.instruction))
        reply, most_reply = _replies(task, run)
        too_long = _too_long(costs, most_reply, run.max_length)
        if task.config.metadata.get("overlength") == "skip":
            costs = [cost for cost in costs if cost not in too_long]
        shared = shared_tokens(costs)
        caches = not run.is_local and run.backend != _MARKS_NOTHING
        cached = [hit if caches and hit >= _CACHED_FROM else 0 for hit in shared.cached]
        own = [_Bill(cost.prompt, hit, reply, most_reply) for cost, hit in zip(costs, cached, strict=True)]
        common = tokens_in_common(task, docs) if run.is_local else 0
        unknown |= common is None
        tasks.append(_task_estimate(task, run, costs, own, shared.distinct - (common or 0), len(too_long)))
        bills += own
    prices, dollars = ([], None) if run.is_local else _dollars(run, bills, limits)
    notes = _notes(run, tasks, prices)
    if unknown:
        notes.append("histories that begin alike count each by itself: distinct tokens may be fewer")
    memory = _memory(run, tasks, notes) if run.is_local else None
    hours = None if run.is_local else _hours(tasks, limits)
    return Estimate(run.model, run.is_local, tasks, prices, dollars, hours, memory, notes)


class _Bill(NamedTuple):
    """One request to an endpoint, in tokens."""

    prompt: int
    cached: int
    reply: int
    most_reply: int


def _replies(task: Any, run: EstimatedRun) -> tuple[int, int]:
    """Return the tokens of a reply, and those that it may have at most."""
    if task.OUTPUT_TYPE != "generate_until":
        return (0, 0) if run.is_local else (MOST_TOKENS, MOST_TOKENS)
    settings = {**(task.config.generation_kwargs or {}), **run.settings}
    most = next((int(settings[key]) for key in ("max_gen_toks", "max_tokens") if settings.get(key)), 256)
    return min(most, _EXPLANATION if task.config.metadata.get("explain") else _LETTER), most


def _too_long(costs: Sequence[QuestionCost], most_reply: int, max_length: int | None) -> set[QuestionCost]:
    if max_length is None:
        return set()
    return {cost for cost in costs if cost.prompt + max([most_reply, *cost.options]) > max_length}


def _task_estimate(
    task: Any,
    run: EstimatedRun,
    costs: Sequence[QuestionCost],
    bills: Sequence[_Bill],
    distinct: int,
    too_long: int,
) -> TaskEstimate:
    replies, requests, alone = sum(bill.reply for bill in bills), len(costs), sum(cost.prompt for cost in costs)
    computed: int | None = None
    if run.is_local:
        if any(cost.options for cost in costs):
            requests = sum(len(cost.options) for cost in costs)
            alone = sum(len(cost.options) * cost.prompt + cost.run_after for cost in costs)
            distinct += sum(cost.run_after for cost in costs)
        shares = run.backend in _SHARE_PREFIXES or (run.backend == "vllm" and not any(cost.options for cost in costs))
        computed = replies + (distinct if shares else alone)
    longest = (cost.prompt + max([bill.most_reply, *cost.options]) for cost, bill in zip(costs, bills, strict=True))
    return TaskEstimate(
        task=task.config.task,
        questions=len(costs),
        requests=requests,
        prompt_tokens=alone,
        cached_tokens=sum(bill.cached for bill in bills),
        distinct_tokens=distinct,
        computed_tokens=computed,
        reply_tokens=replies,
        most_reply_tokens=sum(bill.most_reply for bill in bills),
        longest=max(longest, default=0),
        too_long=too_long,
    )


def _dollars(run: EstimatedRun, bills: Sequence[_Bill], limits: Limits) -> tuple[list[KnownPrice], Dollars | None]:
    """Return the prices that apply, and what the requests cost."""
    known: dict[int, KnownPrice | None] = {}
    expected = without = most = 0.0
    for bill in bills:
        length = max(1, ceil(bill.prompt / _PRICED_BY)) * _PRICED_BY
        if length not in known:
            known[length] = limits.price or published_price(run.model, run.url, length)
        found = known[length]
        if found is None:
            return [], None
        price = found.price
        uncached = bill.prompt * price.input
        saved = 0.0 if price.cached_input is None else bill.cached * (price.input - price.cached_input)
        expected += uncached - saved + bill.reply * price.output
        without += uncached + bill.reply * price.output
        most += uncached + bill.most_reply * price.output
    distinct = {str(one): one for _, one in sorted(known.items()) if one is not None}
    return list(distinct.values()), Dollars(expected / 1e6, without / 1e6, most / 1e6)


def _hours(tasks: Sequence[TaskEstimate], limits: Limits) -> float | None:
    minutes = []
    if limits.requests_per_minute:
        minutes.append(sum(task.requests for task in tasks) / limits.requests_per_minute)
    if limits.tokens_per_minute:
        minutes.append(sum(task.prompt_tokens + task.reply_tokens for task in tasks) / limits.tokens_per_minute)
    return max(minutes) / _MINUTES if minutes else None


def _memory(run: EstimatedRun, tasks: Sequence[TaskEstimate], notes: list[str]) -> KVMemory | None:
    pretrained, longest = run.arguments.get("pretrained"), max((task.longest for task in tasks), default=0)
    config = find_config(str(pretrained), run.arguments.get("revision")) if pretrained else None
    if config is None:
        notes.append(f"the memory of the cache is not known: the configuration of {run.model} is not on this machine")
        return None
    cache = kv_cache(config, str(run.arguments.get("dtype", "auto")))
    if cache is None:
        notes.append(f"the memory of the cache is not known: the configuration of {run.model} does not tell")
        return None
    return KVMemory(cache.bytes_of(longest), longest, cache.dtype)


def _notes(run: EstimatedRun, tasks: Sequence[TaskEstimate], prices: Sequence[KnownPrice]) -> list[str]:
    notes = ["tokens are those of o200k_base; another tokenizer may count a fifth more or fewer"]
    for task in tasks:
        if task.too_long:
            notes.append(f"{task.task}: {task.too_long} questions are longer than max_length={run.max_length}")
    if run.is_local:
        return notes
    if not prices:
        notes.append(f"no price of {run.model} is known: give --price, or --llm-config with its llm.prices")
    elif all(known.price.cached_input is None for known in prices):
        notes.append("no price of cached tokens is known: they are taken to cost as much as others")
    if run.backend == _MARKS_NOTHING:
        notes.append("this endpoint caches only what requests mark, and ours mark nothing")
    if any(task.most_reply_tokens > task.reply_tokens for task in tasks):
        notes.append("replies are taken to be as short as asked for; a model that reasons writes up to the most given")
    return notes
