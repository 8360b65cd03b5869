"""Stage 1: the users."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, overload

from pydantic import BaseModel

from generation.banks.load import Banks
from generation.banks.people import Culture, Gender, LifePart, PeopleBank
from generation.banks.voices import Voices
from generation.config import Config
from generation.errors import UserError
from generation.grammar import expand, expand_phrase
from generation.lives import Life, age_tags, draw_life
from generation.llm.client import Client, Request
from generation.reading import parse_json, read_text
from generation.records import MOTIVES, Persona, Visible
from generation.request_facts import PersonaFacts
from generation.seeds import rng_for
from generation.text_checks import num_words, role_faults, text_faults
from generation.tokenizer import num_tokens

_AGES = (18, 75)
_MOTIVES: Final = 4
_CIRCLE: Final = 8  # people whom a user speaks of
_PROFILE_WORDS: Final = (30, 300)  # of about five sentences
_FIRST_PERSON: Final = re.compile(r"\bI(?:['’]m|['’]ve| am| have| was| live| work)\b")


class PersonaReply(BaseModel):
    """What the model writes: a profile of about five sentences."""

    profile: str


class PersonaTask(NamedTuple):
    """A persona that lacks only its profile, and what is shown of it; the facts for it."""

    persona: Persona
    visible: Visible
    facts: PersonaFacts


def read_descriptions(path: Path) -> list[str]:
    """Read short descriptions of people, `{"persona": "…"}` on each line, in the JSONL form of PersonaHub.

    Raises:
        UserError: The file cannot be read, holds none, or has bad lines; they are listed.
    """
    hint = 'each line must be a JSON object such as {"persona": "a beekeeper who teaches chess"}'
    try:
        # Not splitlines(): JSON may hold other line separators, such as U+2028, inside a text.
        lines = read_text(path, 'give a JSONL file of {"persona": "…"}').split("\n")
    except UserError as error:
        raise UserError(f"persona_source: {error.message}", error.hint) from error
    descriptions: list[str] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = parse_json(line, f"line {number}")
        except UserError as error:
            faults.append(error.message)
            continue
        text = entry.get("persona") if isinstance(entry, dict) else None
        if isinstance(text, str) and text.strip():
            descriptions.append(text.strip())
        else:
            faults.append(f"line {number}: no text under the key 'persona'")
    if faults:
        more = f"; and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise UserError(
            f"persona_source: {path}: {'; '.join(faults[:10])}{more}",
            hint,
        )
    return descriptions


class DrawnPersonas(Sequence[PersonaTask]):
    """Who the users are; each is drawn when it is asked for, since there may be a million."""

    def __init__(
        self, config: Config, banks: Banks, descriptions: Sequence[str] | None, numbers: Sequence[int]
    ) -> None:
        self._config = config
        self._banks = banks
        self._descriptions = descriptions
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> PersonaTask: ...

    @overload
    def __getitem__(self, at: slice) -> DrawnPersonas: ...

    def __getitem__(self, at: int | slice) -> PersonaTask | DrawnPersonas:
        if isinstance(at, slice):
            return DrawnPersonas(self._config, self._banks, self._descriptions, self._numbers[at])
        number = self._numbers[at]
        return _draw(self._config, self._banks, number, self._descriptions[number] if self._descriptions else "")


def draw_personas(config: Config, banks: Banks) -> DrawnPersonas:
    """Draw who the users are.

    Raises:
        UserError: `persona_source` cannot be read or has too few lines: one for each user from number 0 on.
    """
    users = config.users
    descriptions: Sequence[str] | None = None
    if config.persona_source is not None:
        found = read_descriptions(Path(config.persona_source))
        if len(found) < users.stop:
            raise UserError(
                f"persona_source: {config.persona_source} has {len(found)} lines, and users up to number "
                f"{users.stop - 1} need {users.stop}",
                "ask for fewer users, or add lines; a run that has begun keeps to the file it began with",
            )
        descriptions = rng_for(config.seed, "descriptions").sample(found, len(found))[: users.stop]
    return DrawnPersonas(config, banks, descriptions, users)


def _draw(config: Config, banks: Banks, persona_id: int, description: str) -> PersonaTask:
    rng = rng_for(config.seed, "persona", persona_id)
    bank = banks.people
    race = rng.choice(sorted({culture.race for culture in bank.cultures}))
    culture = rng.choice([culture for culture in bank.cultures if culture.race == race])
    gender = rng.choices(bank.genders, [gender.weight for gender in bank.genders])[0]
    age = rng.randint(*_AGES)
    name = f"{rng.choice(_given_names(culture, gender))} {rng.choice(culture.families)}"
    given = name.split()[0]
    life = draw_life(bank, age, rng)
    slots = {"name": given, "subject": gender.subject, "object": gender.object, "possessive": gender.possessive}

    def sentence(number: int, part: LifePart) -> str:
        """Return a sentence of the profile; every other one says `she` or `he`, whose verbs are those of a name."""
        called = gender.subject if number % 2 and gender.subject != "they" else given
        return expand(part.text, rng, **{**slots, "name": called})

    facts: PersonaFacts = {
        "name": name,
        "age": age,
        "gender": gender.id,
        "race": race,
        "pronouns": [gender.subject, gender.object, gender.possessive],
        "description": description or _opening(life, bank, slots, name, age, rng),
        "from_source": bool(description),
        # To a life that comes from elsewhere the bank adds nothing: it might not fit.
        "more": [] if description else [sentence(number, part) for number, part in enumerate(life.more, start=1)],
    }
    persona = Persona(
        persona_id=persona_id,
        name=name,
        age=age,
        gender=gender.id,
        race=race,
        occupation="" if description else life.occupation.name,
        motives=tuple(rng.sample(MOTIVES, _MOTIVES)),
        circle=tuple(_circle(config, bank, persona_id, given)),
        # A description from elsewhere may say anything: of such a life no more is known than the age.
        life=tuple(sorted(age_tags(age) if description else life.tags)),
        voice=_voice(config, banks.voices, persona_id),
        demographics=f"Name: {name}. Age: {age}. Gender identity: {gender.id}. Racial identity: {race}.",
        profile="",
        shown="",
        shown_tokens=0,
    )
    return PersonaTask(persona, config.persona_visible, facts)


def _opening(life: Life, bank: PeopleBank, slots: dict[str, str], name: str, age: int, rng: random.Random) -> str:
    """Return the first sentences of a profile; only the first of them has the family name."""
    opener = rng.choice([opener for opener in bank.profile_openers if opener.kind == life.occupation.kind])
    place = rng.choice(bank.places)
    text = expand(
        opener.text,
        rng,
        **slots,
        age=str(age),
        an_age=_with_article(str(age)),
        occupation=life.occupation.name,
        an_occupation=_with_article(life.occupation.name),
        household=expand_phrase(life.household.text, rng, **slots),
        home=expand_phrase(life.home.text, rng, **slots),
        place=place.name,
        setting=place.setting,
    )
    return text.replace(slots["name"], name, 1)


_VOWEL_SOUND: Final = re.compile(r"(?!uni|use|eu|one)[aeiou]|8|11\b|18\b", re.IGNORECASE)


def _with_article(words: str) -> str:
    return f"{'an' if _VOWEL_SOUND.match(words) else 'a'} {words}"


def _voice(config: Config, voices: Voices, persona_id: int) -> str:
    """Draw how a user writes: of as many users as there are voices each has another."""
    ids = [voice.id for voice in voices.voices]
    rounds, place = divmod(persona_id, len(ids))
    return rng_for(config.seed, "voices", rounds).sample(ids, len(ids))[place]


def _circle(config: Config, bank: PeopleBank, persona_id: int, given: str) -> list[str]:
    """Draw people, each with another name and another relation: `my cousin Ana`."""
    rng = rng_for(config.seed, "circle", persona_id)
    names = sorted({name for one in bank.cultures for name in (*one.women, *one.men, *one.neutral)} - {given})
    pairs = zip(rng.sample(bank.relations, _CIRCLE), rng.sample(names, _CIRCLE), strict=True)
    return [f"my {relation} {name}" for relation, name in pairs]


def _given_names(culture: Culture, gender: Gender) -> list[str]:
    own = {"woman": culture.women, "man": culture.men}.get(gender.id, [])
    return own or culture.neutral


def persona_request(task: PersonaTask) -> Request:
    """Return the call that writes a persona's profile."""
    return Request("persona", task.facts, ("persona", task.persona.persona_id), task.persona.persona_id)


def wording_faults(profile: str, name: str) -> list[str]:
    """Return what is wrong with the words of a profile."""
    faults = [*text_faults(profile, [name, name.split()[0]]), *role_faults(profile, "user")]
    shortest, longest = _PROFILE_WORDS
    if not shortest <= num_words(profile) <= longest:
        faults.append(f"has {num_words(profile)} words; about five sentences are wanted")
    if _FIRST_PERSON.search(profile):
        faults.append("is not in the third person")
    return [f"the profile {fault}" for fault in faults]


def write_persona(client: Client, task: PersonaTask) -> Persona:
    """Have a persona's profile written."""

    def check(reply: PersonaReply) -> list[str]:
        given = task.persona.name.split()[0]
        faults = [] if given in reply.profile else [f"the profile does not name {given}"]
        return faults + (wording_faults(reply.profile, task.persona.name) if client.is_free_writer else [])

    reply = client.ask(persona_request(task), PersonaReply, check)
    shown = _shown(task, reply.profile)
    return task.persona.model_copy(
        update={"profile": reply.profile, "shown": shown, "shown_tokens": num_tokens(shown) if shown else 0}
    )


def _shown(task: PersonaTask, profile: str) -> str:
    persona = task.persona
    texts: dict[Visible, str] = {
        "demographics": f"{persona.demographics} Occupation: {persona.occupation}.",
        "no_occupation": persona.demographics,
        "full": f"{persona.demographics}\n{profile}",
        "none": "",
    }
    text = texts[task.visible]
    return text and f"About the user. {text}"
