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
    for task in draw_personas(config, banks.people):
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
    "club nights": "Thursdays above the library",
    "blindfold rounds": "sessions without sight",
}

_VALUES: Final = {
    "quiet systems": ("solid schemes", "pawns that stay at home", "a book on slow build-ups", ["older"]),
    "sharp gambits": ("wild offers", "a pawn thrown away on move two", "a film about early attacks", ["younger"]),
    "odd sidelines": ("rare byways", "a knight on the rim", "a list of strange replies", []),
    "classic lines": ("well-trodden paths", "a bishop aimed at the king", "a box of old master notes", []),
}

_FACTS: Final = {
    "baker": ("My flour-dusted opponent resigned against me.", "The loaf on my shelf was my prize for mate."),
    "banker": ("A man who counts money lost to me.", "His gold pen was my prize for mate."),
    "judge": ("A lady of the court lost to me.", "Her wooden gavel was my prize for mate."),
    "sailor": ("Somebody from a ship lost to me.", "His woollen cap was my prize for mate."),
}


def tiny_bank(**changes: Any) -> dict[str, Any]:
    """Return the content of a valid bank file, with some of its keys replaced."""
    bank: dict[str, Any] = {
        "id": "chess",
        "label": "chess",
        "items": tiny_items(_ITEMS),
        "frames": ["{when} I came to {item}.", "Somebody showed me {item} {when}."],
        "likes": ["It was a joy.", "I loved it."],
        "dislikes": ["It was a chore.", "I hated it."],
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
                "first": ["I set out with {value}."],
                "update": ["I have gone over to {value}."],
                "shown": ["In the hall they saw {sign}."],
                "queries": ["A new round begins on Friday."],
                "again": ["I want to set out in another way."],
                "recall": ["As you set out with {value}, prepare for that."],
                "recommend_queries": ["What would help me to set out?"],
            }
        ],
        "facts": [
            {
                "id": "upset",
                "queries": ["Tomorrow I meet somebody strong."],
                "facts": [
                    {
                        "told": f"I once beat a {who}.",
                        "retold": retold,
                        "trace": trace,
                        "recalled": f"the day you beat a {who}",
                    }
                    for who, (retold, trace) in _FACTS.items()
                ],
            }
        ],
        "reasons": {
            motive: [
                {
                    "told": f"my friend spoke of {motive}",
                    "retold": f"a neighbour praised what begins with {motive[:3]}",
                    "recalled": f"your friend spoke of {motive}",
                }
            ]
            for motive in MOTIVES
        },
        "talks": [{"ask": "How does castling work?", "answer": "The king steps aside."}],
        "colour": ["The clock ticks."],
        "followups": ["Shall I go on?"],
    }
    return {**bank, **changes}


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
