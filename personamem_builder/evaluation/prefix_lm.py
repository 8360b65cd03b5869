"""The lm-eval model `hf-prefix`: `hf` that computes each distinct token prefix once."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
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
from personamem_builder.evaluation.generated_answers import GeneratedAnswers
from personamem_builder.evaluation.live_cache import LiveCache
from personamem_builder.evaluation.log_likelihoods import LogLikelihoods
from personamem_builder.evaluation.packing import limits_of, read_packing
from personamem_builder.evaluation.passes import Cost, Limits
from personamem_builder.evaluation.prompt_tokens import PromptTokenizer
from personamem_builder.evaluation.responses import LogLikelihood
from personamem_builder.evaluation.token_paths import TokenPath, Tokens
from personamem_builder.evaluation.token_requests import Done, TokenRequest, trees_of
from personamem_builder.evaluation.token_tree import Segment
from personamem_builder.evaluation.walk import Answers, Walk

_log = logging.getLogger("lm_eval.personamem")


@register_model("hf-prefix")
class PrefixLM(HFLM):
    """`hf`, with one key-value cache that all requests share.

    Takes the arguments of lm-eval's `hf` model (`batch_size` has no effect: what hangs below one prefix is packed into
    passes, whatever the number of requests) and works for any lm-eval task. Log-likelihoods are those of `hf` in the
    same precision, up to the order of floating-point operations, with the log-softmax always in float32.

    Args:
        pretrained: As for `hf`.
        prefill_chunk: Most tokens of one forward pass; less needs less memory.
        pack: Most tokens of several branches in one pass; 1 runs each by itself. By default what the free memory
            allows, up to 768 on a CPU and 2,048 elsewhere.
        **kwargs: As for `hf`.

    Raises:
        UserError: The model is an encoder-decoder or uses prompt tuning, or `pack` is no number of tokens.
    """

    takes_prompt_refs: Final = True

    def __init__(self, pretrained: Any, prefill_chunk: int = 2048, pack: int | None = None, **kwargs: Any) -> None:
        if pack is not None and not (str(pack).isdigit() and int(pack) > 0):
            raise UserError(f"pack={pack} is not a number of tokens", "pack=1 runs each branch by itself")
        super().__init__(pretrained, **kwargs)
        self.prefill_chunk = int(prefill_chunk)
        self.pack = None if pack is None else int(pack)
        if self.backend != "causal":
            raise UserError("hf-prefix scores decoder-only models, this is an encoder-decoder", "use --model hf")
        if any(getattr(c, "is_prompt_learning", False) for c in getattr(self.model, "peft_config", {}).values()):
            raise UserError("hf-prefix cannot use prompt tuning, which adds virtual tokens", "use --model hf")
        with torch.inference_mode(), self._autocast():
            self._packing = read_packing(self.model)
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
        return self._run(self._grouped(requests), self._job_of_instance, self._scores, disable_tqdm)

    def _loglikelihood_tokens(
        self, requests: list[Any], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[Any]:
        rolling = all(key is None for key, _, _ in requests)  # comes in many small calls
        return self._run([list(enumerate(requests))], self._job_of_tokens, self._scores, disable_tqdm or rolling)

    def _job_of_instance(self, index: int, request: Instance) -> TokenRequest:
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

    def _job_of_tokens(self, index: int, request: Any) -> TokenRequest:
        key, context, continuation = request
        path = TokenPath.of([np.asarray(context, np.int32)])
        return self._scored_job(index, path, np.asarray(continuation, np.int32), key)

    def _scored_job(self, index: int, context: TokenPath, targets: Tokens, key: Any) -> TokenRequest:
        if not len(targets):
            return TokenRequest(index, TokenPath.of([]), targets, key)
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
        return TokenRequest(index, path, targets, key)

    def _scores(self, jobs: Sequence[TokenRequest], done: Done) -> Answers:
        def take(index: int, result: LogLikelihood) -> None:
            if jobs[index].key is not None:  # None in lm-eval's rolling log-likelihoods
                self.cache_hook.add_partial("loglikelihood", jobs[index].key, result)
            done(index, result)

        for index, job in enumerate(jobs):
            if not len(job.targets):
                take(index, LogLikelihood([], True))
        return LogLikelihoods([job.first for job in jobs], [job.targets for job in jobs], take)

    # ---- generation

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generate, with what follows one prefix together."""
        make_answers = functools.partial(GeneratedAnswers, self)
        return self._run(self._grouped(requests), self._job_of_prompt, make_answers, disable_tqdm)

    def _budget(self, arguments: dict[str, Any]) -> int:
        return int(normalize_gen_kwargs(dict(arguments), self.max_gen_toks)["max_gen_toks"])

    def _job_of_prompt(self, index: int, request: Instance) -> TokenRequest:
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
        return TokenRequest(index, prompt, np.empty(0, np.int32), request.args, self._budget(arguments))

    def generated(self, job: TokenRequest, **options: Any) -> list[int]:
        """Return the tokens that transformers' `generate` adds to a prompt."""
        kwargs, until = self._generation_arguments(job)
        ids = torch.as_tensor(job.path.slice(0, job.path.length), dtype=torch.long, device=self.device)[None]
        budget = kwargs.pop("max_gen_toks")
        output = self._model_generate(
            context=ids,
            attention_mask=torch.ones_like(ids),
            stop=until,
            max_length=kwargs.pop("max_length", job.path.length + budget),
            **kwargs,
            **options,
        )
        return output[0, job.path.length :].tolist()  # type: ignore[no-any-return]

    def _generation_arguments(self, job: TokenRequest) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments for one prompt, and the texts that end its answer."""
        kwargs = normalize_gen_kwargs(dict(job.key[1]), self.max_gen_toks)
        eos = self.tok_decode(self.eot_token_id, skip_special_tokens=False)
        return kwargs, handle_stop_sequences(kwargs.pop("until", None), eos=eos)

    def finished_text(self, job: TokenRequest, tokens: list[int]) -> str:
        """Return the answer that some tokens are."""
        until = self._generation_arguments(job)[1]
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
        self,
        groups: Sequence[Sequence[tuple[int, Any]]],
        make_job: Callable[[int, Any], TokenRequest],
        make_answers: Callable[[Sequence[TokenRequest], Done], Answers],
        quiet: bool,
    ) -> list[Any]:
        """Answer all requests, group by group.

        Where there are several, each is planned twice, for the cost of the whole run and again when its turn comes,
        since holding the tokens of all groups would take the memory that groups are there to save.
        """
        limits = limits_of(self.model, self._packing, self.pack, self.prefill_chunk, self.max_length)
        cost = Cost()
        trees: list[tuple[list[TokenRequest], Segment, int]] = []  # kept if it is only one
        for jobs, root, count in trees_of(groups, make_job):
            cost.add(root, [job.path.length for job in jobs], count, limits, self.prefill_chunk)
            trees = [(jobs, root, count)] if cost.groups == count else []
        quiet = quiet or self.rank != 0
        if not quiet:
            self._tell(cost, groups, limits)
        results: dict[int, Any] = {}
        cache = LiveCache(self.model, cost.reserve)
        begin = time.monotonic()
        with (
            torch.inference_mode(),
            self._autocast(),
            tqdm(total=cost.forward, unit="tok", unit_scale=True, disable=quiet) as bar,
        ):
            walk = Walk(cache, limits, self.prefill_chunk, bar.update)
            for jobs, root, _ in trees or trees_of(groups, make_job):

                def done(index: int, result: Any, jobs: Sequence[TokenRequest] = jobs) -> None:
                    results[jobs[index].index] = result
                    if len(results) == 1 and not quiet and bar.n:
                        seconds = (time.monotonic() - begin) * cost.forward / bar.n
                        _log.info("hf-prefix: about %.0f s in all at the speed of the first request", seconds)

                walk.run(root, make_answers(jobs, done))
        return [results[index] for index in range(len(results))]

    def _tell(self, cost: Cost, groups: Sequence[Sequence[tuple[int, Any]]], limits: Limits) -> None:
        _log.info("hf-prefix: %s%s", _questions(groups), cost)
        if self._packing.obstacle:
            _log.info("hf-prefix: runs branches one by one: %s", self._packing.obstacle)
        else:
            _log.info("hf-prefix: packs branches, up to %d tokens in a pass", limits.pack)

    def _autocast(self) -> Any:
        if self.mixed_precision_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(device_type=self.device.type, dtype=self.mixed_precision_dtype)


def _questions(groups: Sequence[Sequence[tuple[int, Any]]]) -> str:
    """Say how many questions about how many contexts there are, where prompts are references."""
    prompts = [request.args[0] for group in groups for _, request in group if isinstance(request, Instance)]
    refs = {prompt for prompt in prompts if isinstance(prompt, chat.PromptRef)}
    return f"{len(refs):,} questions, {len({ref.group for ref in refs}):,} contexts; " if refs else ""
