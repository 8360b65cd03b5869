"""Readers of generated data: one that sees the evidence alone, two careless ones, and a replay of the states."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from generation.banks.load import load_shipped_banks
from generation.records import STANCES
from personamem_builder.audit.evidence_reader import STATE_TYPES, EvidenceReader, holds
from personamem_builder.audit.records import (
    ALL,
    AuditedSplit,
    Finding,
    Row,
    SharedContext,
    accuracy_findings,
    count_finding,
)
from personamem_builder.policies import best_credit
from personamem_builder.schema import option_texts

EVIDENCE: Final = "reader.evidence"
FIRST_HELD: Final = "reader.first_held"
LAST_MENTIONED: Final = "reader.last_mentioned"
REPLAY: Final = "reader.replay"

_OFFLINE: Final = "text of the offline banks"
_STATES: Final = "questions about states"
_RIGHT_ROLES: Final = frozenset({"current", "new"})
_SHOWN: Final = 5  # examples and faults of a finding

# The evidence of these comes as a set; that of the others is a course or a single message.
_UNORDERED: Final = frozenset({"suggest_new_ideas", "generalize_to_new_scenarios"})


def reader_findings(split: AuditedSplit) -> list[Finding]:
    """Return whether the evidence of generated questions suffices, and whether a careless reader gets by.

    - `reader.evidence`: right answers of a rule-based reader that sees the evidence messages and the texts of the
      options; its examples are questions that it does not answer.
    - `reader.first_held`: right answers about states of one that believes the first state it heard of.
    - `reader.last_mentioned`: right answers about states of one that takes the option whose last state was mentioned
      last by anyone, in any conversation.
    - `reader.replay`: questions whose roles, evidence and states contradict one another or the visible messages.

    The first two, and what the replay reads, need questions in the words of the banks that come with the distribution;
    questions of other topics are left out, and a note says how many.

    Args:
        split: The questions and contexts.
    """
    if not split.is_generated or split.contexts is None:
        lack = "contexts" if split.is_generated else "generated data"
        return [Finding(check, split.name, needs=lack) for check in (EVIDENCE, FIRST_HELD, LAST_MENTIONED, REPLAY)]
    readings = _read(split)
    legible = [i for i, reading in enumerate(readings) if reading.legible]
    known, known_readings = _part(split, legible), [readings[i] for i in legible]
    return [
        *_evidence_findings(known, known_readings, left_out=len(split.rows) - len(legible)),
        *_about_states(
            FIRST_HELD, known, [reading.first_held for reading in known_readings], _STATES if legible else _OFFLINE
        ),
        *_about_states(LAST_MENTIONED, split, [reading.last_mentioned for reading in readings], _STATES),
        _replay_finding(split, readings, len(legible)),
    ]


class _Reading(NamedTuple):
    """What became of a question.

    Attributes:
        legible: Whether there are banks for it.
        last_mentioned: The credit of believing the last mention.
        faults: What the replay found, in words.
        answered: Whether the evidence reader was right.
        first_held: The credit of believing the first state.
    """

    legible: bool
    last_mentioned: float
    faults: list[str]
    answered: bool = False
    first_held: float = 0.0


class _Context:
    """A shared context whose text can be searched: all messages, in lower case, as one string."""

    def __init__(self, context: SharedContext) -> None:
        self.messages = context.messages
        self._sessions = context.session_starts
        self._topics = context.session_topics
        lower = [message["content"].lower() for message in context.messages]
        self._text = "\n".join(lower)
        self._starts = [0, *accumulate(len(text) + 1 for text in lower)]
        self._places: dict[str, list[int]] = {}

    def topic(self, index: int) -> str:
        """Return the topic of the session of a message, `""` where it has none or none is known."""
        session = bisect_right(self._sessions, index) - 1
        return self._topics[session] if 0 <= session < len(self._topics) else ""

    def last_mention(self, phrase: str, end: int) -> int:
        """Return where a phrase was last mentioned before message `end`, -1 if nowhere."""
        places = self._mentions(phrase)
        before = bisect_right(places, self._start(end) - 1)
        return places[before - 1] if before else -1

    def said_by_user(self, phrase: str, topic: str, end: int) -> list[int]:
        """Return the indices of the user's messages before `end`, in sessions of a topic, that mention a phrase."""
        indices = dict.fromkeys(bisect_right(self._starts, place) - 1 for place in self._mentions(phrase))
        users = [i for i in indices if i < end and self.messages[i]["role"] == "user"]
        # Where no topics are known, any session may be one of the topic.
        return [i for i in users if not self._topics or self.topic(i) == topic]

    def _start(self, index: int) -> int:
        return self._starts[min(index, len(self.messages))]

    def _mentions(self, phrase: str) -> list[int]:
        """Return where a phrase stands as whole words; whole contexts are searched, so each phrase only once."""
        if phrase not in self._places:
            self._places[phrase] = _find(self._text, phrase.lower()) if phrase else []
        return self._places[phrase]


def _find(text: str, phrase: str) -> list[int]:
    places = []
    at = text.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        if not text[at - 1 : at].isalnum() and not text[end : end + 1].isalnum():
            places.append(at)
        at = text.find(phrase, at + 1)
    return places


@cache
def _shipped_reader() -> EvidenceReader:
    return EvidenceReader(load_shipped_banks())


def _read(split: AuditedSplit) -> list[_Reading]:
    """Read every question of a split, in one pass through its contexts."""
    reader = _shipped_reader()
    # Text that a model wrote has the topics of the banks but not their sentences.
    familiar = sum(reader.recognises(row["topic"], row["user_question_or_message"]) for row in split.rows)
    offline = 2 * familiar >= len(split.rows)
    asked: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(split.rows):
        asked[row["shared_context_id"]].append(i)
    readings: dict[int, _Reading] = {}
    for shared in split.contexts() if split.contexts is not None else ():
        if shared.shared_context_id in asked:
            context = _Context(shared)
            for i in asked[shared.shared_context_id]:
                readings[i] = _read_row(split.rows[i], context, reader, offline)
    # A question whose context is missing is read without one.
    nothing = _Context(SharedContext("", 0, (), (), 0))
    return [readings.get(i) or _read_row(row, nothing, reader, offline) for i, row in enumerate(split.rows)]


def _read_row(row: Row, context: _Context, reader: EvidenceReader, offline: bool) -> _Reading:
    end, answer, chance = row["end_index_in_shared_context"], row["answer_index"], 1 / len(row["all_options"])
    indices = [i for i in row["evidence_message_indices"] if 0 <= i < len(context.messages)]
    evidence = [(i, (context.messages[i]["content"], context.topic(i) or row["topic"])) for i in indices]
    visible = [message for i, message in evidence if i < end]
    question_type, topic = row["question_type"], row["topic"]
    about_states = question_type in STATE_TYPES
    last = [context.last_mention(_subject(states), end) for states in row["option_states"]] if about_states else []
    reading = _Reading(
        legible=offline and reader.knows(question_type, topic, [message for _, message in evidence]),
        last_mentioned=best_credit(last, answer) if last else chance,
        faults=_structure_faults(row, context),
    )
    if not reading.legible:
        return reading
    told = reader.told(question_type, [message for _, message in evidence])
    first = reader.course(visible)[:1] if about_states else ()
    return reading._replace(
        answered=reader.answer(question_type, topic, option_texts(row), visible) == answer,
        # Where no option says so, all tie: it guesses.
        first_held=best_credit([tuple(states[-1:]) == first for states in row["option_states"]], answer),
        faults=[*reading.faults, *_state_faults(row, told), *_silence_faults(row, context)],
    )


def _subject(states: Sequence[str]) -> str:
    """Return what the last of some states speaks of: the item of a stance, or the value."""
    [state] = states[-1:] or [""]
    stance, colon, item = state.partition(": ")
    return item if colon and stance in STANCES else state


def _structure_faults(row: Row, context: _Context) -> list[str]:
    """Find what is wrong with a question before anything is read."""
    faults = []
    right = [i for i, role in enumerate(row["option_roles"]) if role in _RIGHT_ROLES]
    if right != [row["answer_index"]]:
        says = ", ".join(map(str, right)) or "none"
        faults.append(f"option {row['answer_index']} is the answer, but right by the roles: {says}")
    indices = row["evidence_message_indices"]
    order = sorted(indices) if row["question_type"] in _UNORDERED else indices
    if any(a >= b for a, b in pairwise(order)):
        faults.append("the evidence is not in order")
    roles = [context.messages[i]["role"] if 0 <= i < len(context.messages) else "no" for i in indices]
    faults += [f"evidence {i} is {role} message" for i, role in zip(indices, roles, strict=True) if role != "user"]
    return faults


def _state_faults(row: Row, told: Sequence[str]) -> list[str]:
    """Find options whose states disagree with the evidence: a gold that it does not bear out, a wrong one it does."""
    faults = []
    for i, states in enumerate(row["option_states"]):
        right = i == row["answer_index"]
        if holds(row["question_type"], states, told) != right:
            says = "is the answer, but not by the evidence" if right else "holds by the evidence, but is no answer"
            faults.append(f"option {i} ({'; '.join(states)}) {says}")
    return faults


def _silence_faults(row: Row, context: _Context) -> list[str]:
    """Find visible messages of the user that speak of what they should not.

    In talks about a topic users name a value or an item only where they tell of it. So what messages other than the
    evidence say of the states of an option is an update that the answer misses, and a new idea must not be named.
    """
    options = row["option_states"]
    if row["question_type"] == "suggest_new_ideas":
        subjects, told = [_subject(options[row["answer_index"]])], []
    elif row["question_type"] in STATE_TYPES:
        subjects, told = [_subject([state]) for states in options for state in states], row["evidence_message_indices"]
    else:
        return []
    return [
        f"message {i} speaks of {subject}, but is no evidence"
        for subject in dict.fromkeys(subjects)
        for i in context.said_by_user(subject, row["topic"], row["end_index_in_shared_context"])
        if i not in told
    ]


def _part(split: AuditedSplit, chosen: Sequence[int]) -> AuditedSplit:
    return dataclasses.replace(split, rows=[split.rows[i] for i in chosen])


def _evidence_findings(split: AuditedSplit, readings: Sequence[_Reading], left_out: int) -> list[Finding]:
    """Return how often the evidence reader is right; the examples are questions that it does not answer."""
    if not readings:
        return [Finding(EVIDENCE, split.name, needs=_OFFLINE)]
    note = f"{left_out} questions of topics that no shipped bank covers are left out" if left_out else ""
    found = accuracy_findings(EVIDENCE, split, [float(reading.answered) for reading in readings])
    failed = [row for row, reading in zip(split.rows, readings, strict=True) if not reading.answered]
    return [finding._replace(examples=_ids(failed, finding.slice)[:_SHOWN], note=note) for finding in found]


def _ids(rows: Sequence[Row], slice_: str) -> tuple[str, ...]:
    return tuple(row["question_id"] for row in rows if slice_ in (ALL, row["question_type"]))


def _about_states(check: str, split: AuditedSplit, credits_: Sequence[float], needs: str) -> list[Finding]:
    chosen = [i for i, question_type in enumerate(split.types) if question_type in STATE_TYPES]
    if not chosen:
        return [Finding(check, split.name, needs=needs)]
    return accuracy_findings(check, _part(split, chosen), [credits_[i] for i in chosen])


def _replay_finding(split: AuditedSplit, readings: Sequence[_Reading], legible: int) -> Finding:
    faulty = [(row["question_id"], r.faults) for row, r in zip(split.rows, readings, strict=True) if r.faults]
    notes = [f"{id_}: {'; '.join(faults)}" for id_, faults in faulty[:_SHOWN]]
    if legible < len(split.rows):
        notes.append(f"the states of {len(split.rows) - legible} questions are not replayed: that needs {_OFFLINE}")
    return count_finding(REPLAY, split, [id_ for id_, _ in faulty])._replace(note="\n".join(notes))
