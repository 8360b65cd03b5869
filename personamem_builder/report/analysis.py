"""What the answers of models depend on: type, distance and place of the evidence, updates, topic, stereotypes, letters.

Everything here is a pure function of answers and question rows. An analysis sorts the questions into bins that are the
same for all models, and gives for each model and bin a mean with its 95 % interval, clustered by persona. One that the
data cannot support is left out with a reason.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from generation.records import QUESTION_TYPES
from personamem_builder import statistics
from personamem_builder.report.answers import Answer
from personamem_builder.report.questions import Row
from personamem_builder.schema import SHORT_TYPES, option_letter
from personamem_builder.statistics import Estimate

FEW: Final = 10
"""A bin of fewer questions is shown, and marked: its mean says little."""

_SESSIONS: Final[Mapping[str, tuple[int, ...]]] = {
    "32k": (0, 2, 3, 4, 5, 6),
    "128k": (0, 3, 7, 11, 15, 19),
    "1M": (0, 8, 14, 20, 26, 32, 38, 44, 50, 56),
}
"""First number of sessions of each bin; those of 128k and 1M are the paper's."""

_TOKENS: Final[Mapping[str, int]] = {"32k": 4_000, "128k": 16_000, "1M": 125_000}
"""Width of a bin of tokens: an eighth of the split."""

_FALLBACK: Final = "128k"
_PARTS: Final = 5
_MOST_UPDATES: Final = 3
_MOST_TOPICS: Final = 20
_CONFIDENCE_BINS: Final = 10
_TYPE_OF_ORDER: Final = "track_full_preference_evolution"

RIGHT: Final = "right"
_ASSERTED: Final[Mapping[str, str]] = {
    "outdated": "outdated",
    "never": "never held",
    "other": "other occasion",
    "mentioned": "told before",
    "current": "current",
    "new": "new",
}
"""What the roles of wrong options are called: `other` is what holds of another event, `mentioned` an idea that is not
new."""
_STATES: Final = (
    RIGHT,
    "outdated",
    "never held",
    "other order",
    "other occasion",
    "told before",
    "stereotype",
    "current",
    "new",
    "no option",
    "skipped",
)
_NO_OPTION: Final = "no option"
_SKIPPED: Final = "skipped"


class Entry(NamedTuple):
    """Answers that an analysis shows as one model.

    Attributes:
        label: What it is called.
        answers: The answers by question id.
        score: The score that is looked at.
        is_floor: Whether a shortcut policy answered.
    """

    label: str
    answers: Mapping[str, Answer]
    score: str
    is_floor: bool = False


@dataclass(frozen=True)
class Analysis:
    """Some means by bin.

    Attributes:
        name: Short name: of files, and in JSON.
        title: What is shown, in words.
        unit: What the means are of.
        bins: Names of the bins, the same for all models.
        series: By model, a mean for each bin; None where there is nothing to take it of.
        expected: What a blind guess gives in each bin, or what else `expects` says; None where there is nothing.
        expects: What the expected values are.
        shape: `line` for bins that have an order, `rows` for others.
        note: How bins are made and means are taken.
        remarks: What else was found, model by model.
    """

    name: str
    title: str
    unit: str
    bins: tuple[str, ...]
    series: Mapping[str, tuple[Estimate | None, ...]]
    expected: tuple[float | None, ...]
    expects: str = "a blind guess"
    shape: Literal["line", "rows"] = "rows"
    note: str = ""
    remarks: tuple[str, ...] = ()


class LeftOut(NamedTuple):
    """An analysis that cannot be made.

    Attributes:
        name: Its short name.
        title: What it would show.
        reason: What is lacking.
    """

    name: str
    title: str
    reason: str


Result = Analysis | LeftOut

_TITLES: Final[Mapping[str, str]] = {
    "types": "Accuracy by question type",
    "sessions": "Accuracy by sessions since the evidence",
    "tokens": "Accuracy by tokens since the evidence",
    "position": "Accuracy by place of the evidence in the context",
    "updates": "Accuracy by number of updates",
    "topics": "Accuracy by topic",
    "stereotypes": "How often wrong answers follow a stereotype",
    "states": "What the chosen options assert",
    "calibration": "Confidence and accuracy",
    "letters": "Letters chosen, and letters that are right",
}
_ACCURACY: Final = "accuracy"
_DATASET_NEEDED: Final = ("sessions", "tokens", "position", "updates", "topics", "stereotypes", "states")


def analyse(
    entries: Sequence[Entry],
    questions: Mapping[str, Row] | None,
    *,
    split: str | None = None,
    lacking: str = "",
    shows_options: bool = True,
) -> list[Result]:
    """Make all analyses of some models on the same questions.

    Args:
        entries: The models, and floors to show beside them.
        questions: The questions by id; None where the dataset is not at hand.
        split: Their split, which decides the bins of distances.
        lacking: Why there is no dataset.
        shows_options: Whether the models were shown the options with their letters.

    Returns:
        The analyses, and those left out, in the order of a report.
    """
    if questions is None:
        reasons = dict.fromkeys(_DATASET_NEEDED, lacking or "the dataset is not at hand")
        by_question: list[Result] = [LeftOut(name, _TITLES[name], reason) for name, reason in reasons.items()]
    else:
        asked = {id_: questions[id_] for id_ in dict.fromkeys(id_ for entry in entries for id_ in entry.answers)}
        by_question = [
            sessions_since(entries, asked, split),
            tokens_since(entries, asked, split),
            position(entries, asked),
            updates(entries, asked),
            topics(entries, asked),
            stereotypes(entries, asked),
            states(entries, asked),
        ]
    return [types(entries), *by_question, calibration(entries), letters(entries, shows_options=shows_options)]


def primary_score(scores: Sequence[str]) -> str:
    """Return the score that analyses look at: `acc` or `robust` where there is one of them."""
    return next((score for score in ("acc", "robust") if score in scores), scores[0])


# ---- accuracy


def types(entries: Sequence[Entry]) -> Analysis:
    """Return accuracy by question type."""
    bins = {id_: SHORT_TYPES[answer.question_type] for entry in entries for id_, answer in entry.answers.items()}
    return _accuracy("types", entries, bins, tuple(SHORT_TYPES.values()))


def sessions_since(entries: Sequence[Entry], questions: Mapping[str, Row], split: str | None = None) -> Result:
    """Return accuracy by the number of sessions between the evidence and the question."""
    starts = _SESSIONS.get(split or "", _SESSIONS[_FALLBACK])
    ends = [str(end - 1) for end in starts[1:]]
    names = [str(a) if str(a) == end else f"{a}–{end}" for a, end in zip(starts, ends, strict=False)]
    labels = (*names, f"{starts[-1]}+")
    return _by_column(
        "sessions",
        entries,
        questions,
        "distance_to_ref_in_blocks",
        lambda count: labels[max(0, bisect_right(starts, count) - 1)],
        labels,
        note="Sessions from the evidence to the question.",
    )


def tokens_since(entries: Sequence[Entry], questions: Mapping[str, Row], split: str | None = None) -> Result:
    """Return accuracy by the number of tokens between the evidence and the question."""
    width, last = _TOKENS.get(split or "", _TOKENS[_FALLBACK]), 7
    labels = (*(f"{i * width // 1000}–{(i + 1) * width // 1000}k" for i in range(last)), f"{last * width // 1000}k+")
    return _by_column(
        "tokens",
        entries,
        questions,
        "distance_to_ref_in_tokens",
        lambda count: labels[min(last, max(0, int(count)) // width)],
        labels,
        note="Tokens (o200k_base) from the evidence to the question.",
    )


def position(entries: Sequence[Entry], questions: Mapping[str, Row]) -> Result:
    """Return accuracy by where the evidence stands in the context: 0 % is its beginning."""
    labels = tuple(f"{100 * i // _PARTS}–{100 * (i + 1) // _PARTS} %" for i in range(_PARTS))
    return _by_column(
        "position",
        entries,
        questions,
        "distance_to_ref_proportion_in_context",
        lambda distance: labels[min(_PARTS - 1, max(0, math.floor((1 - distance) * _PARTS)))],
        labels,
        note="0 % is the beginning of the context, 100 % the question.",
    )


def updates(entries: Sequence[Entry], questions: Mapping[str, Row]) -> Result:
    """Return accuracy by how many updates of a preference the evidence of a question spans."""
    labels = (*(str(count) for count in range(_MOST_UPDATES)), f"{_MOST_UPDATES}+")
    return _by_column(
        "updates",
        entries,
        questions,
        "updates_spanned",
        lambda count: labels[min(_MOST_UPDATES, count)],
        labels,
        note="Updates among the evidence of a question; types of questions differ in how many they have.",
    )


def topics(entries: Sequence[Entry], questions: Mapping[str, Row]) -> Result:
    """Return accuracy by topic; where there are many, those with fewest questions are taken together."""
    counts = Counter(row["topic"] for row in questions.values())
    most = sorted(counts, key=lambda topic: (-counts[topic], topic))
    kept, rest = (most, []) if len(most) <= _MOST_TOPICS else (most[: _MOST_TOPICS - 1], most[_MOST_TOPICS - 1 :])
    others = f"{len(rest)} other topics"
    names = {topic: topic for topic in kept} | dict.fromkeys(rest, others)
    labels = (*sorted(kept), *([others] if rest else []))
    return _by_column("topics", entries, questions, "topic", names.__getitem__, labels, shape="rows")


def _by_column(
    name: str,
    entries: Sequence[Entry],
    questions: Mapping[str, Row],
    column: str,
    bin_of: Callable[..., str],
    labels: tuple[str, ...],
    *,
    shape: Literal["line", "rows"] = "line",
    note: str = "",
) -> Result:
    known = {id_: bin_of(row[column]) for id_, row in questions.items() if row.get(column) is not None}
    if not known:
        return LeftOut(name, _TITLES[name], f"the data have no column `{column}`")
    if len(known) < len(questions):
        note = f"{note} Of {len(questions) - len(known)} questions it is not known.".strip()
    return _accuracy(name, entries, known, labels, shape, note)


def _accuracy(
    name: str,
    entries: Sequence[Entry],
    bins: Mapping[str, str],
    labels: tuple[str, ...],
    shape: Literal["line", "rows"] = "rows",
    note: str = "",
) -> Analysis:
    asked = {id_: answer for entry in entries for id_, answer in entry.answers.items()}
    chances: dict[str, list[float]] = defaultdict(list)
    for id_, answer in asked.items():
        if id_ in bins:
            chances[bins[id_]].append(1 / answer.n_options)
    kept = tuple(label for label in labels if chances.get(label))
    series = {
        entry.label: _means(
            ((bins[id_], a.credits[entry.score], a.persona_id) for id_, a in entry.answers.items() if id_ in bins), kept
        )
        for entry in entries
    }
    expected = tuple(sum(chances[label]) / len(chances[label]) for label in kept)
    return Analysis(name, _TITLES[name], _ACCURACY, kept, series, expected, shape=shape, note=note)


def _means(values: Iterator[tuple[str, float, int]], labels: Sequence[str]) -> tuple[Estimate | None, ...]:
    """Return the mean of each bin, of values given as (bin, value, persona)."""
    groups: dict[str, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
    for label, value, persona in values:
        groups[label][0].append(value)
        groups[label][1].append(persona)
    return tuple(statistics.overall(*groups[label]) if label in groups else None for label in labels)


# ---- what was chosen


def chosen_index(entry: Entry, answer: Answer) -> int | None:
    """Return the index of the option that was chosen, None where there is no single one."""
    letter = answer.predictions.get(entry.score)
    known = [option_letter(i) for i in range(answer.n_options)]
    return known.index(letter) if letter in known and not answer.skipped else None


def asserted(row: Row, index: int) -> str:
    """Return what an option asserts, beside the truth: `right`, `outdated`, `never held`, `other order`, ….

    A wrong option that follows a stereotype is called so whatever else it is. Where a type asks for an order,
    a wrong option that names the true states in another order is `other order`.
    """
    if index == row["answer_index"]:
        return RIGHT
    marked = row.get("option_stereotypical")
    if marked and marked[index]:
        return "stereotype"
    named = row.get("option_states")
    if row["question_type"] == _TYPE_OF_ORDER and named and sorted(named[index]) == sorted(named[row["answer_index"]]):
        return "other order"
    role = row["option_roles"][index]
    return _ASSERTED.get(role, role)


def states(entries: Sequence[Entry], questions: Mapping[str, Row]) -> Result:
    """Return the share of answers by what the chosen option asserts, for each question type: what errors are made of.

    The shares of a type sum to one. Expected is the share of options that assert it.
    """
    if not any(row.get("option_roles") for row in questions.values()):
        return LeftOut("states", _TITLES["states"], "the data do not say what each option asserts")
    of_option = {
        id_: [asserted(row, i) for i in range(len(row["all_options"]))]
        for id_, row in questions.items()
        if row.get("option_roles")
    }
    counts: dict[str, int] = defaultdict(int)
    offered: dict[tuple[str, str], float] = defaultdict(float)
    for id_, own in of_option.items():
        kind = questions[id_]["question_type"]
        counts[kind] += 1
        for state in own:
            offered[kind, state] += 1 / len(own)
    entries = [entry for entry in entries if not entry.is_floor and _tells_choice(entry)]
    chosen = {entry.label: list(_chosen_states(entry, of_option)) for entry in entries}
    seen = {(kind, state) for values in chosen.values() for kind, state, _ in values} | offered.keys()
    rank = {state: i for i, state in enumerate(_STATES)}
    order = sorted(seen, key=lambda pair: (QUESTION_TYPES.index(pair[0]), rank.get(pair[1], len(rank)), pair[1]))
    return Analysis(
        "states",
        _TITLES["states"],
        "share of the answers to the type",
        tuple(f"{SHORT_TYPES[kind]}: {state}" for kind, state in order),
        {label: _shares(values, order) for label, values in chosen.items()},
        tuple(offered[pair] / counts[pair[0]] if pair in offered else None for pair in order),
        note="The shares of a type sum to 100 %. “right” is the right option; the others are kinds of wrong ones.",
    )


def _tells_choice(entry: Entry) -> bool:
    return any(entry.score in answer.predictions for answer in entry.answers.values())


def _chosen_states(entry: Entry, of_option: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, int]]:
    for id_, answer in entry.answers.items():
        if id_ in of_option:
            index = chosen_index(entry, answer)
            none = _SKIPPED if answer.skipped else _NO_OPTION
            yield answer.question_type, none if index is None else of_option[id_][index], answer.persona_id


def _shares(values: Sequence[tuple[str, str, int]], order: Sequence[tuple[str, str]]) -> tuple[Estimate | None, ...]:
    by_type: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for kind, state, persona in values:
        by_type[kind].append((state, persona))
    return tuple(
        statistics.overall([float(own == state) for own, _ in by_type[kind]], [persona for _, persona in by_type[kind]])
        if by_type[kind]
        else None
        for kind, state in order
    )


def stereotypes(entries: Sequence[Entry], questions: Mapping[str, Row]) -> Result:
    """Return how stereotypes draw answers.

    Where the data mark options: of the wrong answers to questions with a marked wrong option, the share that chose it,
    against the share that it has of the wrong options. Where they mark questions, as some official files do: accuracy.
    """
    marked = {
        id_: [i for i, mark in enumerate(row["option_stereotypical"]) if mark and i != row["answer_index"]]
        for id_, row in questions.items()
        if row.get("option_stereotypical")
    }
    marked = {id_: own for id_, own in marked.items() if own}
    if not marked:
        if any(row.get("stereotypical") for row in questions.values()):
            return _by_column(
                "stereotypes",
                entries,
                questions,
                "stereotypical",
                str,
                tuple(sorted({str(row["stereotypical"]) for row in questions.values() if row.get("stereotypical")})),
                shape="rows",
                note="Accuracy by whether the preference asked about is marked as a stereotype of the user's group.",
            )
        return LeftOut("stereotypes", _TITLES["stereotypes"], "the data mark no option or question as stereotypical")
    entries = [entry for entry in entries if not entry.is_floor and _tells_choice(entry)]
    chance = {id_: len(own) / (len(questions[id_]["all_options"]) - 1) for id_, own in marked.items()}
    label = "wrong answers"
    series, remarks = {}, []
    for entry in entries:
        wrong = [
            (id_, index, answer.persona_id)
            for id_, answer in entry.answers.items()
            if id_ in marked
            and (index := chosen_index(entry, answer)) is not None
            and index != questions[id_]["answer_index"]
        ]
        followed = [float(index in marked[id_]) for id_, index, _ in wrong]
        personas = [persona for _, _, persona in wrong]
        series[entry.label] = (statistics.overall(followed, personas) if wrong else None,)
        if wrong:
            gap = statistics.paired_difference(followed, [chance[id_] for id_, _, _ in wrong], personas)
            remarks.append(f"{entry.label}: {_points(gap)} against chance; {_verdict(gap)}.")
    return Analysis(
        "stereotypes",
        _TITLES["stereotypes"],
        "share of wrong answers that chose the stereotype",
        (label,),
        series,
        (sum(chance.values()) / len(chance),),
        expects="its share of the wrong options",
        note=f"Of the {len(marked)} questions with a wrong option that follows a stereotype, those answered wrong.",
        remarks=tuple(remarks),
    )


def _points(gap: Estimate) -> str:
    ends = f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]" if gap.low is not None and gap.high is not None else ""
    return f"{100 * gap.value:+.1f} points{ends}"


def _verdict(gap: Estimate) -> str:
    if gap.low is None or gap.high is None:
        return "one persona, so no interval"
    if gap.n < FEW:
        return "too few to tell"
    if gap.low > 0:
        return "the stereotype draws answers"
    return "the stereotype is avoided" if gap.high < 0 else "no effect is shown"


# ---- confidence


def softmax(values: Sequence[float]) -> list[float]:
    """Return the probabilities that are proportional to the exponentials of some values."""
    most = max(values)
    weights = [math.exp(value - most) for value in values]
    return [weight / math.fsum(weights) for weight in weights]


def calibration(entries: Sequence[Entry]) -> Result:
    """Return accuracy by confidence, for models whose options have log-probabilities.

    The confidence is the greatest softmax over the scores of the options: their log-probabilities, and their means per
    token for `acc_per_token`. Remarks give the expected calibration error.
    """
    labels = tuple(
        f"{100 * i // _CONFIDENCE_BINS}–{100 * (i + 1) // _CONFIDENCE_BINS} %" for i in range(_CONFIDENCE_BINS)
    )
    series, remarks = {}, []
    for entry in entries:
        for score in ("acc", "acc_per_token"):
            sure = [] if entry.is_floor else list(_confidences(entry.answers.values(), score))
            if not sure:
                continue
            confidences, credits, personas = (list(column) for column in zip(*sure, strict=True))
            name = f"{entry.label} · {score}"
            series[name] = _means(
                ((labels[_confidence_bin(c)], credit, p) for c, credit, p in sure),
                labels,
            )
            error = calibration_error(confidences, credits, personas)
            mean = math.fsum(confidences) / len(confidences)
            ends = (
                "" if error.low is None or error.high is None else f" [{100 * error.low:.1f}, {100 * error.high:.1f}]"
            )
            remarks.append(
                f"{name}: expected calibration error {100 * error.value:.1f}{ends} points; "
                f"mean confidence {100 * mean:.1f} %, accuracy {100 * math.fsum(credits) / len(credits):.1f} %."
            )
    if not series:
        return LeftOut("calibration", _TITLES["calibration"], "no model gave log-probabilities of the options")
    return Analysis(
        "calibration",
        _TITLES["calibration"],
        _ACCURACY,
        labels,
        series,
        tuple((i + 0.5) / _CONFIDENCE_BINS for i in range(_CONFIDENCE_BINS)),
        expects="as right as sure: the middle of the bin",
        shape="line",
        note="Confidence is the greatest softmax over the scores of the options; ten bins of equal width. The expected "
        "calibration error is the mean over questions of the gap of their bin; its interval takes as given on which "
        "side of the diagonal each bin is, and with few questions it is too high.",
        remarks=tuple(remarks),
    )


def _confidences(answers: Iterable[Answer], score: str) -> Iterator[tuple[float, float, int]]:
    for answer in answers:
        values = _option_scores(answer, score)
        if values is not None and score in answer.credits:
            yield max(softmax(values)), answer.credits[score], answer.persona_id


def _option_scores(answer: Answer, score: str) -> list[float] | None:
    logprobs, tokens = answer.option_logprobs, answer.option_tokens
    if logprobs is None or not all(map(math.isfinite, logprobs)):
        return None
    if score == "acc":
        return list(logprobs)
    return None if tokens is None else [a / b for a, b in zip(logprobs, tokens, strict=True)]


def _confidence_bin(confidence: float) -> int:
    return min(_CONFIDENCE_BINS - 1, int(confidence * _CONFIDENCE_BINS))


def calibration_error(confidences: Sequence[float], credits: Sequence[float], personas: Sequence[int]) -> Estimate:
    """Estimate the expected calibration error: the mean over questions of |accuracy − mean confidence| of their bin.

    With s_b the sign of the gap of bin b it is the mean of s_b · (credit − confidence), so that its interval is that
    of a mean, clustered by persona. The signs are taken as given: where a bin's gap is near 0 the error is too high,
    as it counts luck on either side.

    Args:
        confidences: How sure the model was of each answer, 0 to 1.
        credits: The credit of each answer.
        personas: The persona of each question.

    Returns:
        The error, its interval clipped to [0, 1].
    """
    gaps = np.zeros(_CONFIDENCE_BINS)
    bins = [_confidence_bin(confidence) for confidence in confidences]
    np.add.at(gaps, bins, np.asarray(credits) - np.asarray(confidences))
    signs = np.where(gaps < 0, -1.0, 1.0)[bins]
    error = statistics.paired_difference(
        list(signs * np.asarray(credits)), list(signs * np.asarray(confidences)), personas
    )
    return error._replace(
        low=None if error.low is None else max(0.0, error.low),
        high=None if error.high is None else max(0.0, error.high),
    )


# ---- letters


class Homogeneity(NamedTuple):
    """A test whether letters are chosen as often as they are right.

    Attributes:
        statistic: Of Stuart and Maxwell, chi-square distributed.
        degrees: Its degrees of freedom.
        p: How likely one at least as great is, where they are.
    """

    statistic: float
    degrees: int
    p: float


def marginal_homogeneity(right: Sequence[int], chosen: Sequence[int], count: int) -> Homogeneity:
    """Test whether options are chosen as often as they are right, position by position (Stuart 1955, Maxwell 1970).

    It compares the two margins of the table of right against chosen positions, so that a model that is often right is
    not taken for one with a bias. It takes questions as independent. With two positions it is McNemar's test.

    Args:
        right: Index of the right option of each question.
        chosen: Index of the option chosen.
        count: Number of positions.

    Returns:
        The test; p is 1 where nothing is chosen wrong.
    """
    table = np.zeros((count, count))
    np.add.at(table, (list(right), list(chosen)), 1)
    gaps = table.sum(axis=0) - table.sum(axis=1)
    spread = np.diag(table.sum(axis=0) + table.sum(axis=1)) - table - table.T
    degrees = int(np.linalg.matrix_rank(spread))
    if degrees == 0:
        return Homogeneity(0.0, 0, 1.0)
    # Without scipy there are no intervals either, and `statistics` has said so.
    from scipy.special import chdtrc

    statistic = float(gaps @ np.linalg.pinv(spread, hermitian=True) @ gaps)
    return Homogeneity(statistic, degrees, float(chdtrc(degrees, statistic)))


def letters(entries: Sequence[Entry], *, shows_options: bool = True) -> Result:
    """Return the share of answers by the letter chosen, against the share of questions where it is right."""
    if not shows_options:
        reason = "the options were not shown, so that no letter could draw answers"
        return LeftOut("letters", _TITLES["letters"], reason)
    chosen = {entry.label: list(_letter_pairs(entry)) for entry in entries if not entry.is_floor}
    chosen = {label: pairs for label, pairs in chosen.items() if pairs}
    if not chosen:
        return LeftOut("letters", _TITLES["letters"], "the results do not say which letters were chosen, or are right")
    count = 1 + max(max(right, index) for pairs in chosen.values() for right, index, _ in pairs)
    answers = {id_: a for e in entries if e.label in chosen for id_, a in e.answers.items() if a.answer is not None}
    labels = tuple(f"({option_letter(i)})" for i in range(count))
    remarks = []
    for label, pairs in chosen.items():
        test = marginal_homogeneity([right for right, _, _ in pairs], [index for _, index, _ in pairs], count)
        sides = f"chi-square {test.statistic:.1f}, {test.degrees} df, p = {test.p:.2g}, questions taken as independent"
        verdict = "some letters are preferred" if test.p < 0.05 else "no preference for a letter is shown"
        remarks.append(f"{label}: {verdict} (Stuart-Maxwell {sides}).")
    return Analysis(
        "letters",
        _TITLES["letters"],
        "share of the answers with a letter",
        labels,
        {
            label: tuple(
                statistics.overall([float(index == i) for _, index, _ in pairs], [persona for *_, persona in pairs])
                for i in range(count)
            )
            for label, pairs in chosen.items()
        },
        tuple(sum(a.answer == option_letter(i) for a in answers.values()) / len(answers) for i in range(count)),
        expects="the share of questions where it is right",
        remarks=tuple(remarks),
    )


def _letter_pairs(entry: Entry) -> Iterator[tuple[int, int, int]]:
    for answer in entry.answers.values():
        index = chosen_index(entry, answer)
        if index is not None and answer.answer is not None:
            yield ord(answer.answer) - ord("a"), index, answer.persona_id
