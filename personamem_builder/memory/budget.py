"""A budget of tokens: how much of what a memory system found goes before the model, the same for all systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from generation.errors import UserError
from generation.tokenizer import first_tokens, num_tokens
from personamem_builder.memory.controls import Nothing, Recent
from personamem_builder.memory.system import Memory

MAX_BUDGET: Final = 100_000_000


def check_budget(budget: Any) -> int | None:
    """Return a budget in tokens; None stands for none.

    Raises:
        UserError: It is no whole number from 1 to `MAX_BUDGET`.
    """
    if budget is None:
        return None
    if not isinstance(budget, int) or isinstance(budget, bool) or not 1 <= budget <= MAX_BUDGET:
        raise UserError(
            f"budget_tokens={budget!r} is not a budget: it takes 1 to {MAX_BUDGET:,} tokens", "give one such as 2000"
        )
    return budget


def within_budget(memories: Sequence[Memory], budget: int | None, texts: Sequence[str]) -> list[Memory]:
    """Return the best memories whose texts have, together, no more than `budget` `o200k_base` tokens.

    The first that does not fit is cut at a space; what comes after it is left out. `texts` are the messages of the
    history: a memory that was cut stands for those that it still holds as a whole.
    """
    if budget is None:
        return list(memories)
    kept, left = [], budget
    for memory in memories:
        tokens = num_tokens(memory.text)
        if tokens > left:
            text = _cut(memory.text, left)
            if text:
                kept.append(Memory(text, memory.date, tuple(i for i in memory.message_indices if texts[i] in text)))
            break
        kept.append(memory)
        left -= tokens
    return kept


def _cut(text: str, tokens: int) -> str:
    """Return a start of a text that ends before a space and has no more tokens than that."""
    head = first_tokens(text, tokens)
    while True:
        if not text[len(head) :][:1].isspace():
            head = head[: max(head.rfind(" "), head.rfind("\n"), 0)]
        head = head.rstrip()
        if not head or num_tokens(head) <= tokens:  # cut off, a word may have more tokens than its share of them
            return head


def control_settings(name: str, settings: Mapping[str, Any] | None, budget: int | None) -> dict[str, Any]:
    """Return the settings of a control that keeps to a budget.

    Raises:
        UserError: It cannot: what it shows is what it is for.
    """
    given = dict(settings or {})
    if budget is None or name == Nothing.name:
        return given
    if name != Recent.name or "sessions" in given:
        raise UserError(
            f"memory={name}{' by sessions' if given else ''} keeps to no budget of tokens",
            "leave the budget out, or compare with recent, which shows the last tokens",
        )
    if isinstance(tokens := given.get("tokens", budget), int) and tokens > budget:
        raise UserError(f"memory={name}: tokens={tokens} is more than the budget of {budget}", "leave tokens out")
    return {"tokens": budget, **given}
