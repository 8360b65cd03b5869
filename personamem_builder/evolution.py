"""The evolution of a persona's preferences in a topic, as text and as a picture."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from generation.errors import UserError
from generation.files import replacing
from generation.history_records import Event, History, Preference, SessionPlan, TopicHistory
from generation.record_files import persona_spans, read_records
from generation.records import PERIODS, Filler, Persona, Question, Session
from generation.resources import install_hint
from generation.store import RunStore
from personamem_builder.assemble.records import AskedQuestion
from personamem_builder.assemble.splits import asked_questions, assembled_splits, context_plans, context_spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMATS = (".svg", ".png")
_KINDS = {"slot": "one value at a time", "item": "liked or disliked", "fact": "happened once", "trial": "tried"}
_SIGNS = {"like": "likes it", "dislike": "dislikes it"}
_MARK = ">>>"
_SHORTEST_PREFIX = 6  # of an id


class QuestionPoint(NamedTuple):
    """A question and where it is asked.

    Attributes:
        question_id: That of the question, or that which a split gives it there.
        topic: The topic whose events decide it.
        session: The last session of this topic before it.
    """

    question_id: str
    question: Question
    topic: TopicHistory
    session: SessionPlan

    def is_evidence(self, event: Event) -> bool:
        """Say whether an event is among those that decide it."""
        return event.event_id in self.question.evidence_event_ids


def topic_history(history: History, topic: str) -> TopicHistory:
    """Return a topic of a history.

    Raises:
        UserError: The history has no such topic.
    """
    for found in history.topics:
        if found.topic == topic:
            return found
    known = ", ".join(found.topic for found in history.topics)
    raise UserError(f"persona {history.persona_id} has no topic {topic!r}", f"its topics are {known}")


def find_question(store: RunStore, question_id: str) -> QuestionPoint:
    """Find a question of a run by an id, or by at least six characters from its start that no other id has.

    An id of the stage of questions places it where all of its evidence has been told, one of a split where it is asked.

    Raises:
        UserError: No question is meant, or several, or a file of the run is absent or damaged.
    """

    def is_meant(known: str) -> bool:
        return known == question_id or (len(question_id) >= _SHORTEST_PREFIX and known.startswith(question_id))

    made = {one.question_id: one for one in store.read("questions", Question) if is_meant(one.question_id)}
    asked = {
        row.question_id: (split, row)
        for split in assembled_splits(store)
        for row in asked_questions(store, split)
        if is_meant(row.question_id)
    }
    ids = [*made, *asked]
    found = [question_id] if question_id in ids else ids
    if len(found) != 1:
        raise UserError(
            f"{question_id!r} names {len(found) or 'no'} question{'s' if found else ''} of {store.folder}",
            f"give an id of {store.paths('questions')[0]}, or one that personamem inspect shows of a dataset of this "
            f"run, or {_SHORTEST_PREFIX} or more of its first characters",
        )
    split, row = asked.get(found[0], ("", None))
    source = row.source_question_id if row else found[0]
    question = made.get(source) or next(
        (one for one in store.read("questions", Question) if one.question_id == source), None
    )
    if question is None:
        raise UserError(
            f"the split {split} is of other questions than {store.folder} has",
            f"personamem assemble {store.folder}",
        )
    before = _sessions_before(store, split, row, question.persona_id) if row else {*question.after_session_ids}
    part = store.part_of(question.persona_id)
    for history in part.read("histories", History):
        for topic in history.topics if history.persona_id == question.persona_id else ():
            if any(event.event_id in question.evidence_event_ids for event in topic.events):
                return QuestionPoint(
                    found[0], question, topic, [s for s in topic.sessions if s.session_id in before][-1]
                )
    raise UserError(f"{part.path('histories')} lacks what question {question_id} is about", "generate the run anew")


def _sessions_before(store: RunStore, split: str, row: AskedQuestion, persona_id: int) -> set[str]:
    """Return the sessions that stand before a question in its context."""
    plans = context_plans(store, split, context_spans(store, split)[persona_id])
    plan = next(plan for plan in plans if plan.shared_context_id == row.shared_context_id)
    part = store.part_of(persona_id)
    system = next(bool(p.shown) for p in part.read("personas", Persona) if p.persona_id == persona_id)
    sessions = part.finished("sessions")
    lengths = {
        one.session_id: len(one.messages) + system
        for one in read_records(sessions, Session, persona_spans(sessions)[persona_id])
    }
    lengths |= {filler.filler_id: len(filler.messages) for filler in store.read("fillers", Filler)}
    before, end = set(), 0
    for block in plan.blocks:
        end += lengths[block.id]
        if end <= row.end_index_in_shared_context:
            before.add(block.id)
    return before


def cut_off(topic: TopicHistory, until: str) -> dt.date:
    """Return the last day of a timeline that goes up to a date, `2019-05-31`, or to the session of a period.

    Raises:
        UserError: `until` is neither, the topic does not run through the period, or nothing has happened by then.
    """
    first = topic.events[0].date
    if until in PERIODS:
        if PERIODS.index(until) >= len(topic.sessions):
            names = ", ".join(PERIODS[: len(topic.sessions)])
            raise UserError(f"--until {until!r}: {topic.topic} does not run so far", f"its periods are {names}")
        return topic.sessions[PERIODS.index(until)].date
    try:
        date = dt.date.fromisoformat(until)
    except ValueError as error:
        raise UserError(
            f"--until {until!r} is neither a date nor a period", f"give a date such as {first}, or {', '.join(PERIODS)}"
        ) from error
    if date < first:
        raise UserError(f"--until {until}: nothing of {topic.topic} has happened by then", f"it begins on {first}")
    return date


def _state(event: Event) -> str:
    return _SIGNS.get(event.state, event.state)


def _name(preference: Preference) -> str:
    return preference.subject or f"of {'; '.join(preference.candidates)}"


def timeline_text(
    persona: Persona, topic: TopicHistory, until: dt.date | None = None, asked: QuestionPoint | None = None
) -> str:
    """Return a timeline as text: each preference with its states, their dates and the reasons of changes.

    Nothing but what is the user's own is shown: what the sessions tell of others and of dropped plans is left out.

    Args:
        persona: The user.
        topic: Whose preferences.
        until: The last day that is shown; all by default.
        asked: A question of the topic, to mark where it is asked and the events that decide it.
    """
    lines = [f"{persona.name} (persona {persona.persona_id}), {topic.topic}"]
    for number, session in enumerate(_sessions(topic, until), start=1):
        lines.append(f"  session {number}: {session.date}, {PERIODS[session.period]}")
        if asked is not None and asked.session == session:
            question = asked.question
            lines.append(f"{_MARK} question {asked.question_id}, {question.question_type}: {question.message}")
    if until is not None:
        later = sum(event.date > until for event in topic.events)
        lines.append(f"  --- cut after {until}: {later} later event{'' if later == 1 else 's'} not shown ---")
    chains = _chains(topic, until)
    for kind, meaning in _KINDS.items():
        own = [(preference, chain) for preference, chain in chains if preference.kind == kind]
        if own:
            lines += ["", f"{kind}s ({meaning})"]
        for preference, chain in sorted(own, key=lambda one: -len(one[1])):
            lines.append(f"  {_name(preference)}")
            lines += [_line(topic, event, until, asked) for event in chain]
    return "\n".join(lines)


def _sessions(topic: TopicHistory, until: dt.date | None) -> list[SessionPlan]:
    return [session for session in topic.sessions if until is None or session.date <= until]


def _chains(topic: TopicHistory, until: dt.date | None) -> list[tuple[Preference, list[Event]]]:
    """Return the preferences of which something has happened, with their events."""
    chains = [(preference, topic.chain(preference.preference_id, len(PERIODS))) for preference in topic.preferences]
    shown = [(preference, [e for e in chain if until is None or e.date <= until]) for preference, chain in chains]
    return [(preference, chain) for preference, chain in shown if chain]


def _line(topic: TopicHistory, event: Event, until: dt.date | None, asked: QuestionPoint | None) -> str:
    because = f", because {event.reason} ({event.motive})" if event.reason else ""
    told = ", told later" if until is not None and topic.session_of(event).date > until else ""
    mark = _MARK if asked is not None and asked.is_evidence(event) else ""
    return f"{mark:3} {event.date}  {'→ ' if event.reason else '  '}{_state(event)}{because}{told}"


def draw_timeline(
    persona: Persona,
    topic: TopicHistory,
    path: Path,
    until: dt.date | None = None,
    asked: QuestionPoint | None = None,
) -> None:
    """Draw a timeline: a row for each preference, a mark for each event, a line while a state lasts.

    The ending of `path` says whether it is SVG or PNG; the rest is as in `timeline_text`. Evidence has a ring.

    Raises:
        UserError: The ending is another, matplotlib is not installed, or the file cannot be written.
    """
    if path.suffix not in _FORMATS:
        raise UserError(f"{path}: a picture ends in .svg or .png", "give such a name to --out")
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UserError("drawing needs matplotlib", f"{install_hint('plots')}, or leave out --out") from error
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "personamem"  # ids in the file follow from its content
    from matplotlib import pyplot as plt

    rows = sorted(_chains(topic, until), key=lambda row: (list(_KINDS).index(row[0].kind), -len(row[1])), reverse=True)
    figure, axes = plt.subplots(figsize=(14, 1.5 + 0.42 * len(rows)), layout="constrained")
    end = len(topic.sessions) + 0.4 if until is None else _position(topic, until)
    for y, (_, chain) in enumerate(rows):
        _draw_row(axes, topic, chain, y, end)
        for event in filter(asked.is_evidence, chain) if asked is not None else ():
            axes.plot([_position(topic, event.date)], [y], marker="o", color="black", fillstyle="none", markersize=13)
    sessions = _sessions(topic, until)
    for session in sessions:
        axes.axvline(session.period + 1, color="0.85", zorder=0)
    names = [f"{preference.subject} ({preference.kind})".lstrip() for preference, _ in rows]
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.set_xticks([s.period + 1 for s in sessions], [f"{PERIODS[s.period]}\n{s.date}" for s in sessions])
    axes.set_xlim(-0.1, end + (0.1 if until is None else 0.3))  # room for the names of late states
    title = f"{persona.name} (persona {persona.persona_id}): {topic.topic}"
    if until is not None:
        title += f", cut after {until}"
        axes.axvline(end, color="0.3", linestyle="--")
    if asked is not None:
        title += f"\nringed: the evidence of question {asked.question_id}, asked at the red line"
        if asked.session in sessions:
            axes.axvline(asked.session.period + 1.03, color="tab:red")
    axes.set_title(title, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        with replacing(path) as part:
            figure.savefig(
                part, format=path.suffix[1:], dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None
            )
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        plt.close(figure)


def _position(topic: TopicHistory, date: dt.date) -> float:
    """Return where a day lies: periods are equally wide, since a year would leave a week no room."""
    start = topic.events[0].date
    for number, session in enumerate(topic.sessions):
        if date <= session.date:
            return number + (date - start).days / max(1, (session.date - start).days)
        start = session.date
    return len(topic.sessions) + 0.2


def _draw_row(axes: Axes, topic: TopicHistory, chain: list[Event], y: int, end: float) -> None:
    positions = [_position(topic, event.date) for event in chain]
    ends = [*positions[1:], end]
    for i, (event, x, end) in enumerate(zip(chain, positions, ends, strict=True)):
        color = {"like": "tab:green", "dislike": "tab:red"}.get(event.state, f"C{i}")
        axes.plot([x, end], [y, y], color=color, linewidth=2, alpha=0.4, zorder=1)
        axes.plot([x], [y], marker="o" if event.reason is None else "D", color=color, markersize=6, zorder=2)
        axes.annotate(_state(event), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7, parse_math=False)
