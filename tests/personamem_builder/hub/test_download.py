"""Datasets of ours on the Hub, read by the real client library and by `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hub_reads
import pytest
from hub_client import HubClient
from hub_reads import CONTEXTS, counted_bytes, make_dataset
from loopback_hub import LoopbackHub, commit_id

from generation.errors import UserError
from personamem_builder.dataset.load import iter_examples, load_dataset
from personamem_builder.dataset.locate import hub_source, resolve_data
from personamem_builder.hub.download import download_dataset

OURS = "org/ours"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return make_dataset(tmp_path_factory.mktemp("written") / "personamem")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient], files: dict[str, bytes]) -> LoopbackHub:
    newer = files | {"README.md": files["README.md"] + b"\nA second version.\n"}
    revisions = {"v1.0.0": files, "main": newer}
    return served[0].reset({OURS: revisions, "org/other": {"main": {"data.jsonl": b'{"x": 1}\n'}}})


@pytest.fixture
def client(served: tuple[LoopbackHub, HubClient], hub: LoopbackHub) -> HubClient:
    return served[1].forget()


@pytest.fixture(scope="module")
def plain(served: tuple[LoopbackHub, HubClient], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    """A process without this package."""
    with HubClient(served[0].url, tmp_path_factory.mktemp("plain")) as client:
        yield client


def assert_rows(rows: list[dict[str, Any]], split: str, count: int | None = None) -> None:
    assert len(rows) == (2 * CONTEXTS[split] if count is None else count)
    for row in rows:
        key, end = row["shared_context_id"], row["end_index_in_shared_context"]
        assert key.startswith(f"{split}-")
        assert len(row["context"]) == end
        assert row["context"][1] == {"role": "user", "content": f"user of {key}"}


def test_download_fetches_what_is_asked_for_and_nothing_twice(hub: LoopbackHub, client: HubClient) -> None:
    folder = client.call(download_dataset, OURS, "v1.0.0", ["128k"])
    data = ["data/questions_128k.parquet", "data/shared_contexts_128k.parquet"]
    assert sorted(hub.fetched()) == ["README.md", *data, "manifest.json"]

    hub.requests.clear()
    assert client.call(download_dataset, OURS, "v1.0.0") == folder
    assert sorted(hub.fetched()) == ["data/questions_32k.parquet", "data/shared_contexts_32k.parquet"]

    hub.requests.clear()
    assert client.call(download_dataset, OURS, "v1.0.0") == folder
    assert hub.fetched() == []


def test_a_corrupted_file_is_refused_and_not_used_again(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    name = "data/questions_32k.parquet"
    hub.corrupt.add(name)
    for _ in range(2):
        hub.requests.clear()
        with pytest.raises(UserError) as raised:
            client.call(download_dataset, OURS, "v1.0.0", ["32k"])
        assert f"{name} is not what its manifest says" in raised.value.message
        assert "rerun the command" in raised.value.hint
        assert name in hub.fetched()
    hub.corrupt.clear()
    folder = client.call(download_dataset, OURS, "v1.0.0", ["32k"])
    assert (folder / name).read_bytes() == files[name]


def test_what_cannot_be_had_is_said(hub: LoopbackHub, client: HubClient, files: dict[str, bytes]) -> None:
    def error(*args: Any, token: str = "") -> UserError:
        with pytest.raises(UserError) as raised:
            client.call(download_dataset, *args, token=token)
        return raised.value

    assert error(OURS, "v9").message == f"dataset {OURS} has no revision v9"
    assert error(OURS, "v1.0.0", ["64k"]).message == (
        f"dataset {OURS} at revision v1.0.0 has no split 64k, it has 32k, 128k"
    )
    assert "no manifest.json" in error("org/other").message
    hub.repos[OURS].commits["f" * 40] = {"manifest.json": b'{"splits": {"32k": {}}, "files": {"../x": {}}}'}
    assert "manifest.json that is not ours" in error(OURS, "f" * 40).message
    hub.repos[OURS].private = True
    private = error(OURS, "v1.0.0")
    assert "there is no dataset" in private.message
    assert "HF_TOKEN" in private.hint
    assert client.call(download_dataset, OURS, "v1.0.0", token="hf_reader").name == commit_id(files)


def test_resolved_names_know_where_they_are_from(hub: LoopbackHub, client: HubClient, files: dict[str, bytes]) -> None:
    source = client.call(resolve_data, f"{OURS}@v1.0.0", splits=["128k"], contexts=False)
    assert (source.hub.repo_id, source.hub.revision, source.hub.commit) == (OURS, "v1.0.0", commit_id(files))
    assert source.origin == f"{OURS}@v1.0.0 on the Hub"
    assert "data/questions_128k.parquet" in hub.fetched()
    assert not [name for name in hub.fetched() if "32k" in name or "contexts" in name]


def test_our_own_functions_fetch_the_split_alone(hub: LoopbackHub, client: HubClient) -> None:
    rows = client.call(hub_reads.listed, iter_examples, "128k", data=OURS, revision="v1.0.0")
    assert_rows(rows, "128k")
    assert not [name for name in hub.fetched() if "32k" in name]
    rows = client.call(hub_reads.listed, load_dataset, "128k[:3]", data=OURS, revision="v1.0.0")
    assert_rows(rows, "128k", 3)
    assert "data/shared_contexts_32k.parquet" not in hub.fetched()


# `datasets.load_dataset("org/ours")`


@pytest.mark.usefixtures("hub")
@pytest.mark.slow
def test_plain_datasets_loads_questions_and_contexts(plain: HubClient) -> None:
    rows = plain.forget().call(hub_reads.load, OURS, split="128k", revision="v1.0.0", ours=False)
    assert len(rows) == 4
    assert "context" not in rows[0]
    rows = plain.call(hub_reads.load, OURS, "shared_contexts", split="128k", ours=False)
    assert [len(row["messages"]) for row in rows] == [3, 3]


def test_with_this_package_rows_have_their_context(hub: LoopbackHub, client: HubClient) -> None:
    with counted_bytes() as sent:
        assert_rows(client.call(hub_reads.load, OURS, split="128k", revision="v1.0.0"), "128k")
        assert "data/shared_contexts_128k.parquet" in sent
        assert "data/shared_contexts_32k.parquet" not in sent
    assert_rows(client.call(hub_reads.load, OURS, split="32k[:3]", revision="v1.0.0"), "32k", 3)
    assert {split: len(rows) for split, rows in client.call(hub_reads.load_all, OURS).items()} == {"32k": 24, "128k": 4}
    contexts = client.call(hub_reads.load, OURS, "shared_contexts", split="128k")
    assert "context" not in contexts[0]

    # Once it is here, it loads without the Hub.
    hub.requests.clear()
    rows = client.call(hub_reads.load_offline, OURS, split="128k", revision="v1.0.0")
    assert_rows(rows, "128k")
    assert hub.requests == []


def test_a_stream_reads_the_row_groups_that_it_needs(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    name = "data/shared_contexts_32k.parquet"
    with counted_bytes() as sent:
        rows = client.call(hub_reads.load, OURS, split="32k", revision="v1.0.0", streaming=True, take=3)
        assert_rows(rows, "32k", 3)
        # Two of twelve row groups, and twice the end of the file, in which the others are listed.
        assert 50_000 < sent[name] < len(files[name]) / 2
    with counted_bytes() as sent:
        rows = client.call(hub_reads.load, OURS, split="32k", revision="v1.0.0", streaming=True)
        assert_rows(rows, "32k")
        # A stream that goes on is not fetched group by group for ever: the file is downloaded, once.
        assert sent[name] < 2 * len(files[name])
    with counted_bytes() as sent:
        assert_rows(client.call(hub_reads.load, OURS, split="32k", revision="v1.0.0", streaming=True), "32k")
        assert name not in sent


def test_other_datasets_cost_no_request(hub: LoopbackHub, plain: HubClient, client: HubClient, tmp_path: Path) -> None:
    def asked(process: HubClient, *, ours: bool) -> list[str]:
        hub.requests.clear()
        assert process.forget().call(hub_reads.load, "org/other", split="train", ours=ours) == [{"x": 1}]
        return sorted(f"{r.method} {r.path}" for r in hub.requests)

    without, with_us = asked(plain, ours=False), asked(client, ours=True)
    assert with_us == without != []
    assert not [line for line in with_us if "manifest" in line]

    hub.requests.clear()
    assert client.call(hub_reads.load_offline, "org/other", split="train") == [{"x": 1}]
    (tmp_path / "rows.jsonl").write_text('{"x": 2}\n')
    rows = client.call(hub_reads.load, "json", data_files=str(tmp_path / "rows.jsonl"), split="train")
    assert rows == [{"x": 2}]
    assert hub.requests == []


def test_a_dataset_that_is_not_there_is_asked_for_by_datasets_alone(hub: LoopbackHub, client: HubClient) -> None:
    for name in ("org/none", "none"):
        with pytest.raises(RuntimeError):
            client.call(hub_reads.load, name, split="train")
    assert not [r for r in hub.requests if "manifest" in r.path]


def test_a_version_that_was_superseded_says_so_once(hub: LoopbackHub, client: HubClient, tmp_path: Path) -> None:
    old = make_dataset(tmp_path / "old", superseded_by=f"{OURS}@v2.0.0")
    hub.repos["org/old"] = type(hub.repos[OURS]).of({"main": old})
    warning = f"SupersededWarning: org/old@main on the Hub is superseded by {OURS}@v2.0.0: load that instead"
    assert client.call(hub_reads.warnings_of, hub_source, "org/old") == [warning]
    assert client.call(hub_reads.warnings_of, hub_source, "org/old") == []
    with HubClient(hub.url, tmp_path) as another:
        assert another.call(hub_reads.warnings_of, hub_reads.load, "org/old", split="128k") == [warning]
        assert another.call(hub_reads.warnings_of, hub_reads.load, str(tmp_path / "old"), split="128k") == []
    # And this process, which has not seen it yet.
    [of_folder] = hub_reads.warnings_of(hub_reads.load, str(tmp_path / "old"), split="128k")
    assert of_folder.startswith(f"SupersededWarning: {tmp_path / 'old'} is superseded by")
