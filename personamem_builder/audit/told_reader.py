"""Reads in a message, with the words of a bank, what it tells of the user: what is in the user's hole of a frame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from generation.banks.frames import with_reasons
from generation.banks.phrases import Phrases
from generation.banks.topic import Slot, TopicBank
from generation.contractions import without_contractions
from generation.grammar import ANYTHING, mentions, named_pattern, parse, pattern
from generation.option_plans import stance_state
from generation.records import Motive


class Reason(NamedTuple):
    """A reason that the user gives, what it shows, and which values or items it may be the reason for."""

    told: str
    motive: Motive
    of: frozenset[str]


class Read(NamedTuple):
    """What a message says of the user, each in the form of `option_states`."""

    facts: list[str]
    values: list[str]
    stances: list[str]
    tried: list[str]
    reasons: list[Reason]


def plain_words(text: str) -> str:
    """Return a text as frames are compared with it: lower case, contractions written out, one kind of apostrophe."""
    return " ".join(without_contractions(text).lower().split())


class TopicTells:
    """The frames of a topic, and what their holes may hold.

    Args:
        bank: Of the topic.
        phrases: What all topics share.
    """

    def __init__(self, bank: TopicBank, phrases: Phrases) -> None:
        trials, stances = phrases.trials, bank.stances
        words = {plain_words(text): item.phrase for item in bank.items for text in (item.phrase, *item.paraphrases)}
        self._items = words
        one = "|".join(re.escape(text) for text in sorted(words, key=len, reverse=True))
        items = f"(?:{one})(?:, (?:{one}))* and (?:{one})"
        self._values = [
            _Tells(
                (*s.tells.pairs, *s.tells.threes, *_with_and_without_reasons(_of_changes(s))),
                [(text, v.phrase) for v in s.values for text in (v.phrase, *v.paraphrases, *v.signs)],
            )
            for s in bank.slots
        ]
        self._facts = [
            _Tells(
                (*kind.pairs, *kind.threes),
                [(text, fact.recalled) for fact in kind.facts for text in (fact.told, fact.retold, fact.trace)],
            )
            for kind in bank.facts
        ]
        likes = (*stances.likes, *stances.turned_to, *stances.like_signs)
        dislikes = (*stances.dislikes, *stances.turned_from, *stances.dislike_signs)
        self._stances = _Tells(
            (*_with_and_without_reasons(stances.pairs), *stances.threes),
            [*((text, "like") for text in likes), *((text, "dislike") for text in dislikes)],
            f"(?:{one})",
        )
        self._trials = _Tells(
            (*trials.pairs, *trials.threes),
            [(text, "") for text in (*trials.tries, *trials.traces)],
            items,
        )
        # Two slots may have a reason in the same words: it is that of what the message tells beside it.
        scopes = [(slot.reasons, frozenset(value.phrase for value in slot.values)) for slot in bank.slots]
        names = frozenset(item.phrase for item in bank.items)
        scopes += [(own, names) for own in (bank.item_reasons.toward, bank.item_reasons.away)]
        self._reasons = _Tells(
            {_for_reasons(frame) for frame in (*stances.pairs, *(f for s in bank.slots for f in _of_changes(s)))},
            [
                (text, Reason(reason.told, motive, scope))
                for by_motive, scope in scopes
                for motive, own in by_motive.items()
                for reason in own
                for text in (reason.told, reason.retold)
            ],
        )

    def read(self, message: str, found: Read) -> None:
        """Add what a message of plain words tells of the user to what was found."""
        values = [value for tells in self._values for value, _ in tells.own(message)]
        stances = [(stance, item) for stance, text in self._stances.own(message) for item in self._items_in(text)]
        found.values.extend(values)
        found.stances.extend(stance_state(stance, item) for stance, item in stances)
        found.facts.extend(fact for tells in self._facts for fact, _ in tells.own(message))
        found.tried.extend(item for _, text in self._trials.own(message) for item in self._items_in(text))
        told = frozenset([*values, *(item for _, item in stances)])
        for reason, _ in self._reasons.own(message):
            if of := reason.of & told:
                found.reasons.append(reason._replace(of=of))

    def _items_in(self, text: str) -> list[str]:
        return [phrase for words, phrase in self._items.items() if mentions(text, words)]


def _of_changes(slot: Slot) -> tuple[str, ...]:
    """Return the frames that tell a change, with a reason in each clause; those of signs tell values too."""
    return (*slot.tells.changes, *slot.tells.past, *slot.tells.dropped, *slot.tells.signs)


def _with_and_without_reasons(frames: Iterable[str]) -> list[str]:
    return [text for frame in frames for text in (frame, with_reasons(frame))]


def _for_reasons(frame: str) -> str:
    """Return a frame whose hole for the user is that of the reason."""
    return with_reasons(frame).replace("{mine}", "{value}").replace("{why_mine}", "{mine}")


M = TypeVar("M")


class _Tells(Generic[M]):
    """Frames, and the contents that may stand in their holes, each with what it means.

    Args:
        frames: Templates.
        contents: Templates, each with its meaning.
        filling: Pattern of what fills the slot of a content.
    """

    def __init__(self, frames: Iterable[str], contents: Iterable[tuple[str, M]], filling: str = "") -> None:
        plain = [plain_words(frame).rstrip(".") for frame in frames]
        self._frames = [(_fixed_words(frame), re.compile(_whole(frame))) for frame in plain]
        self._contents = [
            (_fixed_words(text), re.compile(_content(text, filling)), meaning)
            for text, meaning in ((plain_words(text), meaning) for text, meaning in contents)
        ]

    def own(self, message: str) -> Iterator[tuple[M, str]]:
        """Yield what a message tells of the user, with its words; no frame reaches over the end of a sentence."""
        for sentence in _END_OF_SENTENCE.split(message):
            yield from self._own(sentence)

    def _own(self, sentence: str) -> Iterator[tuple[M, str]]:
        spans = [
            (match, meaning)
            for words, content, meaning in self._contents
            if words in sentence
            for match in content.finditer(sentence)
        ]
        if not spans:
            return
        # Of contents that overlap the longest counts; each gets a sign in its place, by which frames know it.
        signs: list[tuple[re.Match[str], list[M]]] = []
        for match, meaning in sorted(spans, key=lambda span: span[0].start() - span[0].end()):
            same = next((meanings for other, meanings in signs if other.span() == match.span()), None)
            if same is not None:
                same.append(meaning)
            elif all(match.end() <= other.start() or match.start() >= other.end() for other, _ in signs):
                signs.append((match, [meaning]))
        marked = sentence
        for number, (match, _) in sorted(enumerate(signs), key=lambda sign: -sign[1][0].start()):
            marked = f"{marked[: match.start()]}{_SIGN}{number}{_SIGN}{marked[match.end() :]}"
        told = {
            int(match["mine"].strip(_SIGN))
            for words, frame in self._frames
            if words in marked
            for match in frame.finditer(marked)
        }
        for number, (match, meanings) in enumerate(signs):
            if number in told:
                yield from ((meaning, match[0]) for meaning in meanings)


_SIGN: Final = "\x03"
_END_OF_SENTENCE: Final = re.compile(r"(?<=[.!?…]) ")


def _whole(template: str) -> str:
    """Return the pattern of a frame whose hole for the user holds a sign; the last hole ends with the sentence."""
    frame = named_pattern(template, {}).replace(f"(?P<mine>{ANYTHING})", f"(?P<mine>{_SIGN}[0-9]+{_SIGN})")
    return rf"(?<!\w){frame}(?=[.!?…]|$)"


def _content(template: str, filling: str) -> str:
    return rf"(?<!\w){pattern(template).pattern.replace(ANYTHING, filling)}(?!\w)"


def _fixed_words(template: str) -> str:
    """Return the longest part of a template that stands in every expansion."""
    return max((part.strip() for part in parse(template) if isinstance(part, str)), key=len, default="")
