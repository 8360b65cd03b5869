"""Ways to damage a Parquet file: columns, types, rows, cells; and what makes the tables of a dataset wrong."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from fuzz.damage import BYTES, Damage


def _of_parquet(change: Callable[[Any, random.Random], Any]) -> Damage:
    """Change a table; it is written as others would write it."""

    def of_parquet(content: bytes, rng: random.Random) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pa.set_cpu_count(1)
        table = change(pq.read_table(io.BytesIO(content), use_threads=False), rng)
        sink = io.BytesIO()
        pq.write_table(table, sink)
        return sink.getvalue()

    return of_parquet


def _column_removed(table: Any, rng: random.Random) -> Any:
    return table.drop_columns([rng.choice(table.column_names)])


def _column_renamed(table: Any, rng: random.Random) -> Any:
    names = list(table.column_names)
    names[rng.randrange(len(names))] = "surprise"
    return table.rename_columns(names)


def _column_twice(table: Any, rng: random.Random) -> Any:
    name = rng.choice(table.column_names)
    return table.append_column(name, table.column(name))


def _column_of_another_type(table: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    index = rng.randrange(table.num_columns)
    column = table.column(index)
    others = [pa.string(), pa.int64(), pa.float64(), pa.list_(pa.string()), pa.binary(), pa.bool_(), pa.timestamp("us")]
    rng.shuffle(others)
    for kind in others:
        if kind == column.type:
            continue
        try:
            changed = column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            continue
        return table.set_column(index, table.column_names[index], changed)
    return table.set_column(index, table.column_names[index], pa.array([str(v) for v in column.to_pylist()]))


def _all_null(table: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    index = rng.randrange(table.num_columns)
    field = table.schema.field(index).with_nullable(True)
    return table.set_column(index, field, pa.nulls(table.num_rows, field.type))


def _cell(draw: Callable[[Any, Any, random.Random], Any], fits: Callable[[Any], bool]) -> Damage:
    """Change a cell, or all of a column, to what its type allows."""

    def change(table: Any, rng: random.Random) -> Any:
        import pyarrow as pa

        indices = [i for i, field in enumerate(table.schema) if fits(field.type)]
        if not indices or not table.num_rows:
            return table
        index = rng.choice(indices)
        kind = table.schema.field(index).type
        values = table.column(index).to_pylist()
        rows = range(len(values)) if rng.random() < 0.2 else [rng.randrange(len(values))]
        for row in rows:
            values[row] = draw(values[row], kind, rng)
        field = table.schema.field(index).with_nullable(True)
        return table.set_column(index, field, pa.array(values, kind))

    return _of_parquet(change)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind))


def _other_number(value: Any, kind: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return rng.choice([float("nan"), float("inf"), -1.0, 1e30])
    most = 2 ** (kind.bit_width - 1) - 1
    return rng.choice([-1, most, -most - 1, 0, min(most, 10_000)])


def _other_text(value: Any, kind: Any, rng: random.Random) -> Any:
    return rng.choice(
        ["", "surprise", "(z)", "\x00\x1b[2J", "2021-13-45", "word " * 100_000, "../../etc/passwd", "(a) "]
    )


def _other_list(value: Any, kind: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    items = list(value or [])
    inner: Any = None
    if pa.types.is_integer(kind.value_type):
        inner = rng.choice([-1, 2 ** (kind.value_type.bit_width - 1) - 1, 7])
    elif pa.types.is_string(kind.value_type):
        inner = rng.choice(["", "surprise", "(z) x"])
    elif pa.types.is_struct(kind.value_type):
        inner = rng.choice([{"role": "nobody", "content": "x"}, {"role": None, "content": None}, None])
    changes = [
        list,
        lambda: items + items,
        lambda: items[::-1],
        lambda: items[:1],
        lambda: [None, *items[1:]],
        lambda: [inner, *items[1:]],
        lambda: [*items, inner],
    ]
    return rng.choice(changes)()


def _rows_twice(table: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    row = rng.randrange(table.num_rows)
    return pa.concat_tables([table, table.slice(row, 1)])


def _other_order(table: Any, rng: random.Random) -> Any:
    order = list(range(table.num_rows))
    rng.shuffle(order)
    return table.take(order)


def _row_removed(table: Any, rng: random.Random) -> Any:
    removed = rng.randrange(table.num_rows)
    return table.take([row for row in range(table.num_rows) if row != removed])


PARQUET: Final[Mapping[str, Damage]] = {
    **BYTES,
    "column removed": _of_parquet(_column_removed),
    "column renamed": _of_parquet(_column_renamed),
    "column twice": _of_parquet(_column_twice),
    **{f"column of another type, {n}": _of_parquet(_column_of_another_type) for n in range(4)},
    "column of nulls": _of_parquet(_all_null),
    **{f"number out of range, {n}": _cell(_other_number, _is_number) for n in range(8)},
    **{f"another text, {n}": _cell(_other_text, _is_text) for n in range(6)},
    **{f"another list, {n}": _cell(_other_list, _is_list) for n in range(6)},
    **{f"null, {n}": _cell(lambda value, kind, rng: None, lambda kind: True) for n in range(3)},
    "row twice": _of_parquet(_rows_twice),
    "row removed": _of_parquet(_row_removed),
    "rows in another order": _of_parquet(_other_order),
    "no rows": _of_parquet(lambda table, rng: table.slice(0, 0)),
    "no columns": _of_parquet(lambda table, rng: table.select([])),
}


def _in_column(name: str, change: Callable[[Any, list[Any]], Any]) -> Damage:
    """Change one cell of a column, given the cell and the whole column."""

    def changed(table: Any, rng: random.Random) -> Any:
        import pyarrow as pa

        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        values = table.column(index).to_pylist()
        row = rng.randrange(len(values))
        values[row] = change(values[row], values)
        return table.set_column(index, field.with_nullable(True), pa.array(values, field.type))

    return _of_parquet(changed)


_WRONG_QUESTIONS: Final[Mapping[str, Damage]] = {
    "end beyond the context": _in_column("end_index_in_shared_context", lambda value, column: 2**31 - 1),
    "end a message too far": _in_column("end_index_in_shared_context", lambda value, column: max(column) + 100),
    "negative end": _in_column("end_index_in_shared_context", lambda value, column: -1),
    "proportion that is no number": _in_column(
        "distance_to_ref_proportion_in_context", lambda value, column: float("nan")
    ),
    "unknown question type": _in_column("question_type", lambda value, column: "surprise"),
    "context that does not exist": _in_column("shared_context_id", lambda value, column: "0" * 64),
    "no id": _in_column("question_id", lambda value, column: None),
    "no options": _in_column("all_options", lambda value, column: []),
    "an option that is null": _in_column("all_options", lambda value, column: [None, *value[1:]]),
    "answer beyond the options": _in_column("answer_index", lambda value, column: 4),
    "negative answer": _in_column("answer_index", lambda value, column: -1),
    "evidence beyond the context": _in_column("evidence_message_indices", lambda value, column: [2**31 - 1]),
    "negative evidence": _in_column("evidence_message_indices", lambda value, column: [-1]),
    "the same question twice": _of_parquet(_rows_twice),
}
_WRONG_CONTEXTS: Final[Mapping[str, Damage]] = {
    "a message that is null": _in_column("messages", lambda value, column: [None, *value[1:]]),
    "a message without content": _in_column(
        "messages", lambda value, column: [{**value[0], "content": None}, *value[1:]]
    ),
    "no messages": _in_column("messages", lambda value, column: []),
    "a session that starts beyond the end": _in_column(
        "session_starts", lambda value, column: [*value[:-1], 2**31 - 1]
    ),
    "a session that starts before the first message": _in_column(
        "session_starts", lambda value, column: [-1, *value[1:]]
    ),
    "a topic too few": _in_column("session_topics", lambda value, column: value[:-1]),
    "the same context twice": _of_parquet(_rows_twice),
    "a context removed": _of_parquet(_row_removed),
}
QUESTIONS: Final[Mapping[str, Damage]] = {**PARQUET, **_WRONG_QUESTIONS}
CONTEXTS: Final[Mapping[str, Damage]] = {**PARQUET, **_WRONG_CONTEXTS}
WRONG: Final = frozenset(_WRONG_QUESTIONS) | frozenset(_WRONG_CONTEXTS)
"""Damages that leave a dataset which must not be taken."""
