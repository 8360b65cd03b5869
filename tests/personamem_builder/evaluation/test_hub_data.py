"""Tasks whose data are on the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator

import hub_reads
import pytest
from hub_client import HubClient
from hub_reads import counted_bytes, make_dataset
from loopback_hub import LoopbackHub, commit_id

from generation.errors import UserError

OURS = "org/ours"
CONTEXTS = "data/shared_contexts_32k.parquet"
AT_V1 = {"repo": OURS, "revision": "v1.0.0"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return make_dataset(tmp_path_factory.mktemp("written") / "personamem")


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackHub]:
    with LoopbackHub({}) as server:
        yield server


@pytest.fixture
def hub(server: LoopbackHub, files: dict[str, bytes]) -> LoopbackHub:
    return server.reset({OURS: {"v1.0.0": files, "main": files | {"README.md": b"newer"}}})


@pytest.fixture(scope="module")
def process(server: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    with HubClient(server.url, tmp_path_factory.mktemp("client")) as process:
        yield process


@pytest.fixture
def client(process: HubClient) -> HubClient:
    return process.forget()


@pytest.mark.slow
def test_a_limited_run_reads_a_part_and_a_whole_one_downloads_once(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    with counted_bytes() as sent:
        some = client.call(hub_reads.evaluate, "personamem_32k", AT_V1, 3)
        assert len(some["prompts"]) == 3
        # Two of twelve row groups, and twice the end of the file, in which they are listed.
        assert 50_000 < sent[CONTEXTS] < len(files[CONTEXTS]) / 2
        assert not [name for name in sent if "128k" in name]
    metadata = some["metadata"]["personamem_32k"]
    assert metadata.items() >= {**AT_V1, "commit": commit_id(files)}.items()
    assert metadata["data_digest"] == json.loads(files["manifest.json"])["digest"]

    with counted_bytes() as sent:
        whole = client.call(hub_reads.evaluate, "personamem_32k", AT_V1)
        assert len(whole["prompts"]) == 24
        assert sent == {CONTEXTS: len(files[CONTEXTS])}
    assert whole["prompts"].items() >= some["prompts"].items()
    assert "user of 32k-00" in whole["prompts"]["32k-00-2"]

    for limit in (None, 3):
        with counted_bytes() as sent:
            client.call(hub_reads.evaluate, "personamem_32k", AT_V1, limit)
            assert sent == {}


@pytest.mark.slow
def test_a_limit_beyond_what_is_kept_in_memory_downloads_the_file(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    with counted_bytes() as sent:
        client.call(hub_reads.evaluate, "personamem_32k", AT_V1, 11)
        assert len(files[CONTEXTS]) < sent[CONTEXTS] < 1.5 * len(files[CONTEXTS])


def test_runs_without_context_fetch_none(hub: LoopbackHub, client: HubClient) -> None:
    # `data` may name the place too, and the revision in its name is not overridden.
    tasks, metadata = "personamem_32k_nocontext,personamem_128k_nocontext", {"data": f"{OURS}@v1.0.0", "revision": "v9"}
    got = client.call(hub_reads.evaluate, tasks, metadata)
    assert not [name for name in hub.fetched() if "contexts" in name]
    assert all(found.items() >= AT_V1.items() for found in got["metadata"].values())
    # The tasks do not see what each other found out.
    assert len(client.call(hub_reads.evaluate, tasks, AT_V1)["metadata"]) == 2


def test_a_corrupted_file_of_contexts_stops_the_run(hub: LoopbackHub, client: HubClient) -> None:
    hub.corrupt.add(CONTEXTS)
    with pytest.raises(UserError, match=f"{CONTEXTS} is not what its manifest says"):
        client.call(hub_reads.evaluate, "personamem_32k", AT_V1)


def test_another_file_than_that_of_the_manifest_is_not_read_in_part(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    changed = files[CONTEXTS][:100_000] + b"x" + files[CONTEXTS][100_001:]
    hub.repos["org/changed"] = type(hub.repos[OURS]).of({"main": files | {CONTEXTS: changed}})
    with counted_bytes() as sent, pytest.raises(UserError, match=f"{CONTEXTS} is not what its manifest says"):
        client.call(hub_reads.evaluate, "personamem_32k", {"repo": "org/changed"}, 3)
    assert CONTEXTS not in sent


def test_a_hub_that_fails_while_it_is_read_is_explained(
    hub: LoopbackHub, client: HubClient, files: dict[str, bytes]
) -> None:
    gated = {"repo": "org/gated"}
    hub.repos["org/gated"] = type(hub.repos[OURS]).of({"main": files})
    client.call(hub_reads.evaluate, "personamem_32k_nocontext", gated)
    hub.gated.add("org/gated")
    with pytest.raises(UserError, match="dataset org/gated is gated"):
        client.call(hub_reads.evaluate, "personamem_32k", gated, 3)


def test_what_the_metadata_ask_for_must_be_one_thing(client: HubClient) -> None:
    for other in ({"data": "personamem"}, {"config": "x.yaml"}):
        with pytest.raises(UserError, match="has both repo=org/ours and"):
            client.call(hub_reads.evaluate, "personamem_32k", AT_V1 | other)
    with pytest.raises(UserError, match="has no revision v9"):
        client.call(hub_reads.evaluate, "personamem_32k", AT_V1 | {"revision": "v9"})
    with pytest.raises(UserError, match="'no-name' cannot be a dataset on the Hub"):
        client.call(hub_reads.evaluate, "personamem_32k", {"repo": "no-name"})
