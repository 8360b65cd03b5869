"""Many rows in little memory: packed, and unpacked a few at a time when they are looked at."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, overload

from personamem_builder.schema import QuestionRow

PLAIN: Final = 20_000
"""So many rows are kept as they are."""

_TOGETHER: Final = 256
_UNPACKED: Final = 8
"""Chunks: rows of a context stand together, and a pass goes from one to the next."""


def pack(rows: Iterable[QuestionRow], plain: int = PLAIN) -> Sequence[QuestionRow]:
    """Return rows as a list, or packed if there are more than are kept plain; do not change packed ones."""
    packed = PackedRows(rows)
    return packed if len(packed) > plain else list(packed)


class PackedRows(Sequence[QuestionRow]):
    """Rows, some hundred of them to a chunk of compressed bytes: a tenth of their size."""

    def __init__(self, rows: Iterable[QuestionRow] = ()) -> None:
        self._chunks: list[bytes] = []
        self._rest: list[QuestionRow] = []
        self._unpacked = lru_cache(maxsize=_UNPACKED)(self._unpack)
        self.extend(rows)

    def extend(self, rows: Iterable[QuestionRow]) -> None:
        """Add rows at the end."""
        for row in rows:
            self._rest.append(row)
            if len(self._rest) == _TOGETHER:
                self._chunks.append(zlib.compress(pickle.dumps(self._rest, pickle.HIGHEST_PROTOCOL), 1))
                self._rest = []

    def __len__(self) -> int:
        return len(self._chunks) * _TOGETHER + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> QuestionRow: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[QuestionRow]: ...

    def __getitem__(self, index: int | slice) -> QuestionRow | Sequence[QuestionRow]:
        if isinstance(index, slice):
            return pack(self[i] for i in range(*index.indices(len(self))))
        place = range(len(self))[index]
        chunk, within = divmod(place, _TOGETHER)
        return self._unpacked(chunk)[within] if chunk < len(self._chunks) else self._rest[within]

    def __iter__(self) -> Iterator[QuestionRow]:
        for chunk in range(len(self._chunks)):
            yield from self._unpacked(chunk)
        yield from self._rest

    def _unpack(self, chunk: int) -> Any:
        return pickle.loads(zlib.decompress(self._chunks[chunk]))
