"""A rule-based reader: it sees the evidence messages, the user's message and the four options, and the banks' words.

It sees no record of what happened and no state of an option: what it knows of the user it has read. If it answers every
question, then the evidence suffices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.grammar import mentions, pattern
from generation.records import Motive, Question

_STANCE_WORDS = re.compile(r"a pleasure|a burden")


class Read(NamedTuple):
    """What one message was found to say."""

    items: dict[str, str | None]  # each item mentioned, and the stance on it if the message has one
    values: list[str]
    facts: list[str]  # as they are recalled
    reasons: list[tuple[str, Motive]]  # as they are recalled


class EvidenceReader:
    """Reads messages and options with the words of the banks.

    Args:
        banks: The banks of the run.
    """

    def __init__(self, banks: Banks) -> None:
        self._banks = banks
        self._scenarios = {scenario.id: scenario for scenario in banks.scenarios.scenarios}

    def answer(self, question: Question, evidence: Sequence[tuple[str, str]]) -> int | None:
        """Answer a question from its evidence.

        Args:
            question: Of which only the message, the type and the texts of the options are read.
            evidence: The evidence messages in order of time, each with the topic of its session.

        Returns:
            The index of the option chosen, None if the reader cannot decide.
        """
        reads = [self._read(text, self._banks.topics[topic]) for topic, text in evidence]
        options = [option.text for option in question.options]
        chosen = [i for i, text in enumerate(options) if self._fits(question.question_type, question, text, reads)]
        return chosen[0] if len(chosen) == 1 else None

    def _read(self, text: str, bank: TopicBank) -> Read:
        lower = text.lower()
        phrases = self._banks.phrases
        likes = any(pattern(t).search(text) for t in [*bank.likes, *phrases.stance_like_now])
        dislikes = any(pattern(t).search(text) for t in [*bank.dislikes, *phrases.stance_dislike_now])
        stance = None if likes == dislikes else "like" if likes else "dislike"
        return Read(
            items={item: stance for item in bank.items if mentions(lower, item.lower())},
            values=[v.phrase for slot in bank.slots for v in slot.values if mentions(lower, v.phrase.lower())],
            facts=[f.recalled for kind in bank.facts for f in kind.facts if pattern(f.told).search(text)],
            reasons=[
                (reason.recalled, motive)
                for motive, reasons in bank.reasons.items()
                for reason in reasons
                if pattern(reason.told).search(text)
            ],
        )

    def _fits(self, question_type: str, question: Question, option: str, reads: list[Read]) -> bool:
        lower = option.lower()
        if question_type == "recall_user_shared_facts":
            return any(fact.lower() in lower for read in reads for fact in read.facts)
        if question_type == "suggest_new_ideas":
            return not any(mentions(lower, item.lower()) for read in reads for item in read.items)
        if question_type == "revisit_reasons_behind_preference_updates":
            return any(reason.lower() in lower for reason, _ in reads[-1].reasons)
        if question_type == "generalize_to_new_scenarios":
            counts = Counter(motive for read in reads for _, motive in read.reasons)
            [(motive, _), *_] = counts.most_common(1) or [(None, 0)]
            return motive is not None and self._scenarios[question.subject].options[motive].lower() in lower
        return self._state_fits(question_type, self._banks.topics[question.topic], option, reads)

    def _state_fits(self, question_type: str, bank: TopicBank, option: str, reads: list[Read]) -> bool:
        """Decide about options that assert states: values, or stances on an item."""
        lower = option.lower()
        courses = [[value for value in read.values] for read in reads]
        if all(len(values) == 1 for values in courses):
            course = [values[0] for values in courses]
            if question_type == "provide_preference_aligned_recommendations":
                value = next(v for slot in bank.slots for v in slot.values if v.phrase == course[-1])
                return any(text.lower() in lower for text in value.recommend)
            asserted = _in_order(lower, [v.phrase for slot in bank.slots for v in slot.values])
            return asserted == (course if question_type == "track_full_preference_evolution" else course[-1:])
        items = {item for read in reads for item in read.items}
        item = next((item for item in items if mentions(lower, item.lower())), None)
        stances = [read.items.get(item) for read in reads if item in read.items]
        if item is None or not stances:
            return False
        if question_type == "track_full_preference_evolution":
            words = ["like" if word == "a pleasure" else "dislike" for word in _STANCE_WORDS.findall(lower)]
            return words == stances
        return self._stance_of(option) == stances[-1]

    def _stance_of(self, option: str) -> str | None:
        likes = any(pattern(pair.like).search(option) for pair in self._banks.answers.stances)
        dislikes = any(pattern(pair.dislike).search(option) for pair in self._banks.answers.stances)
        return None if likes == dislikes else "like" if likes else "dislike"


def _in_order(text: str, phrases: Sequence[str]) -> list[str]:
    """Return the phrases that stand in a text, in the order in which they stand there, repeats included."""
    found = []
    for phrase in phrases:
        for match in re.finditer(rf"(?<!\w){re.escape(phrase.lower())}(?!\w)", text):
            found.append((match.start(), phrase))
    return [phrase for _, phrase in sorted(found)]
