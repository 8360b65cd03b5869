"""Seeds for every random choice: a pure function of the run's seed and a path of names."""

from __future__ import annotations

import hashlib
import json
import random


def rng_for(seed: int, *path: str | int) -> random.Random:
    """Return the random generator that belongs to one decision.

    Two different paths give independent generators, and the same path gives the same one in every process
    (Python's `hash` is salted per process, so sha256 is used).
    """
    key = json.dumps([seed, *path])
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big"))


def option_order(question_id: str, number: int) -> list[int]:
    """Return in which order the options of a question are shown: indices into those that there are.

    A pure function of the id, so that no rewording elsewhere moves the answer.
    """
    return rng_for(0, "options", question_id).sample(range(number), number)
