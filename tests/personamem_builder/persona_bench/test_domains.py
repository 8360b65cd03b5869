"""Scores by domain, on answers whose scores are known."""

from __future__ import annotations

from typing import Any

import pytest

from personamem_builder.persona_bench.domains import (
    FEWEST_AUTHORS,
    FEWEST_ITEMS,
    DomainScores,
    domains_json,
    render_domains,
    score_domains,
)
from personamem_builder.persona_bench.metrics import ScoredItem, compare_conditions, score_answer, summarise
from personamem_builder.persona_bench.records import DOMAINS, ItemDoc, domain_of


def make_docs(*groups: tuple[str, int, int]) -> list[ItemDoc]:
    """Make items of (subreddit, items, authors), every other one positive."""
    return [
        {
            "item_id": f"{subreddit}{number}",
            "author": f"{subreddit}-{number % authors}",
            "subreddit": subreddit,
            "truth": number % 2 == 0,
            "parent_score": 1,
            "parent_text": "",
            "last_text": "",
        }
        for subreddit, items, authors in groups
        for number in range(items)
    ]


def answered(docs: list[ItemDoc], rule: Any) -> list[ScoredItem]:
    return [score_answer("sentiment", doc["item_id"], doc["author"], doc["truth"], [rule(doc)]) for doc in docs]


def scored(docs: list[ItemDoc]) -> dict[str, DomainScores]:
    right, wrong = answered(docs, lambda doc: doc["truth"]), answered(docs, lambda doc: not doc["truth"])
    floors = {"always": answered(docs, lambda doc: True), "never": answered(docs[::-1], lambda doc: False)}
    floors["parent"] = right  # it knows what no model is shown
    return {one.domain: one for one in score_domains("sentiment", docs, [right, wrong], [(0, 1)], floors)}


@pytest.mark.parametrize("name", ["Entrepreneur", "r/entrepreneur", "/r/Entrepreneur/", " entrepreneur"])
def test_a_domain_is_its_subreddit_in_any_spelling(name: str) -> None:
    assert domain_of(name) == "entrepreneur"


@pytest.mark.parametrize("name", ["", "askscience", "sciences", "r/bookshelf"])
def test_all_other_subreddits_are_other(name: str) -> None:
    assert domain_of(name) == "other"


def test_each_domain_is_scored_by_its_own_items() -> None:
    docs = make_docs(("Art", 8, 4), ("science", 7, 3), ("cats", 3, 3), ("dogs", 4, 2))
    found = scored(docs)
    assert list(found) == [*DOMAINS, "other"]
    assert (found["other"].items, found["other"].authors) == (7, 5)
    art = [doc for doc in docs if doc["subreddit"] == "Art"]
    right, wrong = answered(art, lambda doc: doc["truth"]), answered(art, lambda doc: not doc["truth"])
    assert found["art"].rows == [summarise("sentiment", right), summarise("sentiment", wrong)]
    assert found["art"].differences == [compare_conditions("sentiment", right, wrong)]
    assert found["art"].rows[0]["acc"].clusters == 4
    assert found["science"].floors["always"]["acc"].value == 4 / 7
    assert found["science"].floors["never"]["acc"].value == 3 / 7


@pytest.mark.parametrize(("items", "authors"), [(FEWEST_ITEMS - 1, FEWEST_ITEMS - 1), (20, FEWEST_AUTHORS - 1)])
def test_too_few_items_or_authors_are_counted_and_not_scored(items: int, authors: int) -> None:
    found = scored(make_docs(("art", items, authors), ("books", FEWEST_ITEMS, FEWEST_AUTHORS)))
    assert (found["art"].items, found["art"].rows, found["art"].differences) == (items, [{}, {}], [{}])
    assert found["books"].rows[0]["acc"].value == 1
    told = {one["domain"]: one for one in domains_json(list(found.values()))}
    assert told["art"]["rows"] == [None, None]
    assert told["books"]["rows"][1]["acc"] == found["books"].rows[1]["acc"]._asdict()
    text = render_domains(list(found.values()), ["one", "two"], 120).split("\n")
    assert " ".join(text[1].split()) == "books 5 3 1.000 [0.292, 1.000] 0.000 [0.000, 0.708] 0.600 always"
    assert text[2].split() == ["art", str(items), str(authors), "-", "-", "-"]


def test_the_text_fits_the_width_and_says_what_is_not_there() -> None:
    found = list(scored(make_docs(("art", 8, 4), ("books", 9, 3), ("cats", 2, 1))).values())
    text = render_domains(found, [f"org/model-{number}" for number in range(2)], 60)
    assert max(map(len, text.split("\n")[:-1])) <= 60
    assert text.count("unparsed ↓") == 2
    assert "other: subreddits that are none of the ten; no items: worldnews, science, politics" in text
    assert "none" not in render_domains(found[:-1], ["one", "two"], 60)
    elsewhere = list(scored(make_docs(("cats", 9, 4))).values())
    assert render_domains(elsewhere, ["one", "two"], 60) == "no item is from one of the ten subreddits"
