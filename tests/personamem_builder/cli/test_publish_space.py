"""Publishing a Space from end to end: the real client library, a Hub on this machine."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Outcome, fails, personamem
from hub_client import HubClient
from loopback_hub import READER, WRITER, LoopbackHub
from small_results import right, right_half_the_time, write_results

REPO = "org/board"
ON_HUB = f"spaces/{REPO}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient]) -> LoopbackHub:
    return served[0].reset({})


@pytest.fixture
def publish(served: tuple[LoopbackHub, HubClient], hub: LoopbackHub):
    def run(folder: Path, *options: str, token: str = WRITER) -> Outcome:
        outcome: Outcome = served[1].call(personamem, "publish-space", str(folder), REPO, *options, token=token)
        return outcome

    return run


@pytest.fixture(scope="module")
def made(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Spaces: one with two histories in its viewer, and one of another model with one."""
    folder = tmp_path_factory.mktemp("spaces")
    for name, choose, contexts in (("first", right, 2), ("second", right_half_the_time, 1)):
        write_results(folder / f"{name}-results", generated, "org/model", choose)
        arguments = ("--results", folder / f"{name}-results", "--data", generated, "--contexts", contexts)
        done = personamem("space", "--out", folder / name, *arguments)
        assert done.exit_code == 0, done.err
    return folder


@pytest.fixture
def first(made: Path, tmp_path: Path) -> Path:
    """A Space in a folder whose name has a blank and letters that are not ASCII."""
    return Path(shutil.copytree(made / "first", tmp_path / "erster Raum ü"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def on_hub(hub: LoopbackHub) -> dict[str, bytes]:
    repo = hub.repos[ON_HUB]
    return dict(repo.commits[repo.branches["main"]])


def test_a_dry_run_tells_the_plan_and_changes_nothing(publish, hub, first):
    outcome = publish(first, "--dry-run")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.out.startswith(f"space {REPO} (public), branch main\nthe repository is new\n+ README.md (")
    assert "+ viewer/data/0/context-1.js (" in outcome.out
    assert "+sdk: static" in outcome.out
    assert "nothing was changed" in outcome.err
    assert hub.repos == {}
    assert hub.writes() == []


def test_the_space_on_the_hub_is_the_folder_byte_for_byte(publish, hub, first):
    outcome = publish(first, "--private")
    assert outcome.exit_code == 0, outcome.err
    there = on_hub(hub)
    assert {name: there[name] for name in contents(first)} == contents(first)
    repo = hub.repos[ON_HUB]
    assert (repo.sdk, repo.private, repo.tags) == ("static", True, {})
    assert len(repo.commits) == 2, "the Hub's first commit and ours"
    assert f"{REPO}: commit {repo.branches['main']}, read back, all {len(contents(first))} files" in outcome.out

    assert outcome.out.endswith(f"{hub.url}/spaces/{REPO}\n")

    hub.requests.clear()
    again = publish(first)
    assert f"{REPO} holds exactly this already: nothing to do" in again.out
    assert hub.writes() == []


def test_what_an_older_space_had_goes_and_what_others_added_stays(publish, hub, first, made):
    publish(first)
    repo = hub.repos[ON_HUB]
    repo.commit("main", {**on_hub(hub), "LICENSE": b"by hand"}, "by hand")
    assert publish(made / "second").exit_code == 0
    there = on_hub(hub)
    assert there.pop("LICENSE") == b"by hand"
    there.pop(".gitattributes")
    assert there == contents(made / "second")
    assert "viewer/data/0/context-1.js" in contents(first)


def test_a_push_that_was_interrupted_is_finished_by_the_same_command(publish, hub, first):
    hub.dies_at = "commit"
    outcome = publish(first)
    assert outcome.exit_code == 1
    assert f"publishing space {REPO}" in outcome.err
    hub.revive()
    assert publish(first).exit_code == 0
    assert contents(first).items() <= on_hub(hub).items()


def test_a_folder_with_a_secret_is_refused(publish, hub, made, generated, tmp_path):
    key = "sk-ant-" + "a1B2" * 8
    folder = tmp_path / "results"
    path = write_results(folder, generated, f"model?key={key}", right)
    assert key in path.read_text()
    personamem("space", "--out", tmp_path / "out", "--results", folder, "--data", generated)
    outcome = publish(tmp_path / "out")
    fails(outcome, f"{tmp_path / 'out'} cannot be published: a secret: index.html, line ", "take it out")
    assert "Anthropic key sk-a… (39 characters)" in outcome.err
    assert key not in outcome.err
    assert hub.repos == {}


def test_a_folder_that_is_no_space_or_was_changed_is_refused(publish, hub, first, tmp_path):
    fails(
        publish(tmp_path), f"{tmp_path} is not a Space: it has no space.json", "make one: personamem space --out FOLDER"
    )
    page = first / "index.html"
    page.write_text(page.read_text().replace("100.0", "200.0"))
    fails(publish(first), f"{first}: index.html is not as it was written", "make it again: personamem space")
    page.unlink()
    fails(publish(first), f"{first}: index.html is not as it was written")
    listed = json.loads((first / "space.json").read_text())
    listed["files"]["../secret"] = hashlib.sha256(b"").hexdigest()
    (first / "space.json").write_text(json.dumps(listed))
    fails(publish(first), f"{first / 'space.json'}: files")
    assert hub.repos == {}


def test_who_may_not_write_is_told(publish, hub, first):
    fails(publish(first, token=""), f"without a token, no space {REPO} can be seen on", "log in")
    outcome = publish(first, token=READER)
    assert outcome.exit_code == 1
    assert f"error: the token may not write to space {REPO}" in outcome.err
