"""A topic bank is written part by part: what is wrong goes back to the part that can mend it, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_banks import FreeWriter

from generation.banks.bank_file import read_bank
from generation.banks.load import load_banks, load_shipped_banks
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.llm.cache import ReplyCache
from generation.llm.client import Client, ReplyError
from generation.new_topic import ROUNDS, as_yaml, camel_case, write_topic

NAME = "music recommendation"
SHIPPED = load_shipped_banks().topics["musicRecommendation"].model_dump(mode="json")
Facts = Mapping[str, Any]


def outline(facts: Facts) -> dict[str, Any]:
    named = {key: [{"id": one["id"], "name": one["name"]} for one in SHIPPED[key]] for key in ("slots", "facts")}
    return {"label": SHIPPED["label"], "items": SHIPPED["items"][:24], **named}


def stances(facts: Facts) -> dict[str, Any]:
    return {key: SHIPPED[key] for key in ("stances", "item_queries", "idea_queries")}


def slot(facts: Facts) -> dict[str, Any]:
    keys = ("values", "tells", "queries", "again", "recall", "recommend_queries")
    return {key: one[key] for one in SHIPPED["slots"] if one["name"] == facts["slot"] for key in keys}


def reasons(facts: Facts) -> dict[str, Any]:
    if facts["way"]:
        return dict(SHIPPED["item_reasons"][facts["way"]])
    return next(dict(one["reasons"]) for one in SHIPPED["slots"] if one["name"] == facts["slot"])


def fact_kind(facts: Facts) -> dict[str, Any]:
    kind = next(one for one in SHIPPED["facts"] if one["name"] == facts["kind"])
    return {**{key: kind[key] for key in ("queries", "pairs", "threes", "stock")}, "facts": kind["facts"][:8]}


def threads(facts: Facts) -> dict[str, Any]:
    found = [thread for thread in SHIPPED["threads"] if thread["about"] == facts["about"]]
    first = 6 * (facts["batch"] % 2) if facts["about"] == "free" else 0
    found = [one for one in found if not one["needs"] and not one["without"]][first : first + facts["count"]]
    # The shipped banks have fewer on some things: one that ends earlier stands for another.
    while len(found) < facts["count"]:
        thread = found[len(found) % 2]
        exchange = {**thread["exchanges"][0], "user": f"Again: {thread['exchanges'][0]['user']}"}
        exchange["assistant"] = f"[Once more|Again]: {exchange['assistant']}"
        found.append({**thread, "exchanges": [exchange]})
    return {"threads": [{key: one[key] for key in ("label", "needs", "exchanges")} for one in found]}


GOOD: dict[str, Callable[[Facts], dict[str, Any]]] = {
    "new_topic_outline": outline,
    "new_topic_stances": stances,
    "new_topic_slot": slot,
    "new_topic_reasons": reasons,
    "new_topic_facts": fact_kind,
    "new_topic_threads": threads,
}


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds, rules of English and the names of other topics, but where that is the point."""
    if request.function is not test_a_bank_has_all_parts_and_both_backends_can_use_it:
        monkeypatch.setattr("generation.new_topic.bad_prose", lambda bank: [])
        monkeypatch.setattr("generation.new_topic.faults_beside_shipped", lambda bank: [])


def writer(**replies: Any) -> FreeWriter:
    return FreeWriter(**{template: [reply] for template, reply in GOOD.items()} | replies)


def asked(model: FreeWriter) -> Counter[str]:
    return Counter(call.request.template for call in model.calls)


@pytest.mark.slow
def test_a_bank_has_all_parts_and_both_backends_can_use_it(tmp_path: Path) -> None:
    model = writer()
    told: list[str] = []
    written = write_topic(Client(model), NAME, told.append)
    assert (written.faults, written.missing) == ([], [])
    file = tmp_path / "music.yaml"
    file.write_text(as_yaml(written.content, "A head.\nTwo lines."), encoding="utf-8")
    assert file.read_text().startswith("# A head.\n# Two lines.\nid: musicRecommendation\n")
    bank, faults = read_bank(file, file.read_bytes(), TopicBank)
    assert faults == []
    assert bank is not None
    assert [slot.id for slot in bank.slots] == [slot["id"] for slot in SHIPPED["slots"]]
    assert Counter(thread.about for thread in bank.threads) >= Counter(
        {"free": 12, "items": 6, "trials": 4} | {slot.id: 4 for slot in bank.slots}
    )
    assert list(load_banks(Config(topics=(str(file),))).topics) == ["musicRecommendation"]
    assert asked(model) == {
        "new_topic_outline": 1,
        "new_topic_stances": 1,
        "new_topic_slot": 5,
        "new_topic_reasons": 7,
        "new_topic_facts": 4,
        "new_topic_threads": 13,
    }
    assert len(told) == 31
    assert len(set(told)) == 31


def test_what_is_wrong_with_a_part_alone_is_sent_back_at_once() -> None:
    def told_by_its_words(facts: Facts) -> dict[str, Any]:
        bad = json.loads(json.dumps(stances(facts)))
        bad["stances"]["pairs"][0] = "{person} gladly {theirs}, but I {mine}."
        bad["stances"]["likes"][0] = "took my time over {item}"
        return bad

    model = writer(new_topic_stances=[told_by_its_words, stances])
    assert write_topic(Client(model), NAME).faults == []
    repair = model.asked("new_topic_stances")[1]
    assert "stances.pairs.0" in repair
    assert "says 'my', and must do for the user and for others" in repair


def test_what_is_wrong_beside_other_parts_goes_back_to_the_part_that_can_mend_it() -> None:
    second = SHIPPED["slots"][1]["name"]
    name = SHIPPED["items"][0]["phrase"]

    def naming(facts: Facts) -> dict[str, Any]:
        reply = json.loads(json.dumps(slot(facts)))
        if facts["slot"] == second:
            reply["queries"][0] = f"I have just heard some {name} [at home|at work]."
        return reply

    model = writer(new_topic_slot=[naming], rewrite=[slot])
    assert write_topic(Client(model), NAME).faults == []
    [prompt] = model.asked("rewrite")
    assert f"names '{name}'" in prompt
    assert f'This is about one matter of choice: {second} ("you" is the user)' in prompt


def test_what_the_model_does_not_mend_is_reported_with_its_place() -> None:
    def naming(facts: Facts) -> dict[str, Any]:
        reply = json.loads(json.dumps(threads(facts)))
        if facts["about"] == "trials":
            reply["threads"][1]["label"] = f"the evening of {SHIPPED['items'][0]['phrase']}"
        return reply

    model = writer(new_topic_threads=[naming], rewrite=[naming])
    written = write_topic(Client(model), NAME)
    [fault] = written.faults
    key, number, part = fault.place
    assert (key, part) == ("threads", "label")
    assert written.content["threads"][number]["about"] == "trials"
    assert len(model.asked("rewrite")) == ROUNDS


def test_a_part_without_a_usable_reply_is_named_and_the_others_are_not_paid_for_again(tmp_path: Path) -> None:
    last = SHIPPED["facts"][-1]["name"]

    def too_few(facts: Facts) -> dict[str, Any]:
        reply = fact_kind(facts)
        return {**reply, "facts": reply["facts"][:5]} if facts["kind"] == last else reply

    cache = ReplyCache(tmp_path / "replies.sqlite")
    written = write_topic(Client(writer(new_topic_facts=[too_few]), cache), NAME)
    [missing] = written.missing
    assert missing.startswith(f"facts {SHIPPED['facts'][-1]['id']}: ")
    assert "there are 5 facts and not 8" in missing
    model = writer()
    assert write_topic(Client(model, cache), NAME).missing == []
    assert asked(model) == {"new_topic_facts": 1}


def test_without_an_outline_there_is_nothing_to_write() -> None:
    with pytest.raises(ReplyError, match="there are 3 items and not 24"):
        write_topic(
            Client(writer(new_topic_outline=[lambda facts: {**outline(facts), "items": SHIPPED["items"][:3]}])), NAME
        )


@pytest.mark.parametrize(
    ("name", "id_"),
    [("pet care", "petCare"), ("Pet Care!", "petCare"), ("3D printing", "topic3dPrinting"), ("", "topic")],
)
def test_a_topic_has_an_id_that_records_can_hold(name: str, id_: str) -> None:
    assert camel_case(name) == id_


def test_a_file_holds_no_empty_lists() -> None:
    text = as_yaml(write_topic(Client(writer()), NAME).content, "x")
    assert yaml.safe_load(text)["slots"][0]["values"]
    assert ": []" not in text
