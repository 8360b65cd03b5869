"""Several processes: each gets the questions of whole contexts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.evaluation.journal import Journal
from personamem_builder.evaluation.journal_lm import JournalLM
from personamem_builder.evaluation.window import running_model


@pytest.fixture
def task(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    return manager.load(["personamem_32k"])["tasks"]["personamem_32k"]


@pytest.fixture
def as_in_our_run() -> Iterator[None]:
    token = running_model.set(SimpleNamespace())
    yield
    running_model.reset(token)


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


def test_weights_of_question_types_do_not_depend_on_the_process(task: Any, as_in_our_run: None) -> None:
    weights = []
    for rank in range(2):
        task.build_all_requests(rank=rank, world_size=2)
        weights.append(dict(task._macro_weight))
        assert {request.doc_id for request in task.instances} == {
            index for index, _ in task.doc_iterator(rank=rank, world_size=2)
        }
    assert weights[0] == weights[1]


def test_contexts_are_dealt_by_their_tokens(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(official))
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    task = manager.load(["personamem_32k"])["tasks"]["personamem_32k"]
    prefixes = []
    for shard in shards(task, 4):
        longest: dict[str, int] = {}
        for _, doc in shard:
            context = doc["shared_context_id"]
            longest[context] = max(longest.get(context, 0), doc["context_length_in_tokens"])
        prefixes.append(sum(longest.values()))
    assert max(prefixes) < 1.05 * min(prefixes)


def test_several_processes_of_plain_lm_eval_are_refused(task: Any) -> None:
    with pytest.raises(UserError, match="on several processes the plain lm_eval command loses metrics") as caught:
        task.build_all_requests(rank=0, world_size=2)
    assert "`personamem eval`" in caught.value.hint


def test_several_machines_are_refused(task: Any, as_in_our_run: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    task.build_all_requests(rank=0, world_size=2)
    with pytest.raises(UserError, match="several machines would ask the same questions") as caught:
        task.build_all_requests(rank=0, world_size=4)
    assert "--shard 1/2" in caught.value.hint


def test_a_metric_that_another_process_lacks_is_empty_there(tmp_path: Path) -> None:
    """lm-eval looks each metric of the first process up in all, and per-type metrics are not in all."""
    gathered = [{"t": {("acc", "none"): [1.0], ("acc_x", "none"): [1.0]}}, {"t": {("acc", "none"): [0.0]}}]
    told = SimpleNamespace(gather_object=lambda obj, dst: gathered if dst == 0 else None)
    lm = JournalLM(told, Journal(tmp_path / "answers.sqlite"), "", {})
    assert [one["t"]["acc_x", "none"] for one in lm.gather_object({}, dst=0)] == [[1.0], []]
    assert lm.gather_object({}, dst=1) is None
