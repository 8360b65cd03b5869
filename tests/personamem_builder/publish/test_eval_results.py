"""Scores for the pages of models on the Hub: what is written, what is refused, and the pull request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Outcome, personamem
from hub_client import HubClient
from loopback_hub import READER, LoopbackHub
from small_results import first, right, right_half_the_time, write_results

from personamem_builder.publish.eval_results import model_results
from personamem_builder.results.runs import read_runs

pytest.importorskip("huggingface_hub._eval_results", reason="needs huggingface_hub>=1.4")
from huggingface_hub._eval_results import EvalResultEntry, parse_eval_result_entries

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = {"repo": "org/personamem", "revision": "v1.0.0", "commit": COMMIT}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path_factory.mktemp("client")) as client:
        yield hub, client


@pytest.fixture
def hub(served: tuple[LoopbackHub, HubClient]) -> LoopbackHub:
    return served[0].reset({"acme/bright": {"main": {"config.json": b"{}"}}})


@pytest.fixture
def client(served: tuple[LoopbackHub, HubClient], hub: LoopbackHub) -> HubClient:
    return served[1]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entries(path: str) -> list[EvalResultEntry]:
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    return parse_eval_result_entries(content)


def test_each_model_gets_a_file_with_an_entry_for_each_task(generated: Path) -> None:
    write_results(Path("results/a"), generated, "acme/bright", right, **HUB)
    write_results(Path("results/b"), generated, "acme/bright", right_half_the_time, kind="_generate", **HUB)
    write_results(Path("results/c"), generated, "acme/dim", first, kind="_letters", **HUB)
    outcome = personamem("report", "results", "--eval-results", "hub")
    assert outcome.exit_code == 0, outcome.err

    bright = entries("hub/acme__bright/.eval_results/org__personamem.yaml")
    assert [(entry.dataset_id, entry.task_id, entry.value) for entry in bright] == [
        ("org/personamem", "personamem_32k", 100.0),
        ("org/personamem", "personamem_32k_generate", 51.22),  # 21 of 41
    ]
    assert {(entry.dataset_revision, entry.date) for entry in bright} == {(COMMIT, "2026-11-27")}
    notes = bright[1].notes or ""
    assert notes.startswith("accuracy in per cent (robust) of ")
    assert "95 % interval" in notes
    assert "clustered by persona" in notes
    assert notes.endswith("personamem, backend hf")
    assert (bright[0].notes or "").startswith("accuracy in per cent (acc_per_token)")
    assert [entry.task_id for entry in entries("hub/acme__dim/.eval_results/org__personamem.yaml")] == [
        "personamem_32k_letters"
    ]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"kind": "_nocontext"}, "it was asked without the history"),
        ({"limit": 3}, "only 3 questions were asked"),
        ({"shard": "1/2"}, "it is part 1/2 of a run"),
        ({"subset": "hard.json", "subset_size": 4, "subset_sha256": "ab"}, "only the questions of hard.json"),
        ({"memory": "bm25"}, "it is a score of the memory bm25 as much as of the model"),
        ({"memory": "oracle"}, "it is a score of the memory oracle as much as of the model"),
        ({"memory": "cheat", "memory_tainted": 2}, "tainted: its memory showed text of the options for 2 questions"),
        ({"instruction_sha256": "ab" * 32}, "it was asked with an instruction of its own"),
        ({"repo": None}, "its data are not from the Hub"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_no_score_of_the_model_on_the_benchmark_is_left_out(
    more: dict[str, Any], reason: str, generated: Path
) -> None:
    write_results(Path("results"), generated, "acme/bright", right, **{**HUB, **more})
    results, refused = model_results(read_runs([Path("results")]).runs)
    assert results == []
    (told,) = refused
    assert told.startswith(f"acme/bright on personamem_32k{more.get('kind', '')}: {reason}")


def test_nothing_to_show_is_an_error_after_the_reasons(generated: Path) -> None:
    write_results(Path("results"), generated, "acme/bright", right, kind="_nocontext", **HUB)
    outcome = personamem("report", "results", "--eval-results", "hub")
    assert outcome.exit_code == 1
    assert "note: left out of hub: acme/bright on personamem_32k_nocontext: it was asked without" in outcome.err
    assert "error: hub: no score of a model that the Hub could show" in outcome.err
    assert not Path("hub").exists()


def test_a_floor_is_left_out_and_hides_no_model(generated: Path) -> None:
    write_results(Path("results/a"), generated, "floor: longest", first, **HUB)
    write_results(Path("results/b"), generated, "acme/bright", right, **HUB)
    outcome = personamem("report", "results", "--eval-results", "hub")
    assert outcome.exit_code == 0
    assert "left out of hub: floor: longest on personamem_32k: a shortcut answered, not a model" in outcome.err
    assert [path.parts[1] for path in Path("hub").rglob("*.yaml")] == ["acme__bright"]


def test_several_scores_for_one_task_are_not_chosen_among(generated: Path) -> None:
    write_results(Path("results/a"), generated, "acme/bright", right, **HUB)
    write_results(Path("results/b"), generated, "acme/bright", first, roles="no_system", **HUB)
    outcome = personamem("report", "results", "--eval-results", "hub")
    assert outcome.exit_code == 1
    assert "error: acme/bright has several scores for personamem_32k of org/personamem" in outcome.err
    assert not Path("hub").exists()


def test_push_needs_a_place_for_the_files(generated: Path) -> None:
    write_results(Path("results"), generated, "acme/bright", right, **HUB)
    outcome = personamem("report", "results", "--push", "acme/bright")
    assert outcome.exit_code == 2
    assert "--push needs --eval-results DIR" in outcome.err


# ---- the pull request


def pushed(client: HubClient, tmp_path: Path, repo_id: str, **options: Any) -> Outcome:
    results, folder = tmp_path / "results", tmp_path / "hub"
    outcome: Outcome = client.call(
        personamem, "report", str(results), "--eval-results", str(folder), "--push", repo_id, **options
    )
    return outcome


def test_a_pull_request_adds_the_file_and_leaves_main_as_it_is(
    client: HubClient, hub: LoopbackHub, generated: Path, tmp_path: Path
) -> None:
    write_results(Path("results/a"), generated, "acme/bright", right, **HUB)
    write_results(Path("results/b"), generated, "acme/dim", first, **HUB)
    outcome = pushed(client, tmp_path, "acme/bright")
    assert outcome.exit_code == 0, outcome.err
    assert f"opened {hub.url}/acme/bright/discussions/1" in outcome.err
    repo = hub.repo("acme/bright")
    name = ".eval_results/org__personamem.yaml"
    assert set(repo.commits[repo.branches["main"]]) == {"config.json"}
    proposed = repo.commits[repo.branches["refs/pr/1"]]
    assert proposed[name] == (tmp_path / "hub/acme__bright" / name).read_bytes()


def test_the_only_model_may_be_called_otherwise(
    client: HubClient, hub: LoopbackHub, generated: Path, tmp_path: Path
) -> None:
    write_results(Path("results"), generated, "/models/bright", right, **HUB)
    assert pushed(client, tmp_path, "acme/bright").exit_code == 0
    assert "refs/pr/1" in hub.repo("acme/bright").branches


def test_it_is_not_guessed_whose_repository_it_is(
    client: HubClient, hub: LoopbackHub, generated: Path, tmp_path: Path
) -> None:
    write_results(Path("results/a"), generated, "acme/brighter", right, **HUB)
    write_results(Path("results/b"), generated, "acme/dim", first, **HUB)
    outcome = pushed(client, tmp_path, "acme/bright")
    assert outcome.exit_code == 1
    assert "the results are of several models, and none is called acme/bright: acme/brighter, acme/dim" in outcome.err
    assert hub.writes() == []


@pytest.mark.parametrize(
    ("repo_id", "token", "message"),
    [
        ("acme/bright", None, "no pull request can be opened on "),
        ("acme/bright", READER, "the token may not write to model acme/bright"),
        ("acme/none", "hf_writer", "there is no model acme/none at "),
    ],
)
def test_what_the_hub_refuses_is_one_clear_error(
    client: HubClient, hub: LoopbackHub, generated: Path, tmp_path: Path, repo_id: str, token: str | None, message: str
) -> None:
    write_results(Path("results"), generated, "acme/bright", right, **HUB)
    outcome = pushed(client, tmp_path, repo_id, token=token)
    assert outcome.exit_code == 1
    assert f"error: {message}" in outcome.err
    assert "Traceback" not in outcome.err
