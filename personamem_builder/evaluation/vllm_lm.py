"""The lm-eval model `personamem-vllm`: vLLM with one computation of each history, for log-likelihoods too."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import (
    handle_stop_sequences,
    has_bos_prefix,
    normalize_gen_kwargs,
    postprocess_generated_text,
)
from tqdm import tqdm

from generation.errors import UserError
from personamem_builder.evaluation import chat
from personamem_builder.evaluation.option_passes import OptionPasses, plan_options
from personamem_builder.evaluation.prompt_tokens import PromptTokenizer
from personamem_builder.evaluation.responses import LogLikelihood, Reply
from personamem_builder.evaluation.vllm_engine import Engine, VLLMEngine
from personamem_builder.schema import AnswerOutcome
from personamem_builder.usage import AnswerUsage

_log = logging.getLogger("lm_eval.personamem")

_TOKENS_AT_ONCE: Final = 4_000_000
"""Tokens of the prompts that the engine is given at a time."""


@register_model("personamem-vllm")
class VLLMLM(TemplateLM):
    """vLLM for the personamem tasks.

    lm-eval's `vllm` computes the history anew for each option, since vLLM reads no prefix cache for requests that ask
    for log-probabilities of their prompt. Here it does. Questions go to the engine context by context, and several
    replicas take whole contexts each, by `--shard`.

    Args:
        pretrained: Path, or name on the Hub.
        engine: In place of vLLM's.
        max_length: Longest sequence, in tokens; also as `max_model_len`.
        max_gen_toks: Longest reply of tasks that do not say.
        chat_template_args: Further variables of the chat template.
        enable_thinking: One of them.
        think_end_token: Text after which the answer stands.
        batch_size: Has no effect, as `max_batch_size` and `device`: vLLM decides.
        **arguments: Of `vllm.LLM`: `dtype`, `tensor_parallel_size`, `gpu_memory_utilization` and so on.

    Raises:
        UserError: Replicas within one process are asked for.
    """

    takes_prompt_refs: Final = True

    def __init__(
        self,
        pretrained: str = "",
        *,
        engine: Engine | None = None,
        max_length: int | None = None,
        max_model_len: int | None = None,
        max_gen_toks: int = 256,
        chat_template_args: Mapping[str, Any] | None = None,
        enable_thinking: bool | None = None,
        think_end_token: str | None = None,
        batch_size: Any = None,
        max_batch_size: Any = None,
        device: Any = None,
        data_parallel_size: int = 1,
        **arguments: Any,
    ) -> None:
        super().__init__()
        if int(data_parallel_size) != 1:
            raise UserError(
                f"data_parallel_size={data_parallel_size}: replicas in one process would share histories",
                "start a command for each replica: CUDA_VISIBLE_DEVICES=0 … --shard 1/2, then personamem merge",
            )
        window = max_length or max_model_len
        self._engine = engine or VLLMEngine(pretrained, int(window) if window else None, **arguments)
        self.tokenizer = self._engine.tokenizer
        self.max_length = self._engine.max_length
        self.max_gen_toks = int(max_gen_toks)
        self.think_end_token = think_end_token
        self._template_args = dict(chat_template_args or {})
        if enable_thinking is not None:
            self._template_args["enable_thinking"] = enable_thinking
        self._prompts = PromptTokenizer(self.tokenizer, self._encode, self._render)

    # ---- tokens

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text."""
        return int(self.tokenizer.eos_token_id)

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer, for lm-eval's results."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Render messages; what the template refuses is an error."""
        return str(
            self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
                **self._template_args,
            )
        )

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Return token ids; a `PromptRef` is rendered first."""
        if isinstance(string, chat.PromptRef):
            return _ids(self._prompts.encode(string))
        return self._encode(string, add_special_tokens)

    def _encode(self, text: str, add_special_tokens: bool | None = None) -> list[int]:
        if add_special_tokens is None:  # a chat template writes the first token itself
            add_special_tokens = not has_bos_prefix(text, self.tokenizer.bos_token or self.tokenizer.eos_token)
        return list(self.tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def _render(self, ref: chat.PromptRef) -> str:
        messages = ref.messages()
        return str(chat.render(self.apply_chat_template, messages)) if ref.templated else chat.to_text(messages)

    # ---- log-likelihood

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[LogLikelihood]:
        """Return a `LogLikelihood` for each request; whether it is what the model would say is not found out.

        Raises:
            UserError: A request is of another task.
        """
        if not all(isinstance(request.args[0], chat.PromptRef) for request in requests):
            raise UserError("personamem-vllm scores personamem tasks only", "use --model vllm for others")
        questions: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            questions.setdefault(request.args[0], []).append(number)
        own = list(questions.values())
        first = [requests[numbers[0]] for numbers in own]
        answers: dict[int, LogLikelihood] = {}
        with tqdm(total=len(requests), disable=disable_tqdm) as bar:
            for batch in self._batches(first, [[requests[n].args[1] for n in numbers] for numbers in own]):
                for question, scores in self._scored(batch):
                    for number, token_logprobs in zip(own[question], scores, strict=True):
                        answers[number] = LogLikelihood(token_logprobs, is_greedy=False)
                        self.cache_hook.add_partial("loglikelihood", requests[number].args, answers[number])
                        bar.update()
        return [answers[number] for number in range(len(requests))]

    def _batches(
        self, requests: Sequence[Any], texts: Sequence[Sequence[str]]
    ) -> Iterator[list[tuple[int, list[int], list[list[int]]]]]:
        """Yield questions that go to the engine together: number, tokens of the prompt, and those of the options."""
        batch: list[tuple[int, list[int], list[list[int]]]] = []
        tokens = 0
        for group in chat.by_history(requests):
            # The longest history comes first: the tokens of its pieces are checked, and the others are made of them.
            encoded = [(number, *self._pair(requests[number], texts[number])) for number in reversed(group)]
            for question in reversed(encoded):
                batch.append(question)
                tokens += max(1, len(question[2])) * len(question[1])
                if tokens >= _TOKENS_AT_ONCE:
                    yield batch
                    batch, tokens = [], 0
        if batch:
            yield batch

    def _pair(self, request: Any, texts: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        pairs = [self._prompts.encode_pair(request.args[0], text) for text in texts]
        prompt = _ids(pairs[0][0])
        options = [np.asarray(option).tolist() for _, option in pairs]
        longest = len(prompt) + max(map(len, options))
        if longest >= self.max_length:  # a token is always written
            # Our tasks let it come to this only if they are told to (overlength=left).
            _log.warning("cutting %d tokens from the left", longest + 1 - self.max_length)
            prompt = prompt[longest + 1 - self.max_length :]
        return prompt, options

    def _scored(
        self, batch: Sequence[tuple[int, list[int], list[list[int]]]]
    ) -> Iterator[tuple[int, list[list[float]]]]:
        """Yield the log-probabilities of the options' tokens, question by question."""
        labels = [one for one in batch if _are_single(one[2])]
        if labels:
            ids = [[option[0] for option in options] for _, _, options in labels]
            distinct = [list(dict.fromkeys(own)) for own in ids]
            found = self._engine.next_token([prompt for _, prompt, _ in labels], distinct)
            for (number, _, _), own, asked, logprobs in zip(labels, ids, distinct, found, strict=True):
                yield number, [[logprobs[asked.index(token)]] for token in own]
        texts = [one for one in batch if not _are_single(one[2])]
        plans: list[OptionPasses] = [plan_options(prompt, options) for _, prompt, options in texts]
        scores = iter(self._engine.score([one for plan in plans for one in plan.passes]))
        for (number, _, _), plan in zip(texts, plans, strict=True):
            yield number, plan.token_logprobs([next(scores) for _ in plan.passes])

    def _loglikelihood_tokens(self, requests: list[Any], **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Refuse.

        Raises:
            UserError: Always.
        """
        raise UserError("personamem-vllm scores personamem tasks only", "use --model vllm for others")

    # ---- generation

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[Reply]:
        """Let the model write after each prompt."""
        replies: dict[int, Reply] = {}
        groups = chat.by_history(requests)
        with tqdm(total=len(requests), disable=disable_tqdm) as bar:
            for group in groups:
                encoded = {number: self.tok_encode(requests[number].args[0]) for number in reversed(group)}
                for number, reply in self._written([(n, encoded[n], requests[n].args[1]) for n in group]):
                    replies[number] = reply
                    self.cache_hook.add_partial("generate_until", requests[number].args, reply)
                    bar.update()
        return [replies[number] for number in range(len(requests))]

    def _written(self, asked: Sequence[tuple[int, list[int], Mapping[str, Any]]]) -> Iterator[tuple[int, Reply]]:
        settings, stops, prompts = [], [], []
        for _, prompt, given in asked:
            own = dict(normalize_gen_kwargs(dict(given), self.max_gen_toks))
            until = handle_stop_sequences(own.pop("until", None), eos=self.tokenizer.decode([self.eot_token_id]))
            most = int(own.pop("max_gen_toks"))
            own.pop("do_sample", None)
            if len(prompt) + most > self.max_length:
                _log.warning("cutting %d tokens from the left", len(prompt) + most - self.max_length)
                prompt = prompt[len(prompt) + most - self.max_length :]
            # What a model thinks may hold any of the texts at which its answer ends.
            settings.append({**own, "max_tokens": most, "stop": [] if self.think_end_token else until})
            stops.append(until)
            prompts.append(prompt)
        written = self._engine.write(prompts, settings)
        for (number, _, _), prompt, until, one in zip(asked, prompts, stops, written, strict=True):
            text = postprocess_generated_text(one.text, stop=until, think_end_token=self.think_end_token)
            outcome: AnswerOutcome = "cut" if one.was_cut and len(text) == len(one.text) else "answered"
            usage = AnswerUsage(None, len(prompt), one.tokens, one.cached)
            yield number, Reply(text, outcome, "length" if one.was_cut else "stop", usage)


def _are_single(options: Sequence[Sequence[int]]) -> bool:
    return all(len(option) == 1 for option in options)


def _ids(path: Any) -> list[int]:
    return path.slice(0, path.length).tolist()  # type: ignore[no-any-return]
