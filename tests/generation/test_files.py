from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generation.files import replacing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "file.txt"


def test_a_new_file_appears_when_the_block_ends(path: Path) -> None:
    with replacing(path) as part:
        part.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_can_be_read_until_the_block_ends(path: Path) -> None:
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_the_new_file_is_written_in_the_same_folder_where_a_rename_is_atomic(path: Path) -> None:
    with replacing(path) as part:
        part.touch()
        assert part.parent == path.parent


def write_half(path: Path, error: BaseException) -> None:
    with replacing(path) as part:
        part.write_text("half")
        raise error


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
def test_an_exception_leaves_the_old_file_and_nothing_else(path: Path, error: BaseException) -> None:
    path.write_text("old")
    with pytest.raises(type(error)):
        write_half(path, error)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_an_exception_leaves_no_file_where_there_was_none(path: Path) -> None:
    with pytest.raises(OSError, match="disk full"):
        write_half(path, OSError("disk full"))
    assert list(path.parent.iterdir()) == []


def test_a_kill_in_mid_write_leaves_the_old_file(python: Callable[..., Any], path: Path) -> None:
    path.write_text("old")
    code = """
import os, signal, sys
from pathlib import Path
from generation.files import replacing
with replacing(Path(sys.argv[1])) as part, part.open("w") as file:
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    python(code, str(path), exits=-signal.SIGKILL)
    assert path.read_text() == "old"

    with replacing(path) as part:
        part.write_text("new")
    assert path.read_text() == "new", "what the killed process left behind is in nobody's way"
