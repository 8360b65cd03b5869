"""graphiti: a language model makes a graph of dated facts from each session; words and embeddings find its edges."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from pathlib import Path
from typing import Any

GROUP = "user"


class Adapter:
    """Graphiti on Kuzu, an embedded graph database, in a folder of its own for each user."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
        self._settings = settings
        self._folder = Path(folder)
        self._users = 0
        self._graph: Any = None
        self._local: Any = None
        self._loop = asyncio.new_event_loop()

    def reset(self) -> None:
        """Begin with an empty graph."""
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        from graphiti_core import Graphiti
        from graphiti_core.cross_encoder.client import CrossEncoderClient
        from graphiti_core.driver.kuzu_driver import KuzuDriver
        from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
        from graphiti_core.graph_queries import get_fulltext_indices
        from graphiti_core.llm_client.config import LLMConfig
        from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

        class Unranked(CrossEncoderClient):
            """Leaves passages as they are: the plain search ranks by fused ranks and asks for no model."""

            async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
                return [(passage, 1.0) for passage in passages]

        if self._graph is not None:
            await self._graph.close()
            for path in self._folder.glob(f"graph{self._users}*"):
                path.unlink()
        self._users += 1
        key = os.environ.get("OPENAI_API_KEY") or "none"
        model, given = self._settings["model"], self._settings
        config = LLMConfig(api_key=key, model=model, small_model=model, base_url=given["base_url"], temperature=0.0)
        if given["embedder_url"]:
            known = {"api_key": key, "base_url": given["embedder_url"], "embedding_model": given["embedder"]}
            embedder: Any = OpenAIEmbedder(OpenAIEmbedderConfig(**known))
        else:
            self._local = self._local or _local_embedder(given["embedder"])
            embedder = self._local
        driver = KuzuDriver(str(self._folder / f"graph{self._users}"))
        driver._database = GROUP  # it looks at it, and the driver of Kuzu has none
        self._graph = Graphiti(
            graph_driver=driver,
            llm_client=OpenAIGenericClient(config, max_tokens=given["max_tokens"]),
            embedder=embedder,
            cross_encoder=Unranked(),
        )
        for query in get_fulltext_indices(driver.provider):  # for Kuzu `build_indices_and_constraints` makes none
            await driver.execute_query(query)

    def add_session(self, session: dict[str, Any]) -> None:
        """Add a session as an episode of its day."""
        said = [f"{m['role']}: {m['content']}" for m in session["messages"] if m["role"] != "system"]
        if not said:
            return
        day = dt.datetime.fromisoformat(session["date"] or "1970-01-01")
        self._loop.run_until_complete(
            self._graph.add_episode(
                name=f"session {session['number']} from {session['first_index']}",
                episode_body="\n".join(said),
                source_description="a conversation of the user and an assistant",
                reference_time=day.replace(tzinfo=dt.UTC),
                group_id=GROUP,
            )
        )

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Return the facts of the best edges, with the day from which each holds."""
        edges = self._loop.run_until_complete(self._graph.search(query, group_ids=[GROUP], num_results=k))
        return [
            {"text": _fact(edge), "date": edge.valid_at.date().isoformat() if edge.valid_at else ""} for edge in edges
        ]


def _local_embedder(model: str) -> Any:
    from graphiti_core.embedder.client import EmbedderClient
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(model)

    class Local(EmbedderClient):
        """Embeds on this machine."""

        async def create(self, input_data: Any) -> list[float]:
            text = input_data if isinstance(input_data, str) else input_data[0]
            return [float(value) for value in loaded.encode(text)]

        async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
            return [[float(value) for value in row] for row in loaded.encode(input_data_list)]

    return Local()


def _fact(edge: Any) -> str:
    return f"{edge.fact} (no longer so from {edge.invalid_at.date()} on)" if edge.invalid_at else str(edge.fact)
