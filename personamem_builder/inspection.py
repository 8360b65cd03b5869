"""A question beside its history, with the evidence marked, for people to look at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from generation.errors import UserError
from generation.reading import clean_text
from personamem_builder.contexts import AGAIN, read_context
from personamem_builder.dataset.folder import check_split, contexts_path, read_manifest
from personamem_builder.dataset.load import read_questions
from personamem_builder.schema import option_labels

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from personamem_builder.contexts import Message

LISTED: Final = 20
"""Questions that a list names."""

_SHORTEST_PREFIX: Final = 6
_PIPED_WIDTH: Final = 120
_MARK: Final = ">>>"
_GUTTER: Final = "  {:>5} {:9} "  # number and role of a message
_INDENT: Final = len(_GUTTER.format(0, ""))
_CONTROLS: Final = {
    code: "\N{REPLACEMENT CHARACTER}" for code in {*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}
}
"""A text must not steer the terminal that shows it."""


class Inspected(NamedTuple):
    """A question and its shared context.

    Attributes:
        split: Where it is from.
        question: The row of the question table.
        context: The row of the shared-context table.
    """

    split: str
    question: dict[str, Any]
    context: dict[str, Any]

    @property
    def history(self) -> list[Message]:
        """The messages before the question."""
        messages: list[Message] = self.context["messages"][: self.question["end_index_in_shared_context"]]
        return messages


class Line(NamedTuple):
    """A paragraph of what is shown.

    Attributes:
        lead: What stands before it; the rest of the text is indented as far.
        text: The text, which may have several lines.
        style: How `rich` shows it on a terminal.
        short: Whether it is cut to one line.
    """

    lead: str
    text: str
    style: str = ""
    short: bool = False


def chosen_split(folder: Path, split: str | None) -> str:
    """Return a split of a dataset folder, the first one unless it is named.

    Raises:
        UserError: There is no such dataset or split.
    """
    manifest = read_manifest(folder)
    if split is not None:
        check_split(manifest, split, folder)
        return split
    return str(next(iter(manifest["splits"])))


def inspect_question(folder: Path, split: str, question_id: str) -> Inspected:
    """Find a question by its id, or by the beginning of it.

    Args:
        folder: A dataset folder.
        split: One of its splits.
        question_id: The id, or at least six characters from its start that no other id has.

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
            f"{question_id!r} is no id of a question in {split}",
            f"give an id, or the first {_SHORTEST_PREFIX} characters of it at least",
        )
    if len(found) != 1:
        several = f"{question_id!r} begins {len(found)} ids: {', '.join(ids[i] for i in found[:3])}"
        raise UserError(
            f"{several}{', …' if len(found) > 3 else ''}" if found else f"{folder}: no id begins with {question_id!r}",
            "give more of the id" if found else f"list ids of {split}: leave --question out, or try another --split",
        )
    row: dict[str, Any] = table.slice(found[0], 1).to_pylist()[0]
    return Inspected(split, row, _context(folder / contexts_path(split), row["shared_context_id"]))


def _context(path: Path, shared_context_id: str) -> dict[str, Any]:
    row = read_context(path, shared_context_id)
    if row is None:
        raise UserError(f"{path} has no context {shared_context_id}", AGAIN)
    return row


def history_string(messages: Sequence[Message]) -> str:
    """Return messages as `role: content`, with a blank line between two of them."""
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)


def history_api_dict(messages: Sequence[Message]) -> str:
    """Return messages as JSON, a list of `{role, content}` such as chat endpoints take."""
    return json.dumps([{"role": m["role"], "content": m["content"]} for m in messages], ensure_ascii=False, indent=2)


def question_list(folder: Path, split: str) -> list[tuple[str, str, str, str]]:
    """Return id, type, topic and distance of the first questions of a split."""
    rows = read_questions(folder, split).slice(0, LISTED).to_pylist()
    return [
        (clean_text(row["question_id"]), row["question_type"], clean_text(row["topic"]), _distance(row)) for row in rows
    ]


def _distance(row: dict[str, Any]) -> str:
    blocks, part = row["distance_to_ref_in_blocks"], row["distance_to_ref_proportion_in_context"]
    sessions = f"{blocks} session{'' if blocks == 1 else 's'}"
    return f"{sessions}, {row['distance_to_ref_in_tokens']:,} tokens ({part:.1%} of the context)"


def question_lines(inspected: Inspected, *, full: bool = False) -> Iterator[Line]:
    """Yield what is shown of a question.

    Args:
        inspected: The question.
        full: Whether messages without evidence are shown whole too.
    """
    row = inspected.question
    evidence = _evidence(row)
    yield Line("question  ", f"{row['question_id']} ({inspected.split})", "bold")
    yield Line("persona   ", str(row["persona_id"]))
    yield Line("type      ", _type(row))
    yield Line("topic     ", row["topic"])
    yield Line("distance  ", _distance(row))
    places = f"messages {', '.join(map(str, sorted(evidence)))}, marked {_MARK}"
    yield Line("evidence  ", places if evidence else "none is recorded in this dataset")
    yield from _history_lines(inspected, evidence, full)
    end, length = row["end_index_in_shared_context"], len(inspected.context["messages"])
    yield Line("", "")
    yield Line("", f"=== the question, after {end} of {length} messages; what follows is not seen ===", "bold")
    yield Line(_GUTTER.format("", "user"), row["user_question_or_message"])
    yield Line("", "")
    yield from _option_lines(row)


def _type(row: dict[str, Any]) -> str:
    source = row["source_question_type"]
    return str(row["question_type"]) + ("" if source == row["question_type"] else f" (in the source {source})")


def _evidence(row: dict[str, Any]) -> dict[int, list[str]]:
    """Return the ids of the events told in each message of the evidence."""
    told: dict[int, list[str]] = {}
    for index, event in zip(row["evidence_message_indices"], row["evidence_event_ids"], strict=True):
        told.setdefault(index, []).append(event)
    return told


def _history_lines(inspected: Inspected, evidence: dict[int, list[str]], full: bool) -> Iterator[Line]:
    headers = _headers(inspected.context)
    for i, message in enumerate(inspected.history):
        if i in headers:
            yield Line("", "")
            yield Line("", headers[i], "bold cyan")
        gutter = _GUTTER.format(i, message["role"])
        if i in evidence:
            yield Line(_MARK + gutter[len(_MARK) :], f"[evidence: {', '.join(evidence[i])}]", "bold yellow")
            yield Line(_MARK.ljust(_INDENT), message["content"], "yellow")
        else:
            yield Line(gutter, message["content"], "dim", short=not full)


def _headers(context: dict[str, Any]) -> dict[int, str]:
    """Return the header of each session, by the index of its first message; fillers have neither topic nor date."""
    known = any(context["session_topics"])
    headers: dict[int, str] = {}
    number = 0
    for start, topic, date in zip(
        context["session_starts"], context["session_topics"], context["session_dates"], strict=True
    ):
        if known and not topic:
            headers[start] = "--- filler ---"
            continue
        number += 1
        described = ", ".join(part for part in (topic, date) if part)
        headers[start] = f"--- session {number}: {described or 'topic and date unknown'} ---"
    return headers


def _option_lines(row: dict[str, Any]) -> Iterator[Line]:
    states, roles = row.get("option_states"), row.get("option_roles")
    for i, (label, option) in enumerate(zip(option_labels(row), row["all_options"], strict=True)):
        right = i == row["answer_index"]
        yield Line("=> " if right else "   ", option, "bold green" if right else "")
        notes = ["right"] if right else []
        if roles:
            notes.append(roles[i])
        if states:
            notes.append(f"asserts {', then '.join(states[i])}" if states[i] else "asserts nothing")
        if notes:
            yield Line(" " * (4 + len(label)), "; ".join(notes), "green" if right else "dim")


def show(lines: Iterator[Line], console: Console) -> None:
    """Print paragraphs: broken at the width of a terminal; plain and with their own lines where there is none."""
    for line in lines:
        for text in _laid_out(line, console):
            text.rstrip()
            console.print(text, soft_wrap=True, highlight=False)


def _laid_out(line: Line, console: Console) -> list[Text]:
    from rich.text import Text

    wrap = console.is_terminal
    room = max(20, (console.width if wrap else _PIPED_WIDTH) - len(line.lead))
    body = line.text.translate(_CONTROLS).expandtabs(4)
    text = Text(" ".join(body.split()) if line.short else body, style=line.style)
    if line.short:
        text.truncate(room, overflow="ellipsis")
        return [Text.assemble((line.lead, line.style), text)]
    pieces = text.wrap(console, room) if wrap else text.split("\n", allow_blank=True)
    below = (_MARK if line.lead.startswith(_MARK) else "").ljust(len(line.lead))
    return [Text.assemble((below if i else line.lead, line.style), piece) for i, piece in enumerate(pieces)]
