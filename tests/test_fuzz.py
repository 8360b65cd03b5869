"""Damaged files of every kind, read by every command that reads the kind: none may do harm."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.damage import BYTES
from fuzz.damage_data import JSON, JSONL, YAML
from fuzz.kinds import KINDS
from fuzz.run import cases

from generation.errors import UserError
from generation.record_files import read_records, record_line
from generation.records import Record

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "fuzz_readers.py"

needs_script = pytest.mark.skipif(not SCRIPT.is_file(), reason="the script is not in the source distribution")


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the script keeps the valid files."""
    return tmp_path_factory.mktemp("fuzz") / "valid"


def fuzz(*arguments: str | Path) -> str:
    # In a process of its own: it forks, and pytest has threads.
    command = [sys.executable, SCRIPT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


def figures(table: str) -> tuple[int, ...]:
    """Return cases, readings, refused, accepted and failed of all kinds."""
    (line,) = re.findall(r"^all +(.*)$", table, re.MULTILINE)
    return tuple(map(int, line.split()))


@needs_script
@pytest.mark.slow
@pytest.mark.xdist_group("fuzz")  # they share the valid files
def test_every_command_takes_the_files_that_are_not_damaged(valid: Path) -> None:
    files, readings, refused, accepted, failed = figures(fuzz("--undamaged", "--valid", valid))

    assert (files, accepted, refused, failed) == (len(KINDS), readings, 0, 0)


@needs_script
@pytest.mark.slow
@pytest.mark.xdist_group("fuzz")  # they share the valid files
def test_no_damaged_file_does_harm(valid: Path) -> None:
    count = 7 * len(KINDS)

    files, readings, refused, accepted, failed = figures(fuzz("--cases", str(count), "--valid", valid))

    assert files == count > 300
    assert refused + accepted == readings > 2 * count
    assert refused > readings / 3
    assert failed == 0


def test_a_seed_damages_always_in_the_same_way() -> None:
    content = b'{"a": [1, 2, {"b": "text"}], "c": null}'
    drawn = cases(3, 200, ["manifest"])

    assert [case.damaged(content) for case in drawn] == [case.damaged(content) for case in cases(3, 200, ["manifest"])]
    assert [case.damage for case in drawn] != [case.damage for case in cases(4, 200, ["manifest"])]


def test_each_damage_of_a_kind_comes_before_one_comes_again() -> None:
    for kind, about in KINDS.items():
        drawn = [case.damage for case in cases(0, len(about.damages), [kind])]
        assert sorted(drawn) == sorted(about.damages)


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_damaged(name: str) -> None:
    content = bytes(range(256)) * 4
    assert all(BYTES[name](content, random.Random(seed)) != content for seed in range(20))


def test_what_is_damaged_as_data_is_mostly_still_json() -> None:
    content = json.dumps({"id": "a", "list": [1, 2, 3], "inner": {"x": 1.5, "y": None}}).encode()
    parsed = [parses(JSON[name](content, random.Random(seed))) for name in JSON for seed in range(5)]
    assert sum(parsed) > len(parsed) / 2


def parses(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def test_a_damaged_line_of_a_run_mostly_has_a_digest_that_fits(tmp_path: Path) -> None:
    class Noted(Record):
        number: int
        text: str

    def fault(seed: int) -> str:
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(JSONL["list"](lines, random.Random(seed)))
        with pytest.raises(UserError) as raised:
            list(read_records(path, Noted))
        return raised.value.message

    lines = b"".join(record_line(Noted(number=number, text="word")) for number in range(5))
    assert sum("digest" in fault(seed) for seed in range(40)) < 20


def test_yaml_has_damages_of_its_own() -> None:
    content = b"seed: 1\ntopics: [a, b]\n"
    assert b"2021-13-45" in YAML["date that does not exist"](content, random.Random(1))
    assert len(YAML) > len(JSON)
