"""hindsight: a language model writes down facts of each session and consolidates them; four searches find them."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import socket
from pathlib import Path
from typing import Any

NAME = "personamem"  # of the database and of the bank
CHUNK = 3000  # characters that it gives the model at a time, by its own default
TOKENS_PER_MEMORY = 256
LEAST_TOKENS = 4096  # what its own search returns at most


class Adapter:
    """`MemoryEngine` on a Postgres of its own, which lies in the given folder: a new one for each user."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            raise ValueError(
                "hindsight's Postgres does not run as root: run the command as another user, or, on Linux, after "
                "`unshare --user --map-user=1000 --map-group=1000`"
            )
        key = os.environ.get("OPENAI_API_KEY") or "none"
        os.environ.setdefault("HF_HOME", str(Path.home() / ".cache/huggingface"))
        os.environ |= {
            "HOME": folder,  # Postgres lies in ~/.pg0
            "HINDSIGHT_API_LLM_PROVIDER": "openai",
            "HINDSIGHT_API_LLM_API_KEY": key,
            "HINDSIGHT_API_LLM_MODEL": settings["model"],
            "HINDSIGHT_API_LLM_BASE_URL": settings["base_url"] or "https://api.openai.com/v1",
            "HINDSIGHT_API_RETAIN_MAX_COMPLETION_TOKENS": str(settings["max_tokens"]),
            "HINDSIGHT_API_RETAIN_CHUNK_SIZE": str(min(CHUNK, settings["max_tokens"] - 1)),  # it has to be less
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",  # fused ranks, no model
            "HINDSIGHT_API_SKIP_LLM_VERIFICATION": "true",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai" if settings["embedder_url"] else "local",
            "HINDSIGHT_API_EMBEDDINGS_LOCAL_MODEL": settings["embedder"],
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": key,
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": settings["embedder"],
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": settings["embedder_url"] or "",
        }
        from hindsight_api import RequestContext

        self._context = RequestContext()
        self._loop = asyncio.new_event_loop()
        self._engine: Any = None
        self._days: list[dt.datetime] = []
        self._is_empty = True
        self._loop.run_until_complete(self._open())

    def reset(self) -> None:
        """Begin with an empty database: one from which a bank was deleted keeps its texts in its files for a while."""
        if not self._is_empty:
            self._loop.run_until_complete(self._engine.close())
            _postgres().drop()
            self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        from hindsight_api import MemoryEngine
        from hindsight_api.engine.task_backend import SyncTaskBackend

        # What it does in the background is then done before a session counts as taken in.
        self._engine = MemoryEngine(db_url=f"pg0://{NAME}:{_free_port()}", task_backend=SyncTaskBackend())
        await self._engine.initialize()
        await self._engine.ensure_bank_profile(NAME, request_context=self._context)
        self._days, self._is_empty = [], True

    def add_session(self, session: dict[str, Any]) -> None:
        """Retain a session as said on its day."""
        said = [f"{m['role']}: {m['content']}" for m in session["messages"] if m["role"] != "system"]
        day = dt.datetime.fromisoformat(session["date"]).replace(tzinfo=dt.UTC) if session["date"] else None
        if said:
            self._days += [day] if day else []
            self._is_empty = False
            self._loop.run_until_complete(
                self._engine.retain_async(
                    NAME,
                    "\n".join(said),
                    context="a conversation of the user and an assistant",
                    event_date=day,
                    request_context=self._context,
                )
            )

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Recall as on the day of the last session."""
        found = self._loop.run_until_complete(
            self._engine.recall_async(
                NAME,
                query,
                max_tokens=max(LEAST_TOKENS, TOKENS_PER_MEMORY * k),
                prefer_observations=None,
                question_date=self._days[-1] if self._days else None,
                request_context=self._context,
            )
        )
        days = {day.date().isoformat() for day in self._days}  # what was said on no day bears that of the run
        memories = [(one.text, (one.mentioned_at or "")[:10]) for one in found.results[:k]]
        return [{"text": text, "date": date if date in days else ""} for text, date in memories]

    def close(self) -> None:
        """End Postgres, whatever is under way."""
        _postgres().stop()


def _postgres() -> Any:
    from pg0 import Pg0

    return Pg0(NAME)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
