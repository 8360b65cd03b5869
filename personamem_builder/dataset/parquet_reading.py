"""Reading Parquet that may be damaged, or of another writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from generation.errors import UserError

AGAIN: Final = "build, import or download the dataset again"
"""What to do about damaged data."""

_UNREADABLE: Final = (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError)
"""What `pyarrow` raises on bytes that are no Parquet, or no UTF-8."""


@contextmanager
def reading_parquet(name: object) -> Iterator[None]:
    """Name the file that cannot be read in the block.

    Raises:
        UserError: It cannot.
    """
    try:
        yield
    except _UNREADABLE as error:
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip().splitlines()[0]
        raise UserError(f"{name} cannot be read: {reason}", AGAIN) from error


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Say whether a type of Parquet holds the values of a schema's; how many bits it takes is left to the writer."""
    types = pa.types
    if types.is_list(wanted):
        is_list = types.is_list(found) or types.is_large_list(found)
        return is_list and not types.is_dictionary(found.value_type) and fits(found.value_type, wanted.value_type)
    if types.is_struct(wanted):
        inner = {field.name: field.type for field in found} if types.is_struct(found) else {}
        return all(field.name in inner and fits(inner[field.name], field.type) for field in wanted)
    if types.is_string(wanted):
        if types.is_dictionary(found):
            found = found.value_type
        return bool(types.is_string(found) or types.is_large_string(found))
    kinds: tuple[Callable[[pa.DataType], bool], ...] = (types.is_integer, types.is_floating, types.is_boolean)
    return any(is_kind(found) and is_kind(wanted) for is_kind in kinds)
