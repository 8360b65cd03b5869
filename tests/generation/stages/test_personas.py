from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from small_banks import TOPICS, FreeWriter, ScriptedBackend, even

from generation.banks.load import Banks
from generation.config import Config
from generation.errors import UserError
from generation.grammar import pattern
from generation.llm.client import Client, ReplyError
from generation.llm.offline.backend import OfflineBackend
from generation.prompts import render
from generation.records import MOTIVES, Persona
from generation.stages.personas import (
    PersonaTask,
    draw_personas,
    persona_request,
    read_descriptions,
    wording_faults,
    write_persona,
)

CONFIG = Config(topics=TOPICS, personas=300)


@pytest.fixture(scope="module")
def tasks(banks: Banks) -> list[PersonaTask]:
    return list(draw_personas(CONFIG, banks))


@pytest.fixture(scope="module")
def personas(banks: Banks, tasks: list[PersonaTask]) -> list[Persona]:
    client = Client(OfflineBackend(banks, CONFIG.seed))
    return [write_persona(client, task) for task in tasks]


def with_source(path: Path, content: str, personas: int = 2) -> Config:
    path.write_text(content, encoding="utf-8")
    return Config(topics=TOPICS, personas=personas, persona_source=str(path))


# --- from the bank


def test_users_are_numbered_from_0(personas: list[Persona]) -> None:
    assert [persona.persona_id for persona in personas] == list(range(300))


def test_names_go_with_culture_and_gender(personas: list[Persona], banks: Banks) -> None:
    for persona in personas:
        given, _, family = persona.name.partition(" ")
        cultures = [c for c in banks.people.cultures if c.race == persona.race and family in c.families]
        names = {"woman": "women", "man": "men"}.get(persona.gender, "neutral")
        assert any(given in getattr(culture, names) for culture in cultures)


def test_occupations_go_with_the_age(personas: list[Persona], banks: Banks) -> None:
    occupations = {occupation.name: occupation for occupation in banks.people.occupations}
    for persona in personas:
        assert 18 <= persona.age <= 75
        occupation = occupations[persona.occupation]
        assert occupation.min_age <= persona.age <= occupation.max_age


def test_all_racial_identities_are_equally_common(personas: list[Persona], banks: Banks) -> None:
    races = Counter(persona.race for persona in personas)
    assert set(races) == {culture.race for culture in banks.people.cultures}
    assert even(races.values())


def test_a_user_has_four_motives_and_all_are_equally_common(personas: list[Persona]) -> None:
    motives = Counter(motive for persona in personas for motive in persona.motives)
    assert even(motives[motive] for motive in MOTIVES)
    for persona in personas:
        assert len(set(persona.motives)) == len(persona.motives) == 4


def test_a_user_knows_eight_people_of_as_many_names_and_relations(personas: list[Persona], banks: Banks) -> None:
    for persona in personas:
        people = [person.rsplit(" ", 1) for person in persona.circle]
        assert len({relation for relation, _ in people}) == len({name for _, name in people}) == 8
        assert {relation.removeprefix("my ") for relation, _ in people} <= set(banks.people.relations)
        assert persona.name.split()[0] not in {name for _, name in people}


def test_demographics_are_name_age_gender_and_race(personas: list[Persona]) -> None:
    persona = personas[0]
    assert persona.demographics == (
        f"Name: {persona.name}. Age: {persona.age}. Gender identity: {persona.gender}. Racial identity: {persona.race}."
    )


def test_a_model_may_be_shown_what_the_paper_shows_the_occupation_included(
    tasks: list[PersonaTask], personas: list[Persona], banks: Banks
) -> None:
    config = CONFIG.model_copy(update={"persona_visible": "demographics", "personas": 40})
    client = Client(OfflineBackend(banks, CONFIG.seed))
    for task, persona in zip(draw_personas(config, banks), personas[:40], strict=True):
        seen = write_persona(client, task)
        assert persona.shown == f"About the user. {persona.demographics}"
        assert persona.occupation not in persona.shown
        assert seen.shown == f"{persona.shown} Occupation: {persona.occupation}."
        assert seen.shown_tokens > persona.shown_tokens
        assert seen.model_copy(update={"shown": persona.shown, "shown_tokens": persona.shown_tokens}) == persona


def test_a_profile_is_about_five_sentences_and_names_the_user(personas: list[Persona]) -> None:
    for persona in personas:
        assert persona.name in persona.profile
        assert 6 <= len(re.findall(r"[.!?](?= |$)", persona.profile)) <= 12
        assert 50 <= len(persona.profile.split()) <= 160
        assert not re.search(r"[{}\[\]|]|  ", persona.profile)


def test_a_profile_fits_the_demographics(tasks: list[PersonaTask], personas: list[Persona], banks: Banks) -> None:
    genders = {gender.id: gender for gender in banks.people.genders}
    for task, persona in zip(tasks, personas, strict=True):
        assert persona.occupation in persona.profile
        assert re.search(rf"\b{persona.age}\b", persona.profile)
        gender = genders[persona.gender]
        assert task.facts["pronouns"] == [gender.subject, gender.object, gender.possessive]


def test_the_parts_of_a_life_go_together(tasks: list[PersonaTask], banks: Banks) -> None:
    """Each part fits the age and what the life has; no two further parts are of one kind."""
    people = banks.people
    parts = [*people.extras, *people.background, *people.interests, *people.goals]
    patterns = [(pattern(part.text), part) for part in parts]
    for task in tasks:
        life = frozenset(task.persona.life)
        found = [
            [part for form, part in patterns if form.fullmatch(text[0].lower() + text[1:]) or form.fullmatch(text)]
            for text in task.facts["more"]
        ]
        assert len(found) == 5
        for some in found:
            assert any(part.fits_person(task.persona.age, life | part.tags) for part in some), task.facts["more"]
        work = {"job", "student", "retired"} & life
        assert len(work) == 1
        assert not {"boss", "colleagues"} & life or work == {"job"}
        assert not {"house", "flat"} <= life
        assert not {"alone", "partner"} <= life


def test_users_write_in_all_voices_equally_often(personas: list[Persona], banks: Banks) -> None:
    voices = [voice.id for voice in banks.voices.voices]
    assert len(voices) >= 8
    for start in range(0, 300 - len(voices), len(voices)):
        assert {persona.voice for persona in personas[start : start + len(voices)]} == set(voices)


def test_a_profile_names_no_motive(personas: list[Persona]) -> None:
    for persona in personas:
        words = set(re.findall(r"\w+", persona.profile.lower()))
        assert words.isdisjoint(MOTIVES), persona.profile


def test_the_request_says_nothing_of_motives(tasks: list[PersonaTask]) -> None:
    for task in tasks:
        request = persona_request(task)
        assert set(re.findall(r"\w+", json.dumps(dict(request.facts)).lower())).isdisjoint(MOTIVES)
        assert task.persona.name in render(request.template, request.facts)


def test_profiles_differ(personas: list[Persona]) -> None:
    assert len({persona.profile for persona in personas}) == 300


def test_the_same_seed_draws_the_same_users_however_many(banks: Banks, tasks: list[PersonaTask]) -> None:
    assert list(draw_personas(CONFIG.model_copy(update={"personas": 5}), banks)) == tasks[:5]
    assert list(draw_personas(CONFIG.model_copy(update={"seed": 1}), banks)) != tasks


def test_a_profile_that_does_not_name_the_user_is_sent_back(tasks: list[PersonaTask]) -> None:
    given = tasks[0].persona.name.split()[0]
    backend = ScriptedBackend({"profile": "Somebody lives somewhere."}, {"profile": f"{given} lives somewhere."})
    assert write_persona(Client(backend), tasks[0]).profile == f"{given} lives somewhere."
    assert f"the profile does not name {given}" in backend.calls[1][-1].content


def test_a_user_whose_profile_stays_bad_is_an_error(tasks: list[PersonaTask]) -> None:
    with pytest.raises(ReplyError, match=r"persona for persona 0.*does not name"):
        write_persona(Client(ScriptedBackend({"profile": "Nobody."})), tasks[0])


def test_what_a_language_model_writes_of_a_user_is_looked_at(tasks: list[PersonaTask], personas: list[Persona]) -> None:
    task, good = tasks[0], personas[0].profile
    given = task.persona.name.split()[0]
    bad = {
        f"{given}: {good}": f"has a speaker label ({given}:)",
        f"{good} I am Maria and I like it here.": "is not in the third person",
        f"{given} lives somewhere.": "has 3 words; about five sentences are wanted",
        f"{good} " * 4: "about five sentences are wanted",
        f"{good} Their work is [occupation or place].": "has a placeholder ([occupation or place])",
        f"Sure, here is the profile. {good}": "speaks of the task",
        f"{good} As an AI, that is all.": "speaks as the assistant",
    }
    for profile, fault in bad.items():
        writer = FreeWriter(persona=[{"profile": profile}, {"profile": good}])
        assert write_persona(Client(writer), task) == personas[0]
        assert f"- the profile {fault}" in writer.asked("persona")[1] or "about five" in fault
        assert fault in writer.asked("persona")[1]


def test_what_is_asked_of_a_language_model_holds_for_the_offline_backend(personas: list[Persona]) -> None:
    for persona in personas:
        assert wording_faults(persona.profile, persona.name) == []


# --- from a file


def test_profiles_can_start_from_a_file(tmp_path: Path, banks: Banks) -> None:
    lines = ["a beekeeper who teaches chess", "a diver who paints"]
    config = with_source(tmp_path / "people.jsonl", "".join(json.dumps({"persona": line}) + "\n" for line in lines))
    client = Client(OfflineBackend(banks, 0))
    profiles = [write_persona(client, task).profile for task in draw_personas(config, banks)]
    assert sorted(line for profile in profiles for line in lines if line in profile) == lines


def test_each_line_serves_one_user(tmp_path: Path, banks: Banks) -> None:
    content = "".join(json.dumps({"persona": f"person {i}"}) + "\n" for i in range(50))
    tasks = draw_personas(with_source(tmp_path / "people.jsonl", content, personas=50), banks)
    assert sorted(task.facts["description"] for task in tasks) == sorted(f"person {i}" for i in range(50))
    assert all(task.persona.occupation == "" for task in tasks)


def test_the_shipped_file_of_people_gives_users(banks: Banks) -> None:
    path = Path(__file__).resolve().parents[3] / "examples" / "people.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [list(line) for line in lines] == [["persona"]] * 5, "the form of PersonaHub"
    config = Config(topics=TOPICS, personas=5, persona_source=str(path), persona_visible="full")
    client = Client(OfflineBackend(banks, 0))
    users = [write_persona(client, task) for task in draw_personas(config, banks)]
    described = {user.profile.removeprefix(f"{user.name} is {user.age}. ") for user in users}
    assert described == {f"{line['persona']}." for line in lines}
    for user in users:
        assert user.shown == f"About the user. {user.demographics}\n{user.profile}"
    later = draw_personas(config.model_copy(update={"first_persona": 3, "personas": 2}), banks)
    assert [write_persona(client, task) for task in later] == users[3:]


def test_empty_lines_and_further_keys_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text('\n{"persona": " a diver "}\n   \n{"persona": "a baker", "id": 3}\n\n', encoding="utf-8")
    assert read_descriptions(path) == ["a diver", "a baker"]


def test_a_text_may_hold_any_character(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text('{"persona": "une apicultrice à Köln, 养蜂人"}\n', encoding="utf-8")
    assert read_descriptions(path) == ["une apicultrice à Köln, 养蜂人"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85"])
def test_only_line_feeds_end_lines(tmp_path: Path, character: str) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text(json.dumps({"persona": f"a diver{character}who paints"}, ensure_ascii=False), encoding="utf-8")
    assert read_descriptions(path) == [f"a diver{character}who paints"]


def test_all_bad_lines_are_listed_with_their_numbers(tmp_path: Path, banks: Banks) -> None:
    content = '{"persona": "fine"}\nno json\n\n{"person": "x"}\n{"persona": 3}\n["persona"]\n{"persona": " "}\n'
    with pytest.raises(UserError) as caught:
        draw_personas(with_source(tmp_path / "people.jsonl", content), banks)
    assert str(tmp_path / "people.jsonl") in caught.value.message
    assert re.findall(r"line (\d+)(?:: no| is not) ", caught.value.message) == ["2", "4", "5", "6", "7"]
    assert "persona" in caught.value.hint


def test_of_very_many_bad_lines_the_rest_is_counted(tmp_path: Path, banks: Banks) -> None:
    with pytest.raises(UserError, match=r"line 10 is not JSON: [^;]*; and 5 more"):
        draw_personas(with_source(tmp_path / "people.jsonl", "bad\n" * 15), banks)


def test_too_few_lines_are_an_error_that_names_both_numbers(tmp_path: Path, banks: Banks) -> None:
    config = with_source(tmp_path / "people.jsonl", '{"persona": "a diver"}\n', personas=3)
    with pytest.raises(UserError, match=r"people\.jsonl has 1 lines, and users up to number 2 need 3"):
        draw_personas(config, banks)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes('{"persona": "Müller"}'.encode("latin-1"))
    with pytest.raises(UserError, match=r"people\.jsonl, line 1: byte 14 .* is not UTF-8"):
        read_descriptions(path)


@pytest.mark.parametrize(
    "line", ["[" * 100_000, "1" * 5_000, "null", "[]", '"x"', '{"persona": null}', '{"persona": ["x"]}', "\0"]
)
def test_a_line_of_any_other_form_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text(f'{{"persona": "fine"}}\n{line}\n')
    with pytest.raises(UserError, match=r"people\.jsonl: line 2"):
        read_descriptions(path)


def test_descriptions_are_made_encodable(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text('{"persona": "a \\ud83d diver\\u0000 \\ud83d\\ude42"}')
    assert read_descriptions(path) == ["a \ufffd diver\ufffd 🙂"]


def test_a_million_users_are_drawn_one_by_one(banks: Banks) -> None:
    million = draw_personas(CONFIG.model_copy(update={"personas": 1_000_000}), banks)
    assert len(million) == 1_000_000
    assert [task.persona.persona_id for task in million[999_998:]] == [999_998, 999_999]
    assert million[5:][3] == million[8]


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.jsonl: No such file"):
        read_descriptions(tmp_path / "nowhere.jsonl")
