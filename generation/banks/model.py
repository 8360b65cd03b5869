"""What all banks have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from generation.grammar import parse

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _readable(template: str) -> str:
    parse(template)
    return template


Template = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_readable)]
"""A sentence template in the language of `generation.grammar`."""


class BankModel(BaseModel):
    """A part of a bank file: immutable, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
