"""What a user holds, tries and has lived through in a topic, and in which sessions it is told.

What a question may name is drawn first, and only then, by a shuffle, which of it is the user's: so nothing but the
history tells the right option from the wrong ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.topic import FactKind, Slot, TopicBank
from generation.config import MAX_UPDATES, OPTIONS, TRIED, Config
from generation.history_records import Preference, PreferenceKind, tried_state
from generation.records import STANCES, Persona, Telling, content_id
from generation.seeds import rng_for
from generation.tokenizer import token_length

_MAX_SPREAD: Final = 3  # tokens between the longest and the shortest candidate of a slot or a fact
_MAX_DRAWS: Final = 100
_EARLY: Final = 2  # states of a slot at most, with which it may come up later than in the first session

# Which candidates (A, B, C; D is never held) a slot holds in turn, by the number of its updates. Returns to an earlier
# value keep a reader from being right by always taking the last value that is new.
_PATTERNS: Final = {0: ("A",), 1: ("AB",), 2: ("ABC", "ABC", "ABA"), 3: ("ABCA", "ABAC", "ABCB")}


class PreferencePlan(NamedTuple):
    """A preference and what becomes of it.

    Attributes:
        states: In order.
        telling: How all of them are told.
        periods: In which they are told.
    """

    preference: Preference
    states: tuple[str, ...]
    telling: Telling
    periods: tuple[int, ...] = ()

    @property
    def kind(self) -> PreferenceKind:
        """The kind of its preference."""
        return self.preference.kind


def draw_plans(config: Config, persona: Persona, bank: TopicBank, rng: random.Random) -> list[PreferencePlan]:
    """Draw a persona's preferences in a topic and how they change."""
    names = [item.phrase for item in bank.items]
    items = iter(rng.sample(names, len(names)))
    slots = _choose_slots(bank.slots, config.slots_per_topic, persona, rng)
    stances = config.items_per_topic - TRIED * config.trial_groups
    updates = _share_updates(config, len(slots), stances, rng)

    def plan(states: Sequence[str], preference: Preference) -> PreferencePlan:
        telling = rng.choices([*config.tellings], [*config.tellings.values()])[0]
        return PreferencePlan(preference, tuple(states), telling)

    plans = []
    for slot, count in zip(slots, updates, strict=False):
        preference, states = _slot_states(persona, bank, slot, count, rng)
        plans.append(plan(states, preference))
    for count in updates[len(slots) :]:
        own, partner = next(items), next(items)
        first = rng.randrange(2)
        states = [STANCES[(first + i) % 2] for i in range(count + 1)]
        plans.append(plan(states, make_preference(persona, bank, "item", own, sorted([own, partner]))))
    for kind in rng.sample(bank.facts, config.facts_per_topic):
        own, candidates = _dealt_fact(config, persona, bank, kind)
        plans.append(plan([own], make_preference(persona, bank, "fact", kind.id, candidates)))
    for _ in range(config.trial_groups):
        group = [next(items) for _ in range(OPTIONS)]
        preference = make_preference(persona, bank, "trial", "", sorted(group))
        plans.append(plan([tried_state(group[:TRIED])], preference))
    return _schedule(plans, config, rng)


def stereotyped(slot: Slot, persona: Persona) -> set[str]:
    """Return the values of a slot that a stereotype ascribes to a persona."""
    groups = persona.groups()
    return {value.phrase for value in slot.values if groups & set(value.stereotype)}


def _choose_slots(slots: Sequence[Slot], count: int, persona: Persona, rng: random.Random) -> list[Slot]:
    """Choose slots at random, but at least one about which there is a stereotype, if the bank has one."""
    order = rng.sample(list(slots), len(slots))
    chosen = order[:count]
    if not any(stereotyped(slot, persona) for slot in chosen):
        chosen[-1:] = [next((slot for slot in order if stereotyped(slot, persona)), chosen[-1])]
    return chosen


def _share_updates(config: Config, slots: int, items: int, rng: random.Random) -> list[int]:
    """Share the updates out over slots, then items; a slot takes one three times as often as an item."""
    most = min(MAX_UPDATES, config.periods - 1)
    counts = [0] * (slots + items)
    weights = [3] * slots + [1] * items
    for _ in range(config.updates_per_topic):
        open_ = [i for i, count in enumerate(counts) if count < most]
        counts[rng.choices(open_, [weights[i] for i in open_])[0]] += 1
    return counts


def _slot_states(
    persona: Persona, bank: TopicBank, slot: Slot, updates: int, rng: random.Random
) -> tuple[Preference, list[str]]:
    # Whatever moves the user, it speaks against none of the four: so a reason fits all of them, and tells none.
    phrases = [value.phrase for value in slot.values if not set(value.against) & set(persona.motives)]
    marked = stereotyped(slot, persona) & set(phrases)
    unmarked = [phrase for phrase in phrases if phrase not in marked]
    if marked and len(unmarked) >= OPTIONS - 1:
        # Exactly one of the four follows a stereotype, and the shuffle below gives it each part equally often.
        candidates = draw_candidates(unmarked, rng, beside=sorted(marked))
    else:
        candidates = draw_candidates(phrases, rng)
    roles = dict(zip("ABCD", rng.sample(candidates, len(candidates)), strict=True))
    states = [roles[letter] for letter in rng.choice(_PATTERNS[updates])]
    return make_preference(persona, bank, "slot", slot.id, candidates), states


def draw_candidates(phrases: Sequence[str], rng: random.Random, beside: Sequence[str] = ()) -> list[str]:
    """Draw four phrases of about equal length, one of them from `beside` if there is any.

    The set is drawn before anything decides which of the four the user holds, so its lengths cannot tell.
    """
    best: list[str] = []
    least = -1
    for _ in range(_MAX_DRAWS):
        drawn = rng.sample(list(phrases), OPTIONS - bool(beside))
        if beside:
            drawn.append(rng.choice(beside))
        lengths = [token_length(phrase) for phrase in drawn]
        spread = max(lengths) - min(lengths)
        if least < 0 or spread < least:
            best, least = drawn, spread
        if spread <= _MAX_SPREAD:
            break
    return sorted(best)


def _dealt_fact(config: Config, persona: Persona, bank: TopicBank, kind: FactKind) -> tuple[str, list[str]]:
    """Return what happened to a user, and four facts of about equal length with it, that one among them.

    Facts are dealt to users in turn, so that of as many users as there are facts none has another's. Users share their
    four with those to whom the other three happened: so of four each is right equally often.
    """
    facts = [fact.recalled for fact in kind.facts]
    groups = len(facts) // OPTIONS
    rounds, place = divmod(persona.persona_id, groups * OPTIONS)
    rng = rng_for(config.seed, "facts", bank.id, kind.id, rounds)
    order = sorted(rng.sample(facts, groups * OPTIONS), key=lambda fact: token_length(fact) + 2 * rng.random())
    group = order[place // OPTIONS * OPTIONS :][:OPTIONS]
    own = rng_for(config.seed, "fact", bank.id, kind.id, rounds, place // OPTIONS).sample(group, OPTIONS)
    return own[place % OPTIONS], sorted(group)


def make_preference(
    persona: Persona, bank: TopicBank, kind: PreferenceKind, subject: str, candidates: Sequence[str]
) -> Preference:
    """Return a preference of a persona in a topic, with its id."""
    return Preference(
        preference_id=content_id("preference", persona.persona_id, bank.id, kind, subject or candidates),
        kind=kind,
        subject=subject,
        candidates=tuple(candidates),
    )


def _schedule(plans: Sequence[PreferencePlan], config: Config, rng: random.Random) -> list[PreferencePlan]:
    """Give each state a period, in order, so that the sessions are about equally full."""
    load = Counter(dict.fromkeys(range(config.periods), 0))
    scheduled = []
    for plan in sorted(plans, key=lambda plan: -len(plan.states)):
        tries = [sorted(rng.sample(range(config.periods), len(plan.states))) for _ in range(8)]
        if plan.kind == "slot" and len(plan.states) > _EARLY:  # what changes much is there from the start
            tries = [[0, *t[1:]] if len(set(t) - {0}) >= len(t) - 1 else t for t in tries]
        periods = min(tries, key=lambda t: sum(load[period] ** 2 for period in t) / len(t))
        if len(plan.states) == 1 and plan.kind != "slot":
            periods = [min(load, key=lambda period: load[period])]
        load.update(periods)
        scheduled.append(plan._replace(periods=tuple(periods)))
    fits = config.turns_per_thread * max(load.values()) <= config.turns_per_session.min
    return scheduled if fits else _schedule_evenly(scheduled, config, rng)


def _schedule_evenly(plans: Sequence[PreferencePlan], config: Config, rng: random.Random) -> list[PreferencePlan]:
    """Give each state one of the emptiest periods: no session then tells two states more than another."""
    load = Counter(dict.fromkeys(range(config.periods), 0))
    scheduled = []
    for plan in plans:
        order = sorted(load, key=lambda period: (load[period], rng.random()))
        periods = sorted(order[: len(plan.states)])
        load.update(periods)
        scheduled.append(plan._replace(periods=tuple(periods)))
    return scheduled
