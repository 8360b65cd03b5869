from __future__ import annotations

import json
from collections.abc import Callable
from xml.etree import ElementTree as ET

import yaml

from personamem_builder.annotation.exports import label_studio_config, label_studio_tasks, potato_files
from personamem_builder.annotation.items import AnnotationItem, sample_digest

MakeItem = Callable[..., AnnotationItem]


def test_label_studio_finds_in_each_task_all_that_its_configuration_names(make_item: MakeItem) -> None:
    items = [make_item(0), make_item(1, all_options=["(a) One.", "(b) Two."]), make_item(2, whole=True)]

    config = ET.fromstring(label_studio_config(items))

    fields = {value[1:] for tag in config.iter() if (value := tag.get("value", "")).startswith("$")}
    names = {tag.get("name") for tag in config.iter() if tag.get("name")}
    for task in label_studio_tasks(items):
        assert fields <= task["data"].keys()
    assert all(tag.get("toName") in names for tag in config.iter() if tag.get("toName"))


def test_label_studio_asks_the_four_questions_and_shows_the_response_last(make_item: MakeItem) -> None:
    config = ET.fromstring(label_studio_config([make_item()]))

    asked = {tag.get("name"): [choice.get("value") for choice in tag] for tag in config.iter("Choices")}
    assert asked == {
        "best": ["a", "b", "c", "d", "unsure"],
        "appropriate": ["yes", "no", "unsure"],
        "relevant": ["yes", "no", "unsure"],
        "correct": ["yes", "no", "unsure"],
    }
    hidden = config.find("View[@visibleWhen='choice-selected'][@whenTagName='best']")
    assert hidden is not None
    assert [tag.get("name") for tag in config.iter() if tag.get("value") == "$response"] == ["response"]
    assert hidden.find("Text[@value='$response']") is not None


def test_label_studio_tasks_tell_item_sample_and_right_response(make_item: MakeItem) -> None:
    items = [make_item(0), make_item(1)]

    tasks = list(label_studio_tasks(items))

    assert [task["data"]["item"] for task in tasks] == ["question-0", "question-1"]
    assert {task["data"]["sample"] for task in tasks} == {sample_digest(items)}
    assert tasks[1]["data"]["response"] == "Coffee."
    assert {"author": "user (evidence)", "text": "I like tea now."} in tasks[0]["data"]["history"]


def test_potato_gets_two_tasks_and_only_the_second_holds_the_right_response(make_item: MakeItem) -> None:
    items = [make_item(0, user_question_or_message="two\nlines"), make_item(1)]

    files = dict(potato_files(items))

    records = {
        name: [json.loads(line) for line in files[name].splitlines()] for name in ("best.jsonl", "response.jsonl")
    }
    assert [record["response"] for record in records["response.jsonl"]] == ["Tea.", "Coffee."]
    assert all("response" not in record for record in records["best.jsonl"])
    for task, asked in {"best": ["best"], "response": ["appropriate", "relevant", "correct"]}.items():
        config = yaml.safe_load(files[f"{task}.yaml"])
        assert config["data_files"] == [f"{task}.jsonl"]
        assert [scheme["name"] for scheme in config["annotation_schemes"]] == [*asked, "comment"]
        named = {field["key"] for field in config["instance_display"]["fields"]}
        named |= set(config["item_properties"].values())
        assert all(named <= record.keys() for record in records[f"{task}.jsonl"])
