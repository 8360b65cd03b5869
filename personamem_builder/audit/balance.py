"""Are right answers spread evenly over the letters, and are the options of a question different answers?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from scipy.special import chdtrc

from personamem_builder.audit.records import AuditedSplit, Finding, count_questions
from personamem_builder.policies import word_list
from personamem_builder.schema import QuestionRow, option_letter, option_texts

# Nothing else is left out: `is` and `was`, or a `not`, can be all that parts a current from an outdated answer.
_ARTICLES: Final = frozenset(("a", "an", "the"))
_LONG: Final = 8
"""Words from which a question that stands in its right option counts as a repetition."""


def balance_findings(split: AuditedSplit) -> list[Finding]:
    """Return how evenly right answers are spread, and which options or questions repeat one another.

    - `balance.letters`: the p value of a chi-square test of the right letters against equally likely ones.
    - `balance.option_count`: questions with another number of options than most.
    - `balance.identical_options`: questions with two options that are equal but for case and white space.
    - `balance.near_identical_options`: questions with two options that are not identical, but have the same words in
      the same order, articles left out. Options that part in one word of what they assert are not among them.
    - `balance.answer_in_question`: questions whose right option stands in the question, or that stand with at least
      eight words in their right option, where that is not so of every option.
    - `balance.merged_labels`: labels of the source beyond one for each canonical question type.
    """
    return [
        _letters(split),
        _option_count(split),
        _identical_options(split),
        count_questions("balance.near_identical_options", split, _has_near_twins),
        count_questions("balance.answer_in_question", split, _states_answer),
        _merged_labels(split),
    ]


def _letters(split: AuditedSplit) -> Finding:
    """Pearson's chi-square test; where numbers of options differ, statistic and degrees are summed over them."""
    golds: defaultdict[int, list[int]] = defaultdict(list)
    for row in split.rows:
        golds[len(row["all_options"])].append(row["answer_index"])
    statistic = 0.0
    for options, own in golds.items():
        expected = len(own) / options
        statistic += sum((own.count(i) - expected) ** 2 / expected for i in range(options))
    degrees = sum(options - 1 for options in golds)
    counts = Counter(row["answer_index"] for row in split.rows)
    shown = ", ".join(f"{option_letter(i)} {counts[i]}" for i in range(max(golds)))
    return Finding(
        check="balance.letters",
        split=split.name,
        value=float(chdtrc(degrees, statistic)) if degrees else 1.0,
        n=len(split.rows),
        note=f"p value; right letters {shown}; chi2 = {statistic:.1f} on {degrees} df",
    )


def _option_count(split: AuditedSplit) -> Finding:
    counts = Counter(len(row["all_options"]) for row in split.rows)
    usual = max(counts, key=lambda options: (counts[options], options))
    note = ", ".join(f"{number} questions of {options} options" for options, number in sorted(counts.items()))
    finding = count_questions("balance.option_count", split, lambda row: len(row["all_options"]) != usual)
    return finding._replace(note=note)


def _identical_options(split: AuditedSplit) -> Finding:
    finding = count_questions("balance.identical_options", split, lambda row: _has_twins(_plain_texts(row)))
    options = ((_plain_texts(row), row["answer_index"]) for row in split.rows)
    of_gold = sum(texts.count(texts[gold]) > 1 for texts, gold in options)
    return finding._replace(note=f"in {of_gold} of them the right option stands twice" if finding.value else "")


def _has_near_twins(row: QuestionRow) -> bool:
    # Each text once: two identical options are no pair here.
    return _has_twins([_bare(text) for text in dict.fromkeys(_plain_texts(row))])


def _has_twins(texts: Sequence[str]) -> bool:
    return len(set(texts)) < len(texts)


def _plain_texts(row: QuestionRow) -> list[str]:
    return [" ".join(text.casefold().split()) for text in option_texts(row)]


def _bare(text: str) -> str:
    # A text of signs, or of articles, is compared as it is.
    return " ".join(word for word in word_list(text) if word not in _ARTICLES) or text


def _states_answer(row: QuestionRow) -> bool:
    question = _framed(row["user_question_or_message"])
    options = [_framed(text) for text in option_texts(row)]
    in_question = [option in question for option in options]
    in_option = [len(question.split()) >= _LONG and question in option for option in options]
    return any(found[row["answer_index"]] and not all(found) for found in (in_question, in_option))


def _framed(text: str) -> str:
    # Spaces at both ends, so that only whole words are found in it.
    return f" {' '.join(word_list(text))} "


def _merged_labels(split: AuditedSplit) -> Finding:
    labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in split.rows:
        labels[row["question_type"]][row.get("source_question_type") or row["question_type"]] += 1
    merged = {name: counts for name, counts in labels.items() if len(counts) > 1}
    note = "; ".join(
        f"{name}: " + ", ".join(f"{label} ({number})" for label, number in counts.most_common())
        for name, counts in merged.items()
    )
    return Finding(
        check="balance.merged_labels",
        split=split.name,
        value=float(sum(len(counts) - 1 for counts in merged.values())),
        n=len(split.rows),
        note=note,
    )
