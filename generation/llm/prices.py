"""What models cost: what the configuration says, else what a package of published prices knows."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

from generation.config import Price

CONFIGURED: Final = "llm.prices"

_TOKENS: Final = 1000


class KnownPrice(NamedTuple):
    """The price of a model, and where it is from: the configuration, or a package and the day for which it says so."""

    price: Price
    source: str


def known_prices(models: Iterable[str], configured: Mapping[str, Price]) -> dict[str, KnownPrice]:
    """Return the prices of models behind `OPENAI_BASE_URL`, as far as they are known; nothing is fetched.

    What the configuration says counts. Published prices are those of the company at this address: the same model on a
    server of one's own has none.
    """
    from generation.llm.endpoint import DEFAULT_URL

    url = os.environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_URL
    known = {}
    for model in dict.fromkeys(models):
        if model in configured:
            known[model] = KnownPrice(configured[model], CONFIGURED)
        elif (published := published_price(model, url, _TOKENS)) is not None:
            known[model] = published
    return known


def published_price(model: str, url: str, prompt_tokens: int) -> KnownPrice | None:
    """Return the price that genai-prices has for a model, if that is installed (`personamem[prices]`).

    Args:
        model: Its name.
        url: Where it is asked.
        prompt_tokens: Of a call: some models cost more where prompts are long.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    call = Usage(input_tokens=prompt_tokens, output_tokens=_TOKENS)
    try:
        found = calc_price(call, model, provider_api_url=url)
    except LookupError:
        return None
    cached = None
    if found.model_price.cache_read_mtok is not None:
        call = Usage(input_tokens=prompt_tokens, cache_read_tokens=prompt_tokens)
        again = calc_price(call, model, provider_api_url=url)
        cached = round(float(again.input_price) / prompt_tokens * 1_000_000, 6)
    price = Price(
        input=round(float(found.input_price) / prompt_tokens * 1_000_000, 6),
        output=round(float(found.output_price) / _TOKENS * 1_000_000, 6),
        cached_input=cached,
    )
    today = dt.datetime.now(dt.UTC).date()
    return KnownPrice(price, f"genai-prices {version('genai-prices')} ({found.provider.name}, {today})")


def described_price(model: str, known: KnownPrice) -> str:
    """Return a price and its source in a line."""
    price, source = known
    cached = "" if price.cached_input is None else f" (${price.cached_input:g} if cached)"
    return (
        f"{model}: ${price.input:g} a million prompt tokens{cached}, ${price.output:g} a million reply tokens, from "
        f"{source}"
    )


def price_of(model: str, prompt_tokens: int, reply_tokens: int, prices: Mapping[str, Price]) -> float | None:
    """Return what calls cost in US dollars, or None if the price of the model is unknown."""
    if model not in prices:
        return None
    price = prices[model]
    return (prompt_tokens * price.input + reply_tokens * price.output) / 1_000_000


def dollars(amount: float) -> str:
    """Return an amount as it is shown: with cents, or with two digits where it is less than a dollar."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.2g}"
