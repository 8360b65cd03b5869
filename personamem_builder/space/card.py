"""The README of a Space: what the Hub reads of it, and what people read beside its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from personamem_builder.build.front_matter import metadata, to_yaml
from personamem_builder.manifest import Manifest
from personamem_builder.space.boards import Leaderboard
from personamem_builder.space.page import SpaceHead

_LICENCE: Final = ("license", "license_name", "license_link")


def render_card(space: SpaceHead, leaderboard: Leaderboard, manifest: Manifest, dataset: str) -> str:
    """Return the README with its front matter (the Hub's "Spaces Configuration Reference"); `dataset` is `ORG/NAME`."""
    known = metadata(manifest, {})
    front: dict[str, Any] = {
        "title": space.title,
        "emoji": "🧭",
        "colorFrom": "blue",
        "colorTo": "gray",
        "sdk": "static",
        "app_file": "index.html",
        "pinned": False,
        **{key: known[key] for key in _LICENCE if key in known},
        "short_description": "Does a model answer as its user is now?",
        "tags": ["leaderboard", "personalization", "long-context", "memory"],
        **({"datasets": [dataset]} if dataset else {}),
    }
    return f"---\n{to_yaml(front)}---\n" + "\n".join(_lines(space, leaderboard)) + "\n"


def _lines(space: SpaceHead, leaderboard: Leaderboard) -> Iterator[str]:
    yield f"# {space.title}"
    yield ""
    yield "Scores of chat models and memory systems on questions that ask whether a model answers as its user is *now*"
    yield "([arXiv 2504.14225](https://arxiv.org/abs/2504.14225)), beside what shortcuts score that read no history."
    yield "Models that share a group are not shown to differ: all pairs are compared question by question, clustered by"
    yield "persona, and corrected for their number (Holm)."
    yield ""
    yield "| table | models | questions |"
    yield "|---|---|---|"
    for board in leaderboard.boards:
        yield f"| {board.title} | {len(board.entries)} | {board.questions} |"
    yield ""
    yield f"Dataset: version {space.version}, digest `{space.digest}`. Newest results: {space.newest}."
    yield ""
    yield "Open `index.html`: the pages load nothing from elsewhere and need no server. Written by `personamem space`."
