"""The task for harnesses other than lm-eval asks what lm-eval's task asks; none of them is needed here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hub_reads
import pytest
from hub_client import HubClient
from hub_reads import make_dataset
from lm_eval.tasks import TaskManager
from loopback_hub import LoopbackHub, commit_id

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.evaluation.responses import Reply
from personamem_builder.evaluation.task_files import read_task_file
from personamem_builder.evaluation.written_task import WrittenTask

GENERATE = "personamem_32k_generate"


@pytest.fixture(autouse=True)
def data(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))


def lm_eval_task(name: str, metadata: dict[str, Any]) -> Any:
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    return manager.load([name])["tasks"][name]


@pytest.mark.parametrize("name", [GENERATE, f"{GENERATE}_nocontext"])
@pytest.mark.parametrize("settings", [{}, {"explain": True}, {"roles": "verbatim"}], ids=str)
def test_messages_are_those_of_the_lm_eval_task(name: str, settings: dict[str, Any]) -> None:
    written, theirs = WrittenTask(name, settings), lm_eval_task(name, settings)
    docs = list(theirs.test_docs())
    assert [row["question_id"] for row in written.rows] == [doc["question_id"] for doc in docs]
    for row, doc in zip(written.rows, docs, strict=True):
        assert written.messages(row) == theirs.messages(doc)


def test_what_it_says_of_itself_is_what_lm_eval_has_and_the_name_of_the_task() -> None:
    theirs = lm_eval_task(GENERATE, {}).config.metadata
    assert WrittenTask(GENERATE, {"k": None}).metadata == {
        "task": GENERATE,
        **{name: theirs[name] for name in ("roles", "overlength", "memory", "data", "data_digest")},
    }


def test_the_file_of_a_task_is_read_with_what_it_includes() -> None:
    file = read_task_file(f"{GENERATE}_nocontext")
    assert (file["test_split"], file["dataset_kwargs"]) == ("32k", {"context": "none"})
    assert file["class"] == "personamem_builder.evaluation.task.PersonaMemTask"
    assert file["generation_kwargs"]["max_gen_toks"] == 2048


def test_a_reply_that_was_cut_or_refused_is_read_as_by_lm_eval() -> None:
    written = WrittenTask(GENERATE, {})
    row = {**written.rows[0], "answer_index": 1}
    expected = [
        (Reply("Not (a), but (b)"), ("b", 1.0)),
        (Reply("Not (a), but (b)", "cut"), ("", 0.0)),
        (Reply("<final_answer>(b)", "cut"), ("b", 1.0)),
        (Reply("<final_answer>(b)", "refused"), ("", 0.0)),
    ]
    for reply, extracted in expected:
        assert written.extracted("robust", reply, row) == extracted


def test_lengths_count_the_history_and_the_reply() -> None:
    written = WrittenTask(GENERATE, {"overlength": "skip"})
    overlong = written.overlong(30_500)
    assert 0 < len(overlong) < len(written.rows)
    assert min(row["context_length_in_tokens"] for row in overlong) > 25_000
    assert written.overlong(1_000_000) == []
    assert WrittenTask(f"{GENERATE}_nocontext", {}).overlong(4_000) == []
    with pytest.raises(UserError, match=rf"{len(overlong)} of {len(written.rows)} questions are too long"):
        WrittenTask(GENERATE, {}).overlong(30_500)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"roles": "odd"}, "roles=odd: no such value"),
        ({"overlength": "left"}, "overlength=left: no such value"),
        ({"data": "nowhere"}, "nowhere is not a personamem dataset folder"),
        ({"split": "9k"}, "9k"),
        ({"memory": "mine"}, "memory=mine: no such value"),
    ],
    ids=str,
)
def test_what_is_no_setting_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        WrittenTask(GENERATE, given)


# ---- on the Hub


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return make_dataset(tmp_path_factory.mktemp("written") / "personamem")


@pytest.fixture(scope="module")
def client(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    with (
        LoopbackHub({"org/ours": {"v1.0.0": files}}) as hub,
        HubClient(hub.url, tmp_path_factory.mktemp("client")) as process,
    ):
        yield process


@pytest.mark.parametrize("given", [{"repo": "org/ours", "revision": "v1.0.0"}, {"data": "org/ours@v1.0.0"}], ids=str)
def test_data_may_be_on_the_hub(given: dict[str, Any], client: HubClient, files: dict[str, bytes]) -> None:
    metadata, messages = client.call(hub_reads.ask_elsewhere, GENERATE, given)
    digest = json.loads(files["manifest.json"])["digest"]
    assert metadata.items() >= {"repo": "org/ours", "commit": commit_id(files), "data_digest": digest}.items()
    assert "user of 32k-00" in json.dumps(messages["32k-00-2"])
