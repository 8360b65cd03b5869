"""What tests of the generator share: a few shipped banks, users drawn from them, a bank small enough to write down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from typing import Any, Final

from scipy.stats import chisquare

from generation.banks.load import Banks, load_banks
from generation.config import Config
from generation.grammar import parse
from generation.llm.client import Call, ChatMessage, Completion
from generation.records import MOTIVES, History, Persona
from generation.stages.personas import draw_personas
from generation.timeline import draw_topic, session_dates

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
        topics = (draw_topic(config, persona, banks.topics[topic], days) for topic, days in dates.items())
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


def tiny_bank(**changes: Any) -> dict[str, Any]:
    """Return the content of a valid bank file, with some of its keys replaced."""
    bank: dict[str, Any] = {
        "id": "chess",
        "label": "chess",
        "items": ["blitz games", "endgame drills", "puzzle racing", "opening study", "club nights"],
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
                    {"phrase": "quiet systems", "recommend": ["a book on slow build-ups"], "stereotype": ["older"]},
                    {"phrase": "sharp gambits", "recommend": ["a film about early attacks"], "stereotype": ["younger"]},
                    {"phrase": "odd sidelines", "recommend": ["a list of rare replies"]},
                    {"phrase": "classic lines", "recommend": ["a box of old master games"]},
                ],
                "first": ["I set out with {value}."],
                "update": ["I have gone over to {value}."],
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
                    {"told": f"I once beat a {who}.", "recalled": f"the day you beat a {who}"}
                    for who in ("baker", "banker", "judge", "sailor")
                ],
            }
        ],
        "reasons": {
            motive: [{"told": f"my friend spoke of {motive}", "recalled": f"your friend spoke of {motive}"}]
            for motive in MOTIVES
        },
        "talks": [{"ask": "How does castling work?", "answer": "The king steps aside."}],
        "colour": ["The clock ticks."],
        "followups": ["Shall I go on?"],
    }
    return {**bank, **changes}


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
