"""`personamem eval … --estimate`: the run that a command line means, loaded as far as its questions."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from generation.config import LLMConfig, Price, load_config
from generation.errors import UserError
from generation.llm.prices import KnownPrice
from personamem_builder.evaluation.arguments import Selected, check_tasks, model_class, read_config, select
from personamem_builder.evaluation.estimate import Estimate, EstimatedRun, Limits, estimate
from personamem_builder.evaluation.own_arguments import OwnArguments
from personamem_builder.evaluation.window import scores_no_loglikelihood
from personamem_builder.evaluation.wrapped_lm_eval import swapped
from personamem_builder.memory.controls import CONTROLS

_LOCAL: Final = ("hf", "hf-auto", "hf-prefix", "huggingface", "personamem-vllm", "vllm")
"""Models that need libraries which an estimate does not."""


def estimate_run(args: argparse.Namespace, own: OwnArguments) -> Estimate:
    """Return what the run that a command line means will take; nothing is sent, and no model is loaded.

    Raises:
        UserError: An argument has no meaning, a task is none of ours, the model is never asked, or what is shown
            before the questions is known only after another run.
    """
    selected = select(args, own.shard)
    backend = str(selected.config.model)
    if backend == "personamem-floor":
        raise UserError("--estimate: personamem-floor asks no model and costs nothing", "run it")
    if foreign := sorted(set(selected.chosen.output_types).difference(selected.chosen.ours)):
        raise UserError(f"--estimate is for personamem tasks, not for {', '.join(foreign)}", "leave them out")
    is_local = backend in _LOCAL
    if not is_local:
        model = model_class(backend)
        check_tasks(model, backend, selected.chosen)
        is_local = not scores_no_loglikelihood(model)
        _check_kind(model, backend, is_local=is_local)
    _check_memory(selected.metadata)
    tasks, config = _tasks(args, selected)
    instruction = config.system_instruction
    run = EstimatedRun(backend, config.model_args, config.gen_kwargs or {}, instruction, is_local)
    return estimate(run, [(task, _docs(task, config)) for task in tasks], _limits(own, run.model))


def _check_kind(model: Any, backend: str, *, is_local: bool) -> None:
    from lm_eval.models.api_models import TemplateAPI

    if is_local and isinstance(model, type) and issubclass(model, TemplateAPI):
        raise UserError(
            f"--estimate knows chat endpoints and local models, and {backend} asks for completions",
            "use --model personamem-chat, if the endpoint has chats too",
        )


def _check_memory(metadata: Mapping[str, Any]) -> None:
    memory, store = metadata.get("memory"), metadata.get("store")
    if memory is not None and store is None and memory not in CONTROLS:
        raise UserError(
            f"--estimate: what memory={memory} shows is known only once it was run",
            f'personamem memory run --system {memory} --out FOLDER, then --metadata \'{{"store": "FOLDER"}}\'',
        )


def _tasks(args: argparse.Namespace, selected: Selected) -> tuple[list[Any], Any]:
    """Load the tasks as lm-eval will."""
    import lm_eval.tasks

    config = read_config(args)  # with what was filled in
    manager = partial(lm_eval.tasks.TaskManager, include_defaults=selected.chosen.built_in)
    with swapped(lm_eval.tasks, "TaskManager", manager):
        loaded = config.process_tasks(config.metadata).load(config.tasks)
    return list(loaded["tasks"].values()), config


def _docs(task: Any, config: Any) -> Sequence[Any]:
    from lm_eval.evaluator_utils import get_sample_size

    samples = config.samples.get(task.config.task) if config.samples else None
    limit = get_sample_size(task, config.limit)
    task.plan_parts(limit, samples)
    return [doc for _, doc in task.doc_iterator(limit=limit, samples=samples)]


def _limits(own: OwnArguments, model: str) -> Limits:
    """Return what is known of an endpoint: options go before a configuration."""
    llm = load_config(Path(own.llm_config).expanduser()).llm if own.llm_config else LLMConfig()
    price = None
    if own.price is not None:
        price = KnownPrice(_price(own.price), "--price")
    elif model in llm.prices:
        price = KnownPrice(llm.prices[model], f"llm.prices of {own.llm_config}")
    return Limits(
        price,
        own.requests_per_minute or llm.requests_per_minute,
        own.tokens_per_minute or llm.tokens_per_minute,
    )


def _price(text: str) -> Price:
    numbers = text.split(",")
    try:
        names = ("input", "output", "cached_input")[: max(2, len(numbers))]
        return Price(**{name: float(number) for name, number in zip(names, numbers, strict=True)})
    except ValueError as error:  # pydantic's too
        raise UserError(
            f"--price {text[:40]!r} is not a price",
            "give dollars for a million tokens of prompts, of replies, and if known of cached prompts: "
            "--price 2.5,10,1.25",
        ) from error
