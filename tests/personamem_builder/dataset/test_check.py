from __future__ import annotations

import json
import random
import re
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import personamem
from damaged_data import CONTEXTS, QUESTIONS, Rows, damaged, seal, with_bytes, with_table

import personamem_builder
from generation.errors import UserError
from personamem_builder.dataset import context_index, tables
from personamem_builder.dataset.check import read_questions
from personamem_builder.schema import CONTEXT_SCHEMA, QUESTION_SCHEMA

NAN, INF = float("nan"), float("inf")
ONE_SESSION = {"session_starts": [0], "session_topics": [""], "session_dates": [""]}


def error_of(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        read_questions(folder, "32k")
    assert raised.value.hint
    return raised.value.message


def test_whole_data_are_read_as_they_are(generated: Path, dataset_folder: Path) -> None:
    for folder in (generated, dataset_folder):
        assert read_questions(folder, "32k").equals(pq.read_table(folder / QUESTIONS))


@pytest.mark.parametrize("change", ["large", "int64", "dictionary", "more columns", "batches"])
def test_other_writers_may_take_other_bits_and_add_columns(generated: Path, tmp_path: Path, change: str) -> None:
    def changed(table: pa.Table) -> pa.Table:
        if change == "more columns":
            return table.append_column("mine", [range(len(table))])
        wide = {"large": (pa.string(), pa.large_string()), "int64": (pa.int32(), pa.int64())}
        if change in wide:
            old, new = wide[change]
            return table.cast(pa.schema([pa.field(f.name, new if f.type == old else f.type) for f in table.schema]))
        if change == "dictionary":
            place = table.column_names.index("topic")
            return table.set_column(place, "topic", table["topic"].dictionary_encode())
        return pa.concat_tables([table.slice(0, 5), table.slice(5)])

    folder = with_table(generated, tmp_path / "d", QUESTIONS, changed)
    assert read_questions(folder, "32k")["question_id"].to_pylist() == (
        read_questions(generated, "32k")["question_id"].to_pylist()
    )


def put(column: str, value: Any) -> Callable[[Rows], object]:
    return lambda rows: rows[1].update({column: value})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("end_index_in_shared_context", 2**31 - 1),
        ("end_index_in_shared_context", -1),
        ("answer_index", 4),
        ("answer_index", -1),
        ("distance_to_ref_proportion_in_context", NAN),
        ("distance_to_ref_proportion_in_context", INF),
        ("distance_to_ref_proportion_in_context", -0.1),
        ("distance_to_ref_proportion_in_context", 1.01),
        ("question_type", "unknown"),
        ("question_type", ""),
        ("question_id", ""),
        ("question_id", " \t"),
        ("shared_context_id", "nosuch"),
        ("shared_context_id", ""),
        ("persona_id", 77),
        ("persona_id", -1),
        ("user_question_or_message", ""),
        ("correct_answer", "(z)"),
        ("correct_answer", "c"),
        ("all_options", []),
        ("all_options", ["(a) one"]),
        ("all_options", ["(a) one", "(a) one", "(c) x", "(d) y"]),
        ("all_options", ["one", "two", "three", "four"]),
        ("all_options", ["(a) one", "(b)  ", "(c) x", "(d) y"]),
        ("all_options", ["(a) one", None, "(c) x", "(d) y"]),
        ("all_options", [f"(a) {i}" for i in range(1000)]),
        ("evidence_message_indices", [0, 10**6]),
        ("evidence_message_indices", [-1, 0]),
        ("evidence_message_indices", [None]),
        ("evidence_message_indices", []),
        ("option_states", [["a"]]),
        ("option_states", [["a"], None, ["b"], ["c"]]),
        ("option_roles", ["current"]),
        ("updates_spanned", -1),
        *[(name, -5) for name in QUESTION_SCHEMA.names if name.startswith(("context_length", "distance_to_ref_in"))],
        *[(name, None) for name in QUESTION_SCHEMA.names],
    ],
)
def test_a_wrong_value_is_named_with_file_row_and_column(
    generated: Path, tmp_path: Path, column: str, value: Any
) -> None:
    message = error_of(damaged(generated, tmp_path / "d", QUESTIONS, put(column, value)))
    if column == "answer_index" and value is not None:
        assert "answer_index: " in message
    assert re.search(rf"questions_32k\.parquet, row 2, column {column}: ", message)


def test_ids_that_repeat(generated: Path, tmp_path: Path) -> None:
    folder = damaged(generated, tmp_path / "d", QUESTIONS, lambda rows: rows[4].update(rows[2]))
    assert "row 5, column question_id: " in error_of(folder)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (put("shared_context_id", ""), "row 2, column shared_context_id"),
        (put("shared_context_id", None), "row 2, column shared_context_id"),
        (put("persona_id", None), "row 2, column persona_id"),
        (put("messages", None), "row 2, column messages"),
        (put("messages", []), "row 2, column session_starts"),
        (
            lambda rows: rows[1].update(messages=rows[1]["messages"][:3], **ONE_SESSION),
            "lies past the end of its context",
        ),
        (put("messages", [{"role": "tool", "content": "x"}]), "row 2, column messages: has a role that is none of"),
        (put("messages", [{"role": None, "content": "x"}]), "row 2, column messages"),
        (put("messages", [{"role": "user", "content": None}]), "row 2, column messages"),
        (put("messages", [None]), "row 2, column messages"),
        (put("num_tokens", -1), "row 2, column num_tokens: -1"),
        (put("session_starts", [0, 10**8]), "row 2, column session_starts"),
        (put("session_starts", [-3]), "row 2, column session_starts"),
        (put("session_topics", ["one"]), "row 2, column session_topics"),
        (put("session_dates", None), "row 2, column session_dates"),
        (lambda rows: rows[1].update(shared_context_id=rows[0]["shared_context_id"]), "stands in an earlier row too"),
        (lambda rows: rows[1]["session_starts"].reverse(), "row 2, column session_starts"),
        (lambda rows: [row.update(persona_id=5) for row in rows], "is not the persona of its context"),
        (lambda rows: rows.pop(), "shared_contexts_32k.parquet has no such context"),
    ],
)
def test_a_fault_of_the_contexts_is_found_without_their_texts(
    generated: Path, tmp_path: Path, damage: Callable[[Rows], object], named: str
) -> None:
    assert named in error_of(damaged(generated, tmp_path / "d", CONTEXTS, damage))


@pytest.mark.parametrize("name", [QUESTIONS, CONTEXTS])
def test_columns_that_lack_or_hold_something_else(generated: Path, tmp_path: Path, name: str) -> None:
    schema = QUESTION_SCHEMA if name == QUESTIONS else CONTEXT_SCHEMA
    for number, column in enumerate(schema.names):
        lacks = with_table(
            generated, tmp_path / f"lacks {number}", name, lambda table, c=column: table.drop_columns([c])
        )
        assert f"has no column {column}" in error_of(lacks)
        other = pa.array([[b"x"]]), pa.array([1.5]) if schema.field(column).type != pa.float32() else pa.array(["x"])
        for kind, values in enumerate(other):

            def replaced(table: pa.Table, column: str = column, values: pa.Array = values) -> pa.Table:
                whole = pa.concat_arrays([values] * len(table))
                return table.set_column(table.column_names.index(column), column, whole)

            message = error_of(with_table(generated, tmp_path / f"other {number} {kind}", name, replaced))
            assert re.search(rf"column {column} holds .*, not ", message)


@pytest.mark.parametrize("name", [QUESTIONS, CONTEXTS])
@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: b"question_id,topic\n1,2\n",
        lambda content: content[:-10],
        lambda content: content[: len(content) // 2],
        lambda content: b"PAR1" + content[100:],
        lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1",
        lambda content: content[:4] + bytes(len(content) // 3) + content[4 + len(content) // 3 :],
    ],
    ids=["empty", "CSV", "cut", "half", "beheaded", "long footer", "zeros"],
)
def test_a_file_that_is_no_parquet(
    generated: Path, tmp_path: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    message = error_of(with_bytes(generated, tmp_path / "d", name, change))
    assert f"{name} cannot be read" in message


@pytest.mark.parametrize("name", [QUESTIONS, CONTEXTS])
def test_a_file_without_rows_or_with_too_many(
    generated: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "has 0 rows" in error_of(with_table(generated, tmp_path / "d", name, lambda table: table.slice(0, 0)))
    monkeypatch.setattr(tables, "MAX_ROWS", 1)
    context_index._index.cache_clear()
    assert "rows; it must have 1 to 1" in error_of(generated)
    context_index._index.cache_clear()


def test_a_small_file_of_billions_of_characters_is_refused(generated: Path, tmp_path: Path) -> None:
    def long(table: pa.Table) -> pa.Table:
        topic = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 2**20]))
        rows = pa.concat_tables([table] * (20_000 // len(table) + 1)).slice(0, 20_000)
        return rows.set_column(rows.column_names.index("topic"), "topic", topic)

    folder = with_table(generated, tmp_path / "d", QUESTIONS, long)
    assert (folder / QUESTIONS).stat().st_size < 2**22
    assert "more than the limit of 512 MiB" in error_of(folder)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3"], ids=["bytes", "surrogate", "cut"])
def test_text_that_is_no_utf8(generated: Path, tmp_path: Path, text: bytes) -> None:
    needle = pq.read_table(generated / QUESTIONS)["topic"][0].as_py().encode()

    def broken(name: str, values: pa.ChunkedArray) -> Callable[[pa.Table], pa.Table]:
        raw = pa.array([text] * len(values), pa.binary()).view(pa.string())
        return lambda table: table.set_column(table.column_names.index(name), name, raw)

    table = pq.read_table(generated / QUESTIONS)
    assert needle
    folder = with_table(generated, tmp_path / "d", QUESTIONS, broken("topic", table["topic"]))
    assert "questions_32k.parquet cannot be read: " in error_of(folder)

    def messages(table: pa.Table) -> pa.Table:
        column = table["messages"].combine_chunks()
        raw = pa.array([text] * len(column.values), pa.binary()).view(pa.string())
        inner = pa.StructArray.from_arrays([column.values.field("role"), raw], ["role", "content"])
        whole = pa.ListArray.from_arrays(column.offsets, inner)
        return table.set_column(table.column_names.index("messages"), "messages", whole)

    folder = with_table(generated, tmp_path / "contexts", CONTEXTS, messages)
    with pytest.raises(UserError, match="cannot be read"):
        list(personamem_builder.iter_examples("32k", data=folder))


@pytest.mark.parametrize("name", [QUESTIONS, CONTEXTS])
def test_bytes_that_the_manifest_does_not_speak_of_are_not_looked_into(
    generated: Path, tmp_path: Path, name: str
) -> None:
    """On some of these `pyarrow` ends the process."""
    sound = (generated / name).read_bytes()
    for seed in range(50):
        rng = random.Random(seed)
        content = bytearray(sound)
        content[rng.randrange(len(sound))] ^= rng.randrange(1, 256)
        folder = tmp_path / str(seed)
        shutil.copytree(generated, folder)
        (folder / name).write_bytes(content)
        assert error_of(folder) == f"{folder / name} cannot be read: it is not as the manifest says"


def test_many_faults_are_counted_and_twenty_shown(generated: Path, tmp_path: Path) -> None:
    folder = damaged(generated, tmp_path / "d", QUESTIONS, lambda rows: [row.update(topic=None) for row in rows])
    count = len(pq.read_table(generated / QUESTIONS))
    lines = error_of(folder).splitlines()
    assert lines[0] == f"{count} faults in the data"
    assert len(lines) == 22
    assert lines[-1] == f"  … and {count - 20} more"


COMMANDS = {
    "inspect": ["inspect", "DATA"],
    "view": ["view", "DATA", "--no-open", "--out", "out"],
    "annotate": ["annotate", "DATA", "--out", "out"],
    "audit": ["audit", "DATA"],
    "export": ["export", "DATA", "--out", "out"],
    "memory": ["memory", "run", "--data", "DATA", "--out", "out"],
    "control": ["memory", "run", "--system", "recent", "--set", "tokens=50", "--data", "DATA"],
    "publish": ["publish", "DATA", "org/name", "--tag", "v1.0.0", "--dry-run"],
    "eval": ["eval", "--tasks", "personamem_32k", "--model", "personamem-floor", "--model_args", "policy=longest",
             "--metadata", '{"data": "DATA"}', "--output_path", "out"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (QUESTIONS, put("distance_to_ref_proportion_in_context", NAN)),
        (QUESTIONS, put("end_index_in_shared_context", 2**31 - 1)),
        (CONTEXTS, put("messages", [{"role": "user", "content": None}])),
    ],
    ids=["NaN", "end", "null"],
)
def test_every_command_finds_it_before_it_does_anything(
    generated: Path, tmp_path: Path, name: str, damage: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "eval":
        pytest.importorskip("lm_eval")
    monkeypatch.setattr("personamem_builder.publish.plan.current_version", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    damaged(generated, tmp_path / "d", name, damage)
    outcome = personamem(*(argument.replace("DATA", "d") for argument in COMMANDS[command]))
    assert outcome.exit_code == 1
    if command == "audit" and name == QUESTIONS and "end_index" in outcome.out:
        return  # what an audit finds is no error, but a missed limit
    assert "error: " in outcome.err
    assert f"{Path(name).name}" in outcome.err
    left = [path.name for path in tmp_path.iterdir()]
    assert left == ["d"] or command == "eval"  # whose folder of results is there before its tasks are


def test_the_explicit_forms_find_it_too(generated: Path, tmp_path: Path) -> None:
    folder = damaged(generated, tmp_path / "d", QUESTIONS, put("end_index_in_shared_context", 10**6))
    for call in (
        lambda: personamem_builder.load_dataset("32k", data=folder, cache_dir=str(tmp_path / "cache")),
        lambda: next(personamem_builder.iter_examples("32k", data=folder)),
        lambda: personamem_builder.materialise("32k", tmp_path / "out.parquet", data=folder),
    ):
        with pytest.raises(UserError, match="row 2, column end_index_in_shared_context: 1000000"):
            call()
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("text", ["\0\x01\x1b[2J\x7f\x85\u2028\ufeff\ufffe", "</script><!--", "\U0001f600 \r\n,\"'"])
def test_control_characters_pass_through_every_writer(
    generated: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = damaged(
        generated, tmp_path / "d", QUESTIONS, lambda rows: rows[0].update(topic=text, user_question_or_message=text)
    )
    with_table(folder, tmp_path / "personamem", CONTEXTS, lambda table: _with_first_message(table, text))
    row = read_questions(tmp_path / "personamem", "32k").to_pylist()[0]
    for arguments in (
        ["inspect"],
        ["inspect", "--question", row["question_id"], "--full"],
        ["inspect", "--question", row["question_id"], "--format", "string"],
        ["inspect", "--question", row["question_id"], "--format", "api_dict"],
        ["view", "--out", "page"],
        ["annotate", "--out", "study"],
        ["export", "--out", "release"],
    ):
        outcome = personamem(*arguments)
        assert outcome.exit_code == 0, outcome.err
        if "--format" not in arguments:
            assert not {"\x1b", "\0", "\x7f"} & set(outcome.out)
    exported = (tmp_path / "release" / "shared_contexts_32k.jsonl").read_text(encoding="utf-8")
    assert text in [message["content"] for line in exported.split("\n") if line for message in _only(json.loads(line))]


def _only(context: dict[str, Any]) -> list[dict[str, str]]:
    [messages] = context.values()
    return messages


def _with_first_message(table: pa.Table, text: str) -> pa.Table:
    rows = table.to_pylist()
    rows[0]["messages"][0]["content"] = text
    return pa.Table.from_pylist(rows, schema=table.schema)


@pytest.mark.slow
def test_a_large_split_is_checked_in_little_memory(generated: Path, tmp_path: Path) -> None:
    """Four million messages, of 4 GB of text if all of it were written out."""
    count, each = 200, 20_000
    texts = pa.DictionaryArray.from_arrays(
        pa.array([i % each for i in range(each)], pa.int32()), pa.array(["x" * 1000 + str(i) for i in range(each)])
    )
    roles = pa.array(["user", "assistant"] * (each // 2))
    messages = pa.ListArray.from_arrays(
        pa.array([0, each], pa.int32()), pa.StructArray.from_arrays([roles, texts], ["role", "content"])
    )
    ids = sorted(set(read_questions(generated, "32k")["shared_context_id"].to_pylist()))
    personas = {row["shared_context_id"]: row["persona_id"] for row in read_questions(generated, "32k").to_pylist()}
    path = tmp_path / "d" / CONTEXTS
    folder = damaged(generated, tmp_path / "d", QUESTIONS, lambda rows: None)
    with pq.ParquetWriter(path, None or _context_schema(messages.type), dictionary_pagesize_limit=2**28) as writer:
        for number in range(count):
            key = ids[number] if number < len(ids) else f"c{number}"
            row = {"shared_context_id": [key], "persona_id": [personas.get(key, 0)], "messages": messages,
                   **{name: [value] for name, value in ONE_SESSION.items()}, "num_tokens": [1]}  # fmt: skip
            writer.write_table(pa.table(row, schema=_context_schema(messages.type)))
    seal(folder, CONTEXTS)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    read_questions(folder, "32k")
    assert pa.total_allocated_bytes() - before < 2**27
    assert tracemalloc.get_traced_memory()[1] < 2**27
    tracemalloc.stop()


def _context_schema(messages: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(f.name, messages if f.name == "messages" else f.type) for f in CONTEXT_SCHEMA])
