"""The findings of `history.*`: what a reader makes of the history who counts, locates and matches words."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from personamem_builder.audit.history.index import HistoryIndex
from personamem_builder.audit.history.memoriser import Memory, memoriser_values
from personamem_builder.audit.history.polarity import polarity_values
from personamem_builder.audit.history.pooled import pooled_credits
from personamem_builder.audit.history.reading import CHECKS as RULE_CHECKS
from personamem_builder.audit.history.reading import Values, history_values
from personamem_builder.audit.history.telling import CHECKS as TELLING_CHECKS
from personamem_builder.audit.history.telling import OPENINGS, Messages
from personamem_builder.audit.history.words import asked_stems, assertions
from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings, not_made
from personamem_builder.policies import best_credit
from personamem_builder.schema import ContextRow

POLARITY: Final = "history.polarity"
UNNAMED: Final = "history.polarity_unnamed"
POOLED: Final = "history.pooled"
MEMORISER: Final = "history.memoriser"

_END: Final = "end_index_in_shared_context"
_EVIDENCE: Final = "evidence_message_indices"
_NOT_NAMED: Final = frozenset({"paraphrased", "implied"})


def history_findings(
    split: AuditedSplit, memory: Memory | None = None, probed: AuditedSplit | None = None
) -> list[Finding]:
    """Return how far questions are answered by reading the history without understanding it.

    Those of `reading_findings`, `telling_findings` and `pooled_findings`; and `history.memoriser`, not made, where
    there is nothing that it has learned.

    Args:
        split: The questions.
        memory: What the memoriser learned; None where it has not.
        probed: The questions that `history.pooled` learns from and answers; all of them by default.
    """
    return [
        *reading_findings(split, history_credits(split, memory)),
        *telling_findings(split),
        *pooled_findings(probed or split),
        *unread_findings(split, memory),
    ]


def history_credits(split: AuditedSplit, memory: Memory | None = None) -> dict[str, array[float]] | None:
    """Return for each check of `reading_findings` the credit of each question; None where there is nothing to read.

    Contexts are read one at a time; a question whose context is missing is guessed.

    Args:
        split: The questions.
        memory: What the memoriser learned; None where it has not.
    """
    if split.contexts is None or split.lacking(_END):
        return None
    checks = (*RULE_CHECKS, POLARITY, *((MEMORISER,) if memory else ()))
    credits_ = {check: array("d", split.chances) for check in checks}
    asked = split.asked
    for context in split.contexts():
        for i, check, values in _read(split, context, asked.get(context["shared_context_id"], ()), memory):
            credits_[check][i] = best_credit(values, split.rows[i]["answer_index"])
    return credits_


def reading_findings(split: AuditedSplit, credits_: Mapping[str, Sequence[float]] | None) -> list[Finding]:
    """Return how often rules answer right that count, locate and match words in the history.

    - `history.last_mentioned` and the others of `reading.RULES`: the rule that takes the option whose words the user
      mentioned last, first, most or least often; `..._by_anyone`: user or assistant did.
      `history.most_mentioned_by_assistant`: the assistant most often.
    - `history.best_match`, `best_match_bm25`: the option that matches a single message of the user best.
    - `history.polarity`: the reader of `polarity.polarity_values`; `history.polarity_unnamed` is what it scores where
      the evidence paraphrases or implies what the options name.
    - `history.memoriser`: the reader of `memoriser`, which has learned from datasets with other seeds.

    Each is made overall, by question type, and by the way in which the evidence is told, where the rows say.

    Args:
        split: The questions.
        credits_: What `history_credits` gives for them.
    """
    if credits_ is None:
        return not_made(split, _lacking(split), *RULE_CHECKS, POLARITY, UNNAMED)
    found = [
        finding for check in credits_ for finding in accuracy_findings(check, split, credits_[check], by_telling=True)
    ]
    return [*found, *_unnamed_findings(split, credits_[POLARITY])]


def telling_findings(split: AuditedSplit) -> list[Finding]:
    """Return how well evidence is told from other messages: see `telling.Messages.findings`."""
    if split.contexts is None or split.lacking(_END):
        return not_made(split, _lacking(split), *TELLING_CHECKS, OPENINGS)
    if split.lacking(_EVIDENCE) or not any(row[_EVIDENCE] for row in split.rows):
        return not_made(split, "evidence", *TELLING_CHECKS, OPENINGS)
    messages = Messages(split)
    for context in split.contexts():
        messages.add(context)
    return messages.findings()


def pooled_findings(split: AuditedSplit) -> list[Finding]:
    """Return `history.pooled`: the reader of `pooled.pooled_credits`, which sees no history."""
    if len(set(split.personas)) < 2:
        return not_made(split, "two personas", POOLED)
    return accuracy_findings(POOLED, split, pooled_credits(split), by_telling=True)


def unread_findings(split: AuditedSplit, memory: Memory | None) -> list[Finding]:
    """Return `history.memoriser` as not made, where there is nothing that it has learned, or could read."""
    if memory is None:
        return not_made(split, "data with another seed", MEMORISER)
    if split.contexts is None or split.lacking(_END):
        return not_made(split, _lacking(split), MEMORISER)
    return []


def _lacking(split: AuditedSplit) -> str:
    return "contexts" if split.contexts is None else _END


def _read(
    split: AuditedSplit,
    context: ContextRow,
    own: Sequence[int],
    memory: Memory | None,
) -> Iterator[tuple[int, str, Values]]:
    """Yield what each check gives to the options of each question of a context."""
    if not own:
        return
    options = {i: assertions(split.rows[i]) for i in own}
    asked = {i: asked_stems(split.rows[i]) for i in own}
    stems = {stem for i in own for option in options[i] for stem in option.stems}
    end = max(split.rows[i][_END] for i in own)
    index = HistoryIndex(context["messages"][:end], stems.union(*asked.values()))
    for i in own:
        row = split.rows[i]
        for check, values in history_values(index, options[i], row[_END]).items():
            yield i, check, values
        yield i, POLARITY, polarity_values(row["question_type"], index, options[i], asked[i], row[_END])
    if memory is not None:
        rows, words = [split.rows[i] for i in own], [asked[i] for i in own]
        remembered = memoriser_values(rows, [options[i] for i in own], words, context, memory)
        yield from ((i, MEMORISER, values) for i, values in zip(own, remembered, strict=True))


def _unnamed_findings(split: AuditedSplit, credits_: Sequence[float]) -> list[Finding]:
    chosen = [i for telling, own in split.tellings.items() if telling in _NOT_NAMED for i in own]
    if not chosen:
        return not_made(split, "evidence that does not name things", UNNAMED)
    return accuracy_findings(UNNAMED, split.part(chosen), [credits_[i] for i in chosen])
