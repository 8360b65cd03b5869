from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import LoopbackHub, commit_id

from personamem_builder.official.hub import OFFICIAL_REPO_IDS, OFFICIAL_REVISION, OFFICIAL_SHA256
from personamem_builder.schema import SPLITS

FIRST, SECOND = OFFICIAL_REPO_IDS
REAL_FILES = Path(__file__).parents[4] / "shared" / "data" / "personamem_v1"

# The client library reads the environment once, when it is imported: each call is a process of its own.
CHILD = """
import dataclasses, json, sys, time
from generation.errors import UserError
from personamem_builder.official import hub
assert "huggingface_hub" not in sys.modules, "importing the module must stay light"
name, arguments = json.loads(sys.argv[1])
import huggingface_hub  # not timed
start = time.monotonic()
try:
    got = getattr(hub, name)(**arguments)
    answer = dataclasses.asdict(got) if dataclasses.is_dataclass(got) else {"folder": got}
except UserError as error:
    answer = {"message": error.message, "hint": error.hint}
print(json.dumps(answer | {"seconds": time.monotonic() - start}, default=str))
"""

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run some code against an endpoint, with a Hub cache that lasts as long as the test."""

    def run_code(url: str, code: str, *arguments: str, **more: str) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and "proxy" not in k.lower()}
        env |= {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HF_ENDPOINT": url,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        }
        child = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=env | more,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert child.returncode == 0, child.stderr
        return child.stdout

    return run_code


@pytest.fixture
def call(run: Callable[..., str]) -> Call:
    """Call a function of the module by its name; a UserError comes back as its message and hint."""

    def call_function(url: str, name: str, env: Mapping[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(run(url, CHILD, json.dumps([name, arguments]), **(env or {})))
        return answer

    return call_function


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
    data_files = [{"split": "128k", "path": "data/benchmark-128k.parquet"}]
    card = json.dumps({"configs": [{"config_name": "benchmark", "data_files": data_files}]})
    return {
        "README.md": f"---\n{card}\n---\n# Ours\n".encode(),
        "manifest.json": manifest_of({"data/benchmark-128k.parquet": content}),
        "data/benchmark-128k.parquet": content,
        "notes/big.bin": b"not part of the dataset folder",
    }


def closed_port_url() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_only_the_files_of_the_requested_splits_are_fetched(call: Call) -> None:
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: release(*SPLITS)}}) as hub:
        got = call(hub.url, "download_release", splits=["128k"])
        assert sorted(hub.fetched()) == ["questions_128k.csv", "shared_contexts_128k.jsonl"]
    assert (got["repo_id"], got["revision"]) == (FIRST, OFFICIAL_REVISION)
    for name in ("questions_128k.csv", "shared_contexts_128k.jsonl"):
        assert (Path(got["folder"]) / name).read_bytes() == release("128k")[name]


def test_the_second_name_is_tried_when_the_first_does_not_exist(call: Call) -> None:
    with LoopbackHub({SECOND: {OFFICIAL_REVISION: release("128k", "1M")}}) as hub:
        got = call(hub.url, "download_release", splits=["128k", "1M"])
        assert len(hub.fetched()) == 4
    assert got["repo_id"] == SECOND


def test_a_branch_is_resolved_to_its_commit(call: Call) -> None:
    files = release("32k")
    with LoopbackHub({FIRST: {"main": files}}) as hub:
        # Other bytes than the published ones are no error here: the digests belong to the pinned commit.
        got = call(hub.url, "download_release", splits=["32k"], revision="main")
    assert got["revision"] == commit_id(files)


def test_what_was_downloaded_is_not_fetched_again_and_serves_without_the_hub(call: Call) -> None:
    with LoopbackHub({SECOND: {OFFICIAL_REVISION: release("1M")}}) as hub:
        first = call(hub.url, "download_release", splits=["1M"])
        hub.requests.clear()
        again = call(hub.url, "download_release", splits=["1M"])
        assert hub.fetched() == []
    offline = call(hub.url, "download_release", {"HF_HUB_OFFLINE": "1"}, splits=["1M"])
    hub_is_down = call(closed_port_url(), "download_release", splits=["1M"])
    for got in (again, offline, hub_is_down):
        assert got | {"seconds": 0} == first | {"seconds": 0}
    assert "message" in call(closed_port_url(), "download_release", splits=["1M", "128k"])


def test_wrong_bytes_at_the_pinned_commit_are_refused(call: Call) -> None:
    files = release("32k")
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: files}}) as hub:
        got = call(hub.url, "download_release", splits=["32k"])
    assert "questions_32k.csv" in got["message"]
    assert OFFICIAL_SHA256["questions_32k.csv"] in got["message"]
    assert hashlib.sha256(files["questions_32k.csv"]).hexdigest() in got["message"]


def test_the_real_files_pass_and_a_damaged_copy_is_found_and_replaced(call: Call) -> None:
    if not REAL_FILES.is_dir():
        pytest.skip("the official 32k files are not beside this checkout (shared/data/personamem_v1)")
    files = {name: (REAL_FILES / name).read_bytes() for name in OFFICIAL_SHA256}
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: files}}) as hub:
        got = call(hub.url, "download_release", splits=["32k"])
        questions = Path(got["folder"]) / "questions_32k.csv"
        assert questions.read_bytes() == files["questions_32k.csv"]

        copy = questions.resolve()
        copy.chmod(0o644)
        copy.write_bytes(b"damaged")
        got = call(hub.url, "download_release", splits=["32k"])
        assert "questions_32k.csv" in got["message"]
        assert f"delete {copy} " in got["hint"]

        copy.unlink()
        got = call(hub.url, "download_release", splits=["32k"])
    assert Path(got["folder"]) == questions.parent
    assert questions.read_bytes() == files["questions_32k.csv"]


def test_unknown_revision(call: Call) -> None:
    with LoopbackHub({FIRST: {"main": release("128k")}}) as hub:
        got = call(hub.url, "download_release", splits=["128k"], revision="v9")
    assert got["message"] == f"dataset {FIRST} has no revision v9"
    assert "branch or tag" in got["hint"]


def test_missing_file(call: Call) -> None:
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: release("32k")}}) as hub:
        got = call(hub.url, "download_release", splits=["32k", "1M"])
        assert hub.fetched() == [], "nothing is downloaded for a release that lacks files"
    for part in (FIRST, OFFICIAL_REVISION, "questions_1M.csv", "shared_contexts_1M.jsonl"):
        assert part in got["message"]
    assert "32k" not in got["message"]


def test_missing_repository(call: Call) -> None:
    with LoopbackHub({}) as hub:
        got = call(hub.url, "download_release")
    assert got["message"] == f"there is no dataset {FIRST} or {SECOND} at {hub.url}"
    assert "HF_TOKEN" in got["hint"]
    assert "import-official FOLDER" in got["hint"]


def test_gated_repository(call: Call) -> None:
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: release("1M")}}) as hub:
        hub.gated.add(FIRST)
        got = call(hub.url, "download_release", splits=["1M"])
    assert got["message"] == f"dataset {FIRST} is gated"
    assert "hf auth login" in got["hint"]


def test_an_unreachable_hub_is_a_quick_clear_error(call: Call) -> None:
    url = closed_port_url()
    got = call(url, "download_release")
    assert got["seconds"] < 5
    assert url in got["message"]
    assert "import-official FOLDER" in got["hint"]
    assert "HF_ENDPOINT" in got["hint"]


def test_a_silent_hub_is_given_up_on(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        got = call(url, "download_release", {"HF_HUB_ETAG_TIMEOUT": "1"})
    assert got["seconds"] < 10
    assert f"cannot download dataset {FIRST} or {SECOND} from {url}" in got["message"]


def test_offline_mode_without_a_copy(call: Call) -> None:
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: release("1M")}}) as hub:
        got = call(hub.url, "download_release", {"HF_HUB_OFFLINE": "1"}, splits=["1M"])
        assert hub.requests == []
    assert "HF_HUB_OFFLINE" in got["message"]
    assert "import-official FOLDER" in got["hint"]


@pytest.mark.slow
def test_a_download_that_breaks_off_can_be_run_again(call: Call) -> None:
    files = release("1M")
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: files}}) as hub:
        hub.cut["shared_contexts_1M.jsonl"] = 100
        got = call(hub.url, "download_release", splits=["1M"])
        assert f"cannot download dataset {FIRST} from {hub.url}" in got["message"]
        assert "run the same command again" in got["hint"]

        hub.cut.clear()
        hub.requests.clear()
        got = call(hub.url, "download_release", splits=["1M"])
        assert hub.fetched() == ["shared_contexts_1M.jsonl"], "the other file had arrived"
    name = "shared_contexts_1M.jsonl"
    assert (Path(got["folder"]) / name).read_bytes() == files[name]


def test_a_cache_that_cannot_be_written(call: Call, tmp_path: Path) -> None:
    cache = tmp_path / "file"
    cache.touch()
    with LoopbackHub({FIRST: {OFFICIAL_REVISION: release("1M")}}) as hub:
        got = call(hub.url, "download_release", {"HF_HUB_CACHE": str(cache)}, splits=["1M"])
    assert got["message"].startswith(f"cannot store dataset {FIRST} in {cache}: ")
    assert "HF_HOME" in got["hint"]


def test_one_of_our_datasets(call: Call) -> None:
    old = manifest_of({}, version="0.1.0")
    with LoopbackHub({"org/ours": {"main": dataset(), "v1": dataset() | {"manifest.json": old}}}) as hub:
        newest = Path(call(hub.url, "download_dataset", repo_id="org/ours")["folder"])
        tagged = Path(call(hub.url, "download_dataset", repo_id="org/ours", revision="v1")["folder"])
        assert "notes/big.bin" not in hub.fetched()
    assert (newest / "manifest.json").read_bytes() == dataset()["manifest.json"]
    assert (tagged / "manifest.json").read_bytes() == old
    assert sorted(p.relative_to(newest).as_posix() for p in newest.rglob("*") if p.is_file()) == [
        "README.md",
        "data/benchmark-128k.parquet",
        "manifest.json",
    ]
    offline = call(hub.url, "download_dataset", {"HF_HUB_OFFLINE": "1"}, repo_id="org/ours")
    assert Path(offline["folder"]) == newest


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
def test_not_one_of_our_datasets(call: Call, repo_id: str, message: str, hint: str) -> None:
    with LoopbackHub({"org/other": {"main": {"README.md": b""}}, FIRST: {"main": release("32k")}}) as hub:
        got = call(hub.url, "download_dataset", repo_id=repo_id)
        assert hub.fetched() == []
    assert message in got["message"]
    assert hint in got["hint"]


@pytest.mark.parametrize("streaming", ["", "streaming"])
def test_the_loopback_hub_serves_load_dataset(run: Callable[..., str], streaming: str) -> None:
    code = """
import sys, datasets
rows = datasets.load_dataset("org/ours", split="128k", streaming=bool(sys.argv[1]))
print([row["question_id"] for row in rows])
"""
    with LoopbackHub({"org/ours": {"main": dataset()}}) as hub:
        assert run(hub.url, code, streaming) == "['a', 'b']\n"
        assert "data/benchmark-128k.parquet" in hub.fetched()


def test_the_loopback_hub_answers_the_other_reads_of_the_client_library(run: Callable[..., str]) -> None:
    code = """
from huggingface_hub import HfApi, HfFileSystem
api, ours = HfApi(), {"repo_id": "org/ours", "repo_type": "dataset"}
refs = api.list_repo_refs(**ours)
print([ref.name for ref in refs.branches + refs.tags])
print([entry.path for entry in api.list_repo_tree(**ours)])
print([entry.path for entry in api.list_repo_tree(**ours, path_in_repo="data")])
print([entry.path for entry in api.get_paths_info(**ours, paths=["data", "manifest.json", "none"])])
print(api.file_exists("org/ours", "none", repo_type="dataset"), api.revision_exists(**ours, revision="none"))
with HfFileSystem().open("datasets/org/ours@v1/manifest.json", block_size=4) as file:
    file.seek(2)
    print(file.read(3))
"""
    with LoopbackHub({"org/ours": {"main": dataset(), "v1": {"manifest.json": b"0123456789"}}}) as hub:
        assert run(hub.url, code).splitlines() == [
            "['main', 'v1']",
            "['README.md', 'data', 'manifest.json', 'notes']",
            "['data/benchmark-128k.parquet']",
            "['data', 'manifest.json']",
            "False False",
            "b'234'",
        ]
