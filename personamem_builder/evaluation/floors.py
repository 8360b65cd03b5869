"""The lm-eval model `personamem-floor`: what a shortcut scores on the same tasks and rows as a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from generation.errors import UserError
from generation.seeds import rng_for
from personamem_builder.policies import POLICIES, Policy
from personamem_builder.schema import QuestionRow, option_letter


@register_model("personamem-floor")
class FloorLM(LM):
    """Chooses options by a policy that reads no conversation.

    Args:
        policy: One of `POLICIES`.
        seed: For `random`, and for ties in `_generate` tasks, where one letter must be named. In log-likelihood
            tasks ties share the credit.
        **kwargs: What lm-eval passes to every model (batch size, device), ignored.
    """

    def __init__(self, policy: str = "longest", seed: int = 0, **kwargs: Any) -> None:
        super().__init__()
        if unknown := kwargs.keys() - {"batch_size", "max_batch_size", "device"}:
            raise UserError(
                f"personamem-floor has no argument {', '.join(sorted(unknown))}", "it takes policy and seed"
            )
        if not str(seed).isdigit():
            raise UserError(f"personamem-floor: seed={seed} is not a whole number", "leave it out, or give one")
        if policy not in POLICIES:
            raise UserError(f"personamem-floor has no policy {policy!r}", f"use one of {', '.join(POLICIES)}")
        self._policy = policy
        self._seed = int(seed)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return the policy's value of each option in place of its log-likelihood."""
        policies = self._policies(requests)
        return [(policies[request.task_name](request.doc)[request.idx], False) for request in requests]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the chosen letter in the form that the tasks ask for."""
        policies = self._policies(requests)
        return [f"<final_answer>({self._letter(policies[request.task_name], request.doc)})" for request in requests]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Refuse: a policy says nothing about running text."""
        raise UserError("personamem-floor answers multiple-choice questions only", "use it with personamem_* tasks")

    @property
    def tokenizer_name(self) -> str:
        """There is no tokenizer."""
        return ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Join the messages; the policies look at the question row only."""
        return "\n\n".join(message["content"] for message in chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str:
        """There is no chat template."""
        return ""

    def _policies(self, requests: Sequence[Instance]) -> dict[str, Policy]:
        rows: dict[str, Sequence[QuestionRow]] = {}
        for request in requests:
            if not hasattr(request, "asked_in_all_parts"):
                raise UserError(f"personamem-floor cannot run {request.task_name}", "use it with personamem_* tasks")
            rows[request.task_name] = request.asked_in_all_parts
        make: Callable[[Sequence[QuestionRow], int], Policy] = POLICIES[self._policy]
        return {task: make(own, self._seed) for task, own in rows.items()}

    def _letter(self, policy: Policy, row: QuestionRow) -> str:
        values = policy(row)
        best = [index for index, value in enumerate(values) if value == max(values)]
        return option_letter(rng_for(self._seed, "floor", "tie", row["question_id"]).choice(best))
