"""A run written by a language model over HTTP: whatever the model does, nothing is lost and nothing paid twice."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import personamem
from loopback_llm import LoopbackLLM, Reply, cut, error, rate_limited
from scripted_model import broken, replies_of
from small_runs import TINY, make_run, tiny_work

from generation.config import LLMConfig, Price
from generation.errors import UserError
from generation.llm import endpoint
from generation.llm.ledger import BudgetReached
from generation.llm.paid_calls import Readings
from generation.llm.usage import Usage
from generation.pipeline import Generated, generate
from generation.records import Question, Session
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.sharded_run import make_shards
from generation.store import RunStore

KEY = "sk-a-key-that-nobody-may-see"
PRICES = {"parrot": Price(input=1.0, output=2.0)}


def small(**llm: Any) -> RunInputs:
    settings = LLMConfig(**{"concurrency": 4, "prices": PRICES} | llm)
    work = tiny_work(personas=1, fillers=4, llm=settings)
    return work._replace(backend="openai:parrot")


@pytest.fixture(scope="module")
def good() -> dict[str, str]:
    """A good reply to each prompt."""
    return replies_of(small())


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return make_run(small()._replace(backend="offline"), tmp_path_factory.mktemp("offline") / "run")


Serve = Callable[[Callable[[dict[str, Any]], Reply]], LoopbackLLM]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a server with an answer; another answer may take its place."""
    servers: list[LoopbackLLM] = []
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(endpoint, "backoff", lambda seed, failures: 0.01)

    def start(answer: Callable[[dict[str, Any]], Reply]) -> LoopbackLLM:
        server = LoopbackLLM(answer)
        server.__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def first_prompt(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


def run(work: RunInputs, folder: Path, budget: float | None = None) -> Generated:
    return generate(work, RunStore.open(folder, work.fingerprint()), budget=budget)


def stages(folder: Path) -> dict[str, bytes]:
    return {name: (folder / "stages" / f"{name}.jsonl").read_bytes() for name in STAGES}


def number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def test_a_good_model_with_a_fault_in_every_tenth_answer_gives_all_items(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    begun: Counter[str] = Counter()

    def answer(body: dict[str, Any]) -> Reply:
        prompt = first_prompt(body)
        begun[prompt] += 1
        if begun[prompt] > 1 or number(prompt) % 10:
            return Reply(good[prompt])
        kind = number(prompt) // 10 % 10
        faults = [cut(good[prompt]), rate_limited("0"), error(500, "overloaded")]
        return faults[kind] if kind < len(faults) else Reply(broken(good[prompt], kind))

    server = serve(answer)
    generated = run(small(), tmp_path / "run")
    assert generated.failures == []
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert len(server.requests) > len(good)
    assert not list((tmp_path / "run").glob("*.sqlite-*")), "the cache is closed: nothing changes the folder any more"
    # Every prompt was asked for until it had an answer, and no longer.
    assert set(begun) == set(good)
    assert max(begun.values()) == 2
    assert server.keys == {KEY}
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert KEY.encode() not in kept
    ledger = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert Counter(line["outcome"] for line in ledger if line["outcome"] in ("ok", "repaired")).total() == len(good)

    # All replies are kept: a stage that is made anew costs nothing.
    (tmp_path / "run" / "stages" / "sessions.jsonl").unlink()
    asked = len(server.requests)
    assert run(small(), tmp_path / "run").failures == []
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert len(server.requests) == asked


def test_what_fails_is_listed_left_out_and_asked_for_anew(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    told = list(offline.read("sessions", Session))
    opening = json.dumps(told[1].messages[0].content, ensure_ascii=False)
    [bad] = [prompt for prompt, reply in good.items() if opening in reply]
    server = serve(lambda body: Reply("No." if first_prompt(body) == bad else good[first_prompt(body)]))
    generated = run(small(), tmp_path / "run")
    [failure] = generated.failures
    assert (failure.stage, failure.item) == ("sessions", told[1].session_id)
    assert "no usable reply after 2 repairs" in failure.reason
    store = RunStore(tmp_path / "run")
    assert store.failures() == [failure]
    assert generated.counts["sessions"] == len(told) - 1
    # Neither the session nor later ones of its topic are behind a question.
    later = {s.session_id for s in told if s.topic == told[1].topic and s.period >= told[1].period}
    for question in store.read("questions", Question):
        assert not later.intersection(question.after_session_ids)

    asked = {first_prompt(request.body) for request in server.requests}
    before = len(server.requests)
    server.answer = lambda body: Reply(good[first_prompt(body)])
    assert run(small(), tmp_path / "run").failures == []
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert store.failures() == []
    # Asked for now: the session, and the questions that it had taken with it.
    assert len(server.requests) - before == len(good) - len(asked - {bad})


def test_a_run_that_was_stopped_pays_for_nothing_twice(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    answered: Counter[str] = Counter()

    def answer(body: dict[str, Any]) -> Reply:
        if answered.total() >= 20:
            return error(401, "Incorrect API key provided")
        answered[first_prompt(body)] += 1
        return Reply(good[first_prompt(body)])

    server = serve(answer)
    with pytest.raises(UserError) as raised:
        run(small(), tmp_path / "run")
    assert KEY not in f"{raised.value.message} {raised.value.hint}"

    def mended(body: dict[str, Any]) -> Reply:
        answered[first_prompt(body)] += 1
        return Reply(good[first_prompt(body)])

    server.answer = mended
    run(small(), tmp_path / "run")
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert set(answered.values()) == {1}


@pytest.mark.slow
def test_more_users_are_paid_for_alone_and_the_budget_is_that_of_the_run(
    serve: Serve, good: dict[str, str], tmp_path: Path
) -> None:
    work = small()
    both = work._replace(config=work.config.model_copy(update={"personas": 2}))
    replies = replies_of(both)
    server = serve(lambda body: Reply(replies[first_prompt(body)]))
    run(work, tmp_path / "run")
    assert len(server.requests) == len(good)
    before = stages(tmp_path / "run")
    with pytest.raises(BudgetReached):
        run(both, tmp_path / "run", budget=(len(good) - 1) * 25 / 1e6)
    assert len(server.requests) == len(good)
    assert run(both, tmp_path / "run", budget=1.0).failures == []
    assert len(server.requests) == len(replies) > len(good)
    offline = make_run(both._replace(backend="offline"), tmp_path / "offline")
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert all(content.startswith(before[stage]) for stage, content in stages(tmp_path / "run").items())


@pytest.mark.slow
def test_shards_have_ledgers_of_their_own_and_one_budget(serve: Serve, tmp_path: Path) -> None:
    work = small()
    work = work._replace(config=work.config.model_copy(update={"personas": 2, "fillers": 1}))
    replies = replies_of(work)
    server = serve(lambda body: Reply(replies[first_prompt(body)], usage=(1000, 1000)))  # 0.3 cent each
    with pytest.raises(BudgetReached, match=r"stopped after \$0\.\d+ of \$"):
        list(make_shards(work, tmp_path / "run", 2, budget=0.003 * (len(replies) - 20)))
    asked = len(server.requests)
    assert len(replies) - 20 <= asked < len(replies) - 10, "what the first shard cost counts for the second"
    made = list(make_shards(work, tmp_path / "run", 2, budget=100.0))
    assert len(server.requests) == len(replies)
    ledgers = [shard.generated.ledger for shard in made]
    usages = [Usage.of(ledger) for ledger in ledgers if ledger is not None]
    assert [list(usage.cost_by_persona) for usage in usages] == [[0], [1]]
    both = Usage.together(usages)
    assert (both.calls, both.prompt_tokens) == (len(replies), 1000 * len(replies))
    assert both.cost == pytest.approx(0.003 * len(replies))
    assert list(both.cost_by_persona) == [0, 1]
    assert sum(cost or 0 for cost in both.cost_by_topic.values()) <= both.cost
    for number in (1, 2):
        folder = tmp_path / "run" / "shards" / f"{number:05}-of-00002"
        assert {path.name for path in folder.iterdir()} >= {"ledger.jsonl", "replies.sqlite", "done.json"}


def test_a_budget_stops_the_run_and_a_higher_one_goes_on(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    serve(lambda body: Reply(good[first_prompt(body)], usage=(1000, 1000)))  # 0.3 cent each
    work = small(max_tokens=1000)
    with pytest.raises(BudgetReached, match=r"of \$0\.06"):
        run(work, tmp_path / "run", budget=0.06)
    paid = len((tmp_path / "run" / "ledger.jsonl").read_text().splitlines())
    assert 0.06 <= paid * 0.003 < 0.06 + 0.003 * 5
    assert run(work, tmp_path / "run", budget=100.0).failures == []
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert len((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()) == len(good)
    with pytest.raises(UserError, match="parrot"):
        run(small(prices={}), tmp_path / "other", budget=1.0)


@pytest.mark.slow
def test_the_configuration_says_how_long_a_request_may_take(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    hung: list[str] = []

    def answer(body: dict[str, Any]) -> Reply:
        if not hung:
            hung.append(first_prompt(body))
            return Reply(delay=30)
        return Reply(good[first_prompt(body)])

    server = serve(answer)
    began = time.monotonic()
    run(small(timeout=1), tmp_path / "run")
    assert time.monotonic() - began < 20
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert len(server.requests) == len(good) + 1


def test_the_settings_of_the_configuration_are_in_every_request(
    serve: Serve, good: dict[str, str], tmp_path: Path
) -> None:
    server = serve(lambda body: Reply(good[first_prompt(body)]))
    settings = {"temperature": None, "max_tokens": 4000, "reasoning_effort": "high", "reasoning_tokens": 6000}
    run(small(**settings, extra_body={"top_k": 20, "chat_template_kwargs": {"thinking": True}}), tmp_path / "run")
    for request in server.requests:
        assert "temperature" not in request.body
        assert (request.body["max_tokens"], request.body["reasoning_effort"]) == (10_000, "high")
        assert (request.body["top_k"], request.body["chat_template_kwargs"]) == (20, {"thinking": True})


def test_another_model_reads_back_and_the_ledger_says_what_each_user_and_topic_cost(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    server = serve(lambda body: Reply(good[first_prompt(body)]))
    work = small(prices={**PRICES, "owl": Price(input=0, output=10.0)})._replace(reader="openai:owl")
    generated = run(work, tmp_path / "run")
    assert stages(tmp_path / "run") == stages(offline.folder)
    asked: dict[str, set[bool]] = {"owl": set(), "parrot": set()}
    for request in server.requests:
        prompt = first_prompt(request.body)
        asked[request.body["model"]].add("other_tastes" in prompt or '"numbers"' in prompt)
    assert asked == {"owl": {True}, "parrot": {False}}
    ledger = generated.ledger
    assert ledger is not None
    sessions, questions = generated.counts["sessions"], generated.counts["questions"]
    assert ledger.readings() == {"owl": Readings(sessions + questions, 0)}
    assert set(ledger.shares("topic")) == set(work.banks.topics)
    [(persona_id, share)] = ledger.shares("persona_id").items()
    assert persona_id == 0
    assert share.calls == len(server.requests) - generated.counts["fillers"]
    assert share.cost == pytest.approx(ledger.spent() - 4 * (11 * 1 + 7 * 2) / 1e6)
    assert work.fingerprint() != small().fingerprint()


def test_the_command_says_what_was_paid_and_how_often_the_reader_disagreed(
    serve: Serve, good: dict[str, str], tmp_path: Path
) -> None:
    serve(lambda body: Reply(good[first_prompt(body)]))
    config = yaml.safe_load(TINY.read_text(encoding="utf-8"))
    config |= {"personas": 1, "fillers": 4, "llm": {"prices": {"parrot": {"input": 1.0, "output": 2.0}}}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = ("generate", tmp_path / "mine.yaml", "--out", tmp_path / "run", "--backend", "openai:parrot")
    told = personamem(*command)
    assert told.exit_code == 0
    assert f"cost: ${len(good) * (11 * 1 + 7 * 2) / 1e6:.2g}; {len(good)} calls, {len(good) * 11:,} prompt" in told.err
    assert "by user: 0 $" in told.err
    assert "by topic: " in told.err
    assert "read back: the reader disagreed with the writer about 0 of " in told.err
    assert "note: the reader was the writer" in told.err
    again = json.loads(personamem(*command, "--json").out)
    assert (again["calls"], again["disagreements"]) == (len(good), 0)
    assert again["cost"] == pytest.approx(len(good) * 25 / 1e6)
    assert list(again["cost_by_persona"]) == ["0"]


def test_another_temperature_is_another_run_and_other_limits_are_not(
    serve: Serve, good: dict[str, str], tmp_path: Path
) -> None:
    server = serve(lambda body: Reply(good[first_prompt(body)]))
    run(small(), tmp_path / "run")
    asked = len(server.requests)
    run(small(concurrency=1, max_tokens=4000, requests_per_minute=10**6), tmp_path / "run")
    assert len(server.requests) == asked
    with pytest.raises(UserError, match="temperature"):
        run(small(temperature=0.1), tmp_path / "run")


def test_a_stage_may_have_a_model_of_its_own(
    serve: Serve, good: dict[str, str], offline: RunStore, tmp_path: Path
) -> None:
    server = serve(lambda body: Reply(good[first_prompt(body)]))
    work = small()._replace(backend="offline", stage_backends={"fillers": "openai:parrot"})
    run(work, tmp_path / "run")
    assert stages(tmp_path / "run") == stages(offline.folder)
    assert len(server.requests) == 4


def test_a_model_that_says_nothing_usable_ends_the_run_with_a_reason(serve: Serve, tmp_path: Path) -> None:
    serve(lambda body: Reply("Hello there! How can I help you?"))
    with pytest.raises(UserError, match="0 of 1 personas came out; the first: persona for persona 0"):
        run(small(), tmp_path / "run")
    assert [failure.stage for failure in RunStore(tmp_path / "run").failures()] == ["personas"]
