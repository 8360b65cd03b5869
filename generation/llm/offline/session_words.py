"""Words for sessions: what the user tells, by the way and on purpose, and what the assistant answers."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from generation.banks.life import LifeEvent
from generation.banks.load import Banks
from generation.banks.topic import Talk, TopicBank
from generation.grammar import expand, expand_phrase
from generation.request_facts import EventFacts, LifeEventFacts, SessionFacts
from generation.seeds import rng_for

T = TypeVar("T")

_TALKS_IN_A_PERIOD: Final = 12  # questions about the topic in a session, so that four sessions need no question twice
_YES_OR_NO: Final = re.compile(r"(Yes|No|Not)\b")
_ANNOUNCES: Final = re.compile(r"^(A |An )?([Nn]ews|[Cc]hange|new )|[Tt]here (is|has been) a change|\b[Cc]hanged?\b")
_COLD: Final = re.compile(r"\b(snow|frost|sleet|icicle|frozen|black ice|Christmas|Advent)", re.IGNORECASE)
_HOT: Final = re.compile(r"\b(heatwave|heat wave|swelter|sunburn|scorching|thirty degrees|midsummer)", re.IGNORECASE)
_SMALL_TALK_SHARE: Final = 1 / 3  # at least, of the exchanges that tell nothing


class _Deck(Generic[T]):
    """Draws from a list in random order, and again only when all have been drawn."""

    def __init__(self, entries: Sequence[T], rng: random.Random) -> None:
        self._entries = list(entries)
        self._rng = rng
        self._left: list[T] = []

    def draw(self) -> T:
        if not self._left:
            self._left = self._rng.sample(self._entries, len(self._entries))
        return self._left.pop()


def _in_season(text: str, month: int) -> bool:
    """Say whether a remark about the weather fits a month; the users live in the north."""
    return not (_COLD.search(text) and 5 <= month <= 9) and not (_HOT.search(text) and not 5 <= month <= 9)


class _Exchange(NamedTuple):
    """A user message, the reply, and the events told."""

    user: str
    assistant: str
    event_ids: tuple[str, ...] = ()


def session_reply(facts: SessionFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    """Write a session in the form of `SessionReply`.

    The seed of the run decides which questions fall to which period, so that a user asks none twice.
    """
    exchanges = _Writer(facts, banks, rng, seed).exchanges()
    return {
        "turns": [
            {"user": exchange.user, "assistant": exchange.assistant, "event_ids": list(exchange.event_ids)}
            for exchange in exchanges
        ]
    }


class _Writer:
    """The decks and the state of one session."""

    def __init__(self, facts: SessionFacts, banks: Banks, rng: random.Random, seed: int) -> None:
        self._facts = facts
        self._rng = rng
        self._bank: TopicBank = banks.topics[facts["topic"]]
        self._life = {event.id: event for event in banks.life.events}
        self._phrases = {name: _Deck(getattr(banks.phrases, name), rng) for name in type(banks.phrases).model_fields}
        fields = ("frames", "likes", "dislikes", "followups")
        self._topic = {name: _Deck(getattr(self._bank, name), rng) for name in fields}
        month = dt.date.fromisoformat(facts["date"]).month
        # A small bank may have nothing for the season: then anything is better than nothing.
        colour = [text for text in self._bank.colour if _in_season(text, month)] or self._bank.colour
        self._topic["colour"] = _Deck(colour, rng)
        small_talk = [talk for talk in banks.life.small_talk if _in_season(talk.say, month)]
        self._small_talk = _Deck(small_talk or banks.life.small_talk, rng)
        self._talks = self._talks_of_period(seed)
        self._first = self._last = False  # whether this is the first or the last exchange

    def _talks_of_period(self, seed: int) -> Iterator[Talk]:
        talks = self._bank.talks
        order = rng_for(seed, "talks", self._facts["persona_id"], self._bank.id).sample(talks, len(talks))
        start = self._facts["period_index"] * _TALKS_IN_A_PERIOD
        while True:
            yield order[start % len(order)]
            start += 1

    def exchanges(self) -> list[_Exchange]:
        """Return the exchanges of the session: a greeting, events in order, among them the rest, a farewell."""
        turns = self._facts["turns"]
        kinds = ["event"] * len(self._facts["events"]) + ["life"] * len(self._facts["life"])
        room = turns - len(kinds)
        talks = max(0, min(room - round(room * _SMALL_TALK_SHARE), _TALKS_IN_A_PERIOD - len(self._facts["events"])))
        kinds += ["small talk"] * (room - talks) + ["talk"] * talks
        self._rng.shuffle(kinds)
        events, life = iter(self._facts["events"]), iter(self._facts["life"])
        written: list[_Exchange] = []
        for number, kind in enumerate(kinds, start=1):
            self._first, self._last = number == 1, number == turns
            if kind == "event":
                written.append(self._event(next(events)))
            elif kind == "life":
                written.append(self._life_event(next(life)))
            elif kind == "small talk":
                written.append(self._chat())
            else:
                written.append(self._question())
        last = written[-1]
        written[-1] = last._replace(
            user=f"{last.user} {self._say('closers')}", assistant=f"{last.assistant} {self._say('farewells')}"
        )
        greeting = self._say("greetings", date=self._facts["spoken_date"], name=self._facts["name"].split()[0])
        return [written[0]._replace(user=f"{greeting} {written[0].user}"), *written[1:]]

    def _say(self, deck: str, **slots: str) -> str:
        return expand(self._phrases[deck].draw(), self._rng, **slots)

    def _tell(self, deck: str, **slots: str) -> str:
        return expand(self._topic[deck].draw(), self._rng, **slots)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _answer(self, talk: Talk, personal: bool) -> str:
        parts = [self._say("acknowledgements")] if personal else []
        answer = expand(talk.answer, self._rng)
        if self._chance(0.6) and not _YES_OR_NO.match(answer):
            parts.append(self._say("answer_leads"))
        parts.append(answer)
        if not self._last:  # a farewell follows, to which a question would not fit
            parts.append(self._tell("followups"))
        return " ".join(parts)

    def _lead(self, share: float) -> list[str]:
        """Return an opener now and then; the first exchange begins with the greeting."""
        return [self._say("openers")] if not self._first and self._chance(share) else []

    def _aside(self) -> list[str]:
        """Return a thought about what was told, something else by the way, both, or nothing."""
        thought = [self._say("reflections")] if self._chance(0.5) else []
        return [*thought, self._tell("colour")] if self._chance(0.6) else thought

    def _remark(self) -> list[str]:
        """Return how small talk begins: always with a remark, so that it is never the same twice."""
        return [*self._lead(0.3), self._tell("colour")]

    def _ask(self, talk: Talk) -> str:
        return (
            f"{self._say('pivots')} {expand(talk.ask, self._rng)}" if self._chance(0.8) else expand(talk.ask, self._rng)
        )

    def _event(self, event: EventFacts) -> _Exchange:
        told = {"fact": self._fact, "item": self._item, "slot": self._slot_value}[event["kind"]](event)
        told += self._aside()
        talk = next(self._talks)
        user = " ".join([*told, self._ask(talk)])
        return _Exchange(user, self._answer(talk, personal=True), (event["event_id"],))

    def _fact(self, event: EventFacts) -> list[str]:
        kind = self._bank.fact_kind(event["subject"])
        fact = next(fact for fact in kind.facts if fact.recalled == event["state"])
        return [self._say("fact_leads"), expand(fact.told, self._rng)]

    def _item(self, event: EventFacts) -> list[str]:
        liked = event["state"] == "like"
        if event["changed"]:
            stance = self._say("stance_like_now" if liked else "stance_dislike_now", item=event["subject"])
            return [self._say("update_leads"), *self._with_reason(stance, event)]
        scene = self._tell("frames", item=event["subject"], when=event["when"])
        return [scene, self._tell("likes" if liked else "dislikes")]

    def _slot_value(self, event: EventFacts) -> list[str]:
        slot = self._bank.slot(event["subject"])
        if event["changed"]:
            change = expand(self._rng.choice(slot.update), self._rng, value=event["state"])
            lead = [] if _ANNOUNCES.search(change) else [self._say("update_leads")]
            return [*lead, *self._with_reason(change, event)]
        return [*self._lead(0.6), expand(self._rng.choice(slot.first), self._rng, value=event["state"])]

    def _with_reason(self, change: str, event: EventFacts) -> list[str]:
        reason = next(
            reason
            for reasons in self._bank.reasons.values()
            for reason in reasons
            if reason.recalled == event["reason"]
        )
        because = self._say("reason_leads", reason=expand_phrase(reason.told, self._rng))
        return [change, self._say("datings", when=event["when"]), because]

    def _life_event(self, event: LifeEventFacts) -> _Exchange:
        entry: LifeEvent = self._life[event["subject"]]
        told = expand(self._rng.choice(entry.told), self._rng, when=event["when"])
        user = " ".join([*self._remark(), told, expand(self._rng.choice(entry.asks), self._rng)])
        return _Exchange(user, expand(self._rng.choice(entry.replies), self._rng))

    def _chat(self) -> _Exchange:
        entry = self._small_talk.draw()
        return _Exchange(" ".join([*self._remark(), expand(entry.say, self._rng)]), expand(entry.reply, self._rng))

    def _question(self) -> _Exchange:
        talk = next(self._talks)
        lead = [*self._lead(0.5), self._tell("colour")]
        return _Exchange(" ".join([*lead, self._ask(talk)]), self._answer(talk, personal=False))
