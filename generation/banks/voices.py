"""The bank of voices: manners of writing, of which each user has one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generation.banks.model import BankModel, PlainTemplate, Slots, Template, Text

_Greeting = Annotated[Template, AfterValidator(Slots(may=("date",)))]
_Return = Annotated[Template, AfterValidator(Slots("label"))]


class Voice(BankModel):
    """A manner of writing.

    Attributes:
        manner: How the user writes; completes `The user writes …`.
        details: Share of the optional details of a text that the user writes.
        rambles_share: Share of messages that have a ramble.
        leads_share: Share of first messages of a concern that have a lead.
        takes_share: Share of other messages that begin with a take.
        contractions: `none` for `I have` in place of `I've`.
        case: `lower` for no capitals.
        end: What the last full stop of a message becomes.
        replacements: Words, and what this user writes in their place.
        greetings: First words of a session; may hold `{date}`.
        returns: The user comes back to what an earlier session was about, `{label}`.
        leads: Words before a first concern.
        switches: Words before another concern.
        takes: The user takes up the last answer, whatever it was.
        asides: Words before something told in passing.
        rambles: Sentences on the writer's state or surroundings, free of preferences.
        closers: Last words of a session.
    """

    id: Text
    manner: Text
    details: float = Field(ge=0, le=1)
    rambles_share: float = Field(ge=0, le=1)
    leads_share: float = Field(ge=0, le=1)
    takes_share: float = Field(ge=0, le=1)
    contractions: Literal["keep", "none"] = "keep"
    case: Literal["sentence", "lower"] = "sentence"
    end: str = "."
    replacements: tuple[tuple[Text, str], ...] = ()
    greetings: list[_Greeting] = Field(min_length=1)
    returns: list[_Return] = Field(min_length=1)
    leads: list[PlainTemplate] = Field(min_length=1)
    switches: list[PlainTemplate] = Field(min_length=1)
    takes: list[PlainTemplate] = Field(min_length=1)
    asides: list[PlainTemplate] = Field(min_length=1)
    rambles: list[PlainTemplate] = Field(min_length=1)
    closers: list[PlainTemplate] = Field(min_length=1)


class Voices(BankModel):
    """The voices of users."""

    voices: list[Voice] = Field(min_length=8)

    def voice(self, voice_id: str) -> Voice:
        """Return a voice by its id."""
        return next(voice for voice in self.voices if voice.id == voice_id)
