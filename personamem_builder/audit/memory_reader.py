"""The rule-based evidence reader as an answer model: what can be read from what a memory system gave back.

It reads generated data in the words of the offline banks, and knows of the user what it was given, no more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from generation.banks.load import load_shipped_banks
from generation.errors import UserError
from personamem_builder.audit.evidence_reader import STATE_TYPES, Evidence, EvidenceReader, subjects
from personamem_builder.memory.measures import Excerpt
from personamem_builder.schema import ContextRow, QuestionRow, option_texts


def read_with_rules(
    rows: Sequence[QuestionRow], contexts: Iterable[ContextRow], excerpts: Mapping[str, Excerpt]
) -> dict[str, float]:
    """Answer questions by rule from what each is given.

    The messages of the user are read in the order of the conversation; those of other topics, and those that tell of
    nothing that the options speak of, are passed over. The topic of a question that generalizes is the one that its
    message names. Texts that stand for no message are taken to be about the topic of the question.

    Args:
        rows: The questions.
        contexts: The shared contexts of the split.
        excerpts: What each question is read with, by its id.

    Returns:
        The credit of each question that the shipped banks cover, by its id: 1 if the answer is right, 0 if it is wrong,
        and that of a guess if the reader cannot decide.

    Raises:
        UserError: The banks cover no question.
    """
    reader = EvidenceReader(load_shipped_banks())
    by_id = {context["shared_context_id"]: context for context in contexts}
    credits_ = {}
    for row in rows:
        if not row.get("option_states") or not reader.knows(row["question_type"], row["topic"], ()):
            continue
        evidence = _bearing(reader, row, _told(by_id, row, excerpts[row["question_id"]]))
        message = row["user_question_or_message"]
        chosen = reader.answer(row["question_type"], row["topic"], message, option_texts(row), evidence)
        guess = 1 / len(row["all_options"])
        credits_[row["question_id"]] = guess if chosen is None else float(chosen == row["answer_index"])
    if not credits_:
        raise UserError(
            "no question is in the words of the banks that come with this package",
            "the answers of rules need data that `personamem generate` made offline",
        )
    return credits_


def _told(contexts: Mapping[str, ContextRow], row: QuestionRow, excerpt: Excerpt) -> Evidence:
    context = contexts[excerpt.context_id]
    messages, starts, topics = context["messages"], context["session_starts"], context["session_topics"]
    told = [
        (messages[i]["content"], topics[bisect_right(starts, i) - 1])
        for i in sorted(set(excerpt.indices))
        if messages[i]["role"] == "user"
    ]
    return told + [(text, row["topic"]) for text in excerpt.texts]


def _bearing(reader: EvidenceReader, row: QuestionRow, told: Evidence) -> Evidence:
    """Return what bears on a question: its topics, and for one about states the values or the item of its options."""
    question_type = row["question_type"]
    if question_type == "generalize_to_new_scenarios":
        topics = {row["topic"], *reader.topics_named(row["user_question_or_message"])}
        return [(text, topic) for text, topic in told if topic in topics]
    own = [(text, topic) for text, topic in told if topic == row["topic"]]
    if question_type not in STATE_TYPES:
        return own
    about = subjects(row["option_states"])
    return [one for one in own if reader.course([one], about)]
