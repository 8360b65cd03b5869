"""Stage 1: the users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, overload

from pydantic import BaseModel

from generation.banks.people import Culture, Gender, PeopleBank, Sentence
from generation.config import Config
from generation.errors import UserError
from generation.grammar import expand, expand_phrase
from generation.llm.client import Client, Request
from generation.reading import parse_json, read_text
from generation.records import MOTIVES, Persona
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
    visible: str
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
        self, config: Config, bank: PeopleBank, descriptions: Sequence[str] | None, numbers: Sequence[int]
    ) -> None:
        self._config = config
        self._bank = bank
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
            return DrawnPersonas(self._config, self._bank, self._descriptions, self._numbers[at])
        number = self._numbers[at]
        return _draw(self._config, self._bank, number, self._descriptions[number] if self._descriptions else "")


def draw_personas(config: Config, bank: PeopleBank) -> DrawnPersonas:
    """Draw who the users are.

    Raises:
        UserError: `persona_source` cannot be read or has fewer lines than there are personas.
    """
    descriptions: Sequence[str] | None = None
    if config.persona_source is not None:
        found = read_descriptions(Path(config.persona_source))
        if len(found) < config.personas:
            raise UserError(
                f"persona_source: {config.persona_source} has {len(found)} lines, but personas is {config.personas}",
                "lower personas, or add lines",
            )
        descriptions = rng_for(config.seed, "descriptions").sample(found, len(found))[: config.personas]
    return DrawnPersonas(config, bank, descriptions, range(config.personas))


def _draw(config: Config, bank: PeopleBank, persona_id: int, description: str) -> PersonaTask:
    rng = rng_for(config.seed, "persona", persona_id)
    race = rng.choice(sorted({culture.race for culture in bank.cultures}))
    culture = rng.choice([culture for culture in bank.cultures if culture.race == race])
    gender = rng.choices(bank.genders, [gender.weight for gender in bank.genders])[0]
    age = rng.randint(*_AGES)
    name = f"{rng.choice(_given_names(culture, gender))} {rng.choice(culture.families)}"
    occupation = rng.choice([o for o in bank.occupations if o.fits(age)])
    place = rng.choice(bank.places)
    motives = rng.sample(MOTIVES, _MOTIVES)
    given = name.split()[0]
    slots = {"name": given, "subject": gender.subject, "object": gender.object, "possessive": gender.possessive}

    def sentences(entries: Sequence[Sentence], count: int) -> list[str]:
        """Draw sentences of different kinds, so that nobody lives in two homes."""
        fitting = [entry for entry in entries if entry.fits(age)]
        order = rng.sample(fitting, len(fitting))
        one_a_kind = list({entry.kind: entry for entry in reversed(order)}.values())
        chosen = rng.sample(one_a_kind, min(count, len(one_a_kind)))
        return [expand(entry.text, rng, **slots) for entry in chosen]

    opener = rng.choice([o for o in bank.profile_openers if o.kind == occupation.kind])
    facts: PersonaFacts = {
        "name": name,
        "age": age,
        "gender": gender.id,
        "race": race,
        "pronouns": [gender.subject, gender.object, gender.possessive],
        "description": description
        or expand_phrase(
            opener.text,
            rng,
            name=name,
            age=str(age),
            an_occupation=f"{'an' if occupation.name[0] in 'aeiou' else 'a'} {occupation.name}",
            place=place.name,
            setting=place.setting,
        ),
        "from_source": bool(description),
        "circumstances": sentences(bank.circumstances, 2),
        "character": sentences(bank.character, 1),
        "outlook": sentences(bank.dreams, 1),
    }
    persona = Persona(
        persona_id=persona_id,
        name=name,
        age=age,
        gender=gender.id,
        race=race,
        occupation="" if description else occupation.name,
        motives=tuple(motives),
        circle=tuple(_circle(config, bank, persona_id, given)),
        demographics=f"Name: {name}. Age: {age}. Gender identity: {gender.id}. Racial identity: {race}.",
        profile="",
        shown="",
        shown_tokens=0,
    )
    return PersonaTask(persona, config.persona_visible, facts)


def _circle(config: Config, bank: PeopleBank, persona_id: int, given: str) -> list[str]:
    """Draw people, each with another name and another relation: `my cousin Ana`."""
    rng = rng_for(config.seed, "circle", persona_id)
    names = sorted({name for culture in bank.cultures for name in culture.neutral} - {given})
    pairs = zip(rng.sample(bank.relations, _CIRCLE), rng.sample(names, _CIRCLE), strict=True)
    return [f"my {relation} {name}" for relation, name in pairs]


def _given_names(culture: Culture, gender: Gender) -> list[str]:
    own = {"woman": culture.women, "man": culture.men}.get(gender.id, [])
    return own or culture.neutral


def persona_request(task: PersonaTask) -> Request:
    """Return the call that writes a persona's profile."""
    return Request("persona", task.facts, ("persona", task.persona.persona_id))


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
    demographics = task.persona.demographics
    text = {"demographics": demographics, "full": f"{demographics}\n{profile}", "none": ""}[task.visible]
    return text and f"About the user. {text}"
