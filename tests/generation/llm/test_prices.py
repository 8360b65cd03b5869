"""What a model costs is what the configuration says, else what the published prices of its address say."""

from __future__ import annotations

import sys

import pytest

from generation.config import Price
from generation.llm.prices import CONFIGURED, described_price, known_prices

OWN = Price(input=1.5, output=2.5)


@pytest.fixture(autouse=True)
def openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_the_configuration_counts_before_what_is_published() -> None:
    known = known_prices(["gpt-4o-mini", "gpt-4o-mini", "own"], {"gpt-4o-mini": OWN, "own": OWN, "other": OWN})
    assert known == {"gpt-4o-mini": (OWN, CONFIGURED), "own": (OWN, CONFIGURED)}


def test_a_published_price_is_for_a_million_tokens_and_names_its_source() -> None:
    pytest.importorskip("genai_prices")
    known = known_prices(["gpt-4o-mini", "no-such-model"], {})
    price, source = known["gpt-4o-mini"]
    assert list(known) == ["gpt-4o-mini"]
    assert 0.01 < price.input < price.output < 10
    assert source.startswith("genai-prices ")
    assert "OpenAI" in source
    assert described_price("gpt-4o-mini", known["gpt-4o-mini"]).endswith(f"from {source}")


def test_a_server_of_ones_own_has_no_published_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert known_prices(["gpt-4o-mini"], {}) == {}


def test_without_the_package_only_the_configuration_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert known_prices(["gpt-4o-mini", "own"], {"own": OWN}) == {"own": (OWN, CONFIGURED)}
