"""Words for sessions: stretches of chat about one concern each, in some of which something is told."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from itertools import groupby
from typing import Final, Generic, NamedTuple, TypeVar

from generation.banks.life import SmallTalk
from generation.banks.load import Banks
from generation.banks.topic import FREE, ITEMS, TRIALS, Exchange, Thread, TopicBank
from generation.content_words import unwanted_names
from generation.grammar import expand, slot_names
from generation.llm.offline.told_words import ToldWords
from generation.llm.offline.voice_words import VoiceWords
from generation.prose import prose_faults
from generation.records import PERIODS
from generation.request_facts import LifeEventFacts, SessionFacts, ToldFacts
from generation.seeds import rng_for

T = TypeVar("T")

_USUAL: Final = 2  # exchanges of a stretch of chat
_ACKNOWLEDGED_SHARE: Final = 0.4
_RECALLED_SHARE: Final = 0.12
_RETURN_SHARE: Final = 0.6  # of the later sessions, those that begin with what an earlier one was about
_ASIDE_SHARE: Final = 0.15  # of what is told, that which has words of its own before it
_IN_PASSING_SHARE: Final = 0.2  # of the groups of things told, those that are told while something else is the concern
_FULL: Final = 2  # things told, beside which nobody rambles
_FEW_DETAILS: Final = 0.2  # times as many as usual: beside what takes several sentences to tell, and in mere questions
_LEAD_SHARE: Final = (
    0.7  # of first messages that tell nothing: they are short, and would else be the same for many users
)
_SMALL_TALK: Final = 3  # of as many sessions, one has no small talk
_TRIES: Final = 10
_OF_VOICE: Final = ("greetings", "returns", "leads", "switches", "takes", "asides", "rambles", "closers")
_OF_ASSISTANT: Final = ("farewells", "acknowledgements", "recalls", "offers_of_values", "offers_of_items")


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


class _Stretch(NamedTuple):
    """A stretch of chat: what is written, and what is told in it.

    Attributes:
        length: How many of the exchanges are written.
        label: What it is about; empty for small talk.
        news: A life event, which the first message tells.
        subject: As `OfferFacts.subject`, or `items` for stances and trials; empty for what tells nothing.
    """

    exchanges: Sequence[Exchange]
    length: int = 1
    label: str = ""
    told: Sequence[ToldFacts] = ()
    news: str = ""
    subject: str = ""


class _Turn(NamedTuple):
    """A user message, the reply, and what the message tells."""

    user: str
    assistant: str
    told_ids: tuple[str, ...] = ()


def session_reply(facts: SessionFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    """Write a session in the form of `SessionReply`.

    The seed of the run decides which concerns fall to which period, so that a user brings none up twice.
    """
    turns = _Writer(facts, banks, rng, seed).turns()
    return {
        "turns": [{"user": turn.user, "assistant": turn.assistant, "told_ids": list(turn.told_ids)} for turn in turns]
    }


class _Writer:
    """The decks and the state of one session.

    Nothing but what is told differs between a message that tells an event and one that does not: concerns, questions
    and replies are drawn without a look at it.
    """

    def __init__(self, facts: SessionFacts, banks: Banks, rng: random.Random, seed: int) -> None:
        self._facts = facts
        self._banks = banks
        self._rng = rng
        self._seed = seed
        self._bank: TopicBank = banks.topics[facts["topic"]]
        self._life = frozenset(facts["life"])
        self._voice = banks.voices.voice(facts["voice"])
        self._own = {name: _Deck[str](getattr(self._voice, name), rng) for name in _OF_VOICE}
        self._phrases = {name: _Deck[str](getattr(banks.phrases, name), rng) for name in _OF_ASSISTANT}
        self._written = VoiceWords(self._voice, rng)
        self._told = ToldWords(self._bank, banks, facts["circle"], rng)
        self._uses: dict[str, int] = {}

    def turns(self) -> list[_Turn]:
        """Return the turns of the session."""
        stretches = self._stretches()
        offers = self._offers(stretches)
        turns: list[_Turn] = []
        for number, stretch in enumerate(stretches):
            parts = self._shared_out(stretch)
            for place, (exchange, told) in enumerate(zip(stretch.exchanges, parts, strict=False)):
                before = self._before(stretches, number, place, len(told))
                is_last = number == len(stretches) - 1 and place == stretch.length - 1
                is_short = (not told and place > 0) or any(one["changed"] for one in told)
                turn = self._turn(exchange, told, stretch.news if place == 0 else "", before, is_last, is_short)
                reply = [turn.assistant]
                if place == 0 and number > 1 and self._chance(_RECALLED_SHARE):
                    labels = [earlier.label for earlier in stretches[:number] if earlier.label]
                    reply += [self._say("recalls", label=labels[-1])] if labels else []
                reply += offers.pop(number, []) if place == stretch.length - 1 else []
                turns.append(turn._replace(assistant=" ".join(reply)))
        labels = [stretch.label for stretch in stretches if stretch.label]
        farewell = self._say("farewells", label=self._rng.choice(labels))
        return [*turns[:-1], turns[-1]._replace(assistant=f"{turns[-1].assistant} {farewell}")]

    # --- which concerns

    def _stretches(self) -> list[_Stretch]:
        """Return the stretches of the session: those that tell something in order, others among them."""
        telling = [self._on(list(told)) for _, told in groupby(self._facts["told"], key=lambda one: one["thread"])]
        others = [self._news(event) for event in self._facts["life_events"]]
        room = self._facts["turns"] - len(telling) - len(others)
        telling, room = _lengthened(telling, room, _USUAL)
        others, room = _lengthened(others, room, _USUAL)
        if room and self._small_talk_number() % _SMALL_TALK:
            small, room = _lengthened([self._small_talk()], room - 1, _USUAL)
            others += small
        while room:
            free, room = _lengthened([self._free()], room - 1, _USUAL)
            others += free
            if len(others) > self._facts["turns"]:
                break
        self._rng.shuffle(others)
        stretches = [*others]
        places = sorted(self._rng.sample(range(len(telling) + len(others)), len(telling)))
        for place, stretch in zip(places, telling, strict=True):
            stretches.insert(place, stretch)
        return stretches

    def _on(self, told: list[ToldFacts]) -> _Stretch:
        """Return a stretch that tells some things."""
        kind, subject = told[0]["kind"], told[0]["subject"]
        on = {"item": ITEMS, "trial": TRIALS}.get(kind, subject)
        if self._chance(_IN_PASSING_SHARE):
            return self._free()._replace(told=told)
        thread = self._thread(on)
        subject = ITEMS if kind in ("item", "trial") else subject
        return _Stretch(thread.exchanges, label=thread.label, told=told, subject=subject)

    def _free(self) -> _Stretch:
        thread = self._thread(FREE)
        return _Stretch(thread.exchanges, label=thread.label)

    def _thread(self, on: str) -> Thread:
        """Return the next thread on something: each period has threads of its own, as far as there are enough."""
        use = self._uses.get(on, 0)
        self._uses[on] = use + 1
        return self._thread_of(on, self._facts["period_index"], use)

    def _thread_of(self, on: str, period: int, use: int) -> Thread:
        threads = self._bank.threads_on(on, self._life)
        order = rng_for(self._seed, "threads", self._facts["persona_id"], self._bank.id, on)
        share = -(-len(threads) // len(PERIODS))
        return order.sample(threads, len(threads))[(period * share + use) % len(threads)]

    def _news(self, event: LifeEventFacts) -> _Stretch:
        entry = next(entry for entry in self._banks.life.events if entry.id == event["subject"])
        return _Stretch(entry.exchanges, news=expand(self._rng.choice(entry.told), self._rng, when=event["when"]))

    def _small_talk_number(self) -> int:
        topics = sorted(self._banks.topics)
        return topics.index(self._bank.id) * len(PERIODS) + self._facts["period_index"]

    def _small_talk(self) -> _Stretch:
        month = dt.date.fromisoformat(self._facts["date"]).month
        entries = self._banks.life.small_talk
        order = rng_for(self._seed, "small talk", self._facts["persona_id"]).sample(entries, len(entries))
        start = self._small_talk_number() % len(order)
        fitting = [
            talk
            for talk in (*order[start:], *order[:start])
            if talk.fits(self._life) and (not talk.months or month in talk.months)
        ]
        entry: SmallTalk = next(iter(fitting), order[start])
        return _Stretch(entry.exchanges)

    def _offers(self, stretches: Sequence[_Stretch]) -> dict[int, list[str]]:
        """Return what the assistant names side by side at the end of a stretch, by its number."""
        offers: dict[int, list[str]] = {}
        for offer in self._facts["offers"]:
            *names, last = offer["names"]
            listed = f"{', '.join(names)} and {last}"
            if offer["subject"]:
                text = self._say("offers_of_values", name=offer["subject_name"], names=listed)
            else:
                text = self._say("offers_of_items", label=self._bank.label, names=listed)
            about = [i for i, s in enumerate(stretches) if s.subject == (offer["subject"] or ITEMS)]
            offers.setdefault(self._rng.choice(about or range(len(stretches))), []).append(text)
        return offers

    # --- what is written

    def _shared_out(self, stretch: _Stretch) -> list[list[ToldFacts]]:
        """Share what a stretch tells out to its messages, in order, as evenly as can be."""
        places = [i for i in range(stretch.length) if stretch.exchanges[i].tells or i < _USUAL]
        sizes = dict.fromkeys(range(stretch.length), 0)
        for number in range(len(stretch.told)):
            # A message that tells more is likelier to tell an event: its length must not show that.
            sizes[places[number % len(places)]] += 1
        rest = iter(stretch.told)
        return [[next(rest) for _ in range(sizes[i])] for i in range(stretch.length)]

    def _before(self, stretches: Sequence[_Stretch], number: int, place: int, told: int) -> list[str]:
        """Return the user's words before what a message is about."""
        voice, before = self._voice, []
        if number == place == 0:
            before.append(self._write("greetings", date=self._facts["spoken_date"]))
            if self._facts["period_index"] and self._chance(_RETURN_SHARE):
                earlier = self._thread_of(FREE, self._facts["period_index"] - 1, 0)
                before.append(self._write("returns", label=earlier.label))
        ramble = [self._write("rambles")] if 0 < told < _FULL and self._chance(voice.rambles_share) else []
        if place == 0 and self._chance(voice.leads_share if told else max(voice.leads_share, _LEAD_SHARE)):
            return [*before, *ramble, self._write("switches" if number else "leads")]
        if place and (not told or self._chance(voice.takes_share)):
            before.append(self._write("takes"))
        return [*before, *ramble]

    def _turn(
        self,
        exchange: Exchange,
        told: Sequence[ToldFacts],
        news: str,
        before: Sequence[str],
        is_last: bool,
        is_short: bool,
    ) -> _Turn:
        """Return a turn; what is told in other words is not named by anything else that the message says."""
        after = [self._write("closers")] if is_last else []
        for _ in range(_TRIES):
            text = news or self._told.told(told)
            announced = bool(before) and before[-1].endswith(":")
            if told and not announced and (not exchange.tells or self._chance(_ASIDE_SHARE)):
                text = f"{self._write('asides')} {text}"
            user = self._written.message(exchange.user, text, before, after, _FEW_DETAILS if is_short else 1.0)
            if not any(any(unwanted_names(one, self._facts, user)) for one in told) and not any(prose_faults(user)):
                break
        reply = [expand(exchange.assistant, self._rng)]
        if told and self._chance(_ACKNOWLEDGED_SHARE):
            # Before the answer or after it.
            reply.insert(self._rng.randrange(2), self._acknowledgement(told))
        return _Turn(user, " ".join(reply), tuple(one["told_id"] for one in told))

    def _acknowledgement(self, told: Sequence[ToldFacts]) -> str:
        people = [_in_reply(one["person"]) for one in told if one["whose"] == "other"]
        while True:
            template = self._phrases["acknowledgements"].draw()
            if "person" not in slot_names(template):
                return expand(template, self._rng)
            if people:
                return expand(template, self._rng, person=people[0])

    def _say(self, deck: str, **slots: str) -> str:
        return expand(self._phrases[deck].draw(), self._rng, **slots)

    def _write(self, deck: str, **slots: str) -> str:
        return expand(self._own[deck].draw(), self._rng, **slots)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share


def _lengthened(stretches: Sequence[_Stretch], room: int, most: int) -> tuple[list[_Stretch], int]:
    """Return stretches, each with further exchanges while there is room, and the room that is left."""
    longer = []
    for stretch in stretches:
        more = max(0, min(room, most - stretch.length, len(stretch.exchanges) - stretch.length))
        longer.append(stretch._replace(length=stretch.length + more))
        room -= more
    return longer, room


def _in_reply(person: str) -> str:
    """Return how the assistant speaks of somebody: `your cousin Ana`."""
    return f"your{person.removeprefix('my')}" if person.startswith("my ") else person
