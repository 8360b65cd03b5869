"""a-mem: each message becomes a note, which a language model tags and links; notes are found by embeddings."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any


class Adapter:
    """`AgenticMemorySystem` with Chroma in a folder of its own for each user."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        if settings["embedder_url"]:
            raise ValueError(
                "a-mem embeds on this machine only: leave embedder_url out, and let embedder name a folder"
            )
        if settings["base_url"]:
            os.environ["OPENAI_BASE_URL"] = settings["base_url"]
        os.environ["ANONYMIZED_TELEMETRY"] = "False"
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
        from agentic_memory.memory_system import AgenticMemorySystem

        self._make = AgenticMemorySystem
        self._settings = settings
        self._folder = Path(folder)
        self._store = self._folder
        self._memory: Any = None

    def reset(self) -> None:
        """Begin with an empty store."""
        if self._memory is not None:
            self._memory.retriever.client.delete_collection("memories")
            shutil.rmtree(self._store, ignore_errors=True)  # deleted texts are still in Chroma's file
        self._store = self._folder / uuid.uuid4().hex
        self._memory = self._make(
            model_name=self._settings["embedder"],
            llm_backend="openai",
            llm_model=self._settings["model"],
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            storage_path=str(self._store),
        )

    def add_session(self, session: dict[str, Any]) -> None:
        """Add a note for each message."""
        time = session["date"].replace("-", "") + "0000" if session["date"] else None
        for message in session["messages"]:
            if message["role"] != "system" and message["content"].strip():
                self._memory.add_note(f"{message['role']}: {message['content']}", time=time)

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Return the nearest notes."""
        notes = [self._memory.read(found["id"]) for found in self._memory.search(query, k=k)]
        return [{"text": note.content, "date": _day(note.timestamp or "")} for note in notes]


def _day(time: str) -> str:
    return f"{time[:4]}-{time[4:6]}-{time[6:8]}" if len(time) >= 8 and time[:8].isdigit() else ""
