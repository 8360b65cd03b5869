"""Ways to damage a file, whatever is in it, and a file of text.

Each takes the content of a valid file and a generator of random numbers, and returns the content of a damaged one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

Damage = Callable[[bytes, random.Random], bytes]

FOLDER: Final = b"\0a folder in place of the file"
"""What a damage returns to have a folder made where the file was."""

ABSENT: Final = b"\0no file"
"""What a damage returns to have the file removed."""


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _flip(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 3, 30])):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def insert_one(*parts: bytes) -> Damage:
    def insert(content: bytes, rng: random.Random) -> bytes:
        at = rng.randrange(len(content) + 1)
        return content[:at] + rng.choice(parts) + content[at:]

    return insert


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.randrange(1, 200))
    return content[:end] + content[start:end] + content[end:]


BYTES: Final[Mapping[str, Damage]] = {
    "truncate": _truncate,
    "flip bits": _flip,
    "repeat a part": _repeat,
    "empty file": lambda content, rng: b"",
    "folder in place of the file": lambda content, rng: FOLDER,
    "no file": lambda content, rng: ABSENT,
    "other bytes": lambda content, rng: rng.randbytes(rng.randrange(1, 3000)),
}

TEXT: Final[Mapping[str, Damage]] = {
    **BYTES,
    "no UTF-8": insert_one(b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\xa1\xa1\xa1\xa1"),
    "UTF-16": lambda content, rng: content.decode("utf-8").encode("utf-16"),
    "control character": insert_one(b"\x00", b"\x1b[2J", b"\x07", b"\x0b"),
    "blank file": lambda content, rng: b" \n\t\n",
}
