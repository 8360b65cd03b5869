"""The columns of a table as the Hub's cards describe them: `datasets` enforces these descriptions."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from personamem_builder.manifest import Feature

_NAMES: Final = {"float": "float32", "double": "float64"}  # the others are called alike


def features_of(schema: pa.Schema) -> list[Feature]:
    """Return a description of each column: `{name, dtype}`, or `{name, list}` for one that holds lists.

    It is what `Features.from_arrow_schema(schema)` of `datasets` 4 and later writes into cards; importing `datasets`
    would take a second.
    """
    return [{"name": field.name, **_described(field.type)} for field in schema]


def type_name(feature: Feature) -> str:
    """Return the type of a column in words, such as `list<string>`."""
    if "list" in feature:
        return f"list<{_inner_name(feature['list'])}>"
    return _inner_name(feature["dtype"])


def _described(kind: pa.DataType) -> Feature:
    if pa.types.is_list(kind):
        inner = _described(kind.value_type)
        # A list of simple values, or of structs, holds them without a `dtype` around.
        return {"list": inner.get("dtype", inner)}
    if pa.types.is_struct(kind):
        return {"dtype": features_of(pa.schema(list(kind)))}
    return {"dtype": _NAMES.get(str(kind), str(kind))}


def _inner_name(inner: Any) -> str:
    if isinstance(inner, str):
        return inner
    if isinstance(inner, dict):
        return type_name(inner)
    return "{" + ", ".join(f"{member['name']}: {type_name(member)}" for member in inner) + "}"
