"""What the options of a question assert, before any text is written.

The four states of a question come from one source. Which of them is right was decided by the timeline's shuffle, so
given the four states alone each is right equally often.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from generation.history_records import Event, Mention, Preference
from generation.records import STANCES, OptionRole


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
    """Return both stances on the item, and both on one of which only others speak."""
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


def course_options(state: PreferenceState) -> list[OptionPlan]:
    """Return the course of a preference, and three other courses of as many steps."""
    true = tuple(event.state for event in state.chain)
    if state.preference.kind == "slot":
        others = _other_courses(true, state.preference.candidates)
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


def _other_courses(true: tuple[str, ...], candidates: Sequence[str]) -> list[tuple[str, ...]]:
    """Return three other courses of as many steps, such that each of the four could as well be the true one.

    At every step each candidate stands in one of the four courses. All are those of a group of permutations, applied to
    the true one, so the four are the same whichever of them is true.
    """
    a, b, c, d = candidates
    swaps = [{a: b, b: a, c: d, d: c}, {a: c, c: a, b: d, d: b}, {a: d, d: a, b: c, c: b}]
    return [tuple(swap[value] for value in true) for swap in swaps]


def reason_options(event: Event, beside: Iterable[Mention], given: Container[str | None]) -> list[OptionPlan]:
    """Return the true reason of a change, and those of the changes of others that are told beside it.

    Some of these the user may have `given` for another change.
    """
    assert event.reason is not None
    others = [
        OptionPlan((mention.reason,), "other" if mention.reason in given else "never")
        for mention in beside
        if mention.reason is not None
    ]
    return [OptionPlan((event.reason,), "current"), *others]


GENERIC: Final = OptionPlan((), "generic")
"""A reply that suits anybody."""


def generic_places(options: Sequence[OptionPlan], count: int, rng: random.Random) -> tuple[int, ...]:
    """Draw the wrong options, by their indices, whose places generic ones take; the first option is right.

    Sorted by what they assert, the options are the elements of the Klein four-group. Those whose difference from the
    right one is drawn are dropped: so questions that share candidates and the generator drop the images of their right
    options under the same permutation. What is left of all of them together are as many whole accounts of the user,
    each of which could as well be the true one: what is missing here tells nothing about what is right there.
    """
    order = sorted(range(len(options)), key=lambda i: options[i].states)
    right = order.index(0)
    return tuple(sorted(order[right ^ step] for step in rng.sample(range(1, len(options)), count)))
