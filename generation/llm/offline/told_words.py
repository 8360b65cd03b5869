"""Words for what a session tells: the thing itself, and whose it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from generation.banks.attributions import Rival
from generation.banks.load import Banks
from generation.banks.topic import Reason, TopicBank
from generation.grammar import expand, expand_phrase, sentence_case
from generation.history_records import Whose, tried_items
from generation.request_facts import ToldFacts

# How often the words around a value of the user's own are those that set it against a rival of this kind: as often as
# such rivals occur, so that the words say nothing.
_VALUE_RIVALS: Final[dict[Rival, float]] = {"other": 0.74, "dropped": 0.16, "past": 0.1}


class ToldWords:
    """Puts what a session tells into words.

    Args:
        bank: Of the topic.
        banks: What all topics share.
        circle: People of the user.
        say: Draws a sentence of the bank of phrases, with its slots filled.
        tell: Draws one of the bank of the topic.
        rng: Decides.
    """

    def __init__(
        self,
        bank: TopicBank,
        banks: Banks,
        circle: list[str],
        say: Callable[..., str],
        tell: Callable[..., str],
        rng: random.Random,
    ) -> None:
        self._bank = bank
        self._attributions = banks.attributions
        self._circle = circle
        self._say = say
        self._tell = tell
        self._rng = rng

    def told(self, told: ToldFacts) -> str:
        """Return a thing told, with the words that say whose it is."""
        core = self._core(told)
        person = told["person"] or self._rng.choice(self._circle)
        return self._attributions.tell(core, told["whose"], person, self._rival(told), self._rng)

    def own(self, text: str) -> str:
        """Return a text of the user's own, with the words that stand around what is told."""
        return self._attributions.tell(text, "user", self._rng.choice(self._circle), "other", self._rng)

    def _rival(self, told: ToldFacts) -> Rival:
        whose: Whose = told["whose"]
        if whose != "user":
            return whose
        if told["kind"] != "slot":
            return "other"
        return self._rng.choices([*_VALUE_RIVALS], [*_VALUE_RIVALS.values()])[0]

    def _core(self, told: ToldFacts) -> str:
        sentences = {"fact": self._fact, "item": self._item, "trial": self._trial, "slot": self._value}[told["kind"]]
        return " ".join(sentences(told))

    def _fact(self, told: ToldFacts) -> list[str]:
        facts = self._bank.fact_kind(told["subject"]).facts
        fact = next(fact for fact in facts if fact.recalled == told["state"])
        text = {"named": fact.told, "paraphrased": fact.retold, "implied": fact.trace}[told["telling"]]
        return [expand(text, self._rng)]

    def _item(self, told: ToldFacts) -> list[str]:
        likes, implied = told["state"] == "like", told["telling"] == "implied"
        item = told["subject"]
        if told["telling"] != "named":
            item = self._rng.choice(self._bank.item(item).paraphrases)
        if told["changed"] and not implied:
            stance = self._say("stance_like_now" if likes else "stance_dislike_now", item=item)
            return [stance, self._dated(told), self._because(told)]
        scene = self._tell("frames", item=item, when=told["when"])
        if implied:
            deed = self._say("deeds_of_liking" if likes else "deeds_of_disliking")
            return [scene, deed, *([self._because(told)] if told["changed"] else [])]
        return [scene, self._tell("likes" if likes else "dislikes")]

    def _trial(self, told: ToldFacts) -> list[str]:
        items = [self._bank.item(name) for name in tried_items(told["state"])]
        named = told["telling"] == "named"
        *words, last = [item.phrase if named else self._rng.choice(item.paraphrases) for item in items]
        listed = f"{', '.join(words)} and {last}"
        return [self._say("trial_traces" if told["telling"] == "implied" else "trials", items=listed)]

    def _value(self, told: ToldFacts) -> list[str]:
        slot = self._bank.slot(told["subject"])
        value = next(value for value in slot.values if value.phrase == told["state"])
        if told["telling"] == "implied":
            shown = expand(self._rng.choice(slot.shown), self._rng, sign=self._rng.choice(value.signs))
            return [shown, *([self._because(told)] if told["changed"] else [])]
        words = value.phrase if told["telling"] == "named" else self._rng.choice(value.paraphrases)
        if not told["changed"]:
            return [expand(self._rng.choice(slot.first), self._rng, value=words)]
        change = expand(self._rng.choice(slot.update), self._rng, value=words)
        return [change, self._dated(told), self._because(told)]

    def _dated(self, told: ToldFacts) -> str:
        return self._say("datings", when=told["when"])

    def _because(self, told: ToldFacts) -> str:
        """Return the reason of a change; where nothing is spoken out, as something that happened."""
        reason = self._reason(told["reason"])
        if told["telling"] == "implied":
            return f"{sentence_case(expand_phrase(reason.retold, self._rng))}."
        text = reason.told if told["telling"] == "named" else reason.retold
        return self._say("reason_leads", reason=expand_phrase(text, self._rng))

    def _reason(self, recalled: str) -> Reason:
        reasons = (reason for reasons in self._bank.reasons.values() for reason in reasons)
        return next(reason for reason in reasons if reason.recalled == recalled)
