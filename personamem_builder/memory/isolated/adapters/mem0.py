"""mem0ai: a language model writes down facts of each session or turn, which are found by embeddings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

USER = "user"
DATED = "These messages were written on {date}: that is the observation date, and the current date too."


class Adapter:
    """The open-source `Memory` with Qdrant's local form in a folder of its own."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = folder
        from mem0 import Memory
        from mem0.utils.factory import EmbedderFactory

        self._unit = settings["unit"]
        key = os.environ.get("OPENAI_API_KEY") or "none"
        if settings["embedder_url"]:
            known = {"model": settings["embedder"], "openai_base_url": settings["embedder_url"], "api_key": key}
            embedder = {"provider": "openai", "config": known}
        else:
            embedder = {"provider": "huggingface", "config": {"model": settings["embedder"]}}
        dimensions = len(EmbedderFactory.create(embedder["provider"], dict(embedder["config"]), None).embed("a", "add"))
        store = {
            "path": str(Path(folder) / "qdrant"),
            "collection_name": "memories",
            "embedding_model_dims": dimensions,
            "on_disk": True,
        }
        llm = {
            "model": settings["model"],
            "openai_base_url": settings["base_url"],
            "api_key": key,
            "temperature": 0.0,
            "max_tokens": settings["max_tokens"],
        }
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": llm},
                "embedder": embedder,
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(Path(folder) / "history.db"),
            }
        )

    def reset(self) -> None:
        """Empty the store."""
        self._memory.reset()

    def add_session(self, session: dict[str, Any]) -> None:
        """Have mem0 write down what a session, or each turn of it, tells."""
        said = [message for message in session["messages"] if message["role"] != "system"]
        starts = [i for i, m in enumerate(said) if not i or (m["role"] == "user" and said[i - 1]["role"] != "user")]
        pieces = [said[a:b] for a, b in zip(starts, [*starts[1:], len(said)], strict=True)]
        date = session["date"]
        dated = {"metadata": {"date": date}, "prompt": DATED.format(date=date)} if date else {}
        for piece in pieces if self._unit == "turn" else [said] if said else []:
            self._memory.add(piece, user_id=USER, infer=True, **dated)

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Return what mem0 finds."""
        found = self._memory.search(query, top_k=k, filters={"user_id": USER})["results"]
        return [{"text": one["memory"], "date": (one.get("metadata") or {}).get("date", "")} for one in found]
