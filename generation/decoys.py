"""What a user tells of others alone: so messages that tell no event of the user's look like those that do."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from generation.banks.topic import TopicBank
from generation.config import OPTIONS, Config
from generation.history_records import Preference, PreferenceKind
from generation.motives import Reasons
from generation.preference_plans import PreferencePlan, draw_candidates, make_preference
from generation.records import Persona
from generation.tellings import Told, tell_of_others, tell_others

_ITEMS: Final = 2  # of which a group tells, each as liked and as disliked
_TRIES: Final = 80


class _Kind(NamedTuple):
    """A kind of what is told, and whether a change is told of it."""

    of: PreferenceKind
    changed: bool


def _as_asked(plan: PreferencePlan) -> list[_Kind]:
    """Return kinds like those of a plan's events, the more of each, the likelier a question is to ask for it.

    Of what changed, of facts and of what was tried most is asked; of how a slot was at first less; of a stance that
    never changed next to nothing.
    """
    weights = {"slot": (2, 6), "item": (0, 1), "fact": (1, 0), "trial": (1, 0)}
    first, later = weights[plan.kind]
    return [_Kind(plan.kind, changed=False)] * first + [_Kind(plan.kind, changed=True)] * later * (len(plan.states) - 1)


class Decoys:
    """Groups of things told of others, of each kind about as often as what questions ask for is of it.

    Most are of what questions are about, all that options name alike; facts are others, since a story is told once.

    Args:
        config: Of the run.
        persona: The user.
        bank: Of the topic.
        plans: What the user has a view on.
        reasons: Of the topic.
        rng: Decides.
    """

    def __init__(
        self,
        config: Config,
        persona: Persona,
        bank: TopicBank,
        plans: Sequence[PreferencePlan],
        reasons: Reasons,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._persona = persona
        self._bank = bank
        self._plans = plans
        self._reasons = reasons
        self._rng = rng
        named = {name for plan in plans for name in plan.preference.candidates}
        self._facts = {kind.id: [f.recalled for f in kind.facts if f.recalled not in named] for kind in bank.facts}
        self._items = [item.phrase for item in bank.items if item.phrase not in named]
        self._kinds = self._endless([kind for plan in plans for kind in _as_asked(plan)])
        self._weights = [*config.tellings.values()]

    def of_session(self, count: int, period: int, told: Iterable[Told]) -> list[list[Told]]:
        """Return what up to so many stretches of chat of a session tell of others.

        Args:
            count: Of stretches.
            period: Of the session.
            told: What the session tells already: no two stretches tell of the same.
        """
        groups: list[list[Told]] = []
        taken = {name for one in told for name in (one.preference.subject, *one.preference.candidates)}
        for _ in range(count):
            found = ((kind, self._preferences(kind.of, taken)) for kind in islice(self._kinds, _TRIES))
            kind, preferences = next((some for some in found if some[1]), (None, []))
            if kind is None:
                break
            preference = self._rng.choice(preferences)
            taken |= {preference.subject, *preference.candidates}
            groups.append(self._tell(preference, period, kind.changed))
        return groups

    def _endless(self, kinds: Sequence[_Kind]) -> Iterator[_Kind]:
        while kinds:
            yield from self._rng.sample(kinds, len(kinds))

    def _preferences(self, kind: PreferenceKind, taken: set[str]) -> list[Preference]:
        """Return of what of a kind a session may tell; for a fact, of which four others it is drawn."""
        if kind == "fact":
            open_ = [
                (subject, facts)
                for subject, facts in self._facts.items()
                if subject not in taken and len(facts) >= OPTIONS
            ]
            return [self._make(kind, subject, draw_candidates(facts, self._rng)) for subject, facts in open_]
        own = [plan.preference for plan in self._plans if plan.kind == kind]
        free = [preference for preference in own if not taken & {preference.subject, *preference.candidates} - {""}]
        return free or self._unasked(kind, taken)

    def _unasked(self, kind: PreferenceKind, taken: set[str]) -> list[Preference]:
        """Return something that no question is about."""
        if kind == "slot":
            known = {plan.preference.subject for plan in self._plans}
            slots = [slot for slot in self._bank.slots if slot.id not in known | taken]
            return [
                self._make(kind, slot.id, draw_candidates([value.phrase for value in slot.values], self._rng))
                for slot in slots
            ]
        count = _ITEMS if kind == "item" else OPTIONS
        free = [item for item in self._items if item not in taken]
        if len(free) < count:
            return []
        candidates = sorted(self._rng.sample(free, count))
        return [self._make(kind, candidates[0] if kind == "item" else "", candidates)]

    def _make(self, kind: PreferenceKind, subject: str, candidates: Sequence[str]) -> Preference:
        return make_preference(self._persona, self._bank, kind, subject, candidates)

    def _tell(self, preference: Preference, period: int, changed: bool) -> list[Told]:
        plan = next((plan for plan in self._plans if plan.preference == preference), None)
        telling = plan.telling if plan else self._rng.choices([*self._config.tellings], self._weights)[0]
        if changed:
            change = self._reasons.of_others(preference)
            return tell_of_others(preference, telling, self._persona, self._rng, change)
        if plan is None or plan.kind != "slot" or plan.periods[0] >= period:
            return tell_of_others(preference, telling, self._persona, self._rng)
        so_far = [state for state, p in zip(plan.states, plan.periods, strict=True) if p < period]
        return tell_others(preference, so_far, telling, self._persona, self._rng)
