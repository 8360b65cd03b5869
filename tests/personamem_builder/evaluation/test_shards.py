"""The plan of the parts: whole contexts, about as much in each, the same in every process."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.tasks import TaskManager

from generation.errors import UserError
from generation.resources import data_dir
from generation.shards import Shard
from personamem_builder.evaluation.shards import context_costs, deal, part_folder, plan_digest

COSTS = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 50_000), min_size=1, max_size=40)


@given(COSTS, st.integers(1, 50))
def test_every_context_is_in_exactly_one_part(costs: dict[str, int], count: int) -> None:
    parts = deal(costs, count)
    assert len(parts) == count
    assert sorted(name for part in parts for name in part) == sorted(costs)
    assert sum(not part for part in parts) == max(0, count - len(costs))


@given(COSTS, st.integers(1, 50), st.randoms())
def test_the_plan_depends_on_the_costs_alone(costs: dict[str, int], count: int, random: Any) -> None:
    shuffled = list(costs.items())
    random.shuffle(shuffled)
    assert deal(dict(shuffled), count) == deal(costs, count)


@given(COSTS, st.integers(1, 12))
def test_no_exchange_of_two_contexts_would_make_the_fullest_part_less_full(costs: dict[str, int], count: int) -> None:
    parts = deal(costs, count)
    loads = [sum(costs[name] for name in part) for part in parts]
    fullest = loads.index(max(loads))
    for other, load in enumerate(loads):
        for given_away in parts[fullest]:
            for taken in [0, *(costs[name] for name in parts[other] if other != fullest)]:
                moved = costs[given_away] - taken
                assert not 0 < moved < loads[fullest] - load


@pytest.mark.parametrize(
    ("costs", "count", "expected"),
    [([5, 4, 3, 3, 3], 2, 9), ([7, 6, 5, 4], 2, 11), ([9, 1, 1, 1], 3, 9), ([2, 2], 3, 2)],
)
def test_parts_are_as_equal_as_they_can_be(costs: list[int], count: int, expected: int) -> None:
    named = {str(index): cost for index, cost in enumerate(costs)}
    assert max(sum(named[name] for name in part) for part in deal(named, count)) == expected


def row(context: str, tokens: int, option: int) -> dict[str, Any]:
    return {
        "shared_context_id": context,
        "context_length_in_tokens": tokens,
        "context_length_in_letters": 4 * tokens,
        "user_question_or_message": "m" * 400,
        "all_options": ["o" * option] * 4,
    }


def test_a_context_costs_its_longest_prefix_and_each_of_its_questions() -> None:
    docs: Any = list(enumerate([row("x", 1000, 100), row("x", 3000, 200), row("y", 10, 0)]))
    own = {"x": 3000 + (400 + 400) // 4 + (400 + 800) // 4, "y": 10 + 100}
    assert context_costs(docs, lambda doc: doc["shared_context_id"], shares_history=True) == own
    assert context_costs(docs, lambda doc: doc["shared_context_id"], shares_history=False) == {"x": 2, "y": 1}


def test_the_folders_of_parts_are_in_their_order() -> None:
    assert part_folder(Shard(3, 16)) == "part-03-of-16"
    names = [part_folder(Shard(number, 120)) for number in range(1, 121)]
    assert names == sorted(names)


def test_the_digest_of_a_plan_tells_who_asks_what() -> None:
    assert len({plan_digest(plan) for plan in ([["a"], ["b"]], [["b"], ["a"]], [["a", "b"], []], [["a", "b"]])}) == 4


# ---- the task


def load(data: Path, task: str = "personamem_32k", **metadata: Any) -> Any:
    metadata = {"data": str(data), **metadata}
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    return manager.load([task])["tasks"][task]


def parts_of(data: Path, of: int, task: str = "personamem_32k", **options: Any) -> list[list[tuple[int, Any]]]:
    return [list(load(data, task, shard=f"{n + 1}/{of}").doc_iterator(**options)) for n in range(of)]


@pytest.mark.parametrize("task", ["personamem_32k", "personamem_32k_letters_nocontext"])
@pytest.mark.parametrize(
    "options", [{}, {"limit": 30}, {"samples": [*range(0, 41, 3)]}], ids=["all", "limit", "samples"]
)
def test_parts_share_no_context_and_keep_the_numbers_of_their_questions(
    generated: Path, task: str, options: dict[str, Any]
) -> None:
    whole = list(load(generated, task).doc_iterator(**options))
    parts = parts_of(generated, 2, task, **options)
    assert sorted((pair for part in parts for pair in part), key=lambda pair: pair[0]) == whole
    contexts = [{doc["shared_context_id"] for _, doc in part} for part in parts]
    assert all(contexts)
    assert not contexts[0] & contexts[1]


def test_without_a_history_parts_have_as_many_questions(generated: Path) -> None:
    rows = [doc for _, doc in load(generated).doc_iterator()]
    per_context = max(sum(doc["shared_context_id"] == one["shared_context_id"] for doc in rows) for one in rows)
    sizes = [len(part) for part in parts_of(generated, 2, "personamem_32k_nocontext")]
    assert max(sizes) - min(sizes) < per_context


@pytest.mark.parametrize("world_size", [2, 3])
def test_the_processes_of_a_part_divide_its_questions(generated: Path, world_size: int) -> None:
    (part,) = parts_of(generated, 2)[:1]
    task = load(generated, shard="1/2")
    ranks = [list(task.doc_iterator(rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert all(ranks)
    assert sorted((pair for rank in ranks for pair in rank), key=lambda pair: pair[0]) == part


def test_more_parts_than_contexts_are_an_error_in_each_of_them(dataset_folder: Path) -> None:
    for shard in ("1/3", "3/3"):
        with pytest.raises(UserError, match="3 parts are too many: its questions are about 2 contexts") as caught:
            load(dataset_folder, shard=shard).build_all_requests()
        assert "--shard 1/2" in caught.value.hint


def test_eight_parts_of_the_official_split_are_within_a_tenth_of_each_other(official: Path) -> None:
    task = load(official)
    docs = list(task.doc_iterator())
    costs = context_costs(docs, lambda doc: doc["shared_context_id"], shares_history=True)
    assert len(costs) == 37
    for count, most in ((2, 1.001), (4, 1.001), (8, 1.03), (16, 1.17)):
        loads = [sum(costs[name] for name in part) for part in deal(costs, count)]
        assert max(loads) / (math.fsum(loads) / count) <= most
