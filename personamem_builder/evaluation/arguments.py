"""The arguments of lm-eval's command line: checked before anything is loaded, and filled in."""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.redaction import hide
from generation.resources import data_dir, install_hint
from generation.shards import Shard, parse_shard
from generation.yaml_reading import read_yaml
from personamem_builder.build.on_demand import recipe_of
from personamem_builder.evaluation.journal import FILE_NAME
from personamem_builder.evaluation.journal_lm import is_key_name
from personamem_builder.evaluation.shards import part_folder
from personamem_builder.evaluation.task_names import ChosenTasks, check_one_split, choose_tasks
from personamem_builder.evaluation.window import no_loglikelihood, scores_letters, scores_no_loglikelihood
from personamem_builder.evaluation.wrapped_lm_eval import EvaluationRun

_OUTPUT: Final = "results"

_KEY_HEADER: Final = re.compile(r"(?i)auth|key|token|secret|cookie")

_MODELS: Final = {
    "hf-prefix": "personamem_builder.evaluation.prefix_lm",
    "personamem-anthropic": "personamem_builder.evaluation.endpoints",
    "personamem-chat": "personamem_builder.evaluation.endpoints",
    "personamem-floor": "personamem_builder.evaluation.floors",
    "personamem-vllm": "personamem_builder.evaluation.vllm_lm",
}
"""Our models, and the modules whose import registers them."""


class Selected(NamedTuple):
    """What a run asks.

    Attributes:
        config: lm-eval's, of the arguments and a file.
        metadata: Those that were given, with the part.
        part: Which part of the questions; None for all.
    """

    config: Any
    chosen: ChosenTasks
    metadata: dict[str, Any]
    part: Shard | None


def select(args: argparse.Namespace, shard: str | None = None) -> Selected:
    """Find out what a run asks, and write that into lm-eval's arguments.

    Raises:
        UserError: An argument has no meaning.
    """
    config = read_config(args)
    _hide_keys(config.model_args)
    metadata = _given_metadata(args)
    part = _shard(metadata, shard)
    args.include_path = config.include_path
    include_tasks(args)
    chosen = choose_tasks(config.tasks, args.include_path)
    args.tasks = chosen.names
    if part:
        _check_divisible(chosen)
        args.metadata = metadata = {**metadata, "shard": str(part)}
    if chosen.ours:
        if config.num_fewshot:
            raise UserError(
                f"--num_fewshot {config.num_fewshot}: {chosen.ours[0]} has no few-shot examples",
                "leave it out; other tasks need a run of their own",
            )
        _check_metadata(args, metadata, chosen.ours)
    return Selected(config, chosen, metadata, part)


def prepare(args: argparse.Namespace, shard: str | None = None) -> EvaluationRun:
    """Check the arguments of a run and fill them in.

    Args:
        args: Those of lm-eval.
        shard: Which part is asked, where it is not the whole run. Its results have a folder of their own, so that
            parts do not share a journal.

    Raises:
        UserError: A task cannot run with the model, or an argument has no meaning.
    """
    config, chosen, _, part = select(args, shard)
    output = Path(config.output_path or _OUTPUT)
    if part:
        own = part_folder(part)
        output = output.parent / own / output.name if output.suffix == ".json" else output / own
    folder = output.parent if output.suffix == ".json" else output
    journal = folder / FILE_NAME
    if config.use_cache:
        raise UserError(
            f"--use_cache is not needed: answers are kept in {journal} as they come, and rerunning the command asks "
            "only what is missing",
            f"leave it out; to ask anew, remove {journal}",
        )
    model = model_class(config.model)
    if scores_no_loglikelihood(model):
        _check_key(model)
        check_tasks(model, config.model, chosen)
        if not config.apply_chat_template:
            args.apply_chat_template = True
    args.output_path = str(output)
    return EvaluationRun(folder, chosen.built_in, None if config.model == "personamem-floor" else journal)


def check_tasks(model: Any, name: str, chosen: ChosenTasks) -> None:
    """Refuse tasks that a model cannot do.

    Args:
        model: Its class.
        name: As lm-eval knows it.
        chosen: The tasks.

    Raises:
        UserError: It is a chat backend, and a task needs log-likelihoods that it cannot give.
    """
    if not scores_no_loglikelihood(model):
        return
    for task, kind in chosen.output_types.items():
        if kind in ("multiple_choice", "loglikelihood", "loglikelihood_rolling") and not (
            scores_letters(model) and "_letters" in task
        ):
            raise no_loglikelihood(name, task)


def _shard(metadata: Mapping[str, Any], given: str | None) -> Shard | None:
    named = metadata.get("shard", given)
    if given is not None and named != given:
        raise UserError(f"--shard {given} and --metadata shard={named} are two parts", "leave one of them out")
    return None if named is None else parse_shard(named)


def _check_divisible(chosen: ChosenTasks) -> None:
    if whole := sorted(set(chosen.output_types).difference(chosen.ours)):
        raise UserError(
            f"--shard: {', '.join(whole)} would be asked whole in every part",
            "parts are of personamem tasks only; others need a run of their own",
        )


def include_tasks(args: argparse.Namespace) -> None:
    """Have lm-eval look for tasks among ours too."""
    own = str(data_dir("lm_eval_tasks"))
    theirs = getattr(args, "include_path", None)
    args.include_path = [own, theirs] if theirs else own


def _hide_keys(model_args: Mapping[str, Any]) -> None:
    """Have the keys among a model's arguments hidden: lm-eval prints, logs and saves them all."""
    for name, value in model_args.items():
        if isinstance(value, dict) and name in ("header", "headers"):
            for header, content in value.items():
                if _KEY_HEADER.search(str(header)):
                    hide(str(content).rpartition(" ")[2])
        elif is_key_name(name):
            hide(str(value))


def model_class(name: str) -> Any:
    """Return the class of a model of lm-eval, by its name.

    Raises:
        UserError: There is none of this name, or it needs what is not installed.
    """
    import lm_eval.models  # noqa: F401 (fills the registry)
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


def read_config(args: argparse.Namespace) -> Any:
    """Merge arguments and config file as lm-eval will do again, but without its words."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

    if args.config and not isinstance(read_yaml(Path(args.config)), dict):
        raise UserError(
            f"{args.config} is not a mapping of arguments to values", "`personamem init` writes some that work"
        )
    if not args.output_path and not args.config:
        args.output_path = _OUTPUT
    try:
        with redirect_stdout(io.StringIO()), _quiet_log():
            return EvaluatorConfig.from_cli(args)
    except (OSError, TypeError, ValueError) as error:
        raise UserError(f"lm-eval refuses the arguments: {error}", "personamem eval run --help lists them") from error


@contextmanager
def _quiet_log() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _given_metadata(args: argparse.Namespace) -> dict[str, Any]:
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.utils import simple_parse_args_string

    given = args.metadata
    if not given and args.config:
        given = EvaluatorConfig.load_yaml_config(args.config).get("metadata")
    return simple_parse_args_string(given) if isinstance(given, str) else dict(given or {})


def _check_metadata(args: argparse.Namespace, metadata: dict[str, Any], tasks: Sequence[str]) -> None:
    """Refuse faulty `config`, `seed` and `split` before a model is loaded, and keep the model's own seed from the data.

    lm-eval copies the model's arguments to the metadata, where a task cannot tell one seed from the other.
    """
    if "split" in metadata:
        check_one_split(tasks, metadata["split"])
    recipe = recipe_of(metadata)
    if recipe is not None:
        args.metadata = {**metadata, "seed": recipe.seed}
    elif "seed" in metadata:
        raise UserError(
            f"--metadata seed={metadata['seed']} without config: only fresh data take a seed",
            "name the configuration to make them from, such as config=examples/full.yaml",
        )


def _check_key(model: Any) -> None:
    """Raise at once if an endpoint's key is missing; lm-eval notices at the first request, and then retries."""
    try:
        _ = object.__new__(model).api_key
    except ValueError as error:
        raise UserError(str(error), "keys are read from the environment only") from error
    except Exception:
        return  # it needs more than the environment: lm-eval will tell
