"""Counts beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from reddit_like import write_flat

from personamem_builder.persona_bench import published
from personamem_builder.persona_bench.published import PUBLISHED_COUNTS, compare_counts
from personamem_builder.persona_bench.records import DOMAINS
from personamem_builder.persona_bench.write import import_file


def comment(author: str, *replies: dict[str, Any]) -> dict[str, Any]:
    return {"author": author, "body": "Hm.", "score": 1, "timestamp": "2024-01-02T00:00:00Z", "replies": [*replies]}


def make_posts() -> list[dict[str, Any]]:
    """Make a post of one of three authors in each domain: two threads, three ways down, five comments."""
    return [
        {
            "title": f"Post {number}",
            "content": "Well.",
            "__sub__": domain.title(),
            "score": 3,
            "author": f"author{number % 3}" if number else "[deleted]",
            "timestamp": "2024-01-01T00:00:00Z",
            "comments": [comment("ann", comment("bob"), comment("eve", comment("ann"))), comment("eve")],
        }
        for number, domain in enumerate(DOMAINS)
    ]


def manifest_with(posts: int, domains: int = 10, other: int = 0) -> dict[str, Any]:
    counts = {"posts": posts + other, "post_authors": 3_877, "threads": 90_001, "paths": 95_002, "messages": 180_003}
    return {"counts": counts, "posts_by_domain": {name: posts // domains for name in DOMAINS[:domains]}}


def test_what_is_counted_in_the_manifest(tmp_path: Path) -> None:
    silent = {**make_posts()[1], "__sub__": "cats", "comments": []}
    manifest = import_file(write_flat([*make_posts(), silent], tmp_path / "posts.json"), tmp_path / "out")
    counts = manifest["counts"]
    assert (counts["posts"], counts["post_authors"], counts["threads"], counts["paths"]) == (11, 3, 20, 30)
    assert counts["messages"] == 50
    assert manifest["posts_by_domain"] == dict.fromkeys(DOMAINS, 1) | {"other": 1}
    assert compare_counts(manifest) == ""


def test_counts_stand_side_by_side_and_nothing_is_called_equal() -> None:
    lines = [line.split("  ") for line in compare_counts(manifest_with(19_000)).split("\n")]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[1] == ["posts", "19,000", "19,215"]
    assert cells[2][1:] == ["3,877", "3,878"]
    assert cells[3][1:] == ["90,001", "111,239"]
    assert [row[1:] for row in cells[4:6]] == [["95,002"], ["180,003"]]
    assert "does not say what a conversation is" in " ".join(cells[6])


@pytest.mark.parametrize(
    "manifest",
    [
        manifest_with(9_000),
        manifest_with(40_000),
        manifest_with(19_000, domains=7),
        manifest_with(9_000, other=10_000),
        {"counts": {"posts": 19_215}},
    ],
    ids=["few", "many", "seven domains", "other subreddits", "of an older version"],
)
def test_data_unlike_the_full_release_are_not_compared(manifest: dict[str, Any]) -> None:
    assert compare_counts(manifest) == ""


def test_import_prints_them_and_the_card_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "PUBLISHED_COUNTS", {**PUBLISHED_COUNTS, "posts": 11})
    file = write_flat(make_posts(), tmp_path / "posts.json")
    done = personamem("persona-bench", "import", file, "--out", tmp_path / "out")
    assert done.exit_code == 0
    (line,) = (line for line in done.out.split("\n") if line.startswith("conversations: replies to a post"))
    assert line.split()[-2:] == ["20", "111,239"]
    assert line in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
