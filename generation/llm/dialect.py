"""Which of the optional fields of a chat request an endpoint takes."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import BaseModel

_FORMAT: Final = re.compile(
    r"response.?format|json.?(?:schema|object|mode)|structured.?output|additionalproperties|grammar|guided",
    re.IGNORECASE,
)
_SIMPLER: Final[dict[str, Literal["json_object", "none"]]] = {"json_schema": "json_object", "json_object": "none"}

# Strict mode refuses or ignores these; the reply is validated in any case.
_LOOSE: Final = frozenset({"default", "title", "minLength", "maxLength", "uniqueItems"})


@dataclass(frozen=True)
class Dialect:
    """The fields that are sent, from what most endpoints take to what all do.

    Attributes:
        form: How the endpoint is told that the reply is JSON.
        limit: Name of the field that limits the reply. Endpoints that want the newer name refuse the older one
            aloud, while some that know only the older one ignore the newer one, and then nothing is limited.
        seed: Whether a seed is sent.
    """

    form: Literal["json_schema", "json_object", "none"] = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed: bool = True

    def fields(self, schema: type[BaseModel], max_tokens: int, seed: int) -> dict[str, Any]:
        """Return the fields for one request."""
        fields: dict[str, Any] = {self.limit: max_tokens}
        if self.seed:
            fields["seed"] = seed
        if self.form == "json_schema":
            named = {"name": schema.__name__, "schema": strict_schema(schema), "strict": True}
            fields["response_format"] = {"type": self.form, "json_schema": named}
        elif self.form == "json_object":
            fields["response_format"] = {"type": self.form}
        return fields

    def without(self, complaint: str) -> Dialect:
        """Return what to try after a request was refused; the same where there is nothing to leave out.

        Args:
            complaint: What the endpoint said.
        """
        simpler = self
        if self.form in _SIMPLER and _FORMAT.search(complaint):
            simpler = replace(simpler, form=_SIMPLER[self.form])
        if self.seed and re.search(r"\bseed\b", complaint):
            simpler = replace(simpler, seed=False)
        if self.limit == "max_tokens" and re.search(r"\bmax_tokens\b", complaint):
            simpler = replace(simpler, limit="max_completion_tokens")
        return simpler


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
