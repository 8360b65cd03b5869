from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hub_client import HubClient
from loopback_hub import READER, WRITER, LoopbackHub, Repo

from generation.errors import UserError
from personamem_builder.publish.plan import PushPlan, current_version, describe, make_plan
from personamem_builder.publish.push import PushResult, push

REPO = "org/set"
QUESTIONS = "data/questions_32k.parquet"
CONTEXTS = "data/shared_contexts_32k.parquet"

Files = Mapping[str, Path | bytes]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient]) -> LoopbackHub:
    return served[0].reset({})


@pytest.fixture
def client(served: tuple[LoopbackHub, HubClient], hub: LoopbackHub) -> HubClient:
    return served[1]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A release in a folder whose name has a blank and letters that are not ASCII."""
    return release(tmp_path / "~Größe 大", "1.0.0")


def release(folder: Path, version: str, **more: bytes) -> Files:
    """Small files with the names of a release; the contexts are those of every version."""
    (folder / "data").mkdir(parents=True)
    (folder / QUESTIONS).write_bytes(f"questions of {version}".encode())
    (folder / CONTEXTS).write_bytes(b"contexts" * 1000)
    return {
        QUESTIONS: folder / QUESTIONS,
        CONTEXTS: folder / CONTEXTS,
        "README.md": f"---\nlicense: mit\n---\n# Set\nversion {version}\n".encode(),
        "manifest.json": json.dumps({"format": "personamem", "version": version}).encode(),
        **more,
    }


def contents(files: Files) -> dict[str, bytes]:
    return {path: c.read_bytes() if isinstance(c, Path) else c for path, c in files.items()}


def publish(
    client: HubClient, files: Files, tag: str = "v1.0.0", *, branch: str = "main", token: str = WRITER
) -> PushResult:
    plan = client.call(make_plan, REPO, files, tag, branch=branch, token=token)
    pushed: PushResult = client.call(push, plan, files, token=token)
    return pushed


def refused(client: HubClient, files: Files, tag: str = "v1.0.0", *, token: str = WRITER) -> UserError:
    with pytest.raises(UserError) as caught:
        publish(client, files, tag, token=token)
    return caught.value


def uploaded(hub: LoopbackHub) -> list[str]:
    """The digests of the large files that were sent, in no order."""
    return sorted(r.path.removeprefix("/lfs/") for r in hub.requests if r.method == "PUT")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_first_release_makes_the_repository_one_commit_and_the_tag(
    hub: LoopbackHub, client: HubClient, files: Files
) -> None:
    plan = client.call(make_plan, REPO, files, "v1.0.0", private=True)
    assert hub.writes() == [], "a plan writes nothing"
    assert (plan.create, plan.parent, plan.tagged) == (True, None, None)
    assert [(kind, path) for kind, path, _, _ in plan.changes] == [("add", path) for path in sorted(files)]

    pushed = client.call(push, plan, files)
    repo = hub.repos[REPO]
    assert pushed == PushResult(repo.branches["main"], "v1.0.0", done=True)
    assert repo.private
    assert repo.tags == {"v1.0.0": pushed.commit}
    assert repo.commits[pushed.commit].items() >= contents(files).items()
    assert ".gitattributes" in repo.commits[pushed.commit], "a file of the Hub itself is left alone"
    assert len(repo.commits) == 2, "the Hub's first commit and ours"
    assert sorted(hub.fetched()) == sorted(files), "all files are read back"
    assert hub.requests[-1].path.endswith(f"/tag/{pushed.commit}"), "the tag comes last"
    assert not (client.home / "hub").exists(), "the user's cache is left alone"


def test_publishing_the_same_again_does_nothing(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    pushed = publish(client, files)
    hub.requests.clear()
    plan = client.call(make_plan, REPO, files, "v1.0.0")
    assert client.call(push, plan, files) == pushed._replace(done=False)
    assert hub.writes() == []
    assert describe(plan) == (
        f"dataset {REPO} (public), branch main, tag v1.0.0\n"
        f"tag v1.0.0 is there with exactly these files, at commit {pushed.commit}"
    )


def test_a_second_version_sends_what_differs(hub: LoopbackHub, client: HubClient, files: Files, tmp_path: Path) -> None:
    first = publish(client, {**files, "data/questions_1M.parquet": b"a split that goes"})
    repo = hub.repos[REPO]
    theirs = {"LICENSE": b"by hand", "data/notes_32k.parquet": b"by hand too"}
    before = repo.commit("main", {**repo.commits[first.commit], **theirs}, "by hand")
    hub.requests.clear()

    second = release(tmp_path / "second", "1.1.0")
    plan = client.call(make_plan, REPO, second, "v1.1.0")
    new = {path: sha256(content) for path, content in contents(second).items()}
    assert (
        describe(plan)
        == f"""\
dataset org/set (public), branch main, tag v1.1.0
+ README.md (41 bytes, sha256 {new["README.md"]})
- data/questions_1M.parquet (17 bytes, sha256 {sha256(b"a split that goes")})
+ data/questions_32k.parquet (18 bytes, sha256 {new[QUESTIONS]})
+ manifest.json (44 bytes, sha256 {new["manifest.json"]})
= data/shared_contexts_32k.parquet
--- README.md on the Hub
+++ README.md of this release
@@ -2,4 +2,4 @@
 license: mit
 ---
 # Set
-version 1.0.0
+version 1.1.0"""
    )
    assert plan.parent == before

    pushed = client.call(push, plan, second)
    assert uploaded(hub) == [new[QUESTIONS]]
    assert repo.parents[pushed.commit] == before
    assert repo.tags == {"v1.0.0": first.commit, "v1.1.0": pushed.commit}
    gone = {".gitattributes": repo.commits[first.commit][".gitattributes"]}
    assert repo.commits[pushed.commit] == contents(second) | theirs | gone


def test_a_tag_is_never_moved(hub: LoopbackHub, client: HubClient, files: Files, tmp_path: Path) -> None:
    first = publish(client, files)
    publish(client, release(tmp_path / "second", "1.1.0"), "v1.1.0")
    hub.requests.clear()

    other = refused(client, release(tmp_path / "other", "1.0.1"))
    assert f"(README.md, {QUESTIONS}, manifest.json)" in other.message
    assert "never moved" in other.message
    assert "next version" in other.hint
    assert publish(client, files) == first._replace(done=False), "the branch has moved on, the tag has not"
    assert hub.writes() == []


@pytest.mark.parametrize(
    ("dies_at", "commits", "sent_again"),
    [
        pytest.param("create_branch", 1, True, id="after the repository"),
        pytest.param("lfs_batch", 1, True, id="after the preupload"),
        pytest.param("commit", 1, False, id="after the upload of large files"),
        pytest.param("resolve", 2, False, id="after the commit"),
        pytest.param("tag", 2, False, id="before the tag"),
    ],
)
def test_an_interrupted_push_is_run_again(
    hub: LoopbackHub, client: HubClient, files: Files, dies_at: str, commits: int, sent_again: bool
) -> None:
    branch = "next/1.0" if dies_at == "create_branch" else "main"
    hub.dies_at = dies_at
    with pytest.raises(UserError) as stopped:
        publish(client, files, branch=branch)
    assert stopped.value.message.startswith(f"publishing dataset {REPO} on {hub.url} stopped: ")
    assert "rerun the command" in stopped.value.hint
    repo = hub.repos[REPO]
    assert (len(repo.commits), repo.tags) == (commits, {})
    assert bool(uploaded(hub)) is not sent_again

    hub.revive()
    hub.requests.clear()
    pushed = publish(client, files, branch=branch)
    assert (len(repo.commits), repo.tags) == (2, {"v1.0.0": pushed.commit})
    assert repo.branches[branch] == pushed.commit
    assert repo.commits[pushed.commit].items() >= contents(files).items()
    assert bool(uploaded(hub)) is sent_again
    assert sorted(hub.fetched()) == sorted(files)


def test_what_is_left_after_a_commit_without_a_tag_is_described(
    hub: LoopbackHub, client: HubClient, files: Files
) -> None:
    hub.dies_at = "tag"
    refused(client, files)
    hub.revive()
    plan = client.call(make_plan, REPO, files, "v1.0.0")
    assert plan.changes == ()
    assert plan.card_diff == ""
    assert describe(plan).splitlines()[-1] == (
        f"all files are there: commit {hub.repos[REPO].branches['main']} is read back and gets the tag"
    )


@pytest.mark.parametrize("lost", ["create_repo", "commit", "tag"])
def test_a_lost_answer_costs_no_second_commit(hub: LoopbackHub, client: HubClient, files: Files, lost: str) -> None:
    hub.lost.add(lost)
    refused(client, files)
    pushed = publish(client, files)
    repo = hub.repos[REPO]
    assert pushed.done is (lost != "tag")
    assert (len(repo.commits), repo.tags) == (2, {"v1.0.0": pushed.commit})


def test_files_that_the_hub_spoils_are_named_and_get_no_tag(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    hub.corrupt |= {QUESTIONS, "manifest.json"}
    hub.ignored.add("README.md")
    error = refused(client, files)
    assert f"{QUESTIONS} has sha256 " in error.message
    assert f" and not {sha256(contents(files)[QUESTIONS])}" in error.message
    assert "manifest.json has sha256 " in error.message
    assert "README.md is not there" in error.message
    assert CONTEXTS not in error.message
    assert hub.repos[REPO].tags == {}

    hub.corrupt.clear()
    hub.ignored.clear()
    pushed = publish(client, files)
    assert hub.repos[REPO].tags == {"v1.0.0": pushed.commit}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    "at", ["info", "create_repo", "validate_yaml", "preupload", "lfs_batch", "commit", "tree", "resolve", "tag"]
)
def test_a_busy_hub_is_asked_again(hub: LoopbackHub, client: HubClient, files: Files, at: str, status: int) -> None:
    hub.busy[at] = [status, status]
    hub.retry_after = 7
    pushed = publish(client, files)
    assert hub.busy[at] == []
    assert hub.repos[REPO].tags == {"v1.0.0": pushed.commit}
    assert len(hub.repos[REPO].commits) == 2


def test_it_waits_as_long_as_the_hub_asks(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    plan = client.call(make_plan, REPO, files, "v1.0.0")
    hub.retry_after = 7
    hub.busy |= {"commit": [429, 503]}
    client.call(push, plan, files)
    assert client.waits == [7, 8]


@pytest.mark.parametrize(("retry_after", "tries"), [(1, 3), (3600, 1)])
def test_a_hub_that_stays_busy_is_given_up(
    hub: LoopbackHub, client: HubClient, files: Files, retry_after: int, tries: int
) -> None:
    hub.retry_after = retry_after
    hub.busy["tag"] = [429] * 9
    error = refused(client, files)
    assert error.message == f"{hub.url} is busy (HTTP 429)"
    assert "rerun the command" in error.hint
    assert len(hub.busy["tag"]) == 9 - tries
    assert hub.repos[REPO].tags == {}

    hub.busy.clear()
    assert publish(client, files).done


def test_without_a_token(hub: LoopbackHub, client: HubClient, files: Files, tmp_path: Path) -> None:
    missing = refused(client, files, token="")
    assert missing.message == f"without a token, no dataset {REPO} can be seen on {hub.url}"
    publish(client, files)
    second = release(tmp_path / "second", "1.1.0")
    assert client.call(make_plan, REPO, second, "v1.1.0", token="").changes, "a public dataset can be looked at"
    hub.requests.clear()
    public = refused(client, second, "v1.1.0", token="")
    assert public.message == f"nothing can be published on {hub.url} without a token"
    assert hub.writes() == []
    hub.repos[REPO].private = True
    private = refused(client, files, token="")
    assert private.message == missing.message, "a private dataset is as if it were not there"
    for error in (missing, public, private):
        assert "hf auth login" in error.hint
        assert "HF_TOKEN" in error.hint


@pytest.mark.parametrize("there", [True, False])
def test_a_token_without_the_right_to_write(hub: LoopbackHub, client: HubClient, files: Files, there: bool) -> None:
    if there:
        hub.repos[REPO] = Repo.of({"main": {"LICENSE": b"by hand"}})
    error = refused(client, files, token=READER)
    assert error.message == f"the token may not write to dataset {REPO}"
    assert "name of your own" in error.hint


def test_a_token_that_the_hub_does_not_know(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    error = refused(client, files, token="hf_unknown")
    assert error.message == f"{hub.url} does not know the token"
    assert "hf auth login" in error.hint


@pytest.mark.parametrize("token", ["hf_bro\x0bken", "hf_bröken"])
def test_a_token_that_cannot_be_sent(client: HubClient, files: Files, token: str) -> None:
    error = refused(client, files, token=token)
    assert error.message == "the token has characters that no token has"
    assert token not in str(error)


def test_no_token_is_ever_said(client: HubClient, files: Files) -> None:
    publish(client, files)
    said = client.said.read_text()
    assert not [token for token in (WRITER, READER, "hf_unknown", "hf_bro") if token in said]


def test_a_public_repository_does_not_become_private(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    publish(client, files)
    with pytest.raises(UserError, match="is there, and public") as caught:
        client.call(make_plan, REPO, files, "v1.0.1", private=True)
    assert "--private" in caught.value.hint


def test_a_new_branch_starts_at_main(hub: LoopbackHub, client: HubClient, files: Files, tmp_path: Path) -> None:
    first = publish(client, files)
    hub.requests.clear()
    second = release(tmp_path / "second", "1.1.0")
    plan = client.call(make_plan, REPO, second, "v1.1.0", branch="next/1.1")
    assert (plan.new_branch, plan.parent, plan.unchanged) == (True, first.commit, (CONTEXTS,))
    assert "branch next/1.1 is new" in describe(plan)
    pushed = client.call(push, plan, second)
    repo = hub.repos[REPO]
    assert repo.branches == {"main": first.commit, "next/1.1": pushed.commit}
    assert repo.parents[pushed.commit] == first.commit


def test_a_branch_that_cannot_be(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    with pytest.raises(UserError, match="Invalid branch name: a b"):
        publish(client, files, branch="a b")


def test_a_branch_that_moved_since_the_plan(hub: LoopbackHub, client: HubClient, files: Files, tmp_path: Path) -> None:
    first = publish(client, files)
    second = release(tmp_path / "second", "1.1.0")
    plan = client.call(make_plan, REPO, second, "v1.1.0")
    repo = hub.repos[REPO]
    repo.commit("main", {**repo.commits[first.commit], "LICENSE": b"by hand"}, "by hand")
    with pytest.raises(UserError, match="changed by somebody else in the meantime") as caught:
        client.call(push, plan, second)
    assert "rerun the command" in caught.value.hint
    assert list(repo.tags) == ["v1.0.0"]
    pushed = publish(client, second, "v1.1.0")
    assert repo.commits[pushed.commit]["LICENSE"] == b"by hand"


def test_a_tag_that_somebody_else_made_since_the_plan(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    plan = client.call(make_plan, REPO, files, "v1.0.0")
    hub.dies_at = "tag"
    with pytest.raises(UserError):
        client.call(push, plan, files)
    hub.revive()
    plan = client.call(make_plan, REPO, files, "v1.0.0")
    repo = hub.repos[REPO]
    theirs = repo.tags["v1.0.0"] = repo.parents[repo.branches["main"]]
    with pytest.raises(UserError, match=r"Tag v1\.0\.0 already exists"):
        client.call(push, plan, files)
    assert repo.tags == {"v1.0.0": theirs}


def test_a_file_that_changed_since_the_plan(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    plan = client.call(make_plan, REPO, files, "v1.0.0")
    questions = files[QUESTIONS]
    assert isinstance(questions, Path)
    questions.write_bytes(b"something else")
    with pytest.raises(UserError, match=f"{QUESTIONS} changed"):
        client.call(push, plan, files)
    assert hub.writes() == []


def test_a_card_that_the_hub_refuses(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    error = refused(client, {**files, "README.md": b"---\nlicense:\tmit\n---\n"})
    assert "YAML must not contain tabs" in error.message
    assert uploaded(hub) == [], "before anything is sent"


def test_a_folder_that_is_called_as_the_home_folder_is(hub: LoopbackHub, client: HubClient) -> None:
    (client.folder / "~" / "data").mkdir(parents=True)
    (client.folder / "~" / QUESTIONS).write_bytes(b"questions")
    pushed = publish(client, {"README.md": b"# Set\n", QUESTIONS: Path("~") / QUESTIONS})
    assert hub.repos[REPO].commits[pushed.commit][QUESTIONS] == b"questions"


def test_names_in_the_repository_with_blanks_and_other_letters(
    hub: LoopbackHub, client: HubClient, files: Files
) -> None:
    odd = {**files, "data/questions_größer als 32k.parquet": b"parquet", "notes/ärger & mehr?.txt": b"text"}
    pushed = publish(client, odd)
    assert hub.repos[REPO].commits[pushed.commit].items() >= contents(odd).items()
    assert not publish(client, odd).done


def test_the_current_version_costs_one_small_file(hub: LoopbackHub, client: HubClient, files: Files) -> None:
    assert client.call(current_version, REPO) is None
    hub.repos[REPO] = Repo.of({"main": {"manifest.json": b'{"version": "7"}', "LICENSE": b"by hand"}})
    assert client.call(current_version, REPO) is None, "the manifest of something else"
    hub.repos[REPO] = Repo.of({"main": {"LICENSE": b"by hand"}})
    assert client.call(current_version, REPO) is None
    pushed = publish(client, files)
    hub.requests.clear()
    assert client.call(current_version, REPO) == (pushed.commit, "1.0.0")
    assert hub.fetched() == ["manifest.json"]
    assert client.call(current_version, REPO, "other") is None
    hub.dead = True
    with pytest.raises(UserError, match="stopped"):
        client.call(current_version, REPO)


def test_a_plan_for_a_new_repository_shows_the_whole_card(client: HubClient, files: Files) -> None:
    plan: PushPlan = client.call(make_plan, REPO, files, "v1.0.0")
    lines = describe(plan).splitlines()
    assert lines[:2] == ["dataset org/set (public), branch main, tag v1.0.0", "the repository is new"]
    assert lines[-5:] == ["+---", "+license: mit", "+---", "+# Set", "+version 1.0.0"]
