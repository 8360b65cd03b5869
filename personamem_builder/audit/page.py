"""Write an audit as one page for a browser, with everything that it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import jinja2

from personamem_builder.audit.audit import Audit
from personamem_builder.audit.gates import Judged
from personamem_builder.audit.records import ALL, AuditedSplit
from personamem_builder.audit.render import numbers
from personamem_builder.schema import SHORT_TYPES

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
    "reader": "Does the evidence alone suffice to answer, and how often is a careless reader right?",
    "model": "How often is a model right without the conversation, or with one of another user, and what does it gain "
    "from the right one?",
}
"""What the checks of a group ask."""


class _Tally(NamedTuple):
    missed: int
    held: int


class _Group(NamedTuple):
    """A table of a split.

    Attributes:
        name: What its checks' names begin with.
        asks: What they ask.
        heads: The slices that have a column, each with what stands over it.
        checks: For each check, what it found in which slice.
        tally: Limits missed and held.
    """

    name: str
    asks: str
    heads: Mapping[str, str]
    checks: Mapping[str, Mapping[str, Judged]]
    tally: _Tally


class _Section(NamedTuple):
    """What there is to say of a split.

    Attributes:
        name: Of the split.
        questions: How many it has.
        personas: How many they are about.
        tally: Limits missed and held.
        groups: What was found.
        lacking: The checks that could not be made, by what they need.
    """

    name: str
    questions: int
    personas: int
    tally: _Tally
    groups: Mapping[str, _Group]
    lacking: Mapping[str, Sequence[str]]


def to_html(audit: Audit) -> str:
    """Return a page with all findings of an audit; it needs no other file, no network and no script.

    Args:
        audit: The audit.

    Returns:
        HTML; the same audit gives the same text.
    """
    sections = [
        _section(split, [one for one in audit.judged if one.finding.split == split.name]) for split in audit.splits
    ]
    return _template().render(
        audit=audit,
        tally=_tally(audit.judged),
        sections=sections,
        groups=list(dict.fromkeys(name for section in sections for name in section.groups)),
        numbers=numbers,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATE.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    return environment.get_template(_TEMPLATE.name)


def _section(split: AuditedSplit, judged: Sequence[Judged]) -> _Section:
    made: dict[str, list[Judged]] = {}
    lacking: dict[str, dict[str, None]] = {}
    for one in judged:
        if one.finding.needs:
            lacking.setdefault(one.finding.needs, {})[one.finding.check] = None
        else:
            made.setdefault(one.finding.check.partition(".")[0], []).append(one)
    return _Section(
        name=split.name,
        questions=len(split.rows),
        personas=len(set(split.personas)),
        tally=_tally(judged),
        groups={name: _group(name, own) for name, own in made.items()},
        lacking={needs: list(checks) for needs, checks in lacking.items()},
    )


def _group(name: str, judged: Sequence[Judged]) -> _Group:
    checks: dict[str, dict[str, Judged]] = {}
    for one in judged:
        checks.setdefault(one.finding.check, {})[one.finding.slice] = one
    by_type = any(one.finding.slice != ALL for one in judged)
    heads = {ALL: ALL, **(SHORT_TYPES if by_type else {})}
    return _Group(name, _QUESTIONS.get(name, ""), heads, checks, _tally(judged))


def _tally(judged: Sequence[Judged]) -> _Tally:
    return _Tally(sum(one.verdict == "FAIL" for one in judged), sum(one.verdict != "" for one in judged))
