"""What a session tells: events, and beside them what is not the user's.

Where an event is told, the other things that options may assert are told too, in the same session and in the same way:
as somebody else's, as a plan that came to nothing, or as how it was. Which of them is the user's was drawn before, so
neither how often, where nor by whom a thing is spoken of tells; only what is said of it does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.history_records import Offer, Preference, Whose, tried_items, tried_state
from generation.motives import Change
from generation.records import STANCES, Motive, Persona, Telling

_DROPPED_SHARE: Final = 0.2  # of the values that the user never held, those that are told as plans
_PAST_SHARE: Final = 0.5  # of the values that the user held before, those that are told as how it was


class Told(NamedTuple):
    """Something that a session tells, before it has a date.

    Attributes:
        preference: What the event sets; a mention stands beside that event, or speaks of the same.
        subject: As for a `Preference`.
        whose: The user's if it is the event.
        person: Of the user's circle; empty for an event.
        reason: As for an `Event` that is a change; None where no change is told.
        is_held: Whether it is what the user holds, whoever it is told of.
    """

    preference: Preference
    subject: str
    state: str
    whose: Whose
    person: str
    telling: Telling
    reason: str | None = None
    motive: Motive | None = None
    is_held: bool = False


class _Rival(NamedTuple):
    """What stands beside an event."""

    subject: str
    state: str
    whose: Whose = "other"


def tell_value(
    preference: Preference,
    held: Sequence[str],
    telling: Telling,
    persona: Persona,
    rng: random.Random,
    change: Change | None = None,
) -> list[Told]:
    """Tell a value of a slot and the three others that options name; `held` are the user's values so far, in order."""
    rivals = [
        _Rival(preference.subject, value, _whose(value, held[:-1], telling, rng))
        for value in preference.candidates
        if value != held[-1]
    ]
    own = Told(preference, preference.subject, held[-1], "user", "", telling)
    return _beside(own, rivals, persona, rng, change)


def tell_stance(
    preference: Preference,
    stance: str,
    telling: Telling,
    persona: Persona,
    rng: random.Random,
    change: Change | None = None,
) -> list[Told]:
    """Tell the user's stance on an item; others take the opposite one, and both on an item that only they speak of."""
    item = preference.subject
    rivals = [
        _Rival(candidate, other)
        for candidate in preference.candidates
        for other in STANCES
        if (candidate, other) != (item, stance)
    ]
    return _beside(Told(preference, item, stance, "user", "", telling), rivals, persona, rng, change)


def tell_fact(preference: Preference, fact: str, telling: Telling, persona: Persona, rng: random.Random) -> list[Told]:
    """Tell what happened to the user, and three things of the kind that happened to others."""
    rivals = [_Rival(preference.subject, other) for other in preference.candidates if other != fact]
    return _beside(Told(preference, preference.subject, fact, "user", "", telling), rivals, persona, rng)


def tell_trials(
    preference: Preference, tried: str, telling: Telling, persona: Persona, rng: random.Random
) -> list[Told]:
    """Tell of all items but one that the user has tried them; others have tried all but each of the rest."""
    own = tried_items(tried)
    rivals = [
        _Rival("", tried_state(rng.sample(others, len(others))))
        for left_out in own
        if (others := [item for item in preference.candidates if item != left_out])
    ]
    return _beside(Told(preference, "", tried, "user", "", telling), rivals, persona, rng)


def tell_others(
    preference: Preference, held: Sequence[str], telling: Telling, persona: Persona, rng: random.Random
) -> list[Told]:
    """Tell of all values of a slot, none of them as the user's now."""
    rivals = [
        _Rival(preference.subject, value, _whose(value, held[:-1], telling, rng) if value != held[-1] else "other")
        for value in preference.candidates
    ]
    own = Told(preference, preference.subject, held[-1], "user", "", telling)
    told = _beside(own, rivals, persona, rng)[1:]
    return [one._replace(is_held=one.state == held[-1]) for one in told]


def tell_of_others(
    preference: Preference,
    telling: Telling,
    persona: Persona,
    rng: random.Random,
    change: Change | None = None,
) -> list[Told]:
    """Tell four things of others, as they are told beside an event, of something on which the user has no view.

    So that messages that tell no event of the user's look like those that do, and as many.
    """
    if preference.kind == "item":
        rivals = [_Rival(item, stance) for item in preference.candidates for stance in STANCES]
    elif preference.kind == "trial":
        rivals = [
            _Rival("", tried_state(rng.sample(others, len(others))))
            for left_out in preference.candidates
            if (others := [item for item in preference.candidates if item != left_out])
        ]
    else:
        rivals = [_Rival(preference.subject, state) for state in preference.candidates]
    own = Told(preference, preference.subject, STANCES[0], "user", "", telling)
    told = _beside(own, rng.sample(rivals, len(rivals)), persona, rng, change)[1:]
    return [one._replace(is_held=not i) for i, one in enumerate(told)]


def _whose(value: str, before: Sequence[str], telling: Telling, rng: random.Random) -> Whose:
    """Return of whom a value is told; what somebody does shows how things are, not how they were or were to be."""
    if telling == "implied":
        return "other"
    if value in before:
        return "past" if rng.random() < _PAST_SHARE else "other"
    return "dropped" if rng.random() < _DROPPED_SHARE else "other"


def _beside(
    own: Told, rivals: Sequence[_Rival], persona: Persona, rng: random.Random, change: Change | None = None
) -> list[Told]:
    """Return an event and, beside it, what is of different people and, where it is a change, of different motives."""
    own = own._replace(is_held=True)
    people = rng.sample(persona.circle, len(rivals))
    motives: list[Motive | None] = [None] * len(rivals)
    if change is not None:
        if change.motive is not None:
            own = own._replace(motive=change.motive, reason=change.reasons[change.motive])
        others = [motive for motive in change.reasons if motive != change.motive]
        motives = [*rng.sample(others, len(rivals))]

    def reason(rival: _Rival, motive: Motive | None) -> str | None:
        if change is None or motive is None:
            return None
        alike = own.preference.kind != "item" or rival.state == own.state
        return (change.reasons if alike else change.opposite)[motive]

    mentions = [
        Told(
            preference=own.preference,
            subject=rival.subject,
            state=rival.state,
            whose=rival.whose,
            person=person,
            telling=own.telling,
            reason=reason(rival, motive),
            motive=motive,
        )
        for rival, person, motive in zip(rivals, people, motives, strict=True)
    ]
    return [own, *mentions]


def draw_offers(told: Sequence[Told], count: int, rng: random.Random) -> list[Offer]:
    """Draw what the assistant names side by side: all candidates of some preferences that a session speaks of."""
    named = {
        (one.preference.kind, one.preference.candidates): one.preference
        for one in told
        if one.preference.kind != "fact"
    }
    chosen = rng.sample([*named.values()], min(count, len(named)))
    return [
        Offer(
            kind=preference.kind,
            subject=preference.subject if preference.kind == "slot" else "",
            names=tuple(rng.sample(preference.candidates, len(preference.candidates))),
        )
        for preference in chosen
    ]
