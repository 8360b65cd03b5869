"""A rule-based reader: it sees the evidence messages, the texts of the options, and the words of the banks.

It sees no record of what happened and no state of an option: what it knows of the user it has read. If it answers every
question, then the evidence suffices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.grammar import mentions, pattern
from generation.option_plans import stance_state
from generation.records import STANCES, Motive

Evidence = Sequence[tuple[str, str]]
"""The evidence messages in order, each with the topic of its session."""

STATE_TYPES: Final = (
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "provide_preference_aligned_recommendations",
)
"""Types whose options assert states of one preference."""

_STEP_STANCES: Final = {"a pleasure": "like", "a burden": "dislike"}
_STEPS: Final = re.compile("|".join(_STEP_STANCES))


class EvidenceReader:
    """Reads messages and options with the words of the banks.

    What it reads has the form of `option_states`: values, `like: item`, facts, reasons, motives.

    Args:
        banks: Those the questions were made with.
    """

    def __init__(self, banks: Banks) -> None:
        self._banks = banks
        self._advice = {scenario.domain: scenario.options for scenario in banks.scenarios.scenarios}
        # Many questions share a message.
        self._state = cache(self._read_state)
        self._reasons = cache(self._read_reasons)

    def knows(self, question_type: str, topic: str, evidence: Evidence) -> bool:
        """Say whether there are banks for all that a question speaks of."""
        # A new scenario lies outside all topics; a message of an unknown topic has it instead.
        own = [topic] if question_type == "generalize_to_new_scenarios" else []
        topics = self._banks.topics
        return (topic in self._advice if own else topic in topics) and all(t in topics or t in own for _, t in evidence)

    def recognises(self, topic: str, message: str) -> bool:
        """Say whether the user's message that asks a question is one of the banks' own."""
        return any(pattern(template).match(message) for template in self._queries(topic))

    def answer(self, question_type: str, topic: str, options: Sequence[str], evidence: Evidence) -> int | None:
        """Return the index of the option that answers a question by its evidence, None if the reader cannot decide."""
        if not self.knows(question_type, topic, evidence):
            return None
        told = self.told(question_type, evidence)
        chosen = [
            i
            for i, option in enumerate(options)
            if holds(question_type, self._asserted(question_type, topic, option), told)
        ]
        return chosen[0] if len(chosen) == 1 else None

    def told(self, question_type: str, evidence: Evidence) -> tuple[str, ...]:
        """Return what the evidence says about a question of a type; all its topics have banks."""
        if question_type == "recall_user_shared_facts":
            return tuple(fact for text, topic in evidence for fact in self._facts(text, topic))
        if question_type == "suggest_new_ideas":
            return tuple(item for text, topic in evidence for item in _items(text, self._banks.topics[topic]))
        if question_type == "revisit_reasons_behind_preference_updates":
            return tuple(reason for text, topic in evidence for reason, _ in self._reasons(text, topic))
        if question_type == "generalize_to_new_scenarios":
            counts = Counter(motive for text, topic in evidence for _, motive in self._reasons(text, topic))
            return tuple(motive for motive, _ in counts.most_common(1))
        course = self.course(evidence)
        return course if question_type == "track_full_preference_evolution" else course[-1:]

    def course(self, evidence: Evidence) -> tuple[str, ...]:
        """Return the states that messages tell one after the other; nothing if one of them tells none, or several."""
        states = [self._state(text, topic) for text, topic in evidence]
        return tuple(state for state in states if state is not None) if None not in states else ()

    def _queries(self, topic: str) -> list[str]:
        if topic in self._advice:
            return [text for s in self._banks.scenarios.scenarios if s.domain == topic for text in s.messages]
        if topic not in self._banks.topics:
            return []
        answers = self._banks.answers
        own = [text for where, text, _ in self._banks.topics[topic].templates() if where.endswith(("queries", "again"))]
        return [*own, *answers.item_again, *answers.item_evolution_queries]

    def _read_state(self, text: str, topic: str) -> str | None:
        bank = self._banks.topics[topic]
        items, values = _items(text, bank), _in_order(text, _values(bank))
        if len(items) + len(set(values)) != 1:
            return None
        if values:
            return values[0]
        phrases = self._banks.phrases
        likes = any(pattern(t).search(text) for t in [*bank.likes, *phrases.stance_like_now])
        dislikes = any(pattern(t).search(text) for t in [*bank.dislikes, *phrases.stance_dislike_now])
        return None if likes == dislikes else stance_state("like" if likes else "dislike", items[0])

    def _facts(self, text: str, topic: str) -> list[str]:
        kinds = self._banks.topics[topic].facts
        return [fact.recalled for kind in kinds for fact in kind.facts if pattern(fact.told).search(text)]

    def _read_reasons(self, text: str, topic: str) -> list[tuple[str, Motive]]:
        """Return the reasons that a message gives, as they are recalled, with what they show."""
        topics = self._banks.topics
        return [
            (reason.recalled, motive)
            for bank in ([topics[topic]] if topic in topics else topics.values())
            for motive, reasons in bank.reasons.items()
            for reason in reasons
            if pattern(reason.told).search(text)
        ]

    def _asserted(self, question_type: str, topic: str, option: str) -> tuple[str, ...]:
        """Return what an option asserts; nothing if that cannot be read."""
        lower = option.lower()
        if question_type == "generalize_to_new_scenarios":
            return tuple(motive for motive, advice in self._advice[topic].items() if advice.lower() in lower)
        bank = self._banks.topics[topic]
        if question_type == "recall_user_shared_facts":
            facts = (fact.recalled for kind in bank.facts for fact in kind.facts)
            return tuple(fact for fact in facts if fact.lower() in lower)
        if question_type == "revisit_reasons_behind_preference_updates":
            recalled = (reason.recalled for reasons in bank.reasons.values() for reason in reasons)
            return tuple(reason for reason in recalled if reason.lower() in lower)
        if question_type == "provide_preference_aligned_recommendations":
            values = (value for slot in bank.slots for value in slot.values)
            return tuple(value.phrase for value in values if any(text.lower() in lower for text in value.recommend))
        items = _items(option, bank)
        if question_type == "suggest_new_ideas":
            return tuple(items)
        if not items:
            return tuple(_in_order(option, _values(bank)))
        if question_type == "track_full_preference_evolution":
            return tuple(stance_state(_STEP_STANCES[words], items[0]) for words in _STEPS.findall(lower))
        stances = self._banks.answers.stances
        likes = any(pattern(pair.like).search(option) for pair in stances)
        dislikes = any(pattern(pair.dislike).search(option) for pair in stances)
        return () if likes == dislikes else (stance_state("like" if likes else "dislike", items[0]),)


def holds(question_type: str, asserted: Sequence[str], told: Sequence[str]) -> bool:
    """Say whether an option answers a question: what it asserts in order, against what the evidence told in order."""
    if not asserted:
        return False
    if question_type == "suggest_new_ideas":
        return set(asserted).isdisjoint(told)
    if question_type in ("recall_user_shared_facts", "revisit_reasons_behind_preference_updates"):
        return not set(asserted).isdisjoint(told)
    return list(asserted) == list(told)


def subject(state: str) -> str:
    """Return what a state speaks of: the item of a stance, or the value."""
    stance, colon, item = state.partition(": ")
    return item if colon and stance in STANCES else state


def _items(text: str, bank: TopicBank) -> list[str]:
    lower = text.lower()
    return [item for item in bank.items if mentions(lower, item.lower())]


def _values(bank: TopicBank) -> list[str]:
    return [value.phrase for slot in bank.slots for value in slot.values]


def _in_order(text: str, phrases: Sequence[str]) -> list[str]:
    """Return the phrases that stand in a text, in the order in which they stand there, repeats included."""
    lower = text.lower()
    found = []
    for phrase in phrases:
        if phrase.lower() in lower:
            places = re.finditer(rf"(?<!\w){re.escape(phrase.lower())}(?!\w)", lower)
            found += [(match.start(), phrase) for match in places]
    return [phrase for _, phrase in sorted(found)]
