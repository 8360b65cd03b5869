"""The bank of phrases: sentences that chats and options of all topics share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from generation.banks.frames import Pair, Three
from generation.banks.model import BankModel, PlainTemplate, Slots, Template
from generation.records import GENERIC_TYPES, QuestionType

_Labelled = Annotated[Template, AfterValidator(Slots(may=("label",)))]
_OfPerson = Annotated[Template, AfterValidator(Slots(may=("person",)))]
_Items = Annotated[Template, AfterValidator(Slots("items"))]


class TrialTells(BankModel):
    """How it is told what somebody has tried: verb phrases in the past tense, for all persons.

    Attributes:
        tries: `tried {items}`.
        traces: What shows that somebody has tried them.
        stock: What says nothing.
    """

    tries: list[_Items] = Field(min_length=1)
    traces: list[_Items] = Field(min_length=1)
    stock: list[PlainTemplate] = Field(min_length=1)
    pairs: list[Pair] = Field(min_length=1)
    threes: list[Three] = Field(min_length=1)


class Phrases(BankModel):
    """Sentences that chats of all topics share.

    Attributes:
        farewells: The assistant's last words; may hold `{label}`, a concern of the session.
        acknowledgements: The assistant's first words after something personal; may hold `{person}`.
        recalls: The assistant comes back to `{label}`, an earlier concern of the session.
        offers_of_values: The assistant names values side by side, `{names}`, for `{name}`.
        offers_of_items: The assistant names items of a topic side by side, `{names}`; may hold `{label}`.
        vague_reasons: Clauses that complete `because …` and give no reason.
        datings: When something told was, `{when}`.
    """

    farewells: list[_Labelled] = Field(min_length=1)
    acknowledgements: list[_OfPerson] = Field(min_length=1)
    recalls: list[Annotated[Template, AfterValidator(Slots("label"))]] = Field(min_length=1)
    offers_of_values: list[Annotated[Template, AfterValidator(Slots("names", "name"))]] = Field(min_length=1)
    offers_of_items: list[Annotated[Template, AfterValidator(Slots("names", may=("label",)))]] = Field(min_length=1)
    trials: TrialTells
    vague_reasons: list[PlainTemplate] = Field(min_length=1)
    datings: list[Annotated[Template, AfterValidator(Slots("when"))]] = Field(min_length=1)


class StancePair(BankModel):
    """The same words around liking and disliking `{item}`."""

    like: Template
    dislike: Template


class OptionPhrases(BankModel):
    """The words around what the options of a question assert; the four options of a question share them.

    Attributes:
        facts: Recall `{fact}`.
        ideas: Suggest `{item}`.
        stances: Take a stance on `{item}` for granted.
        evolutions: Tell the course of `{name}` in `{steps}`.
        item_evolutions: Tell the course of the view of `{item}` in `{steps}`.
        reasons: Recall `{reason}` for a change of `{name}`.
        evolution_queries: The user asks how their `{name}` has gone.
        item_evolution_queries: The user asks how their view has gone, naming no item.
        recommendations: Recommend `{recommendation}`.
        go_by: The user wants a decision made by what moved them in matters of `{label}`.
        tails: Neutral sentences that may follow any of these, for all four options alike.
    """

    facts: list[Template] = Field(min_length=1)
    ideas: list[Template] = Field(min_length=1)
    stances: list[StancePair] = Field(min_length=1)
    evolutions: list[Template] = Field(min_length=1)
    item_evolutions: list[Template] = Field(min_length=1)
    reasons: list[Template] = Field(min_length=1)
    evolution_queries: list[Template] = Field(min_length=1)
    item_evolution_queries: list[Template] = Field(min_length=1)
    recommendations: list[Template] = Field(min_length=1)
    go_by: list[Template] = Field(min_length=1)
    tails: list[Template] = Field(min_length=1)


class GenericPhrases(BankModel):
    """Replies that suit anybody: an opening for the type of question, a body and an ending.

    Attributes:
        openings: By type; may hold `{label}`, the topic.
        own_bodies: Of types for which `bodies` will not do.
    """

    openings: dict[QuestionType, list[_Labelled]]
    bodies: list[PlainTemplate] = Field(min_length=2)
    own_bodies: dict[QuestionType, Annotated[list[PlainTemplate], Field(min_length=2)]] = Field(default={})
    endings: list[PlainTemplate] = Field(min_length=4)

    @field_validator("openings")
    @classmethod
    def _all_types(cls, openings: dict[QuestionType, list[str]]) -> dict[QuestionType, list[str]]:
        if missing := [name for name in GENERIC_TYPES if len(openings.get(name, [])) < 2]:
            raise ValueError(f"fewer than two openings for {', '.join(missing)}")
        return openings
