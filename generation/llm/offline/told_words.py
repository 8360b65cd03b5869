"""Words for what a session tells: the thing itself, and whose it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from generation.banks.frames import with_reasons
from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.grammar import expand, expand_phrase
from generation.history_records import Whose, tried_items
from generation.request_facts import ToldFacts

# How often the words around a value of the user's own are those that set it against something of this kind: as often as
# such things are told beside it, so that the words say nothing.
_RIVALS: Final[dict[Whose, float]] = {"other": 0.74, "dropped": 0.16, "past": 0.1}
_DATED_SHARE: Final = 0.15  # of the changes, those of which the user says when they came
_THREES_SHARE: Final = 0.75  # of the times when two things could be told in one sentence


class ToldWords:
    """Puts what a session tells into words.

    Args:
        bank: Of the topic.
        banks: What all topics share.
        circle: People of the user.
        rng: Decides.
    """

    def __init__(self, bank: TopicBank, banks: Banks, circle: Sequence[str], rng: random.Random) -> None:
        self._bank = bank
        self._phrases = banks.phrases
        self._circle = circle
        self._rng = rng

    def told(self, told: Sequence[ToldFacts]) -> str:
        """Return the sentences that tell some things of one slot, kind of fact, or kind of stance, in order."""
        rest = list(told)
        sentences: list[str] = []
        while rest:
            frames = self._threes(rest[0])
            if len(rest) > 1 and frames and _both_in_one(rest) and self._rng.random() < _THREES_SHARE:
                sentences.append(self._three(rest[:2], frames))
                rest = rest[2:]
            else:
                sentences += self._one(rest[0])
                rest = rest[1:]
        return " ".join(sentences)

    # --- one thing

    def _one(self, told: ToldFacts) -> list[str]:
        person = told["person"] or self._rng.choice(self._circle)
        rival = self._rival(told)
        sentences = [self._pair(told, self._pairs(told, rival), person)]
        if told["changed"] and self._rng.random() < _DATED_SHARE:
            sentences.append(self._dating(told))
        return sentences

    def _rival(self, told: ToldFacts) -> Whose:
        """Return against what something is set: what is not the user's against what is, and the other way round."""
        if told["whose"] != "user":
            return told["whose"]
        if told["kind"] != "slot" or told["telling"] == "implied":
            return "other"
        return self._rng.choices([*_RIVALS], [*_RIVALS.values()])[0]

    def _pair(self, told: ToldFacts, frames: Sequence[str], person: str) -> str:
        """Return a frame with something in the hole of whose it is, and a stock phrase in the other."""
        frame = self._rng.choice(frames)
        said = [(self._words(told), expand_phrase(self._rng.choice(self._stock(told)), self._rng))]
        names = [("mine", "theirs")]
        if told["changed"]:
            frame = with_reasons(frame)
            said.append((self._reason(told), expand_phrase(self._rng.choice(self._phrases.vague_reasons), self._rng)))
            names.append(("why_mine", "why_theirs"))
        slots = {"person": person}
        for (mine, theirs), (something, nothing) in zip(names, said, strict=True):
            own = told["whose"] == "user"
            slots |= {mine: something if own else nothing, theirs: nothing if own else something}
        return expand(frame, self._rng, **slots)

    def _dating(self, told: ToldFacts) -> str:
        return expand(self._rng.choice(self._phrases.datings), self._rng, when=told["when"])

    # --- two things

    def _three(self, told: Sequence[ToldFacts], frames: Sequence[str]) -> str:
        """Return a sentence that tells two things, of two people, and passes over a third."""
        own = next((one for one in told if one["whose"] == "user"), None)
        others = [one for one in told if one["whose"] != "user"]
        taken = {one["person"] for one in others}
        free = [person for person in self._circle if person not in taken]
        stock = expand_phrase(self._rng.choice(self._stock(told[0])), self._rng)
        spoken = [(one["person"], self._words(one)) for one in others]
        if own is not None:
            spoken.append((self._rng.choice(free), stock))
            self._rng.shuffle(spoken)
        (person, theirs), (other, also) = spoken
        mine = self._words(own) if own is not None else stock
        slots = {"mine": mine, "theirs": theirs, "also": also, "person": person, "other": other}
        return expand(self._rng.choice(frames), self._rng, **slots)

    # --- what the banks have for it

    def _pairs(self, told: ToldFacts, rival: Whose) -> Sequence[str]:
        if told["kind"] == "fact":
            return self._bank.fact_kind(told["subject"]).pairs
        if told["kind"] == "item":
            return self._bank.stances.pairs
        if told["kind"] == "trial":
            return self._phrases.trials.pairs
        tells = self._bank.slot(told["subject"]).tells
        if told["telling"] == "implied":
            return tells.signs
        if rival == "other":
            return tells.changes if told["changed"] else tells.pairs
        return tells.past if rival == "past" else tells.dropped

    def _threes(self, told: ToldFacts) -> Sequence[str]:
        if told["changed"]:
            return ()
        if told["kind"] == "fact":
            return self._bank.fact_kind(told["subject"]).threes
        if told["kind"] == "item":
            return self._bank.stances.threes
        if told["kind"] == "trial":
            return self._phrases.trials.threes
        return () if told["telling"] == "implied" else self._bank.slot(told["subject"]).tells.threes

    def _stock(self, told: ToldFacts) -> Sequence[str]:
        if told["kind"] == "fact":
            return self._bank.fact_kind(told["subject"]).stock
        if told["kind"] == "item":
            return self._bank.stances.stock
        if told["kind"] == "trial":
            return self._phrases.trials.stock
        return self._bank.slot(told["subject"]).tells.stock

    def _words(self, told: ToldFacts) -> str:
        """Return what fills the hole of a frame."""
        words = {"fact": self._fact, "item": self._stance, "trial": self._trial, "slot": self._value}[told["kind"]]
        return words(told)

    def _fact(self, told: ToldFacts) -> str:
        facts = self._bank.fact_kind(told["subject"]).facts
        fact = next(fact for fact in facts if fact.recalled == told["state"])
        text = {"named": fact.told, "paraphrased": fact.retold, "implied": fact.trace}[told["telling"]]
        return expand_phrase(text, self._rng)

    def _stance(self, told: ToldFacts) -> str:
        stances, likes = self._bank.stances, told["state"] == "like"
        if told["telling"] == "implied":
            texts = stances.like_signs if likes else stances.dislike_signs
        elif told["changed"]:
            texts = stances.turned_to if likes else stances.turned_from
        else:
            texts = stances.likes if likes else stances.dislikes
        return expand_phrase(self._rng.choice(texts), self._rng, item=self._item(told["subject"], told))

    def _trial(self, told: ToldFacts) -> str:
        *words, last = [self._item(name, told) for name in tried_items(told["state"])]
        trials = self._phrases.trials
        texts = trials.traces if told["telling"] == "implied" else trials.tries
        return expand_phrase(self._rng.choice(texts), self._rng, items=f"{', '.join(words)} and {last}")

    def _item(self, phrase: str, told: ToldFacts) -> str:
        return phrase if told["telling"] == "named" else self._rng.choice(self._bank.item(phrase).paraphrases)

    def _value(self, told: ToldFacts) -> str:
        slot = self._bank.slot(told["subject"])
        value = next(value for value in slot.values if value.phrase == told["state"])
        if told["telling"] == "named":
            return value.phrase
        return self._rng.choice(value.signs if told["telling"] == "implied" else value.paraphrases)

    def _reason(self, told: ToldFacts) -> str:
        reason = self._bank.reason(told["reason"])
        return reason.told if told["telling"] == "named" else expand_phrase(reason.retold, self._rng)


def _both_in_one(told: Sequence[ToldFacts]) -> bool:
    """Say whether the first two things are of the user or others now, so that one sentence can tell both."""
    first, second = told[:2]
    return {first["whose"], second["whose"]} <= {"user", "other"}
