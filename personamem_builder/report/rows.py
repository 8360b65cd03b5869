"""A row of a table: what a model, a floor or chance scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from generation.records import QUESTION_TYPES
from personamem_builder import statistics
from personamem_builder.memory.controls import Full
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.files import FLAGGED_ABOVE
from personamem_builder.results.runs import Run
from personamem_builder.statistics import Estimate
from personamem_builder.usage import UsageSummary, summarise_usage

CHANCE: Final = "chance"
"""Name of the row of blind guesses."""


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """A model's result by one score; all numbers are fractions, None where there is nothing to take them of.

    Attributes:
        model: Name of the model, of the floor, or `chance`.
        score: Name of the score; None for chance.
        is_floor: Whether no model answered: a shortcut policy did, or chance.
        is_computed: Whether the row was computed for the report, not read from results.
        memory: What was shown of conversations.
        n: Number of questions that were answered, also by a refusal; all but `failed_rate` is taken over these.
        macro: Mean over question types of the mean credit of each.
        types: Mean credit of each of the seven types.
        chance_corrected: `(a − c) / (1 − c)` with c what a blind guess scores.
        context_gain: `(a − a0) / (1 − a0)` against the run without context.
        paired_difference: `a − a0` against the same run.
        oracle_gap: `a1 − a` against the run that shows the evidence alone.
        hard: Mean credit on the hard questions, see `HardQuestions`.
        effective_n: How many independent questions would tell as much.
        failed_rate: Share of the questions asked to which no answer came; they count nowhere else.
        invalid_rate: Share of answers that are whole and no refusal, from which no option could be read.
        skipped_rate: Share of questions that were too long to ask; they count as wrong.
        truncated_rate: Share of questions whose context was cut.
        usage: What the answers took; None where that is not known.
    """

    model: str
    score: str | None = None
    is_floor: bool = False
    has_context: bool = True
    is_computed: bool = False
    memory: str = Full.name
    n: int = 0
    overall: Estimate | None = None
    macro: Estimate | None = None
    types: Mapping[str, Estimate | None] = field(default_factory=lambda: dict.fromkeys(QUESTION_TYPES))
    chance_corrected: Estimate | None = None
    context_gain: Estimate | None = None
    paired_difference: Estimate | None = None
    oracle_gap: Estimate | None = None
    hard: Estimate | None = None
    effective_n: float | None = None
    failed_rate: float = 0.0
    cut_rate: float = 0.0
    refused_rate: float = 0.0
    invalid_rate: float = 0.0
    skipped_rate: float = 0.0
    truncated_rate: float = 0.0
    usage: UsageSummary | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The shares of questions and answers that say nothing of the model, by what came of them."""
        return {name: getattr(self, f"{name}_rate") for name in ("failed", "cut", "refused", "invalid")}

    @property
    def flags(self) -> list[str]:
        """Which of the shares are too large to pass over."""
        return [name for name, share in self.shares.items() if share > FLAGGED_ABOVE]

    @property
    def label(self) -> str:
        """The model's name, marked where it saw no context, and where a floor is not from the results."""
        mark = "" if self.has_context else " (no context)"
        return f"{self.model}{mark}{' (computed here)' if self.is_computed and self.score else ''}"


class HardQuestions(NamedTuple):
    """The questions of a task that no shortcut answers.

    Attributes:
        file: The file that names them.
        ids: Of the questions.
        runs: Runs on these questions alone; a model without one is judged by its answers to all.
    """

    file: str
    ids: frozenset[str]
    runs: Sequence[Run] = ()


class PairedCredits(NamedTuple):
    """The questions that two runs both answered: the credits of either, and what they are clustered and grouped by."""

    scores: list[float]
    baseline: list[float]
    personas: list[int]
    types: list[str]


def pair_credits(run: Run, other: Run, score: str) -> PairedCredits:
    """Pair two runs that both have a score, question by question."""
    shared = [question for question in run.answers if question in other.answers]
    return PairedCredits(
        [run.answers[question].credits[score] for question in shared],
        [other.answers[question].credits[score] for question in shared],
        [run.answers[question].persona_id for question in shared],
        [run.answers[question].question_type for question in shared],
    )


def score_row(
    run: Run,
    label: str,
    score: str | None,
    bare: Run | None = None,
    oracle: Run | None = None,
    hard: HardQuestions | None = None,
) -> ScoreRow:
    """Return what a run scores; `score` is None where it answered no question.

    The context gain is taken against `bare`, the run without context, and the gap to `oracle`.
    """
    answers = list(run.answers.values())
    row = ScoreRow(
        model=label,
        is_floor=run.is_floor,
        is_computed=run.is_computed,
        has_context=run.has_context,
        memory=run.shown.memory,
        failed_rate=len(run.failed) / len(run.asked),
    )
    if score is None:
        return row

    def share(hits: Iterable[bool]) -> float:
        return sum(hits) / len(answers)

    credits = [answer.credits[score] for answer in answers]
    types, personas = _types(answers), _personas(answers)
    gain = difference = gap = None
    if bare and score in bare.scores and (pair := pair_credits(run, bare, score)).scores:
        gain, difference = statistics.context_gain(*pair[:3]), statistics.paired_difference(*pair[:3])
    if oracle and score in oracle.scores and (pair := pair_credits(run, oracle, score)).scores:
        gap = statistics.paired_difference(pair.baseline, pair.scores, pair.personas)
    overall = statistics.overall(credits, personas)
    chance = sum(1 / answer.n_options for answer in answers) / len(answers)
    return replace(
        row,
        score=score,
        n=len(answers),
        overall=overall,
        macro=statistics.macro(credits, types, personas),
        types=_all_types(statistics.per_type(credits, types, personas)),
        context_gain=gain,
        paired_difference=difference,
        invalid_rate=share(score in answer.invalid and answer.outcome == "answered" for answer in answers),
        skipped_rate=share(answer.skipped for answer in answers),
        truncated_rate=share(answer.truncated for answer in answers),
        chance_corrected=statistics.chance_corrected(overall, chance),
        effective_n=statistics.effective_sample_size(credits, personas),
        hard=_hard_score(run, score, hard),
        oracle_gap=gap,
        cut_rate=share(answer.outcome == "cut" for answer in answers),
        refused_rate=share(answer.outcome == "refused" for answer in answers),
        usage=summarise_usage(answer.usage for answer in answers),
    )


def _hard_score(run: Run, score: str, hard: HardQuestions | None) -> Estimate | None:
    if hard is None:
        return None
    kind = (run.model_key, run.shown.key)
    own = next((other for other in hard.runs if (other.model_key, other.shown.key) == kind), run)
    answers = [answer for question_id, answer in own.answers.items() if question_id in hard.ids]
    if not answers or not hard.ids <= own.asked or score not in own.scores:
        return None
    return statistics.overall([answer.credits[score] for answer in answers], _personas(answers))


def chance_row(answers: Sequence[ScoredAnswer]) -> ScoreRow:
    """Return what a blind guess scores: known, not estimated, so it has no intervals."""
    if not answers:
        return ScoreRow(model=CHANCE, is_floor=True, is_computed=True)
    credits = [1 / answer.n_options for answer in answers]
    types, personas = _types(answers), _personas(answers)
    by_type = statistics.per_type(credits, types, personas)
    return ScoreRow(
        model=CHANCE,
        is_floor=True,
        is_computed=True,
        n=len(answers),
        overall=_exact(statistics.overall(credits, personas)),
        macro=_exact(statistics.macro(credits, types, personas)),
        types=_all_types({name: _exact(estimate) for name, estimate in by_type.items()}),
    )


def _types(answers: Sequence[ScoredAnswer]) -> list[str]:
    return [answer.question_type for answer in answers]


def _personas(answers: Sequence[ScoredAnswer]) -> list[int]:
    return [answer.persona_id for answer in answers]


def _all_types(by_type: Mapping[str, Estimate]) -> dict[str, Estimate | None]:
    return {name: by_type.get(name) for name in QUESTION_TYPES}


def _exact(estimate: Estimate) -> Estimate:
    return estimate._replace(low=None, high=None)
