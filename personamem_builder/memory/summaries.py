"""The memory system `summaries`: sessions, found by a summary of one line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from personamem_builder.memory.bm25 import index_of, words_of
from personamem_builder.memory.retrieval import best_units, units_of
from personamem_builder.memory.sessions import without_speaker
from personamem_builder.memory.system import Memory, Session

if TYPE_CHECKING:
    import bm25s

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")


class Summaries:
    """BM25 over a line of each session; what is returned is the session.

    The line is the sentence of the user that has most in common with all others: the one with the greatest sum of BM25
    scores when each other sentence is the query (LexRank's degree centrality, Erkan and Radev 2004, with the
    similarity of Barrios et al. 2016).
    """

    version = 1

    def __init__(self) -> None:
        import bm25s  # noqa: F401 (where it is not installed, this is known before a run)

        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._sessions: list[Memory] = []
        self._lines: list[list[str]] = []
        self._index: bm25s.BM25 | None = None

    def add_session(self, session: Session) -> None:
        """Take in the next conversation."""
        for unit in units_of(session, "session"):
            self._sessions.append(unit)
            self._lines.append(words_of(summary_line(session)))
            self._index = None

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Return the `k` sessions whose lines score best; of equal ones the later, since users change."""
        import numpy as np

        words = words_of(query)
        if self._index is None and any(self._lines):
            self._index = index_of(self._lines)
        scores = self._index.get_scores(words) if self._index and words else np.zeros(len(self._lines))
        return best_units(self._sessions, scores, k)


def summary_line(session: Session) -> str:
    """Return the sentence of the user that has most in common with the others; empty where the user says nothing."""
    said = [without_speaker(m["content"]) for m in session.messages if m["role"] == "user"]
    sentences = [sentence for text in said for sentence in _SENTENCE_END.split(text.strip()) if sentence]
    words = [words_of(sentence) for sentence in sentences]
    if not any(words):
        return sentences[0] if sentences else ""
    index = index_of(words)
    centrality = [0.0] * len(sentences)
    for place, query in enumerate(words):
        if query:
            for other, score in enumerate(index.get_scores(query)):
                centrality[other] += float(score) if other != place else 0.0
    return sentences[max(range(len(sentences)), key=lambda place: (centrality[place], -place))]
