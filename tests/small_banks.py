"""What tests of the generator share: a few shipped banks, users drawn from them, a bank small enough to write down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Final

from scipy.stats import chisquare

from generation.banks.load import Banks, load_banks
from generation.config import Config
from generation.grammar import parse
from generation.history_records import History
from generation.llm.client import Call, ChatMessage, Completion
from generation.records import MOTIVES, Persona
from generation.stages.personas import draw_personas
from generation.timeline import session_dates
from generation.topic_history import draw_topic, topic_motives

TOPICS = ("foodRecommendation", "writing", "movieRecommendation", "legalConsultation")


@cache
def small_banks() -> Banks:
    """Return the shipped banks of four topics."""
    return load_banks(Config(topics=TOPICS))


def users(config: Config) -> list[tuple[Persona, History]]:
    """Draw the users of a run and their timelines, without any text."""
    banks = small_banks()
    drawn = []
    for task in draw_personas(config, banks):
        persona = task.persona
        dates = session_dates(config, persona.persona_id, list(banks.topics))
        motives = topic_motives(config, persona, list(banks.topics))
        topics = (draw_topic(config, persona, banks.topics[t], days, motives[t]) for t, days in dates.items())
        drawn.append((persona, History(persona_id=persona.persona_id, general=(), topics=tuple(topics))))
    return drawn


def count_expansions(template: str) -> int:
    """Return in how many ways a template can be expanded, slots apart."""

    def count(sequence: Iterable[Any]) -> int:
        choices = (part.branches for part in sequence if hasattr(part, "branches"))
        return prod(sum(count(branch) for branch in branches) for branches in choices)

    return count(parse(template))


def even(counts: Iterable[int]) -> bool:
    """Say whether counts look like those of equally likely outcomes.

    A fair source is refused once in ten thousand times, so that the tests stand when a bank is edited.
    """
    return bool(chisquare(list(counts)).pvalue > 1e-4)


_ITEMS: Final = {
    "blitz games": "five hurried minutes a side",
    "endgame drills": "exercises with three pieces left",
    "puzzle racing": "mates against a stopwatch",
    "opening study": "learning first moves by heart",
    "rook nights": "Thursdays above the library",
    "blindfold rounds": "sessions without sight",
}

_VALUES: Final = {
    "quiet systems": ("solid schemes", "pawns that stay at home", "a book on slow build-ups", ["older"]),
    "sharp gambits": ("wild offers", "a pawn thrown away on move two", "a film about early attacks", ["younger"]),
    "odd sidelines": ("rare byways", "a knight on the rim", "a list of strange replies", []),
    "classic lines": ("well-trodden paths", "a bishop aimed at the king", "a box of old master notes", []),
}

_FACTS: Final = {
    "baker": ("took a point off a man with flour on both sleeves", "kept a loaf as a prize for mate"),
    "banker": ("took a point off a man who counts money", "kept a gold pen as a prize for mate"),
    "judge": ("took a point off a lady of the court", "kept a wooden gavel as a prize for mate"),
    "sailor": ("took a point off somebody from a ship", "kept a woollen cap as a prize for mate"),
}


def tiny_bank(**changes: Any) -> dict[str, Any]:
    """Return the content of a valid bank file, with some of its keys replaced."""
    bank: dict[str, Any] = {
        "id": "chess",
        "label": "chess",
        "items": tiny_items(_ITEMS),
        "stances": {
            "likes": ["took to {item}"],
            "dislikes": ["got nothing out of {item}"],
            "turned_to": ["came round to {item}"],
            "turned_from": ["went off {item}"],
            "like_signs": ["put down for {item} again"],
            "dislike_signs": ["walked out of {item}"],
            "stock": ["had other plans"],
            "pairs": ["At the board {person} simply {theirs}, and I simply {mine}."],
            "threes": ["At the board {person} simply {theirs}, and {other} simply {also}, and I simply {mine}."],
        },
        "item_queries": ["I have a free evening at the board."],
        "idea_queries": ["What else could I do at the board?"],
        "slots": [
            {
                "id": "setup",
                "name": "the way you set out",
                "values": [
                    {
                        "phrase": phrase,
                        "paraphrases": [paraphrase],
                        "signs": [sign],
                        "recommend": [recommend],
                        "stereotype": stereotype,
                    }
                    for phrase, (paraphrase, sign, recommend, stereotype) in _VALUES.items()
                ],
                "tells": {
                    "pairs": ["It is {theirs} for {person} at move one and {mine} for me."],
                    "threes": ["It is {theirs} for {person}, and {also} for {other}, and {mine} for me at move one."],
                    "changes": ["{person} went over to {theirs}, and I went over to {mine}."],
                    "past": ["I used to go for {theirs}, and now I go for {mine}."],
                    "dropped": ["I had meant to go for {theirs}, and went for {mine} in the end."],
                    "signs": ["In the hall {person} showed {theirs}, and I showed {mine}."],
                    "stock": ["something else"],
                },
                "reasons": tiny_reasons("about the start"),
                "queries": ["A new round begins on Friday."],
                "again": ["I want to set out in another way."],
                "recall": ["As you set out with {value}, prepare for that."],
                "recommend_queries": ["What would help me to set out?"],
            }
        ],
        "facts": [
            {
                "id": "upset",
                "name": "upsets in chess",
                "queries": ["Tomorrow I meet somebody strong."],
                "pairs": ["Years ago {person} once {theirs}, and I once {mine}."],
                "threes": ["Years ago {person} once {theirs}, and {other} once {also}, and I once {mine}."],
                "stock": ["did something else"],
                "facts": [
                    {"told": f"beat a {who}", "retold": retold, "trace": trace, "recalled": f"the day you beat a {who}"}
                    for who, (retold, trace) in _FACTS.items()
                ],
            }
        ],
        "item_reasons": {"toward": tiny_reasons("in favour"), "away": tiny_reasons("in opposition")},
        "threads": [tiny_thread(on) for on in ("setup", "upset", "items", "trials", "free")],
    }
    return {**bank, **changes}


def tiny_reasons(what: str) -> dict[str, list[dict[str, str]]]:
    """Return a reason for each motive."""
    return {
        motive: [
            {"told": f"a friend spoke of {motive} {what}", "retold": f"{motive[:3]}ish words were heard {what[:5]}ly"}
        ]
        for motive in MOTIVES
    }


def tiny_thread(on: str) -> dict[str, Any]:
    """Return a thread of two exchanges."""
    told = "" if on == "free" else " {told}"
    return {
        "about": on,
        "label": f"the question of {on}",
        "exchanges": [
            {"user": f"Here is a question on {on}.{told} How?<  The clock is running.>", "assistant": f"Thus on {on}."},
            {"user": f"Thanks for {on}.{told} And then?", "assistant": f"Then so on {on}."},
        ],
    }


def tiny_items(phrases: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the items of a bank file: what each is called, and the same in other words."""
    return [{"phrase": phrase, "paraphrases": [words]} for phrase, words in phrases.items()]


class ScriptedBackend:
    """Gives the replies that it was given, in order, the last for ever; counts the calls.

    What it writes is believed, like what the offline backend writes.
    """

    identity: Final = {"backend": "offline"}

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.calls: list[Sequence[ChatMessage]] = []

    def complete(self, call: Call) -> Completion:
        self.calls.append(list(call.messages))
        reply = self._replies[min(len(self.calls), len(self._replies)) - 1]
        return Completion(json.dumps(reply), "stop")


class FreeWriter:
    """A language model that gives for each template the replies that it was given, in order, the last for ever.

    A reply may be a function of the facts of the request. What it writes is read back.
    """

    identity: Final = {"backend": "free"}

    def __init__(self, **replies: Sequence[Any]) -> None:
        self._replies = replies
        self.calls: list[Call] = []

    def complete(self, call: Call) -> Completion:
        template = call.request.template
        self.calls.append(call._replace(messages=list(call.messages)))
        replies = self._replies[template]
        reply = replies[min(len(self.asked(template)), len(replies)) - 1]
        return Completion(json.dumps(reply(call.request.facts) if callable(reply) else reply), "stop")

    def asked(self, template: str) -> list[str]:
        """The last message of each call with a template."""
        return [call.messages[-1].content for call in self.calls if call.request.template == template]
