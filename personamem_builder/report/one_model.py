"""One model in several settings: full options, letters, replies, with and without the history, question by question.

Section 4.5 of the paper asks how a model does that scores options it is not shown (generative) beside one that is shown
them (discriminative). The questions are the same, so each pair of settings is compared on those that both answered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

from personamem_builder import statistics
from personamem_builder.report.analysis import primary_score
from personamem_builder.report.compare import holm
from personamem_builder.report.groups import RunGroup, memory_mark
from personamem_builder.results.runs import Run
from personamem_builder.schema import SHORT_TYPES
from personamem_builder.statistics import Estimate, McNemar

SETTINGS: Final = {"": "full options", "_letters": "letters", "_generate": "generate"}
"""How a model is asked, by the end of the task's name."""

_TASK: Final = re.compile(r"personamem_([^_]+)(_letters|_generate|)")

SCORES: Final = {
    "acc": "acc = the option with the highest sum of log-probabilities, or the letter",
    "acc_per_token": "acc_per_token = by the mean log-probability of its tokens, the paper's generative score",
    "robust": "robust = the letter that the reply settles on",
    "v1_parity": "v1_parity = by the rule of the published script, the paper's discriminative score",
}
"""What each score is, in words."""


class Setting(NamedTuple):
    """A setting of a model.

    Attributes:
        name: In words: `letters`, `generate, no context`.
        score: The score that counts in it, see `primary_score`.
        overall: Its mean over the questions answered.
        types: By question type, None where there are no questions.
    """

    name: str
    score: str
    overall: Estimate
    types: dict[str, Estimate | None]


class SettingPair(NamedTuple):
    """Two settings on the questions that both answered; `holm_p` is p corrected for the number of pairs."""

    first: str
    second: str
    difference: Estimate
    mcnemar: McNemar
    holm_p: float


class ModelSettings(NamedTuple):
    """A model in all its settings on one split of one dataset; what it was shown stands behind its name."""

    model: str
    split: str
    data_digest: str | None
    settings: Sequence[Setting]
    pairs: Sequence[SettingPair]


def settings_of_models(groups: Sequence[RunGroup]) -> list[ModelSettings]:
    """Return the models that answered the same split in at least two of the three settings, by whole or partial runs.

    Runs without the history join those that showed it whole.
    """
    found: dict[tuple[str, str, str, str], list[tuple[RunGroup, Run]]] = {}
    for group in groups:
        for run in group.runs:
            own = _TASK.match(run.task)
            if own and run.answers and not run.is_floor:
                subset = run.subset.sha256 if run.subset else ""
                name = run.model + memory_mark(run)
                found.setdefault((name, own[1], run.data_digest or "", subset), []).append((group, run))
    return [_joined(key, runs) for key, runs in found.items() if len({run.base_task for _, run in runs}) > 1]


def _joined(key: tuple[str, str, str, str], found: Sequence[tuple[RunGroup, Run]]) -> ModelSettings:
    order = list(SETTINGS)
    runs = sorted(found, key=lambda pair: (order.index(_setting(pair[1])), not pair[1].has_context))
    names = {run: _name(group, run) for group, run in runs}
    compared = []
    for first, second in combinations(names, 2):
        shared = [id_ for id_ in first.answers if id_ in second.answers]
        if shared:
            one, other = _score(first), _score(second)
            scores = [first.answers[id_].credits[one] for id_ in shared]
            baseline = [second.answers[id_].credits[other] for id_ in shared]
            personas = [first.answers[id_].persona_id for id_ in shared]
            difference = statistics.paired_difference(scores, baseline, personas)
            compared.append((names[first], names[second], difference, statistics.mcnemar(scores, baseline)))
    corrected = holm([test.p for *_, test in compared])
    pairs = [SettingPair(*pair, p) for pair, p in zip(compared, corrected, strict=True)]
    return ModelSettings(key[0], key[1], key[2] or None, [_scored(run, name) for run, name in names.items()], pairs)


def _score(run: Run) -> str:
    return primary_score(run.scores, run.task)


def setting_in_words(task: str) -> str:
    """Return how a task asks: `letters`; the name of the task where it is none of ours."""
    own = _TASK.fullmatch(task)
    return SETTINGS[own[2]] if own else task


def _setting(run: Run) -> str:
    own = _TASK.match(run.task)
    assert own is not None
    return own[2]


def _name(group: RunGroup, run: Run) -> str:
    """Return a setting in words, with what tells it from another run of the model in the same setting."""
    bare = "" if run.has_context else ", no context"
    told = group.label(run).removesuffix(memory_mark(run)).removeprefix(run.model)
    return f"{SETTINGS[_setting(run)]}{bare}{told}"


def _scored(run: Run, name: str) -> Setting:
    score, answers = _score(run), run.answers.values()
    credits, personas = [a.credits[score] for a in answers], [a.persona_id for a in answers]
    types = statistics.per_type(credits, [a.question_type for a in answers], personas)
    by_type = {kind: types.get(kind) for kind in SHORT_TYPES}
    return Setting(name, score, statistics.overall(credits, personas), by_type)
