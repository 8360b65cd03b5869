"""The memory system `mem0`: the open-source package mem0ai, with a store on this machine."""

from __future__ import annotations

import logging
import os
import tempfile
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, get_args

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.memory.json_server import MemoryFault
from personamem_builder.memory.retrieval import check_unit
from personamem_builder.memory.sessions import cut_turns
from personamem_builder.memory.system import Memory, Session

Unit = Literal["session", "turn"]
_UNITS: Final[tuple[Unit, ...]] = get_args(Unit)

_USER: Final = "user"
"""All that mem0 knows belongs to one user: the store is emptied between users."""

_DATED: Final = "These messages were written on {date}: that is the observation date, and the current date too."
"""mem0's own prompt gives the day of the run as the day of every conversation."""


def _installed() -> str:
    try:
        return version("mem0ai")
    except PackageNotFoundError:
        return "not installed"


class Mem0:
    """mem0ai: a language model writes down facts of each session, or turn, which are found by embeddings.

    A session is given to `Memory.add` as a whole or turn by turn, with `infer`, its date in the metadata and in an
    instruction; system messages, which hold the user's profile, are not. The store is Qdrant's local form in a
    temporary folder, and nothing is sent to the makers of mem0. Where `fastembed` and spaCy are installed, mem0 uses
    them: it then downloads models of theirs and searches by keywords and names too.

    Args:
        model: The language model.
        base_url: Where it is served, in OpenAI's protocol; by default `OPENAI_BASE_URL`, then OpenAI itself. The key is
            read from `OPENAI_API_KEY`.
        embedder: The embedding model: its name on the Hub or a folder, for sentence-transformers; with `embedder_url`
            the name by which the server knows it.
        embedder_url: Where the embedding model is served, in OpenAI's protocol.
        max_tokens: Of a reply of the language model.
        unit: What mem0 is given at a time: a `session`, or a `turn`, see `cut_turns`.

    Raises:
        UserError: There is no such unit, sentence-transformers is not installed, the embedding model cannot be had, or
            `OPENROUTER_API_KEY` is set, by which mem0 would go to another server than it is told.
    """

    version = f"1, mem0ai {_installed()}"

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        embedder: str = "BAAI/bge-m3",
        embedder_url: str | None = None,
        max_tokens: int = 2000,
        unit: Unit = "session",
    ) -> None:
        self._unit = check_unit(unit, _UNITS)
        if os.environ.get("OPENROUTER_API_KEY"):
            raise UserError(
                "OPENROUTER_API_KEY is set: mem0 would then ask OpenRouter, whatever base_url says",
                "unset it; OpenRouter itself is base_url=https://openrouter.ai/api/v1 with its key in OPENAI_API_KEY",
            )
        folder = tempfile.TemporaryDirectory(prefix="personamem-mem0-", ignore_cleanup_errors=True)
        store_class = _import_mem0(folder.name)
        if embedder_url is None and find_spec("sentence_transformers") is None:
            raise UserError(
                "the memory system mem0 needs sentence_transformers for its embeddings, which is not installed",
                f"{install_hint('dense')}, or name a server of embeddings: --set embedder_url=…",
            )
        key = os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if embedder_url is None:
            embedding = {"provider": "huggingface", "config": {"model": embedder}}
        else:
            known = {"model": embedder, "openai_base_url": embedder_url, "api_key": key or "none"}
            embedding = {"provider": "openai", "config": known}
        self._usage: Counter[str] = Counter()
        llm = {
            "model": model,
            "openai_base_url": base_url,
            "api_key": key,
            "temperature": 0.0,
            "max_tokens": max_tokens,
            "response_callback": partial(_count, self._usage),
        }
        self._model = model
        self._store: Any = store_class.from_config(
            {
                "llm": {"provider": "openai", "config": llm},
                "embedder": embedding,
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(Path(folder.name) / "qdrant"),
                        "collection_name": "memories",
                        "embedding_model_dims": _dimensions(embedding),
                        "on_disk": True,
                    },
                },
                "history_db_path": str(Path(folder.name) / "history.db"),
            }
        )
        weakref.finalize(self, _close, self._store, folder)

    def reset(self) -> None:
        """Empty the store.

        Raises:
            MemoryFault: Something is left in it.
        """
        self._store.reset()
        if self._store.get_all(filters={"user_id": _USER})["results"]:
            raise MemoryFault("mem0 still holds memories of the user before", "report this with the version of mem0ai")

    def add_session(self, session: Session) -> None:
        """Have mem0 write down what a session tells.

        Raises:
            MemoryFault: The language model cannot be asked, or the store fails.
        """
        turns = cut_turns(session)
        pieces = turns if self._unit == "turn" else [[message for turn in turns for message in turn]] if turns else []
        dated = {"metadata": {"date": session.date}, "prompt": _DATED.format(date=session.date)} if session.date else {}
        for number, piece in enumerate(pieces, 1):
            try:
                added = self._store.add(piece, user_id=_USER, infer=True, **dated)
            except Exception as error:
                turn = f"turn {number} of " if self._unit == "turn" else ""
                raise MemoryFault(
                    f"mem0 cannot take in {turn}session {session.number}: {error}",
                    f"see whether {self._model} can be asked",
                ) from error
            self._usage["memories"] += len(added["results"])

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Return the memories that mem0 finds."""
        found = self._store.search(query, top_k=k, filters={"user_id": _USER})["results"]
        return [Memory(item["memory"], (item.get("metadata") or {}).get("date", "")) for item in found]

    def usage(self) -> Mapping[str, float]:
        """Return the calls to the language model, their tokens, and how many memories came of them."""
        return dict(self._usage)


def _import_mem0(folder: str) -> Any:
    """Return mem0's class of stores, imported so that nothing is reported, and nothing written to the home folder."""
    os.environ["MEM0_TELEMETRY"] = "False"
    given = os.environ.get("MEM0_DIR")
    os.environ["MEM0_DIR"] = given or folder
    try:
        from mem0 import Memory as Store
    finally:
        if given is None:
            del os.environ["MEM0_DIR"]
    logging.getLogger("mem0").setLevel(logging.ERROR)  # else it warns of each reset
    return Store


def _count(usage: Counter[str], _llm: object, response: Any, _parameters: object) -> None:
    used = response.usage
    usage.update(
        llm_calls=1,
        prompt_tokens=used.prompt_tokens if used else 0,
        reply_tokens=used.completion_tokens if used else 0,
    )


def _dimensions(embedding: dict[str, Any]) -> int:
    """Return the length of the vectors of an embedding model; the store has to know it beforehand."""
    from mem0.utils.factory import EmbedderFactory

    try:
        return len(EmbedderFactory.create(embedding["provider"], dict(embedding["config"]), None).embed("a", "add"))
    except Exception as error:
        raise UserError(
            f"the embedding model {embedding['config']['model']} is not available: {error}",
            "give its name on the Hub, its folder, or its server: --set embedder=… --set embedder_url=…",
        ) from error


def _close(store: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
    store.close()
    store.vector_store.client.close()
    folder.cleanup()
