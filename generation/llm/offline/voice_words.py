"""How a user writes: the words of a bank in the user's manner."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from generation.banks.voices import Voice
from generation.contractions import without_contractions
from generation.grammar import expand, sentence_case, without_details

_TOLD: Final = "\x02"  # where something told stands until the words around it are those of the voice


class VoiceWords:
    """Writes messages in a voice.

    Args:
        voice: Of the user.
        rng: Decides.
    """

    def __init__(self, voice: Voice, rng: random.Random) -> None:
        self._voice = voice
        self._rng = rng
        self._replacements = [
            (re.compile(rf"\b{re.escape(old)}\b", re.IGNORECASE), new) for old, new in voice.replacements
        ]

    def message(
        self, template: str, told: str, before: Sequence[str] = (), after: Sequence[str] = (), details: float = 1.0
    ) -> str:
        """Return a message.

        Args:
            template: What the user asks; has `{told}` if something is told in it.
            told: Sentences that keep their words.
            before: Sentences that stand before it, and `after` it.
            after: See `before`.
            details: Times as many optional details as usual are written.
        """
        share = details * self._voice.details
        body = expand(without_details(template, lambda: self._rng.random() < share), self._rng, told=_TOLD)
        if told and _TOLD not in body:
            body = f"{_TOLD} {body}"
        text = " ".join(filter(None, [*before, body, *after]))
        for pattern, new in self._replacements:
            text = pattern.sub(partial(_in_case, new), text)
        text = _BLANKS.sub(" ", text.replace(_TOLD, told)).strip()
        if self._voice.contractions == "none":
            text = without_contractions(text)
        text = _AFTER_COLON.sub(lambda match: match[0].lower(), sentence_case(text))
        if text.endswith(".") and not text.endswith("..") and self._voice.end != ".":
            text = text[:-1] + self._voice.end
        return text.lower() if self._voice.case == "lower" else text


_BLANKS: Final = re.compile(r" {2,}")
# First words that are no names; what follows a colon goes on in the sentence.
_AFTER_COLON: Final = re.compile(
    r"(?<=: )(?:The|An?|At|In|On|For|With|To|As|When|My|What|How|Is|It|We|There|This|Last|From|Over|Up|So|If|By|Going|"
    r"Looking|Here|Each|Both|Three|Two|One|Speaking|During|After|Before|Once|Right|Where|Which|Of|Among)\b"
)


def _in_case(new: str, old: re.Match[str]) -> str:
    return new[:1].upper() + new[1:] if old[0][:1].isupper() else new
