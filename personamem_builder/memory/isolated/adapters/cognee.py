"""cognee: a language model makes a graph of each session; what is near a query in it comes back as one text."""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DATASET = "user"
DATED = "Date of this conversation: "


class Adapter:
    """cognee with its embedded stores (SQLite, LanceDB, Ladybug) in a folder of its own."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        if not settings["embedder_url"]:
            raise ValueError("cognee is asked with a server of embeddings: --set embedder_url=…")
        key = os.environ.get("OPENAI_API_KEY") or "none"
        os.environ |= {
            "TELEMETRY_DISABLED": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the network for prices
            "COGNEE_SKIP_CONNECTION_TEST": "true",
            "ENABLE_BACKEND_ACCESS_CONTROL": "false",
            "SYSTEM_ROOT_DIRECTORY": str(Path(folder) / "system"),
            "DATA_ROOT_DIRECTORY": str(Path(folder) / "data"),
            "LLM_PROVIDER": "custom",
            "LLM_MODEL": f"openai/{settings['model']}",
            "LLM_ENDPOINT": settings["base_url"] or "https://api.openai.com/v1",
            "LLM_API_KEY": key,
            "LLM_TEMPERATURE": "0.0",
            "LLM_MAX_TOKENS": str(settings["max_tokens"]),
            "EMBEDDING_PROVIDER": "openai_compatible",
            "EMBEDDING_MODEL": settings["embedder"],
            "EMBEDDING_ENDPOINT": settings["embedder_url"],
            "EMBEDDING_API_KEY": key,
            "EMBEDDING_DIMENSIONS": str(_dimensions(settings, key)),
        }
        litellm = find_spec("litellm")  # it carries the vocabulary of tiktoken that cognee would download
        if litellm is not None and litellm.origin:
            os.environ.setdefault(
                "TIKTOKEN_CACHE_DIR", str(Path(litellm.origin).parent / "litellm_core_utils/tokenizers")
            )
        import cognee

        self._cognee = cognee
        self._loop = asyncio.new_event_loop()
        self._is_empty = True

    def reset(self) -> None:
        """Have everything pruned: what cognee only forgets is still in its files."""
        prune = self._cognee.prune
        self._loop.run_until_complete(prune.prune_data())
        self._loop.run_until_complete(prune.prune_system(graph=True, vector=True, metadata=True, cache=True))
        self._is_empty = True

    def add_session(self, session: dict[str, Any]) -> None:
        """Have a session remembered as one text, with its date in front."""
        said = [f"{m['role']}: {m['content']}" for m in session["messages"] if m["role"] != "system"]
        if said:
            dated = [DATED + session["date"]] if session["date"] else []
            self._loop.run_until_complete(self._cognee.remember("\n".join([*dated, *said]), dataset_name=DATASET))
            self._is_empty = False

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Return the chunks that cognee finds."""
        if self._is_empty:
            return []
        kind = self._cognee.SearchType.CHUNKS
        found = self._loop.run_until_complete(self._cognee.recall(query, query_type=kind, datasets=[DATASET], top_k=k))
        return [_memory(str(getattr(one, "text", None) or getattr(one, "content", None) or one)) for one in found][:k]


def _memory(text: str) -> dict[str, Any]:
    first, _, rest = text.partition("\n")
    return {"text": rest, "date": first.removeprefix(DATED)} if first.startswith(DATED) else {"text": text, "date": ""}


def _dimensions(settings: dict[str, Any], key: str) -> int:
    from openai import OpenAI

    client = OpenAI(api_key=key, base_url=settings["embedder_url"])
    return len(client.embeddings.create(model=settings["embedder"], input=["a"]).data[0].embedding)
