"""lm-eval models that answer as a test says and note what they are asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.api_models import JsonChatStr

from personamem_builder.evaluation.responses import Reply

RIGHT = "<final_answer>({})"


class _Noting(LM):
    answer: ClassVar[Callable[[dict[str, Any]], Any]]
    asked: ClassVar[list[Any]] = []

    def __init__(self, **arguments: Any) -> None:
        super().__init__()

    tokenizer_name = ""

    def chat_template(self, chat_template: bool | str = False) -> str:
        return ""

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: list[Any], **_: Any) -> list[Any]:
        return [self._tell("generate_until", request, type(self).answer(request.doc)) for request in requests]

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[Any]:
        return [self._tell("loglikelihood", request, type(self).answer(request)) for request in requests]

    def _tell(self, method: str, request: Any, answer: Any) -> Any:
        self.asked.append(request.doc.get("question_id", request.doc))
        if not (isinstance(answer, Reply) and answer.outcome == "failed"):
            self.cache_hook.add_partial(method, request.args, answer)
        return answer


@register_model("chat-for-tests")
class AnsweringChat(_Noting):
    """A chat endpoint: `answer` gives the reply to a question of a dataset."""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> Any:
        return JsonChatStr(json.dumps(chat_history))

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[Any]:
        raise NotImplementedError


@register_model("scorer-for-tests")
class AnsweringScorer(_Noting):
    """A local model: `answer` gives the log-likelihood of a request."""


def right(doc: dict[str, Any]) -> str:
    """Answer a question of a dataset right."""
    return RIGHT.format("abcd"[doc["answer_index"]])
