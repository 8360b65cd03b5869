from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from small_banks import tiny_bank, tiny_items

from generation.banks.load import load_banks, load_shipped_banks, shipped_topics
from generation.config import Config
from generation.errors import UserError
from generation.history_records import History
from generation.question_plans import plan_questions
from generation.records import QUESTION_TYPES
from generation.stages.histories import draw_history
from generation.stages.personas import draw_personas

SMALL: dict[str, Any] = {
    "items_per_topic": 3,
    "slots_per_topic": 1,
    "facts_per_topic": 1,
    "updates_per_topic": 2,
    "questions_per_topic": {"generalize_to_new_scenarios": 0},
}


def written(folder: Path, bank: Any, name: str = "chess.yaml") -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(bank if isinstance(bank, str) else yaml.safe_dump(bank, allow_unicode=True), encoding="utf-8")
    return str(path)


def config(*topics: str, **counts: Any) -> Config:
    return Config(topics=topics, **{**SMALL, **counts})


def error(*topics: str, **counts: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        load_banks(config(*topics, **counts))
    return caught.value


def test_topics_keep_the_order_of_the_configuration() -> None:
    assert list(load_banks(config("writing", "foodRecommendation")).topics) == ["writing", "foodRecommendation"]


def test_a_bank_of_the_user_is_used_like_a_shipped_one(tmp_path: Path) -> None:
    settings = config(written(tmp_path, tiny_bank()), "writing")
    banks = load_banks(settings)
    assert list(banks.topics) == ["chess", "writing"]
    (task,) = draw_personas(settings.model_copy(update={"personas": 1}), banks)
    topics = draw_history(settings, task.persona, banks).topics
    history = History(persona_id=0, general=(), topics=topics)
    asked = {p.question_type for p in plan_questions(settings, task.persona, history, banks) if p.topic == "chess"}
    assert asked == set(QUESTION_TYPES) - {"generalize_to_new_scenarios"}


def test_the_shipped_banks_are_those_of_a_run_with_all_shipped_topics() -> None:
    assert load_shipped_banks() == load_banks(Config(topics=tuple(shipped_topics())))


def test_digests_name_each_file_and_follow_its_content(tmp_path: Path) -> None:
    before = load_banks(config(written(tmp_path, tiny_bank()))).digests
    after = load_banks(config(written(tmp_path, tiny_bank(label="the game of chess")))).digests
    (bank,) = {name for name in before if before[name] != after[name]}
    assert bank.endswith("chess.yaml")
    assert set(before) - {bank} == {
        "people.yaml",
        "life.yaml",
        "scenarios.yaml",
        "phrases.yaml",
        "voices.yaml",
        "answers.yaml",
    }


@pytest.mark.parametrize("name", ["bank.yaml", "life.yaml"])
def test_banks_with_one_file_name_have_a_digest_each(tmp_path: Path, name: str) -> None:
    topics = [written(tmp_path / bank_id, renamed(bank_id), name) for bank_id in ("chess", "go")]
    assert len(load_banks(config(*topics)).digests) == 2 + 6


def renamed(bank_id: str) -> dict[str, Any]:
    """Return a small bank whose items and values are its own."""
    bank = tiny_bank(id=bank_id)
    own = str.maketrans("aeiou", "uoiea") if bank_id == "go" else {}
    bank["items"] = [{**item, "phrase": item["phrase"].translate(own)} for item in bank["items"]]
    for slot in bank["slots"]:
        slot["values"] = [{**value, "phrase": value["phrase"].translate(own)} for value in slot["values"]]
    return bank


@pytest.mark.parametrize("topics", [("chess", "go"), ("go", "chess")])
def test_a_bank_of_the_user_shares_no_name_with_another_topic(tmp_path: Path, topics: tuple[str, str]) -> None:
    texts = {"chess": {}, "go": {"idea_queries": ["Some talk of blitz games all evening."]}}
    paths = [written(tmp_path / t, renamed(t) | texts[t]) for t in topics]
    fault = error(*paths)
    said = {"chess": "'blitz games' occurs in the texts of go too", "go": "'blitz games' is a name of chess"}
    assert said[topics[0]] in fault.message


# --- errors


def test_an_unknown_topic_lists_the_known_ones_and_how_to_add_one() -> None:
    caught = error("chess")
    assert "there is no bank 'chess'" in caught.message
    assert all(topic in caught.message for topic in shipped_topics())
    assert ".yaml" in caught.hint


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'chess.yaml'}: No such file" in error(str(tmp_path / "chess.yaml")).message


def test_a_folder_is_no_bank(tmp_path: Path) -> None:
    (tmp_path / "chess.yaml").mkdir()
    assert "chess.yaml: Is a directory" in error(str(tmp_path / "chess.yaml")).message


@pytest.mark.parametrize("text", ["id: [chess", "id: chess\n\tlabel: x", "id: &a *b", "\x00"])
def test_what_is_no_yaml_is_named_with_its_place(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    assert error(path).message.startswith(f"{path} is not YAML: ")


def test_what_is_not_utf_8_is_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "chess.yaml"
    path.write_bytes(b"label: M\xfcller")
    assert error(str(path)).message == f"{path}, line 1: byte 8 (0xfc) is not UTF-8"


@pytest.mark.parametrize("content", ["", "- items", "just words"])
def test_a_file_without_a_mapping_is_named(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)
    assert error(path).message.startswith(f"{path}:1: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item": ["a"]}, "unknown key 'item'"),
        (
            {"items": tiny_items(dict.fromkeys("abc", "z")) + tiny_items({"a": "y"})},
            "'a' stands twice among the items and values",
        ),
        ({"items": tiny_items({"a": "y", "b": "z"})}, "items: List should have at least 4 items"),
        ({"items": ["a", "b", "c", "d"]}, "items.0: Input should be a valid dictionary"),
        ({"item_reasons": {"toward": {}, "away": {}}}, "item_reasons.toward: every motive needs equally many reasons"),
        (
            {"items": tiny_items({"tea": "v", "green tea": "w", "b": "y", "c": "z"})},
            "'tea' is part of 'green tea'",
        ),
        ({"item_queries": ["I do blitz games."]}, "'I do blitz games.' names 'blitz games'"),
        ({"label": 3}, "label: Input should be a valid string (it is 3)"),
    ],
)
def test_a_faulty_bank_is_one_clear_error_with_file_and_value(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, tiny_bank(**changes))
    caught = error(path)
    assert caught.message.startswith(f"{path}:")
    assert message in caught.message
    assert "docs/banks.md" in caught.hint


def test_an_unknown_key_deep_in_a_bank_is_named_with_its_place(tmp_path: Path) -> None:
    bank = tiny_bank()
    bank["slots"][0]["values"][1]["recommends"] = ["x"]
    assert "unknown key 'slots.0.values.1.recommends'" in error(written(tmp_path, bank)).message


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = yaml.safe_dump(tiny_bank()) + "idea_queries: [The second list.]\n"
    with pytest.raises(UserError, match="idea_queries"):
        load_banks(config(written(tmp_path, text)))


def test_two_banks_must_not_have_one_id(tmp_path: Path) -> None:
    path = written(tmp_path, tiny_bank(id="writing"))
    caught = error("writing", path)
    assert path in caught.message
    assert "a bank with the id 'writing' is among the topics already" in caught.message


@pytest.mark.parametrize(
    ("counts", "lack"),
    [
        ({"items_per_topic": 5}, "items: 6 of the 8 needed"),
        ({"questions_per_topic": {"suggest_new_ideas": 2}, "items_per_topic": 6}, "items: 6 of the 8 needed"),
        ({"slots_per_topic": 2}, "slots: 1 of the 2 needed"),
        ({"facts_per_topic": 2}, "facts: 1 of the 2 needed"),
    ],
)
def test_a_bank_too_small_for_the_configuration_is_named_with_what_it_lacks(
    tmp_path: Path, counts: dict[str, int], lack: str
) -> None:
    path = written(tmp_path, tiny_bank())
    caught = error(path, **counts)
    assert path in caught.message
    assert lack in caught.message
    assert "lower" in caught.hint


def test_a_bank_that_is_just_large_enough_is_enough(tmp_path: Path) -> None:
    settings = config(
        written(tmp_path, tiny_bank()),
        personas=30,
        items_per_topic=4,
        updates_per_topic=4,
        questions_per_topic=dict.fromkeys(QUESTION_TYPES, 4) | {"suggest_new_ideas": 1},
    )
    banks = load_banks(settings)
    for task in draw_personas(settings, banks):
        topics = draw_history(settings, task.persona, banks).topics
        history = History(persona_id=task.persona.persona_id, general=(), topics=topics)
        assert plan_questions(settings, task.persona, history, banks)
