"""Reading `shared_contexts_{split}.jsonl` of the official release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from generation.reading import MAX_FILE_BYTES
from personamem_builder.official.faults import Faults, is_text
from personamem_builder.schema import ROLES, Message


def context_id(messages: Sequence[Message]) -> str:
    """Return the official id of a context: sha256 of the messages' `repr`s joined by blanks."""
    return id_of_forms([hashed_form(messages)])


def hashed_form(messages: Sequence[Message]) -> bytes:
    """Return what the official id takes of some messages in a row."""
    return " ".join(map(repr, messages)).encode("utf-8", "surrogatepass")


def id_of_forms(forms: Iterable[bytes]) -> str:
    """Return the official id of a context from the hashed forms of its parts."""
    return hashlib.sha256(b" ".join(forms)).hexdigest()


def session_starts(messages: Sequence[Message]) -> list[int]:
    """Return where sessions start: the release repeats the persona as a system message before each."""
    return sorted({0} | {i for i, message in enumerate(messages) if message["role"] == "system"})


def read_contexts(path: Path, faults: Faults) -> dict[str, list[Message]]:
    """Read one JSONL of shared contexts, each line an object `{shared_context_id: [{role, content}, …]}`.

    `faults` gets every fault found; a context with a fault is left out. The others come by id, in file order.
    """
    contexts: dict[str, list[Message]] = {}
    before = len(faults.lines)
    try:
        file = path.open("rb")
    except OSError as error:
        faults.add(path.name, f"cannot be read: {error.strerror}")
        return {}
    with file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_FILE_BYTES + 1), b""), start=1):
            if not line.strip():
                continue
            if len(line) > MAX_FILE_BYTES:
                faults.add(path.name, f"a line is longer than the limit of {MAX_FILE_BYTES // 2**20} MiB", row=number)
                break
            try:
                pairs = json.loads(line.decode("utf-8-sig")).items()
            except (ValueError, AttributeError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    problem = "the file is cut off here"
                elif isinstance(error, UnicodeDecodeError):
                    problem = "not UTF-8 text; save the file as UTF-8"
                else:
                    problem = "not a JSON object {shared_context_id: [messages]}"
                faults.add(path.name, problem, row=number, value=line[:40].decode("utf-8", "replace"))
            else:
                for key, value in pairs:
                    _add(contexts, path.name, number, key, value, faults)
    if not contexts and len(faults.lines) == before:
        faults.add(path.name, "has no contexts")
    return contexts


def _add(contexts: dict[str, list[Message]], name: str, number: int, key: str, value: Any, faults: Faults) -> None:
    if not isinstance(value, list) or not value or not all(map(_is_message, value)):
        faults.add(name, "must hold a list of {role, content} objects with text", row=number, column=key)
    elif (found := context_id(value)) != key:
        faults.add(name, f"the messages have the id {found}: they were changed", row=number, value=key)
    else:
        contexts[key] = value


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"role", "content"}
        and value["role"] in ROLES
        and isinstance(value["content"], str)
        and is_text(value["content"])
    )
