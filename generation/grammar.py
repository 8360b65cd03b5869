"""Sentence templates: `[one|another]` chooses, `{name}` inserts.

The banks are written in this little language, so that a few hundred sentences give many thousands.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"\[|\]|\||\{[a-z_0-9]+\}|[^\[\]|{}]+|.", re.DOTALL)
_BLANKS: Final = re.compile(r" {2,}")
_BEFORE_SIGNS: Final = re.compile(r" (?=[.,;:!?](?: |$))")
_SENTENCE_START: Final = re.compile(r"(^|[.!?] )([a-z])")


class _Slot(NamedTuple):
    name: str


class _Choice(NamedTuple):
    branches: tuple[_Sequence, ...]


_Part = str | _Slot | _Choice
_Sequence = tuple[_Part, ...]


class TemplateError(ValueError):
    """A template that cannot be read: an unmatched bracket, or a brace that is no slot."""


@cache
def parse(template: str) -> _Sequence:
    """Parse a template.

    Raises:
        TemplateError: A bracket or a brace has no partner, or `|` stands outside brackets.
    """
    tokens = _TOKEN.findall(template)
    sequence, end = _parse_sequence(tokens, 0, template, depth=0)
    if end != len(tokens):
        raise TemplateError(f"unmatched {tokens[end]!r} in {template!r}")
    return sequence


def _parse_sequence(tokens: list[str], at: int, template: str, depth: int) -> tuple[_Sequence, int]:
    parts: list[_Part] = []
    while at < len(tokens):
        token = tokens[at]
        if token == "[":
            branches: list[_Sequence] = []
            while token != "]":
                branch, at = _parse_sequence(tokens, at + 1, template, depth + 1)
                branches.append(branch)
                if at >= len(tokens):
                    raise TemplateError(f"a [ is never closed in {template!r}")
                token = tokens[at]
            parts.append(_Choice(tuple(branches)))
        elif token in ("]", "|"):
            if depth == 0:
                raise TemplateError(f"a {token} outside [ ] in {template!r}")
            return tuple(parts), at
        elif token.startswith("{") and len(token) > 2:
            parts.append(_Slot(token[1:-1]))
        elif token in ("{", "}"):
            raise TemplateError(f"a {token} that is no slot in {template!r}; slots look like {{item}}")
        else:
            parts.append(token)
        at += 1
    return tuple(parts), at


def expand(template: str, rng: random.Random, **slots: str) -> str:
    """Return one expansion of a template, chosen from left to right, with capitals at the starts of sentences.

    Raises:
        KeyError: A slot of the template is not given.
        TemplateError: The template cannot be read.
    """
    return sentence_case(expand_phrase(template, rng, **slots))


def expand_phrase(template: str, rng: random.Random, **slots: str) -> str:
    """Return one expansion of a template, as it stands: for a part of a sentence."""
    out: list[str] = []
    _expand(parse(template), rng, slots, out)
    return _BEFORE_SIGNS.sub("", _BLANKS.sub(" ", "".join(out))).strip()


def _expand(sequence: _Sequence, rng: random.Random, slots: dict[str, str], out: list[str]) -> None:
    for part in sequence:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, _Slot):
            out.append(slots[part.name])
        else:
            # random() is several times faster than choice(), and this is the innermost loop of the offline backend.
            _expand(part.branches[int(rng.random() * len(part.branches))], rng, slots, out)


def sentence_case(text: str) -> str:
    """Return a text with a capital at the start of each sentence."""
    return _SENTENCE_START.sub(lambda match: match[1] + match[2].upper(), text)


def slot_names(template: str) -> set[str]:
    """Return the names of a template's slots."""
    return _slot_names(parse(template))


def _slot_names(sequence: _Sequence) -> set[str]:
    names: set[str] = set()
    for part in sequence:
        if isinstance(part, _Slot):
            names.add(part.name)
        elif isinstance(part, _Choice):
            for branch in part.branches:
                names |= _slot_names(branch)
    return names


@cache
def pattern(template: str) -> re.Pattern[str]:
    """Return a pattern that finds any expansion of a template in a text, whatever stands in its slots.

    This is how a rule-based reader recognises what a template says.
    """
    return re.compile(_regex(parse(template)), re.IGNORECASE)


def named_pattern(template: str, fillings: Mapping[str, Iterable[str]]) -> str:
    """Return the source of a pattern like that of `pattern`, with a group for each slot by its name.

    Args:
        template: No slot of it stands in a choice, or twice.
        fillings: What may fill a slot; a slot that is not named may be filled with anything.
    """
    slots = {name: "|".join(re.escape(text) for text in texts) for name, texts in fillings.items()}
    return _regex(parse(template), slots)


def _regex(sequence: _Sequence, slots: Mapping[str, str] | None = None) -> str:
    parts = []
    for part in sequence:
        if isinstance(part, str):
            # Runs of blanks are collapsed in expansions.
            parts.append(re.sub(r"(\\ )+", " *", re.escape(part)))
        elif isinstance(part, _Slot):
            parts.append(_slot_regex(part.name, slots))
        else:
            # The longest first: where one branch begins like another, as much is read as can be.
            branches = sorted((_regex(branch) for branch in part.branches), key=len, reverse=True)
            parts.append(f"(?:{'|'.join(branches)})")
    return "".join(parts)


ANYTHING: Final = ".{1,200}?"
"""What stands in a pattern for a slot."""


def _slot_regex(name: str, slots: Mapping[str, str] | None) -> str:
    if slots is None:
        return ANYTHING
    # Blanks may be none in a pattern, and a slot is filled with whole words.
    return rf"(?<!\w)(?P<{name}>{slots.get(name, ANYTHING)})(?!\w)"


def may_mention(template: str, phrase: str) -> bool:
    """Say whether some expansion of a template has a phrase as whole words; both in lower case."""
    ends = _walk(parse(template), {("\0", _SOUGHT)}, phrase)
    return any(at in (_FOUND, len(phrase)) for _, at in ends)


_SOUGHT: Final = -1
_FOUND: Final = -2
_Reading = tuple[str, int]  # the last character, and how much of the phrase has been read


def _walk(sequence: _Sequence, states: set[_Reading], phrase: str) -> set[_Reading]:
    for part in sequence:
        if isinstance(part, _Choice):
            states = set[_Reading]().union(*(_walk(branch, states, phrase) for branch in part.branches))
        else:
            for character in part if isinstance(part, str) else "\0":  # what fills a slot is a name of its own
                states = {after for state in states for after in _read(state, character, phrase)}
    return states


def _read(state: _Reading, character: str, phrase: str) -> list[_Reading]:
    last, at = state
    if at == _FOUND or last == character == " ":  # expansions have no double blanks
        return [state]
    if at == len(phrase):
        return [] if character.isalnum() else [(character, _FOUND)]
    if at >= 0:
        return [(character, at + 1)] if phrase[at] == character else []
    begins = phrase[0] == character and not last.isalnum()
    return [(character, _SOUGHT), (character, 1)] if begins else [(character, _SOUGHT)]


def mentions(text: str, phrase: str) -> bool:
    """Say whether a phrase stands in a text as whole words; both in lower case."""
    at = text.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        if (at == 0 or not text[at - 1].isalnum()) and (end == len(text) or not text[end].isalnum()):
            return True
        at = text.find(phrase, at + 1)
    return False


_DETAIL: Final = re.compile(r"<([^<>]*)>")


def without_details(template: str, keeps: Callable[[], bool]) -> str:
    """Return a template without its `<details>`, but for those that are kept.

    Args:
        template: Details are not nested.
        keeps: Is called for each detail, from left to right.
    """
    return _DETAIL.sub(lambda match: match[1] if keeps() else "", template)
