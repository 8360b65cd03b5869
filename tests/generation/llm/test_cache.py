"""What was paid for is kept: across processes, whoever writes at the same time, and never returned damaged."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.errors import UserError
from generation.llm.cache import ReplyCache

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


def test_a_reply_comes_back_as_it_was_put(path: Path) -> None:
    cache = ReplyCache(path)
    cache.put("key", 'Zoë said:\n{"a": "\u2019"}')
    assert cache.get("key") == 'Zoë said:\n{"a": "\u2019"}'


def test_what_was_never_put_is_not_there(path: Path) -> None:
    cache = ReplyCache(path)
    assert cache.get("key") is None
    cache.put("key", "")
    assert cache.get("key") == ""
    assert cache.get("KEY") is None


def test_a_later_reply_takes_the_place_of_an_earlier_one(path: Path) -> None:
    cache = ReplyCache(path)
    cache.put("key", "first")
    cache.put("other", "other")
    cache.put("key", "second")
    assert (cache.get("key"), cache.get("other")) == ("second", "other")


def test_replies_outlive_the_process(path: Path, python: Python) -> None:
    code = f"""
import os
from pathlib import Path
from generation.llm.cache import ReplyCache
ReplyCache(Path({str(path)!r})).put("key", "text")
os._exit(0)  # as a kill would end it: nothing is closed
"""
    python(code)
    assert ReplyCache(path).get("key") == "text"


@settings(max_examples=20)
@given(st.dictionaries(st.text(), st.text(), max_size=8))
def test_any_text_is_kept(tmp_path_factory: pytest.TempPathFactory, replies: dict[str, str]) -> None:
    cache = ReplyCache(tmp_path_factory.mktemp("cache") / "replies.sqlite")
    for key, text in replies.items():
        cache.put(key, text)
    assert {key: cache.get(key) for key in replies} == replies


def test_eight_threads_lose_nothing(path: Path) -> None:
    cache = ReplyCache(path)

    def write(thread: int) -> None:
        for i in range(25):
            cache.put(f"{thread} {i}", f"text {thread} {i}")
            assert cache.get(f"{thread} {i}") == f"text {thread} {i}"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert all(cache.get(f"{t} {i}") == f"text {t} {i}" for t in range(8) for i in range(25))


def test_eight_processes_that_begin_together_lose_nothing(path: Path, python: Python) -> None:
    code = f"""
import os
from pathlib import Path
from generation.llm.cache import ReplyCache

def write(process):
    cache = ReplyCache(Path({str(path)!r}))
    for i in range(25):
        cache.put(f"{{process}} {{i}}", f"text {{process}} {{i}}")

children = []
for process in range(8):
    child = os.fork()
    if child == 0:
        try:
            write(process)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
"""
    python(code)
    cache = ReplyCache(path)
    assert all(cache.get(f"{p} {i}") == f"text {p} {i}" for p in range(8) for i in range(25))


def test_a_file_that_is_no_cache_is_a_clear_error_and_left_alone(path: Path) -> None:
    path.write_text("my thesis, chapter one: " * 100)
    with pytest.raises(UserError, match=r"replies\.sqlite cannot be used as a cache of replies") as caught:
        ReplyCache(path)
    assert caught.value.hint.startswith("move it away")
    assert path.read_text().startswith("my thesis")


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be used as a cache of replies"):
        ReplyCache(tmp_path / "nowhere" / "replies.sqlite")


def test_damage_inside_the_file_is_a_clear_error(path: Path) -> None:
    cache = ReplyCache(path)
    for i in range(100):
        cache.put(f"key {i}", "text " * 400)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(path.read_bytes())
    data[8192:-8192] = b"\xff" * (len(data) - 16384)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"replies\.sqlite cannot be used as a cache of replies"):
        [ReplyCache(path).get(f"key {i}") for i in range(100)]


def test_a_database_of_something_else_is_a_clear_error(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE replies (letter TEXT)")
    connection.close()
    with pytest.raises(UserError, match="cannot be used as a cache of replies"):
        ReplyCache(path).get("key")


def test_a_full_disk_is_a_clear_error_and_loses_nothing(path: Path, python: Python) -> None:
    ReplyCache(path).put("key", "text")
    code = f"""
import resource
from pathlib import Path
from generation.errors import UserError
from generation.llm.cache import ReplyCache
cache = ReplyCache(Path({str(path)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    cache.put("long", "text " * 100_000)
except UserError as error:
    print("cannot be used" in error.message)
"""
    assert python(code).stdout == "True\n"
    assert ReplyCache(path).get("key") == "text"
    assert ReplyCache(path).get("long") is None
