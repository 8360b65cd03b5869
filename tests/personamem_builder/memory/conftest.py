"""What the tests of memory systems share: a generated dataset, and a made-up context."""

from __future__ import annotations

from typing import Any

import pytest
import small_memories


@pytest.fixture
def context() -> dict[str, Any]:
    """Three sessions: messages 0 to 2, 3 and 4, 5 and 6."""
    roles = ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    return {
        "shared_context_id": "c",
        "persona_id": 1,
        "messages": [{"role": role, "content": f"text {i}"} for i, role in enumerate(roles)],
        "session_starts": [0, 3, 5],
        "session_dates": ["2020-01-01", "", "2020-03-01"],
    }


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:
    small_memories.CALLS.clear()
    small_memories.KEY.clear()
