"""Looking at a run before it is made: a sample of what it writes, and what it takes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from generation.config import Config, Price
from generation.generic_replies import GenericReply
from generation.history_records import History
from generation.llm.backends import parse_backend
from generation.llm.client import MAX_REPAIRS, Client, Request
from generation.llm.paid_models import ATTEMPTS
from generation.llm.prices import price_of
from generation.prompts import render
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import PERIODS, QUESTION_TYPES, Message, Persona, Question, Session
from generation.revision import REWRITES, STARTS, rewrite_request
from generation.run_inputs import RunInputs
from generation.session_text import (
    CoverageReply,
    SessionReply,
    ToldReading,
    Turn,
    coverage_request,
    expand_request,
    mend_request,
)
from generation.stages.fillers import filler_request, filler_tasks, write_filler
from generation.stages.histories import draw_history, history_request, write_history
from generation.stages.personas import draw_personas, persona_request, write_persona
from generation.stages.questions import (
    QuestionReply,
    ReadOptionsReply,
    generic_call,
    question_request,
    read_options_request,
    write_question,
)
from generation.stages.sessions import session_request, session_tasks, write_session
from generation.tokenizer import num_tokens


class Sample(NamedTuple):
    """The first persona, its history, the first session of its first topic, and a question of each type."""

    persona: Persona
    history: History
    session: Session
    questions: list[Question]


def sample(work: RunInputs) -> Sample:
    """Make a sample of a run; nothing is written to disk."""
    config, banks, client = work.config, work.banks, work.client()
    persona = write_persona(client, draw_personas(config, banks)[0])
    history = write_history(client, draw_history(config, persona, banks))
    session = write_session(client, session_tasks(config, persona, history, banks)[0])
    plans = _one_of_each_type(plan_questions(config, persona, history, banks))
    return Sample(persona, history, session, [write_question(client, plan, banks) for plan in plans])


def _one_of_each_type(plans: list[QuestionPlan]) -> list[QuestionPlan]:
    by_type = {plan.question_type: plan for plan in reversed(plans)}
    return [by_type[question_type] for question_type in QUESTION_TYPES if question_type in by_type]


def preview(work: RunInputs) -> str:
    """Return a sample of a run as text: a profile, the start of a session, a question of each type."""
    persona, _, session, questions = sample(work)
    lines = [persona.demographics, persona.profile, ""]
    shown = _shown(session)
    when = f"{PERIODS[session.period]}, {session.date}"
    lines.append(f"{session.topic}, {when}, {len(session.messages)} messages, of which {len(shown)}:")
    for message in shown:
        told = f"  [tells {', '.join(message.event_ids)}]" if message.event_ids else ""
        lines.append(f"  {message.role}: {message.content}{told}")
    for question in questions:
        lines += ["", f"{question.question_type} ({question.topic})", f"  user: {question.message}"]
        for i, option in enumerate(question.options):
            mark = "*" if i == question.answer_index else " "
            lines.append(f"  {mark}({'abcd'[i]}) {option.text}  [{option.role}]")
    return "\n".join(lines)


def _shown(session: Session) -> Sequence[Message]:
    """Return the first exchange of a session, and the first that tells an event."""
    messages = session.messages
    telling = next((i for i, message in enumerate(messages) if message.event_ids), 0)
    return [*messages[: min(2, telling)], *messages[telling : telling + 2]]


class Estimate(NamedTuple):
    """What the calls of one kind take.

    Attributes:
        calls: How many calls, if the first reply to each is good.
        prompt_tokens: About how many tokens are sent, repairs apart.
        reply_tokens: About how many come back.
        seconds: How long the offline backend takes for them, in one process; 0 for calls that it does not need.
        model: That is asked; empty for the offline backend.
        cost: In US dollars; None where the price of the model is unknown.
        if_needed: Whether these calls are made only for texts that are too short, or in which a reader finds a fault.
            How many are cannot be known before: the figures are for one call for each text.
        most_calls: How many calls there are at most, with all repairs, attempts and rewritings.
    """

    stage: str
    template: str
    calls: int
    prompt_tokens: int
    reply_tokens: int
    seconds: float
    model: str
    cost: float | None
    if_needed: bool
    most_calls: int


class _MeasuredCall(NamedTuple):
    """A call of the first persona, and what comes back if all is well."""

    stage: str
    request: Request
    reply: str
    seconds: float = 0.0


_READINGS: Final = ("coverage", "read_options")
"""Templates of calls to the reader."""

_IF_NEEDED: Final = ("expand", "rewrite", "rewrite_turns")
"""Templates of calls that depend on what the model wrote."""

_MOST_ASKED: Final = ATTEMPTS * (1 + MAX_REPAIRS)
"""Calls for one reply at most."""

_MOST_TEXTS: Final = dict.fromkeys(("rewrite", "rewrite_turns"), STARTS * REWRITES) | dict.fromkeys(
    ("coverage", "expand", "read_options"), STARTS * (1 + REWRITES)
)
"""Replies for one text that is read back, at most; of templates that are not named, one for each start."""


def estimate(work: RunInputs) -> list[Estimate]:
    """Estimate what a run takes, by measuring the calls of the first persona with the offline backend.

    What a language model writes is read back: these calls are rendered from the texts of the offline backend.

    Returns:
        An entry for each stage and template, in the order of use; those for calls that may not be needed come last.
    """
    groups: dict[tuple[str, str], list[_MeasuredCall]] = {}
    for call in _calls(work):
        groups.setdefault((call.stage, call.request.template), []).append(call)
    models = {key: _model(work, *key) for key in groups}
    prices = work.prices(model for model in models.values() if model)
    entries = [_estimate(work, *key, calls, models[key], prices) for key, calls in groups.items()]
    return sorted(entries, key=lambda entry: entry.if_needed)


def _model(work: RunInputs, stage: str, template: str) -> str:
    """Return the model that is asked; empty for the offline backend."""
    name = work.backend_of(stage)
    return parse_backend(work.reader).model if work.reader and template in _READINGS else name.model


def _estimate(
    work: RunInputs,
    stage: str,
    template: str,
    calls: Sequence[_MeasuredCall],
    model: str,
    prices: Mapping[str, Price],
) -> Estimate:
    count = _count(work.config, stage, len(calls))
    share = count / len(calls)
    prompt = round(share * sum(num_tokens(render(call.request.template, call.request.facts)) for call in calls))
    reply = round(share * sum(num_tokens(call.reply) for call in calls))
    most = count
    if model:
        most *= _MOST_ASKED * (_MOST_TEXTS.get(template, STARTS) if stage in ("sessions", "questions") else 1)
    return Estimate(
        stage=stage,
        template=template,
        calls=count,
        prompt_tokens=prompt,
        reply_tokens=reply,
        seconds=share * sum(call.seconds for call in calls),
        model=model,
        cost=price_of(model, prompt, reply, prices) if model else 0.0,
        if_needed=template in _IF_NEEDED,
        most_calls=most,
    )


def _count(config: Config, stage: str, measured: int) -> int:
    """Return the calls of a run, where so many of its first persona were measured."""
    if stage == "sessions":
        return config.personas * len(config.topics) * config.periods
    return config.fillers if stage == "fillers" else config.personas * measured


def _calls(work: RunInputs) -> Iterator[_MeasuredCall]:
    """Make the calls of one persona with the offline backend: of sessions one topic, of fillers ten."""
    config, banks, client = work.config, work.banks, work.client()
    draft = draw_personas(config, banks)[0]
    persona, call = _written("personas", client, persona_request(draft), write_persona, draft)
    yield call
    task = draw_history(config, persona, banks)
    history, call = _written("histories", client, history_request(task), write_history, task)
    yield call
    for session_task in session_tasks(config, persona, history, banks)[: config.periods]:
        request = session_request(session_task)
        session, call = _written("sessions", client, request, write_session, session_task)
        yield call
        if not work.backend_of("sessions").is_offline:
            yield from _session_readings(request, session)
    readings: list[_MeasuredCall] = []
    for plan in plan_questions(config, persona, history, banks):
        request = question_request(plan, banks)
        yield _written("questions", client, request, write_question, plan, banks)[1]
        reply = client.ask(request, QuestionReply)
        readings += _question_readings(request, reply)
        if plan.generic:
            generic = generic_call(plan, request, reply)
            written = client.ask(generic, GenericReply)
            text = "\n".join(written.replies)
            yield _MeasuredCall("questions", generic, text)
            fault = "reply 1 is to assert nothing of the user; it was taken for something else"
            rewriting = rewrite_request(generic, written, [fault], (0, 0))
            readings += [_reading(request, reply), _MeasuredCall("questions", rewriting, text)]
    if not work.backend_of("questions").is_offline:
        yield from readings
    for filler in filler_tasks(config)[:10]:
        yield _written("fillers", client, filler_request(filler), write_filler, filler)[1]


def _written(
    stage: str, client: Client, request: Request, write: Callable[..., Any], *arguments: Any
) -> tuple[Any, _MeasuredCall]:
    start = time.perf_counter()
    record = write(client, *arguments)
    return record, _MeasuredCall(stage, request, _text(record), time.perf_counter() - start)


def _text(record: Any) -> str:
    """Return the text that a model would have written for a record."""
    if isinstance(record, Persona):
        return record.profile
    if isinstance(record, History):
        return "\n".join(event.text for event in record.general)
    if isinstance(record, Question):
        return "\n".join([record.message, *(option.text for option in record.options)])
    return "\n".join(message.content for message in record.messages)


def _session_readings(request: Request, session: Session) -> Iterator[_MeasuredCall]:
    """Yield the calls that read a session back, lengthen it, and mend a fault that the reader found."""
    turns = [
        Turn(user=user.content, assistant=assistant.content, told_ids=[*user.event_ids, *user.mention_ids])
        for user, assistant in zip(session.messages[::2], session.messages[1::2], strict=True)
    ]
    reply = SessionReply(turns=turns)
    whose = {one["told_id"]: one["whose"] for one in request.facts["told"]}
    told = [
        ToldReading(told_id=id_, message=number, whose=whose[id_])
        for number, turn in enumerate(turns, start=1)
        for id_ in turn.told_ids
    ]
    reading = CoverageReply(told=told, other_tastes=[])
    fault = "turn 1: what the user says does not tell all of what is in its told_ids"
    yield _MeasuredCall("sessions", coverage_request(request, reply), json.dumps(reading.model_dump()))
    yield _MeasuredCall("sessions", expand_request(request, reply), _text(session))
    turn = json.dumps(turns[0].model_dump())
    yield _MeasuredCall("sessions", mend_request(request, reply, [fault], (0, 0)), turn)


def _reading(request: Request, reply: QuestionReply) -> _MeasuredCall:
    numbers = ReadOptionsReply(numbers=list(range(1, 1 + len(reply.options))))
    return _MeasuredCall("questions", read_options_request(request, reply)[0], json.dumps(numbers.model_dump()))


def _question_readings(request: Request, reply: QuestionReply) -> Iterator[_MeasuredCall]:
    """Yield the calls that read the options of a question back, and mend a fault that the reader found."""
    fault = f"option 1 does not assert its own thing ({', then '.join(request.facts['states'][0])}) and no other"
    yield _reading(request, reply)
    text = "\n".join([reply.message, *reply.options])
    yield _MeasuredCall("questions", rewrite_request(request, reply, [fault], (0, 0)), text)
