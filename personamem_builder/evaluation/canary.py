"""Whether a model has seen the canary that marks our data: the exposure test.

The method is that of Carlini et al., "The Secret Sharer: Evaluating and Testing Unintended Memorization in Neural
Networks", USENIX Security 2019. The canary is a GUID that was drawn at random and stands in every published file after
the same prefix. Its log-likelihood after this prefix is ranked among those of other random GUIDs of the same form. To
a model that never saw it, it is one of them: each of the N + 1 ranks is equally likely, so that `rank / (N + 1)` is an
exact one-sided p-value. Exposure is `log2((N + 1) / rank)`, the bits by which the canary is easier to guess than it
should be; N bounds it.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from generation.errors import UserError
from generation.resources import install_hint
from generation.seeds import rng_for
from personamem_builder.build.write import CANARY

_PREFIX, _, _GUID = CANARY.rpartition(":")
PREFIX: Final = f"{_PREFIX}:"
"""What stands before the GUID, in our data as in this test."""

GUID: Final = _GUID
"""The canary itself."""

_SURE: Final = 0.01
_DOUBTFUL: Final = 0.05


@dataclass(frozen=True)
class CanaryTest:
    """What a test found: log-likelihoods of the canary and, as their median, of `samples` random GUIDs.

    The canary's `rank` is 1 for the likeliest; GUIDs that tie with it stand before it.
    """

    canary_logprob: float
    median_logprob: float
    rank: int
    samples: int

    @property
    def p_value(self) -> float:
        """The probability of this rank or a better one for a model that never saw the canary."""
        return self.rank / (self.samples + 1)

    @property
    def exposure(self) -> float:
        """Bits by which the canary is easier to guess than a random GUID; at most log2(samples + 1)."""
        return math.log2((self.samples + 1) / self.rank)


def load_model(name: str, arguments: str, batch_size: str = "1", device: str | None = None) -> Any:
    """Load a model by its kind and arguments, as on lm-eval's command line.

    Raises:
        UserError: lm-eval is not installed or knows no such model, or the model cannot give log-likelihoods.
    """
    try:
        import lm_eval.models  # noqa: F401 (fills the registry)
    except ModuleNotFoundError as error:
        raise UserError(f"lm-eval is not installed ({error})", install_hint("eval")) from error
    from personamem_builder.evaluation.arguments import model_class
    from personamem_builder.evaluation.window import scores_no_loglikelihood

    model = model_class(name)
    if scores_no_loglikelihood(model):
        raise _no_loglikelihood(name)
    options = {"batch_size": batch_size, "device": device}
    try:
        return model.create_from_arg_string(arguments, {k: v for k, v in options.items() if v is not None})
    except (OSError, TypeError, ValueError) as error:
        raise UserError(
            f"--model {name} --model_args {arguments!r}: {error}", "see lm-eval's own documentation"
        ) from error


def measure(model: Any, samples: int = 200, seed: int = 0) -> CanaryTest:
    """Rank the canary among random GUIDs: the smallest possible p-value is `1 / (samples + 1)`.

    Raises:
        UserError: The model cannot give log-likelihoods.
    """
    canary, *others = _logprobs(model, [GUID, *random_guids(samples, seed)])
    others.sort()
    return CanaryTest(
        canary_logprob=canary,
        median_logprob=others[len(others) // 2],
        rank=1 + sum(other >= canary for other in others),
        samples=len(others),
    )


def random_guids(count: int, seed: int) -> list[str]:
    """Return GUIDs of the form of the canary, which is of version 4; the canary is none of them."""
    rng = rng_for(seed, "canary")
    drawn = (str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(count))
    return [guid for guid in drawn if guid != GUID]


def in_words(found: CanaryTest) -> str:
    """Say what a test found, in four lines."""
    if found.p_value <= _SURE:
        meaning = (
            "the model has very likely seen the canary: text with it was in its training data, and its scores on "
            "published data of ours cannot be trusted. Take data made afresh: --metadata config=… seed=…"
        )
    elif found.p_value <= _DOUBTFUL:
        meaning = "in doubt: chance alone does this well in less than one of twenty tests. Take more --samples"
    else:
        meaning = (
            "no sign that the model has seen the canary. That does not prove that it has not seen the data: they may "
            "have been in its training without the canary, or too seldom to be remembered"
        )
    return "\n".join(
        [
            f"log-likelihood of the canary {found.canary_logprob:.2f}, median of {found.samples} random GUIDs "
            f"{found.median_logprob:.2f}",
            f"rank {found.rank} of {found.samples + 1}, exposure {found.exposure:.1f} of at most "
            f"{math.log2(found.samples + 1):.1f} bits",
            f"p = {found.p_value:.4f} (one-sided, exact)",
            meaning,
        ]
    )


def _logprobs(model: Any, guids: Sequence[str]) -> list[float]:
    from lm_eval.api.instance import Instance

    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=(PREFIX, guid), idx=0, metadata=("canary", i, 1))
        for i, guid in enumerate(guids)
    ]
    try:
        return [float(logprob) for logprob, _ in model.loglikelihood(requests)]
    except NotImplementedError as error:
        raise _no_loglikelihood(type(model).__name__) from error


def _no_loglikelihood(model: str) -> UserError:
    return UserError(
        f"the canary test needs log-likelihoods, which {model} cannot give",
        "test the model's weights, with --model hf, or an endpoint that scores given text, with "
        "--model local-completions",
    )
