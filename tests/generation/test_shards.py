from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_runs import sparse_work

from generation.errors import UserError
from generation.run_stages import STAGES
from generation.sharded_run import make_shards
from generation.shards import DONE, Shard, check_count, number_list, parse_shard
from generation.store import RunStore


@pytest.mark.parametrize("number_of_users", [1, 2, 5, 16, 100_003])
def test_shards_have_all_users_in_order_and_about_as_many_each(number_of_users: int) -> None:
    users = range(7, 7 + number_of_users)
    for of in {1, min(2, number_of_users), min(16, number_of_users)}:
        parts = [Shard(number, of).users(users) for number in range(1, of + 1)]
        assert [user for part in parts for user in part] == list(users)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_shard_is_named_in_the_order_of_shards() -> None:
    assert parse_shard("3/16").name == "00003-of-00016"
    names = [Shard(number, 1200).name for number in range(1, 1201)]
    assert names == sorted(names)


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "3", "3/", "-1/4", "3/16/2", "a/b", "1/0", "٣/٤", 3, None, "1/99999999999"]
)
def test_what_names_no_shard_is_refused(text: object) -> None:
    with pytest.raises(UserError, match="names no shard"):
        parse_shard(text)


def test_there_are_no_more_shards_than_users() -> None:
    with pytest.raises(UserError, match=r"16 shards are more than there are users \(15\)"):
        check_count(16, 15)


@pytest.mark.parametrize(("numbers", "shown"), [([3], "3"), ([1, 2, 3, 5, 7, 8], "1-3,5,7-8"), ([], "")])
def test_lists_of_numbers_are_short(numbers: list[int], shown: str) -> None:
    assert number_list(numbers) == shown


# --- a run is read only if all of its shards are there


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    assert len(list(make_shards(sparse_work(personas=4), folder, 4))) == 4
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of a run in four shards, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def shard(run: Path, number: int) -> Path:
    return run / "shards" / f"{number:05}-of-00004"


def lose_two(run: Path) -> None:
    shutil.rmtree(shard(run, 2))
    shutil.rmtree(shard(run, 3))


def stop_one(run: Path) -> None:
    (shard(run, 4) / DONE).unlink()


def cut_one(run: Path) -> None:
    path = shard(run, 2) / "stages" / "questions.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def double_one(run: Path) -> None:
    shutil.rmtree(shard(run, 2))
    shutil.copytree(shard(run, 3), shard(run, 2))


def keep_a_copy(run: Path) -> None:
    shutil.copytree(shard(run, 3), shard(run, 3).with_suffix(".bak"))


def take_another_seed(run: Path) -> None:
    path = shard(run, 3) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": 99}))


def take_another_count(run: Path) -> None:
    shutil.copytree(shard(run, 3), run / "shards" / "00003-of-00008")


def lose_all(run: Path) -> None:
    shutil.rmtree(run / "shards")
    (run / "shards").mkdir()


def damage_marker(run: Path) -> None:
    (shard(run, 1) / DONE).write_text("{")


@pytest.mark.parametrize(
    ("damage", "message", "hint"),
    [
        (lose_two, r"lacks some of its 4 shards \(missing: 2-3\)", r"--shards 4, or --shard 2/4 alone"),
        (stop_one, r"\(not finished: 4\)", r"--shard 4/4"),
        (cut_one, r"\(changed since they were finished: 2\)", r"--shard 2/4"),
        (double_one, r"00002-of-00004 holds users 2-2, and shard 2/4 has users 1-1", r"rm -r .*--shard 2/4"),
        (keep_a_copy, r"00003-of-00004\.bak is not a shard", "move it away"),
        (take_another_seed, r"00003-of-00004 is of another configuration than .*: seed differ", r"--shard 3/4"),
        (take_another_count, "several counts: 4, 8", r"rm -r .*\*-of-00004"),
        (lose_all, "has no shards yet", "--shards N"),
        (damage_marker, r"done\.json", "rm "),
    ],
)
def test_what_is_not_the_whole_run_is_refused_and_named(
    run: Path, damage: Callable[[Path], None], message: str, hint: str
) -> None:
    damage(run)
    with pytest.raises(UserError, match=message) as raised:
        RunStore(run).paths("questions")
    assert re.search(hint, raised.value.hint)


def test_hidden_files_beside_shards_do_not_matter(run: Path) -> None:
    (run / "shards" / ".DS_Store").touch()
    assert [len(RunStore(run).paths(stage)) for stage in STAGES] == [4] * 5


def test_each_user_is_found_in_a_shard(run: Path) -> None:
    store = RunStore(run)
    assert [store.part_of(user).folder for user in store.users()] == [shard(run, n) for n in (1, 2, 3, 4)]
