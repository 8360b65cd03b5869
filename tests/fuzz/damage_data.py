"""Ways to damage JSON, JSON lines, YAML, and the YAML of a card: values, keys, lines."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml
from fuzz.damage import TEXT, Damage

_BIG: Final = "9" * 5000
_DEEP: Final = "[" * 100_000 + "]" * 100_000

_VALUES: Final[Mapping[str, str]] = {  # as JSON text
    "null": "null",
    "NaN": "NaN",
    "infinity": "-Infinity",
    "1e400": "1e400",
    "negative": "-1",
    "zero": "0",
    "2^31": str(2**31),
    "2^63": str(2**63),
    "5,000 digits": _BIG,
    "fraction": "0.5",
    "true": "true",
    "empty text": '""',
    "text": '"surprise"',
    "empty list": "[]",
    "list": "[1, [], {}]",
    "list of nulls": "[null, null]",
    "mapping": '{"surprise": 1}',
    "empty mapping": "{}",
    "no date": '"2021-13-45"',
    "no place": '"../../../etc/passwd"',
    "lone surrogate": '"\\ud83d"',
    "control characters": '"\\u0000\\u001b[2J\\r"',
    "long text": json.dumps("word " * 200_000),
    "nested": _DEEP,
}

_YAML_VALUES: Final[Mapping[str, str]] = {
    "date that does not exist": "2021-13-45",
    "no whole number": "!!int foo",
    "no float": "!!float bar",
    "no timestamp": "!!timestamp soon",
    "no binary": "!!binary '?'",
    "python object": "!!python/object/apply:os.getcwd []",
    "alias bomb": "[&a0 [lol, lol], "
    + ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))
    + "]",
    "holds itself": "&self [*self]",
    "unknown alias": "*nobody",
    "sexagesimal": "190:20:30:15",
    "octal": "0o777777777777777777777777",
    "set": "!!set {a, b}",
}

_RAW: Final = "@@raw@@"


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (mapping or list, key or index) in a value."""
    found: list[tuple[Any, Any]] = []
    level = [value]
    while level:
        pairs = [
            (outer, key)
            for outer in level
            for key in (
                list(outer) if isinstance(outer, dict) else range(len(outer)) if isinstance(outer, list) else ()
            )
        ]
        found += pairs
        level = [outer[key] for outer, key in pairs]
    return found


def _put(raw: str) -> Callable[[Any, random.Random], str]:
    """Return a damage that puts a text in place of a value."""

    def put(value: Any, rng: random.Random) -> str:
        places = _places(value)
        if not places or rng.random() < 0.03:
            return raw
        outer, key = _draw(places, rng)
        outer[key] = _RAW
        return json.dumps(value).replace(json.dumps(_RAW), raw)

    return put


def _draw(places: list[tuple[Any, Any]], rng: random.Random) -> tuple[Any, Any]:
    """Draw a place; those near the root, which are few and matter most, as often as all others."""
    near = min(len(places), 12)
    return rng.choice(places[:near] if rng.random() < 0.5 else places)


def _delete(value: Any, rng: random.Random) -> str:
    if places := _places(value):
        outer, key = _draw(places, rng)
        del outer[key]
    return json.dumps(value)


def _duplicate(value: Any, rng: random.Random) -> str:
    places = [(outer, key) for outer, key in _places(value) if isinstance(outer, dict)]
    if not places:
        return f"[{json.dumps(value)}, {json.dumps(value)}]"
    outer, key = _draw(places, rng)
    text = json.dumps(outer[key])
    outer[key] = _RAW
    return json.dumps(value).replace(json.dumps(_RAW), f"{text}, {json.dumps(key)}: null", 1)


def _unknown_key(value: Any, rng: random.Random) -> str:
    mappings = [value] if isinstance(value, dict) else []
    mappings += [outer[key] for outer, key in _places(value) if isinstance(outer[key], dict)]
    if mappings:
        rng.choice(mappings)["surprise\x1b"] = {"a": [1]}
    return json.dumps(value)


def _rename(value: Any, rng: random.Random) -> str:
    places = [(outer, key) for outer, key in _places(value) if isinstance(outer, dict)]
    if places:
        outer, key = _draw(places, rng)
        outer[f"{key}_"] = outer.pop(key)
    return json.dumps(value)


def _one_key(value: Any, rng: random.Random) -> str:
    """Leave one key of the file, or one that marks it."""
    if isinstance(value, dict) and value:
        key = "format" if "format" in value and rng.random() < 0.5 else rng.choice(list(value))
        value = {key: value[key]}
    return json.dumps(value)


def _swap(value: Any, rng: random.Random) -> str:
    """Put one value of the file where another is."""
    places = _places(value)
    if len(places) > 1:
        outer, key = _draw(places, rng)
        outer[key] = json.loads(json.dumps(rng.choice(places)[0]))
    return json.dumps(value)


_OF_DATA: Final[Mapping[str, Callable[[Any, random.Random], str]]] = {
    "delete": _delete,
    "key twice": _duplicate,
    "unknown key": _unknown_key,
    "rename a key": _rename,
    "one key alone": _one_key,
    "swap": _swap,
    **{name: _put(raw) for name, raw in _VALUES.items()},
}


def _of_json(damage: Callable[[Any, random.Random], str]) -> Damage:
    return lambda content, rng: damage(json.loads(content), rng).encode()


def _of_yaml(damage: Callable[[Any, random.Random], str]) -> Damage:
    """JSON is YAML, so a damaged document is written as JSON."""
    return lambda content, rng: damage(yaml.safe_load(content), rng).encode()


def _of_card(damage: Callable[[Any, random.Random], str]) -> Damage:
    def of_card(content: bytes, rng: random.Random) -> bytes:
        _, head, body = content.split(b"---\n", 2)
        return b"---\n" + damage(yaml.safe_load(head), rng).encode() + b"\n---\n" + body

    return of_card


def _of_line(damage: Callable[[Any, random.Random], str]) -> Damage:
    """Damage a line; the digest that lines of a run end with is made anew most times, so that it does not tell."""

    def of_line(content: bytes, rng: random.Random) -> bytes:
        lines = content.splitlines()
        number = rng.randrange(len(lines))
        value = json.loads(lines[number])
        resign = isinstance(value, dict) and "digest" in value and rng.random() < 0.8
        if resign:
            del value["digest"]
        text = damage(value, rng)
        if resign and text.endswith("}"):
            text = f'{text[:-1]},"digest":"{hashlib.sha256(text.encode()).hexdigest()[:16]}"}}'
        lines[number] = text.encode()
        return b"\n".join(lines) + b"\n"

    return of_line


def _lines(change: Callable[[list[bytes], int], object]) -> Damage:
    def of_lines(content: bytes, rng: random.Random) -> bytes:
        lines = content.splitlines()
        change(lines, rng.randrange(len(lines)))
        return b"\n".join(lines) + b"\n"

    return of_lines


JSON: Final[Mapping[str, Damage]] = {**TEXT, **{name: _of_json(damage) for name, damage in _OF_DATA.items()}}
YAML: Final[Mapping[str, Damage]] = {
    **TEXT,
    **{name: _of_yaml(damage) for name, damage in _OF_DATA.items()},
    **{name: _of_yaml(_put(raw)) for name, raw in _YAML_VALUES.items()},
}
CARD: Final[Mapping[str, Damage]] = {
    **TEXT,
    **{name: _of_card(damage) for name, damage in _OF_DATA.items()},
    **{name: _of_card(_put(raw)) for name, raw in _YAML_VALUES.items()},
}
JSONL: Final[Mapping[str, Damage]] = {
    **TEXT,
    **{name: _of_line(damage) for name, damage in _OF_DATA.items()},
    "line removed": _lines(lambda lines, n: lines.pop(n)),
    "line twice": _lines(lambda lines, n: lines.insert(n, lines[n])),
    "blank line": _lines(lambda lines, n: lines.insert(n, b"")),
    "lines in another order": _lines(lambda lines, n: lines.reverse()),
    "two lines in one": _lines(lambda lines, n: lines.__setitem__(slice(n, n + 2), [b"".join(lines[n : n + 2])])),
}
