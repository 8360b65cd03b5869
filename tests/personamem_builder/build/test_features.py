from __future__ import annotations

import pyarrow as pa

from personamem_builder.build.features import features_of, type_name
from personamem_builder.schema import (
    CONTEXT_SCHEMA,
    GENERATED_QUESTION_FIELDS,
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
)

EVERY_QUESTION_FIELD = pa.schema([*QUESTION_SCHEMA, *OPTIONAL_QUESTION_FIELDS, *GENERATED_QUESTION_FIELDS])


def test_columns_are_described_as_datasets_describes_them() -> None:
    from datasets import Features

    other = pa.schema([("a", pa.float64()), ("b", pa.list_(pa.list_(pa.struct([("c", pa.list_(pa.int64()))]))))])
    for schema in (EVERY_QUESTION_FIELD, CONTEXT_SCHEMA, other):
        described = features_of(schema)
        assert described == Features.from_arrow_schema(schema)._to_yaml_list()
        assert Features._from_yaml_list(described).arrow_schema == schema


def test_types_in_words() -> None:
    words = {feature["name"]: type_name(feature) for feature in features_of(pa.unify_schemas([CONTEXT_SCHEMA]))}
    assert words["persona_id"] == "int32"
    assert words["session_topics"] == "list<string>"
    assert words["messages"] == "list<{role: string, content: string}>"
    states = next(f for f in features_of(EVERY_QUESTION_FIELD) if f["name"] == "option_states")
    assert type_name(states) == "list<list<string>>"
