"""Contexts for tests: without any text, where only the places count; and a reader that replays histories by itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Literal

from small_banks import TOPICS, small_banks, users

from generation.config import Config
from generation.history_records import SessionPlan
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import QUESTION_TYPES, Message, Option, Question, content_id
from generation.seeds import rng_for
from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.records import Block
from personamem_builder.assemble.run_records import Conversation, PersonaRecords
from personamem_builder.schema import ContextRow

SYSTEM = "About the user. Age: 30."
SYSTEM_TOKENS = 7


@cache
def wordless(seed: int, questions: int = 2) -> PersonaRecords:
    """Return a user whose sessions have the right events in the right order, numbers for words, made-up tokens."""
    config = Config(
        topics=TOPICS,
        personas=1,
        seed=seed,
        questions_per_topic=dict.fromkeys(QUESTION_TYPES, questions),
    )
    [(persona, history)] = users(config)
    rng = rng_for(seed, "wordless")
    asked = tuple(_question(plan, rng) for plan in plan_questions(config, persona, history, small_banks()))
    return PersonaRecords(
        persona=persona.model_copy(update={"shown": SYSTEM, "shown_tokens": SYSTEM_TOKENS}),
        history=history,
        sessions={plan.session_id: _session(plan, rng) for topic in history.topics for plan in topic.sessions},
        questions=asked,
    )


@cache
def wordless_fillers(count: int, tokens: int | None = None) -> dict[str, Conversation]:
    """Return fillers of about 400 tokens each, or of exactly so many."""
    rng = random.Random(count)
    return {
        f"f{i}": Conversation(
            f"f{i}",
            tuple(_message(role, f"{role} {i}", rng) for role in ("user", "assistant") * 2)
            if tokens is None
            else (Message(role="user", content=str(i), num_tokens=tokens),),
        )
        for i in range(count)
    }


def context_row(
    messages: Sequence[Message],
    name: str = "c",
    persona: int = 0,
    session_starts: Sequence[int] = (0,),
    session_topics: Sequence[str] | None = None,
) -> ContextRow:
    """Return a shared context; of its sessions no topics are known by default, and no dates."""
    return {
        "shared_context_id": name,
        "persona_id": persona,
        "messages": list(messages),
        "session_starts": list(session_starts),
        "session_topics": list(session_topics or [""] * len(session_starts)),
        "session_dates": [""] * len(session_starts),
        "num_tokens": 0,
    }


def whole(records: PersonaRecords) -> Layout:
    """Return the context of all sessions of a user, in order of their dates."""
    plans = sorted((s for topic in records.history.topics for s in topic.sessions), key=lambda plan: plan.date)
    return lay_out(records, [Block(kind="session", id=plan.session_id) for plan in plans], {})


def _message(role: Literal["user", "assistant"], content: str, rng: random.Random, told: Sequence[str] = ()) -> Message:
    return Message(role=role, content=content, num_tokens=rng.randint(50, 150), event_ids=tuple(told))


def _session(plan: SessionPlan, rng: random.Random) -> Conversation:
    messages = []
    for i, told in enumerate([(), *((event_id,) for event_id in plan.event_ids), ()]):
        messages.append(_message("user", f"{plan.session_id} user {i} ü", rng, told))
        messages.append(_message("assistant", f"{plan.session_id} assistant {i}", rng))
    return Conversation(plan.session_id, tuple(messages))


def _question(plan: QuestionPlan, rng: random.Random) -> Question:
    order = rng.sample(range(4), 4)
    options = [
        Option(text=f"It is {'; '.join(o.states)}.", states=o.states, role=o.role, stereotypical=o.stereotypical)
        for o in (plan.options[i] for i in order)
    ]
    return Question(
        question_id=content_id(
            "question", plan.persona_id, plan.question_type, plan.topic, plan.subject, plan.options, plan.evidence
        ),
        persona_id=plan.persona_id,
        question_type=plan.question_type,
        topic=plan.topic,
        subject=plan.subject,
        message="What now?",
        num_tokens=rng.randint(5, 30),
        options=tuple(options),  # type: ignore[arg-type]
        answer_index=order.index(0),
        evidence_event_ids=tuple(event.event_id for event in plan.evidence),
        evidence_tellings=tuple(event.telling for event in plan.evidence),
        after_session_ids=plan.after_session_ids,
        before_session_id=plan.before_session_id,
        updates_spanned=plan.updates_spanned,
    )


# --- an independent reader


class Reader:
    """Knows which events were told, and decides which options hold.

    It reads a line of `histories.jsonl` as it stands, and shares no code with the package.

    Args:
        history: The line.
        told: Ids of the events that a reader of the context knows of.
    """

    def __init__(self, history: dict[str, Any], told: Collection[str]) -> None:
        self._events: dict[str, dict[str, Any]] = {}
        for topic in history["topics"]:
            preferences = {p["preference_id"]: p for p in topic["preferences"]}
            for event in topic["events"]:
                of = preferences[event["preference_id"]]
                self._events[event["event_id"]] = event | {
                    "topic": topic["topic"],
                    "kind": of["kind"],
                    "subject": of["subject"],
                }
        self._told = [event for event_id, event in self._events.items() if event_id in told]

    def holding(self, row: dict[str, Any]) -> list[int]:
        """Return the indices of the options that hold, for a row of a dataset."""
        holds = getattr(self, f"_{row['question_type']}")
        return [i for i, states in enumerate(row["option_states"]) if holds(row, states)]

    def _in_topic(self, row: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        return [e for e in self._told if e["kind"] == kind and e["topic"] == row["topic"]]

    def _recall_user_shared_facts(self, row: dict[str, Any], states: list[str]) -> bool:
        return any(event["state"] == states[0] for event in self._in_topic(row, "fact"))

    def _suggest_new_ideas(self, row: dict[str, Any], states: list[str]) -> bool:
        return all(states[0] not in event["state"].split("; ") for event in self._in_topic(row, "trial"))

    def _acknowledge_latest_user_preferences(self, row: dict[str, Any], states: list[str]) -> bool:
        return self._states(row, states)[-1:] == states

    _provide_preference_aligned_recommendations = _acknowledge_latest_user_preferences

    def _track_full_preference_evolution(self, row: dict[str, Any], states: list[str]) -> bool:
        return self._states(row, states) == states

    def _revisit_reasons_behind_preference_updates(self, row: dict[str, Any], states: list[str]) -> bool:
        course = self._course(self._events[row["evidence_event_ids"][-1]]["preference_id"])
        return [event["reason"] for event in course][-1:] == states

    def _generalize_to_new_scenarios(self, row: dict[str, Any], states: list[str]) -> bool:
        about = {self._events[event_id]["topic"] for event_id in row["evidence_event_ids"]}
        counts = Counter(e["motive"] for e in self._told if e["motive"] is not None and e["topic"] in about)
        return [motive for motive, count in counts.items() if count == max(counts.values())] == states

    def _states(self, row: dict[str, Any], states: list[str]) -> list[str]:
        """Return the course of what an option speaks of: the slot in question, or the item that it names."""
        about = self._events[row["evidence_event_ids"][-1]]
        if about["kind"] == "slot":
            return [event["state"] for event in self._course(about["preference_id"])]
        item = states[0].split(": ", 1)[1]
        same = [event for event in self._in_topic(row, "item") if event["subject"] == item]
        return [f"{event['state']}: {item}" for event in self._course(same[0]["preference_id"])] if same else []

    def _course(self, preference_id: str) -> list[dict[str, Any]]:
        following = {e["previous_event_id"]: e for e in self._told if e["preference_id"] == preference_id}
        course = []
        at = None
        while at in following:
            course.append(following[at])
            at = following[at]["event_id"]
        return course
