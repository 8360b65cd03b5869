"""Where the reasons of what a frame tells stand in it."""

from __future__ import annotations

import random

import pytest

from generation.banks.frames import with_reasons
from generation.banks.load import load_shipped_banks
from generation.grammar import expand

FILLED = {"mine": "A", "theirs": "B", "person": "Ana", "why_mine": "C", "why_theirs": "D"}


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (
            "I've gone over to {mine}, and {person} to {theirs}.",
            "I've gone over to A because C, and Ana to B because D.",
        ),
        ("It is {theirs} for {person} and {mine} for me.", "It is B for Ana because D and A for me because C."),
        (
            "I used to have {theirs} at noon; now I have {mine}.",
            "I used to have B at noon because D; now I have A because C.",
        ),
        (
            "{person} took {theirs} [at once|at once], [while|while] I took {mine} [now|now].",
            "Ana took B at once because D, while I took A now because C.",
        ),
        ("I took {mine}[, and|, and] {person} took {theirs}.", "I took A because C, and Ana took B because D."),
        (
            "With {mine} I'm content, and {person} with {theirs}",
            "With A I'm content because C, and Ana with B because D",
        ),
    ],
)
def test_a_reason_ends_the_clause_of_its_hole(frame: str, told: str) -> None:
    assert expand(with_reasons(frame), random.Random(0), **FILLED).replace("since", "because") == told


def test_each_hole_of_a_shipped_frame_has_its_reason_before_the_next_hole() -> None:
    for bank in load_shipped_banks().topics.values():
        tells = [slot.tells for slot in bank.slots]
        frames = [frame for one in tells for frame in (*one.changes, *one.past, *one.dropped, *one.signs)]
        for frame in map(with_reasons, [*frames, *bank.stances.pairs]):
            order = sorted(("{mine}", "{why_mine}", "{theirs}", "{why_theirs}"), key=frame.index)
            assert order in (
                ["{mine}", "{why_mine}", "{theirs}", "{why_theirs}"],
                ["{theirs}", "{why_theirs}", "{mine}", "{why_mine}"],
            )
