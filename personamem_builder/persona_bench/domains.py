"""What is scored in each of the ten domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from personamem_builder.persona_bench.floors import UNSEEN, cell
from personamem_builder.persona_bench.metrics import (
    BEST_OF,
    LOWER_IS_BETTER,
    ScoredItem,
    compare_conditions,
    summarise,
)
from personamem_builder.persona_bench.records import DOMAINS, OTHER, ItemDoc, domain_of
from personamem_builder.statistics import Estimate
from personamem_builder.text_table import text_table

Scores = Mapping[str, Estimate]

FEWEST_ITEMS: Final = 5
FEWEST_AUTHORS: Final = 3
"""With fewer items or authors in a domain nothing is scored there: the interval would span nearly all values."""


class DomainScores(NamedTuple):
    """What is scored in one domain; each group of scores is empty where there is too little.

    Attributes:
        domain: One of `DOMAINS`, or `OTHER`.
        items: How many items it has, the same for all rows.
        authors: How many people wrote them.
        rows: Of each row of the table, in its order.
        differences: Of each difference between conditions, in the order of the table.
        floors: Of each floor; none where the dataset folder is gone.
    """

    domain: str
    items: int
    authors: int
    rows: Sequence[Scores]
    differences: Sequence[Scores]
    floors: Mapping[str, Scores]


def score_domains(
    task: str,
    docs: Sequence[ItemDoc],
    rows: Sequence[Sequence[ScoredItem]],
    pairs: Sequence[tuple[int, int]],
    floors: Mapping[str, Sequence[ScoredItem]],
) -> list[DomainScores]:
    """Score answers by domain: the ten, then the other subreddits if there are items of any.

    Args:
        task: One of `TASKS`.
        docs: The items.
        rows: The answers of each run to these items.
        pairs: Which two rows are compared, as places in `rows`: the first minus the second.
        floors: What each rule answered to these items.
    """
    domains = {doc["item_id"]: domain_of(doc["subreddit"]) for doc in docs}

    def within(domain: str, answers: Sequence[ScoredItem]) -> list[ScoredItem]:
        return [answer for answer in answers if domains[answer.item_id] == domain]

    scored = []
    for domain in (*DOMAINS, OTHER):
        own = [doc for doc in docs if domains[doc["item_id"]] == domain]
        authors = len({doc["author"] for doc in own})
        if len(own) < FEWEST_ITEMS or authors < FEWEST_AUTHORS:
            if own or domain != OTHER:
                scored.append(DomainScores(domain, len(own), authors, [{} for _ in rows], [{} for _ in pairs], {}))
            continue
        here = [within(domain, answers) for answers in rows]
        scored.append(
            DomainScores(
                domain,
                len(own),
                authors,
                [summarise(task, answers) for answers in here],
                [compare_conditions(task, here[one], here[other]) for one, other in pairs],
                {rule: summarise(task, within(domain, answers)) for rule, answers in floors.items()},
            )
        )
    return scored


def render_domains(domains: Sequence[DomainScores], labels: Sequence[str], width: int) -> str:
    """Return a table in plain text for each metric: a row for each domain, a column for each run and the best floor.

    The floor `UNSEEN` is not among these. Tables are split where they are wider than `width`. Bests of several samples
    are left to the JSON form.
    """
    shown = [domain for domain in domains if domain.items]
    if not any(domain.domain in DOMAINS for domain in shown):
        return "no item is from one of the ten subreddits"
    names = dict.fromkeys(name for domain in shown for scores in domain.rows for name in scores)
    lines = []
    for name in names:
        if BEST_OF.match(name):
            continue
        heading = f"{name} ↓" if name in LOWER_IS_BETTER else name
        fixed = [
            [heading, *(domain.domain for domain in shown)],
            ["items", *(str(domain.items) for domain in shown)],
            ["authors", *(str(domain.authors) for domain in shown)],
        ]
        columns = [
            [label, *(cell(domain.rows[place].get(name)) for domain in shown)] for place, label in enumerate(labels)
        ]
        floors = ["best floor", *(_best_floor(domain, name) for domain in shown)]
        columns += [floors] if any(cell != "-" for cell in floors[1:]) and name != "unparsed" else []
        while columns:
            count = 1
            while count < len(columns) and _width([*fixed, *columns[: count + 1]]) <= width:
                count += 1
            lines += [_table([*fixed, *columns[:count]]), ""]
            columns = columns[count:]
    return "\n".join([*lines, _explained(domains)])


def domains_json(domains: Sequence[DomainScores]) -> list[dict[str, Any]]:
    """Return the scores by domain as JSON values; what has too little to score has no `scores`."""

    def values(scores: Scores) -> dict[str, Any] | None:
        return {name: estimate._asdict() for name, estimate in scores.items()} or None

    return [
        {
            **domain._asdict(),
            "rows": [values(scores) for scores in domain.rows],
            "differences": [values(scores) for scores in domain.differences],
            "floors": {rule: values(scores) for rule, scores in domain.floors.items()},
        }
        for domain in domains
    ]


def _explained(domains: Sequence[DomainScores]) -> str:
    told = ["↓: lower is better", f"-: fewer than {FEWEST_ITEMS} items or {FEWEST_AUTHORS} authors"]
    if any(domain.domain == OTHER for domain in domains):
        told.append(f"{OTHER}: subreddits that are none of the ten")
    if none := [domain.domain for domain in domains if not domain.items]:
        told.append(f"no items: {', '.join(none)}")
    return "; ".join(told)


def _best_floor(domain: DomainScores, name: str) -> str:
    known = {rule: scores[name].value for rule, scores in domain.floors.items() if name in scores and rule != UNSEEN}
    if not known:
        return "-"
    rule = (min if name in LOWER_IS_BETTER else max)(known, key=lambda rule: known[rule])
    return f"{known[rule]:.3f} {rule}"


def _table(columns: Sequence[Sequence[str]]) -> str:
    return text_table(list(zip(*columns, strict=True)), "lrrl")


def _width(columns: Sequence[Sequence[str]]) -> int:
    return max(map(len, _table(columns).split("\n")))
