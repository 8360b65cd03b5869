"""Writing the shared contexts of a split."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from json.encoder import encode_basestring_ascii
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from personamem_builder.build.parts import FILE_LIMIT, PartWriter
from personamem_builder.schema import CONTEXT_SCHEMA, ContextRow, Message

_DISTINCT: Final = 32 * 2**20
"""Bytes of distinct messages after which a row group ends: what a reader of one context has to hold."""

_WHOLE: Final = 256 * 2**20
"""Bytes of messages after which a row group ends, repeats counted: what a reader that knows no dictionaries holds."""

_LEVEL: Final = 3  # of zstd: beyond it each tenth less of size takes as long again

_SCHEMA: Final = pa.schema(
    [
        pa.field(
            "messages",
            pa.list_(pa.struct([("role", pa.string()), ("content", pa.dictionary(pa.int32(), pa.string()))])),
        )
        if field.name == "messages"
        else field
        for field in CONTEXT_SCHEMA
    ]
)


class _Distinct:
    """Distinct messages of some contexts, numbered as they come, with the JSON of each and its bytes in all."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.json: list[bytes] = []
        self.size = 0
        self._numbers: defaultdict[str, dict[str, int]] = defaultdict(dict)  # by role and content

    def numbered(self, messages: Sequence[Message]) -> list[int]:
        known = self._numbers
        for message in messages:
            if message["content"] not in known[message["role"]]:
                self._add(**message)
        return [known[message["role"]][message["content"]] for message in messages]

    def _add(self, role: str, content: str) -> None:
        self._numbers[role][content] = len(self.messages)
        self.messages.append((role, content))
        # What `json.dumps` does with a string, without its five calls around it.
        as_json = f'{{"content":{encode_basestring_ascii(content)},"role":{encode_basestring_ascii(role)}}}'
        self.json.append(as_json.encode())
        self.size += len(self.json[-1])


class ContextDigest:
    """The sha256 of contexts, as JSON with sorted keys, a line each; see `folder.content_digest`."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, rows: Iterable[ContextRow]) -> int:
        """Add contexts, and return how many they were."""
        count = 0
        distinct = _Distinct()
        for row in rows:
            if distinct.size >= _DISTINCT:
                distinct = _Distinct()
            self.add(row, map(distinct.json.__getitem__, distinct.numbered(row["messages"])))
            count += 1
        return count

    def add(self, row: ContextRow, messages: Iterable[bytes]) -> None:
        """Add a context, given the JSON of its messages, which takes longer than all else here."""
        rest = json.dumps({k: v for k, v in row.items() if k != "messages"}, sort_keys=True, separators=(",", ":"))
        # No name of a column sorts before `messages`.
        self._digest.update(b"".join((b'{"messages":[', b",".join(messages), b"],", rest[1:].encode(), b"\n")))

    def hexdigest(self) -> str:
        """Return the digest of all contexts so far."""
        return self._digest.hexdigest()


class ContextWriter:
    """Writes contexts to Parquet, in row groups that hold each distinct text once.

    A row group is compressed in a thread, while the next one is filled. No digest of the content includes `metadata`,
    the key-value metadata of each file; `num_bytes` counts messages as JSON, with repeats. A file ends after `limit`
    bytes, see `parts.PartWriter`.
    """

    def __init__(self, path: Path, metadata: Mapping[str, str] | None = None, limit: int = FILE_LIMIT) -> None:
        self.count = 0
        self.num_bytes = 0
        self.digest = ContextDigest()
        self._limit = limit
        self._writer = PartWriter(
            path,
            _SCHEMA,
            metadata,
            limit,
            compression="zstd",
            compression_level=_LEVEL,
            dictionary_pagesize_limit=8 * _DISTINCT,
            store_schema=False,  # with Arrow's own schema in the file, a plain reader would get dictionaries
        )
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self._begin()

    def write(self, row: ContextRow) -> None:
        """Add a context."""
        numbers = self._distinct.numbered(row["messages"])
        parts = [self._distinct.json[number] for number in numbers]
        self.digest.add(row, parts)
        self._numbers += array("i", numbers)
        self._offsets.append(len(self._numbers))
        self._rows.append({name: value for name, value in row.items() if name != "messages"})
        size = sum(map(len, parts))
        self._whole += size
        self.num_bytes += size
        self.count += 1
        if self._distinct.size >= min(_DISTINCT, self._limit) or self._whole >= _WHOLE:
            self.flush()

    def flush(self) -> None:
        """Let what was added be written; this does not wait for it."""
        if not self._rows:
            return
        self._wait()  # one row group at a time: they are large
        self._writing = self._thread.submit(
            self._write_row_group, self._distinct.messages, self._numbers, self._offsets, self._rows
        )
        self._begin()

    def __enter__(self) -> ContextWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        whole = False
        try:
            with self._thread:
                if error is None:
                    self.flush()
                    self._wait()
                    whole = True
        finally:
            if whole:
                self._writer.close()
            else:
                self._writer.abandon()

    def _begin(self) -> None:
        self._distinct = _Distinct()
        self._whole = 0
        self._numbers = array("i")
        self._offsets = array("i", [0])
        self._rows: list[dict[str, Any]] = []

    def _wait(self) -> None:
        if self._writing:
            self._writing.result()

    def _write_row_group(
        self, distinct: list[tuple[str, str]], places: array[int], offsets: array[int], rows: list[dict[str, Any]]
    ) -> None:
        texts: dict[str, int] = {}
        roles, text_numbers = [], array("i")
        for role, content in distinct:
            roles.append(role)
            text_numbers.append(texts.setdefault(content, len(texts)))
        numbers = pa.array(places, pa.int32())
        contents = pa.DictionaryArray.from_arrays(
            pa.array(text_numbers, pa.int32()).take(numbers), pa.array(list(texts), pa.string())
        )
        messages = pa.StructArray.from_arrays(
            [pa.array(roles, pa.string()).take(numbers), contents], names=["role", "content"]
        )
        columns = {"messages": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), messages)}
        for field in _SCHEMA:
            if field.name != "messages":
                columns[field.name] = pa.array([row[field.name] for row in rows], field.type)
        table = pa.Table.from_arrays([columns[name] for name in _SCHEMA.names], schema=_SCHEMA)
        self._writer.write(table)
