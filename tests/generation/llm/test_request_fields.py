"""The schema that is sent is strict, and says what pydantic will check."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from generation.llm.replies import RequestFailure
from generation.llm.request_fields import RequestFields, json_reply, refused_temperature, strict_schema
from generation.session_text import SessionReply
from generation.stages.fillers import FillerReply
from generation.stages.histories import GeneralHistoryReply
from generation.stages.personas import PersonaReply
from generation.stages.questions import QuestionReply


class Turn(BaseModel):
    title: str  # also the name of a keyword
    kind: Literal["why", "how"] = "why"


class Colour(BaseModel):
    """A colour."""

    name: Annotated[str, Field(min_length=1, max_length=20)]
    default: int | None = None
    first: Turn = Field(default=Turn(title="a"), description="The first one.")
    turns: Annotated[list[Turn], Field(min_length=1)]


def test_the_schema_is_strict() -> None:
    assert strict_schema(Colour) == {
        "description": "A colour.",
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "default": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "first": {"$ref": "#/$defs/Turn"},
            "turns": {"type": "array", "items": {"$ref": "#/$defs/Turn"}, "minItems": 1},
        },
        "required": ["name", "default", "first", "turns"],
        "additionalProperties": False,
        "$defs": {
            "Turn": {
                "type": "object",
                "properties": {"title": {"type": "string"}, "kind": {"type": "string", "enum": ["why", "how"]}},
                "required": ["title", "kind"],
                "additionalProperties": False,
            }
        },
    }


def objects(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for inner in node for found in objects(inner)]
    if not isinstance(node, dict):
        return []
    return [node] * ("properties" in node) + [found for inner in node.values() for found in objects(inner)]


@pytest.mark.parametrize("reply", [PersonaReply, GeneralHistoryReply, SessionReply, QuestionReply, FillerReply])
def test_every_reply_of_the_generator_can_be_asked_for(reply: type[BaseModel]) -> None:
    schema = strict_schema(reply)
    assert schema["type"] == "object"
    assert all(node["required"] == list(node["properties"]) for node in objects(schema))
    assert all(node["additionalProperties"] is False for node in objects(schema))
    assert not {"default", "oneOf", "allOf", "prefixItems", "patternProperties"} & set(json.dumps(schema).split('"'))


FORMATS: Any = ("json_schema", "json_object", "none")
AS_GIVEN = RequestFields(formats=FORMATS)
PLAINER = RequestFields(formats=FORMATS[1:])
NEWER_LIMIT = RequestFields(formats=FORMATS, renamed=("max_tokens", "max_completion_tokens"))
SEED: Any = frozenset({"seed"})
PAYLOAD = {"max_tokens": 300, "seed": 5, "response_format": json_reply(Colour)}


@pytest.mark.parametrize(
    ("complaint", "simpler"),
    [
        ("This response_format type is unavailable now", PLAINER),
        ("This model does not support response format `json_schema`.", PLAINER),
        ("Invalid schema for response_format 'Colour'", PLAINER),
        ("failed to parse grammar", PLAINER),
        ("Unrecognized request argument supplied: seed", RequestFields(SEED, formats=FORMATS)),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", NEWER_LIMIT),
        ("Unknown: seed, response_format", RequestFields(SEED, formats=FORMATS[1:])),
        ("Only the seeds of max_new_tokens matter to this information", AS_GIVEN),
        ("temperature is not supported", AS_GIVEN),
    ],
)
def test_what_is_left_out_after_a_complaint(complaint: str, simpler: RequestFields) -> None:
    assert AS_GIVEN.without(PAYLOAD, RequestFailure(400, complaint)) == simpler


def test_a_format_that_was_given_stays() -> None:
    complaint = RequestFailure(400, "response_format is unknown")
    assert RequestFields().without(PAYLOAD, complaint) == RequestFields()


def test_a_temperature_goes_only_where_it_is_what_endpoints_take_by_default() -> None:
    complaint = RequestFailure(400, "temperature and stop are not supported")
    payload = {"stop": ["\n"], "temperature": 1}
    fields = RequestFields().without(payload, complaint)
    assert (fields.of(payload), fields.stops(payload)) == ({}, ["\n"])
    assert str(replace(fields, renamed=("max_tokens", "max_completion_tokens"))) == (
        "without stop, without temperature, max_completion_tokens for max_tokens"
    )
    assert RequestFields().without({"temperature": 0}, complaint) == RequestFields()
    assert refused_temperature({"temperature": 0}, str(complaint.body))
    assert not refused_temperature({}, str(complaint.body))


def test_complaints_come_to_an_end() -> None:
    fields, steps = AS_GIVEN, 0
    assert fields.of(PAYLOAD) == PAYLOAD
    while (simpler := fields.without(PAYLOAD, RequestFailure(400, "seed, max_tokens, response_format"))) != fields:
        fields, steps = simpler, steps + 1
    assert steps == 2
    assert fields.of(PAYLOAD) == {"max_completion_tokens": 300}
