"""A question beside its history, with the evidence marked, for people to look at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from generation.errors import UserError
from generation.reading import clean_text
from generation.records import PERIODS
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import read_context
from personamem_builder.dataset.folder import context_files
from personamem_builder.schema import SHORT_TYPES, evidence_events, numbered_sessions, option_label
from personamem_builder.text_table import PIPED_WIDTH

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from personamem_builder.schema import ContextRow, Message, QuestionRow

LISTED: Final = 20
"""Questions that a list names."""

_SHORTEST_PREFIX: Final = 6
_MARK: Final = ">>>"
_GUTTER: Final = "  {:>5} {:9} "  # number and role of a message
_INDENT: Final = len(_GUTTER.format(0, ""))
_CONTROLS: Final = {
    code: "\N{REPLACEMENT CHARACTER}" for code in {*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}
}
"""A text must not steer the terminal that shows it."""


class InspectedQuestion(NamedTuple):
    """A question of a split, and its shared context."""

    split: str
    question: QuestionRow
    context: ContextRow

    @property
    def history(self) -> list[Message]:
        """The messages before the question."""
        return self.context["messages"][: self.question["end_index_in_shared_context"]]


class Paragraph(NamedTuple):
    """A paragraph of what is shown.

    Attributes:
        lead: What stands before it; the rest of the text is indented as far.
        style: How `rich` shows it on a terminal.
        short: Whether it is cut to one line.
    """

    lead: str
    text: str
    style: str = ""
    short: bool = False


def inspect_question(folder: Path, split: str, question_id: str) -> InspectedQuestion:
    """Find a question by its id, or by at least six characters from its start that no other id has.

    Raises:
        UserError: No question is meant, or several.
    """
    table = read_questions(folder, split)
    ids: list[str] = table["question_id"].to_pylist()
    found = [i for i, known in enumerate(ids) if known == question_id]
    if not found and len(question_id) >= _SHORTEST_PREFIX:
        found = [i for i, known in enumerate(ids) if known.startswith(question_id)]
    elif not found:
        raise UserError(
            f"{question_id!r} is not the id of a question in {split}",
            f"give an id, or the first {_SHORTEST_PREFIX} characters of it at least",
        )
    if len(found) != 1:
        several = f"{question_id!r} begins {len(found)} ids: {', '.join(ids[i] for i in found[:3])}"
        raise UserError(
            f"{several}{', …' if len(found) > 3 else ''}" if found else f"{folder}: no id begins with {question_id!r}",
            "give more of the id" if found else f"list ids of {split}: leave --question out, or try another --split",
        )
    row: QuestionRow = table.slice(found[0], 1).to_pylist()[0]
    return InspectedQuestion(split, row, read_context(context_files(folder, split), row["shared_context_id"]))


def history_string(messages: Sequence[Message]) -> str:
    """Return messages as `role: content`, with a blank line between two of them."""
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)


def history_api_dict(messages: Sequence[Message]) -> str:
    """Return messages as JSON, a list of `{role, content}` such as chat endpoints take."""
    return json.dumps([{"role": m["role"], "content": m["content"]} for m in messages], ensure_ascii=False, indent=2)


class Listed(NamedTuple):
    """A question in the list of a split: how far back its evidence is, in three measures."""

    question: str
    type: str
    topic: str
    sessions: str
    tokens: str
    part: str


def question_list(folder: Path, split: str) -> tuple[list[Listed], int]:
    """Return the first questions of a split, for a list, and how many it has in all."""
    table = read_questions(folder, split)
    rows = [
        Listed(
            clean_text(row["question_id"]),
            SHORT_TYPES.get(row["question_type"], row["question_type"]),
            clean_text(row["topic"]),
            str(row["distance_to_ref_in_blocks"]),
            f"{row['distance_to_ref_in_tokens']:,}",
            f"{row['distance_to_ref_proportion_in_context']:.0%}",
        )
        for row in table.slice(0, LISTED).to_pylist()
    ]
    return rows, len(table)


def _distance(row: QuestionRow) -> str:
    blocks, part = row["distance_to_ref_in_blocks"], row["distance_to_ref_proportion_in_context"]
    sessions = f"{blocks} session{'' if blocks == 1 else 's'}"
    return f"{sessions}, {row['distance_to_ref_in_tokens']:,} tokens ({part:.1%} of the context)"


def question_lines(inspected: InspectedQuestion, *, full: bool = False) -> Iterator[Paragraph]:
    """Yield what is shown of a question; messages without evidence are cut to a line unless `full`."""
    row = inspected.question
    evidence = evidence_events(row)
    yield Paragraph("question  ", f"{row['question_id']} ({inspected.split})", "bold")
    yield Paragraph("persona   ", str(row["persona_id"]))
    yield Paragraph("type      ", _type(row))
    yield Paragraph("topic     ", row["topic"])
    yield Paragraph("distance  ", _distance(row))
    places = f"messages {', '.join(map(str, sorted(evidence)))}, marked {_MARK}"
    yield Paragraph("evidence  ", places if evidence else "none is recorded in this dataset")
    yield from _history_lines(inspected, evidence, full)
    end, length = row["end_index_in_shared_context"], len(inspected.context["messages"])
    yield Paragraph("", "")
    yield Paragraph("", f"=== the question, after {end} of {length} messages; what follows is not seen ===", "bold")
    yield Paragraph(_GUTTER.format("", "user"), row["user_question_or_message"])
    yield Paragraph("", "")
    yield from _option_lines(row)


def _type(row: QuestionRow) -> str:
    source = row["source_question_type"]
    return str(row["question_type"]) + ("" if source == row["question_type"] else f" (in the source {source})")


def _history_lines(inspected: InspectedQuestion, evidence: dict[int, list[str]], full: bool) -> Iterator[Paragraph]:
    headers = _headers(inspected.context)
    for i, message in enumerate(inspected.history):
        if i in headers:
            yield Paragraph("", "")
            yield Paragraph("", headers[i], "bold cyan")
        gutter = _GUTTER.format(i, message["role"])
        if i in evidence:
            yield Paragraph(_MARK + gutter[len(_MARK) :], f"[evidence: {', '.join(evidence[i])}]", "bold yellow")
            yield Paragraph(_MARK.ljust(_INDENT), message["content"], "yellow")
        else:
            yield Paragraph(gutter, message["content"], "dim", short=not full)


def _headers(context: ContextRow) -> dict[int, str]:
    """Return the header of each session, by the index of its first message."""
    headers: dict[int, str] = {}
    seen: Counter[str] = Counter()
    # A context of generated data holds the first sessions of a topic, one a period; other data have no dates.
    is_by_period = all(count <= len(PERIODS) for count in Counter(filter(None, context["session_topics"])).values())
    for start, number, topic, date in numbered_sessions(context):
        period = PERIODS[seen[topic]] if topic and date and is_by_period else ""
        seen[topic] += 1
        described = ", ".join(part for part in (topic, period, date) if part) or "topic and date unknown"
        headers[start] = f"--- session {number}: {described} ---" if number else "--- filler ---"
    return headers


def _option_lines(row: QuestionRow) -> Iterator[Paragraph]:
    states, roles = row.get("option_states"), row.get("option_roles")
    for i, option in enumerate(row["all_options"]):
        right = i == row["answer_index"]
        yield Paragraph("=> " if right else "   ", option, "bold green" if right else "")
        notes = ["right"] if right else []
        if roles:
            notes.append(roles[i])
        if states:
            notes.append(f"asserts {', then '.join(states[i])}" if states[i] else "asserts nothing")
        if notes:
            yield Paragraph(" " * (4 + len(option_label(i))), "; ".join(notes), "green" if right else "dim")


def show(paragraphs: Iterator[Paragraph], console: Console) -> None:
    """Print paragraphs: broken at the width of a terminal; plain and with their own lines where there is none."""
    for paragraph in paragraphs:
        for text in _laid_out(paragraph, console):
            text.rstrip()
            console.print(text, soft_wrap=True, highlight=False)


def _laid_out(paragraph: Paragraph, console: Console) -> list[Text]:
    from rich.text import Text

    wrap = console.is_terminal
    room = max(20, (console.width if wrap else PIPED_WIDTH) - len(paragraph.lead))
    body = paragraph.text.translate(_CONTROLS).expandtabs(4)
    text = Text(" ".join(body.split()) if paragraph.short else body, style=paragraph.style)
    if paragraph.short:
        text.truncate(room, overflow="ellipsis")
        return [Text.assemble((paragraph.lead, paragraph.style), text)]
    pieces = text.wrap(console, room) if wrap else text.split("\n", allow_blank=True)
    below = (_MARK if paragraph.lead.startswith(_MARK) else "").ljust(len(paragraph.lead))
    return [Text.assemble((below if i else paragraph.lead, paragraph.style), piece) for i, piece in enumerate(pieces)]
