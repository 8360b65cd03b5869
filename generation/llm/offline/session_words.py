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
from generation.content_words import unwanted_names
from generation.grammar import expand
from generation.llm.offline.told_words import ToldWords
from generation.request_facts import LifeEventFacts, SessionFacts, ToldFacts
from generation.seeds import rng_for

T = TypeVar("T")

_TALKS_IN_A_PERIOD: Final = 12  # questions about the topic in a session, so that four sessions need no question twice
_YES_OR_NO: Final = re.compile(r"(Yes|No|Not)\b")
_COLD: Final = re.compile(r"\b(snow|frost|sleet|icicle|frozen|black ice|Christmas|Advent)", re.IGNORECASE)
_HOT: Final = re.compile(r"\b(heatwave|heat wave|swelter|sunburn|scorching|thirty degrees|midsummer)", re.IGNORECASE)
_TRIES: Final = 10
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
    """A user message, the reply, and what the message tells."""

    user: str
    assistant: str
    told_ids: tuple[str, ...] = ()


def session_reply(facts: SessionFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    """Write a session in the form of `SessionReply`.

    The seed of the run decides which questions fall to which period, so that a user asks none twice.
    """
    exchanges = _Writer(facts, banks, rng, seed).exchanges()
    return {
        "turns": [
            {"user": exchange.user, "assistant": exchange.assistant, "told_ids": list(exchange.told_ids)}
            for exchange in exchanges
        ]
    }


class _Writer:
    """The decks and the state of one session.

    Nothing but what is told differs between a message that tells an event and one that does not: leads, asides,
    questions and replies are drawn without a look at it.
    """

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
        self._words = ToldWords(self._bank, banks, facts["circle"], self._say, self._tell, rng)

    def _talks_of_period(self, seed: int) -> Iterator[Talk]:
        talks = self._bank.talks
        order = rng_for(seed, "talks", self._facts["persona_id"], self._bank.id).sample(talks, len(talks))
        start = self._facts["period_index"] * _TALKS_IN_A_PERIOD
        while True:
            yield order[start % len(order)]
            start += 1

    def exchanges(self) -> list[_Exchange]:
        """Return the exchanges of the session: a greeting, what is told in order, life events among it, a farewell."""
        turns = self._facts["turns"]
        told = self._parts(turns - len(self._facts["life"]))
        bodies: list[Sequence[ToldFacts] | LifeEventFacts] = [*self._facts["life"]]
        self._rng.shuffle(bodies)
        for place, part in zip(sorted(self._rng.sample(range(turns), len(told))), told, strict=True):
            bodies.insert(place, part)
        asks = self._asks(len(told))
        offers = self._offers(len(bodies))
        written: list[_Exchange] = []
        for number, (body, offer) in enumerate(zip(bodies, offers, strict=True), start=1):
            last = number == turns
            exchange = self._life_event(body) if isinstance(body, dict) else self._message(body, next(asks), last)
            written.append(exchange._replace(assistant=" ".join([exchange.assistant, *offer])))
        last_one = written[-1]
        written[-1] = last_one._replace(
            user=f"{last_one.user} {self._say('closers')}", assistant=f"{last_one.assistant} {self._say('farewells')}"
        )
        greeting = self._say("greetings", date=self._facts["spoken_date"], name=self._facts["name"].split()[0])
        return [written[0]._replace(user=f"{greeting} {written[0].user}"), *written[1:]]

    def _parts(self, messages: int) -> list[list[ToldFacts]]:
        """Share what is told, in order, out to messages, as evenly as can be; some may have to tell nothing."""
        told = self._facts["told"]
        sizes = [len(told) // messages + (i < len(told) % messages) for i in range(messages)]
        self._rng.shuffle(sizes)
        rest = iter(told)
        return [[next(rest) for _ in range(size)] for size in sizes]

    def _asks(self, messages: int) -> Iterator[bool]:
        """Yield for each message whether the user asks about the topic; the others end in small talk."""
        talks = min(messages - round(messages * _SMALL_TALK_SHARE), _TALKS_IN_A_PERIOD)
        asks = [True] * talks + [False] * (messages - talks)
        self._rng.shuffle(asks)
        return iter(asks)

    def _offers(self, messages: int) -> list[list[str]]:
        """Return for each reply what the assistant names side by side at its end, mostly nothing."""
        offers: list[list[str]] = [[] for _ in range(messages)]
        for offer in self._facts["offers"]:
            *names, last = offer["names"]
            listed = f"{', '.join(names)} and {last}"
            name = offer["subject_name"]
            if name:
                text = self._say("offers_of_values", name=name, names=listed)
            else:
                text = self._say("offers_of_items", label=self._bank.label, names=listed)
            offers[self._rng.randrange(messages)].append(text)
        return offers

    def _say(self, deck: str, **slots: str) -> str:
        return expand(self._phrases[deck].draw(), self._rng, **slots)

    def _tell(self, deck: str, **slots: str) -> str:
        return expand(self._topic[deck].draw(), self._rng, **slots)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _message(self, told: Sequence[ToldFacts], asks: bool, last: bool) -> _Exchange:
        """Return an exchange: what is told, or a remark, and then a question about the topic or small talk.

        What is told in other words is not named by anything else that the message says.
        """
        talk = next(self._talks) if asks else None
        for attempt in range(_TRIES):
            exchange = self._drawn_message(told, talk if attempt < _TRIES // 2 else None, last)
            if not any(any(unwanted_names(one, self._facts, exchange.user)) for one in told):
                break
        return exchange

    def _drawn_message(self, told: Sequence[ToldFacts], talk: Talk | None, last: bool) -> _Exchange:
        lead = [self._say("openers")] if self._chance(0.4) else []
        body = [self._words.told(one) for one in told] or [self._words.own(self._tell("colour"))]
        thought = [self._say("reflections")] if self._chance(0.5) else []
        colour = [self._tell("colour")] if self._chance(0.5) else []
        if talk is not None:
            ask, answer = self._ask(talk), self._answer(talk, last)
        else:
            entry = self._small_talk.draw()
            ask, answer = expand(entry.say, self._rng), expand(entry.reply, self._rng)
        taken = [self._say("acknowledgements")] if self._chance(0.5) else []
        user = " ".join([*lead, *body, *thought, *colour, ask])
        return _Exchange(user, " ".join([*taken, answer]), tuple(one["told_id"] for one in told))

    def _ask(self, talk: Talk) -> str:
        return (
            f"{self._say('pivots')} {expand(talk.ask, self._rng)}" if self._chance(0.8) else expand(talk.ask, self._rng)
        )

    def _answer(self, talk: Talk, last: bool) -> str:
        answer = expand(talk.answer, self._rng)
        lead = [self._say("answer_leads")] if self._chance(0.6) and not _YES_OR_NO.match(answer) else []
        # A farewell follows the last answer, to which a question would not fit.
        return " ".join([*lead, answer, *([] if last else [self._tell("followups")])])

    def _life_event(self, event: LifeEventFacts) -> _Exchange:
        entry: LifeEvent = self._life[event["subject"]]
        told = self._words.own(expand(self._rng.choice(entry.told), self._rng, when=event["when"]))
        lead = [self._say("openers")] if self._chance(0.4) else []
        user = " ".join([*lead, told, expand(self._rng.choice(entry.asks), self._rng)])
        taken = [self._say("acknowledgements")] if self._chance(0.5) else []
        return _Exchange(user, " ".join([*taken, expand(self._rng.choice(entry.replies), self._rng)]))
