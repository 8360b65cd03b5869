"""What was chosen: which states the options assert, whether they follow stereotypes, and their letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from generation.records import QUESTION_TYPES
from personamem_builder import statistics
from personamem_builder.report.breakdown import FEW, TITLES, Analysis, LeftOut, ModelEntry, Result, by_column
from personamem_builder.report.numbers import points
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.schema import (
    SHORT_TYPES,
    QuestionRow,
    option_index,
    option_label,
    option_letter,
    option_letters,
)
from personamem_builder.statistics import Estimate

_TYPE_OF_ORDER: Final = "track_full_preference_evolution"
_NEVER: Final[Mapping[str, str]] = {
    "recall_user_shared_facts": "another person's",
    "revisit_reasons_behind_preference_updates": "other reason",
    "generalize_to_new_scenarios": "other reason",
    _TYPE_OF_ORDER: "other course",
}
"""What is asserted by an option that never held, where that is known better: facts are told of somebody, reasons moved
somebody else or something else, courses are of the same things."""

RIGHT: Final = "right"
_ASSERTED: Final[Mapping[str, str]] = {
    "outdated": "outdated",
    "never": "never held",
    "other": "other occasion",
    "tried": "tried before",
    "generic": "generic",
    "current": "current",
    "new": "new",
}
"""What the roles of wrong options are called: `other` is what holds of another event, `tried` an idea that is not
new."""
_STATES: Final = (
    RIGHT,
    "outdated",
    "never held",
    "another person's",
    "other reason",
    "other course",
    "other order",
    "other occasion",
    "tried before",
    "generic",
    "stereotype",
    "current",
    "new",
    "no option",
    "skipped",
)
_NO_OPTION: Final = "no option"
_SKIPPED: Final = "skipped"


def chosen_index(entry: ModelEntry, answer: ScoredAnswer) -> int | None:
    """Return the index of the option that was chosen, None where there is no single one."""
    letter = answer.predictions.get(entry.score)
    known = option_letters(answer.n_options)
    return known.index(letter) if letter in known and not answer.skipped else None


def asserted(row: QuestionRow, index: int) -> str:
    """Return what an option asserts, beside the truth: `right`, `outdated`, `never held`, `other reason`, ….

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
    own = _NEVER.get(row["question_type"]) if role == "never" else None
    return own or _ASSERTED.get(role, role)


def states(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
    """Return the share of answers by what the chosen option asserts, for each question type: what errors are made of.

    The shares of a type sum to one. Expected is the share of options that assert it.
    """
    if not any(row.get("option_roles") for row in questions.values()):
        return LeftOut("states", TITLES["states"], "the data do not say what each option asserts")
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
        TITLES["states"],
        "share of the answers to the type",
        tuple(f"{SHORT_TYPES[kind]}: {state}" for kind, state in order),
        {label: _shares(values, order) for label, values in chosen.items()},
        tuple(offered[pair] / counts[pair[0]] if pair in offered else None for pair in order),
        note="The shares of a type sum to 100 %. “right” is the right option; the others are kinds of wrong ones.",
    )


def errors(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
    """Return what wrong answers assert, as shares of a model's wrong answers to all types.

    Expected is the share of the wrong options that assert it, over the questions asked.
    """
    of_option = {
        id_: [asserted(row, i) for i in range(len(row["all_options"]))]
        for id_, row in questions.items()
        if row.get("option_roles")
    }
    if not of_option:
        return LeftOut(
            "errors",
            TITLES["errors"],
            "the data do not say what each option asserts; `personamem annotate --errors` has a sample labelled",
        )
    wrong_options: dict[str, float] = defaultdict(float)
    for own in of_option.values():
        wrong = [state for state in own if state != RIGHT]
        for state in wrong:
            wrong_options[state] += 1 / len(wrong) / len(of_option)
    entries = [entry for entry in entries if not entry.is_floor and _tells_choice(entry)]
    made = {
        entry.label: [(state, persona) for _, state, persona in _chosen_states(entry, of_option) if state != RIGHT]
        for entry in entries
    }
    seen = {state for wrong in made.values() for state, _ in wrong} | wrong_options.keys()
    rank = {state: i for i, state in enumerate(_STATES)}
    order = sorted(seen, key=lambda state: (rank.get(state, len(rank)), state))
    return Analysis(
        "errors",
        TITLES["errors"],
        "share of the wrong answers",
        tuple(order),
        {
            label: tuple(
                statistics.overall([float(own == state) for own, _ in wrong], [persona for _, persona in wrong])
                if wrong
                else None
                for state in order
            )
            for label, wrong in made.items()
        },
        tuple(wrong_options.get(state) for state in order),
        expects="its share of the wrong options",
        note="All question types together; answers without an option, and questions skipped, are wrong too.",
    )


def _tells_choice(entry: ModelEntry) -> bool:
    return any(entry.score in answer.predictions for answer in entry.answers.values())


def _chosen_states(entry: ModelEntry, of_option: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, int]]:
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


def stereotypes(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
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
            return by_column(
                "stereotypes",
                entries,
                questions,
                "stereotypical",
                str,
                tuple(sorted({str(row["stereotypical"]) for row in questions.values() if row.get("stereotypical")})),
                shape="rows",
                note="Accuracy by whether the preference asked about is marked as a stereotype of the user's group.",
            )
        return LeftOut("stereotypes", TITLES["stereotypes"], "the data mark no option or question as stereotypical")
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
            remarks.append(f"{entry.label}: {points(gap)} against chance; {_verdict(gap)}.")
    return Analysis(
        "stereotypes",
        TITLES["stereotypes"],
        "share of wrong answers that chose the stereotype",
        (label,),
        series,
        (sum(chance.values()) / len(chance),),
        expects="its share of the wrong options",
        note=f"Of the {len(marked)} questions with a wrong option that follows a stereotype, those answered wrong.",
        remarks=tuple(remarks),
    )


def _verdict(gap: Estimate) -> str:
    if gap.low is None or gap.high is None:
        return "one persona, so no interval"
    if gap.n < FEW:
        return "too few to tell"
    if gap.low > 0:
        return "the stereotype draws answers"
    return "the stereotype is avoided" if gap.high < 0 else "no effect is shown"


class Homogeneity(NamedTuple):
    """A chi-square test whether letters are chosen as often as they are right."""

    statistic: float
    degrees: int
    p: float


def marginal_homogeneity(right: Sequence[int], chosen: Sequence[int], count: int) -> Homogeneity:
    """Test whether options are chosen as often as they are right, position by position (Stuart 1955, Maxwell 1970).

    It compares the two margins of the table of right against chosen positions, so that a model that is often right is
    not taken for one with a bias. It takes questions as independent. With two positions it is McNemar's test. p is 1
    where nothing is chosen wrong.
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


def letters(entries: Sequence[ModelEntry], *, shows_options: bool = True) -> Result:
    """Return the share of answers by the letter chosen, against the share of questions where it is right."""
    if not shows_options:
        reason = "the options were not shown, so that no letter could draw answers"
        return LeftOut("letters", TITLES["letters"], reason)
    chosen = {entry.label: list(_letter_pairs(entry)) for entry in entries if not entry.is_floor}
    chosen = {label: pairs for label, pairs in chosen.items() if pairs}
    if not chosen:
        return LeftOut("letters", TITLES["letters"], "the results do not say which letters were chosen, or are right")
    count = 1 + max(max(right, index) for pairs in chosen.values() for right, index, _ in pairs)
    answers = {id_: a for e in entries if e.label in chosen for id_, a in e.answers.items() if a.answer is not None}
    labels = tuple(map(option_label, range(count)))
    remarks = []
    for label, pairs in chosen.items():
        test = marginal_homogeneity([right for right, _, _ in pairs], [index for _, index, _ in pairs], count)
        sides = f"chi-square {test.statistic:.1f}, {test.degrees} df, p = {test.p:.2g}, questions taken as independent"
        verdict = "some letters are preferred" if test.p < 0.05 else "no preference for a letter is shown"
        remarks.append(f"{label}: {verdict} (Stuart-Maxwell {sides}).")
    return Analysis(
        "letters",
        TITLES["letters"],
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


def _letter_pairs(entry: ModelEntry) -> Iterator[tuple[int, int, int]]:
    for answer in entry.answers.values():
        index = chosen_index(entry, answer)
        if index is not None and answer.answer is not None:
            yield option_index(answer.answer), index, answer.persona_id
