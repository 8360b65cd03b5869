"""Contractions, written out."""

from __future__ import annotations

import re
from typing import Final

_HAS: Final = r"(been|got|had|gone|become|turned|made|taken|given|come|started|begun|changed|grown|led|left|cost|kept)"
_RULES: Final = [
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\bcan't\b", "cannot"),
        (r"\b(w)on't\b", r"\1ill not"),
        (r"\b(s)han't\b", r"\1hall not"),
        (r"\b(\w+)n't\b", r"\1 not"),
        (r"\b(i)'m\b", r"\1 am"),
        (r"\b(\w+)'re\b", r"\1 are"),
        (r"\b(\w+)'ve\b", r"\1 have"),
        (r"\b(\w+)'ll\b", r"\1 will"),
        (r"\b(let)'s\b", r"\1 us"),
        (rf"\b(it|that|there|what|here|who|where|how)'s(?= (?:\w+ly |never |now |just |always )?{_HAS}\b)", r"\1 has"),
        (r"\b(it|that|there|what|here|who|where|how)'s\b", r"\1 is"),
        (r"\b(\w+)'d(?= (like|love|prefer|rather|say|need|be|have|want|hate|never want)\b)", r"\1 would"),
    )
]


def without_contractions(text: str) -> str:
    """Return a text with `I have` in place of `I've` and the like; what is ambiguous, such as most `'d`, stays."""
    text = text.replace("’", "'")
    for pattern, words in _RULES:
        text = pattern.sub(words, text)
    return text
