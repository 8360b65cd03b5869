"""The files of a run that others wrote or cut: one clear error, whatever is in them, and nothing is left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from small_runs import contents, make_run, tiny_work

VALUES: tuple[Any, ...] = (None, True, "x", [], {}, 1.5, -1, 10**30, [[]])
TEXTS = (b"", b"null", b"[]", b"{", b'"x"', b"[" * 100_000, b"1" * 5_000, b"\xff\xfe", b'{"a": 1, "a": 2}', b"\0")

REPORTS = {
    "config.json": ("assemble", "RUN", "--n-blocks", "3"),
    "splits/3blocks/assembly.json": ("build", "RUN", "--out", "OUT"),
    "failed.jsonl": ("assemble", "RUN", "--n-blocks", "3"),
    "refined.json": ("assemble", "RUN", "--n-blocks", "3"),
    "ledger.jsonl": ("refine", "RUN", "--rounds", "0", "--budget", "1"),
    "stages/questions.jsonl": ("assemble", "RUN", "--n-blocks", "3"),
    "splits/3blocks/contexts.jsonl": ("build", "RUN", "--out", "OUT"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    make_run(tiny_work(personas=1), folder)
    assert personamem("assemble", folder, "--n-blocks", "3").exit_code == 0
    return folder


def refuses(folder: Path, name: str, content: bytes | None, command: tuple[str, ...]) -> str:
    """Give a file another content, or put a folder in its place, and return the error that a command ends with."""
    path = folder / name
    old = path.read_bytes() if path.is_file() else None
    if content is None:
        path.unlink(missing_ok=True)
        path.mkdir()
    else:
        path.write_bytes(content)
    before = contents(folder)
    outcome = personamem(
        *(str(folder) if w == "RUN" else str(folder.parent / "out") if w == "OUT" else w for w in command)
    )
    assert contents(folder) == before
    assert not (folder.parent / "out").exists()
    if content is None:
        path.rmdir()
    if old is not None:
        path.write_bytes(old)
    elif content is not None:
        path.unlink()
    assert outcome.exit_code == 1, (content or b"")[:80]
    assert outcome.err.startswith("error: "), outcome.err
    assert "\nhint: " in outcome.err
    return outcome.err


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_no_such_file_is_refused_and_named(copy: Path, name: str) -> None:
    empty_is_fine = ("failed.jsonl", "ledger.jsonl")
    for text in TEXTS:
        if text or name not in empty_is_fine:
            # What does not end a line is, in a ledger, what a kill left.
            assert Path(name).name in refuses(copy, name, text + b"\n", REPORTS[name])
    assert Path(name).name in refuses(copy, name, None, REPORTS[name])


def damaged(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a key and the content without it, or with something else under it."""
    for key in whole:
        yield key, {name: value for name, value in whole.items() if name != key}
        for value in VALUES:
            if value != whole[key] or type(value) is not type(whole[key]):
                yield key, whole | {key: value}


def test_each_key_of_an_assembly_is_checked(copy: Path) -> None:
    name = "splits/3blocks/assembly.json"
    whole = json.loads((copy / name).read_text())
    for key, content in damaged(whole):
        if (key, content.get(key)) in (("max_tokens", None), ("split", "x")) and key in content:
            continue
        message = refuses(copy, name, json.dumps(content).encode(), REPORTS[name])
        assert "assembly.json" in message or "is not what the split" in message, (key, content.get(key))


@pytest.mark.parametrize(
    "key",
    [
        "seed",
        "personas",
        "persona_source",
        "persona_visible",
        "topics",
        "periods",
        "questions_per_topic",
        "fillers",
        "backend",
    ],
)
def test_each_key_that_is_read_of_a_config_is_checked(copy: Path, key: str) -> None:
    whole = json.loads((copy / "config.json").read_text())
    other = {k: v for k, v in whole.items() if k != key}
    assert f"{key}: Field required" in refuses(copy, "config.json", json.dumps(other).encode(), REPORTS["config.json"])
    for value in (True, 1.5, [[]]):
        message = refuses(copy, "config.json", json.dumps(whole | {key: value}).encode(), REPORTS["config.json"])
        assert f"config.json: {key}" in message


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({"stage": "sessions", "item": "x"}, "line 2: reason: Field required"),
        ({"stage": "sessions", "item": 3, "reason": "x"}, "line 2: item: "),
        ({"stage": None, "item": "x", "reason": "x"}, "line 2: stage: "),
        ({"stage": "sessions", "item": "x", "reason": "x", "more": 1}, "line 2: unknown key 'more'"),
        (["sessions"], "line 2: "),
    ],
)
def test_each_line_of_the_failed_items_is_checked(copy: Path, line: Any, fault: str) -> None:
    good = {"stage": "fillers", "item": "x", "reason": "y"}
    text = f"{json.dumps(good)}\n{json.dumps(line)}\n".encode()
    message = refuses(copy, "failed.jsonl", text, REPORTS["failed.jsonl"])
    assert f"failed.jsonl, {fault}" in message
    assert "hint: remove it" in message
