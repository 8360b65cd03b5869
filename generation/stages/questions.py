"""Stage 4: the questions, from the plans to their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Final

from pydantic import BaseModel

from generation.banks.load import Banks
from generation.generic_replies import GenericReply, generic_faults, generic_request, generic_wording_faults
from generation.grammar import mentions
from generation.llm.client import Client, Request
from generation.question_plans import QuestionPlan
from generation.records import MEANINGS, STANCES, Option, Question, content_id
from generation.request_facts import QuestionFacts
from generation.revision import ask_and_read_back
from generation.seeds import option_order, rng_for
from generation.text_checks import role_faults, text_faults, words_of
from generation.tokenizer import num_tokens, token_length

MAX_LENGTH_RATIO: Final = 1.1
"""The longest option of a question has at most so many times the tokens of the shortest."""

_FORMS: Final = (
    "one sentence",
    "two sentences, the first of which takes up the message",
    "two sentences, the second a practical step",
    "three short sentences",
    "a sentence, and a question back",
    "a sentence, and two steps in one line",
)
"""Forms of replies: one for each question, the same for its four options."""

_NUMBERED: Final = re.compile(r"\s*(?:option|reply)?\s*[(\[]?[a-d1-4][).:\]]\s", re.IGNORECASE)
_SMALL: Final = frozenset({"a", "an", "the", "very", "really", "just", "so", "quite"})  # options differ in more
_TELLING: Final = 4  # letters of a word that may give a state away


class QuestionReply(BaseModel):
    """What the model writes: the user's message, and a response for each state in the order given."""

    message: str
    options: list[str]


class ReadOptionsReply(BaseModel):
    """What a reader finds: for each response the number of the state that it stands for, or 0."""

    numbers: list[int]


def question_request(plan: QuestionPlan, banks: Banks) -> Request:
    """Return the call that puts a question into words.

    The states stand in an order that says nothing, and nothing says which of them is right.
    """
    # Of the two items in the options the user knows one: which, must not be said.
    subject = "" if plan.kind == "item" else plan.subject
    if plan.kind == "scenario":
        label = name = next(one.name for one in banks.scenarios.scenarios if one.id == subject)
    else:
        topic = banks.topics[plan.topic]
        label, name = topic.label, topic.name_of(subject)
    states = [list(option) for option in _blind_order(plan)]
    facts: QuestionFacts = {
        "topic": plan.topic,
        "topic_label": label,
        "kind": plan.kind,
        "subject": subject,
        "subject_name": name,
        "states": states,
        "max_length_ratio": MAX_LENGTH_RATIO,
        "about": banks.topics[plan.about].label if plan.about else "",
        "name": plan.persona.name,
        "profile": plan.persona.profile,
        "manner": banks.voices.voice(plan.persona.voice).manner,
        "form": rng_for(0, "form", plan.persona_id, plan.question_type, plan.topic, *map(str, states)).choice(_FORMS),
        "meanings": dict[str, str](MEANINGS.items()) if plan.kind == "scenario" else {},
    }
    evidence = [event.event_id for event in plan.evidence]
    seed = ("question", plan.persona_id, plan.question_type, plan.topic, plan.subject, *evidence)
    return Request(plan.question_type, facts, seed, plan.persona_id, plan.about or plan.topic)


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


def wording_faults(reply: QuestionReply, states: Sequence[Sequence[str]]) -> list[str]:
    """Return what is wrong with the words of a question: of its message, which must give no state away, and options."""
    faults = [f"the message {fault}" for fault in (*text_faults(reply.message), *role_faults(reply.message, "user"))]
    faults += [f"the message gives away {state!r}" for state in _given_away(reply.message, states)]
    for number, option in enumerate(reply.options, start=1):
        found = [*text_faults(option), *role_faults(option, "assistant")]
        if _NUMBERED.match(option):
            found.append("begins with its number")
        faults += [f"option {number} {fault}" for fault in found]
    words = [[word for word in words_of(option) if word not in _SMALL] for option in reply.options]
    return faults + [
        f"options {i + 1} and {j + 1} say nearly the same"
        for (i, first), (j, second) in combinations(enumerate(words), 2)
        if first == second
    ]


def _given_away(message: str, states: Sequence[Sequence[str]]) -> list[str]:
    """Return the states that a message names, or of which it has most of the words that only they have."""
    lower, told = message.lower(), set(words_of(message))
    names = [[_bare(state) for state in steps] for steps in states]
    words = [{word for name in steps for word in words_of(name) if len(word) >= _TELLING} for steps in names]
    given = []
    for steps, mine in zip(names, words, strict=True):
        others = set[str]().union(*(other for other in words if other is not mine))
        own = mine - others
        common = own & told
        if any(mentions(lower, name.lower()) for name in steps) or 2 * len(common) > len(own):
            given.append(", then ".join(steps))
    return given


def _bare(state: str) -> str:
    """Return what a state is about: of a stance on an item, the item."""
    stance, _, item = state.partition(": ")
    return item if stance in STANCES else state


def read_options_request(request: Request, reply: QuestionReply) -> tuple[Request, list[int], list[int]]:
    """Return the call that reads options back, and the orders in which it shows options and states."""
    states = request.facts["states"]
    rng = rng_for(0, "read options", *reply.options)
    options_order, states_order = (rng.sample(range(len(states)), len(states)) for _ in range(2))
    facts = {key: request.facts[key] for key in ("topic_label", "kind", "subject_name", "meanings")}
    facts |= {
        "question_type": request.template,
        "options": [reply.options[i] for i in options_order],
        "states": [states[i] for i in states_order],
    }
    return request._replace(template="read_options", facts=facts), options_order, states_order


def _read_back(
    client: Client, request: Request, reply: QuestionReply, faults_of: Callable[[Sequence[int | None]], list[str]]
) -> list[str]:
    """Have the options read by somebody who does not know which is for which state.

    `faults_of` says what is wrong, given for each option the index of the state that it was taken for, None for none.
    """
    reading_request, options_order, states_order = read_options_request(request, reply)

    def check(reading: ReadOptionsReply) -> list[str]:
        count = len(states_order)
        if len(reading.numbers) != count or not all(0 <= number <= count for number in reading.numbers):
            return [f"there must be {count} numbers from 0 to {count}"]
        return []

    def found(reading: ReadOptionsReply) -> list[str]:
        numbers = dict(zip(options_order, reading.numbers, strict=True))
        return faults_of([states_order[numbers[i] - 1] if numbers[i] else None for i in range(len(numbers))])

    return found(client.reader.ask(reading_request, ReadOptionsReply, check, lambda reading: bool(found(reading))))


def _misread(request: Request, taken_for: Sequence[int | None]) -> list[str]:
    names = _names(request)
    faults = []
    for option, taken in enumerate(taken_for):
        if taken is None:
            faults.append(f"option {option + 1} does not assert its own thing ({names[option]}) and no other")
        elif taken != option:
            faults.append(f"option {option + 1} is to assert: {names[option]}; it was taken for: {names[taken]}")
    return faults


def _names(request: Request) -> list[str]:
    return [", then ".join(steps) for steps in request.facts["states"]]


def _ask(client: Client, request: Request) -> QuestionReply:
    states = request.facts["states"]

    def check(reply: QuestionReply) -> list[str]:
        return question_faults(reply, len(states))

    def check_words(reply: QuestionReply) -> list[str]:
        return check(reply) or wording_faults(reply, states)

    if not client.is_free_writer:
        return client.ask(request, QuestionReply, check)
    return ask_and_read_back(
        client,
        request,
        QuestionReply,
        check_words,
        read_back=lambda reply: _read_back(client, request, reply, partial(_misread, request)),
    )


def generic_call(plan: QuestionPlan, request: Request, reply: QuestionReply) -> Request:
    """Return the call for the generic replies of a question that was put into words."""
    replaced = [reply.options[i] for i in _generic_places(plan)]
    return generic_request(request, plan.question_type, reply.message, replaced)


def _generic_places(plan: QuestionPlan) -> list[int]:
    """Return the places of generic options in the order of the request."""
    order = _blind_order(plan)
    return sorted(order.index(plan.options[i].states) for i in plan.generic)


def _with_generic(client: Client, plan: QuestionPlan, request: Request, reply: QuestionReply) -> QuestionReply:
    """Have generic replies written for the places of a question's options that its plan names."""
    places = _generic_places(plan)
    kept = [option for i, option in enumerate(reply.options) if i not in places]
    generic = generic_call(plan, request, reply)
    # What moves people goes by common words, which any advice may hold.
    states = [] if plan.kind == "scenario" else request.facts["states"]
    names = [_bare(state) for steps in states for state in steps]

    def check(written: GenericReply) -> list[str]:
        return generic_faults(written, kept, len(places), MAX_LENGTH_RATIO)

    def check_words(written: GenericReply) -> list[str]:
        return check(written) or generic_wording_faults(written, names)

    def replaced(written: GenericReply) -> QuestionReply:
        texts = dict(zip(places, written.replies, strict=True))
        return QuestionReply(
            message=reply.message, options=[texts.get(i, option) for i, option in enumerate(reply.options)]
        )

    def taken_for_something(taken_for: Sequence[int | None]) -> list[str]:
        return [
            f"reply {number} is to assert nothing of the user; it was taken for: {_names(request)[taken]}"
            for number, place in enumerate(places, start=1)
            if (taken := taken_for[place]) is not None
        ]

    if not client.is_free_writer:
        return replaced(client.ask(generic, GenericReply, check))
    written = ask_and_read_back(
        client,
        generic,
        GenericReply,
        check_words,
        read_back=lambda written: _read_back(client, request, replaced(written), taken_for_something),
    )
    return replaced(written)


def write_question(client: Client, plan: QuestionPlan, banks: Banks) -> Question:
    """Have a question put into words."""
    request = question_request(plan, banks)
    reply = _ask(client, request)
    if plan.generic:
        reply = _with_generic(client, plan, request, reply)
    texts = dict(zip(_blind_order(plan), reply.options, strict=True))
    options = [
        Option(text=texts[worded.states], states=o.states, role=o.role, stereotypical=o.stereotypical)
        for worded, o in zip(plan.options, plan.shown, strict=True)
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
    order = option_order(question_id, len(options))
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
        evidence_tellings=tuple(event.telling for event in plan.evidence),
        after_session_ids=plan.after_session_ids,
        before_session_id=plan.before_session_id,
        updates_spanned=plan.updates_spanned,
    )
