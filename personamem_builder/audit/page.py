"""Write an audit as one page for a browser, with everything that it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import jinja2

from personamem_builder.audit.gates import Judged, Tally, tally
from personamem_builder.audit.records import ALL, Finding
from personamem_builder.audit.render import checks_lacking, detectable, numbers, points
from personamem_builder.audit.saved import SavedAudit, SavedFinding
from personamem_builder.markup import markup_environment
from personamem_builder.schema import SHORT_TYPES

if TYPE_CHECKING:
    from personamem_builder.audit.audit import Audit  # which needs scikit-learn; pages of saved audits do not

_TEMPLATE: Final = Path(__file__).with_name("page.html.j2")

_QUESTIONS: Final[Mapping[str, str]] = {
    "surface": "How often is a rule right that looks only at the surface of the options, such as their length or "
    "place, and at most at the words of the question? In a fair benchmark no rule is right more, or less, often than "
    "by chance.",
    "probe": "How often is a trained classifier right that never sees the conversation? It has learnt from the right "
    "answers of other personas, so this is a ceiling for shortcuts, not the score of a model.",
    "cue": "How many words give the right option away, because it has them more, or less, often than chance allows?",
    "balance": "Are right answers spread evenly over the letters, and are the options of a question different answers?",
    "text": "Does the part of the conversation that a question shows hold its options word for word, or does the "
    "description of the persona give the answer?",
    "integrity": "Is the split whole: do questions and conversations fit together, are lengths and distances as they "
    "are stated, and how many questions repeat others?",
    "reader": "Does the evidence alone suffice to answer, and do evidence and states agree with the messages?",
    "history": "How often is a reader right that counts, locates and matches words of the conversation and understands "
    "none of it? Where such a reader is right, reading is not needed. Event and reply checks ask how well the messages "
    "that tell what questions ask for are told from the others; their chance is 50 %.",
    "model": "How often is a model right without the conversation, or with one of another user, and what does it gain "
    "from the right one?",
}
"""What the checks of a group ask."""


class _Group(NamedTuple):
    """The table of a group of checks: what they ask, the heads of its slices, and what each found in which slice."""

    name: str
    asks: str
    heads: Mapping[str, str]
    checks: Mapping[str, Mapping[str, Judged]]
    tally: Tally


class SplitSize(NamedTuple):
    """An audited split; `sampled` is the number of questions that probes look at, None where these are all."""

    name: str
    questions: int
    personas: int
    sampled: int | None


class _Section(NamedTuple):
    """What there is to say of a split; `lacking` has the checks that could not be made, by what they need.

    `detectable` has for each group of checks and each slice the least leak that it finds, see `render.detectable`.
    """

    size: SplitSize
    tally: Tally
    groups: Mapping[str, _Group]
    lacking: Mapping[str, Sequence[str]]
    detectable: Mapping[str, Mapping[str, float | None]]


def to_html(audit: Audit) -> str:
    """Return a page with all findings of an audit; it needs no other file, no network and no script.

    The same audit gives the same text.
    """
    sizes = [SplitSize(s.name, len(s.rows), len(set(s.personas)), audit.sampled(s)) for s in audit.splits]
    found = {s.name: detectable([one for one in audit.judged if one.finding.split == s.name]) for s in audit.splits}
    return _render(audit.source, audit.digest, audit.judged, sizes, found)


def saved_to_html(audit: SavedAudit, home: str = "") -> str:
    """Return the same page from the JSON form; it may lead back to another one, `home`."""
    return _render(
        audit.source,
        audit.digest,
        [_judged(split.split, one) for split in audit.splits for one in split.findings],
        [SplitSize(split.split, split.questions, split.personas, split.sampled) for split in audit.splits],
        {split.split: split.detectable for split in audit.splits},
        home,
    )


def _judged(split: str, saved: SavedFinding) -> Judged:
    told = saved.model_dump(exclude={"limit", "verdict", "detectable", "examples"})
    finding = Finding(**told, split=split, examples=tuple(saved.examples))
    return Judged(finding, saved.limit, saved.verdict, detectable=saved.detectable)


def _render(
    source: str,
    digest: str,
    judged: Sequence[Judged],
    sizes: Sequence[SplitSize],
    found: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    home: str = "",
) -> str:
    """Return the page of an audit from what a page needs of it.

    Args:
        source: What was audited, as it was named.
        digest: Of the dataset; empty for anything else.
        judged: All findings of all splits.
        sizes: The splits.
        found: For each split what `render.detectable` says.
        home: Address of a page that it belongs to, and leads back to.
    """
    sections = [
        _section(size, [one for one in judged if one.finding.split == size.name], found[size.name]) for size in sizes
    ]
    return _template().render(
        source=source,
        digest=digest,
        home=home,
        tally=tally(judged),
        sections=sections,
        groups=list(dict.fromkeys(name for section in sections for name in section.groups)),
        numbers=numbers,
        points=points,
        types=SHORT_TYPES,
    )


@cache
def _template() -> jinja2.Template:
    return markup_environment(_TEMPLATE.parent).get_template(_TEMPLATE.name)


def _section(size: SplitSize, judged: Sequence[Judged], found: Mapping[str, Mapping[str, float | None]]) -> _Section:
    made: dict[str, list[Judged]] = {}
    for one in judged:
        if not one.finding.needs:
            made.setdefault(one.finding.check.partition(".")[0], []).append(one)
    return _Section(
        size=size,
        tally=tally(judged),
        groups={name: _group(name, own) for name, own in made.items()},
        lacking=checks_lacking(judged),
        detectable=found,
    )


def _group(name: str, judged: Sequence[Judged]) -> _Group:
    checks: dict[str, dict[str, Judged]] = {}
    for one in judged:
        checks.setdefault(one.finding.check, {})[one.finding.slice] = one
    slices = dict.fromkeys(one.finding.slice for one in judged)
    by_type = any(slice_ != ALL for slice_ in slices)
    others = {slice_: slice_ for slice_ in slices if slice_ != ALL and slice_ not in SHORT_TYPES}
    heads = {ALL: ALL, **(SHORT_TYPES if by_type else {}), **others}
    return _Group(name, _QUESTIONS.get(name, ""), heads, checks, tally(judged))
