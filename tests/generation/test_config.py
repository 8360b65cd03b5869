from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_banks import TOPICS, small_banks

from generation.config import Config, Price, load_config
from generation.errors import UserError
from generation.records import PERIODS, QUESTION_TYPES
from generation.run_inputs import RunInputs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLAIN = "topics: [writing, email, coding]\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["tiny", "full"])
def test_the_examples_can_be_read(name: str) -> None:
    assert load_config(EXAMPLES / f"{name}.yaml").personas >= 2


def test_the_full_example_asks_for_at_least_2000_questions_over_all_shipped_topics() -> None:
    config = load_config(EXAMPLES / "full.yaml")
    per_topic = sum(config.questions_per_topic[name] for name in QUESTION_TYPES)
    assert config.personas * len(config.topics) * per_topic >= 2000
    assert len(config.topics) == 18


def test_types_that_are_not_named_get_one_question(tmp_path: Path) -> None:
    config = load_config(
        written(tmp_path, "topics: [writing, email, coding]\nquestions_per_topic: {suggest_new_ideas: 3}")
    )
    assert config.questions_per_topic == {name: 3 if name == "suggest_new_ideas" else 1 for name in QUESTION_TYPES}


@pytest.mark.parametrize("number", range(1, 5))
def test_periods_can_be_named(tmp_path: Path, number: int) -> None:
    text = (
        f"{PLAIN}updates_per_topic: 0\nturns_per_session: {{min: 40, max: 40}}\nquestions_per_topic: {{{NO_CHANGES}}}\n"
    )
    named = load_config(written(tmp_path, f"{text}periods: [{', '.join(PERIODS[:number])}]"))
    assert named == load_config(written(tmp_path, f"{text}periods: {number}"))
    assert named.periods == number


NO_CHANGES = "generalize_to_new_scenarios: 0, revisit_reasons_behind_preference_updates: 0"


def test_files_are_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    text = "topics: [writing, email, banks/chess.yaml]\npersona_source: people.jsonl"
    config = load_config(written(tmp_path, text))
    assert config.topics[2] == str(tmp_path / "banks" / "chess.yaml")
    assert config.persona_source == str(tmp_path / "people.jsonl")


def test_the_models_of_a_run_can_be_set(tmp_path: Path) -> None:
    text = (
        f"{PLAIN}llm:\n  temperature: 0\n  max_tokens: 100\n  concurrency: 32\n  requests_per_minute: 500\n"
        "  tokens_per_minute: 90000\n"
        "  prices:\n    gpt-x: {input: 0.5, output: 2}\n    local/model: {input: 0, output: 0}"
    )
    llm = load_config(written(tmp_path, text)).llm
    assert (llm.temperature, llm.max_tokens, llm.concurrency) == (0, 100, 32)
    assert (llm.requests_per_minute, llm.tokens_per_minute) == (500, 90000)
    assert llm.prices == {"gpt-x": Price(input=0.5, output=2), "local/model": Price(input=0, output=0)}


def fingerprint(backend: str, **llm: Any) -> dict[str, Any]:
    return RunInputs(Config.model_validate({"topics": TOPICS, "llm": llm}), small_banks(), backend).fingerprint()


SETTINGS = {
    "max_tokens": 99,
    "concurrency": 3,
    "requests_per_minute": 7,
    "tokens_per_minute": 8,
    "timeout": 9,
    "reasoning_tokens": 500,
    "prices": {"gpt-x": {"input": 1, "output": 2}},
}


def test_a_run_with_a_model_is_another_one_where_replies_are_sampled_in_another_way() -> None:
    assert fingerprint("openai:gpt-x") != fingerprint("openai:gpt-x", temperature=0.9)
    assert fingerprint("openai:gpt-x") != fingerprint("openai:gpt-x", reasoning_effort="low")
    assert fingerprint("openai:gpt-x") != fingerprint("openai:gpt-x", extra_body={"top_k": 3})
    for name, value in SETTINGS.items():
        assert fingerprint("openai:gpt-x") == fingerprint("openai:gpt-x", **{name: value}), name


def test_settings_of_models_are_no_part_of_an_offline_run() -> None:
    assert "llm" not in fingerprint("offline")
    assert fingerprint("offline") == fingerprint("offline", temperature=0.9, **SETTINGS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: [writing, email, coding]\npersona: 3", "unknown key 'persona'"),
        ("topics: [writing, email, coding]\nturns_per_session: {least: 3}", "unknown key 'turns_per_session.least'"),
        ("topics: []", "topics"),
        ("seed: 3", "topics: Field required"),
        ("topics: [writing, email, writing]", "topics: writing is listed 2 times"),
        ("topics: [writing, email, coding]\npersonas: 0", "personas: .*greater than or equal to 1 .it is 0"),
        ("topics: [writing, email, coding]\nlanguage: de", "language: .*'en'"),
        *[
            (f"topics: [writing, email, coding]\nllm: {{timeout: {value}}}", "llm.timeout")
            for value in ("0", "-1", "1e9", ".nan", ".inf", "true", "soon", "'5'", "null")
        ],
        ("topics: [writing, email, coding]\npersona_visible: all", "persona_visible"),
        ("topics: [writing, email, coding]\nperiods: 5", "periods"),
        ("topics: [writing, email, coding]\nturns_per_session: {min: 9, max: 8}", "min 9 is above max 8"),
        (
            "topics: [writing, email, coding]\nitems_per_topic: 3\nslots_per_topic: 1\nupdates_per_topic: 13",
            "updates_per_topic: 13 are too many; 0 items and 1 slots over 4 periods change at most 3 times",
        ),
        (
            "topics: [writing, email, coding]\nturns_per_session: {min: 2, max: 4}",
            "88 events and mentions of a topic do not fit into 4 sessions of 2 turns",
        ),
        (
            "topics: [writing, email, coding]\nquestions_per_topic: {suggest_new_ideas: 5}",
            "5 questions of suggest_new_ideas need 15 items that were tried, and not 12",
        ),
        (f"{PLAIN}tellings: {{spoken: 1}}", "tellings.spoken"),
        (f"{PLAIN}tellings: {{named: 0, implied: 0}}", "tellings: one of the weights must be above 0"),
        (f"{PLAIN}tellings: {{named: -1}}", "tellings.named: .*greater than or equal to 0"),
        (f"{PLAIN}tellings: {{named: .inf}}", "tellings.named: .*finite"),
        (f"{PLAIN}tellings: {{named: 1000001}}", "tellings.named: .*less than or equal to 1000000"),
        (
            "topics: [writing, email, coding]\nquestions_per_topic: {recall_facts: 1}",
            "questions_per_topic.recall_facts",
        ),
        (
            "topics: [writing, email, coding]\nquestions_per_topic: {suggest_new_ideas: -1}",
            "suggest_new_ideas: -1 is below 0",
        ),
        (
            "topics: [writing]\nupdates_per_topic: 1",
            "generalize_to_new_scenarios needs at least 2 updates_per_topic",
        ),
        (
            "topics: [writing, email, coding]\nquestions_per_topic: {revisit_reasons_behind_preference_updates: 9}",
            "more questions about reasons than updates_per_topic",
        ),
        (f"{PLAIN}llm: {{temperatur: 1}}", "unknown key 'llm.temperatur'"),
        (f"{PLAIN}llm: {{prices: {{gpt-x: {{input: 1, output: 2, cached: 1}}}}}}", "unknown key .*gpt-x.cached"),
        (f"{PLAIN}llm: {{temperature: 2.1}}", r"llm.temperature: .*less than or equal to 2 .it is 2.1"),
        (f"{PLAIN}llm: {{temperature: -0.1}}", "llm.temperature: .*greater than or equal to 0"),
        (f"{PLAIN}llm: {{temperature: .nan}}", "llm.temperature: "),
        (f"{PLAIN}llm: {{extra_body: {{model: x, top_k: 3, seed: 1}}}}", "model, seed: these fields are not for"),
        (f"{PLAIN}llm: {{reasoning_effort: ''}}", "llm.reasoning_effort: "),
        (f"{PLAIN}llm: {{reasoning_tokens: -1}}", "llm.reasoning_tokens: .*greater than or equal to 0"),
        (f"{PLAIN}generic_distractors: -1", "generic_distractors: .*greater than or equal to 0"),
        (f"{PLAIN}generic_distractors: 3", "generic_distractors: .*less than or equal to 2"),
        (f"{PLAIN}turns_per_thread: 0", "turns_per_thread: .*greater than or equal to 1"),
        (f"{PLAIN}llm: {{max_tokens: 0}}", "llm.max_tokens: .*greater than or equal to 1"),
        (f"{PLAIN}llm: {{concurrency: 0}}", "llm.concurrency: .*greater than or equal to 1"),
        (f"{PLAIN}llm: {{concurrency: 257}}", "llm.concurrency: .*less than or equal to 256"),
        (f"{PLAIN}llm: {{requests_per_minute: 0}}", "llm.requests_per_minute: .*greater than or equal to 1"),
        (f"{PLAIN}llm: {{tokens_per_minute: 0}}", "llm.tokens_per_minute: .*greater than or equal to 1"),
        (f"{PLAIN}llm: {{prices: {{gpt-x: {{input: 1}}}}}}", "llm.prices.gpt-x.output: Field required"),
        (f"{PLAIN}llm: {{prices: {{gpt-x: {{input: -1, output: 2}}}}}}", "gpt-x.input: .*greater than or equal to 0"),
        (f"{PLAIN}llm: {{prices: {{gpt-x: {{input: .inf, output: 2}}}}}}", "gpt-x.input: .*finite"),
        (f"{PLAIN}personas: true", r"personas: .*valid integer .it is True"),
        (f"{PLAIN}personas: 2.0", r"personas: .*valid integer .it is 2.0"),
        (f"{PLAIN}personas: '2'", r"personas: .*valid integer .it is '2'"),
        (f"{PLAIN}personas: null", r"personas: .*valid integer .it is None"),
        (f"{PLAIN}personas: 1000001", "personas: .*less than or equal to 1000000 .it is 1000001"),
        (f"{PLAIN}personas: 1{'0' * 30}", "line 2, column 11: a whole number is beyond 64 bits"),
        (f"{PLAIN}first_persona: -1", "first_persona: .*greater than or equal to 0"),
        (f"{PLAIN}first_persona: 999990", "personas: 20 from number 999990 on go beyond number 999999"),
        (f"{PLAIN}periods: []", "periods: .*greater than or equal to 1"),
        (
            f"{PLAIN}periods: [next week]",
            r"periods: \['next week'\] are not the first of initial, next week, next month",
        ),
        (f"{PLAIN}periods: [initial, next month]", "periods: .*name them in this order, or give a number"),
        (f"{PLAIN}periods: [1, 2]", "periods: .*are not the first of"),
        (f"{PLAIN}periods: initial", "periods: .*valid integer"),
        (f"{PLAIN}periods: true", "periods: .*valid integer .it is True"),
        (
            f"{PLAIN}persona_source: people.jsonl\npersona_visible: demographics",
            "demographics show the occupation, which a persona_source does not give; choose no_occupation",
        ),
        (f"{PLAIN}seed: yes", "seed: .*valid integer .it is True"),
        (f"{PLAIN}seed: {2**63}", "line 2, column 7: a whole number is beyond 64 bits"),
        (f"{PLAIN}topics: [email]", "line 2, column 1: the key 'topics' stands twice"),
        (f"{PLAIN}seed: 2021-13-45", "line 2, column 7: '2021-13-45' is no timestamp"),
        ("topics: [writing, 3, coding]", "topics.1: .*valid string"),
        (f"topics: [{', '.join(f't{i}' for i in range(1001))}]", "topics: .*at most 1000 items"),
        (f"{PLAIN}items_per_topic: 10001", "items_per_topic: .*less than or equal to 10000"),
        (f"{PLAIN}items_per_topic: 2", "items_per_topic: .*greater than or equal to 3"),
        (f"{PLAIN}slots_per_topic: 10001", "slots_per_topic: .*less than or equal to 10000"),
        (f"{PLAIN}facts_per_topic: 10001", "facts_per_topic: .*less than or equal to 10000"),
        (f"{PLAIN}updates_per_topic: 10001", "updates_per_topic: .*less than or equal to 10000"),
        (f"{PLAIN}turns_per_session: {{min: 22, max: 10001}}", "turns_per_session.max: .*equal to 10000"),
        (f"{PLAIN}turns_per_session: {{min: 1.5}}", "turns_per_session.min: .*valid integer"),
        (f"{PLAIN}fillers: 1000001", "fillers: .*less than or equal to 1000000"),
        (f"{PLAIN}questions_per_topic: {{suggest_new_ideas: 10001}}", "suggest_new_ideas: .*equal to 10000"),
        (f"{PLAIN}questions_per_topic: {{suggest_new_ideas: true}}", "suggest_new_ideas: .*valid integer"),
        (f"{PLAIN}llm: {{max_tokens: 10000001}}", "llm.max_tokens: .*less than or equal to 10000000"),
        (f"{PLAIN}llm: {{temperature: true}}", "llm.temperature: .*valid number .it is True"),
        (f"{PLAIN}llm: {{requests_per_minute: 1000000001}}", "requests_per_minute: .*less than or equal"),
        (f"{PLAIN}llm: {{tokens_per_minute: 1000000000001}}", "tokens_per_minute: .*less than or equal"),
        (f"{PLAIN}llm: {{prices: {{x: {{input: true, output: 2}}}}}}", "x.input: .*valid number"),
        (f"{PLAIN}llm: {{prices: {{x: {{input: 1000001, output: 2}}}}}}", "x.input: .*less than or equal to 1000000"),
        ("- writing", "is not a mapping"),
        ("topics: [writing", "is not YAML"),
    ],
)
def test_a_bad_configuration_is_one_clear_error_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        load_config(path)
    assert str(path) in caught.value.message


def test_tellings_that_are_not_named_have_no_weight_and_without_any_all_have_the_same() -> None:
    assert Config(topics=TOPICS).tellings == {"named": 1, "paraphrased": 1, "implied": 1}
    assert Config(topics=TOPICS, tellings={"implied": 2.5}).tellings == {"named": 0, "paraphrased": 0, "implied": 2.5}


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_config(written(tmp_path, "topics: [writing]\nseeds: 1\nperiods: 9\nfillers: -1"))
    for word in ("seeds", "periods", "fillers"):
        assert word in caught.value.message
    assert all(key in caught.value.hint for key in Config.model_fields)


def test_all_that_is_impossible_is_named_at_once(tmp_path: Path) -> None:
    text = (
        "topics: [writing, writing]\nupdates_per_topic: 99\nturns_per_session: {min: 1, max: 2}\n"
        "questions_per_topic: {suggest_new_ideas: 10}"
    )
    with pytest.raises(UserError) as caught:
        load_config(written(tmp_path, text))
    for fault in ("listed 2 times", "99 are too many", "do not fit", "need 30 items"):
        assert fault in caught.value.message


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.yaml: No such file"):
        load_config(tmp_path / "nowhere.yaml")
