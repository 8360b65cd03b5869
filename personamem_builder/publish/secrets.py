"""Keys and tokens that must not be published with a dataset.

The patterns are those of the keys that people who make datasets hold: each has a prefix or a form of its own, so that
prose never looks like one. They are in the dialect that Python and RE2 (the engine of Arrow) share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_PATTERNS: Final[Mapping[str, str]] = {
    "Hugging Face token": r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}\b",
    "Anthropic key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "OpenAI key": r"\bsk-(?:[A-Za-z0-9]{32,}|(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|or-v1-[0-9a-f]{32,})",
    "AWS access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "AWS secret key": r"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s*[:=]\s*[\"']?[A-Za-z0-9/+]{40}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})",
    "Google key": r"\bAIza[A-Za-z0-9_-]{35}",
    "Google OAuth secret": r"\bGOCSPX-[A-Za-z0-9_-]{20,}",
    "Slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "Slack webhook": r"\bhooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}",
    "private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "URL with a password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/?#@:\"'<>]{1,100}:[^\s/?#@\"'<>]{3,200}@[A-Za-z0-9.-]+",
}

_FLAGS: Final = re.ASCII  # as RE2 has it

_VARIABLES: Final = ("*_API_KEY", "*_TOKEN", "*_SECRET*")
_SHORTEST: Final = 12
"""Characters of a variable's value below which it may be a word that occurs anyway."""


def find_secrets(files: Mapping[str, Path | bytes]) -> list[str]:
    """Look for secrets in the files of a release.

    Besides keys and tokens of known forms these are the values of this process's environment variables that are named
    like keys. In Parquet files each distinct text is looked at once, a row group at a time.

    Returns:
        A line for each find, with file, place and kind; of the secret itself only the first characters.
    """
    patterns = {
        **_PATTERNS,
        **{
            f"value of the variable {name}": re.escape(value)
            for name, value in sorted(os.environ.items())
            if len(value.strip()) >= _SHORTEST and any(fnmatchcase(name.upper(), pattern) for pattern in _VARIABLES)
        },
    }
    any_of = "|".join(f"(?:{pattern})" for pattern in patterns.values())
    finds: dict[str, None] = {}  # an ordered set: a text may be in several row groups
    for name, content in files.items():
        for place, text in _suspects(name, content, any_of):
            for kind, pattern in patterns.items():
                for match in re.finditer(pattern, text, _FLAGS):
                    finds[f"{name}, {place}: {kind} {_masked(match[0])}"] = None
    return list(finds)


def _masked(secret: str) -> str:
    return f"{secret[: min(4, len(secret) // 4)]}… ({len(secret)} characters)"


def _suspects(name: str, content: Path | bytes, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a file in which there is a secret, each with its place."""
    if name.endswith(".parquet"):
        yield from _suspects_of_parquet(content, pattern)
        return
    text = (content.read_bytes() if isinstance(content, Path) else content).decode("utf-8", errors="replace")
    for match in re.finditer(pattern, text, _FLAGS):
        yield f"line {text.count(chr(10), 0, match.start()) + 1}", match[0]


def _suspects_of_parquet(content: Path | bytes, pattern: str) -> Iterator[tuple[str, str]]:
    source = content if isinstance(content, Path) else pa.BufferReader(content)
    leaves = pq.ParquetFile(source).schema
    texts = [leaves.column(i).path for i in range(len(leaves)) if leaves.column(i).physical_type == "BYTE_ARRAY"]
    file = pq.ParquetFile(source, memory_map=True, read_dictionary=texts)
    for key, value in (file.metadata.metadata or {}).items():
        if re.search(pattern, text := f"{key.decode()}={value.decode('utf-8', errors='replace')}", _FLAGS):
            yield "metadata", text
    for group in range(file.num_row_groups):
        for path in texts:
            place = f"column {path.split('.')[0]}, row group {group}"
            for chunk in file.read_row_group(group, columns=[path]).column(0).chunks:
                for values in _distinct_texts(chunk):
                    yield from ((place, text) for text in _matching(values, pattern))


def _distinct_texts(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the texts of a column, down to the innermost: a dictionary's once."""
    if pa.types.is_dictionary(array.type):
        yield array.dictionary
    elif pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _distinct_texts(array.field(i))
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _distinct_texts(array.values)
    else:
        yield array


def _matching(values: pa.Array, pattern: str) -> list[Any]:
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return []  # binary data, of which we write none
    return values.filter(pc.match_substring_regex(values, pattern)).to_pylist()  # type: ignore[no-any-return]
