"""Is a split whole: references, ends, lengths, distances, and how many of its questions are distinct?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from personamem_builder.assemble.sizes import SIZES
from personamem_builder.audit.records import AuditedSplit, Finding, Row, SharedContext, count_finding
from personamem_builder.schema import option_texts, shown_profile

_STRATA: Final = 10
_EXAMPLES: Final = 5

_ROUNDING: Final = 0.00006
"""A proportion is written as a percentage with two decimals, and kept in 32 bits."""

_END: Final = "end_index_in_shared_context"
_TOKENS: Final = "context_length_in_tokens"
_LETTERS: Final = "context_length_in_letters"
_DISTANCE: Final = "distance_to_ref_in_tokens"
_PROPORTION: Final = "distance_to_ref_proportion_in_context"
_EVIDENCE: Final = "evidence_message_indices"
_GENERATED: Final = "generated data"


def integrity_findings(split: AuditedSplit) -> list[Finding]:
    """Check that a split is whole; its contexts are read once, one at a time.

    Args:
        split: The split.

    Returns:
        A finding for each check. Most count the questions with a fault; `repeated_questions` and `across_personas` are
        fractions of the questions, `distance_coverage` is the fraction of the distances that no question has.
    """
    ids = [row["question_id"] for row in split.rows]
    return [
        count_finding("integrity.source_faults", split, split.source_faults),
        count_finding("integrity.duplicate_ids", split, _chosen(ids, _repeated(ids))),
        *_context_findings(split),
        _order(split),
        *_evidence(split),
        _tokens(split),
        _distance(split),
        _repeated_questions(split),
        _across_personas(split),
        _distance_coverage(split),
    ]


def _lacking(split: AuditedSplit, *columns: str) -> str:
    """Return the first of some columns that not every question has, empty if there is none."""
    return next((column for column in columns if any(column not in row for row in split.rows)), "")


def _needs(check: str, split: AuditedSplit, needs: str) -> Finding:
    return Finding(f"integrity.{check}", split.name, needs=needs)


def _counted(check: str, split: AuditedSplit, needs: str, is_fault: Callable[[Row], bool]) -> Finding:
    """Return how many questions have a fault, unless something that is needed to tell is lacking."""
    if needs:
        return _needs(check, split, needs)
    return count_finding(f"integrity.{check}", split, [row["question_id"] for row in split.rows if is_fault(row)])


def _chosen(ids: Sequence[str], faulty: Sequence[bool]) -> list[str]:
    return [id_ for id_, is_faulty in zip(ids, faulty, strict=True) if is_faulty]


def _repeated(keys: Sequence[Hashable]) -> list[bool]:
    """Say of each key whether an earlier one is the same."""
    seen: set[Hashable] = set()
    repeated = []
    for key in keys:
        repeated.append(key in seen)
        seen.add(key)
    return repeated


# --- questions beside their contexts


def _context_findings(split: AuditedSplit) -> list[Finding]:
    checks = ("missing_contexts", "orphan_contexts", "wrong_persona", "end_index", "letters")
    needs = "contexts" if split.contexts is None else _lacking(split, "shared_context_id")
    if needs or split.contexts is None:
        return [_needs(check, split, needs) for check in checks]
    asked: dict[str, list[int]] = {}
    for i, row in enumerate(split.rows):
        asked.setdefault(row["shared_context_id"], []).append(i)
    met: set[str] = set()
    orphans: list[str] = []
    profiles: dict[int, str] = {}
    faulty: dict[str, set[int]] = {"wrong_persona": set(), "end_index": set(), "letters": set()}
    for context in split.contexts():
        met.add(context.shared_context_id)
        if context.shared_context_id not in asked:
            orphans.append(context.shared_context_id)
            continue
        own = asked[context.shared_context_id]
        if (shown := shown_profile(context.messages)) != profiles.setdefault(context.persona_id, shown):
            faulty["wrong_persona"].update(own)  # two users under one id
        for check, found in _compare(context, [split.rows[i] for i in own]).items():
            faulty[check].update(own[i] for i in found)
    missing = {i for key, own in asked.items() if key not in met for i in own}
    needed = {"wrong_persona": "", "end_index": _lacking(split, _END), "letters": _lacking(split, _END, _LETTERS)}
    return [
        _of_questions("missing_contexts", split, missing),
        count_finding("integrity.orphan_contexts", split, orphans, n=len(met)),
        *(
            _needs(check, split, needed[check]) if needed[check] else _of_questions(check, split, found)
            for check, found in faulty.items()
        ),
    ]


def _of_questions(check: str, split: AuditedSplit, indices: Iterable[int]) -> Finding:
    return count_finding(f"integrity.{check}", split, [split.rows[i]["question_id"] for i in sorted(indices)])


def _compare(context: SharedContext, rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return the indices of the questions of a context that do not fit it, for each check."""
    letters = [0, *accumulate(len(message["content"]) for message in context.messages)]
    ends = [row.get(_END, 0) for row in rows]
    return {
        "wrong_persona": [i for i, row in enumerate(rows) if row["persona_id"] != context.persona_id],
        "end_index": [i for i, end in enumerate(ends) if not 1 <= end < len(letters)],
        "letters": [
            i for i, end in enumerate(ends) if 1 <= end < len(letters) and rows[i].get(_LETTERS) != letters[end]
        ],
    }


# --- questions alone


def _order(split: AuditedSplit) -> Finding:
    # Only a dataset folder promises an order. Rows of a CSV have a number, see `inputs.read_splits`.
    needs = _lacking(split, "shared_context_id", _END) or ("a dataset folder" if "row" in split.rows[0] else "")
    if needs:
        return _needs("order", split, needs)
    keys = [(row["shared_context_id"], row[_END]) for row in split.rows]
    return _of_questions("order", split, [i for i, (before, key) in enumerate(pairwise(keys), 1) if key < before])


def _evidence(split: AuditedSplit) -> list[Finding]:
    recorded = split.is_generated or any(row.get(_EVIDENCE) for row in split.rows)
    needs = _lacking(split, _EVIDENCE, _END) if recorded else _GENERATED
    return [
        _counted(
            "evidence_after_end",
            split,
            needs,
            lambda row: any(not 0 <= index < row[_END] for index in row[_EVIDENCE]),
        ),
        _counted(
            "evidence_empty",
            split,
            "" if split.is_generated else _GENERATED,
            # The questions of a run have events, but no messages yet.
            lambda row: not row.get("evidence_event_ids") or row.get(_EVIDENCE) == [],
        ),
    ]


def _tokens(split: AuditedSplit) -> Finding:
    most = SIZES[split.name].max_tokens if split.name in SIZES else None
    needs = _lacking(split, _TOKENS) or ("a split of nominal size" if most is None else "")
    return _counted("tokens", split, needs, lambda row: most is not None and row[_TOKENS] > most)


def _distance(split: AuditedSplit) -> Finding:
    def is_fault(row: Row) -> bool:
        distance, length, proportion = row[_DISTANCE], row[_TOKENS], row[_PROPORTION]
        return not 0 <= distance <= length or abs(proportion * length - distance) > _ROUNDING * length

    return _counted("distance", split, _lacking(split, _DISTANCE, _TOKENS, _PROPORTION), is_fault)


def _distance_coverage(split: AuditedSplit) -> Finding:
    if needs := _lacking(split, _PROPORTION):
        return _needs("distance_coverage", split, needs)
    counts = [0] * _STRATA
    for row in split.rows:
        counts[min(_STRATA - 1, max(0, int(_STRATA * row[_PROPORTION])))] += 1
    return Finding(
        "integrity.distance_coverage",
        split.name,
        value=counts.count(0) / _STRATA,
        n=len(split.rows),
        note=f"questions by distance, a tenth of the context each, the nearest first: {', '.join(map(str, counts))}",
    )


# --- repeats


def _content(row: Row) -> tuple[str, ...]:
    """Return what a question asks, whatever the order of its options."""
    return (row["user_question_or_message"], *sorted(option_texts(row)))


def _repeated_questions(split: AuditedSplit) -> Finding:
    repeated = _repeated([(row["persona_id"], _content(row)) for row in split.rows])
    distinct = repeated.count(False)
    note = f"{distinct} distinct questions, the effective sample size of the {len(repeated)}"
    return _share("repeated_questions", split, repeated, note)


def _across_personas(split: AuditedSplit) -> Finding:
    personas: dict[tuple[str, ...], set[int]] = {}
    for row in split.rows:
        personas.setdefault(_content(row), set()).add(row["persona_id"])
    shared = [len(personas[_content(row)]) > 1 for row in split.rows]
    note = f"{sum(shared)} of {len(shared)} questions are also asked of another persona"
    return _share("across_personas", split, shared, note)


def _share(check: str, split: AuditedSplit, cases: Sequence[bool], note: str) -> Finding:
    return Finding(
        f"integrity.{check}",
        split.name,
        value=sum(cases) / len(cases),
        n=len(cases),
        clusters=len(set(split.personas)),
        examples=tuple(_chosen([row["question_id"] for row in split.rows], cases)[:_EXAMPLES]),
        note=note,
    )
