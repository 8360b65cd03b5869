"""The bank of scenarios: everyday choices outside the topics, for questions that generalise."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from generation.banks.model import BankModel, Template, Text
from generation.records import MOTIVES, Motive


class Scenario(BankModel):
    """A choice that each motive decides in its own way.

    Attributes:
        name: What is to be decided; completes `The message is about …`.
        domain: The new topic.
        messages: Neutral messages that ask for advice.
        options: For each motive, advice that takes it for granted.
        replies: The assistant's words around the advice; `{advice}`.
    """

    id: Text
    name: Text
    domain: Text
    messages: list[Template] = Field(min_length=1)
    options: dict[Motive, Text]
    replies: list[Template] = Field(min_length=1)

    @model_validator(mode="after")
    def _all_motives(self) -> Self:
        if missing := [motive for motive in MOTIVES if motive not in self.options]:
            raise ValueError(f"{self.id}: no option for {', '.join(missing)}")
        return self


class ScenarioBank(BankModel):
    """Scenarios to draw from."""

    scenarios: list[Scenario] = Field(min_length=1)
