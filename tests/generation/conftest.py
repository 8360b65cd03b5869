"""What many tests of the generator share: banks, and a crowd of users without any text."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_banks import TOPICS, small_banks, users
from small_runs import make_run, tiny_work

from generation.banks.load import Banks
from generation.config import Config
from generation.history_records import History
from generation.records import Persona


@pytest.fixture(scope="session")
def banks() -> Banks:
    """The shipped banks of four topics."""
    return small_banks()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `examples/tiny.yaml` that nothing interrupted; tests leave it as it is."""
    return make_run(tiny_work(), tmp_path_factory.mktemp("tiny") / "run").folder


@pytest.fixture(scope="session")
def crowd_config() -> Config:
    return Config(topics=TOPICS, personas=160, seed=11, updates_per_topic=8)


@pytest.fixture(scope="session")
def crowd(crowd_config: Config) -> list[tuple[Persona, History]]:
    """A hundred and sixty users and what happens to them."""
    return users(crowd_config)
