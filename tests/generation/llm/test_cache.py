"""What was paid for is kept: across processes, whoever writes at the same time, and never returned damaged."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
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


@settings(max_examples=8)
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


# --- puts of several threads, which are written in groups


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep everybody from writing, as another process does while it writes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def rows(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as reader:
        found = reader.execute("SELECT key, text FROM replies").fetchall()
    assert len(dict(found)) == len(found)
    return dict(found)


def frames(path: Path) -> int:
    """Return the pages that were written since the log was begun; each group writes those that it touches once."""
    return (path.with_name(f"{path.name}-wal").stat().st_size - 32) // (4096 + 24)


def test_no_put_returns_before_its_reply_is_written(path: Path) -> None:
    cache = ReplyCache(path)
    cache.put("before", "text")
    with ThreadPoolExecutor(8) as pool:
        with held(path):
            puts = [pool.submit(cache.put, f"key {i}", f"text {i}") for i in range(8)]
            done, _ = wait(puts, timeout=0.2)
            assert (done, rows(path)) == (set(), {"before": "text"})
            assert cache.get("before") == "text"  # who reads does not wait
            assert cache.get("key 0") is None
        for put in puts:
            put.result()
    assert rows(path) == {"before": "text"} | {f"key {i}": f"text {i}" for i in range(8)}


def test_puts_that_wait_are_written_together(path: Path) -> None:
    cache = ReplyCache(path)
    cache.put("before", "text")
    begun = frames(path)
    cache.put("alone", "text")
    alone = frames(path) - begun
    with ThreadPoolExecutor(24) as pool, held(path):
        puts = [pool.submit(cache.put, f"key {i}", "text") for i in range(24)]
        wait(puts, timeout=0.3)
    assert [put.result() for put in puts] == [None] * 24
    assert len(rows(path)) == 26
    assert frames(path) - begun - alone < 24 * alone / 3


def test_puts_that_wait_for_nothing_are_written_together(path: Path) -> None:
    """Were each written on its own, thousands of answers that come fast would wait for the disk."""
    cache = ReplyCache(path)
    cache.put("before", "text")
    begun = frames(path)
    cache.put("alone", "text")
    alone = frames(path) - begun
    with held(path):
        for i in range(2000):
            cache.put_soon(f"key {i}", "text")
        assert len(rows(path)) == 2
    cache.flush()
    assert len(rows(path)) == 2002
    assert frames(path) - begun - alone < 2000 * alone / 20


def test_a_put_that_waited_for_nothing_is_written_when_python_ends(path: Path, python: Python) -> None:
    code = f"""
from pathlib import Path
from generation.llm.cache import ReplyCache
cache = ReplyCache(Path({str(path)!r}))
for i in range(300):
    cache.put_soon(f"key {{i}}", "text " * 100)
raise SystemExit(0)
"""
    python(code)
    assert len(rows(path)) == 300


def test_a_put_that_waited_for_nothing_and_failed_is_told_later(path: Path, python: Python) -> None:
    code = f"""
import resource
from pathlib import Path
from generation.errors import UserError
from generation.llm.cache import ReplyCache
cache = ReplyCache(Path({str(path)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    cache.put_soon("long", "text " * 100_000)
    cache.flush()
except UserError as error:
    print("cannot be used" in error.message)
"""
    assert python(code).stdout == "True\n"


def test_a_file_that_was_removed_is_begun_anew_whatever_a_kill_left_beside_it(path: Path, python: Python) -> None:
    code = f"""
import os
from pathlib import Path
from generation.llm.cache import ReplyCache
cache = ReplyCache(Path({str(path)!r}))
cache.put("key", "text")
os._exit(0)
"""
    python(code)
    assert path.with_name(f"{path.name}-wal").exists()
    path.unlink()
    assert ReplyCache(path).get("key") is None


def test_one_key_put_by_many_threads_is_there_once(path: Path) -> None:
    cache = ReplyCache(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: cache.put(f"key {i % 3}", f"text {i % 3} of {i}"), range(120)))
    found = rows(path)
    assert sorted(found) == ["key 0", "key 1", "key 2"]
    assert all(found[f"key {i}"].startswith(f"text {i} of ") for i in range(3))


def test_a_kill_loses_no_reply_whose_put_returned(path: Path) -> None:
    code = """
import sys, threading
from itertools import count
from pathlib import Path
from generation.llm.cache import ReplyCache
cache, told = ReplyCache(Path(sys.argv[1])), threading.Lock()

def write(thread):
    for i in count():
        cache.put(f"{thread} {i}", f"text {thread} {i} " * 50)
        with told:
            print(f"{thread} {i}", flush=True)

for thread in range(8):
    threading.Thread(target=write, args=(thread,)).start()
"""
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [next(child.stdout) for _ in range(200)]
        child.kill()
        said += child.stdout.readlines()
    keys = {line[:-1] for line in said if line.endswith("\n")}
    found = rows(path)
    assert keys <= set(found)
    assert len(found) <= len(keys) + 8  # of each thread at most the one that was under way
    assert all(text == f"text {key} " * 50 for key, text in found.items())
    cache = ReplyCache(path)
    assert all(cache.get(key) == found[key] for key in keys)


def test_a_full_disk_reaches_everybody_whose_reply_was_in_the_group_and_nobody_later(
    path: Path, python: Python
) -> None:
    ReplyCache(path).put("before", "text")
    code = f"""
import resource, sqlite3, time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from generation.errors import UserError
from generation.llm.cache import ReplyCache

path = Path({str(path)!r})
cache = ReplyCache(path)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
other = sqlite3.connect(path, isolation_level=None)
other.execute("BEGIN IMMEDIATE")
with ThreadPoolExecutor(8) as pool:
    puts = [pool.submit(cache.put, f"key {{i}}", "text " * 100_000) for i in range(8)]
    wait(puts, timeout=0.3)
    other.execute("ROLLBACK")
print([type(put.exception()).__name__ for put in puts] == ["UserError"] * 8)
print({{"cannot be used as a cache of replies" in str(put.exception()) for put in puts}} == {{True}})
print([cache.get(f"key {{i}}") for i in range(8)] == [None] * 8, cache.get("before"))
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
for i in range(8):
    cache.put(f"key {{i}}", f"text {{i}}")
"""
    assert python(code).stdout == "True\nTrue\nTrue text\n"
    assert rows(path) == {"before": "text"} | {f"key {i}": f"text {i}" for i in range(8)}


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
