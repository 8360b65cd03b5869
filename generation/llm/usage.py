"""What language models took for a run, or for several shards of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from generation.llm.ledger import Ledger


class Usage(NamedTuple):
    """What a run took of language models, all its sessions together; costs in US dollars, None where not known."""

    calls: int
    prompt_tokens: int
    reply_tokens: int
    cost: float | None
    cost_by_persona: dict[int | str, float | None]
    cost_by_topic: dict[int | str, float | None]
    readings: int
    disagreements: int

    @classmethod
    def of(cls, ledger: Ledger) -> Usage:
        """Return what the calls of a ledger took."""
        lines = ledger.summary()
        readings = ledger.readings().values()
        return cls(
            calls=sum(line.calls for line in lines),
            prompt_tokens=sum(line.prompt_tokens for line in lines),
            reply_tokens=sum(line.reply_tokens for line in lines),
            cost=_sum(line.cost for line in lines),
            cost_by_persona={key: share.cost for key, share in ledger.shares("persona_id").items()},
            cost_by_topic={key: share.cost for key, share in ledger.shares("topic").items()},
            readings=sum(one.texts for one in readings),
            disagreements=sum(one.disagreed for one in readings),
        )

    @classmethod
    def together(cls, usages: Sequence[Usage]) -> Usage:
        """Return what several shards took together."""
        return cls(
            calls=sum(one.calls for one in usages),
            prompt_tokens=sum(one.prompt_tokens for one in usages),
            reply_tokens=sum(one.reply_tokens for one in usages),
            cost=_sum(one.cost for one in usages),
            cost_by_persona=_sums(one.cost_by_persona for one in usages),
            cost_by_topic=_sums(one.cost_by_topic for one in usages),
            readings=sum(one.readings for one in usages),
            disagreements=sum(one.disagreements for one in usages),
        )


def _sum(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else sum(cost or 0.0 for cost in known)


def _sums(shares: Iterable[Mapping[int | str, float | None]]) -> dict[int | str, float | None]:
    """Return costs by user or topic, added up."""
    costs: dict[int | str, list[float | None]] = {}
    for share in shares:
        for key, cost in share.items():
            costs.setdefault(key, []).append(cost)
    return {key: _sum(own) for key, own in costs.items()}
