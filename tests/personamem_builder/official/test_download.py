from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hub_reads
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_client import HubClient
from loopback_hub import LoopbackHub, commit_id

from generation.errors import UserError
from personamem_builder.hub.download import OFFICIAL_REPO_IDS, download_dataset
from personamem_builder.official.download import (
    OFFICIAL_REVISION,
    OFFICIAL_SHA256,
    ReleaseDownload,
    download_release,
)
from personamem_builder.schema import SPLITS

FIRST, SECOND = OFFICIAL_REPO_IDS
REAL_FILES = Path(__file__).parents[4] / "shared" / "data" / "personamem_v1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient]) -> LoopbackHub:
    return served[0].reset({})


@pytest.fixture
def client(served: tuple[LoopbackHub, HubClient]) -> HubClient:
    return served[1].forget()


@pytest.fixture(scope="module")
def offline(served: tuple[LoopbackHub, HubClient]) -> Iterator[HubClient]:
    """Another process with the same cache that may ask nobody."""
    with HubClient(served[0].url, served[1].folder, HF_HUB_OFFLINE="1") as client:
        yield client


@pytest.fixture(scope="module")
def cut_off(served: tuple[LoopbackHub, HubClient]) -> Iterator[HubClient]:
    """Another process with the same cache, for which nobody answers at the address of the Hub."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    with HubClient(url, served[1].folder) as client:
        yield client


@pytest.fixture(scope="module")
def plain(served: tuple[LoopbackHub, HubClient], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    """A process without this package."""
    with HubClient(served[0].url, tmp_path_factory.mktemp("plain")) as client:
        yield client


def fetch(client: HubClient, *splits: str, **more: Any) -> ReleaseDownload:
    got: ReleaseDownload = client.call(download_release, splits=splits, **more)
    return got


def refused(client: HubClient, function: Any, *args: Any, **more: Any) -> UserError:
    with pytest.raises(UserError) as raised:
        client.call(function, *args, **more)
    return raised.value


def release(*splits: str) -> dict[str, bytes]:
    """Files with the names of the official ones; what is in them does not matter here."""
    names = [name for split in splits for name in (f"questions_{split}.csv", f"shared_contexts_{split}.jsonl")]
    return {name: f"the content of {name}\n".encode() * 50 for name in names} | {"README.md": b"# PersonaMem\n"}


def manifest_of(files: Mapping[str, bytes], **more: object) -> bytes:
    entries = {name: {"sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()}
    return json.dumps({"splits": {"128k": {}}, "files": entries, **more}).encode()


def dataset() -> dict[str, bytes]:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"question_id": ["a", "b"]}), sink)
    content = sink.getvalue().to_pybytes()
    tables = {f"data/{table}_128k.parquet": content for table in ("questions", "shared_contexts")}
    data_files = [{"split": "128k", "path": "data/questions_128k.parquet"}]
    card = json.dumps({"configs": [{"config_name": "benchmark", "data_files": data_files}]})
    return {
        "README.md": f"---\n{card}\n---\n# Ours\n".encode(),
        "manifest.json": manifest_of(tables),
        **tables,
        "notes/big.bin": b"not part of the dataset folder",
    }


def test_only_the_files_of_the_requested_splits_are_fetched(hub: LoopbackHub, client: HubClient) -> None:
    hub.reset({FIRST: {OFFICIAL_REVISION: release(*SPLITS)}})
    got = fetch(client, "128k")
    assert sorted(hub.fetched()) == ["questions_128k.csv", "shared_contexts_128k.jsonl"]
    assert (got.repo_id, got.revision) == (FIRST, OFFICIAL_REVISION)
    for name in ("questions_128k.csv", "shared_contexts_128k.jsonl"):
        assert (got.folder / name).read_bytes() == release("128k")[name]


def test_the_second_name_is_tried_when_the_first_does_not_exist(hub: LoopbackHub, client: HubClient) -> None:
    hub.reset({SECOND: {OFFICIAL_REVISION: release("128k", "1M")}})
    assert fetch(client, "128k", "1M").repo_id == SECOND
    assert len(hub.fetched()) == 4


def test_a_branch_is_resolved_to_its_commit(hub: LoopbackHub, client: HubClient) -> None:
    files = release("32k")
    hub.reset({FIRST: {"main": files}})
    # Other bytes than the published ones are no error here: the digests belong to the pinned commit.
    assert fetch(client, "32k", revision="main").revision == commit_id(files)


def test_what_was_downloaded_is_not_fetched_again_and_serves_without_the_hub(
    hub: LoopbackHub, client: HubClient, offline: HubClient, cut_off: HubClient
) -> None:
    hub.reset({SECOND: {OFFICIAL_REVISION: release("1M")}})
    first = fetch(client, "1M")
    hub.requests.clear()
    assert fetch(client, "1M") == first
    assert hub.fetched() == []
    assert fetch(offline, "1M") == fetch(cut_off, "1M") == first
    refused(cut_off, download_release, splits=["1M", "128k"])


def test_wrong_bytes_at_the_pinned_commit_are_refused(hub: LoopbackHub, client: HubClient) -> None:
    files = release("32k")
    hub.reset({FIRST: {OFFICIAL_REVISION: files}})
    message = refused(client, download_release, ["32k"]).message
    assert "questions_32k.csv" in message
    assert OFFICIAL_SHA256["questions_32k.csv"] in message
    assert hashlib.sha256(files["questions_32k.csv"]).hexdigest() in message


def test_the_real_files_pass_and_a_damaged_copy_is_found_and_replaced(hub: LoopbackHub, client: HubClient) -> None:
    if not REAL_FILES.is_dir():
        pytest.skip("the official 32k files are not beside this checkout (shared/data/personamem_v1)")
    files = {name: (REAL_FILES / name).read_bytes() for name in OFFICIAL_SHA256}
    hub.reset({FIRST: {OFFICIAL_REVISION: files}})
    questions = fetch(client, "32k").folder / "questions_32k.csv"
    assert questions.read_bytes() == files["questions_32k.csv"]

    copy = questions.resolve()
    copy.chmod(0o644)
    copy.write_bytes(b"damaged")
    error = refused(client, download_release, ["32k"])
    assert "questions_32k.csv" in error.message
    assert f"delete {copy} " in error.hint

    copy.unlink()
    assert fetch(client, "32k").folder == questions.parent
    assert questions.read_bytes() == files["questions_32k.csv"]


def test_unknown_revision(hub: LoopbackHub, client: HubClient) -> None:
    hub.reset({FIRST: {"main": release("128k")}})
    error = refused(client, download_release, ["128k"], revision="v9")
    assert error.message == f"dataset {FIRST} has no revision v9"
    assert "branch or tag" in error.hint


def test_missing_file(hub: LoopbackHub, client: HubClient) -> None:
    hub.reset({FIRST: {OFFICIAL_REVISION: release("32k")}})
    message = refused(client, download_release, ["32k", "1M"]).message
    assert hub.fetched() == [], "nothing is downloaded for a release that lacks files"
    for part in (FIRST, OFFICIAL_REVISION, "questions_1M.csv", "shared_contexts_1M.jsonl"):
        assert part in message
    assert "32k" not in message


def test_missing_repository(hub: LoopbackHub, client: HubClient) -> None:
    error = refused(client, download_release)
    assert error.message == f"there is no dataset {FIRST} or {SECOND} at {hub.url}"
    assert "HF_TOKEN" in error.hint
    assert "import-official FOLDER" in error.hint


def test_gated_repository(hub: LoopbackHub, client: HubClient) -> None:
    hub.reset({FIRST: {OFFICIAL_REVISION: release("1M")}}).gated.add(FIRST)
    error = refused(client, download_release, ["1M"])
    assert error.message == f"dataset {FIRST} is gated"
    assert "hf auth login" in error.hint


def test_an_unreachable_hub_is_a_quick_clear_error(client: HubClient, cut_off: HubClient) -> None:
    seconds, error = cut_off.call(hub_reads.seconds_of_failure, download_release)
    assert seconds + sum(cut_off.waits) < 5
    assert cut_off.url in error.message
    assert "import-official FOLDER" in error.hint
    assert "HF_ENDPOINT" in error.hint


@pytest.mark.slow
def test_a_silent_hub_is_given_up_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with HubClient(url, tmp_path, HF_HUB_ETAG_TIMEOUT="1") as client:
            seconds, error = client.call(hub_reads.seconds_of_failure, download_release)
    assert seconds + sum(client.waits) < 10
    assert f"cannot download dataset {FIRST} or {SECOND} from {url}" in error.message


def test_offline_mode_without_a_copy(hub: LoopbackHub, client: HubClient, offline: HubClient) -> None:
    hub.reset({FIRST: {OFFICIAL_REVISION: release("1M")}})
    error = refused(offline, download_release, ["1M"])
    assert hub.requests == []
    assert "HF_HUB_OFFLINE" in error.message
    assert "import-official FOLDER" in error.hint


def test_a_download_that_breaks_off_can_be_run_again(hub: LoopbackHub, client: HubClient) -> None:
    files = release("1M")
    hub.reset({FIRST: {OFFICIAL_REVISION: files}}).cut["shared_contexts_1M.jsonl"] = 100
    error = refused(client, download_release, ["1M"])
    assert f"cannot download dataset {FIRST} from {hub.url}" in error.message
    assert "rerun the command" in error.hint

    hub.cut.clear()
    hub.requests.clear()
    got = fetch(client, "1M")
    assert hub.fetched() == ["shared_contexts_1M.jsonl"], "the other file had arrived"
    name = "shared_contexts_1M.jsonl"
    assert (got.folder / name).read_bytes() == files[name]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written(hub: LoopbackHub, tmp_path: Path) -> None:
    cache = tmp_path / "file"
    cache.touch()
    hub.reset({FIRST: {OFFICIAL_REVISION: release("1M")}})
    with HubClient(hub.url, tmp_path, HF_HUB_CACHE=str(cache)) as client:
        error = refused(client, download_release, ["1M"])
    assert error.message.startswith(f"cannot store dataset {FIRST} in {cache}: ")
    assert "HF_HOME" in error.hint


def test_one_of_our_datasets(hub: LoopbackHub, client: HubClient, offline: HubClient) -> None:
    old = manifest_of({name: one for name, one in dataset().items() if name.startswith("data/")}, version="0.1.0")
    hub.reset({"org/ours": {"main": dataset(), "v1": dataset() | {"manifest.json": old}}})
    newest = client.call(download_dataset, "org/ours")
    tagged = client.call(download_dataset, "org/ours", revision="v1")
    assert "notes/big.bin" not in hub.fetched()
    assert (newest / "manifest.json").read_bytes() == dataset()["manifest.json"]
    assert (tagged / "manifest.json").read_bytes() == old
    assert sorted(p.relative_to(newest).as_posix() for p in newest.rglob("*") if p.is_file()) == [
        "README.md",
        "data/questions_128k.parquet",
        "data/shared_contexts_128k.parquet",
        "manifest.json",
    ]
    assert offline.call(download_dataset, "org/ours") == newest


@pytest.mark.parametrize(
    ("repo_id", "message", "hint"),
    [
        (
            "org/other",
            "dataset org/other at revision main has no manifest.json",
            "not a dataset made by personamem",
        ),
        (FIRST, f"dataset {FIRST} at revision main has no manifest.json", "personamem import-official --hub"),
        ("org/none", "there is no dataset org/none at ", "hf auth login"),
        ("a/b/c", "'a/b/c' cannot be a dataset on the Hub", "ORG/NAME"),
    ],
)
def test_not_one_of_our_datasets(hub: LoopbackHub, client: HubClient, repo_id: str, message: str, hint: str) -> None:
    hub.reset({"org/other": {"main": {"README.md": b""}}, FIRST: {"main": release("32k")}})
    error = refused(client, download_dataset, repo_id)
    assert hub.fetched() == []
    assert message in error.message
    assert hint in error.hint


@pytest.mark.parametrize("streaming", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_loopback_hub_serves_load_dataset(hub: LoopbackHub, plain: HubClient, streaming: bool) -> None:
    hub.reset({"org/ours": {"main": dataset()}})
    rows = plain.forget().call(hub_reads.load, "org/ours", split="128k", streaming=streaming, ours=False)
    assert [row["question_id"] for row in rows] == ["a", "b"]
    assert "data/questions_128k.parquet" in hub.fetched()


def test_the_loopback_hub_answers_the_other_reads_of_the_client_library(hub: LoopbackHub, plain: HubClient) -> None:
    hub.reset({"org/ours": {"main": dataset(), "v1": {"manifest.json": b"0123456789"}}})
    assert plain.call(hub_reads.read_api, "org/ours") == {
        "refs": ["main", "v1"],
        "tree": ["README.md", "data", "manifest.json", "notes"],
        "folder": ["data/questions_128k.parquet", "data/shared_contexts_128k.parquet"],
        "paths": ["data", "manifest.json"],
        "exist": [False, False],
        "part": b"234",
    }
