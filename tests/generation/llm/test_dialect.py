"""The schema that is sent is strict, and says what pydantic will check."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from generation.llm.dialect import Dialect, strict_schema
from generation.stages.fillers import FillerReply
from generation.stages.histories import GeneralHistoryReply
from generation.stages.personas import PersonaReply
from generation.stages.questions import QuestionReply
from generation.stages.sessions import SessionReply


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


@pytest.mark.parametrize(
    ("complaint", "simpler"),
    [
        ("This response_format type is unavailable now", Dialect(form="json_object")),
        ("This model does not support response format `json_schema`.", Dialect(form="json_object")),
        ("Invalid schema for response_format 'Colour'", Dialect(form="json_object")),
        ("failed to parse grammar", Dialect(form="json_object")),
        ("Unrecognized request argument supplied: seed", Dialect(seed=False)),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", Dialect(limit="max_completion_tokens")),
        ("Unknown: seed, response_format", Dialect(form="json_object", seed=False)),
        ("Only the seeds of max_new_tokens matter to this information", Dialect()),
        ("temperature is not supported", Dialect()),
    ],
)
def test_what_is_left_out_after_a_complaint(complaint: str, simpler: Dialect) -> None:
    assert Dialect().without(complaint) == simpler


def test_complaints_come_to_an_end() -> None:
    dialect, steps = Dialect(), 0
    while (simpler := dialect.without("seed, max_tokens, response_format")) != dialect:
        dialect, steps = simpler, steps + 1
    assert steps == 2
    assert dialect.fields(Colour, 300, 5) == {"max_completion_tokens": 300}
