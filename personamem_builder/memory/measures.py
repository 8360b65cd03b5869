"""What a memory system's results are worth before any model has read them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.tokenizer import count_tokens
from personamem_builder import statistics
from personamem_builder.memory.store import MemoryStore
from personamem_builder.statistics import Estimate

Row = Mapping[str, Any]

ALMOST_ALL: Final = 0.9
"""A system that returns more of the history than this has found nothing: it returns everything."""

_OUTDATED: Final = "outdated"
_CURRENT: Final = "current"


class Found(NamedTuple):
    """What a question was given.

    Attributes:
        row: The question.
        indices: The messages of its history that were given word for word.
        tokens: Tokens of all that was given.
        history_tokens: Tokens of the history before the question.
        whole: Whether all that was given stands for messages; else it is text of the system's own, of which nobody
            knows what it tells.
    """

    row: Row
    indices: frozenset[int]
    tokens: int
    history_tokens: int
    whole: bool = True


class Measure(NamedTuple):
    """A measure of each question that has it.

    Attributes:
        name: What is measured.
        unit: `share`, or `tokens` or `seconds`, of which the mean is taken.
        values: The value of each question, by its id.
    """

    name: str
    unit: str
    values: Mapping[str, float]


def found_in_store(store: MemoryStore, rows: Iterable[Row], contexts: Iterable[Mapping[str, Any]]) -> list[Found]:
    """Return what a system gave to each question that it was asked.

    Args:
        store: The results.
        rows: The questions of the split.
        contexts: Its shared contexts.
    """
    asked = [row for row in rows if row["question_id"] in store.questions]
    before = history_tokens(asked, contexts)
    found = []
    for row in asked:
        line = store.questions[row["question_id"]]
        indices = frozenset(i for _, _, places in line["memories"] for i in places)
        whole = all(places for _, _, places in line["memories"])
        found.append(Found(row, indices, line["tokens"], before[row["question_id"]], whole))
    return found


def found_in_history(
    rows: Sequence[Row], contexts: Sequence[Mapping[str, Any]], shown: Mapping[str, tuple[str, Iterable[int]]]
) -> list[Found]:
    """Return what a question is given that is shown messages of a history, its own or another.

    Args:
        rows: The questions.
        contexts: The shared contexts.
        shown: For each question, by its id, whose messages they are, and which.
    """
    said = {
        context["shared_context_id"]: [m["content"] if m["role"] != "system" else "" for m in context["messages"]]
        for context in contexts
    }
    counts = count_tokens(text for texts in said.values() for text in texts)
    before = history_tokens(rows, contexts)
    found = []
    for row in rows:
        context_id, places = shown[row["question_id"]]
        indices = [i for i in places if said[context_id][i]]
        own = frozenset(indices if context_id == row["shared_context_id"] else ())
        tokens = sum(counts[said[context_id][i]] for i in indices)
        found.append(Found(row, own, tokens, before[row["question_id"]]))
    return found


def history_tokens(rows: Sequence[Row], contexts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the tokens of the history before each question, without the repeats of the user's profile."""
    asked: dict[str, list[Row]] = {}
    for row in rows:
        asked.setdefault(row["shared_context_id"], []).append(row)
    result: dict[str, int] = {}
    for context in contexts:
        here = asked.get(context["shared_context_id"])
        if here:
            said = [message["content"] if message["role"] != "system" else "" for message in context["messages"]]
            counts = count_tokens(said)
            sums = [0, *accumulate(counts[text] for text in said)]
            result |= {row["question_id"]: sums[min(row["end_index_in_shared_context"], len(said))] for row in here}
    return result


def retrieval_measures(found: Sequence[Found]) -> list[Measure]:
    """Return what was found, question by question.

    - `evidence recall`: the share of a question's evidence messages that was given.
    - `all evidence`: whether all of them were.
    - `evidence precision`: the share of the messages given that are evidence.
    - `stale evidence`: of the questions about a value that has changed, whether evidence of an outdated one was given
      without that of the current one.
    - `share of history`: tokens given, of those of the history before the question.
    - `tokens per query`: tokens given.

    Those of evidence are of generated data, and of memories that stand for messages.

    Args:
        found: What each question was given.
    """
    legible = [one for one in found if one.whole and one.row["evidence_message_indices"]]
    hits = {one.row["question_id"]: set(one.row["evidence_message_indices"]) & one.indices for one in legible}
    due = {one.row["question_id"]: len(set(one.row["evidence_message_indices"])) for one in legible}
    given = {one.row["question_id"]: len(one.indices) for one in legible}
    measures = [
        Measure("evidence recall", "share", {key: len(hit) / due[key] for key, hit in hits.items()}),
        Measure("all evidence", "share", {key: float(len(hit) == due[key]) for key, hit in hits.items()}),
        Measure("evidence precision", "share", {key: len(hit) / given[key] for key, hit in hits.items() if given[key]}),
        Measure("stale evidence", "share", _stale(legible)),
        Measure(
            "share of history",
            "share",
            {one.row["question_id"]: one.tokens / one.history_tokens for one in found if one.history_tokens},
        ),
        Measure("tokens per query", "tokens", {one.row["question_id"]: float(one.tokens) for one in found}),
    ]
    return [measure for measure in measures if measure.values]


def _stale(found: Sequence[Found]) -> dict[str, float]:
    """Say of each question about a value that has changed whether only what it was before was given.

    Evidence stands in the order of the updates: the last message tells the current value, those before it outdated
    ones. This holds where an option is outdated, and for questions after the course itself.
    """
    stale = {}
    for one in found:
        *before, last = one.row["evidence_message_indices"]
        roles = one.row.get("option_roles") or ()
        changed = (_OUTDATED in roles and _CURRENT in roles) or one.row["question_type"] in _COURSES
        if before and changed:
            stale[one.row["question_id"]] = float(last not in one.indices and not one.indices.isdisjoint(before))
    return stale


_COURSES: Final = ("track_full_preference_evolution",)


def store_measures(store: MemoryStore, found: Sequence[Found]) -> list[Measure]:
    """Return those of `retrieval_measures`, the seconds, and whether answers of the system's own are right."""
    lines = [store.questions[one.row["question_id"]] for one in found]
    measures = [
        *retrieval_measures(found),
        Measure("seconds per query", "seconds", {line["question_id"]: line["seconds"] for line in lines}),
    ]
    options = {one.row["question_id"]: one.row for one in found}
    if any(line.get("answer") is not None for line in lines):
        right = {
            line["question_id"]: float(line.get("answer") == options[line["question_id"]]["answer_index"])
            for line in lines
        }
        measures.append(Measure("own answers", "share", right))
    return measures


def estimate(measure: Measure, rows: Mapping[str, Row], ids: Iterable[str] | None = None) -> Estimate | None:
    """Return the mean of a measure with its interval, clustered by persona.

    Args:
        measure: The measure.
        rows: The questions by id.
        ids: Only these questions.

    Returns:
        The mean; without an interval where the measure is no share. None where no question has the measure.
    """
    chosen = None if ids is None else set(ids)
    keys = [key for key in measure.values if chosen is None or key in chosen]
    if not keys:
        return None
    values, personas = [measure.values[key] for key in keys], [rows[key]["persona_id"] for key in keys]
    if measure.unit == "share" and max(values) <= 1:
        return statistics.overall(values, personas)
    return Estimate(sum(values) / len(values), None, None, len(values), len(set(personas)))


class Compared(NamedTuple):
    """A measure of two systems.

    Attributes:
        name: What is measured.
        unit: As in `Measure`.
        first: Mean of the first, over the questions that both have.
        second: Mean of the second.
        difference: Second minus first.
        low: Lower end of its 95 % interval clustered by persona; None with fewer than two personas.
        high: Upper end.
        n: Questions that both have.
    """

    name: str
    unit: str
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    n: int


def compare(first: Sequence[Measure], second: Sequence[Measure], rows: Mapping[str, Row]) -> list[Compared]:
    """Compare two systems question by question.

    Args:
        first: The measures of one.
        second: Those of the other.
        rows: The questions by id.

    Returns:
        A line for each measure that both have.
    """
    others = {measure.name: measure for measure in second}
    lines = []
    for measure in first:
        other = others.get(measure.name)
        keys = [key for key in measure.values if other is not None and key in other.values]
        if other is None or not keys:
            continue
        a, b = [measure.values[key] for key in keys], [other.values[key] for key in keys]
        # Scaled into [-1, 1], to which the interval of a difference of credits is clipped.
        scale = max(1.0, *(abs(x - y) for x, y in zip(a, b, strict=True))) * _ROOM
        found = statistics.paired_difference(
            [y / scale for y in b], [x / scale for x in a], [rows[key]["persona_id"] for key in keys]
        )
        low, high = (None if end is None else end * scale for end in (found.low, found.high))
        if measure.unit == "share":
            low, high = (None if end is None else min(max(end, -1.0), 1.0) for end in (low, high))
        means = sum(a) / len(a), sum(b) / len(b)
        lines.append(Compared(measure.name, measure.unit, *means, means[1] - means[0], low, high, len(keys)))
    return lines


_ROOM: Final = 100.0
"""Makes values so small that no end of an interval is clipped before it is scaled back."""


class Costs(NamedTuple):
    """What it took to take a split in, and to search it.

    Attributes:
        sessions: Sessions taken in; one that came in pieces counts once.
        pieces: Calls of `add_session`.
        failed: Of these, those that failed.
        bytes: Bytes shown.
        tokens: Tokens shown.
        seconds_per_session: Mean seconds to take one in.
        seconds: Seconds of all sessions and queries.
        usage: What the system says that it used, such as calls of a model.
    """

    sessions: int
    pieces: int
    failed: int
    bytes: int
    tokens: int
    seconds_per_session: float
    seconds: float
    usage: Mapping[str, float]


def costs(store: MemoryStore) -> Costs:
    """Return what a run took."""
    lines, asked = store.sessions, list(store.questions.values())
    usage: dict[str, float] = {}
    for line in [*lines, *asked]:
        for key, value in line["usage"].items():
            usage[key] = usage.get(key, 0.0) + value
    sessions = len({(line["shared_context_id"], line["number"]) for line in lines})
    seconds = sum(line["seconds"] for line in lines)
    return Costs(
        sessions=sessions,
        pieces=len(lines),
        failed=sum(bool(line["error"]) for line in lines),
        bytes=sum(line["bytes"] for line in lines),
        tokens=sum(line["tokens"] for line in lines),
        seconds_per_session=seconds / sessions if sessions else 0.0,
        seconds=seconds + sum(line["seconds"] for line in asked),
        usage=usage,
    )


def returns_everything(measures: Iterable[Measure]) -> bool:
    """Say whether a system returns nearly all of the history, so that its recall says nothing about finding."""
    for measure in measures:
        if measure.name == "share of history" and measure.values:
            return sum(measure.values.values()) / len(measure.values) >= ALMOST_ALL
    return False


def check_same_questions(first: MemoryStore, second: MemoryStore) -> None:
    """Raise unless two results are of the same data.

    Raises:
        UserError: They are not.
    """
    for key in ("data_digest", "split"):
        if first.about[key] != second.about[key]:
            raise UserError(
                f"{first.folder} and {second.folder} cannot be compared: their {key} differs",
                "run both systems on the same data and split",
            )


DISTANCES: Final = (0, 2, 5, 10, 20)
"""Where the classes of distance begin, in sessions between the evidence and the question."""


def distance_class(row: Row) -> str:
    """Return the class of distance of a question, such as `2-4 sessions back`."""
    place = max(bisect_left(DISTANCES, row["distance_to_ref_in_blocks"] + 1) - 1, 0)
    first = DISTANCES[place]
    last = "+" if place + 1 == len(DISTANCES) else f"-{DISTANCES[place + 1] - 1}"
    return f"{first}{last} sessions back"


def by_slice(rows: Iterable[Row], name_of: Callable[[Row], str]) -> dict[str, set[str]]:
    """Return the ids of the questions of each slice."""
    slices: dict[str, set[str]] = {}
    for row in rows:
        slices.setdefault(name_of(row), set()).add(row["question_id"])
    return slices
