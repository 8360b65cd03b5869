"""What a memory system's results are worth before any model has read them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from generation.tokenizer import count_tokens, num_tokens
from personamem_builder import statistics
from personamem_builder.memory.budget import within_budget
from personamem_builder.memory.store import MemoryStore
from personamem_builder.schema import ContextRow, QuestionRow
from personamem_builder.statistics import Estimate

ALMOST_ALL: Final = 0.9
"""A system that returns more of the history than this has found nothing: it returns everything."""

_OUTDATED: Final = "outdated"
_CURRENT: Final = "current"
_COURSE: Final = "track_full_preference_evolution"


class Excerpt(NamedTuple):
    """Messages of a shared context, by their indices in any order, and texts that stand for no message."""

    context_id: str
    indices: Collection[int] = ()
    texts: Sequence[str] = ()


class Retrieval(NamedTuple):
    """What was retrieved for a question, as it is measured.

    Attributes:
        indices: The messages of its history that were given word for word.
        tokens: Tokens of all that was given.
        history_tokens: Tokens of the history before the question.
        whole: Whether all that was given stands for messages; else nobody knows what its text tells.
    """

    row: QuestionRow
    indices: frozenset[int]
    tokens: int
    history_tokens: int
    whole: bool = True


class Measure(NamedTuple):
    """A measure, with its value for each question that has it, by id.

    The unit is `share`, or `tokens` or `seconds`, of which the mean is taken.
    """

    name: str
    unit: str
    values: Mapping[str, float]


def retrievals_in_store(
    store: MemoryStore, rows: Iterable[QuestionRow], contexts: Sequence[ContextRow], budget: int | None = None
) -> list[Retrieval]:
    """Return what a system gave to each question that it was asked, as far as a budget lets it."""
    asked = [row for row in rows if row["question_id"] in store.questions]
    before = history_tokens(asked, contexts)
    texts = {one["shared_context_id"]: [m["content"] for m in one["messages"]] for one in contexts}
    found = []
    for row in asked:
        given = store.memories(row["question_id"])
        kept = within_budget(given, budget, texts[row["shared_context_id"]])
        indices = frozenset(i for memory in kept for i in memory.message_indices)
        # One that was cut may hold no message as a whole, and still says whose words it has.
        whole = all(memory.message_indices for memory in given[: len(kept)])
        tokens = store.questions[row["question_id"]]["tokens"]
        if kept != given:
            tokens = sum(num_tokens(memory.text) for memory in kept)
        found.append(Retrieval(row, indices, tokens, before[row["question_id"]], whole))
    return found


def retrievals_of_excerpts(
    rows: Sequence[QuestionRow], contexts: Sequence[ContextRow], excerpts: Mapping[str, Excerpt]
) -> list[Retrieval]:
    """Return the excerpts of questions, by their ids, as if they had been retrieved.

    Those of another history than the question's own hold none of its messages.
    """
    said = {
        context["shared_context_id"]: [m["content"] if m["role"] != "system" else "" for m in context["messages"]]
        for context in contexts
    }
    counts = count_tokens(text for texts in said.values() for text in texts)
    before = history_tokens(rows, contexts)
    found = []
    for row in rows:
        context_id, indices, _ = excerpts[row["question_id"]]
        indices = [i for i in indices if said[context_id][i]]
        own = frozenset(indices if context_id == row["shared_context_id"] else ())
        tokens = sum(counts[said[context_id][i]] for i in indices)
        found.append(Retrieval(row, own, tokens, before[row["question_id"]]))
    return found


def history_tokens(rows: Sequence[QuestionRow], contexts: Iterable[ContextRow]) -> dict[str, int]:
    """Return the tokens of the history before each question, without the repeats of the user's profile."""
    asked: dict[str, list[QuestionRow]] = {}
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


def retrieval_measures(found: Sequence[Retrieval]) -> list[Measure]:
    """Return what was found, question by question.

    - `evidence recall`: the share of a question's evidence messages that was given.
    - `all evidence`: whether all of them were.
    - `evidence precision`: the share of the messages given that are evidence.
    - `outdated only`: of the questions about a value that has changed, whether evidence of an outdated one was given
      without that of the current one.
    - `contradictory`: of the same questions, whether evidence of both was given, which the model then has to order.
    - `share of history`: tokens given, of those of the history before the question.
    - `tokens per query`: tokens given.

    Those of evidence are of generated data, and of memories that stand for messages.
    """
    legible = [one for one in found if one.whole and one.row["evidence_message_indices"]]
    due = {one.row["question_id"]: set(one.row["evidence_message_indices"] or ()) for one in legible}
    given = {one.row["question_id"]: len(one.indices) for one in legible}
    hits = {one.row["question_id"]: len(due[one.row["question_id"]] & one.indices) for one in legible}
    measures = [
        Measure("evidence recall", "share", {key: hit / len(due[key]) for key, hit in hits.items()}),
        Measure("all evidence", "share", {key: float(hit == len(due[key])) for key, hit in hits.items()}),
        Measure("evidence precision", "share", {key: hit / given[key] for key, hit in hits.items() if given[key]}),
        *_of_states(legible),
        Measure(
            "share of history",
            "share",
            {one.row["question_id"]: one.tokens / one.history_tokens for one in found if one.history_tokens},
        ),
        Measure("tokens per query", "tokens", {one.row["question_id"]: float(one.tokens) for one in found}),
    ]
    return [measure for measure in measures if measure.values]


def _of_states(found: Sequence[Retrieval]) -> list[Measure]:
    """Say of each question about a value that has changed which of its states were given.

    Evidence stands in the order of the updates: the last message tells the current value, those before it outdated
    ones. This holds where an option is outdated, and for questions after the course itself.
    """
    outdated_only, contradictory = {}, {}
    for one in found:
        evidence = one.row["evidence_message_indices"] or []
        roles = one.row.get("option_roles") or ()
        changed = (_OUTDATED in roles and _CURRENT in roles) or one.row["question_type"] == _COURSE
        if len(evidence) > 1 and changed:
            is_current = evidence[-1] in one.indices
            is_outdated = not one.indices.isdisjoint(evidence[:-1])
            outdated_only[one.row["question_id"]] = float(is_outdated and not is_current)
            contradictory[one.row["question_id"]] = float(is_outdated and is_current)
    return [Measure("outdated only", "share", outdated_only), Measure("contradictory", "share", contradictory)]


def store_measures(store: MemoryStore, found: Sequence[Retrieval]) -> list[Measure]:
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


def estimate(measure: Measure, rows: Mapping[str, QuestionRow], ids: Iterable[str] | None = None) -> Estimate | None:
    """Return the mean of a measure, over some questions only if `ids` say so, with its interval clustered by persona.

    Without an interval where the measure is no share; None where no question has the measure.
    """
    chosen = None if ids is None else set(ids)
    keys = [key for key in measure.values if chosen is None or key in chosen]
    if not keys:
        return None
    values, personas = [measure.values[key] for key in keys], [rows[key]["persona_id"] for key in keys]
    if measure.unit == "share" and max(values) <= 1:
        return statistics.overall(values, personas)
    return Estimate(sum(values) / len(values), None, None, len(values), len(set(personas)))


def costs(store: MemoryStore) -> dict[str, Any]:
    """Return what a run took, as JSON.

    `pieces` are calls of `add_session`, of which so many `failed`; a session that came in pieces counts once among the
    `sessions`. `bytes` and `tokens` are those shown, `seconds` those of all sessions and queries. `usage` is what the
    system says that it used, such as calls of a model, of it `usage_of_sessions` while it took sessions in.
    """
    lines, asked = store.sessions, list(store.questions.values())
    taking_in, searching = (_sum(line["usage"] for line in own) for own in (lines, asked))
    sessions = len({(line["shared_context_id"], line["number"]) for line in lines})
    seconds = sum(line["seconds"] for line in lines)
    waits = sorted(line["seconds"] for line in asked)
    return {
        "sessions": sessions,
        "pieces": len(lines),
        "failed": sum(bool(line["error"]) for line in lines),
        "bytes": sum(line["bytes"] for line in lines),
        "tokens": sum(line["tokens"] for line in lines),
        "seconds_of_sessions": seconds,
        "seconds_per_session": seconds / sessions if sessions else 0.0,
        "seconds_per_query": {"median": _quantile(waits, 0.5), "p95": _quantile(waits, 0.95)} if waits else None,
        "seconds": seconds + sum(waits),
        "usage_of_sessions": dict(taking_in),
        "usage": dict(taking_in + searching),
    }


def session_measures(store: MemoryStore, contexts: Collection[str]) -> list[dict[str, Any]]:
    """Return what taking in a session took in some contexts, as lines of `summarise`: means over the `n` sessions."""
    lines = [line for line in store.sessions if line["shared_context_id"] in contexts]
    n = len({(line["shared_context_id"], line["number"]) for line in lines})
    if not n:
        return []
    sums = {"seconds": sum(line["seconds"] for line in lines), **_sum(line["usage"] for line in lines)}
    return [
        {"measure": f"{name} per session", "unit": unit_of(name), "value": value / n, "low": None, "high": None, "n": n}
        for name, value in sums.items()
    ]


def unit_of(name: str) -> str:
    """Return the unit of something that a system says it used."""
    if "token" in name:
        return "tokens"
    return {"seconds": "seconds", "cost": "dollars", "dollars": "dollars"}.get(name, "count")


def _sum(usages: Iterable[Mapping[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for used in usages:
        total.update(used)
    return total


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of some sorted values lies, between two of them interpolated linearly."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def returns_everything(measures: Iterable[Measure]) -> bool:
    """Say whether a system returns nearly all of the history, so that its recall says nothing about finding."""
    for measure in measures:
        if measure.name == "share of history" and measure.values:
            return sum(measure.values.values()) / len(measure.values) >= ALMOST_ALL
    return False


DISTANCES: Final = (0, 2, 5, 10, 20)
"""Where the classes of distance begin, in sessions between the evidence and the question."""


def distance_class(sessions: int) -> str:
    """Return the class of distance of so many sessions, such as `2-4 sessions back`."""
    place = max(bisect_left(DISTANCES, sessions + 1) - 1, 0)
    first = DISTANCES[place]
    last = "+" if place + 1 == len(DISTANCES) else f"-{DISTANCES[place + 1] - 1}"
    return f"{first}{last} sessions back"


def by_slice(rows: Iterable[QuestionRow], name_of: Callable[[QuestionRow], str]) -> dict[str, set[str]]:
    """Return the ids of the questions of each slice."""
    slices: dict[str, set[str]] = {}
    for row in rows:
        slices.setdefault(name_of(row), set()).add(row["question_id"])
    return slices
