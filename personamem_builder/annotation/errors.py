"""Wrong answers of a model, drawn for people or a judge to label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from generation.errors import UserError
from personamem_builder.annotation.sample import draw_sample
from personamem_builder.report.analysis import primary_score
from personamem_builder.report.groups import all_names, memory_mark
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.error_labels import FORMAT, LONGEST_CELL, RULE
from personamem_builder.results.responses import read_responses
from personamem_builder.results.runs import Run
from personamem_builder.schema import AnswerOutcome, QuestionRow, option_index, option_letters

_NOTES: Final[Mapping[AnswerOutcome, str]] = {"cut": "the reply was cut", "refused": "the model declined"}


class WrongAnswer(NamedTuple):
    """A question that a model answered wrong.

    Attributes:
        letter: Of the option that it chose; None where there is none, or the results do not tell.
        has_no_letter: Whether no letter could be read from what it wrote.
        reply: What it wrote, the end of it where that is longer than a cell; empty where it only scored options.
        outcome: How the answer came about.
    """

    row: QuestionRow
    letter: str | None
    has_no_letter: bool
    reply: str
    outcome: AnswerOutcome

    @property
    def right_option(self) -> str:
        """The right option, with its letter."""
        return self.row["all_options"][self.row["answer_index"]]

    @property
    def chosen_option(self) -> str:
        """The option that was chosen, with its letter; empty without one."""
        return "" if self.letter is None else self.row["all_options"][option_index(self.letter)]


class Label(NamedTuple):
    """A category, who gave it, and why."""

    category: str = ""
    rater: str = ""
    note: str = ""


def run_name(run: Run) -> str:
    """Return what a model is called: its name, with the memory that it was shown."""
    return run.model + memory_mark(run)


def choose_run(runs: Sequence[Run], model: str | None = None, task: str | None = None) -> Run:
    """Return the run of a model on a task; floors count only where they are named.

    Raises:
        UserError: There is none, or there are several; names them.
    """
    known = [run for run in runs if run.answers and (model is not None or not run.is_floor)]
    chosen = [run for run in known if model in (None, *all_names(run)) and task in (None, run.task)]
    asked = " ".join(f"{name} {value}" for name, value in (("--model", model), ("--task", task)) if value)
    if not chosen:
        there = _listed(known or runs)
        hint = f"there are {there}" if there else "evaluate a model on this split: personamem eval"
        raise UserError(f"{asked or '--errors'}: no such run of a model", hint)
    if len(chosen) > 1:
        alike = len({(run_name(run), run.task) for run in chosen}) == 1
        more = [str(run.path) for run in chosen]
        raise UserError(
            f"{asked + ': ' if asked else ''}there are several runs: {'; '.join(more) if alike else _listed(chosen)}",
            "give --errors one of these files" if alike else "choose one with --model NAME and --task TASK",
        )
    return chosen[0]


def _listed(runs: Iterable[Run]) -> str:
    return "; ".join(f"--model {run_name(run)!r} --task {run.task}" for run in runs)


def wrong_answers(run: Run, questions: Mapping[str, QuestionRow]) -> list[WrongAnswer]:
    """Return the answers of a run that have no credit by its first score; questions that were not asked are none.

    Raises:
        UserError: There is none.
    """
    score = primary_score(run.scores, run.task)
    written = dict(read_responses(run))
    found = [
        _wrong_answer(questions[id_], answer, score, written.get(id_, ""))
        for id_, answer in run.answers.items()
        if not answer.skipped and answer.credits[score] == 0
    ]
    if not found:
        raise UserError(
            f"{run.path}: {run_name(run)} answered nothing wrong on {run.task}", "there is nothing to label"
        )
    return found


def _wrong_answer(row: QuestionRow, answer: ScoredAnswer, score: str, reply: str) -> WrongAnswer:
    letter = answer.predictions.get(score)
    is_one = letter in option_letters(answer.n_options)
    # Of several letters none is chosen; that the file tells nothing of the choice is another matter.
    has_none = score in answer.invalid or (letter is not None and not is_one)
    if len(reply) > LONGEST_CELL:
        reply = f"…{reply[1 - LONGEST_CELL :]}"
    return WrongAnswer(row, letter if is_one else None, has_none, reply, answer.outcome)


def draw_errors(
    errors: Sequence[WrongAnswer],
    size: int,
    *,
    per_topic: int | None = None,
    per_type: int | None = None,
    seed: int = 0,
) -> list[WrongAnswer]:
    """Draw wrong answers evenly over question types, then topics, see `sample.draw_sample`."""
    by_id = {error.row["question_id"]: error for error in errors}
    rows = draw_sample((error.row for error in errors), size, per_topic=per_topic, per_type=per_type, seed=seed)
    return [by_id[row["question_id"]] for row in rows]


def label_of_rule(error: WrongAnswer) -> Label:
    """Return the label that needs no rater: where there was no letter."""
    note = _NOTES.get(error.outcome, "")
    return Label(FORMAT, RULE, note) if error.has_no_letter else Label(note=note)


def label_rows(
    run: Run, errors: Iterable[WrongAnswer], labels: Mapping[str, Label] | None = None
) -> list[dict[str, str]]:
    """Return the rows of a file of labels; `labels` has those given so far, by question id."""
    return [
        _label_row(run, error, (labels or {}).get(error.row["question_id"], label_of_rule(error))) for error in errors
    ]


def _label_row(run: Run, error: WrongAnswer, label: Label) -> dict[str, str]:
    row = error.row
    return {
        "question_id": row["question_id"],
        "persona_id": str(row["persona_id"]),
        "question_type": row["question_type"],
        "topic": row["topic"],
        "message": row["user_question_or_message"],
        "right_option": error.right_option,
        "chosen_option": error.reply if error.has_no_letter else error.chosen_option,
        "reply": error.reply,
        **label._asdict(),
        "model": run_name(run),
        "task": run.task,
    }
