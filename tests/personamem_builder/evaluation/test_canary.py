from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from generation.errors import UserError
from personamem_builder.build.write import CANARY
from personamem_builder.cli import cli
from personamem_builder.evaluation.canary import GUID, PREFIX, in_words, load_model, measure, random_guids


class Fake(LM):
    """Gives each text a value of the test's choosing."""

    def __init__(self, value: Callable[[str], float] = lambda text: -90.0) -> None:
        super().__init__()
        self.value = value
        self.asked: list[tuple[str, str]] = []

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        self.asked += [request.args for request in requests]
        return [(self.value(request.args[1]), False) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        raise NotImplementedError


@register_model("test-parrot")
class Parrot(Fake):
    """Has learnt the canary by heart."""

    def __init__(self, **_: Any) -> None:
        super().__init__(lambda text: -1.0 if text == GUID else noise(0)(text))


@register_model("test-chat")
class Chat(Fake):
    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        raise NotImplementedError


def noise(seed: int) -> Callable[[str], float]:
    """What a model makes of GUIDs that it never saw."""
    return lambda text: random.Random(f"{seed} {text}").gauss(-90, 5)


def test_each_guid_is_asked_for_after_the_prefix_that_our_data_have() -> None:
    model = Fake()
    measure(model, samples=50)
    prefixes, guids = zip(*model.asked, strict=True)
    assert set(prefixes) == {PREFIX}
    assert PREFIX + guids[0] == CANARY
    assert len(set(guids)) == 51
    for guid in guids:
        assert str(uuid.UUID(guid)) == guid
        assert uuid.UUID(guid).version == uuid.UUID(GUID).version
        assert uuid.UUID(guid).variant == uuid.UUID(GUID).variant
    assert list(guids[1:]) == random_guids(50, 0) != random_guids(50, 1)


def test_a_model_that_has_seen_the_canary() -> None:
    found = measure(Parrot())
    assert (found.rank, found.samples, found.p_value) == (1, 200, 1 / 201)
    assert found.exposure == pytest.approx(7.65, abs=0.01)
    assert found.canary_logprob == -1
    assert found.median_logprob == pytest.approx(-90, abs=2)
    assert "has very likely seen the canary" in in_words(found)


def test_a_model_that_has_not() -> None:
    found = measure(Fake(lambda text: -200.0 if text == GUID else noise(0)(text)))
    assert (found.rank, found.p_value, found.exposure) == (201, 1, 0)
    assert "no sign" in in_words(found)
    assert "does not prove" in in_words(found)


def test_a_model_that_knows_nothing_gives_no_evidence() -> None:
    assert measure(Fake()).p_value == 1


def test_the_p_value_is_uniform_for_models_that_never_saw_it() -> None:
    ranks = Counter(measure(Fake(noise(seed)), samples=19).rank for seed in range(2000))
    assert set(ranks) == set(range(1, 21))
    # Chi-square with 19 degrees of freedom: above 43.8 in one of a thousand.
    assert sum((ranks[rank] - 100) ** 2 / 100 for rank in ranks) < 43.8


def test_models_without_log_likelihoods_are_refused() -> None:
    for error in (lambda: load_model("test-chat", ""), lambda: measure(Chat())):
        with pytest.raises(UserError, match="needs log-likelihoods") as raised:
            error()
        assert "--model hf" in raised.value.hint
    with pytest.raises(UserError, match="nosuch"):
        load_model("nosuch", "")


def test_the_command() -> None:
    said = CliRunner().invoke(cli, ["canary", "--model", "test-parrot", "--samples", "99"]).stdout
    assert "rank 1 of 100" in said
    assert "p = 0.0100" in said
    printed = CliRunner().invoke(cli, ["canary", "--model", "test-parrot", "--json"]).stdout
    assert json.loads(printed)["p_value"] == 1 / 201
