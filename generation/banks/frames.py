"""Frames: sentences that tell what several people do, of whom one or two are spoken of and the others passed over.

`With dinner Ana has {theirs}, and I have {mine}.` One hole says something, the other is filled with a stock phrase
(`something else`). The same words stand around what is the user's and what is not; only where it stands tells.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from generation.banks.model import Slots, Template
from generation.grammar import named_pattern, slot_names


def _readable_back(template: str) -> str:
    fault = f"{template!r}: each hole must stand once, outside brackets"
    try:
        found = re.compile(named_pattern(template, {})).groupindex
    except re.error as error:
        raise ValueError(fault) from error
    if slot_names(template) & {"mine", "theirs", "also"} - found.keys():
        raise ValueError(fault)
    return template


Frame = Annotated[Template, AfterValidator(_readable_back)]
"""A frame from which what fills its holes can be read back."""
Pair = Annotated[Frame, AfterValidator(Slots("mine", "theirs", "person"))]
"""A frame for the user and one other person."""
Three = Annotated[Frame, AfterValidator(Slots("mine", "theirs", "person", "also", "other"))]
"""A frame for the user and two other people; `{also}` goes with `{other}`."""
Turn = Annotated[Frame, AfterValidator(Slots("mine", "theirs"))]
"""A frame for what the user does, and what the user did or meant to do."""


def with_reasons(frame: str) -> str:
    """Return a pair or a turn with a place for a reason after each hole, `{why_mine}` and `{why_theirs}`.

    A reason ends the clause of its hole: `I have gone over to {mine} for walls because {why_mine}, and Ana has …`.
    """
    out: list[str] = []
    hole = ""
    for token in _TOKENS.findall(frame):
        if hole and (clause := _END_OF_CLAUSE.match(token)):
            out += [clause[0].rstrip(), _because(hole), " ", token[clause.end() :]]
            hole = ""
        else:
            out.append(token)
        hole = token[1:-1] if token in _HOLES else hole
    return "".join([*out, _because(hole)] if hole else out)


def _because(hole: str) -> str:
    return f" [because|since] {{why_{hole}}}"


_HOLES: Final = ("{mine}", "{theirs}")
_TOKENS: Final = re.compile(r"\{[a-z]+\}|\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]|[^\[{]+")
# A choice ends a clause if it begins with what leads over to the next.
_END_OF_CLAUSE: Final = re.compile(r"(?=\[(?:[,;]|and\b|while\b))|[^\[]*?(?=[,.;:]|\b(?:and|while)\b)")
