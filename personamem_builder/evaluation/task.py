"""The lm-eval task behind every `personamem_*` YAML file."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from datasets import Dataset
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

from generation.errors import UserError
from generation.records import QUESTION_TYPES
from generation.shards import parse_shard
from personamem_builder.dataset.contexts import ContextStore, open_contexts
from personamem_builder.dataset.locate import remote_contexts
from personamem_builder.evaluation import chat, scoring
from personamem_builder.evaluation.floors import FloorLM
from personamem_builder.evaluation.instruction import OPTIONS, last_turn, wants_explanation
from personamem_builder.evaluation.responses import LetterAnswer, outcome_of
from personamem_builder.evaluation.shards import Docs, check_processes, deal_contexts, plan_digest
from personamem_builder.evaluation.task_data import (
    asked_split,
    chosen_value,
    find_source,
    read_rows,
    record_source,
    without_history,
)
from personamem_builder.evaluation.window import (
    Overlength,
    Window,
    find_overlength,
    model_of,
    no_loglikelihood,
    running_model,
    scores_letters,
    scores_no_loglikelihood,
    window_of,
)
from personamem_builder.hub.download import HubFile, download_contexts
from personamem_builder.memory.conditions import Condition, condition_of
from personamem_builder.policies import best_credit
from personamem_builder.schema import Message, QuestionRow

_log = logging.getLogger("lm_eval.personamem")

_TAIL: Final = 200
"""Characters before an option: more than its first token can merge with."""

_HIGHER_IS_BETTER: Final = {
    "acc": True,
    "acc_per_token": True,
    "acc_macro": True,
    **{f"acc_{question_type}": True for question_type in QUESTION_TYPES},
    **dict.fromkeys(("invalid_rate", "unseen", "cut", "refused", "failed", "skipped", "truncated"), False),
}


class PersonaMemTask(ConfigurableTask):
    """Questions about a shared history, given to the model as true chat messages.

    The YAML file sets what lm-eval knows: a split (`test_split`), the last user turn (`doc_to_text`), the options
    (`doc_to_choice`), the output type, and `dataset_kwargs: {context: none}` for a run without the history.
    `--metadata` takes:

    - `data`, `revision`: where the dataset is, see `resolve_data`;
    - or `repo`, `revision`: where on the Hub it is, whatever folders there are here, see `hub_source`;
    - or `config`, `seed`: what to make it from, see `fresh_source`;
    - `split`: a split of the dataset in place of the file's own, see `asked_split`;
    - `subset`: a file that names the questions to ask, see `read_subset`; all of the split by default;
    - `shard`: which part of the questions to ask, such as `3/8`, see `deal_contexts`; all of them by default;
    - `memory`: what is shown before the question, with `settings`, `k`, `store` and `budget_tokens`, see
      `memory.conditions`; the user's whole history by default;
    - `overlength`: what happens to questions too long for the model: `error` (default), `skip` (they count as wrong)
      or `left` (lm-eval cuts them from the left);
    - `roles`: `normalised` (default), `no_system` or `verbatim`, see `chat.build_messages`;
    - `instruction`: a file with an instruction in place of the task file's, see `last_turn`;
    - `explain`: whether the model is asked for a brief explanation before its letter (false by default).
    """

    def __init__(self, config: dict[str, Any]) -> None:
        config = {key: value for key, value in config.items() if key != "class"}
        metadata, own = config.get("metadata") or {}, str(config["doc_to_text"])
        config["test_split"] = asked_split(metadata, config["test_split"])
        self._explain = wants_explanation(metadata, own, config["task"])
        config["doc_to_text"] = last_turn(metadata, own, config["task"])
        self._overlong: set[str] = set()
        self._option_tokens: dict[tuple[int, int], int] = {}
        self._contexts: Callable[[], ContextStore] | None = None
        super().__init__(config=config)

    # ---- data

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Find the dataset and read the questions of the split."""
        metadata = self.config.metadata
        self._roles = chosen_value(metadata, "roles", ("normalised", "no_system", "verbatim"))
        self._overlength: Overlength = chosen_value(metadata, "overlength", ("error", "skip", "left"))
        self._shard = parse_shard(metadata["shard"]) if "shard" in metadata else None
        self.with_context = (dataset_kwargs or {}).get("context", "full") != "none"
        split = self.config.test_split
        self.source = find_source(metadata, split, self.config.task)
        whole, rows = read_rows(metadata, self.source, split, self.config.task)
        self._owners = {row["shared_context_id"]: row["persona_id"] for row in whole}
        self.condition: Condition = (
            condition_of(metadata, whole, rows, self.source)
            if self.with_context
            else without_history(metadata, whole, rows, self.source, self.config.task)
        )
        self.dataset = {split: Dataset.from_list(rows)}
        record_source(metadata, self.source, self.config.task)

    # ---- prompt

    def fewshot_context(
        self,
        doc: QuestionRow,
        num_fewshot: int = 0,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = True,
        chat_template: Any = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """Render the prompt of one question.

        There are no few-shot examples, and the history is always a multi-turn conversation.
        """
        if getattr(model_of(chat_template), "takes_prompt_refs", False):
            return self._prompt_ref(doc, system_instruction, apply_chat_template)
        messages = self.messages(doc, system_instruction)
        return chat.render(chat_template, messages) if apply_chat_template else chat.to_text(messages)

    def _prompt_ref(self, doc: QuestionRow, instruction: str | None, templated: bool) -> chat.PromptRef:
        settings = [self.config.task, self.VERSION, self._roles, self.condition.identity, instruction, templated]
        identity = [self.source.digest, *settings, doc["question_id"]]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        # Without a history, prompts of a task share what its template puts first.
        group = (self.condition.group(doc) if self.with_context else "") or self.config.task
        return chat.PromptRef(digest, group, partial(self.messages, doc, instruction), templated)

    def doc_to_text(self, doc: QuestionRow, doc_to_text: Any = None) -> Any:
        """Return the last user turn: the question, and where they are shown the instruction and the options."""
        return super().doc_to_text({**doc, "explain": self._explain}, doc_to_text)

    def messages(self, doc: QuestionRow, system_instruction: str | None = None) -> list[Message]:
        """Return the message list of one question, as a chat endpoint gets it."""
        history: list[Message] = []
        starts: list[int] = []
        if self.with_context:
            if self._contexts is None:
                self._contexts = self._find_contexts()
            history, starts = self.condition.history(self._contexts(), doc)
        question = self.doc_to_text(doc)
        return chat.build_messages(history, starts, question, roles=self._roles, instruction=system_instruction)

    def _find_contexts(self, limit: int | None = None, samples: list[int] | None = None) -> Callable[[], ContextStore]:
        """Return what opens the contexts, after they were downloaded if they are on the Hub.

        A run on some of the questions reads from there only what it needs.
        """
        hub, split = self.source.hub, self.config.test_split
        remote: tuple[HubFile, ...] = ()
        asked = [doc for _, doc in self.doc_iterator(limit=limit, samples=samples)]
        asks_all = limit is None and samples is None and self._shard is None
        if hub and (asks_all or self.condition.reads_whole_contexts):
            download_contexts(hub.repo_id, hub.commit, [split])
        elif hub:
            owners = {key: self._owners[key] for key in map(self.condition.context_id, asked)}
            remote = remote_contexts(hub.repo_id, hub.commit, split, owners)
        self.config.metadata.update(self.condition.prepare(split, asked))
        return partial(open_contexts, self.source.folder, remote)

    # ---- requests

    def doc_iterator(
        self, *, rank: int = 0, limit: int | None = None, world_size: int = 1, samples: list[int] | None = None
    ) -> Iterator[tuple[int, QuestionRow]]:
        """Yield the questions of one rank: whole contexts, so that no two ranks compute the same history."""
        docs = list(super().doc_iterator(limit=limit, samples=samples))
        if self._shard is not None:
            docs = self._dealt(docs, self._shard.of)[self._shard.number - 1]
        if world_size == 1:
            return iter(docs)
        if len({self.condition.context_id(doc) for _, doc in docs}) < world_size:  # then each still gets questions
            return iter(docs[rank::world_size])
        return iter(self._dealt(docs, world_size)[rank])

    def _dealt(self, docs: Docs, count: int) -> list[Docs]:
        shares_history = self.with_context and self.condition.shows_whole
        return deal_contexts(docs, count, self.condition.context_id, shares_history=shares_history)

    def plan_parts(self, limit: int | None, samples: list[int] | None) -> None:
        """Make sure that every part has questions, and have the results say which part this is, of what plan."""
        if (shard := self._shard) is None:
            return
        docs = list(super().doc_iterator(limit=limit, samples=samples))
        parts = self._dealt(docs, shard.of)
        if not all(parts):
            contexts = sum(map(bool, parts))
            raise UserError(
                f"{self.config.task}: {shard.of} parts are too many: its questions are about {contexts} contexts, "
                "which are not divided",
                f"use {contexts} parts or fewer: --shard 1/{contexts}",
            )
        ids = [[doc["question_id"] for _, doc in part] for part in parts]
        self.config.metadata.update(shard=str(shard), shard_plan=plan_digest(ids))
        _log.info("%s: part %s, %d of %d questions", self.config.task, shard, len(ids[shard.number - 1]), len(docs))

    def build_all_requests(self, *, limit: int | None = None, samples: list[int] | None = None, **kwargs: Any) -> None:
        """Build the requests; refuse, mark or let through the questions that are too long for the model."""
        if kwargs.pop("cache_requests", False):
            _log.warning("%s: the request cache is not used, its keys ignore the data and the prompt", self.config.task)
        check_processes(int(kwargs.get("world_size", 1)), is_ours=running_model.get() is not None)
        chat_template = kwargs.get("chat_template")
        lm = model_of(chat_template)
        self._may_fail = self.OUTPUT_TYPE != "multiple_choice"
        if self.OUTPUT_TYPE == "multiple_choice" and lm is not None and scores_no_loglikelihood(lm):
            if not (scores_letters(lm) and OPTIONS in str(self.config.doc_to_text)):
                raise no_loglikelihood(type(lm).__name__, self.config.task)
            self._may_fail = True
        self._window: Window = window_of(chat_template, self.config.metadata)
        if self._window.max_length is None and self.with_context and not isinstance(lm, FloorLM):
            _log.warning("%s: the model's window is unknown, lengths are not checked", self.config.task)
        self.plan_parts(limit, samples)
        self._asked = [doc for _, doc in super().doc_iterator(limit=limit, samples=samples)]
        self._types = Counter(doc["question_type"] for _, doc in self.doc_iterator(limit=limit, samples=samples))
        self._weigh_types(Counter())
        if self.with_context:
            self._contexts = self._find_contexts(limit, samples)
        super().build_all_requests(limit=limit, samples=samples, **kwargs)
        self._handle_overlength()

    def construct_requests(self, doc: QuestionRow, ctx: Any, **kwargs: Any) -> Any:
        """Build the requests of one question, noting the length of its options in the model's tokens."""
        requests = super().construct_requests(doc, ctx, **kwargs)
        group = self.condition.group(doc) if self.with_context else ""
        place = chat.HistoryPlace(group, doc["end_index_in_shared_context"]) if group else None
        for request in requests if isinstance(requests, list) else [requests]:
            request.asked_in_all_parts, request.history = self._asked, place  # for floors, and for chat backends
        count = self._window.count_option
        if self.OUTPUT_TYPE == "multiple_choice" and count is not None and not isinstance(ctx, chat.PromptRef):
            # As lm-eval scores them: what the option adds to the tokens of what stands before it.
            before = str(ctx)[-_TAIL:]
            alone = count(before)
            for request in requests:
                self._option_tokens[request.doc_id, request.idx] = count(before + request.args[1]) - alone
        return requests

    def _handle_overlength(self) -> None:
        overlong = find_overlength(self, self._window)
        self._overlong = {instance.doc["question_id"] for instance in overlong.instances}
        if not overlong.instances or self._overlength == "left":
            return
        skips_all = len(overlong.instances) == overlong.total and self._shard is None
        if self._overlength == "error" or skips_all:
            raise overlong.error(self)
        for instance in self._instances:
            if instance.doc["question_id"] in self._overlong:
                instance.repeats = 0  # lm-eval sends a request `repeats` times
                instance.resps = [scoring.SKIPPED]

    @property
    def answers_shaped_by(self) -> list[Any]:
        """What shapes the answers beside the requests themselves, some of which only stand for a prompt."""
        question = self.config.doc_to_text
        words = question if isinstance(question, str) else question.__qualname__
        return [self.source.digest, self.VERSION, words, *(["explain"] if self._explain else [])]

    # ---- scores

    def apply_filters(self) -> None:
        """Run the filters, note what came of each question, and put the number of tokens beside each option's score."""
        super().apply_filters()
        self._outcomes = {
            instance.doc["question_id"]: outcome_of(instance.resps[0]) for instance in self._instances if instance.resps
        }
        self._unseen = {
            instance.doc["question_id"]: instance.resps[0].unseen
            for instance in self._instances
            if instance.resps and isinstance(instance.resps[0], LetterAnswer)
        }
        docs = {instance.doc["question_id"]: instance.doc for instance in self._instances}
        self._weigh_types(
            Counter(doc["question_type"] for id_, doc in docs.items() if self._outcomes.get(id_) == "failed")
        )
        if self.OUTPUT_TYPE != "multiple_choice":
            return
        for instance in self._instances:
            for name, response in instance.filtered_resps.items():
                if response is not scoring.SKIPPED and outcome_of(response) != "failed":
                    instance.filtered_resps[name] = self._option_score(instance, response)

    def _weigh_types(self, failed: Counter[str]) -> None:
        self._macro_weight = scoring.type_weights(self._types - failed)

    def _option_score(self, instance: Instance, response: Any) -> scoring.OptionScore:
        known = self._option_tokens.get((instance.doc_id, instance.idx))
        logprob, is_greedy = response
        return scoring.OptionScore(logprob, is_greedy, getattr(response, "num_tokens", known))

    def process_results(self, doc: QuestionRow, results: list[Any]) -> dict[str, float]:
        """Score one question under one filter, see `scoring.question_metrics`."""
        skipped = results[0] is scoring.SKIPPED
        outcome = self._outcomes[doc["question_id"]]
        is_scored = outcome != "failed" and "bypass" not in self._metric_fn_list  # that is --predict_only
        return scoring.question_metrics(
            doc["question_type"],
            self._credits(results, doc["answer_index"], is_silent=skipped or outcome == "refused") if is_scored else {},
            self._macro_weight,
            is_written=self.OUTPUT_TYPE != "multiple_choice",
            may_fail=self._may_fail,
            unseen=self._unseen.get(doc["question_id"]) if outcome == "answered" else None,
            invalid=not skipped and not results[0],
            outcome=outcome,
            skipped=skipped,
            truncated=not skipped and doc["question_id"] in self._overlong,
        )

    def _credits(self, results: list[Any], answer: int, *, is_silent: bool) -> dict[str, float]:
        skipped = results[0] is scoring.SKIPPED
        if self.OUTPUT_TYPE != "multiple_choice":
            return {"acc": 0.0 if skipped else scoring.letter_credit(results[0], answer)}
        credits = {"acc": 0.0 if is_silent else best_credit([score.logprob for score in results], answer)}
        means = None if is_silent else scoring.per_token(results)
        if means is not None or (skipped and self._window.count_option is not None):
            credits["acc_per_token"] = 0.0 if means is None else best_credit(means, answer)
        return credits

    def aggregation(self) -> dict[str, Any]:
        """Return how each metric is aggregated: all by the plain mean, which gives each a standard error."""
        return {metric: mean for metric in _HIGHER_IS_BETTER}

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each metric."""
        return dict(_HIGHER_IS_BETTER)
