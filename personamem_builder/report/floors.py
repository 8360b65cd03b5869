"""What shortcuts score on the questions of some runs, where no run of them is among the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from personamem_builder.policies import POLICIES, best_credit
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.runs import Run
from personamem_builder.results.settings import FLOOR_BACKEND
from personamem_builder.schema import QuestionRow, option_letter

_SEED: Final = 0


def compute_floors(runs: Sequence[Run], questions: Mapping[str, QuestionRow]) -> list[Run]:
    """Answer the questions of some runs of one task by each shortcut policy that is not among them.

    Options that tie share the credit. `type-length` learns from the questions asked here, of other personas.
    """
    asked = dict.fromkeys(question_id for run in runs for question_id in run.answers)
    if not asked:
        return []
    rows = [questions[question_id] for question_id in asked]
    followed = {run.model for run in runs if run.is_floor and run.answers.keys() == asked.keys()}
    made = {name: make(rows, _SEED) for name, make in POLICIES.items() if f"floor: {name}" not in followed}
    return [_run(runs[0], name, rows, [policy(row) for row in rows]) for name, policy in made.items()]


def _run(like: Run, name: str, rows: Sequence[QuestionRow], values: Sequence[Sequence[float]]) -> Run:
    return Run(
        model=f"floor: {name}",
        backend=FLOOR_BACKEND,
        model_args=(("policy", name),),
        task=like.base_task,
        data_digest=like.data_digest,
        limit=like.limit,
        date=like.date,
        path=Path(),
        answers={row["question_id"]: _answer(row, own) for row, own in zip(rows, values, strict=True)},
        subset=like.subset,
        data=like.data,
        split=like.split,
        is_computed=True,
    )


def _answer(row: QuestionRow, values: Sequence[float]) -> ScoredAnswer:
    return ScoredAnswer(
        persona_id=row["persona_id"],
        question_type=row["question_type"],
        n_options=len(row["all_options"]),
        credits={"acc": best_credit(values, row["answer_index"])},
        invalid=frozenset(),
        skipped=False,
        truncated=False,
        answer=option_letter(row["answer_index"]),
    )
