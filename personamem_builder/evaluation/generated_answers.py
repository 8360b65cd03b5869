"""Answers to the prompts that end in one pass, generated together or one by one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

from personamem_builder.evaluation.joint_decoding import decode, prepare
from personamem_builder.evaluation.live_cache import LiveCache
from personamem_builder.evaluation.passes import Pack
from personamem_builder.evaluation.token_requests import Done, TokenRequest


class Generator(Protocol):
    """What of lm-eval's model is used."""

    model: Any
    cache_hook: Any

    def generated(self, job: TokenRequest, **options: Any) -> list[int]:
        """Return the tokens that transformers' `generate` adds to a prompt."""

    def finished_text(self, job: TokenRequest, tokens: list[int]) -> str:
        """Return the answer that some tokens are."""


class GeneratedAnswers:
    """The answers to some prompts, each handed on as it is there."""

    def __init__(self, lm: Generator, jobs: Sequence[TokenRequest], done: Done) -> None:
        self._lm = lm
        self._jobs = jobs
        self._done = done

    def take(self, *_: Any) -> None:
        """Never called: generation asks for no outputs but in packs."""
        raise NotImplementedError

    def generate(self, cache: LiveCache, pack: Pack) -> bool:
        """Generate after the prompts of a pack; return whether that can be done for all of them together."""
        ends = [
            segment.asks[0].request for branch in pack.branches for segment in branch.walk() if not segment.children
        ]
        if pack.size == 1:
            self._alone(cache, ends[0])
            return True
        speakers = {}
        for index in ends:
            speaker = prepare(self._lm.model, functools.partial(self._lm.generated, self._jobs[index]))
            if speaker is None:
                return False
            speakers[index] = speaker
        decode(cache, pack, speakers)
        for index, speaker in speakers.items():
            self._finish(index, speaker.ids[0, self._jobs[index].path.length :].tolist())
        return True

    def _alone(self, cache: LiveCache, index: int) -> None:
        job = self._jobs[index]
        cache.snapshot()
        # Beams would each need a cache of their own.
        beams = job.key[1].get("num_beams", 1) > 1
        tokens = self._lm.generated(job, **({} if beams else {cache.argument: cache.cache}))
        cache.moved(job.path.length + len(tokens))
        self._finish(index, tokens)

    def _finish(self, index: int, tokens: list[int]) -> None:
        job = self._jobs[index]
        text = self._lm.finished_text(job, tokens)
        self._lm.cache_hook.add_partial("generate_until", job.key, text)
        self._done(index, text)
