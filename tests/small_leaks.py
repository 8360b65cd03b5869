"""A run with a leak in its questions, for the tests of refinements: right options that are longer than the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from small_runs import make_run, tiny_work

from generation.record_files import record_line, writing_lines
from generation.records import Question
from generation.run_inputs import RunInputs
from generation.store import RunStore
from personamem_builder.audit.gates import Gate, Gates, Limit

TAIL = " That much is certain, I would say, and it will not change in a hurry."

LENIENT: Gates = {"probe.*": Gate(all=Limit(not_above_chance=0.9))}
"""Limits for few questions: only a score that is shown to be above chance misses them."""


def leaky_work() -> RunInputs:
    """Return the work of some hundred questions of four users, of which no probe learns anything."""
    return tiny_work(personas=4, fillers=4, seed=2)


def make_fair_run(folder: Path) -> RunStore:
    """Make a run without a leak."""
    return make_run(leaky_work(), folder)


def questions_of(store: RunStore) -> list[Question]:
    return list(store.read("questions", Question))


def plant(store: RunStore, where: Callable[[int], bool] = lambda i: True) -> RunStore:
    """Make the right option the longest, in the questions at some places of the file."""
    questions = questions_of(store)
    with writing_lines(store.path("questions")) as write:
        for i, question in enumerate(questions):
            write(record_line(with_long_gold(question) if where(i) else question))
    return store


def with_long_gold(question: Question) -> Question:
    options = [
        option.model_copy(update={"text": option.text + TAIL}) if i == question.answer_index else option
        for i, option in enumerate(question.options)
    ]
    return question.model_copy(update={"options": tuple(options)})


def is_leaky(question: Question) -> bool:
    return question.options[question.answer_index].text.endswith(TAIL)
