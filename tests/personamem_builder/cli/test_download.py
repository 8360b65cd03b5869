"""`personamem download` and `personamem diff` with datasets on the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import hub_reads
import pytest
from hub_client import HubClient
from hub_reads import files_of, make_dataset
from loopback_hub import LoopbackHub, commit_id

from generation.errors import UserError
from personamem_builder.dataset.folder import changed_files
from personamem_builder.dataset.load import iter_examples

OURS = "org/ours"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return make_dataset(tmp_path_factory.mktemp("written") / "personamem")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient], files: dict[str, bytes], tmp_path: Path) -> LoopbackHub:
    newer = make_dataset(tmp_path / "newer", license="cc-by-4.0")
    return served[0].reset({OURS: {"v1.0.0": files, "main": newer}})


@pytest.fixture
def client(served: tuple[LoopbackHub, HubClient]) -> HubClient:
    return served[1].forget()


@pytest.mark.slow
def test_download_and_diff(hub: LoopbackHub, client: HubClient, files: dict[str, bytes], tmp_path: Path) -> None:
    cached = Path(client.call(hub_reads.command, "download", OURS, "--revision", "v1.0.0").strip())
    needed = {name: content for name, content in files.items() if not name.startswith("figures/")}
    assert (cached.name, files_of(cached)) == (commit_id(files), needed)
    said = client.said.read_text()
    assert f"content digest {json.loads(files['manifest.json'])['digest']}" in said
    assert "4 data files" in said

    out = tmp_path / "wählbar 1" / "my data"
    assert client.call(hub_reads.command, "download", f"{OURS}@v1.0.0", "--out", str(out)) == f"{out}\n"
    assert files_of(out) == files
    assert not any(path.is_symlink() for path in out.rglob("*"))
    with pytest.raises(UserError, match="exists and is not empty"):
        client.call(hub_reads.command, "download", OURS, "--out", str(out))

    some = tmp_path / "some"
    client.call(hub_reads.command, "download", OURS, "--split", "128k", "--out", str(some))
    assert changed_files(some) == ["data/questions_32k.parquet", "data/shared_contexts_32k.parquet"]
    assert len(list(iter_examples("128k", data=some))) == 4

    printed = client.call(hub_reads.command, "diff", f"{OURS}@v1.0.0", OURS)
    assert printed == "the manifest has another license\npatch change: 1.0.0 → 1.0.1\n"
    printed = client.call(hub_reads.command, "diff", "--json", str(out), f"{OURS}@v1.0.0")
    assert json.loads(printed)["bump"] == "none"
    assert client.call(hub_reads.command, "diff", str(out), f"{OURS}@v1.0.0") == "the data are equal\n"


def test_a_corrupted_download_makes_no_folder(hub: LoopbackHub, client: HubClient, tmp_path: Path) -> None:
    hub.corrupt.add("data/shared_contexts_128k.parquet")
    with pytest.raises(UserError, match=r"data/shared_contexts_128k\.parquet is not what its manifest says"):
        client.call(hub_reads.command, "download", OURS, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
