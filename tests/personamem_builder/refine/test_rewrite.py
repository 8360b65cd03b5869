"""A language model rewrites: it is asked again for what it was asked before, and what it says is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import LoopbackLLM, Reply
from scripted_model import GoodModel
from small_leaks import is_leaky, leaky_work, plant, questions_of
from small_runs import contents

from generation.llm.backends import parse_backend
from generation.llm.client import Client
from generation.run_stages import STAGES
from generation.store import RunStore
from personamem_builder.audit.gates import Gate, Limit
from personamem_builder.refine.clients import Clients
from personamem_builder.refine.drafts import read_drafts
from personamem_builder.refine.refine import Settings, refine
from personamem_builder.refine.rewrite import ReseededBackend, rewrite

GATES = {"probe.*": Gate(all=Limit(max_above_chance=0.1))}
SETTINGS = Settings(1, GATES, writer="openai:parrot")


@pytest.fixture(scope="module")
def leaky(fair_run: Path, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A run with a leak in each eighth question; tests leave it as it is."""
    return plant(
        RunStore(Path(shutil.copytree(fair_run, tmp_path_factory.mktemp("leaky") / "run"))), lambda i: i % 8 == 0
    )


@pytest.fixture
def store(leaky: RunStore, tmp_path: Path) -> RunStore:
    return RunStore(Path(shutil.copytree(leaky.folder, tmp_path / "run")))


@pytest.fixture(scope="module")
def good(leaky: RunStore) -> dict[str, str]:
    """Good replies to the prompts of a first round: other words than those of the run."""
    work = leaky_work()
    model = GoodModel(work)
    client = Client(ReseededBackend(model, 1))
    for draft in read_drafts(leaky, work, leaky.path("questions")):
        STAGES["questions"].write(client, work.banks, draft.plan)
    return model.replies


@pytest.fixture
def server(good: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackLLM]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with LoopbackLLM(lambda body: Reply(good[body["messages"][0]["content"]])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.mark.slow
def test_a_model_rewrites_what_a_probe_answers(server: LoopbackLLM, store: RunStore, leaky: RunStore) -> None:
    outcome = refine(store, SETTINGS)
    assert outcome.missed_at_first
    refined = outcome.refined
    assert refined is not None
    before, after = questions_of(leaky), questions_of(store)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == refined.funnel.all.rewritten > 10
    assert not any(map(is_leaky, changed))
    assert refined.settings["writer"] == "openai:parrot"
    ledger = [json.loads(line) for line in (store.folder / "ledger.jsonl").read_text().splitlines()]
    assert {line["stage"] for line in ledger} == {"questions"}
    assert len(ledger) == len(server.requests)

    kept, asked = contents(store.folder), len(server.requests)
    assert not refine(store, SETTINGS).is_new
    assert contents(store.folder) == kept
    # Made anew from the replies that were kept.
    (store.folder / "refined.json").unlink()
    shutil.copy(leaky.path("questions"), store.path("questions"))
    refine(store, SETTINGS)
    for name in ("refined.json", "stages/questions.jsonl"):
        assert contents(store.folder)[name] == kept[name]
    assert len(server.requests) == asked


def test_each_round_asks_anew_with_another_seed(server: LoopbackLLM, store: RunStore) -> None:
    work = leaky_work()
    some = read_drafts(store, work, store.path("questions"))[:8]
    name = parse_backend("openai:parrot")
    clients = Clients(store, work, [name], None)
    prompts = []
    for round_ in (1, 2):
        server.requests.clear()
        assert rewrite(clients, clients.connect(name), work, some, round_) == 0
        prompts.append({r.body["messages"][0]["content"]: r.body["seed"] for r in server.requests})
    assert prompts[0].keys() == prompts[1].keys()
    assert not set(prompts[0].values()) & set(prompts[1].values())
    # This model says the same whatever the seed is: that is no rewriting.
    assert [draft.rewritten for draft in some] == [[1]] * len(some)


@pytest.mark.slow
def test_without_usable_words_a_question_stays_and_is_asked_for_again(
    server: LoopbackLLM, store: RunStore, leaky: RunStore
) -> None:
    answer: Callable[[dict[str, Any]], Reply] = server.answer

    def mute(body: dict[str, Any]) -> Reply:
        prompt = body["messages"][0]["content"]
        is_question = prompt.startswith("An assistant talks with a user about")
        return Reply("I would rather not.") if is_question and len(prompt) % 2 else answer(body)

    server.answer = mute
    first = refine(store, SETTINGS).refined
    assert first is not None
    assert first.unwritten > 0
    assert first.funnel.all.rewritten > 0
    same = sum(a == b for a, b in zip(questions_of(leaky), questions_of(store), strict=True))
    assert same == first.funnel.all.made - first.funnel.all.rewritten
    server.answer = answer
    second = refine(store, SETTINGS).refined
    assert second is not None
    assert second.unwritten == 0
    assert second.funnel.all.rewritten > first.funnel.all.rewritten
