"""Chat endpoints as lm-eval models, asked by a client of our own: no key in any error, and no failure for an answer."""

from __future__ import annotations

import copy
import re
import ssl
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from lm_eval.api.registry import register_model
from lm_eval.models.anthropic_llms import AnthropicChat
from lm_eval.models.api_models import TemplateAPI
from lm_eval.models.openai_completions import LocalChatCompletion
from lm_eval.models.utils import postprocess_generated_text

from generation.errors import UserError
from generation.http import PrivateHeaders, address_of, is_header_value, trusted
from generation.llm.chat_request import EndpointLabels
from generation.llm.endpoint import DEFAULT_TIMEOUT
from generation.progress import track
from personamem_builder.evaluation.chat import by_history
from personamem_builder.evaluation.chat_client import MOST_AT_ONCE, Answered, ChatClient, Endpoint
from personamem_builder.evaluation.letters import MOST_TOKENS, TOP, letter_scores
from personamem_builder.evaluation.responses import LetterAnswer, Reply
from personamem_builder.schema import option_index

_LABEL: Final = re.compile(r"\s*\(([a-z])\)")
_MOST_TRIES: Final = 1000
_LONGEST_TIMEOUT: Final = 86_400


class _ClientModel(TemplateAPI):
    """What both models share: `generate_until` with a client of our own.

    lm-eval's, of `requests` and `aiohttp`, logs and raises errors that hold the headers, follows redirects, and takes
    anything with a status of 200 for an answer.
    """

    _key_name: str
    _path: str

    def __init__(
        self,
        base_url: str | None = None,
        *,
        num_concurrent: int = 1,
        max_retries: int = 3,
        timeout: float = DEFAULT_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        _check("num_concurrent", num_concurrent, 1, MOST_AT_ONCE)
        _check("max_retries", max_retries, 1, _MOST_TRIES)
        _check("timeout", timeout, 0.001, _LONGEST_TIMEOUT)
        super().__init__(base_url=base_url, num_concurrent=num_concurrent, max_retries=max_retries, **kwargs)
        self.timeout = timeout

    @property
    def MULTIMODAL(self) -> bool:
        """Not there: this model takes text only. Of those that take images lm-eval copies the samples, types lost."""
        raise AttributeError("MULTIMODAL")

    @cached_property
    def _client(self) -> ChatClient:
        return ChatClient(self._endpoint)

    @cached_property
    def _endpoint(self) -> Endpoint:
        address = address_of(str(self.base_url or ""))
        if address is None:
            raise UserError(
                f"base_url={self.base_url} is not an address of an endpoint",
                f"give one that ends in {self._path}, such as base_url=http://127.0.0.1:8000{self._path}",
            )
        return Endpoint(
            address,
            self._headers(),
            EndpointLabels(address.shown, str(self.model), self._key_name, "base_url", self._path),
            self.timeout,
            self.max_retries,
            self._concurrent,
            self._context(),
        )

    def _headers(self) -> PrivateHeaders:
        headers = getattr(self, "header", None)
        if not isinstance(headers, dict):
            raise UserError("header is not a mapping of names to values", "give it in a --config file")
        given = {str(name): str(value) for name, value in headers.items() if str(value).strip() not in ("", "Bearer")}
        for name, value in given.items():
            if not is_header_value(value) or not is_header_value(name):
                raise UserError(f"the header {name!r} has characters that no header has", f"see {self._key_name}")
        return PrivateHeaders({"Content-Type": "application/json", **given})

    def _context(self) -> ssl.SSLContext | None:
        if not self.verify_certificate:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        if not self.ca_cert_path:
            return None
        try:
            return trusted(str(self.ca_cert_path))
        except OSError as error:  # ssl.SSLError is one
            raise UserError(
                f"ca_cert_path={self.ca_cert_path}: {error}", "give a file of certificates (PEM)"
            ) from error

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[Reply]:
        """Return a reply for each question, in their order; one that failed is empty and says why."""
        if any(len(request.args) > 2 for request in requests):
            raise UserError("this model takes text only", "use local-chat-completions for images")
        if not requests:
            return []
        replies: dict[int, Reply] = {}
        found = self._client.ask_all(by_history(requests), lambda number: self._payload(*requests[number].args))
        what = f"asking {self._endpoint.address.place}"
        for number, reply, stops, _ in found if disable_tqdm else track(found, what, len(requests)):
            replies[number] = self._finished(reply, stops)
            if reply.outcome != "failed":
                self.cache_hook.add_partial("generate_until", requests[number].args, replies[number])
        return [replies[number] for number in range(len(requests))]

    def _payload(self, prompt: Any, settings: dict[str, Any]) -> dict[str, Any]:
        payload = self._create_payload(
            self.create_message([prompt]),
            generate=True,
            gen_kwargs=copy.deepcopy(settings),
            seed=self._seed,
            eos=self._eos_string or (self.eos_string if self.tokenizer is not None else None),
        )
        # Some providers refuse empty fields.
        return {name: value for name, value in payload.items() if value not in (None, [], [None])}

    def _finished(self, reply: Reply, stops: list[str]) -> Reply:
        """Return a reply without what stands before the end of its thoughts, and cut at what the endpoint let pass."""
        text = postprocess_generated_text(str(reply), stop=None, think_end_token=getattr(self, "think_end_token", None))
        whole = postprocess_generated_text(text, stop=stops, think_end_token=None)
        outcome = "answered" if whole != text and reply.outcome == "cut" else reply.outcome
        return Reply(whole, outcome, reply.finish_reason, reply.usage)


def _letter(label: str) -> int:
    """Return the number of an option by its label."""
    found = _LABEL.fullmatch(label)
    if found is None:
        raise UserError(
            f"a chat endpoint scores letters of shown options only, and no text such as {label[:40]!r}",
            "use a task with _letters or _generate",
        )
    return option_index(found[1])


def _check(name: str, value: Any, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UserError(f"{name}={value} in the model's arguments", f"give a number from {least:g} to {most:,}")


@register_model("personamem-chat")
class ChatEndpoint(_ClientModel, LocalChatCompletion):
    """`local-chat-completions` with our client.

    It leaves out what is null or empty, such as `seed` after `--gen_kwargs '{"seed": null}'`. Where the endpoint gives
    log-probabilities (`top_logprobs` of each token), it scores the letters of shown options too.
    """

    scores_letters = True
    _key_name = "OPENAI_API_KEY"
    _path = "/v1/chat/completions"

    def __init__(self, base_url: str | None = None, *, top_logprobs: int = TOP, **kwargs: Any) -> None:
        _check("top_logprobs", top_logprobs, 1, TOP)
        super().__init__(base_url, **kwargs)
        self._top = top_logprobs

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[LetterAnswer]:
        """Score the letters of shown options: one request a question, whatever the number of its options.

        Raises:
            UserError: A continuation is no letter, or the endpoint gives no log-probabilities.
        """
        questions: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            questions.setdefault(request.args[0].prompt, []).append(index)
        own_requests = list(questions.values())
        first = [requests[own[0]] for own in own_requests]
        answers: dict[int, LetterAnswer] = {}
        found = self._client.ask_all(by_history(first), lambda number: self._letters_payload(first[number].args[0]))
        what = f"asking {self._endpoint.address.place}"
        for one in found if disable_tqdm else track(found, what, len(first)):
            own = own_requests[one.number]
            for index, answer in zip(own, self._letters(one, [requests[i].args[1] for i in own]), strict=True):
                answers[index] = answer
                if answer.outcome != "failed":
                    self.cache_hook.add_partial("loglikelihood", requests[index].args, answer)
        return [answers[index] for index in range(len(requests))]

    def _letters_payload(self, prompt: Any) -> dict[str, Any]:
        settings = {"max_gen_toks": MOST_TOKENS, "temperature": 0, "logprobs": True, "top_logprobs": self._top}
        return self._payload(prompt, settings)

    def _letters(self, answered: Answered, labels: Sequence[str]) -> list[LetterAnswer]:
        """Return an answer for each label, such as ` (a)`."""
        reply, tokens = answered.reply, answered.tokens
        if reply.outcome in ("failed", "refused"):
            return [LetterAnswer(0.0, False, 0.0, reply.outcome, reply.finish_reason, reply.usage) for _ in labels]
        if tokens is None:
            raise UserError(
                f"{self._endpoint.named.at} gives no log-probabilities (`logprobs`) for {self.model}, so that letters "
                "cannot be scored",
                "use the task with _generate in place of _letters",
            )
        letters = [_letter(label) for label in labels]
        scores = letter_scores(tokens, 1 + max(letters))
        best = max(scores.logprobs)
        return [
            LetterAnswer(
                scores.logprobs[letter], scores.logprobs[letter] == best, scores.unseen, "answered", "", reply.usage
            )
            for letter in letters
        ]


@register_model("personamem-anthropic")
class AnthropicEndpoint(_ClientModel, AnthropicChat):
    """`anthropic-chat-completions` with our client."""

    _key_name = "ANTHROPIC_API_KEY"
    _path = "/v1/messages"

    def __init__(self, base_url: str = "https://api.anthropic.com/v1/messages", **kwargs: Any) -> None:
        super().__init__(base_url, **kwargs)

    @cached_property
    def header(self) -> dict[str, str]:
        """The headers of a request, with those that were given."""
        return {"x-api-key": self.api_key, "anthropic-version": self.anthropic_version, **(self._header or {})}
