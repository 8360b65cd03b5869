"""What is left out of a chat request because its endpoint does not know it: only what does not change the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

_STOPS: Final = ("stop", "stop_sequences")


@dataclass(frozen=True)
class Fields:
    """How requests are changed before they are sent.

    Attributes:
        left_out: Fields that are not sent.
        renamed: The limit's two names, from that which was given to that which is sent; empty where it is the same.
    """

    left_out: frozenset[str] = frozenset()
    renamed: tuple[str, str] | tuple[()] = ()

    def __str__(self) -> str:
        """Say what is changed."""
        changes = [f"without {name}" for name in sorted(self.left_out)]
        if self.renamed:
            changes.append(f"{self.renamed[1]} for {self.renamed[0]}")
        return ", ".join(changes)

    def of(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request as it is sent."""
        names = dict([self.renamed]) if self.renamed else {}
        return {names.get(name, name): value for name, value in payload.items() if name not in self.left_out}

    def stops(self, payload: Mapping[str, Any]) -> list[str]:
        """Return where an answer ends that the endpoint was not told: it is then cut here."""
        return [stop for name in _STOPS if name in self.left_out for stop in payload.get(name) or ()]

    def without(self, payload: Mapping[str, Any], complaint: str) -> Fields:
        """Return what to try after a request was refused; the same where nothing can go without changing its meaning.

        Args:
            payload: The request before any change.
            complaint: What the endpoint said.
        """
        harmless = {"seed", *_STOPS}
        if payload.get("temperature") == 1:  # which is what endpoints take by default
            harmless.add("temperature")
        named = {name for name in harmless if payload.get(name) is not None and _names(complaint, name)}
        fields = replace(self, left_out=self.left_out | named)
        if not self.renamed:
            for old, new in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
                if old in payload and new not in payload and _names(complaint, old):
                    return replace(fields, renamed=(old, new))
        return fields


def refused_temperature(payload: Mapping[str, Any], complaint: str) -> bool:
    """Say whether an endpoint complains of the temperature, which cannot go without changing the answer."""
    return payload.get("temperature") is not None and _names(complaint, "temperature")


def _names(complaint: str, field: str) -> bool:
    return re.search(rf"\b{field}\b", complaint) is not None
