"""What the options of a question assert, before any text is written.

The four states of a question come from one source. Which of them is right was decided by the timeline's shuffle, so
given the four states alone each is right equally often.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import NamedTuple

from generation.banks.topic import TopicBank
from generation.records import STANCES, Event, Motive, OptionRole, Persona, Preference


class OptionPlan(NamedTuple):
    """What one option asserts, and how that stands to the history."""

    states: tuple[str, ...]
    role: OptionRole
    stereotypical: bool = False


class PreferenceState(NamedTuple):
    """A preference as it stands after the last event of a chain."""

    preference: Preference
    chain: list[Event]

    @property
    def current(self) -> str:
        """What holds after that event."""
        return self.chain[-1].state


def value_options(state: PreferenceState, marked: Iterable[str] = ()) -> list[OptionPlan]:
    """Return the value that holds and the other candidates of a slot; those `marked` follow a stereotype."""
    held = {event.state for event in state.chain}
    options = [OptionPlan((state.current,), "current", state.current in marked)]
    for value in state.preference.candidates:
        if value != state.current:
            options.append(OptionPlan((value,), "outdated" if value in held else "never", value in marked))
    return options


def stance_options(state: PreferenceState) -> list[OptionPlan]:
    """Return both stances on the item, and both on one that the user never mentions."""
    item = state.preference.subject
    options = [OptionPlan((stance_state(state.current, item),), "current")]
    for candidate in state.preference.candidates:
        for stance in STANCES:
            if (candidate, stance) != (item, state.current):
                role: OptionRole = "outdated" if candidate == item and len(state.chain) > 1 else "never"
                options.append(OptionPlan((stance_state(stance, candidate),), role))
    return options


def stance_state(stance: str, item: str) -> str:
    """Return how a stance on an item is recorded: `like: night trains`."""
    return f"{stance}: {item}"


def course_options(state: PreferenceState, rng: random.Random) -> list[OptionPlan]:
    """Return the course of a preference, and three other courses of as many steps."""
    true = tuple(event.state for event in state.chain)
    if state.preference.kind == "slot":
        others = _other_courses(true, state.preference.candidates, rng)
    else:
        item = state.preference.subject
        course = [true, tuple(STANCES[1 - STANCES.index(stance)] for stance in true)]
        accounts = [
            tuple(stance_state(stance, candidate) for stance in stances)
            for candidate in state.preference.candidates
            for stances in course
        ]
        true = tuple(stance_state(event.state, item) for event in state.chain)
        others = [account for account in accounts if account != true]
    return [OptionPlan(true, "current"), *(OptionPlan(account, "never") for account in others)]


def _other_courses(true: tuple[str, ...], candidates: Sequence[str], rng: random.Random) -> list[tuple[str, ...]]:
    """Return three other courses of as many steps, such that each of the four could as well be the true one."""
    held = list(dict.fromkeys(true))
    pairs: list[tuple[str, ...]]
    if len(held) == 2:
        # Both orders of the two values, and both of the two that were not held: all four candidates occur alike.
        first, second = rng.sample([value for value in candidates if value not in held], 2)
        pairs = [(held[0], held[1]), (held[1], held[0]), (first, second), (second, first)]
    else:
        pairs = list(permutations(held, len(held)))
    courses = [tuple(pair[held.index(value)] for value in true) for pair in pairs]
    wrong = [course for course in courses if course != true]
    return rng.sample(wrong, 3)


def reason_options(
    persona: Persona, bank: TopicBank, event: Event, updates: Sequence[Event], rng: random.Random
) -> list[OptionPlan]:
    """Return the true reason, one of another motive of the user's, and two of motives that they never show.

    So each motive occurs in half of a user's questions, and how often it does tells nothing. The reason of another
    motive is that of another change where the user has told one.
    """
    assert event.reason is not None
    given = {update.reason for update in updates}
    told: dict[Motive, list[str]] = {}
    for other in updates:
        if other.period <= event.period and other.motive is not None and other.reason is not None:
            told.setdefault(other.motive, []).append(other.reason)
    free = {motive: [r.recalled for r in rs if r.recalled not in given] for motive, rs in bank.reasons.items()}
    own = [m for m in (persona.motive, *persona.secondary_motives) if m != event.motive and (m in told or free[m])]
    options = [OptionPlan((event.reason,), "current")]
    if own:
        motive = rng.choice(own)
        if motive in told:
            options.append(OptionPlan((rng.choice(told[motive]),), "other"))
        else:
            options.append(OptionPlan((rng.choice(free[motive]),), "never"))
    for foreign in rng.sample(persona.absent_motives(), 4 - len(options)):
        options.append(OptionPlan((rng.choice(free[foreign]),), "never"))
    return options
