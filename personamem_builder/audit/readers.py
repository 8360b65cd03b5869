"""Readers of generated data: one that sees the evidence alone, and a replay of the states."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from generation.banks.load import load_shipped_banks
from personamem_builder.audit.evidence_reader import STATE_TYPES, EvidenceReader, holds, subject, subjects
from personamem_builder.audit.records import (
    EXAMPLES,
    AuditedSplit,
    Finding,
    accuracy_findings,
    count_finding,
    not_made,
)
from personamem_builder.schema import Message, QuestionRow, option_texts

EVIDENCE: Final = "reader.evidence"
REPLAY: Final = "reader.replay"

_OFFLINE: Final = "text of the offline banks"
_RIGHT_ROLES: Final = frozenset({"current", "new"})

# The evidence of these comes as a set; that of the others is a course or a single message.
_UNORDERED: Final = frozenset({"suggest_new_ideas", "generalize_to_new_scenarios"})


def reader_findings(split: AuditedSplit) -> list[Finding]:
    """Return whether the evidence of generated questions suffices.

    - `reader.evidence`: right answers of a rule-based reader that sees the evidence messages and the texts of the
      options; its examples are questions that it does not answer.
    - `reader.replay`: questions whose roles, evidence and states contradict one another or the visible messages.

    The first, and what the replay reads, need questions in the words of the banks that come with the distribution;
    questions of other topics are left out, and a note says how many.
    """
    if not can_be_read(split):
        return unread(split)
    return findings_of_readings(split, read_questions(split, is_offline(split)))


def can_be_read(split: AuditedSplit) -> bool:
    """Whether there is what readers need: generated questions, and their contexts."""
    return split.is_generated and split.contexts is not None


def unread(split: AuditedSplit) -> list[Finding]:
    """Return the findings of a split that cannot be read."""
    return not_made(split, "contexts" if split.is_generated else "generated data", EVIDENCE, REPLAY)


def findings_of_readings(split: AuditedSplit, readings: Sequence[ReadQuestion]) -> list[Finding]:
    """Return the findings of `reader_findings`, from what was read of each question."""
    legible = [i for i, reading in enumerate(readings) if reading.legible]
    return [
        *_evidence_findings(split, readings, legible),
        _replay_finding(split, readings, len(legible)),
    ]


class ReadQuestion(NamedTuple):
    """A question as the readers read it.

    Attributes:
        legible: Whether there are banks for it.
        faults: What the replay found, in words.
        answered: Whether the evidence reader was right.
    """

    legible: bool
    faults: list[str]
    answered: bool = False


class _ContextText:
    """A shared context: its messages, and the topic of each."""

    def __init__(
        self, messages: Sequence[Message] = (), session_starts: Sequence[int] = (), topics: Sequence[str] = ()
    ) -> None:
        self.messages = messages
        self._sessions = session_starts
        self._topics = topics if any(topics) else ()  # an imported release has an empty topic for each session

    def topic(self, index: int) -> str:
        """Return the topic of the session of a message, `""` where it has none or none is known."""
        session = bisect_right(self._sessions, index) - 1
        return self._topics[session] if 0 <= session < len(self._topics) else ""

    def said_by_user(self, topic: str, end: int) -> list[int]:
        """Return the indices of the user's messages before `end`, in sessions of a topic."""
        # Where no topics are known, any session may be one of the topic.
        own = [i for i, message in enumerate(self.messages[:end]) if message["role"] == "user"]
        return [i for i in own if not self._topics or self.topic(i) == topic]


@cache
def _shipped_reader() -> EvidenceReader:
    return EvidenceReader(load_shipped_banks())


def is_offline(split: AuditedSplit) -> bool:
    """Whether most messages of a split are sentences of the banks: text that a model wrote has their topics only."""
    reader = _shipped_reader()
    familiar = sum(reader.recognises(row["topic"], row["user_question_or_message"]) for row in split.rows)
    return 2 * familiar >= len(split.rows)


def read_questions(split: AuditedSplit, offline: bool) -> list[ReadQuestion]:
    """Read every question of a split, in one pass through its contexts.

    Args:
        split: The questions; one whose context is missing is read without one.
        offline: Whether they are in the words of the banks, see `is_offline`.
    """
    reader = _shipped_reader()
    asked = split.asked
    readings: dict[int, ReadQuestion] = {}
    for context in split.contexts() if split.contexts is not None else ():
        if own := asked.get(context["shared_context_id"]):
            text = _ContextText(context["messages"], context["session_starts"], context["session_topics"])
            readings |= {i: _read_row(split.rows[i], text, reader, offline) for i in own}
    nothing = _ContextText()
    return [readings.get(i) or _read_row(row, nothing, reader, offline) for i, row in enumerate(split.rows)]


def _read_row(row: QuestionRow, context: _ContextText, reader: EvidenceReader, offline: bool) -> ReadQuestion:
    end, answer = row["end_index_in_shared_context"], row["answer_index"]
    indices = [i for i in row["evidence_message_indices"] if 0 <= i < len(context.messages)]
    evidence = [(i, (context.messages[i]["content"], context.topic(i) or row["topic"])) for i in indices]
    visible = [message for i, message in evidence if i < end]
    question_type, topic = row["question_type"], row["topic"]
    reading = ReadQuestion(
        legible=offline and reader.knows(question_type, topic, [message for _, message in evidence]),
        faults=_structure_faults(row, context),
    )
    if not reading.legible:
        return reading
    message = row["user_question_or_message"]
    asked = reader.about(question_type, topic, message, row["option_states"])
    told = reader.told(question_type, [one for _, one in evidence], asked)
    return reading._replace(
        answered=reader.answer(question_type, topic, message, option_texts(row), visible) == answer,
        faults=[*reading.faults, *_state_faults(row, told), *_silence_faults(row, context, reader)],
    )


def _structure_faults(row: QuestionRow, context: _ContextText) -> list[str]:
    """Find what is wrong with a question before anything is read."""
    faults = []
    right = [i for i, role in enumerate(row["option_roles"]) if role in _RIGHT_ROLES]
    if right != [row["answer_index"]]:
        says = ", ".join(map(str, right)) or "none"
        faults.append(f"option {row['answer_index']} is the answer, but right by the roles: {says}")
    indices = row["evidence_message_indices"]
    order = sorted(indices) if row["question_type"] in _UNORDERED else indices
    if any(a > b for a, b in pairwise(order)):  # a message may tell two events
        faults.append("the evidence is not in order")
    roles = [context.messages[i]["role"] if 0 <= i < len(context.messages) else "no" for i in indices]
    faults += [f"evidence {i} is {role} message" for i, role in zip(indices, roles, strict=True) if role != "user"]
    return faults


def _state_faults(row: QuestionRow, told: Sequence[str]) -> list[str]:
    """Find options whose states disagree with the evidence: a gold that it does not bear out, a wrong one it does."""
    faults = []
    for i, states in enumerate(row["option_states"]):
        right = i == row["answer_index"]
        if holds(row["question_type"], states, told) != right:
            says = "is the answer, but not by the evidence" if right else "holds by the evidence, but is no answer"
            faults.append(f"option {i} ({'; '.join(states)}) {says}")
    return faults


def _silence_faults(row: QuestionRow, context: _ContextText, reader: EvidenceReader) -> list[str]:
    """Find visible messages that tell as the user's own what the evidence does not.

    Others hold the states of the options too, and so did the user once; but what the user says of themselves beside the
    evidence is an update that the answer misses, or an idea that is not new.
    """
    if row["question_type"] not in (*STATE_TYPES, "suggest_new_ideas"):
        return []
    names = subjects(row["option_states"])
    told = {*row["evidence_message_indices"]}
    return [
        f"message {i} tells {state}, but is no evidence"
        for i in context.said_by_user(row["topic"], row["end_index_in_shared_context"])
        if i not in told
        for state in reader.own_states(context.messages[i]["content"], row["topic"])
        if subject(state) in names
    ]


def _evidence_findings(split: AuditedSplit, readings: Sequence[ReadQuestion], legible: Sequence[int]) -> list[Finding]:
    """Return how often the evidence reader is right; the examples are questions that it does not answer."""
    if not legible:
        return not_made(split, _OFFLINE, EVIDENCE)
    left_out = len(split.rows) - len(legible)
    note = f"{left_out} questions of topics that no shipped bank covers are left out" if left_out else ""
    part, answered = split.part(legible), [readings[i].answered for i in legible]
    failed = {
        name: tuple(part.question_ids[i] for i in indices if not answered[i])[:EXAMPLES]
        for name, indices in part.slices.items()
    }
    found = accuracy_findings(EVIDENCE, part, [*map(float, answered)])
    return [finding._replace(examples=failed[finding.slice], note=note) for finding in found]


def _replay_finding(split: AuditedSplit, readings: Sequence[ReadQuestion], legible: int) -> Finding:
    faulty = [(id_, r.faults) for id_, r in zip(split.question_ids, readings, strict=True) if r.faults]
    notes = [f"{id_}: {'; '.join(faults)}" for id_, faults in faulty[:EXAMPLES]]
    if legible < len(split.rows):
        notes.append(f"the states of {len(split.rows) - legible} questions are not replayed: that needs {_OFFLINE}")
    return count_finding(REPLAY, split, [id_ for id_, _ in faulty])._replace(note="\n".join(notes))
