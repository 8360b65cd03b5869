"""What a model's text holds besides the answer that it was asked for."""

from __future__ import annotations

import json
import re
from typing import Final

_THOUGHTS_END: Final = "</think>"
_REFUSAL: Final = re.compile(
    r"\W*(?:i'?m|i am) (?:\w+ )?(?:sorry|unable|not able)\b"
    r"|\W*(?:(?:i'?m |i am )?(?:\w+ )?sorry|unfortunately|my apologies|i apologi[sz]e)\b[^.]{0,60}"
    r"\bi(?: can| am|'m| won'?t| must| do not| don'?t)\b"
    r"|\W*i (?:can't|cannot|can not|won't|will not|must decline|must refuse|have to decline)\b"
    r"|\W*as an ai\b",
    re.IGNORECASE,
)


def json_text(text: str) -> str:
    """Return the JSON object of a reply, without the prose, the fence or the thoughts around it.

    Returns:
        The object where there is one and only one; else the text, without the thoughts.
    """
    text = _without_thoughts(text)
    objects = _objects(text)
    return objects[0] if len(objects) == 1 else text


def is_refusal(text: str) -> bool:
    """Say whether a reply declines to answer; one with an object in it does not."""
    plain = _without_thoughts(text).replace("\u2019", "'")
    return _REFUSAL.match(plain) is not None and not _objects(plain)


def _without_thoughts(text: str) -> str:
    if text.lstrip().startswith("{"):
        return text  # whatever it says is said inside of the answer
    # The opening mark may be missing: with some models it is the end of the prompt.
    return text.rpartition(_THOUGHTS_END)[2].strip()


def _objects(text: str) -> list[str]:
    """Return the outermost JSON objects, two at most; thoughts that never end hold none."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    start = -1 if text.startswith("<think>") else text.find("{")
    while start >= 0 and len(found) < 2:
        try:
            _, end = decoder.raw_decode(text, start)
            found.append(text[start:end])
        except (ValueError, RecursionError):
            # Never what is inside of a broken object: a part would pass for the whole.
            end = _closing(text, start)
        start = text.find("{", end)
    return found


def _closing(text: str, start: int) -> int:
    """Return the place after the brace that closes the one at `start`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)
