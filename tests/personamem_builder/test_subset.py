"""Files that name the questions of a subset."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.errors import UserError
from personamem_builder.subset import read_subset, write_subset

ids = st.lists(st.text(string.ascii_letters + string.digits + "-_", min_size=1), min_size=1, max_size=20)


def error_of(path: Path, split: str = "32k") -> UserError:
    with pytest.raises(UserError) as caught:
        read_subset(path, split)
    assert str(path) in caught.value.message
    return caught.value


@given(first=ids, second=ids)
def test_what_is_written_is_read_by_split(tmp_path_factory: pytest.TempPathFactory, first, second):
    path = tmp_path_factory.mktemp("subset") / "hard.json"
    write_subset(path, {"32k": first, "128k": second}, method="m", source="s", digest="d")
    assert read_subset(path, "32k").ids == tuple(sorted(set(first)))
    assert read_subset(path, "128k").ids == tuple(sorted(set(second)))


def test_a_file_says_what_it_is_and_how_it_was_made(tmp_path: Path):
    path = tmp_path / "hard.json"
    write_subset(path, {"32k": ["q2", "q1"]}, method="those without a shortcut", source="personamem", digest=None)
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "format": "personamem-subset",
        "version": 1,
        "method": "those without a shortcut",
        "source": "personamem",
        "digest": None,
        "splits": {"32k": ["q2", "q1"]},
    }
    assert [file.name for file in tmp_path.iterdir()] == ["hard.json"]


def test_a_plain_list_is_the_same_subset(tmp_path: Path):
    write_subset(tmp_path / "a.json", {"32k": ["q1", "q2"]}, method="m", source="s", digest=None)
    (tmp_path / "b.txt").write_bytes("\ufeffq2\r\n\r\n q1 \r\nq2".encode())
    written, plain = read_subset(tmp_path / "a.json", "32k"), read_subset(str(tmp_path / "b.txt"), "32k")
    assert (written.name, plain.name) == ("a.json", "b.txt")
    assert written.ids == plain.ids == ("q1", "q2")
    assert written.digest == plain.digest
    assert len(written.digest) == 64


def test_other_questions_have_another_digest(tmp_path: Path):
    digests = set()
    for lines in ("q1\nq2", "q1", "q1q2", "q12"):
        (tmp_path / "ids").write_text(lines, encoding="utf-8")
        digests.add(read_subset(tmp_path / "ids", "32k").digest)
    assert len(digests) == 4


def good(**changes: Any) -> str:
    content = {"format": "personamem-subset", "version": 1, "splits": {"32k": ["q1"]}}
    return json.dumps(content | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("", "names no question of the split 32k"),
        ("\n \n", "names no question of the split 32k"),
        (good(splits={"32k": []}), "names no question of the split 32k"),
        (good(splits={"128k": ["q"], "1M": ["q"]}), "has no questions of the split 32k, only of 128k, 1M"),
        (good(splits={}), "only of none at all"),
        (good(splits=["q1"]), "splits: "),
        (good(splits={"32k": [1]}), "splits.32k.0: "),
        (good(format="results"), 'it lacks "format": "personamem-subset"'),
        ('["q1"]', 'it lacks "format": "personamem-subset"'),
        (good()[:-4], "is not JSON"),
        ("[" * 100_000, "nested deeper than the limit of 100"),
        (good(version=1)[:-1] + ', "n": ' + "9" * 5_000 + "}", "over the limit of 19"),
        (good(version=2), "has version 2, version 1 is read"),
        (b"q1\n\xff\xfe\x00", "line 2: byte 3 (0xff) is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, text: str | bytes | None, message: str):
    path = tmp_path / "hard.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    error = error_of(path)
    assert message in error.message
    assert error.hint


def test_a_folder_is_no_file_of_questions(tmp_path: Path):
    assert "s a directory" in error_of(tmp_path).message
