"""What many tests of the generator share: banks, and a crowd of users without any text."""

from __future__ import annotations

import pytest
from small_banks import TOPICS, small_banks, users

from generation.banks.load import Banks
from generation.config import Config
from generation.records import History, Persona


@pytest.fixture(scope="session")
def banks() -> Banks:
    """The shipped banks of four topics."""
    return small_banks()


@pytest.fixture(scope="session")
def crowd_config() -> Config:
    return Config(topics=TOPICS, personas=300, seed=11)


@pytest.fixture(scope="session")
def crowd(crowd_config: Config) -> list[tuple[Persona, History]]:
    """Three hundred users and what happens to them."""
    return users(crowd_config)
