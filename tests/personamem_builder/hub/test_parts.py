"""Datasets on the Hub whose tables are several files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hub_reads
import pytest
from hub_client import HubClient
from hub_reads import CONTEXTS, counted_bytes, make_dataset
from loopback_hub import WRITER, LoopbackHub

from generation.errors import UserError
from personamem_builder.dataset.load import iter_examples
from personamem_builder.dataset.locate import remote_contexts
from personamem_builder.hub.download import download_dataset, download_files
from personamem_builder.publish.plan import make_plan
from personamem_builder.publish.push import push

OURS = "org/ours"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a file for each context, and several of questions."""
    folder = tmp_path_factory.mktemp("written") / "personamem"
    make_dataset(folder, file_limit=500)
    return folder


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, bytes]:
    return hub_reads.files_of(folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient], files: dict[str, bytes]) -> LoopbackHub:
    return served[0].reset({OURS: {"main": files}})


@pytest.fixture
def client(served: tuple[LoopbackHub, HubClient], hub: LoopbackHub) -> HubClient:
    return served[1].forget()


def part(number: int, split: str = "32k") -> str:
    return f"data/shared_contexts_{split}-{number:05}-of-{CONTEXTS[split]:05}.parquet"


def test_the_files_of_the_split_alone_are_fetched(hub: LoopbackHub, client: HubClient, files: dict[str, bytes]) -> None:
    client.call(download_dataset, OURS, None, ["32k"])
    own = sorted(name for name in files if name.startswith("data/") and "_32k-" in name)
    assert [name for name in own if "shared" in name] == [part(i) for i in range(12)]
    assert len(own) > 13
    assert sorted(hub.fetched()) == ["README.md", *own, "manifest.json"]


@pytest.mark.parametrize("streaming", [False, True])
def test_datasets_loads_them_with_their_contexts(hub: LoopbackHub, client: HubClient, streaming: bool) -> None:
    rows = client.call(hub_reads.load, OURS, split="32k", streaming=streaming)
    assert rows == client.call(hub_reads.listed, iter_examples, "32k", data=OURS)
    assert [row["question_id"] for row in rows] == [f"32k-{i:02}-{end}" for i in range(12) for end in (2, 3)]
    assert all(row["context"][1]["content"] == f"user of {row['shared_context_id']}" for row in rows)
    assert not [name for name in hub.fetched() if "128k" in name and "contexts" in name]


def test_a_few_contexts_are_read_from_their_files_alone(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    hub.reset({OURS: {"main": files | {"README.md": b"a commit of which nothing was opened yet"}}})
    commit = client.call(download_dataset, OURS, None, ["32k"], contexts=False).name
    with counted_bytes() as sent:
        remote = client.call(remote_contexts, OURS, commit, "32k", {"32k-07": 7, "32k-03": 3})
        assert [file.name for file in remote] == [part(i) for i in range(12)]
        assert set(sent) == {part(3), part(7)}
    with counted_bytes() as sent:  # as many row groups as would not be kept: their files are fetched
        assert client.call(remote_contexts, OURS, commit, "32k", {f"32k-{i:02}": i for i in range(5)}) == ()
        assert set(sent) == {part(i) for i in range(5)}
    hub.requests.clear()
    assert client.call(download_files, OURS, commit, [part(i) for i in range(5)]).name == commit
    assert hub.fetched() == []


def test_a_stream_takes_up_file_after_file(hub: LoopbackHub, client: HubClient) -> None:
    with counted_bytes() as sent:
        rows = client.call(hub_reads.load, OURS, split="32k", streaming=True, take=13)
    assert [len(row["context"]) for row in rows[:2]] == [2, 3]
    assert {name for name in sent if "contexts" in name} <= {part(i) for i in range(8)}


def test_a_download_that_was_interrupted_does_not_stand_in_the_way(hub: LoopbackHub, client: HubClient) -> None:
    commit = client.call(download_dataset, OURS, None, ["32k"], contexts=False).name
    client.call(download_files, OURS, commit, [part(0)])
    assert len(client.call(remote_contexts, OURS, commit, "32k", {"32k-07": 7})) == 12
    assert len(client.call(hub_reads.listed, iter_examples, "32k", data=OURS)) == 24


def test_a_manifest_that_lacks_a_file_is_refused(
    served: tuple[LoopbackHub, HubClient], files: dict[str, bytes]
) -> None:
    changed = files["manifest.json"].replace(part(5).encode(), b"data/other.parquet")
    served[0].reset({OURS: {"main": files | {"manifest.json": changed}}})
    with pytest.raises(UserError, match=f"{part(5)} is missing of 12 files"):
        served[1].forget().call(download_dataset, OURS)


def test_a_version_of_several_files_takes_the_place_of_one_of_one(
    served: tuple[LoopbackHub, HubClient], files: dict[str, bytes]
) -> None:
    hub, client = served
    old = {"data/questions_32k.parquet": b"x" * 100, part(0).replace("00012", "00099"): b"y", "data/notes.txt": b"z"}
    hub.reset({"org/set": {"main": old}})
    plan = client.forget().call(make_plan, "org/set", files, "v1.0.0", token=WRITER)
    deleted = [change.path for change in plan.changes if change.kind == "delete"]
    assert deleted == sorted(set(old) - {"data/notes.txt"})
    client.call(push, plan, files, token=WRITER)
    repo = hub.repos["org/set"]
    assert set(repo.commits[repo.tags["v1.0.0"]]) == {*files, "data/notes.txt"}
