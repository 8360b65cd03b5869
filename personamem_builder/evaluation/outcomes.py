"""What came of a question, by what a model of lm-eval returned for it."""

from __future__ import annotations

from typing import Any

from personamem_builder.evaluation.reply import Outcome, Reply


def outcome_of(response: Any) -> Outcome:
    """Return what came of a question; lm-eval's own backends tell of nothing but answers."""
    return response.outcome if isinstance(response, Reply) else "answered"


def finish_reason_of(response: Any) -> str:
    """Return the reason that an endpoint gave for the end of its reply; empty where there is none."""
    return response.finish_reason if isinstance(response, Reply) else ""
