"""Looking at a run before it is made: a sample of what it writes, and what it takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from generation.llm.backends import OFFLINE
from generation.llm.client import Request
from generation.llm.ledger import price_of
from generation.pipeline import Work
from generation.prompts import render
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import QUESTION_TYPES, History, Persona, Question, Session
from generation.stages.fillers import filler_request, filler_tasks, write_filler
from generation.stages.histories import draw_history, history_request, write_history
from generation.stages.personas import draw_personas, persona_request, write_persona
from generation.stages.questions import question_request, write_question
from generation.stages.sessions import session_request, session_tasks, write_session
from generation.tokenizer import load_encoding


class Sample(NamedTuple):
    """Some records of the first persona.

    Attributes:
        persona: The first persona.
        history: Its history.
        session: The first session of its first topic.
        questions: A question of each type.
    """

    persona: Persona
    history: History
    session: Session
    questions: list[Question]


def sample(work: Work) -> Sample:
    """Make a sample of a run; nothing is written to disk."""
    config, banks, client = work.config, work.banks, work.client()
    persona = write_persona(client, draw_personas(config, banks.people)[0])
    history = write_history(client, draw_history(config, persona, banks))
    session = write_session(client, session_tasks(config, persona, history, banks)[0])
    plans = _one_of_each_type(plan_questions(config, persona, history, banks))
    return Sample(persona, history, session, [write_question(client, plan, banks) for plan in plans])


def _one_of_each_type(plans: list[QuestionPlan]) -> list[QuestionPlan]:
    by_type = {plan.question_type: plan for plan in reversed(plans)}
    return [by_type[question_type] for question_type in QUESTION_TYPES if question_type in by_type]


def preview(work: Work) -> str:
    """Return a sample of a run as text: a profile, the start of a session, a question of each type."""
    persona, _, session, questions = sample(work)
    lines = [persona.demographics, persona.profile, ""]
    lines.append(f"{session.topic}, {session.date}, {len(session.messages)} messages, of which the first:")
    for message in session.messages[:4]:
        told = f"  [tells {', '.join(message.event_ids)}]" if message.event_ids else ""
        lines.append(f"  {message.role}: {message.content}{told}")
    for question in questions:
        lines += ["", f"{question.question_type} ({question.topic})", f"  user: {question.message}"]
        for i, option in enumerate(question.options):
            mark = "*" if i == question.answer_index else " "
            lines.append(f"  {mark}({'abcd'[i]}) {option.text}  [{option.role}]")
    return "\n".join(lines)


class Estimate(NamedTuple):
    """What the calls of one kind take.

    Attributes:
        template: Name of the prompt template.
        calls: How many calls.
        prompt_tokens: About how many tokens are sent, repairs apart.
        reply_tokens: About how many come back.
        seconds: How long the offline backend takes for them, in one process.
        model: That is asked; empty for the offline backend.
        cost: In US dollars; None where the price of the model is unknown.
    """

    template: str
    calls: int
    prompt_tokens: int
    reply_tokens: int
    seconds: float
    model: str
    cost: float | None


def estimate(work: Work) -> list[Estimate]:
    """Estimate what a run takes, by measuring the calls of the first persona with the offline backend.

    Args:
        work: The run.

    Returns:
        An entry for each template, in the order of use.
    """
    offline = work._replace(backend=OFFLINE, stage_backends={})
    config = offline.config
    measured: dict[str, list[tuple[int, int, float]]] = {}
    counts: dict[str, int] = {}
    for request, seconds, reply in _calls(offline):
        prompt = len(load_encoding()[0].encode_ordinary(render(request.template, request.facts)))
        answer = len(load_encoding()[0].encode_ordinary(reply))
        measured.setdefault(request.template, []).append((prompt, answer, seconds))
        counts[request.template] = counts.get(request.template, 0) + config.personas
    counts["session"] = config.personas * len(config.topics) * config.periods
    if "filler" in counts:
        counts["filler"] = len(filler_tasks(config))
    return [_estimate(work, template, counts[template], calls) for template, calls in measured.items()]


_STAGES: Final = {
    "persona": "personas",
    "general_history": "histories",
    "session": "sessions",
    "filler": "fillers",
}
"""The stages of templates; all others are for questions."""


def _estimate(work: Work, template: str, count: int, measured: list[tuple[int, int, float]]) -> Estimate:
    prompt, reply, seconds = (count * sum(values) / len(measured) for values in zip(*measured, strict=True))
    model = work.backend_of(_STAGES.get(template, "questions")).model
    cost = price_of(model, round(prompt), round(reply), work.config.llm.prices) if model else 0.0
    return Estimate(template, count, round(prompt), round(reply), seconds, model, cost)


def _calls(work: Work) -> Iterator[tuple[Request, float, str]]:
    """Make the calls of one persona, and yield request, seconds and reply: of sessions one topic, of fillers ten."""
    config, banks, client = work.config, work.banks, work.client()

    def timed(request: Request, write: Any, *arguments: Any) -> tuple[Any, tuple[Request, float, str]]:
        start = time.perf_counter()
        record = write(client, *arguments)
        return record, (request, time.perf_counter() - start, _text(record))

    draft = draw_personas(config, banks.people)[0]
    persona, call = timed(persona_request(draft), write_persona, draft)
    yield call
    task = draw_history(config, persona, banks)
    history, call = timed(history_request(task), write_history, task)
    yield call
    for session in session_tasks(config, persona, history, banks)[: config.periods]:
        yield timed(session_request(session), write_session, session)[1]
    for plan in plan_questions(config, persona, history, banks):
        yield timed(question_request(plan, banks), write_question, plan, banks)[1]
    for filler in filler_tasks(config)[:10]:
        yield timed(filler_request(filler), write_filler, filler)[1]


def _text(record: Any) -> str:
    """Return the text that a model would have written for a record."""
    if isinstance(record, Persona):
        return record.profile
    if isinstance(record, History):
        return "\n".join(event.text for event in record.general)
    if isinstance(record, Question):
        return "\n".join([record.message, *(option.text for option in record.options)])
    return "\n".join(message.content for message in record.messages)
