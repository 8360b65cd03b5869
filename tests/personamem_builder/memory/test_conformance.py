"""The check of memory systems: each promise that a system breaks is found, and no other is blamed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from loopback_arena import LoopbackArena

from generation.errors import UserError
from personamem_builder.memory import conformance
from personamem_builder.memory.conformance import check_system
from personamem_builder.memory.made_up import made_up_user

ROOT = Path(__file__).parents[3]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the crash out, which starts a process."""
    without = {name: check for name, check in conformance._CHECKS.items() if name != "crash"}
    monkeypatch.setattr(conformance, "_CHECKS", without)


def results(name: str, timeout: float = 30.0, **settings: Any) -> dict[str, tuple[str, str]]:
    verdicts = check_system(name if ":" in name else f"misbehaving_systems:{name}", settings, timeout)
    return {check: (status, detail) for check, status, detail in verdicts}


def by_status(found: dict[str, tuple[str, str]], status: str) -> set[str]:
    return {check for check, (got, _) in found.items() if got == status}


def test_a_good_system_passes_everything() -> None:
    found = results("Good")
    assert by_status(found, "FAILED") | by_status(found, "unclear") == set()
    assert by_status(found, "skipped") == {"sent twice"}
    assert len(found) == 13
    assert found["finds"] == ("passed", "4 of 4 facts found")
    assert found["usage"] == ("passed", "it tells messages")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "failed", "detail"),
    [
        ("Surplus", "finds", "search with k = 1 returns more than one memory|more than k memories"),
        ("Prophet", "order", "it remembers something before it is told anything: 'The user likes tea.'"),
        ("Conservative", "order", "of a preference that changed it finds the outdated state only"),
        ("OfToday", "order", "bears the date 2026-11-29"),
        ("LosesPieces", "pieces", "loses what its first piece told"),
        ("Notebook", "searching", "it writes down what it is asked"),
        ("Shared", "isolation", "after a reset a user is given what another said"),
        ("SideBySide", "isolation", "of two systems side by side a user is given what another said"),
        ("Files", "forgetting", "1 of its files hold words of the user before: log.txt"),
        ("HalfSnapshots", "persistence", "it finds other things than without"),
        ("Fragile", "unicode", "add_session of session 0 fails: UnicodeEncodeError"),
        ("Refunds", "usage", "sums that only grow"),
        ("Broken", "finds", "add_session of session 0 fails: ValueError: no space left"),
        ("NoMemories", "finds", "search: search returned str where Memory is due"),
    ],
)
def test_a_broken_promise_is_found(name: str, failed: str, detail: str) -> None:
    found = results(name)
    status, said = found[failed]
    assert status == "FAILED"
    assert any(one in said for one in detail.split("|")), said
    blamed = by_status(found, "FAILED")
    if name not in ("Surplus", "Notebook", "Shared", "SideBySide", "Broken", "NoMemories"):  # these break all else
        assert blamed == {failed}


@pytest.mark.usefixtures("quick")
def test_what_finds_nothing_proves_nothing() -> None:
    found = results("Forgetful")
    assert found["finds"] == ("unclear", "nothing of what it was told comes back")
    assert {"order", "pieces", "isolation", "forgetting", "unicode"} <= by_status(found, "unclear")
    assert by_status(found, "FAILED") == set()


@pytest.mark.usefixtures("quick")
def test_a_system_that_answers_as_it_likes_is_told_to_repeat_runs() -> None:
    found = results("Moody")
    assert found["repeats"][0] == "unclear"
    assert "report the spread" in found["repeats"][1]


@pytest.mark.usefixtures("quick")
def test_one_user_at_a_time_is_well_if_it_is_said() -> None:
    status, said = results("Single")["isolation"]
    assert status == "passed"
    assert "one user at a time" in said


@pytest.mark.usefixtures("quick")
def test_a_call_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: check for name, check in conformance._CHECKS.items() if name in ("finds", "time limit")}
    monkeypatch.setattr(conformance, "_CHECKS", few)
    found = results("Slow", timeout=0.3)
    assert found["finds"][1].startswith("search hangs: it did not end in 0.3 s")
    assert found["time limit"][0] == "FAILED"


def test_a_lock_that_a_dead_process_leaves(tmp_path: Path) -> None:
    found = results("Locked", folder=str(tmp_path))
    assert found["crash"] == ("FAILED", "making it fails: the memory system misbehaving_systems:Locked cannot be made: "
                              "RuntimeError: somebody else is at it")  # fmt: skip


@pytest.mark.usefixtures("quick")
def test_a_server_of_the_arena_that_keeps_the_contract_and_one_that_does_not() -> None:
    with LoopbackArena() as arena:
        found = results("arena:" + arena.url)
        assert by_status(found, "FAILED") | by_status(found, "unclear") == set()
        assert found["sent twice"][0] == found["persistence"][0] == "passed"
        arena.forget()
        arena.repeats = True
        found = results("arena:" + arena.url)
        assert found["sent twice"] == ("FAILED", "a session that is sent again is taken in twice")
        arena.mixes = True
        with pytest.raises(UserError, match="gives one user what another said"):
            results("arena:" + arena.url)


def test_the_reference_server_conforms() -> None:
    command = [sys.executable, ROOT / "examples" / "memory_server.py", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = results("personamem_builder.memory.http:HttpMemory", url=server.stdout.readline().strip())
        server.kill()
    assert by_status(found, "FAILED") | by_status(found, "unclear") == set()
    assert found["sent twice"][0] == "passed"


@pytest.mark.usefixtures("quick")
def test_the_command_prints_the_report_and_fails_with_the_system() -> None:
    well = personamem("memory", "check", "misbehaving_systems:Good")
    assert well.exit_code == 0, well.err
    assert "isolation    passed   neither the next user nor one beside finds anything of a user" in well.out
    ill = personamem("memory", "check", "misbehaving_systems:LosesPieces", "--json")
    assert ill.exit_code == 1
    assert "failed 1 of 12 checks: pieces" in ill.err
    assert {"check": "pieces", "status": "FAILED"}.items() <= json.loads(ill.out)[2].items()
    for arguments, message in (
        (["bm52"], "there is no memory system 'bm52'"),
        (["bm25", "--timeout", "0"], "a system needs time"),
        (["bm25", "--set", "unit=word"], "there is no such unit"),
        (["http", "--set", "url=http://127.0.0.1:1"], "no server is there"),
    ):
        refused = personamem("memory", "check", *arguments)
        assert (refused.exit_code, refused.out) == (1, "")
        assert message in refused.err


def test_made_up_users_are_the_same_each_time_and_share_no_word() -> None:
    one, other = made_up_user("one"), made_up_user("other")
    assert one == made_up_user("one")
    assert not {*one.words} & {*other.words}
    said = " ".join(message["content"] for session in one.sessions for message in session.messages)
    assert all(word in said for word in one.words)
    indices = [session.first_index for session in one.sessions]
    assert indices == [0, 5, 9, 13, 17]
