"""langmem: a language model that calls tools writes and changes memories after each session; embeddings find them."""

from __future__ import annotations

import os
from typing import Any

NAMESPACE = ("memories", "user")
EVERYTHING = 1_000_000


class Adapter:
    """A memory store manager over LangGraph's store in memory, a new one for each user."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        os.environ["LANGCHAIN_TRACING_V2"] = os.environ["LANGSMITH_TRACING"] = "false"
        from langchain_openai import ChatOpenAI, OpenAIEmbeddings

        key: Any = os.environ.get("OPENAI_API_KEY") or "none"
        self._llm = ChatOpenAI(
            model=settings["model"],
            base_url=settings["base_url"],
            api_key=key,
            temperature=0.0,
            max_tokens=settings["max_tokens"],
        )
        if settings["embedder_url"]:
            self._embedder: Any = OpenAIEmbeddings(
                model=settings["embedder"],
                base_url=settings["embedder_url"],
                api_key=key,
                check_embedding_ctx_length=False,
            )
        else:
            from langchain_huggingface import HuggingFaceEmbeddings

            self._embedder = HuggingFaceEmbeddings(model_name=settings["embedder"])
        self._dimensions = len(self._embedder.embed_query("a"))

    def reset(self) -> None:
        """Begin with an empty store."""
        from langgraph.store.memory import InMemoryStore
        from langmem import create_memory_store_manager

        self._store = InMemoryStore(index={"dims": self._dimensions, "embed": self._embedder, "fields": ["content"]})
        self._manager = create_memory_store_manager(
            self._llm, namespace=NAMESPACE, store=self._store, enable_inserts=True, enable_deletes=True
        )

    def add_session(self, session: dict[str, Any]) -> None:
        """Have the manager write down what a session tells, with its date in front."""
        said = [dict(message) for message in session["messages"] if message["role"] != "system"]
        if said:
            if session["date"]:
                said[0]["content"] = f"[This conversation took place on {session['date']}.]\n{said[0]['content']}"
            self._manager.invoke({"messages": said}, config={"configurable": {}})

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Return the nearest memories, those that are equally near by their text: the store has them in any order."""
        found = self._store.search(NAMESPACE, query=query, limit=EVERYTHING)
        near = sorted((-round(one.score or 0.0, 6), _text(one.value.get("content"))) for one in found)
        return [{"text": text, "date": ""} for _, text in near[:k]]


def _text(content: Any) -> str:
    return str(content.get("content", content)) if isinstance(content, dict) else str(content)
