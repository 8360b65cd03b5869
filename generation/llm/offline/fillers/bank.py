"""The kinds of fillers: their texts, from the bank files, and the functions that compute what the texts insert."""

from __future__ import annotations

import math
from functools import cache
from string import Template as CodeTemplate
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field, RootModel, StringConstraints

from generation.banks.model import BankModel, Template, Text
from generation.grammar import slot_names
from generation.llm.offline.fillers import mathematics, programming, world
from generation.llm.offline.fillers.tables import Evaluator, Slots, read_file

EVALUATORS: Final = {
    "mathematics": mathematics.EVALUATORS,
    "world": world.EVALUATORS,
    "programming": programming.EVALUATORS,
}
"""For each bank file, the functions that compute what its texts insert; each has the name of its kind."""


def _readable(code: str) -> str:
    if not CodeTemplate(code).is_valid():
        raise ValueError("a $ that is no slot; slots look like $item")
    return code


Code = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_readable)]
"""Code, or what it prints, with slots such as `$item`."""


class Program(BankModel):
    """An answer that shows a program and what it prints.

    Attributes:
        output: Exactly what it prints, without the last newline.
    """

    intro: Template
    code: Code
    output: Code
    outro: Template


class FillerTexts(BankModel):
    """The texts of a kind; every message has to show all parameters.

    Attributes:
        parameters: First and last value of each.
        names: Names for what the code defines; one of them is the slot `name`.
        title: The title, without choices.
        cases: For some slots, what stands for each value of the function; it may hold other slots.
        notes: True remarks on the topic, which fill the answers up; none is used twice.
    """

    parameters: dict[str, tuple[int, int]] = Field(min_length=1)
    names: tuple[Text, ...] = ()
    title: Template
    question: Template
    answer: Template | Program
    follow_up: Template
    reply: Template | Program
    cases: dict[str, dict[str, Template]] = Field(default_factory=dict)
    notes: tuple[Template, ...]

    def slots(self) -> set[str]:
        """Return the names of all slots."""
        templates = [self.title, self.question, self.follow_up, *self.notes]
        templates += [text for texts in self.cases.values() for text in texts.values()]
        code = []
        for answer in (self.answer, self.reply):
            if isinstance(answer, Program):
                templates += [answer.intro, answer.outro]
                code += [CodeTemplate(answer.code), CodeTemplate(answer.output)]
            else:
                templates.append(answer)
        return {*self.cases}.union(*map(slot_names, templates), *(template.get_identifiers() for template in code))


class Surroundings(BankModel):
    """What stands around the texts of many kinds.

    Attributes:
        contexts: What may lead up to a first question.
        follow_contexts: What may lead up to a further question.
        tails: What may follow a question.
        notes: What fills up answers where their own notes do not suffice.
    """

    contexts: tuple[Template, ...] = Field(min_length=1)
    follow_contexts: tuple[Template, ...] = Field(min_length=1)
    tails: tuple[Template, ...] = Field(min_length=1)
    notes: tuple[Template, ...] = Field(min_length=1)


class FillerPhrases(BankModel):
    """What surrounds the texts of all kinds: before first questions, answers and outputs, and after questions."""

    opening: Template
    lead: Template
    output_label: Template
    knowledge: Surroundings
    programming: Surroundings


class FillerKind(NamedTuple):
    """A family of fillers, one for each combination of parameters."""

    name: str
    texts: FillerTexts
    evaluate: Evaluator

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each parameter has."""
        return tuple(last - first + 1 for first, last in self.texts.parameters.values())

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(self.sizes)

    def slots(self, number: int) -> Slots:
        """Return the slots of a combination, numbered from 0 to `size - 1`: its parameters and what they give."""
        parameters = {}
        for (name, (first, _)), size in zip(self.texts.parameters.items(), self.sizes, strict=True):
            number, step = divmod(number, size)
            parameters[name] = first + step
        return {**parameters, **self.evaluate(**parameters)}


@cache
def kinds() -> tuple[FillerKind, ...]:
    """Return all kinds.

    Raises:
        UserError: A bank file is damaged.
    """
    found = []
    for field, functions in EVALUATORS.items():
        texts = read_file(f"{field}.yaml", RootModel[dict[str, FillerTexts]]).root
        evaluators = {function.__name__: function for function in functions}
        if texts.keys() != evaluators.keys():
            raise ValueError(f"{field}: only texts or only a function for {sorted(texts.keys() ^ evaluators.keys())}")
        found += [FillerKind(name, texts[name], evaluators[name]) for name in texts]
    for kind in found:
        _check_slots(kind)
    return tuple(found)


def _check_slots(kind: FillerKind) -> None:
    given = {*kind.slots(0), *(["name"] if kind.texts.names else [])}
    used = kind.texts.slots()
    lacking, needless = used - given, given - used - kind.texts.parameters.keys()
    if lacking or needless:
        raise ValueError(f"{kind.name}: slots not given: {sorted(lacking)}; not used: {sorted(needless)}")


@cache
def phrases() -> FillerPhrases:
    """Return what surrounds the texts of all kinds."""
    return read_file("phrases.yaml", FillerPhrases)
