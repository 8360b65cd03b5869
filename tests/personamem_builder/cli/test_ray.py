"""Commands on a Ray cluster: the bytes of one process, whatever becomes of the nodes, and nothing paid twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import yaml
from command_line import Outcome, fails, personamem, started
from loopback_llm import LoopbackLLM, Reply
from ray_clusters import ray_cluster
from scripted_model import broken, replies_of
from small_runs import TINY, contents, make_run, tiny_work

from generation.pipeline import RunInputs
from generation.ray_cluster import RayCluster
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.memory.parallel import CRASHED
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.table_files import contexts_path

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]
pytest.importorskip("ray", reason="needs Ray: make test-ray")

TESTS = Path(__file__).parents[2]
KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster whose environment has no key."""
    with ray_cluster() as cluster:
        yield cluster


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_cluster_for_one_command_gives_the_bytes_of_one_process_and_leaves_nothing(
    tiny_run: Path, tmp_path: Path
) -> None:
    temporary = Path(mkdtemp(prefix="t", dir="/tmp"))
    with started(tmp_path, "generate", TINY, "--out", "run", "--ray", "--workers", 2, TMPDIR=str(temporary)) as command:
        outcome = command.ends(90)
        assert (outcome.exit_code, outcome.err.count("\n")) == (0, 1), "only what to type next"
        assert command.leaves_nobody()
    assert contents(tmp_path / "run") == contents(tiny_run)
    assert list(temporary.glob("ray*")) == []
    shutil.rmtree(temporary)


def test_ctrl_c_ends_the_command_and_its_cluster_and_keeps_what_was_finished(tiny_run: Path, tmp_path: Path) -> None:
    with started(tmp_path, "generate", TINY, "--out", "run", "--personas", "0-11", "--ray") as command:
        command.wait_for(lambda: lines(tmp_path / "run/stages/sessions.jsonl") > 3)
        command.send(signal.SIGINT, to_group=True)
        interrupted(command.ends(30), signal.SIGINT)
        assert command.leaves_nobody()
    whole = (tiny_run / "stages" / "personas.jsonl").read_bytes()
    assert (tmp_path / "run/stages/personas.jsonl").read_bytes().startswith(whole)


def interrupted(outcome: Outcome, number: signal.Signals) -> None:
    assert outcome.exit_code == 128 + number
    assert outcome.err.startswith("interrupted: what was finished is kept in run; rerun the command to resume")
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


def test_a_node_that_dies_changes_no_byte_of_an_offline_run(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    arguments = ["generate", TINY, "--personas", "0-3"]
    with started(tmp_path, *arguments, "--out", "run", "--ray", cluster.address) as command:
        command.wait_for(lambda: lines(tmp_path / "run/stages/sessions.jsonl") > 3)
        cluster.remove_node(node, allow_graceful=False)
        outcome = command.ends(90)
        assert (outcome.exit_code, outcome.out[:5], outcome.out.count("\n")) == (0, "run: ", 1), "Ray says nothing"
    assert personamem(*arguments, "--out", tmp_path / "alone").exit_code == 0
    assert contents(tmp_path / "run") == contents(tmp_path / "alone")


def test_assemble_and_build_on_a_cluster_give_the_same_bytes(cluster: Any, tiny_run: Path, tmp_path: Path) -> None:
    for name, options in (("alone", []), ("cluster", ["--ray", cluster.address])):
        run = tmp_path / name / "run"
        shutil.copytree(tiny_run, run)
        for arguments in (["assemble", run, "--split", "32k"], ["build", run, "--out", run.parent / "personamem"]):
            outcome = personamem(*arguments, *options)
            assert outcome.exit_code == 0, outcome.err
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster"), "with what the audit found"


def test_an_audit_on_a_cluster_finds_what_one_process_finds(cluster: Any, excerpt: Path) -> None:
    alone, together = (personamem("audit", excerpt, "--json", *more) for more in ((), ("--ray", cluster.address)))
    assert together == alone
    assert json.loads(alone.out)["splits"]


def test_memory_systems_walk_histories_on_a_cluster_and_lose_none_with_a_node(
    cluster: Any, generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TESTS)
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS)))
    system = ["memory", "run", "--system", "small_memories:SlowAt", "--set", "text=in no history", "--data", generated]
    begun = tmp_path / "cluster/finished"
    node = cluster.add_node(num_cpus=1)
    with started(tmp_path, *system, "--out", "cluster", "--ray", cluster.address, PYTHONPATH=path) as command:
        command.wait_for(lambda: lines(tmp_path / "cluster/sessions.jsonl") > 0 or any(begun.glob("*")))
        cluster.remove_node(node, allow_graceful=False)
        outcome = command.ends(120)
    assert outcome.exit_code == 0, outcome.err
    assert personamem(*system, "--out", tmp_path / "alone", "--workers", 2).exit_code == 0
    assert stored(tmp_path / "cluster") == stored(tmp_path / "alone")
    assert {path.name for path in (tmp_path / "cluster").iterdir()} == {
        path.name for path in (tmp_path / "alone").iterdir()
    }


def stored(out: Path) -> list[dict[str, Any]]:
    """Return the lines of a memory's results; how long something took is never the same."""
    names = ("sessions.jsonl", "questions.jsonl")
    read = [json.loads(line) for name in names for line in (out / name).read_text().splitlines()]
    return [{**line, "seconds": 0} for line in read]


def test_a_memory_system_that_takes_its_process_down_costs_its_history_once(
    cluster: Any, generated: Path, tmp_path: Path
) -> None:
    contexts = [*iter_contexts(generated / contexts_path("32k"))]
    others = {message["content"] for context in contexts[1:] for message in context["messages"]}
    own = next(m["content"] for m in contexts[0]["messages"] if m["content"] not in others)
    (tmp_path / "crash").touch()
    spec = find_system("small_memories:Reckless", {"text": own, "file": str(tmp_path / "crash")})
    some = [context["shared_context_id"] for context in contexts[:2]]
    store = run_memory(generated, "32k", spec, out=tmp_path / "out", contexts=some, workers=RayCluster(cluster.address))
    errors = {line["shared_context_id"]: line["error"] for line in store.questions.values()}
    assert errors == {some[0]: CRASHED, some[1]: ""}


# --- language models


@pytest.fixture(scope="module")
def written() -> RunInputs:
    return tiny_work(personas=1, fillers=4)


@pytest.fixture(scope="module")
def good(written: RunInputs) -> dict[str, str]:
    return replies_of(written._replace(backend="openai:parrot"))


@pytest.fixture
def server(good: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackLLM]:
    """A model that takes its time, and one of whose first answers in four does not fit."""

    def answer(body: dict[str, Any]) -> Reply:
        reply = good[body["messages"][0]["content"]]
        is_bad = len(body["messages"]) == 1 and len(reply) % 4 == 0
        return Reply(broken(reply, 0) if is_bad else reply, delay=0.1)

    with LoopbackLLM(answer) as server:
        yield server


@pytest.fixture
def config(tmp_path: Path) -> Path:
    settings = yaml.safe_load(TINY.read_text()) | {"personas": 1, "fillers": 4}
    settings["llm"] = {"concurrency": 6, "prices": {"parrot": {"input": 1.0, "output": 2.0}}}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def generating(folder: Path, config: Path, server: LoopbackLLM, *options: object, at: str = "") -> Any:
    return started(
        folder,
        *("generate", config, "--out", "run", "--backend", "openai:parrot", *options),
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL=server.base_url,
        RAY_ADDRESS=at,
    )


def stages(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((run / "stages").iterdir())}


def paid(server: LoopbackLLM) -> Counter[str]:
    return Counter(json.dumps([request.body["messages"], request.body.get("seed")]) for request in server.requests)


def ledger(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def test_a_node_that_dies_has_no_call_paid_twice(
    cluster: Any, server: LoopbackLLM, config: Path, written: RunInputs, tmp_path: Path
) -> None:
    node = cluster.add_node(num_cpus=1)
    with generating(tmp_path, config, server, "--ray", cluster.address) as command:
        command.wait_for(lambda: lines(tmp_path / "run/stages/sessions.jsonl") > 2)
        cluster.remove_node(node, allow_graceful=False)
        outcome = command.ends(90)
    assert outcome.exit_code == 0, outcome.err
    alone = make_run(written, tmp_path / "alone")
    assert stages(tmp_path / "run") == stages(alone.folder)
    # Not even what was under way for the lost node is asked again: the desk went on with it.
    assert set(paid(server).values()) == {1}
    assert len(ledger(tmp_path / "run")) == len(server.requests)
    assert server.most_at_once <= 6
    assert server.keys == {KEY}
    held = [path for folder in (cluster.logs, tmp_path / "run") for path in folder.rglob("*") if path.is_file()]
    assert len(held) > 20
    assert [path for path in held if KEY.encode() in path.read_bytes()] == []


def test_a_budget_ends_a_run_on_a_cluster_and_a_higher_one_goes_on(
    cluster: Any, server: LoopbackLLM, config: Path, tmp_path: Path
) -> None:
    budget = 0.0006
    with generating(tmp_path, config, server, "--ray", "auto", "--budget", budget, at=cluster.address) as command:
        outcome = command.ends(90)
    fails(outcome, "stopped after $0.0006", "run again with a higher --budget")
    calls = ledger(tmp_path / "run")
    assert len(calls) == len(server.requests)
    assert budget <= sum(call["cost"] for call in calls) < budget + 2 * (11 * 1 + 7 * 2) / 1e6
    with generating(tmp_path, config, server) as command:
        assert command.ends(90).exit_code == 0
    # Rejected replies are not kept from command to command, as without a cluster.
    first_turns = Counter(prompt for prompt in paid(server).elements() if len(json.loads(prompt)[0]) == 1)
    assert sum(times - 1 for times in first_turns.values()) <= 6


def test_an_interrupted_command_keeps_the_replies_of_calls_under_way(
    cluster: Any, server: LoopbackLLM, config: Path, tmp_path: Path
) -> None:
    with generating(tmp_path, config, server, "--ray", cluster.address) as command:
        command.wait_for(lambda: lines(tmp_path / "run/stages/sessions.jsonl") > 2)
        command.send(signal.SIGTERM, to_group=False)
        interrupted(command.ends(30), signal.SIGTERM)
    asked = len(server.requests)
    assert asked - len(ledger(tmp_path / "run")) <= 6, "those that were just being sent"
    with generating(tmp_path, config, server) as command:
        assert command.ends(90).exit_code == 0
    again = [json.loads(sent) for sent, times in paid(server).items() if times > 1]
    assert len(again) <= 12, (
        "an item under way has at most two calls whose replies are not kept: a rejected one, a lost one"
    )


def test_a_cluster_is_not_asked_to_load_a_model(tmp_path: Path) -> None:
    outcome = personamem("generate", TINY, "--out", tmp_path / "run", "--backend", "hf:model", "--ray")
    fails(outcome, "hf:model is loaded on this machine, and not on a cluster", "serve it with vLLM")


def test_a_cluster_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    outcome = personamem("generate", TINY, "--out", tmp_path / "run", "--ray", "127.0.0.1:1")
    fails(outcome, "no Ray cluster can be used at 127.0.0.1:1: ", "start one with `ray start --head`")
