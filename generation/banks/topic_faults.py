"""What is wrong with a topic bank beyond the form of its parts: names given away, words shared, entries that repeat."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from itertools import combinations
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from generation.banks.topic import FREE, ITEMS, TRIALS, TopicBank
from generation.content_words import content_stems
from generation.grammar import expand_phrase, may_mention, mentions, without_details
from generation.prose import prose_faults
from generation.records import MOTIVES

Place = tuple[str | int, ...]
"""Where something stands in a file: keys and indices, from the outside in."""


class Fault(NamedTuple):
    """Something wrong, and where."""

    place: Place
    message: str


def topic_faults(bank: TopicBank) -> Iterator[Fault]:
    """Yield what is wrong with a bank whose parts are of the right form."""
    yield from _repeats(bank)
    yield from _given_away(bank)
    yield from _shared_words(bank)
    yield from person_faults(bank)
    yield from frame_faults(bank)
    yield from _threads(bank)
    yield from _values_left(bank)


def bank_texts(bank: BaseModel) -> Iterator[tuple[Place, str]]:
    """Yield every text and template of a bank but ids and the names of items and values, with its place."""
    for place, text in _texts(bank.model_dump(), ()):
        if place[-1] not in ("phrase", "id", "about"):
            yield place, without_details(text, lambda: True)


def _texts(node: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(node, str):
        yield place, node
    elif isinstance(node, dict):
        for key, part in node.items():
            if key not in ("needs", "without", "stereotype", "against"):
                yield from _texts(part, (*place, key))
    elif isinstance(node, list | tuple):
        for i, part in enumerate(node):
            yield from _texts(part, (*place, i))


# --- names


def _given_away(bank: TopicBank) -> Iterator[Fault]:
    """Find names of items and values where they would tell a reader something that no event says."""
    names = [name.lower() for name in bank.names()]
    places = name_places(bank)
    for i, name in enumerate(names):
        for j, other in enumerate(names):
            if i != j and mentions(other, name) and name != other:
                yield Fault(places[i], f"{name!r} is part of {other!r}, so one cannot be told from the other")
    words = {name: set(_WORD.findall(name)) for name in names}
    for place, text in bank_texts(bank):
        lower = text.lower()
        there = set(_WORD.findall(lower))
        for name in names:
            if words[name] <= there and may_mention(lower, name):
                yield Fault(place, f"{text!r} names {name!r}")


_WORD: Final = re.compile(r"[^\W_]+")


def name_places(bank: TopicBank) -> list[Place]:
    """Return where the names of a bank stand, in the order of `TopicBank.names`."""
    items: list[Place] = [("items", i, "phrase") for i in range(len(bank.items))]
    values = [(i, j) for i, slot in enumerate(bank.slots) for j in range(len(slot.values))]
    return [*items, *(("slots", i, "values", j, "phrase") for i, j in values)]


# --- words


def _shared_words(bank: TopicBank) -> Iterator[Fault]:
    """Find other words that share a content word with what options say."""
    phrases = [item.phrase for item in bank.items]
    for i, item in enumerate(bank.items):
        for n, text in enumerate(item.paraphrases):
            yield from _shares(("items", i, "paraphrases", n), text, phrases)
    for i, slot in enumerate(bank.slots):
        phrases = [value.phrase for value in slot.values]
        for j, value in enumerate(slot.values):
            for key, texts in (("paraphrases", value.paraphrases), ("signs", value.signs)):
                for n, text in enumerate(texts):
                    yield from _shares(("slots", i, "values", j, key, n), text, [*phrases, *value.recommend])
    for i, kind in enumerate(bank.facts):
        common = frozenset[str].intersection(*(content_stems(fact.recalled) for fact in kind.facts))
        for j, fact in enumerate(kind.facts):
            for key, text in (("retold", fact.retold), ("trace", fact.trace)):
                yield from _shares(("facts", i, "facts", j, key), text, [fact.recalled], common)
    for place, text in bank_texts(bank):
        if place[-1] == "retold" and "facts" not in place:
            told = _at(bank.model_dump(), (*place[:-1], "told"))
            yield from _shares(place, text, [told])


def _shares(place: Place, text: str, others: Iterable[str], free: Set[str] = frozenset()) -> Iterator[Fault]:
    stems = content_stems(re.sub(r"[\[\]{}|]", " ", text)) - free
    for other in others:
        if shared := stems & content_stems(other):
            yield Fault(place, f"{text!r} has the words {', '.join(sorted(shared))}… of {other!r}; use others")


def _at(node: Any, place: Place) -> Any:
    for part in place:
        node = node[part]
    return node


# --- persons

_PERSONAL: Final = re.compile(
    r"\b(I|me|my|mine|myself|you|your|he|she|him|her|his|hers|they|them|their)\b", re.IGNORECASE
)
_OF_NOBODY: Final = {
    "told",
    "retold",
    "trace",
    "likes",
    "dislikes",
    "turned_to",
    "turned_from",
    "like_signs",
    "dislike_signs",
}


def person_faults(bank: BaseModel) -> Iterator[Fault]:
    """Find words that tie to one person what must do for the user and for others."""
    for place, text in bank_texts(bank):
        of_nobody = {place[-1], *place[-2:-1]} & _OF_NOBODY
        if of_nobody and (found := _PERSONAL.search(text)):
            yield Fault(place, f"{text!r} says {found[0]!r}, and must do for the user and for others")


# --- frames

_HOLES: Final = ("mine", "theirs", "also")
_PEOPLE: Final = {"I", "me", "my", "person", "other"}
_EXPANSIONS: Final = 24
_SHORT_BEFORE_HOLE: Final = re.compile(
    r"\b((?:it|that|there|what|here|who|where|how)['’]s)(?: \[[^\]]*\])? \{(?:mine|theirs|also)\}", re.IGNORECASE
)


def frame_faults(bank: BaseModel) -> Iterator[Fault]:
    """Find frames in which a word beside a hole tells whose hole it is."""
    for place, text in bank_texts(bank):
        if "{mine}" in text:
            yield from (Fault(place, f"{text!r}: {fault}") for fault in _told_by_neighbours(text))


def _told_by_neighbours(frame: str) -> list[str]:
    """Return which words beside the holes of a frame tell them apart, whatever fills them.

    A classifier of word pairs would else know by `I had` and `Ana had` which of the two is passed over.
    """
    people = {"person": " person ", "other": " other "}
    faults: dict[str, None] = {}
    if short := _SHORT_BEFORE_HOLE.search(frame):
        # Whether it is `is` or `has` would hang on what fills the hole.
        faults[f"write {short[1]} out before a hole"] = None
    for seed in range(_EXPANSIONS):
        text = expand_phrase(frame, random.Random(seed), **people, **{hole: f" \0{hole} " for hole in _HOLES})
        words = re.findall(r"\0?[\w'’]+", text)
        before: dict[str, str] = {}
        for last, word, following in zip(["", *words], words, [*words[1:], ""], strict=False):
            if word.startswith("\0"):
                before[word[1:]] = last
                for neighbour in (last, following):
                    if neighbour in _PEOPLE:
                        faults[f"put a word between {neighbour} and {{{word[1:]}}}, the same for all holes"] = None
        verbs = sorted({_uninflected(word) for word in before.values()})
        if "{person}" in frame and len(set(before.values())) > len(verbs):
            shown = " and ".join(sorted(set(before.values())))
            faults[f"put the same word between {shown} and the holes"] = None
    return list(faults)


def _uninflected(word: str) -> str:
    return {"has": "have", "is": "be", "am": "be", "are": "be", "does": "do", "goes": "go"}.get(
        word, word.removesuffix("s")
    )


# --- English

_SLOT: Final = re.compile(r"\{([a-z_]+)\}")


def bad_prose(bank: BaseModel) -> Iterator[Fault]:
    """Find texts of which some expansion breaks a rule of English; what fills their slots is not known."""
    for place, text in _texts(bank.model_dump(), ()):
        if place[-1] not in ("phrase", "id", "about"):
            yield from (Fault(place, f"{fault} in {text!r}") for fault in dict.fromkeys(_prose_of(text)))


def _prose_of(text: str) -> Iterator[str]:
    filled = _SLOT.sub(lambda match: f"{match[1].title().replace('_', '')}o{'.' if match[1] == 'told' else ''}", text)
    for seed in range(_EXPANSIONS):
        detailed = without_details(filled, lambda: bool(seed % 2))  # noqa: B023
        yield from prose_faults(expand_phrase(detailed, random.Random(seed)))


# --- entries


def _repeats(bank: TopicBank) -> Iterator[Fault]:
    groups: dict[str, list[tuple[Place, str]]] = {}
    for place, text in _texts(bank.model_dump(), ()):
        if group := _group(place):
            groups.setdefault(group, []).append((place, text.lower()))
    for name, entries in groups.items():
        counts = Counter(text for _, text in entries)
        seen = set()
        for place, text in entries:
            if counts[text] > 1 and text in seen:
                yield Fault(place, f"{text!r} stands twice among the {name}")
            seen.add(text)


def _group(place: Place) -> str:
    """Return among what a text must stand once, if among anything."""
    key = place[-1] if isinstance(place[-1], str) else place[-2]
    if key == "phrase":
        return "items and values"
    if key in ("paraphrases", "signs") and ("items" in place or "values" in place):
        return "other words for items and values"
    if key == "told":
        return "facts" if "facts" in place else "reasons"
    names = {
        "id": "ids",
        "recommend": "recommendations",
        "recalled": "facts",
        "user": "messages",
        "assistant": "replies",
    }
    return names.get(str(key), "")


def _threads(bank: TopicBank) -> Iterator[Fault]:
    """Find threads on nothing, and subjects on which some lives have no thread, or no reason."""
    known = [FREE, ITEMS, TRIALS, *(slot.id for slot in bank.slots), *(kind.id for kind in bank.facts)]
    for i, thread in enumerate(bank.threads):
        if thread.about not in known:
            yield Fault(("threads", i, "about"), f"there is no {thread.about!r}; it may be {', '.join(known)}")
    for subject in known:
        if not any(thread.about == subject and not thread.needs and not thread.without for thread in bank.threads):
            yield Fault(("threads",), f"there is no thread on {subject!r} that fits every life")
    groups = [("item_reasons", "toward"), ("item_reasons", "away")]
    places: list[Place] = [*groups, *(("slots", i, "reasons") for i in range(len(bank.slots)))]
    for place in places:
        for motive, reasons in _at(bank.model_dump(), place).items():
            if all(reason["needs"] or reason["without"] for reason in reasons):
                yield Fault((*place, motive), "no reason fits every life")


def _values_left(bank: TopicBank) -> Iterator[Fault]:
    for i, slot in enumerate(bank.slots):
        for motives in combinations(MOTIVES, _MOTIVES):
            if sum(not set(motives) & set(value.against) for value in slot.values) < _VALUES:
                names = ", ".join(motives)
                yield Fault(("slots", i, "values"), f"fewer than {_VALUES} values have none of {names} against them")
                break


_MOTIVES: Final = 4  # of a user
_VALUES: Final = 4  # that options name
