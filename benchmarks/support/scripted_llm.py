"""A language model and an embedding model by rule, in OpenAI's protocol: enough for memory systems to run without one.

The language model writes down what users say: a fact for each of their lines, in whatever form it is asked for: the
parameters of a tool, a JSON schema, or one of the prompts that it knows. The embedding model counts words.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SIZE = 1024
_SCHEMA = re.compile(r"schema:\s*(?:```json)?\s*(?=\{)")
_TOLD_NOW = re.compile(r"<CURRENT[ _]MESSAGE>(.*?)</CURRENT|^Content:\n(.*)", re.DOTALL | re.MULTILINE)
_SAID = re.compile(r"(?im)^\W*(?:user|human)\W{1,4}(?!message )(?:user: )?(.+)$")


def embed(text: str) -> list[float]:
    """Count the words of a text, each at a place of its own; nothing has a place too."""
    vector = [0.0] * SIZE
    vector[0] = 0.01
    for word in re.findall(r"\w{3,}", text.lower()):
        vector[zlib.crc32(word.encode()) % (SIZE - 1) + 1] += 1.0
    return vector


def facts_in(text: str) -> list[str]:
    """Return what users say in a prompt, each line once."""
    return list(dict.fromkeys(line.strip() for line in _SAID.findall(text)))


def reply_to(request: dict[str, Any]) -> dict[str, Any]:
    """Return the message of the assistant."""
    prompt = "\n".join(_text_of(message) for message in request["messages"])
    if tools := request.get("tools"):
        return {"role": "assistant", "content": None, "tool_calls": _calls(tools, prompt)}
    form = request.get("response_format") or {}
    if form.get("type") == "json_schema":
        schema = form["json_schema"]["schema"]
        return {"role": "assistant", "content": json.dumps(_filled(schema, schema.get("$defs", {}), prompt))}
    if shown := _SCHEMA.search(prompt):
        schema, _ = json.JSONDecoder().raw_decode(prompt, shown.end())
        return {"role": "assistant", "content": json.dumps(_filled(schema, schema.get("$defs", {}), prompt))}
    new = _text_of(request["messages"][-1]).partition("## New Messages")[2].partition("## Observation Date")[0]
    if new:  # mem0
        told = [{"id": str(i), "text": fact} for i, fact in enumerate(facts_in(new))]
        return {"role": "assistant", "content": json.dumps({"memory": told})}
    return {"role": "assistant", "content": "{}"}


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    return f"{message['role']}: {text}"


def _calls(tools: list[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Call the first tool that takes a text, once for each fact."""
    for tool in tools:
        function = tool["function"]
        parameters = function.get("parameters", {})
        if "content" in parameters.get("properties", {}):
            made = [{"content": fact} for fact in facts_in(prompt)]
            return [
                {
                    "id": f"call_{i}",
                    "type": "function",
                    "function": {"name": function["name"], "arguments": json.dumps(one)},
                }
                for i, one in enumerate(made)
            ]
    return []


def _filled(schema: dict[str, Any], defs: dict[str, Any], prompt: str) -> Any:
    """Return a value of a JSON schema: empty lists, empty texts, noughts."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return (
            None
            if any(one.get("type") == "null" for one in schema["anyOf"])
            else _filled(schema["anyOf"][0], defs, prompt)
        )
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "array" and "$ref" in (
        items := schema.get("items", {})
    ):  # a graph, of entities and what is said of them
        fields = defs[items["$ref"].rpartition("/")[2]]["properties"]
        now = _TOLD_NOW.search(prompt)
        told = [
            (max(re.findall(r"\w+", fact), key=len, default="Nothing"), fact)
            for fact in facts_in((now[1] or now[2]) if now else "")
        ]
        empty = {key: _filled(value, defs, prompt) for key, value in fields.items()}
        if "fact" in fields:
            ends = [{"source_entity_name": "User", "target_entity_name": name, "fact": fact} for name, fact in told]
            return [{**empty, **one, "relation_type": "SAID"} for one in ends]
        if "what" in fields:
            return [{**empty, "what": fact, "entities": ["User", name]} for name, fact in told]
        if "entity_type_id" in fields:
            return [{**empty, "name": name} for name in dict.fromkeys(["User", *(name for name, _ in told)])]
    if kind == "object":
        return {key: _filled(value, defs, prompt) for key, value in schema.get("properties", {}).items()}
    return {"array": [], "boolean": False, "integer": 0, "number": 0.0}.get(str(kind), "")


@contextmanager
def scripted_models() -> Iterator[str]:
    """Serve both models on this machine while the block lasts, and give their address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            given = request["input"]
            texts = [given] if isinstance(given, str) else given
            data = [{"object": "embedding", "index": i, "embedding": embed(str(text))} for i, text in enumerate(texts)]
            reply = {"object": "list", "data": data, "model": "e", "usage": {"prompt_tokens": 0, "total_tokens": 0}}
        else:
            message = reply_to(request)
            choice = {
                "index": 0,
                "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                "message": message,
            }
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            reply = {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of single requests."""
