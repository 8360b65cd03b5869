"""`personamem new-topic`, against a model over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from loopback_llm import LoopbackLLM, Reply

from generation.banks.bank_file import read_bank
from generation.banks.load import load_shipped_banks
from generation.banks.topic import TopicBank
from generation.new_topic_parts import OutlineReply, outline_part, parts_of
from generation.prompts import render

NAME = "music recommendation"
BANK = load_shipped_banks().topics["musicRecommendation"].model_dump(mode="json")


def _part(template: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what a good model writes: the shipped bank."""
    match template.removeprefix("new_topic_"):
        case "stances":
            return {key: BANK[key] for key in ("stances", "item_queries", "idea_queries")}
        case "slot":
            keys = ("values", "tells", "queries", "again", "recall", "recommend_queries")
            return {key: one[key] for one in BANK["slots"] if one["name"] == facts["slot"] for key in keys}
        case "reasons" if facts["way"]:
            return dict(BANK["item_reasons"][facts["way"]])
        case "reasons":
            return next(dict(one["reasons"]) for one in BANK["slots"] if one["name"] == facts["slot"])
        case "facts":
            kind = next(one for one in BANK["facts"] if one["name"] == facts["kind"])
            return {key: kind[key] for key in ("queries", "pairs", "threes", "stock")} | {"facts": kind["facts"][:8]}
    found = [one for one in BANK["threads"] if one["about"] == facts["about"]]
    fitting = [one for one in found if not one["needs"] and not one["without"]] * facts["count"]
    first = 6 * (facts["batch"] % 2) if facts["about"] == "free" else 0
    chosen = [{key: one[key] for key in ("label", "needs", "exchanges")} for one in fitting[first:][: facts["count"]]]
    return {"threads": chosen}


def _replies() -> dict[str, str]:
    """Return a good reply to each prompt."""
    named = {key: [{"id": one["id"], "name": one["name"]} for one in BANK[key]] for key in ("slots", "facts")}
    outline = {"label": BANK["label"], "items": BANK["items"][:24], **named}
    first = outline_part(NAME).request
    others = [part.request for part in parts_of(NAME, OutlineReply.model_validate(outline))]
    parts = {render(one.template, one.facts): json.dumps(_part(one.template, dict(one.facts))) for one in others}
    return {render(first.template, first.facts): json.dumps(outline)} | parts


@pytest.mark.slow
def test_a_topic_is_written_checked_and_never_paid_for_twice(tmp_path: Path) -> None:
    replies = _replies()
    out = tmp_path / "music.yaml"
    stopped = list(replies)[9]

    def answer(body: dict[str, Any]) -> Reply:
        prompt = body["messages"][0]["content"]
        return Reply("no JSON" if prompt == stopped else replies.get(prompt, "no JSON"))

    with LoopbackLLM(answer) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
        command = ("new-topic", NAME, "--backend", "openai:parrot", "--out", out)
        first = personamem(*command, **env)
        assert first.exit_code == 1
        assert "missing: " in first.out
        assert not out.exists()
        stopped = ""
        asked = len(server.requests)
        second = personamem(*command, **env)
        assert {request.body["messages"][0]["content"] for request in server.requests[asked:]} >= {list(replies)[9]}
        assert len([r for r in server.requests[asked:] if r.body["messages"][0]["content"] in replies]) == 1
    bank, _ = read_bank(out, out.read_bytes(), TopicBank)
    assert out.read_text().startswith(f"# The topic {NAME!r}, written by parrot on 20")
    # Threads that stand twice, as the shipped bank has fewer on some things, are what is left to mend.
    assert second.exit_code == (0 if bank else 1)
    assert f"{out}: 24 items, 5 slots, 4 kinds of facts, " in second.out
    for line in second.out.splitlines()[:-1]:
        assert line.startswith(f"{out}:")
        assert "stands twice" in line
    assert personamem(*command, **env).exit_code == 1  # a file that is there is not written over


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pet care", "--backend", "offline"], "the offline backend knows no new topics"),
        (["pet care", "--backend", "gpt"], "there is no backend 'gpt'"),
        (["pet care", "--backend", "openai:x", "--budget", "0"], "--budget must be above 0"),
    ],
)
def test_what_cannot_be_is_one_clear_error(arguments: list[str], message: str, tmp_path: Path) -> None:
    outcome = personamem("new-topic", *arguments, "--out", tmp_path / "x.yaml")
    assert outcome.exit_code == 1
    assert message in outcome.err
    assert list(tmp_path.iterdir()) == []
