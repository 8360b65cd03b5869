"""The memory system `hybrid`: the rankings of `bm25` and `dense`, fused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from personamem_builder.memory.bm25 import Bm25
from personamem_builder.memory.dense import Dense
from personamem_builder.memory.retrieval import UNITS, Unit, best_units, check_unit, units_of
from personamem_builder.memory.system import Memory, Session

if TYPE_CHECKING:
    import numpy.typing as npt

    from personamem_builder.memory.dense import Encoder

_RANK_CONSTANT: Final = 60
"""As Cormack, Clarke and Buettcher have it (Reciprocal Rank Fusion, SIGIR 2009)."""


class Hybrid:
    """`bm25` and `dense`, fused: a unit scores `1 / (60 + rank)` in each ranking, and the sum counts.

    A unit that shares no word with the question has no rank in `bm25`.

    Args:
        model: As in `Dense`.
        unit: What is indexed and returned: `message` or `session`.
        encoder: As in `Dense`.
        cache: As in `Dense`.

    Raises:
        UserError: There is no such unit, or the model cannot be loaded.
    """

    version = 1

    def __init__(
        self,
        model: str = "BAAI/bge-m3",
        unit: Unit = "message",
        encoder: Encoder | None = None,
        cache: str | Path | None = None,
    ) -> None:
        self._unit = check_unit(unit, UNITS)
        self._words = Bm25(unit)
        self._meaning = Dense(model, unit, encoder, cache)
        self._units: list[Memory] = []

    def reset(self) -> None:
        """Forget everything."""
        self._words.reset()
        self._meaning.reset()
        self._units = []

    def add_session(self, session: Session) -> None:
        """Take in the next conversation."""
        self._words.add_session(session)
        self._meaning.add_session(session)
        self._units += units_of(session, self._unit)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Return the `k` units with the highest sum; of equal ones the later, since users change."""
        words, meaning = self._words.scores(query), self._meaning.scores(query)
        fused = _reciprocal_ranks(words) * (words > 0) + _reciprocal_ranks(meaning)
        return best_units(self._units, fused, k)


def _reciprocal_ranks(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `1 / (60 + rank)` of each score, ranks from 1; of equal scores the later one ranks first."""
    import numpy as np

    ranks = np.empty(len(scores))
    ranks[np.lexsort((-np.arange(len(scores)), -scores))] = np.arange(1, len(scores) + 1)
    return 1 / (_RANK_CONSTANT + ranks)
