"""Which optional fields of a chat request an endpoint takes; the rest goes, if the answer stays the same without it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import BaseModel

from generation.llm.chat_request import is_too_long
from generation.llm.replies import RequestFailure

_STOPS: Final = ("stop", "stop_sequences")
_FORMAT: Final = re.compile(
    r"response.?format|json.?(?:schema|object|mode)|structured.?output|additionalproperties|grammar|guided",
    re.IGNORECASE,
)

# Strict mode refuses or ignores these; the reply is validated in any case.
_LOOSE: Final = frozenset({"default", "title", "minLength", "maxLength", "uniqueItems"})


@dataclass(frozen=True)
class RequestFields:
    """How requests are changed before they are sent.

    Attributes:
        left_out: Fields that are not sent.
        renamed: The limit's two names, from that which was given to that which is sent; empty where it is the same.
            Endpoints that want the newer name refuse the older one aloud, while some that know only the older one
            ignore the newer one, and then nothing is limited.
        formats: Ways to ask for JSON that are left to try, the one in use first; empty where the format stays as given.
    """

    left_out: frozenset[str] = frozenset()
    renamed: tuple[str, str] | tuple[()] = ()
    formats: tuple[Literal["json_schema", "json_object", "none"], ...] = ()

    def __str__(self) -> str:
        changes = [f"without {name}" for name in sorted(self.left_out)]
        if self.renamed:
            changes.append(f"{self.renamed[1]} for {self.renamed[0]}")
        return ", ".join(changes)

    def of(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request as it is sent."""
        names = dict([self.renamed]) if self.renamed else {}
        sent = {names.get(name, name): value for name, value in payload.items() if name not in self.left_out}
        if self.formats[:1] == ("json_object",):
            sent["response_format"] = {"type": "json_object"}
        elif self.formats[:1] == ("none",):
            del sent["response_format"]
        return sent

    def stops(self, payload: Mapping[str, Any]) -> list[str]:
        """Return where an answer ends that the endpoint was not told: it is then cut here."""
        return [stop for name in _STOPS if name in self.left_out for stop in payload.get(name) or ()]

    def without(self, payload: Mapping[str, Any], failure: RequestFailure) -> RequestFields:
        """Return what to try after a failure; the same where nothing can go without changing the request's meaning."""
        if failure.status not in (400, 422) or is_too_long(failure):
            return self
        complaint = str(failure.body)
        harmless = {"seed", *_STOPS}
        if payload.get("temperature") == 1:  # which is what endpoints take by default
            harmless.add("temperature")
        named = {name for name in harmless if payload.get(name) is not None and _names(complaint, name)}
        fields = replace(self, left_out=self.left_out | named)
        if len(self.formats) > 1 and _FORMAT.search(complaint):
            fields = replace(fields, formats=self.formats[1:])
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


def json_reply(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the `response_format` that asks for a reply of a schema, and nothing else."""
    named = {"name": schema.__name__, "schema": strict_schema(schema), "strict": True}
    return {"type": "json_schema", "json_schema": named}


@functools.cache
def strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply as strict structured output wants it: every key required, no other allowed."""
    return _strict(schema.model_json_schema())


def _strict(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return {"$ref": node["$ref"]}  # nothing may stand beside it
    strict = {key: value for key, value in node.items() if key not in _LOOSE}
    for key in ("$defs", "properties"):
        if key in strict:
            strict[key] = {name: _strict(inner) for name, inner in strict[key].items()}
    if "items" in strict:
        strict["items"] = _strict(strict["items"])
    if "anyOf" in strict:
        strict["anyOf"] = [_strict(inner) for inner in strict["anyOf"]]
    if "properties" in strict:
        strict |= {"required": list(strict["properties"]), "additionalProperties": False}
    return strict
