"""The sample that a language model wrote is whole, small, and what its README says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command_line import personamem

from generation.config import load_config
from generation.llm.ledger import Ledger
from generation.records import Filler, Persona, Question, Session
from generation.store import RunStore

SAMPLE = Path(__file__).parents[1] / "examples" / "written"
README = (SAMPLE / "README.md").read_text(encoding="utf-8")


def test_it_is_a_whole_run_of_its_configuration() -> None:
    config = load_config(SAMPLE.with_suffix(".yaml"))
    store = RunStore(SAMPLE)
    sessions = list(store.read("sessions", Session))
    assert len(list(store.read("personas", Persona))) == config.personas == 3
    assert len(sessions) == 3 * len(config.topics) * config.periods == 48
    assert len(list(store.read("questions", Question))) == 3 * len(config.topics) * 7
    assert len(list(store.read("fillers", Filler))) == config.fillers
    users = [message for session in sessions for message in session.messages if message.role == "user"]
    events = sum(bool(message.event_ids) for message in users)
    others = sum(bool(message.mention_ids) and not message.event_ids for message in users)
    assert f"Here {events} of {len(users)} do, {others} more tell of others alone" in " ".join(README.split())
    assert 2 * events < len(users)


def test_its_readme_tells_what_it_took(tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "ledger.jsonl", tmp_path)
    ledger = Ledger(tmp_path / "ledger.jsonl", {})
    lines = ledger.summary()
    calls, prompts, replies = (
        sum(getattr(line, key) for line in lines) for key in ("calls", "prompt_tokens", "reply_tokens")
    )
    assert f"{calls} calls with {prompts:,} prompt tokens and {replies:,} reply tokens" in README
    [(model, readings)] = ledger.readings().items()
    assert model == "reader"
    assert f"The reader disagreed with the writer about {readings.disagreed} of {readings.texts} texts" in README


def test_it_is_small_and_shows_nothing_of_the_machine_it_was_made_on() -> None:
    files = [path for path in SAMPLE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4_000_000
    for path in files:
        assert not re.search(rb"(?<![\w/.])/(?:home|root|tmp|work)/|127\.0\.0\.1", path.read_bytes()), path


@pytest.mark.slow
def test_it_can_be_built(tmp_path: Path) -> None:
    run = tmp_path / "written"
    shutil.copytree(SAMPLE, run)
    assert personamem("assemble", run, "--split", "32k").out.startswith("32k: 6 contexts, 67 questions")
    built = personamem("build", run, "--out", tmp_path / "data")
    assert built.exit_code == 0
    assert "all 39 limits are met" in built.out + built.err
