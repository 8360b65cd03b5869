"""The memory system `bm25`: the messages, or sessions, that share the rarest words with the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from personamem_builder.memory.retrieval import UNITS, Unit, best_units, check_unit, units_of
from personamem_builder.memory.system import Memory, Session

if TYPE_CHECKING:
    import bm25s
    import numpy.typing as npt


class Bm25:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over what has been said so far, without English stop words.

    Args:
        unit: What is indexed and returned: `message` or `session`.

    Raises:
        UserError: There is no such unit.
    """

    version = 1

    def __init__(self, unit: Unit = "message") -> None:
        import bm25s  # noqa: F401 (where it is not installed, this is known before a run)

        self._unit = check_unit(unit, UNITS)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._units: list[Memory] = []
        self._words: list[list[str]] = []
        self._index: bm25s.BM25 | None = None

    def add_session(self, session: Session) -> None:
        """Take in the next conversation."""
        units = units_of(session, self._unit)
        self._units += units
        self._words += [words_of(unit.text) for unit in units]
        self._index = None

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Return the `k` units with the highest score; of equal ones the later, since users change."""
        return best_units(self._units, self.scores(query), k)

    def scores(self, query: str) -> npt.NDArray[Any]:
        """Return the score of each unit, in the order in which they were said; 0 where no word is shared."""
        import numpy as np

        words = words_of(query)
        if self._index is None and any(self._words):
            self._index = index_of(self._words)
        return self._index.get_scores(words) if self._index and words else np.zeros(len(self._units))


def words_of(text: str) -> list[str]:
    """Return what BM25 takes for the words of a text: in lower case, without English stop words."""
    import bm25s

    words: list[str] = bm25s.tokenize([text], stopwords="en", return_ids=False, show_progress=False)[0]
    return words


def index_of(words: list[list[str]]) -> bm25s.BM25:
    """Return an index of texts by their words, of which there is at least one."""
    import bm25s

    index = bm25s.BM25()
    index.index(words, show_progress=False)
    return index
