"""Is a split whole: references, ends, lengths, distances, and how many of its questions are distinct?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from personamem_builder.assemble.sizes import SIZES
from personamem_builder.audit.records import EXAMPLES, AuditedSplit, Finding, count_finding, count_questions, not_made
from personamem_builder.schema import ContextRow, QuestionRow, option_texts, shown_profile

_STRATA: Final = 10

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

    Returns:
        A finding for each check. Most count the questions with a fault; `repeated_questions` and `across_personas` are
        fractions of the questions, `distance_coverage` is the fraction of the distances that no question has.
    """
    return [
        count_finding("integrity.source_faults", split, split.source_faults),
        _at("duplicate_ids", split, _repeats(split.question_ids)),
        *_context_findings(split),
        _order(split),
        *_evidence(split),
        _tokens(split),
        _distance(split),
        _repeated_questions(split),
        _across_personas(split),
        _distance_coverage(split),
    ]


def _counted(check: str, split: AuditedSplit, needs: str, is_faulty: Callable[[QuestionRow], bool]) -> Finding:
    """Count the questions with a fault, unless something that is needed to tell is lacking."""
    name = f"integrity.{check}"
    return not_made(split, needs, name)[0] if needs else count_questions(name, split, is_faulty)


def _at(check: str, split: AuditedSplit, indices: Iterable[int]) -> Finding:
    """Count the questions at some indices."""
    return count_finding(f"integrity.{check}", split, [split.question_ids[i] for i in sorted(indices)])


def _repeats(keys: Sequence[Hashable]) -> list[int]:
    """Return the indices of the keys that an earlier one equals."""
    first: dict[Hashable, int] = {}
    return [i for i, key in enumerate(keys) if first.setdefault(key, i) != i]


# --- questions beside their contexts


def _context_findings(split: AuditedSplit) -> list[Finding]:
    needs = "contexts" if split.contexts is None else split.lacking("shared_context_id")
    if needs or split.contexts is None:
        checks = ("missing_contexts", "orphan_contexts", "wrong_persona", "end_index", "letters")
        return not_made(split, needs, *(f"integrity.{check}" for check in checks))
    asked = split.asked
    met: set[str] = set()
    orphans: list[str] = []
    profiles: dict[int, str] = {}
    faulty: dict[str, set[int]] = {"wrong_persona": set(), "end_index": set(), "letters": set()}
    for context in split.contexts():
        key = context["shared_context_id"]
        met.add(key)
        if key not in asked:
            orphans.append(key)
            continue
        if (shown := shown_profile(context["messages"])) != profiles.setdefault(context["persona_id"], shown):
            faulty["wrong_persona"].update(asked[key])  # two users under one id
        for check, found in _misfits(context, [split.rows[i] for i in asked[key]]).items():
            faulty[check].update(asked[key][i] for i in found)
    needed = {"wrong_persona": "", "end_index": split.lacking(_END), "letters": split.lacking(_END, _LETTERS)}
    return [
        _at("missing_contexts", split, (i for key in asked.keys() - met for i in asked[key])),
        count_finding("integrity.orphan_contexts", split, orphans, n=len(met)),
        *(
            not_made(split, needed[check], f"integrity.{check}")[0] if needed[check] else _at(check, split, found)
            for check, found in faulty.items()
        ),
    ]


def _misfits(context: ContextRow, rows: Sequence[QuestionRow]) -> dict[str, list[int]]:
    """Return the indices of the questions of a context that do not fit it, for each check."""
    letters = [0, *accumulate(len(message["content"]) for message in context["messages"])]
    ends = [row.get(_END, 0) for row in rows]
    return {
        "wrong_persona": [i for i, row in enumerate(rows) if row["persona_id"] != context["persona_id"]],
        "end_index": [i for i, end in enumerate(ends) if not 1 <= end < len(letters)],
        "letters": [
            i for i, end in enumerate(ends) if 1 <= end < len(letters) and rows[i].get(_LETTERS) != letters[end]
        ],
    }


# --- questions alone


def _order(split: AuditedSplit) -> Finding:
    # Only a dataset folder promises an order. Rows of a CSV have a number, see `inputs.read_splits`.
    needs = split.lacking("shared_context_id", _END) or ("a dataset folder" if "row" in split.rows[0] else "")
    if needs:
        return not_made(split, needs, "integrity.order")[0]
    keys = [(row["shared_context_id"], row[_END]) for row in split.rows]
    return _at("order", split, (i for i, (before, key) in enumerate(pairwise(keys), 1) if key < before))


def _evidence(split: AuditedSplit) -> list[Finding]:
    recorded = split.is_generated or any(row.get(_EVIDENCE) for row in split.rows)
    needs = split.lacking(_EVIDENCE, _END) if recorded else _GENERATED
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
    needs = split.lacking(_TOKENS) or ("a split of nominal size" if most is None else "")
    return _counted("tokens", split, needs, lambda row: most is not None and row[_TOKENS] > most)


def _distance(split: AuditedSplit) -> Finding:
    def is_faulty(row: QuestionRow) -> bool:
        distance, length, proportion = row[_DISTANCE], row[_TOKENS], row[_PROPORTION]
        return not 0 <= distance <= length or abs(proportion * length - distance) > _ROUNDING * length

    return _counted("distance", split, split.lacking(_DISTANCE, _TOKENS, _PROPORTION), is_faulty)


def _distance_coverage(split: AuditedSplit) -> Finding:
    if needs := split.lacking(_PROPORTION):
        return not_made(split, needs, "integrity.distance_coverage")[0]
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


def _asked(row: QuestionRow) -> bytes:
    """Return a digest of what a question asks, whatever the order of its options; all texts would fill the memory."""
    asked = [row["user_question_or_message"], *sorted(option_texts(row))]
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).digest()


def _repeated_questions(split: AuditedSplit) -> Finding:
    repeats = _repeats([(row["persona_id"], _asked(row)) for row in split.rows])
    count = len(split.rows)
    note = f"{count - len(repeats)} distinct questions, the effective sample size of the {count}"
    return _share("repeated_questions", split, repeats, note)


def _across_personas(split: AuditedSplit) -> Finding:
    asked = [_asked(row) for row in split.rows]
    first = dict(zip(reversed(asked), reversed(split.personas), strict=True))
    of_several = {key for key, persona in zip(asked, split.personas, strict=True) if first[key] != persona}
    shared = [i for i, key in enumerate(asked) if key in of_several]
    note = f"{len(shared)} of {len(asked)} questions are also asked of another persona"
    return _share("across_personas", split, shared, note)


def _share(check: str, split: AuditedSplit, indices: Sequence[int], note: str) -> Finding:
    return Finding(
        f"integrity.{check}",
        split.name,
        value=len(indices) / len(split.rows),
        n=len(split.rows),
        clusters=len(set(split.personas)),
        examples=tuple(split.question_ids[i] for i in indices[:EXAMPLES]),
        note=note,
    )
