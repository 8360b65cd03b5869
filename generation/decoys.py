"""What a user tells of others alone: so messages that tell no event of the user's look like those that do."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from generation.banks.topic import TopicBank
from generation.config import OPTIONS, Config
from generation.history_records import Preference, PreferenceKind
from generation.motives import Reasons
from generation.preference_plans import PreferencePlan, draw_candidates, make_preference
from generation.records import Persona
from generation.tellings import Told, tell_of_others, tell_others

_ITEMS: Final = 2  # of which a group tells, each as liked and as disliked
_TRIES: Final = 12


class Decoys:
    """Groups of things told of others, of each kind about as often as events are of it.

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
        open_to_change = [plan for plan in plans if plan.kind in ("slot", "item")]
        # More often than events are changes: questions are about what changed more than about what did not.
        updates = config.updates_per_topic
        self._changed_share = updates / (updates / 2 + len(open_to_change)) if open_to_change else 0.0
        self._rng = rng
        named = {name for plan in plans for name in plan.preference.candidates}
        self._facts = {kind.id: [f.recalled for f in kind.facts if f.recalled not in named] for kind in bank.facts}
        self._items = [item.phrase for item in bank.items if item.phrase not in named]
        events = [plan.kind for plan in plans for _ in plan.states]
        self._kinds = self._endless(events)
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
            found = (self._preferences(kind, taken) for kind in islice(self._kinds, _TRIES))
            preferences = next((some for some in found if some), None)
            if preferences is None:
                break
            preference = self._rng.choice(preferences)
            taken |= {preference.subject, *preference.candidates}
            groups.append(self._tell(preference, period))
        return groups

    def _endless(self, kinds: Sequence[PreferenceKind]) -> Iterator[PreferenceKind]:
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

    def _tell(self, preference: Preference, period: int) -> list[Told]:
        plan = next((plan for plan in self._plans if plan.preference == preference), None)
        telling = plan.telling if plan else self._rng.choices([*self._config.tellings], self._weights)[0]
        if preference.kind in ("slot", "item") and self._rng.random() < self._changed_share:
            change = self._reasons.of_others(preference)
            return tell_of_others(preference, telling, self._persona, self._rng, change)
        if plan is None or plan.kind != "slot" or plan.periods[0] >= period:
            return tell_of_others(preference, telling, self._persona, self._rng)
        so_far = [state for state, p in zip(plan.states, plan.periods, strict=True) if p < period]
        return tell_others(preference, so_far, telling, self._persona, self._rng)
