"""The lm-eval model `hf-prefix`: `hf` that computes each distinct token prefix once."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from tqdm import tqdm

from generation.errors import UserError
from personamem_builder.evaluation import chat
from personamem_builder.evaluation.live_cache import LiveCache, readable_memory_errors
from personamem_builder.evaluation.prompt_tokens import PromptTokenizer
from personamem_builder.evaluation.responses import LogLikelihood
from personamem_builder.evaluation.token_paths import Cost, Request, Step, TokenPath, Tokens, plan_walk

_log = logging.getLogger("lm_eval.personamem")

_LOGIT_ROWS: Final = 256
"""Positions whose logits are turned into float32 at a time."""


@dataclass(frozen=True, slots=True)
class _TokenRequest:
    """One request to the model.

    Attributes:
        index: Its place among the requests.
        path: The tokens to run through the model.
        reuse: How many of them may come from the cache.
        targets: The tokens whose log-probabilities are wanted, the first after `reuse + 1` tokens; or, to generate
            after, the prompt's last token.
        key: What lm-eval's result cache knows the request by.
    """

    index: int
    path: TokenPath
    reuse: int
    targets: Tokens
    key: Any


@register_model("hf-prefix")
class PrefixLM(HFLM):
    """`hf`, with one key-value cache that all requests share.

    Takes the arguments of lm-eval's `hf` model (`batch_size` has no effect: requests are run one by one, each from the
    longest prefix that the cache holds) and works for any lm-eval task. Log-likelihoods are those of `hf` in the same
    precision, up to the order of floating-point operations, with the log-softmax always in float32.

    Args:
        pretrained: As for `hf`.
        prefill_chunk: Most tokens of one forward pass; less needs less memory.
        **kwargs: As for `hf`.

    Raises:
        UserError: The model is an encoder-decoder or uses prompt tuning.
    """

    takes_prompt_refs: Final = True

    def __init__(self, pretrained: Any, prefill_chunk: int = 2048, **kwargs: Any) -> None:
        super().__init__(pretrained, **kwargs)
        self.prefill_chunk = int(prefill_chunk)
        if self.backend != "causal":
            raise UserError("hf-prefix scores decoder-only models, this is an encoder-decoder", "use --model hf")
        if any(getattr(c, "is_prompt_learning", False) for c in getattr(self.model, "peft_config", {}).values()):
            raise UserError("hf-prefix cannot use prompt tuning, which adds virtual tokens", "use --model hf")
        # Of the last request: the position of the first output wanted, and what was found for each.
        self._scored: tuple[int, list[float], list[bool]] = (0, [], [])
        self._answers: dict[Any, LogLikelihood] = {}
        self._prompts = PromptTokenizer(self.tokenizer, super().tok_encode, self._render)

    # ---- tokens

    def _render(self, ref: chat.PromptRef) -> str:
        messages = ref.messages()
        return str(chat.render(self.apply_chat_template, messages)) if ref.templated else chat.to_text(messages)

    def tok_encode(self, string: str, *args: Any, **kwargs: Any) -> list[int]:
        """Return token ids; a `PromptRef` is rendered first."""
        if isinstance(string, chat.PromptRef):
            path = self._prompts.encode(string)
            return path.slice(0, path.length).tolist()  # type: ignore[no-any-return]
        return super().tok_encode(string, *args, **kwargs)  # type: ignore[no-any-return]

    # ---- log-likelihood

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[Any]:
        """Return a `LogLikelihood` for each request, in their order."""
        if self.enable_thinking or not any(isinstance(request.args[0], chat.PromptRef) for request in requests):
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)  # type: ignore[no-any-return]
        return self._run(self._grouped(requests), self._job_of_instance, self._score, disable_tqdm)

    def _loglikelihood_tokens(
        self, requests: list[Any], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[Any]:
        rolling = all(key is None for key, _, _ in requests)  # comes in many small calls
        return self._run([list(enumerate(requests))], self._job_of_tokens, self._score, disable_tqdm or rolling)

    def _job_of_instance(self, index: int, request: Instance) -> _TokenRequest:
        context, continuation = request.args
        if isinstance(context, chat.PromptRef):
            path, targets = self._prompts.encode_pair(context, continuation)
        else:
            before, after = self._encode_text(context, continuation)
            path, targets = TokenPath.of([np.asarray(before, np.int32)]), np.asarray(after, np.int32)
        return self._scored_job(index, path, targets, request.args)

    def _encode_text(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        if context:
            return self._encode_pair(context, continuation)  # type: ignore[no-any-return]
        # As in lm-eval: something must stand before the first token.
        after = super().tok_encode(continuation, add_special_tokens=False)
        before = [self.prefix_token_id]
        return (after[:1], after[1:]) if after[:1] == before else (before, after)

    def _job_of_tokens(self, index: int, request: Any) -> _TokenRequest:
        key, context, continuation = request
        path = TokenPath.of([np.asarray(context, np.int32)])
        return self._scored_job(index, path, np.asarray(continuation, np.int32), key)

    def _scored_job(self, index: int, context: TokenPath, targets: Tokens, key: Any) -> _TokenRequest:
        if not len(targets):
            return _TokenRequest(index, TokenPath.of([]), 0, targets, key)
        if len(targets) > self.max_length:
            raise UserError(
                f"a continuation of {len(targets)} tokens does not fit the model's window of {self.max_length}",
                "give the model a longer window: max_length",
            )
        if not context.length:
            context = TokenPath.of([np.asarray([self.prefix_token_id], np.int32)])
        # Nothing is asked about what follows the last token, so it is never run.
        path = context.then(targets).without_last()
        if path.length > self.max_length:
            # As `hf` does; our own tasks let it come to this only if they are told to (overlength=left).
            _log.warning("cutting %d tokens from the left", path.length - self.max_length)
            path = TokenPath.of([path.slice(path.length - self.max_length, path.length)])
        return _TokenRequest(index, path, path.length - len(targets), targets, key)

    def _score(self, cache: LiveCache, job: _TokenRequest, step: Step, bar: tqdm[Any]) -> LogLikelihood:
        reuse, logprobs, greedy = self._scored
        logprobs = logprobs[job.reuse - reuse :][: step.known]
        greedy = greedy[job.reuse - reuse :][: step.known]
        for position, logits in self._forward(cache, job.path, step, job.reuse, bar):
            wanted = job.targets[position - job.reuse : position - job.reuse + len(logits)]
            targets = torch.as_tensor(wanted, dtype=torch.long, device=logits.device)
            for rows, row_targets in zip(logits.split(_LOGIT_ROWS), targets.split(_LOGIT_ROWS), strict=True):
                table = rows.float().log_softmax(-1)
                logprobs += table.gather(1, row_targets[:, None])[:, 0].tolist()
                greedy += (table.argmax(-1) == row_targets).tolist()
        if job.path.length:
            self._scored = (job.reuse, logprobs, greedy)
        result = LogLikelihood(logprobs, all(greedy))
        if job.key is not None:  # None in lm-eval's rolling log-likelihoods
            # The same option asked again is a tie, and no matter of rounding.
            result = self._answers.setdefault(job.key, result)
            self.cache_hook.add_partial("loglikelihood", job.key, result)
        return result

    # ---- generation

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generate, each time from the longest prefix that the cache holds."""
        room = max((self._budget(request.args[1]) for request in requests), default=0)
        return self._run(self._grouped(requests), self._job_of_prompt, self._generate, disable_tqdm, room)

    def _budget(self, arguments: dict[str, Any]) -> int:
        return int(normalize_gen_kwargs(dict(arguments), self.max_gen_toks)["max_gen_toks"])

    def _job_of_prompt(self, index: int, request: Instance) -> _TokenRequest:
        context, arguments = request.args
        if isinstance(context, chat.PromptRef):
            prompt = self._prompts.encode(context)
        else:
            ids, _ = self.tok_batch_encode([context])
            prompt = TokenPath.of([ids[0].numpy().astype(np.int32)])
        room = self.max_length - self._budget(arguments)
        if room < 1:
            raise UserError(
                f"max_gen_toks leaves no room in a window of {self.max_length} tokens", "lower max_gen_toks"
            )
        if prompt.length > room:
            _log.warning("cutting %d tokens from the left", prompt.length - room)
            prompt = TokenPath.of([prompt.slice(prompt.length - room, prompt.length)])
        path = prompt.without_last()
        return _TokenRequest(index, path, path.length, prompt.slice(path.length, prompt.length), request.args)

    def _generate(self, cache: LiveCache, job: _TokenRequest, step: Step, bar: tqdm[Any]) -> str:
        for _ in self._forward(cache, job.path, step, job.path.length, bar):
            pass
        kwargs = normalize_gen_kwargs(dict(job.key[1]), self.max_gen_toks)
        eos = self.tok_decode(self.eot_token_id, skip_special_tokens=False)
        until = handle_stop_sequences(kwargs.pop("until", None), eos=eos)
        budget = kwargs.pop("max_gen_toks")
        prompt = np.concatenate([job.path.slice(0, job.path.length), job.targets])
        ids = torch.as_tensor(prompt, dtype=torch.long, device=self.device)[None]
        output = self._model_generate(
            context=ids,
            attention_mask=torch.ones_like(ids),
            stop=until,
            max_length=kwargs.pop("max_length", len(prompt) + budget),
            # Beams would each need a cache of their own.
            **({} if kwargs.get("num_beams", 1) > 1 else {cache.argument: cache.cache}),
            **kwargs,
        )
        cache.moved(output.shape[1])
        text = self._finished_text(output[0, len(prompt) :].tolist(), until)
        self.cache_hook.add_partial("generate_until", job.key, text)
        return text

    def _finished_text(self, tokens: list[int], until: list[str]) -> str:
        end = self.think_end_token
        if isinstance(end, int) and end in tokens:
            tokens = tokens[len(tokens) - tokens[::-1].index(end) :]
        text = self.tok_decode(tokens)
        return postprocess_generated_text(  # type: ignore[no-any-return]
            generation=text.lstrip() if isinstance(end, int) else text,
            stop=until,
            think_end_token=end if isinstance(end, str) else None,
        )

    # ---- the walk

    def _grouped(self, requests: list[Instance]) -> list[list[tuple[int, Instance]]]:
        """Put requests together whose histories start alike: the tokens of one group at a time are held."""
        openings: dict[str, str] = {}
        groups: dict[str, list[tuple[int, Instance]]] = {}
        for index, request in enumerate(requests):
            ref = request.args[0]
            name = ref.group if isinstance(ref, chat.PromptRef) else ""
            if name not in openings:
                openings[name] = repr(ref.messages()[:2]) if name else ""
            groups.setdefault(openings[name], []).append((index, request))
        return list(groups.values())

    def _run(
        self, groups: Sequence[Sequence[tuple[int, Any]]], make_job: Any, answer: Any, quiet: bool, room: int = 0
    ) -> list[Any]:
        """Answer all requests, group by group; `room` is for the tokens that an answer adds to the cache.

        Each group is planned twice, for the cost of the whole run and again when its turn comes, since holding the
        tokens of all groups would take the memory that groups are there to save.
        """
        cost = Cost()
        for group in groups:
            jobs = _jobs(group, make_job)
            cost.add(*_plan(jobs))
        if self.rank == 0 and not quiet:
            _log.info("hf-prefix: %s%s", _questions(groups), cost)
        results: dict[int, Any] = {}
        self._answers.clear()
        cache = LiveCache(self.model, cost.longest + 1 + room)
        begin = time.monotonic()
        with (
            torch.inference_mode(),
            self._autocast(),
            tqdm(total=cost.forward, unit="tok", unit_scale=True, disable=quiet or self.rank != 0) as bar,
        ):
            for group in groups:
                jobs = _jobs(group, make_job)
                for step in _plan(jobs)[0]:
                    job = jobs[step.index]
                    with readable_memory_errors(cache, job.path.length, self.prefill_chunk):
                        results[job.index] = answer(cache, job, step, bar)
                    if len(results) == 1 and not bar.disable:
                        seconds = (time.monotonic() - begin) * cost.forward / max(1, bar.n)
                        _log.info("hf-prefix: about %.0f s in all at the speed of the first request", seconds)
        return [results[index] for index in range(len(results))]

    def _forward(
        self, cache: LiveCache, path: TokenPath, step: Step, first: int, bar: tqdm[Any]
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Bring the cache from a step's start to the end of its path.

        Yields:
            A position from `first` on, and the logits (positions, vocabulary) from there.
        """
        if path.length == 0:
            return
        cache.rewind(step.start)
        for halt in (*step.snapshots, path.length) if cache.needs_snapshots else (path.length,):
            while cache.length < halt:
                begin = cache.length
                end = min(halt, begin + self.prefill_chunk)
                wanted = max(0, end - max(begin, first))
                logits = cache.extend(path.slice(begin, end), wanted)
                bar.update(end - begin)
                if wanted:
                    yield end - wanted, logits
            if halt in step.snapshots:
                cache.snapshot()

    def _autocast(self) -> Any:
        if self.mixed_precision_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(device_type=self.device.type, dtype=self.mixed_precision_dtype)


def _questions(groups: Sequence[Sequence[tuple[int, Any]]]) -> str:
    """Say how many questions about how many contexts there are, where prompts are references."""
    prompts = [request.args[0] for group in groups for _, request in group if isinstance(request, Instance)]
    refs = {prompt for prompt in prompts if isinstance(prompt, chat.PromptRef)}
    return f"{len(refs):,} questions, {len({ref.group for ref in refs}):,} contexts; " if refs else ""


def _jobs(group: Sequence[tuple[int, Any]], make_job: Any) -> list[_TokenRequest]:
    # The longest history comes first: the tokens of its pieces are checked, and the others are made of them.
    return [make_job(index, request) for index, request in reversed(group)]


def _plan(jobs: Sequence[_TokenRequest]) -> tuple[list[Step], list[Request]]:
    requests = [Request(job.path, job.reuse) for job in jobs]
    return plan_walk(requests), requests
