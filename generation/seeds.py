"""Seeds for every random choice: a pure function of the run's seed and a path of names."""

from __future__ import annotations

import hashlib
import json
import random


def rng_for(seed: int, *path: str | int) -> random.Random:
    """Return the random generator that belongs to one decision.

    Two different paths give independent generators, and the same path gives the same one in every process
    (Python's `hash` is salted per process, so sha256 is used).

    Args:
        seed: The run's seed.
        *path: What the choice is for, from the general to the particular, e.g. `"options", question_id`.

    Returns:
        A generator of its own; drawing from it changes no other.
    """
    key = json.dumps([seed, *path])
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big"))
