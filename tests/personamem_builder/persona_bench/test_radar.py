"""Radars of domains, on answers whose scores are known."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from generation.errors import UserError
from personamem_builder.persona_bench.domains import score_domains
from personamem_builder.persona_bench.floors import floor_answers
from personamem_builder.persona_bench.metrics import score_answer, summarise
from personamem_builder.persona_bench.radar import draw_radars, make_radars
from personamem_builder.persona_bench.records import CONDITIONS, DOMAINS, ItemDoc
from personamem_builder.persona_bench.report import BenchReport, BenchTable, ModelScores
from personamem_builder.persona_bench.runs import Run

_MEDIAN = 4


def make_table(
    task: str = "impact", models: int = 1, domains: tuple[str, ...] = DOMAINS, conditions: tuple[str, ...] = CONDITIONS
) -> BenchTable:
    """Make a table of models that are half as far from the truth as the median is, or right 4 times in 5."""
    rng = random.Random(task)
    docs: list[ItemDoc] = [
        {
            "item_id": f"{domain}{number}",
            "author": f"{domain}-{number % 4}",
            "subreddit": domain,
            "truth": rng.random() < 0.5 if task == "sentiment" else rng.choice([-20, 0, 6, 30]),
            "parent_score": None,
            "parent_text": "",
            "last_text": "",
        }
        for domain in domains
        for number in range(8)
    ]

    def answer(doc: ItemDoc, number: int) -> Any:
        return doc["truth"] != (number % 5 == 0) if task == "sentiment" else (doc["truth"] + _MEDIAN) / 2

    answers = [
        score_answer(task, doc["item_id"], doc["author"], doc["truth"], [answer(doc, number)])
        for number, doc in enumerate(docs)
    ]
    rows = []
    for number in range(models):
        for condition in conditions:
            name = f"org/model-$\\alpha_{number}$"
            run = Run(
                *(name, (), task, condition, False, True, "test", Path("data"), {}, len(docs), "", Path("results")),
                docs=docs,
                answers=answers,
                recorded_floors={},
            )
            rows.append(ModelScores(name, run, summarise(task, answers)))
    floors = floor_answers(task, docs, [True] if task == "sentiment" else [_MEDIAN])
    scored = score_domains(task, docs, [row.run.answers for row in rows], [], floors)
    return BenchTable(task, False, "test", len(docs), len(docs), 4 * len(domains), rows, {}, "", [], scored)


def test_errors_stand_against_the_floor_of_their_domain_and_the_rest_as_it_is() -> None:
    table = make_table()
    mae, spearman = make_radars(table, ["mae", "spearman", "sbert"])
    assert mae.axes == [f"{domain} (8)" for domain in DOMAINS]
    assert mae.values == [pytest.approx([1 / 2] * 10)] * 3
    assert mae.floor == pytest.approx([0.0] * 10, abs=0.2)
    assert (mae.high, spearman.high) == (1, 1)
    assert spearman.values == [[one.rows[0]["spearman"].value for one in table.domains]] * 3


def test_domains_with_too_little_are_gaps_and_three_are_needed() -> None:
    (radar,) = make_radars(make_table("sentiment", domains=("art", "life", "books")), ["acc"])
    assert len(radar.axes) == 10
    assert [axis for axis, value in zip(radar.axes, radar.values[0], strict=True) if value is not None] == [
        *("life (8)", "books (8)", "art (8)")
    ]
    assert make_radars(make_table("sentiment", domains=("art", "life")), ["acc"]) == []


def test_without_floors_there_are_no_errors_to_draw() -> None:
    table = make_table()
    table = table._replace(domains=[one._replace(floors={}) for one in table.domains])
    assert [radar.metric for radar in make_radars(table, ["mae", "rmse", "kendall"])] == ["kendall"]


@pytest.mark.slow
def test_files_name_all_models_and_conditions_and_have_the_same_bytes_again(tmp_path: Path) -> None:
    report = BenchReport(
        [make_table("sentiment", models=2, conditions=("pconv", "npconv"), domains=("art", "life", "books", "other"))],
        [],
    )
    first, again = draw_radars(report, tmp_path / "one"), draw_radars(report, tmp_path / "two")
    assert [path.name for path in first] == ["sentiment-test-classes.svg", "sentiment-test-classes.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    texts = ["".join(element.itertext()).strip() for element in ET.parse(first[0]).iter()]
    for condition in ("pconv", "npconv"):
        assert f"mcc, {condition}, written" in texts
        assert f"org/model-$\\alpha_1$ {condition}, written" in texts
    assert first[1].read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match="--plots needs matplotlib"):
        draw_radars(BenchReport([], []), tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"file.* cannot be written"):
        draw_radars(BenchReport([], []), tmp_path / "file" / "radars")


@pytest.mark.slow
def test_many_models_have_several_pictures_and_tables_of_one_name_are_numbered(tmp_path: Path) -> None:
    table = make_table("sentiment", models=5, domains=("art", "life", "books"), conditions=("pconv",))
    names = {path.stem for path in draw_radars(BenchReport([table, table._replace(rows=table.rows[:1])], []), tmp_path)}
    assert names == {*("sentiment-test-1-classes-1", "sentiment-test-1-classes-2"), "sentiment-test-2-classes"}
