"""Stage 4: the questions, from the plans to their words."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from generation.banks.load import Banks
from generation.llm.client import Client, Request
from generation.question_plans import QuestionPlan
from generation.records import Option, Question, content_id
from generation.seeds import rng_for
from generation.tokenizer import num_tokens, token_length

MAX_LENGTH_RATIO: Final = 1.1
"""The longest option of a question has at most so many times the tokens of the shortest."""


class QuestionReply(BaseModel):
    """What the model writes: the user's message, and a response for each state in the order given."""

    message: str
    options: list[str]


def question_request(plan: QuestionPlan, banks: Banks) -> Request:
    """Return the call that puts a question into words.

    The states stand in an order that says nothing, and nothing says which of them is right.
    """
    topic = banks.topics.get(plan.topic)
    # Of the two items in the options the user knows one: which, must not be said, unless the message is to name it.
    blind = plan.kind == "item" and plan.question_type != "revisit_reasons_behind_preference_updates"
    subject = "" if blind else plan.subject
    slots = {slot.id: slot.name for slot in topic.slots} if topic is not None else {}
    facts: dict[str, Any] = {
        "topic": plan.topic,
        "topic_label": topic.label if topic is not None else plan.topic,
        "kind": plan.kind,
        "subject": subject,
        "subject_name": slots.get(subject, subject),
        "states": [list(states) for states in _blind_order(plan)],
        "max_length_ratio": MAX_LENGTH_RATIO,
    }
    evidence = [event.event_id for event in plan.evidence]
    seed = ("question", plan.persona_id, plan.question_type, plan.topic, plan.subject, *evidence)
    return Request(plan.question_type, facts, seed)


def _blind_order(plan: QuestionPlan) -> list[tuple[str, ...]]:
    return sorted(option.states for option in plan.options)


def question_faults(reply: QuestionReply, count: int) -> list[str]:
    """Return what is wrong with a question's words: their number, repeats, lengths."""
    if len(reply.options) != count:
        return [f"there are {len(reply.options)} options for {count} states"]
    faults = []
    if not reply.message.strip():
        faults.append("the message is empty")
    if len({option.strip().lower() for option in reply.options}) < count:
        faults.append("two options are the same")
    lengths = [token_length(option) for option in reply.options]
    if max(lengths) > MAX_LENGTH_RATIO * min(lengths):
        faults.append(
            f"the options have {', '.join(map(str, lengths))} tokens; the longest may have 10 % more than the shortest"
        )
    return faults


def write_question(client: Client, plan: QuestionPlan, banks: Banks) -> Question:
    """Have a question put into words.

    Raises:
        ReplyError: The backend gave no usable words.
    """
    reply = client.ask(
        question_request(plan, banks), QuestionReply, lambda reply: question_faults(reply, len(plan.options))
    )
    texts = dict(zip(_blind_order(plan), reply.options, strict=True))
    options = [
        Option(text=texts[o.states], states=o.states, role=o.role, stereotypical=o.stereotypical) for o in plan.options
    ]
    evidence = tuple(event.event_id for event in plan.evidence)
    question_id = content_id(
        "question",
        plan.persona_id,
        plan.question_type,
        plan.topic,
        plan.subject,
        reply.message,
        sorted(reply.options),
        evidence,
        plan.after_session_ids,
    )
    # A pure function of the id, so that no rewording elsewhere moves the answer.
    order = rng_for(0, "options", question_id).sample(range(len(options)), len(options))
    first, second, third, fourth = (options[i] for i in order)
    return Question(
        question_id=question_id,
        persona_id=plan.persona_id,
        question_type=plan.question_type,
        topic=plan.topic,
        subject=plan.subject,
        message=reply.message,
        num_tokens=num_tokens(reply.message),
        options=(first, second, third, fourth),
        answer_index=order.index(0),
        evidence_event_ids=evidence,
        after_session_ids=plan.after_session_ids,
        before_session_id=plan.before_session_id,
        updates_spanned=plan.updates_spanned,
    )
