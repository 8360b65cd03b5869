"""The lm-eval task behind every `persona_bench_*` YAML file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask

from generation.errors import UserError
from personamem_builder.persona_bench import metrics
from personamem_builder.persona_bench.docs import ALL, Docs
from personamem_builder.persona_bench.floors import floors, render
from personamem_builder.persona_bench.prompts import LIMITS, Limits
from personamem_builder.persona_bench.records import ItemDoc
from personamem_builder.persona_bench.text_metrics import missing_metrics, text_metrics

_log = logging.getLogger("lm_eval.persona_bench")

_FOLDER: Final = "persona_bench"


class PersonaBenchTask(ConfigurableTask):
    """Questions about what Reddit users wrote, one user message each.

    The YAML file sets the output type and `dataset_kwargs`: `task` and `condition`, and `form: released` for the
    released items and prompts. `--metadata` takes:

    - `data`: the dataset folder, `./persona_bench` by default;
    - `split`: `test` by default (the released form has no splits: it takes all posts);
    - `history_chars`, `thread_chars`, `text_chars`: how much is shown, see `prompts.Limits`.

    The results record them, with the digests of the files read (`data_digests`), the metrics that could not be computed
    (`missing_metrics`), and under `floors` what the rules of `floors.rules` score on the same items.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        config = {key: value for key, value in config.items() if key != "class"}
        self._train: list[Any] = []
        super().__init__(config=config)

    # ---- data

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Read the items and write their prompts."""
        given = dataset_kwargs or {}
        self.task_kind: str = given["task"]
        released = given.get("form") == "released"
        metadata = self.config.metadata
        folder = Path(metadata.setdefault("data", _FOLDER))
        split = ALL if released else metadata.setdefault("split", "test")
        limits = None
        if not released:
            limits = Limits(**{name: _number(metadata, key) for key, name in LIMITS.items() if key in metadata})
            metadata.update({key: getattr(limits, name) for key, name in LIMITS.items()})
        docs = Docs(folder, self.task_kind, given["condition"], split, released=released)
        metadata["data_digests"] = docs.digests
        self._train = docs.train_truths()
        self.config.test_split = split
        self.dataset = {split: Dataset.from_list(list(docs.rows(limits)))}
        if self.task_kind == "next_text" and (missing := missing_metrics()):
            metadata["missing_metrics"] = missing
            for name, reason in missing.items():
                _log.warning("%s: %s is not computed: %s", self.config.task, name, reason)
        if self.task_kind != "next_text" and self.config.repeats != 1:
            raise UserError(f"{self.config.task} takes one sample per item", "leave repeats at 1")

    # ---- requests

    @property
    def answers_shaped_by(self) -> list[Any]:
        """What shapes an answer beside the request: nothing, since an item's prompt is written out in it."""
        return [self.VERSION]

    def build_all_requests(self, *, limit: int | None = None, samples: list[int] | None = None, **kwargs: Any) -> None:
        """Build the requests, refuse those that the model would cut, and score the floors on the same items."""
        if kwargs.pop("cache_requests", False):
            _log.warning("%s: the request cache is not used, its keys ignore the data", self.config.task)
        super().build_all_requests(limit=limit, samples=samples, **kwargs)
        self._check_lengths(getattr(kwargs.get("chat_template"), "__self__", None))
        docs = [doc for _, doc in self.doc_iterator(limit=limit, samples=samples)]
        # The released form has no train split: its medians are those of the items themselves.
        scored = floors(self.task_kind, docs, self._train or [doc["truth"] for doc in docs])
        self.config.metadata["floors"] = {
            rule: {name: estimate._asdict() for name, estimate in row.items()} for rule, row in scored.items()
        }
        _log.info("%s: floors on the same %d items\n%s", self.config.task, len(docs), render(scored))

    def _check_lengths(self, lm: Any) -> None:
        longest, encode = getattr(lm, "max_length", None), getattr(lm, "tok_encode", None)
        if not isinstance(longest, int) or encode is None:
            _log.warning("%s: the model's window is unknown, lengths are not checked", self.config.task)
            return
        answer = 8 if self.OUTPUT_TYPE == "multiple_choice" else self.config.generation_kwargs.get("max_gen_toks", 256)
        # No token is shorter than a byte, and most have several characters: few prompts need counting.
        suspects = [r for r in self._instances if len(str(r.args[0]).encode()) + answer > longest]
        overlong = sum(len(encode(str(r.args[0]))) + answer > longest for r in suspects)
        if overlong:
            raise UserError(
                f"{self.config.task}: {overlong} of {len(self._instances)} requests are longer than the model's window "
                f"of {longest} tokens, answer of {answer} tokens included",
                'show less, e.g. --metadata \'{"history_chars": 4000, "thread_chars": 6000}\'',
            )

    # ---- scores

    def process_results(self, doc: ItemDoc, results: list[Any]) -> dict[str, Any]:
        """Score one item; one that got no answer is counted in `failed`, and no score knows of it."""
        kind = self.task_kind
        if self.OUTPUT_TYPE == "multiple_choice":
            positive, negative = (logprob for logprob, _ in results)
            answers: list[Any] = [None if positive == negative else positive > negative]
        else:
            # Our chat backends tell what came of a request; others only return texts.
            if any(getattr(text, "outcome", "") == "failed" for text in results[0]):
                return {"failed": 1.0}
            answers = [metrics.parse(kind, text) for text in results[0]]
        answer = metrics.score_answer(kind, doc["item_id"], doc["author"], doc["truth"], answers)
        # A metric over all items takes their pairs together.
        pair = [answer.truth, answer.prediction]
        return {
            **answer.values,
            **{name: pair for name in metrics.pooled_names(kind)},
            "cut": float(doc["cut"] > 0),
            "failed": 0.0,
        }

    def aggregation(self) -> dict[str, Any]:
        """Return how each metric is aggregated.

        None has a standard error here: items of one author are not independent, as lm-eval's formula takes them to
        be. `metrics.summarise` has intervals clustered by author.
        """
        pooled = {name: partial(_pooled, self.task_kind, name) for name in metrics.pooled_names(self.task_kind)}
        return {name: _mean for name in self._mean_names()} | pooled

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each metric."""
        return {name: name not in metrics.LOWER_IS_BETTER for name in self.aggregation()}

    def _mean_names(self) -> list[str]:
        if self.task_kind == "next_text":
            count = self.config.repeats
            best = [f"best_of_{count}_{name}" for name in text_metrics()] if count > 1 else []
            return [*text_metrics(), *best, "unparsed", "cut", "failed"]
        return [*(("acc",) if self.task_kind == "sentiment" else ("mae", "log_mae")), "unparsed", "cut", "failed"]


def all_samples(responses: list[list[str]], docs: Any) -> list[list[str]]:
    """Keep all samples of an item (a filter; lm-eval's default keeps the first only)."""
    return responses


def _pooled(task: str, name: str, pairs: Sequence[Sequence[Any]]) -> float:
    truths, predictions = zip(*pairs, strict=True)
    return metrics.pooled(task, truths, predictions)[name]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _number(metadata: dict[str, Any], key: str) -> int:
    value = metadata[key]
    if not isinstance(value, int | str) or not str(value).isdigit():
        raise UserError(f"--metadata {key}={value!r} is not a whole number", f"e.g. {key}=4000")
    return int(value)
