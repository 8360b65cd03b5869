"""vLLM's offline engine, behind the three questions that are asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.evaluation.option_passes import Pass


class Written(NamedTuple):
    """What a model wrote after a prompt.

    Attributes:
        was_cut: Whether it ended at the longest length.
        tokens: Of the text.
        cached: Tokens of the prompt that were in the cache; None where that is not known.
    """

    text: str
    was_cut: bool
    tokens: int
    cached: int | None


class Engine(Protocol):
    """A causal language model that keeps the prefixes of prompts.

    Attributes:
        tokenizer: In the form of transformers.
        max_length: Most tokens of a prompt and what is written after it.
    """

    tokenizer: Any
    max_length: int

    def score(self, passes: Sequence[Pass]) -> list[list[list[float]]]:
        """Return the log-probabilities that each pass asks for, in the form of its `ids`."""

    def next_token(self, prompts: Sequence[list[int]], ids: Sequence[list[int]]) -> list[list[float]]:
        """Return the log-probability of each of some tokens right after each prompt."""

    def write(self, prompts: Sequence[list[int]], settings: Sequence[Mapping[str, Any]]) -> list[Written]:
        """Write after each prompt, with the settings of `vllm.SamplingParams`."""


class VLLMEngine:
    """`vllm.LLM` as an `Engine`.

    Two of its defaults are turned round: prefixes are kept, and read for requests that ask for log-probabilities of
    their prompt too.

    Args:
        model: Path, or name on the Hub.
        max_length: The longest sequence; by default what the model was made for.
        **arguments: Of `vllm.LLM`.

    Raises:
        UserError: vLLM is not installed.
    """

    def __init__(self, model: str, max_length: int | None = None, **arguments: Any) -> None:
        try:
            from vllm import LLM
        except ModuleNotFoundError as error:
            raise UserError(f"personamem-vllm needs vLLM: {error}", install_hint("vllm")) from error
        self._llm = LLM(model=model, max_model_len=max_length, enable_prefix_caching=True, **arguments)
        self.tokenizer = self._llm.get_tokenizer()
        self.max_length = int(self._llm.model_config.max_model_len)

    def score(self, passes: Sequence[Pass]) -> list[list[list[float]]]:
        """See `Engine`."""
        outputs = self._run([one.prompt for one in passes], [self._scoring(one) for one in passes])
        scores = [output.prompt_token_id_logprobs for output in outputs]
        # Of what the cache held, by another request that begins like this one, there are none: it is run as a whole.
        lacking = [number for number, found in enumerate(scores) if found is None]
        if lacking:
            again = [passes[number] for number in lacking]
            params = [self._scoring(one, skip_reading_prefix_cache=True) for one in again]
            for number, output in zip(lacking, self._run([one.prompt for one in again], params), strict=True):
                scores[number] = output.prompt_token_id_logprobs
        return [
            [[float(row[i]) for i in range(len(ids))] for row, ids in zip(found, one.ids, strict=True)]
            for found, one in zip(scores, passes, strict=True)
        ]

    def next_token(self, prompts: Sequence[list[int]], ids: Sequence[list[int]]) -> list[list[float]]:
        """See `Engine`."""
        params = [self._params(logprob_token_ids=list(own)) for own in ids]
        found = [output.outputs[0].logprobs[0] for output in self._run(prompts, params)]
        return [[float(at[token].logprob) for token in own] for at, own in zip(found, ids, strict=True)]

    def write(self, prompts: Sequence[list[int]], settings: Sequence[Mapping[str, Any]]) -> list[Written]:
        """See `Engine`."""
        from vllm import SamplingParams

        outputs = self._run(prompts, [SamplingParams(**own) for own in settings])
        return [
            Written(
                output.outputs[0].text,
                output.outputs[0].finish_reason == "length",
                len(output.outputs[0].token_ids),
                output.num_cached_tokens,
            )
            for output in outputs
        ]

    def _scoring(self, one: Pass, *, skip_reading_prefix_cache: bool = False) -> Any:
        return self._params(
            prompt_logprob_token_ids=one.ids,
            prompt_logprob_start=one.start,
            skip_reading_prefix_cache=skip_reading_prefix_cache,
        )

    @staticmethod
    def _params(**more: Any) -> Any:
        from vllm import SamplingParams

        # A token is always written.
        return SamplingParams(temperature=0.0, max_tokens=1, detokenize=False, **more)

    def _run(self, prompts: Sequence[list[int]], params: Sequence[Any]) -> list[Any]:
        from vllm import TokensPrompt

        given = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        try:
            return list(self._llm.generate(given, list(params), use_tqdm=False)) if given else []
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "vllm":
                raise
            raise UserError(
                f"vLLM refuses a request: {error}",
                "where it cannot score prompts with this model, use --model hf-prefix, or a task with _generate",
            ) from error
