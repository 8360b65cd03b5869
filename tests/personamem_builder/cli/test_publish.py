"""Publishing from end to end: real folders, the real client library, a Hub on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Outcome, personamem
from hub_client import HubClient
from loopback_hub import LoopbackHub
from small_datasets import make_dataset

from generation.errors import UserError
from personamem_builder.dataset.folder import AUDIT
from personamem_builder.manifest import read_manifest
from personamem_builder.publish.release import ReleaseRequest, prepare_release

REPO = "org/personamem"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient]) -> LoopbackHub:
    return served[0].reset({})


class Here:
    """Runs `personamem` where the Hub is the one on this machine."""

    def __init__(self, client: HubClient) -> None:
        self._client = client

    def __call__(self, *arguments: str | Path) -> Outcome:
        outcome: Outcome = self._client.call(personamem, *map(str, arguments))
        return outcome


@pytest.fixture
def run(served: tuple[LoopbackHub, HubClient], hub: LoopbackHub) -> Here:
    return Here(served[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets of different seeds, each with an audit that passed."""
    folder = tmp_path_factory.mktemp("made")
    for name, seed in (("first", 1), ("second", 2)):
        (folder / name).mkdir()
        set_audit(make_dataset(folder / name, seed=seed), "pass")
    return folder


def set_audit(dataset: Path, verdict: str, digest: str | None = None) -> None:
    finding = {"check": "surface.longest", "slice": "all", "value": 0.25, "low": 0.2, "high": 0.3, "chance": 0.25}
    finding |= {"n": 40, "clusters": 2, "limit": "25.0 within 20 to 30", "verdict": verdict}
    audit = {
        "format": "personamem-audit",
        "schema_version": 1,
        "source": dataset.name,
        "digest": digest or read_manifest(dataset)["digest"],
        "passed": verdict == "pass",
        "splits": [{"split": "32k", "questions": 40, "personas": 2, "findings": [finding]}],
    }
    (dataset / AUDIT).write_text(json.dumps(audit), encoding="utf-8")


@pytest.fixture
def first(made: Path, tmp_path: Path) -> Path:
    """A dataset in a folder whose name has a blank and letters that are not ASCII."""
    return Path(shutil.copytree(made / "first" / "personamem", tmp_path / "erste Fassung ü"))


@pytest.fixture
def second(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "second" / "personamem", tmp_path / "second"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def on_hub(hub: LoopbackHub, tag: str) -> dict[str, bytes]:
    repo = hub.repos[REPO]
    return dict(repo.commits[repo.tags[tag]])


def fails(outcome: Outcome, message: str, hint: str = "") -> None:
    assert outcome.exit_code == 1, outcome
    assert message in outcome.err
    assert hint in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err


@pytest.mark.slow
def test_a_dry_run_tells_the_plan_and_changes_nothing(run: Here, hub: LoopbackHub, first: Path) -> None:
    before = contents(first)
    outcome = run("publish", first, REPO, "--tag", "v1.0.0", "--dry-run")
    assert outcome.exit_code == 0, outcome.err
    assert f"dataset {REPO} (public), branch main, tag v1.0.0" in outcome.out
    assert "+ data/questions_32k.parquet" in outcome.out
    assert "First version." in outcome.out
    assert contents(first) == before
    assert REPO not in hub.repos
    assert {request.method for request in hub.requests} <= {"GET", "HEAD"}


def test_a_version_on_the_hub_is_the_folder_byte_for_byte(run: Here, hub: LoopbackHub, first: Path) -> None:
    outcome = run("publish", first, REPO, "--tag", "v1.0.0", "--change", "Made for a test.")
    assert outcome.exit_code == 0, outcome.err
    published = on_hub(hub, "v1.0.0")
    assert {name: published[name] for name in contents(first)} == contents(first)
    assert {"README.md", "manifest.json", "audit.json", "croissant.json"} < set(published)
    assert "eval.yaml" not in published  # none that the Hub accepts can say which history a question is asked with
    manifest = json.loads(published["manifest.json"])
    assert manifest["version"] == "1.0.0"
    assert manifest["changelog"] == [{"version": "1.0.0", "changes": ["First version.", "Made for a test."]}]


def test_the_same_again_does_nothing(run: Here, hub: LoopbackHub, first: Path) -> None:
    run("publish", first, REPO, "--tag", "v1.0.0")
    commits = dict(hub.repos[REPO].commits)
    hub.requests.clear()
    outcome = run("publish", first, REPO, "--tag", "v1.0.0")
    assert outcome.exit_code == 0, outcome.err
    assert f"{REPO} v1.0.0 holds exactly this already: nothing to do" in outcome.out
    assert hub.repos[REPO].commits == commits
    assert {request.method for request in hub.requests} <= {"GET", "HEAD"}


def test_the_next_version_must_say_how_much_changed(run: Here, hub: LoopbackHub, first: Path, second: Path) -> None:
    run("publish", first, REPO, "--tag", "v1.0.0")
    fails(
        run("publish", second, REPO, "--tag", "v1.1.0"),
        "what changed since version 1.0.0 asks for a major version, and 1.1.0 is none",
        "--tag v2.0.0",
    )
    fails(run("publish", second, REPO, "--tag", "v1.0.0"), "version 1.0.0 is on the Hub already")
    outcome = run("publish", second, REPO, "--tag", "v2.0.0")
    assert outcome.exit_code == 0, outcome.err
    assert hub.repos[REPO].tags.keys() == {"v1.0.0", "v2.0.0"}
    newest, oldest = json.loads(on_hub(hub, "v2.0.0")["manifest.json"])["changelog"]
    assert (newest["version"], oldest["version"]) == ("2.0.0", "1.0.0")
    assert any("questions removed" in line for line in newest["changes"])
    assert "v2.0.0" in on_hub(hub, "v2.0.0")["README.md"].decode()


@pytest.mark.slow
def test_what_people_wrote_on_the_card_is_kept(run: Here, hub: LoopbackHub, first: Path, second: Path) -> None:
    with (first / "README.md").open("a", encoding="utf-8") as card:
        card.write("\n## Thanks\n\nTo all who helped.\n")
    run("publish", first, REPO, "--tag", "v1.0.0")
    run("publish", second, REPO, "--tag", "v2.0.0")
    assert on_hub(hub, "v2.0.0")["README.md"].decode().endswith("\n## Thanks\n\nTo all who helped.\n")


@pytest.mark.slow
def test_a_push_that_was_interrupted_is_finished_by_the_same_command(
    run: Here, hub: LoopbackHub, first: Path, second: Path
) -> None:
    run("publish", first, REPO, "--tag", "v1.0.0")
    assert run("publish", second, REPO, "--tag", "v2.0.0").exit_code == 0
    del hub.repos[REPO].tags["v2.0.0"]  # as if it had ended after the commit
    outcome = run("publish", second, REPO, "--tag", "v2.0.0")
    assert outcome.exit_code == 0, outcome.err
    assert {name: content for name, content in on_hub(hub, "v2.0.0").items() if name in contents(second)} == contents(
        second
    )
    assert len(json.loads(on_hub(hub, "v2.0.0")["manifest.json"])["changelog"]) == 2


def test_a_published_version_is_downloaded_and_compared(run: Here, first: Path, tmp_path: Path) -> None:
    run("publish", first, REPO, "--tag", "v1.0.0")
    outcome = run("download", REPO, "--revision", "v1.0.0", "--out", tmp_path / "got")
    assert outcome.exit_code == 0, outcome.err
    assert read_manifest(tmp_path / "got")["digest"] == read_manifest(first)["digest"]
    assert run("diff", first, tmp_path / "got").exit_code == 0


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / AUDIT).unlink(), "This dataset was not audited"),
        (lambda folder: set_audit(folder, "FAIL"), "This dataset misses 1 of the 1 limits of its audit"),
        (lambda folder: set_audit(folder, "pass", "0" * 64), "The audit is of other data"),
    ],
)
def test_without_an_audit_that_passed_it_is_refused_or_says_so(
    run: Here, hub: LoopbackHub, first: Path, spoil: object, reason: str
) -> None:
    spoil(first)  # type: ignore[operator]
    fails(run("publish", first, REPO, "--tag", "v1.0.0"), reason, "--allow-failed-audit")
    assert REPO not in hub.repos
    outcome = run("publish", first, REPO, "--tag", "v1.0.0", "--allow-failed-audit")
    assert outcome.exit_code == 0, outcome.err
    assert reason in on_hub(hub, "v1.0.0")["README.md"].decode()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "nested deeper than the limit"),
        ("[]", "audit.json: "),
        ("{}", "digest: Field required; passed: Field required; splits: Field required"),
        ('{"digest": 3, "splits": {}}', "digest: "),
        (
            '{"digest": "x", "splits": [{"split": "32k", "findings": [{}]}]}',
            "splits.0.findings.0.check: Field required",
        ),
        ('{"digest": "x", "splits": ' + "9" * 5_000 + "}", "over the limit of 19"),
    ],
)
def test_a_damaged_audit_is_named(first: Path, text: str, fault: str) -> None:
    (first / AUDIT).write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as raised:
        prepare_release(first, ReleaseRequest(REPO, "v1.0.0"))
    assert str(first / AUDIT) in raised.value.message
    assert fault in raised.value.message
    assert "personamem audit" in raised.value.hint


def test_a_secret_on_the_card_is_refused(run: Here, hub: LoopbackHub, first: Path) -> None:
    with (first / "README.md").open("a", encoding="utf-8") as card:
        card.write("\nMy token: hf_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbC"[:34] + "\n")
    outcome = run("publish", first, REPO, "--tag", "v1.0.0")
    fails(outcome, "a secret: README.md")
    assert "aB3dE5gH7jK9mN1p" not in outcome.err
    assert REPO not in hub.repos


def test_a_folder_that_was_changed_is_refused(run: Here, hub: LoopbackHub, first: Path) -> None:
    data = first / "data" / "questions_32k.parquet"
    data.write_bytes(data.read_bytes() + b"x")
    fails(run("publish", first, REPO, "--tag", "v1.0.0"), "data/questions_32k.parquet is damaged")
    assert REPO not in hub.repos


def test_a_digest_that_is_not_that_of_the_data_is_refused(run: Here, first: Path) -> None:
    manifest = json.loads((first / "manifest.json").read_text(encoding="utf-8"))
    (first / "manifest.json").write_text(json.dumps(manifest | {"digest": "0" * 64}), encoding="utf-8")
    fails(run("publish", first, REPO, "--tag", "v1.0.0", "--allow-failed-audit"), "digest")


@pytest.mark.parametrize("tag", ["1.0.0", "v1.0", "latest", "v01.0.0"])
def test_a_tag_is_a_version(run: Here, first: Path, tag: str) -> None:
    fails(run("publish", first, REPO, "--tag", tag), f"{tag!r} is not a version tag", "--tag v1.0.0")


def test_no_licence_is_refused(run: Here, first: Path) -> None:
    manifest = json.loads((first / "manifest.json").read_text(encoding="utf-8"))
    (first / "manifest.json").write_text(json.dumps(manifest | {"license": ""}), encoding="utf-8")
    fails(run("publish", first, REPO, "--tag", "v1.0.0"), "licence")
