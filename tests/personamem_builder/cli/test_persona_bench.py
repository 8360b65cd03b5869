"""`personamem persona-bench`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import personamem
from reddit_like import make_posts, write_flat

from personamem_builder.persona_bench.write import read_manifest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_flat(make_posts(users=12), tmp_path / "posts.json")


def test_import_then_audit(tmp_path: Path, file: Path):
    out = tmp_path / "persona_bench"

    done = personamem("persona-bench", "import", file, "--out", out, "--seed", "3")

    assert done.exit_code == 0
    assert "48 posts" in done.out
    assert "Research only" in done.err
    assert f"next: personamem persona-bench audit {out}" in done.err
    assert read_manifest(out)["seed"] == 3

    done = personamem("persona-bench", "audit", out)

    assert done.exit_code == 0
    assert "leaks: 0" in done.out
    assert "% positive" in done.out


def test_faults_are_told_without_a_traceback(tmp_path: Path):
    posts = make_posts(users=3)
    posts[1]["comments"][0]["timestamp"] = "last week"

    done = personamem("persona-bench", "import", write_flat(posts, tmp_path / "posts.json"), "--out", tmp_path / "out")

    assert done.exit_code == 1
    assert "posts.json post 2 column comments[0].timestamp: 'last week': not a timestamp" in done.err
    assert not (tmp_path / "out").exists()


def test_a_missing_file_and_a_folder_that_is_none(tmp_path: Path):
    done = personamem("persona-bench", "import", tmp_path / "none.json", "--out", tmp_path / "out")
    assert (done.exit_code, "cannot be read" in done.err) == (1, True)

    done = personamem("persona-bench", "audit", tmp_path)
    assert (done.exit_code, "is not a PERSONA-Bench folder" in done.err) == (1, True)


def test_a_log_is_scored(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    rows = [{"true_label": 5, "response": "7"}, {"true_label": -3, "response": "no idea"}]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    done = personamem("persona-bench", "evaluate-log", log, "--task", "impact")

    assert done.exit_code == 0
    assert "2 rows" in done.out
