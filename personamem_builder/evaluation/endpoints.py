"""Chat endpoints that lm-eval's own backends stumble over, as lm-eval models."""

from __future__ import annotations

from typing import Any

from lm_eval.api.registry import register_model
from lm_eval.models.anthropic_llms import AnthropicChat
from lm_eval.models.openai_completions import LocalChatCompletion


def _given(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that have a value; some providers refuse empty ones."""
    return {name: value for name, value in payload.items() if value not in (None, [], [None])}


@register_model("personamem-chat")
class ChatEndpoint(LocalChatCompletion):
    """`local-chat-completions` that leaves out what is null or empty.

    lm-eval always sends `seed` and `stop`, which some OpenAI-compatible endpoints refuse; here
    `--gen_kwargs '{"seed": null}'` takes one out.
    """

    def _create_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return _given(super()._create_payload(*args, **kwargs))


@register_model("personamem-anthropic")
class AnthropicEndpoint(AnthropicChat):
    """`anthropic-chat-completions` that reads replies with thinking blocks, or without any text."""

    def _create_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return _given(super()._create_payload(*args, **kwargs))

    def parse_generations(self, outputs: Any, **kwargs: Any) -> list[str]:
        """Return the text of each reply; thinking is no part of it."""
        replies = outputs if isinstance(outputs, list) else [outputs]
        return [
            "".join(block["text"] for block in reply["content"] if block.get("type") == "text") for reply in replies
        ]
