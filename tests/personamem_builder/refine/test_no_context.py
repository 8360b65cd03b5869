"""Questions that a model answers without any history are dropped, and it is said what guessing would have dropped."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import LoopbackLLM, Reply, error
from small_leaks import questions_of
from small_runs import contents, make_run, tiny_work

from generation.config import load_config
from generation.errors import UserError
from generation.llm.ledger import BudgetReached
from generation.records import Question
from generation.store import RunStore
from personamem_builder.assemble.refined import Refined, find_refined
from personamem_builder.refine.no_context import NoContextFilter, chance_of
from personamem_builder.refine.refine import Settings, refine

KEY = "sk-a-key-that-nobody-may-see"
FILTER = NoContextFilter("openai:reader", votes=5, at_least=4)
SETTINGS = Settings(2, {}, filter=FILTER)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A run of one user, whose questions no probe can learn to answer; tests leave it as it is."""
    return make_run(tiny_work(personas=1, fillers=4), tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def store(made: RunStore, tmp_path: Path) -> RunStore:
    return RunStore(Path(shutil.copytree(made.folder, tmp_path / "run")))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of the run, with what a run does not keep."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        (Path(__file__).parents[3] / "examples" / "tiny.yaml").read_text().replace("personas: 2", "personas: 1")
        + "llm: {concurrency: 2, max_tokens: 100, prices: {reader: {input: 100, output: 100}}}\n"
    )
    path.write_text(path.read_text().replace("fillers: 60", "fillers: 4"))
    assert load_config(path).personas == 1
    return path


Serve = Callable[[Callable[[dict[str, Any]], Reply]], LoopbackLLM]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    servers: list[LoopbackLLM] = []

    def start(answer: Callable[[dict[str, Any]], Reply]) -> LoopbackLLM:
        server = LoopbackLLM(answer)
        server.__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


class Reader:
    """A model that knows some answers, has favourites among other options, and is silent elsewhere.

    The first question in four is one that it knows, the second one where it always takes the same wrong option, the
    third one where it always takes (a), and the fourth one where it says nothing of use.
    """

    def __init__(self, questions: list[Question]) -> None:
        self.numbers = {frozenset(option.text for option in q.options): i for i, q in enumerate(questions)}
        self.questions = questions
        self.orders: dict[int, list[tuple[str, ...]]] = {}

    def __call__(self, body: dict[str, Any]) -> Reply:
        [message] = body["messages"][:1]
        options = re.findall(r"^\(([abcd])\) (.*)$", message["content"], re.MULTILINE)
        i = self.numbers[frozenset(text for _, text in options)]
        question = self.questions[i]
        assert question.message in message["content"]
        self.orders.setdefault(i, []).append(tuple(text for _, text in options))
        letters = {text: letter for letter, text in options}
        wrong = min(option.text for k, option in enumerate(question.options) if k != question.answer_index)
        choice = (letters[question.options[question.answer_index].text], letters[wrong], "a", "none")[i % 4]
        return Reply(json.dumps({"choice": choice}), usage=(100, 10))


def decided(store: RunStore) -> Refined:
    refined = find_refined(store)
    assert refined is not None
    return refined


def test_what_the_model_knows_is_dropped_and_votes_are_kept(serve: Serve, store: RunStore) -> None:
    questions = questions_of(store)
    reader = Reader(questions)
    server = serve(reader)
    outcome = refine(store, SETTINGS)
    refined = decided(store)
    assert outcome.refined == refined
    fates = [refined.questions[question.question_id] for question in questions]
    for i, fate in enumerate(fates):
        assert fate.votes == ((True,) * 5, (False,) * 5, fate.votes, (None,) * 5)[i % 4]
        assert len(fate.votes) == 5
        assert fate.dropped == ("no_context" if fate.votes.count(True) >= 4 else None)
    # Each answer is to another order of the options; one that could not be used was asked for again.
    assert [len(set(orders)) for orders in reader.orders.values()] == [5] * len(questions)
    assert all(len(orders) == 5 for i, orders in reader.orders.items() if i % 4 < 3)
    assert server.keys == {KEY}
    assert not list(store.folder.glob("*.sqlite-*")), "the cache is closed: nothing changes the folder any more"
    assert KEY.encode() not in b"".join(contents(store.folder).values())

    asked = refined.no_context
    assert asked is not None
    count = Counter(i % 4 for i in range(len(questions)))
    dropped = sum(fate.dropped is not None for fate in fates)
    assert (asked.model, asked.votes, asked.at_least) == ("openai:reader", 5, 4)
    assert asked.unusable == 5 * count[3]
    assert asked.all.asked == len(questions)
    assert count[0] <= asked.all.dropped == dropped == refined.funnel.all.dropped["no_context"]
    assert asked.all.by_chance == pytest.approx(len(questions) * 16 / 1024, abs=0.005)
    # The reader's favourites, a third of which would be right in questions that nobody can answer.
    assert count[1] / 3 - 0.01 < asked.all.by_taste <= (count[1] + count[2]) / 3
    for name in ("asked", "dropped"):
        assert sum(getattr(part, name) for part in asked.types.values()) == getattr(asked.all, name)
    assert refined.funnel.all.made == refined.funnel.all.kept + dropped
    ledger = [json.loads(line) for line in (store.folder / "ledger.jsonl").read_text().splitlines()]
    assert {(line["stage"], line["template"], line["model"]) for line in ledger} == {
        ("no_context", "no_context", "reader")
    }
    assert len(ledger) == len(server.requests)


@pytest.mark.slow
def test_the_same_again_asks_for_the_unusable_answers_only(serve: Serve, store: RunStore) -> None:
    questions = questions_of(store)
    reader = Reader(questions)
    server = serve(reader)
    refine(store, SETTINGS)
    asked = len(server.requests)
    reader.orders.clear()
    server.answer = lambda body: Reply(reader(body).text.replace("none", "b"))  # type: ignore[union-attr]
    refine(store, SETTINGS)
    assert set(reader.orders) == {i for i in range(len(questions)) if i % 4 == 3}
    unusable = 5 * len(reader.orders)
    assert len(server.requests) == asked + unusable
    after = contents(store.folder)
    assert not refine(store, SETTINGS).is_new
    assert contents(store.folder) == after
    # Another number of right answers needs no new ones, nor do fewer votes.
    assert refine(store, SETTINGS._replace(filter=NoContextFilter("openai:reader", 3, 3))).is_new
    assert len(server.requests) == asked + unusable
    assert [len(fate.votes) for fate in decided(store).questions.values()] == [3] * len(questions)


def test_after_a_stop_nothing_is_paid_for_twice(serve: Serve, store: RunStore, tmp_path: Path) -> None:
    questions = questions_of(store)
    whole = RunStore(Path(shutil.copytree(store.folder, tmp_path / "whole")))

    def answer(body: dict[str, Any]) -> Reply:
        return Reply('{"choice": "a"}')

    serve(answer)
    refine(whole, SETTINGS)
    answered: Counter[str] = Counter()

    def stopping(body: dict[str, Any]) -> Reply:
        if answered.total() >= 20:
            return error(401, "Incorrect API key provided")
        answered[body["messages"][0]["content"]] += 1
        return answer(body)

    def going_on(body: dict[str, Any]) -> Reply:
        answered[body["messages"][0]["content"]] += 1
        return answer(body)

    server = serve(stopping)
    before = contents(store.folder / "stages")
    with pytest.raises(UserError, match="key"):
        refine(store, SETTINGS)
    assert contents(store.folder / "stages") == before
    assert not (store.folder / "refined.json").exists()
    server.answer = going_on
    refine(store, SETTINGS)
    assert set(answered.values()) == {1}
    assert len(answered) == 5 * len(questions)
    for name in ("refined.json", "stages/questions.jsonl"):
        assert (store.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_budget_stops_it_and_a_higher_one_goes_on(serve: Serve, store: RunStore, config: Path) -> None:
    questions = questions_of(store)
    server = serve(lambda body: Reply('{"choice": "b"}', usage=(300, 100)))  # 4 cents each
    with pytest.raises(BudgetReached, match=r"of \$1\.00"):
        refine(store, SETTINGS, config, budget=1.0)
    assert 25 <= len(server.requests) <= 27
    refine(store, SETTINGS, config, budget=100.0)
    assert len(server.requests) == 5 * len(questions)
    with pytest.raises(UserError, match="--budget needs the price of reader"):
        refine(store, SETTINGS._replace(rounds=1), budget=1.0)


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        (NoContextFilter("openai:reader", 3, 4), r"--at-least must be from 1 to --votes, 3 \(it is 4\)"),
        (NoContextFilter("openai:reader", 3, 0), r"--at-least must be from 1 to --votes, 3 \(it is 0\)"),
        (NoContextFilter("openai:reader", 0, 0), r"--votes must be from 1 to 24.* \(it is 0\)"),
        (NoContextFilter("openai:reader", 25, 4), r"--votes must be from 1 to 24.* \(it is 25\)"),
        (NoContextFilter("parrot", 5, 4), "there is no backend 'parrot'"),
        (NoContextFilter("offline", 5, 4), "the offline backend cannot read questions"),
    ],
)
def test_a_filter_that_cannot_work(made: RunStore, filter_: NoContextFilter, message: str) -> None:
    before = contents(made.folder)
    with pytest.raises(UserError, match=message):
        refine(made, SETTINGS._replace(filter=filter_))
    assert contents(made.folder) == before


def test_without_a_key_nothing_begins(made: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        refine(made, SETTINGS)


@pytest.mark.parametrize(("votes", "at_least", "chance"), [(5, 4, 16 / 1024), (1, 1, 0.25), (3, 2, 10 / 64)])
def test_chance(votes: int, at_least: int, chance: float) -> None:
    assert chance_of(votes, at_least) == pytest.approx(chance)
