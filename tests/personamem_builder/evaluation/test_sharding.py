"""Several processes: each gets the questions of whole contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from generation.resources import data_dir


@pytest.fixture
def task(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    return manager.load(["personamem_32k"])["tasks"]["personamem_32k"]


def shards(task: Any, world_size: int, **options: Any) -> list[list[tuple[int, dict[str, Any]]]]:
    return [list(task.doc_iterator(rank=rank, world_size=world_size, **options)) for rank in range(world_size)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("options", [{}, {"limit": 12}, {"samples": [1, 4, 9, 16]}], ids=["all", "limit", "samples"])
def test_every_question_goes_to_one_process_under_its_own_id(
    task: Any, world_size: int, options: dict[str, Any]
) -> None:
    everything = list(task.doc_iterator(**options))
    assert len(everything) == {"limit": 12, "samples": 4}.get(next(iter(options), ""), 17)
    dealt = [pair for shard in shards(task, world_size, **options) for pair in shard]
    assert sorted(dealt, key=lambda pair: pair[0]) == everything
    # Which question has an id does not depend on the rest: lm-eval puts the processes' samples together by it.
    rows = list(task.eval_docs)
    position = {row["question_id"]: index for index, row in enumerate(rows)}
    chosen = options.get("samples")
    for index, doc in dealt:
        assert position[doc["question_id"]] == (index if chosen is None else chosen[index])


def test_no_context_is_shared_by_two_processes(task: Any) -> None:
    contexts = [{doc["shared_context_id"] for _, doc in shard} for shard in shards(task, 2)]
    assert all(contexts)
    assert not contexts[0] & contexts[1]


def test_with_fewer_contexts_than_processes_no_process_is_idle(task: Any) -> None:
    assert {doc["shared_context_id"] for shard in shards(task, 2) for _, doc in shard} == {
        doc["shared_context_id"] for _, doc in task.doc_iterator()
    }
    assert all(shards(task, 5))


def test_the_same_arguments_give_the_same_questions_again(task: Any) -> None:
    """lm-eval iterates once for the requests and again for the scores."""
    assert shards(task, 2, limit=9) == shards(task, 2, limit=9)


def test_weights_of_question_types_do_not_depend_on_the_process(task: Any) -> None:
    weights = []
    for rank in range(2):
        task.build_all_requests(rank=rank, world_size=2)
        weights.append(dict(task._macro_weight))
        assert {request.doc_id for request in task.instances} == {
            index for index, _ in task.doc_iterator(rank=rank, world_size=2)
        }
    assert weights[0] == weights[1]
