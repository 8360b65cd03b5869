"""The evolution of a persona's preferences in a topic, as text and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generation.errors import UserError
from generation.files import replacing
from generation.history_records import Event, History, Preference, TopicHistory
from generation.records import PERIODS, Persona
from generation.resources import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMATS = (".svg", ".png")
_KINDS = {"slot": "one value at a time", "item": "liked or disliked", "fact": "happened once", "trial": "tried"}
_SIGNS = {"like": "likes it", "dislike": "dislikes it"}


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


def _state(event: Event) -> str:
    return _SIGNS.get(event.state, event.state)


def _name(preference: Preference) -> str:
    return preference.subject or f"of {'; '.join(preference.candidates)}"


def timeline_text(persona: Persona, topic: TopicHistory) -> str:
    """Return a timeline as text: each preference with its states, their dates and the reasons of changes.

    Nothing but what is the user's own is shown: what the sessions tell of others and of dropped plans is left out.
    """
    lines = [f"{persona.name} (persona {persona.persona_id}), {topic.topic}"]
    lines += [f"  session {i + 1}: {s.date}, {PERIODS[s.period]}" for i, s in enumerate(topic.sessions)]
    for kind, meaning in _KINDS.items():
        preferences = [preference for preference in topic.preferences if preference.kind == kind]
        if preferences:
            lines += ["", f"{kind}s ({meaning})"]
        for preference in sorted(preferences, key=lambda p: -len(_chain(topic, p))):
            lines.append(f"  {_name(preference)}")
            lines += [_line(event) for event in _chain(topic, preference)]
    return "\n".join(lines)


def _chain(topic: TopicHistory, preference: Preference) -> list[Event]:
    return topic.chain(preference.preference_id, len(PERIODS))


def _line(event: Event) -> str:
    because = f", because {event.reason} ({event.motive})" if event.reason else ""
    return f"    {event.date}  {'→ ' if event.reason else '  '}{_state(event)}{because}"


def draw_timeline(persona: Persona, topic: TopicHistory, path: Path) -> None:
    """Draw a timeline: a row for each preference, a mark for each event, a line while a state lasts.

    The ending of `path` says whether it is SVG or PNG.

    Raises:
        UserError: The ending is another, matplotlib is not installed, or the file cannot be written.
    """
    if path.suffix not in _FORMATS:
        raise UserError(f"{path}: a picture ends in .svg or .png", "give such a name to --out")
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UserError("drawing needs matplotlib", f"{install_hint('plots')}, or leave --out away") from error
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "personamem"  # ids in the file follow from its content
    from matplotlib import pyplot as plt

    rows = sorted(topic.preferences, key=lambda p: (list(_KINDS).index(p.kind), -len(_chain(topic, p))), reverse=True)
    figure, axes = plt.subplots(figsize=(14, 1.5 + 0.42 * len(rows)), layout="constrained")
    for y, preference in enumerate(rows):
        _draw_row(axes, topic, _chain(topic, preference), y)
    for session in topic.sessions:
        axes.axvline(session.period + 1, color="0.85", zorder=0)
    axes.set_yticks(range(len(rows)), [f"{row.subject} ({row.kind})".lstrip() for row in rows], parse_math=False)
    axes.set_xticks(
        [s.period + 1 for s in topic.sessions],
        [f"{PERIODS[s.period]}\n{s.date}" for s in topic.sessions],
    )
    axes.set_xlim(-0.1, len(topic.sessions) + 0.5)
    axes.set_title(f"{persona.name} (persona {persona.persona_id}): {topic.topic}", parse_math=False)
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


def _position(topic: TopicHistory, event: Event) -> float:
    """Return where an event lies: periods are equally wide, since a year would leave a week no room."""
    session = topic.session_of(event)
    earlier = [s.date for s in topic.sessions if s.period < event.period]
    start = earlier[-1] if earlier else min(e.date for e in topic.events)
    return event.period + (event.date - start).days / max(1, (session.date - start).days)


def _draw_row(axes: Axes, topic: TopicHistory, chain: list[Event], y: int) -> None:
    positions = [_position(topic, event) for event in chain]
    ends = [*positions[1:], len(topic.sessions) + 0.4]
    for i, (event, x, end) in enumerate(zip(chain, positions, ends, strict=True)):
        color = {"like": "tab:green", "dislike": "tab:red"}.get(event.state, f"C{i}")
        axes.plot([x, end], [y, y], color=color, linewidth=2, alpha=0.4, zorder=1)
        axes.plot([x], [y], marker="o" if event.reason is None else "D", color=color, markersize=6, zorder=2)
        axes.annotate(_state(event), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7, parse_math=False)
