from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from generation.errors import UserError
from generation.records import QUESTION_TYPES
from generation.tokenizer import count_tokens
from personamem_builder.build.from_official import import_release
from personamem_builder.official.release import Release, read_release
from personamem_builder.schema import CONTEXT_SCHEMA, QUESTION_SCHEMA

Messages = list[dict[str, str]]


def official_id(messages: Messages) -> str:
    return hashlib.sha256(" ".join(repr(m) for m in messages).encode()).hexdigest()


@dataclass(frozen=True)
class Files:
    """A copy of the excerpt that a test may spoil."""

    folder: Path

    @property
    def questions(self) -> Path:
        return self.folder / "questions_32k.csv"

    @property
    def contexts(self) -> Path:
        return self.folder / "shared_contexts_32k.jsonl"

    def rows(self) -> list[dict[str, str]]:
        """The questions; the first one is row 2 of the file."""
        return list(csv.DictReader(io.StringIO(self.questions.read_text(encoding="utf-8"), newline="")))

    def write_rows(self, rows: list[dict[str, str]], **dialect: Any) -> None:
        with self.questions.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), **dialect)
            writer.writeheader()
            writer.writerows(rows)

    def change(self, **cells: str) -> None:
        """Change cells of the first question."""
        rows = self.rows()
        rows[0] |= cells
        self.write_rows(rows)

    def messages(self) -> dict[str, Messages]:
        lines = self.contexts.read_text(encoding="utf-8").splitlines()
        return {key: messages for line in lines for key, messages in json.loads(line).items()}

    def write_messages(self, contexts: dict[str, Messages]) -> None:
        lines = [json.dumps({key: messages}, ensure_ascii=False) + "\n" for key, messages in contexts.items()]
        self.contexts.write_text("".join(lines), encoding="utf-8")

    def as_split(self, split: str) -> Files:
        """Add a copy of the files under the names of another split."""
        shutil.copy(self.questions, self.folder / f"questions_{split}.csv")
        shutil.copy(self.contexts, self.folder / f"shared_contexts_{split}.jsonl")
        return self


@pytest.fixture
def files(excerpt: Path, tmp_path: Path) -> Files:
    folder = tmp_path / "release"
    folder.mkdir()
    for name in ("questions_32k.csv", "shared_contexts_32k.jsonl"):
        shutil.copy(excerpt / name, folder)
    return Files(folder)


Refusal = Callable[[Path], str]


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    """Import a bad release: return the error for people, having seen that nothing was left behind."""

    def refuse(folder: Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(UserError) as raised:
            import_release(folder, tmp_path / "data" / "personamem")
        assert sorted(tmp_path.rglob("*")) == before
        assert raised.value.hint
        return raised.value.message

    return refuse


def lines_about(message: str, file: str) -> list[str]:
    return [line.strip() for line in message.splitlines() if line.strip().startswith(file)]


@pytest.fixture(scope="module")
def official(release_dir: Path) -> Release:
    """The official 32k files; what is known of them is in the release's documentation or was counted by hand."""
    return read_release(release_dir)


def test_official_counts(official: Release) -> None:
    questions, contexts = official.questions["32k"], official.contexts["32k"]
    assert list(official.questions) == list(official.contexts) == ["32k"]
    assert (questions.num_rows, len(contexts)) == (589, 37)
    assert sum(len(context["messages"]) for context in contexts) == 6462
    assert pc.count_distinct(questions["persona_id"]).as_py() == 20
    assert pc.count_distinct(questions["topic"]).as_py() == 13
    assert pc.count_distinct(questions["end_index_in_shared_context"]).as_py() == 97
    assert set(questions["shared_context_id"].to_pylist()) == {context["shared_context_id"] for context in contexts}


def test_official_question_types_are_mapped(official: Release) -> None:
    table = official.questions["32k"]
    types, sources = (Counter(table[name].to_pylist()) for name in ("question_type", "source_question_type"))
    assert types["recall_user_shared_facts"] == 129 + 17
    assert sources["recall_user_shared_facts"] == 129
    assert sources["recalling_facts_mentioned_by_the_user"] == 17
    assert set(types) == set(QUESTION_TYPES) - {"acknowledge_latest_user_preferences"}
    assert len(sources) == 7


def test_official_golds(official: Release) -> None:
    table = official.questions["32k"]
    assert Counter(table["correct_answer"].to_pylist()) == {"(a)": 143, "(b)": 146, "(c)": 158, "(d)": 142}
    assert Counter(table["answer_index"].to_pylist()) == {0: 143, 1: 146, 2: 158, 3: 142}


def test_official_lengths_equal_the_recomputed_ones(official: Release, release_dir: Path) -> None:
    stated = {row["question_id"]: row for row in Files(release_dir).rows()}
    contexts = {row["shared_context_id"]: row["messages"] for row in official.contexts["32k"]}
    rows = official.questions["32k"].to_pylist()
    tokens = count_tokens(
        [message["content"] for messages in contexts.values() for message in messages]
        + [row["user_question_or_message"] for row in rows]
    )
    for row in rows:
        contents = [m["content"] for m in contexts[row["shared_context_id"]][: row["end_index_in_shared_context"]]]
        in_tokens = sum(tokens[content] for content in [*contents, row["user_question_or_message"]])
        assert (
            row["context_length_in_tokens"] == in_tokens == int(stated[row["question_id"]]["context_length_in_tokens"])
        )
        assert row["context_length_in_letters"] == sum(map(len, contents))
    lengths = official.questions["32k"]["context_length_in_tokens"].to_pylist()
    assert (min(lengths), max(lengths)) == (15560, 29539)


def test_official_oddities(official: Release) -> None:
    assert official.notes == [
        "32k: 17 of 589 questions have identical options",
        "32k: 189 of 589 questions repeat a question of the same persona",
        "32k: 457 of 6425 neighbouring messages have the same role",
    ]


def test_the_tables_have_their_schemas_and_order(excerpt: Path) -> None:
    release = read_release(excerpt)
    assert release.questions["32k"].schema == QUESTION_SCHEMA
    assert all(list(row) == CONTEXT_SCHEMA.names for row in release.contexts["32k"])
    keys = [
        (row["shared_context_id"], row["end_index_in_shared_context"], row["question_id"])
        for row in release.questions["32k"].to_pylist()
    ]
    assert keys == sorted(keys)
    ids = [row["shared_context_id"] for row in release.contexts["32k"]]
    assert ids == sorted(ids)


def test_every_value_is_kept(excerpt: Path) -> None:
    official = {row["question_id"]: row for row in Files(excerpt).rows()}
    rows = read_release(excerpt).questions["32k"].to_pylist()
    assert len(rows) == len(official) == 17
    for row in rows:
        source = official[row["question_id"]]
        for column in ("topic", "user_question_or_message", "correct_answer", "shared_context_id"):
            assert row[column] == source[column]
        for column in ("persona_id", "distance_to_ref_in_blocks", "distance_to_ref_in_tokens", "num_irrelevant_tokens"):
            assert row[column] == int(source[column])
        percent = row["distance_to_ref_proportion_in_context"] * 100
        assert f"{percent:.2f}%" == source["distance_to_ref_proportion_in_context"]
        assert row["source_question_type"] == source["question_type"]
        assert row["all_options"][row["answer_index"]].startswith(row["correct_answer"])
        assert row["evidence_message_indices"] == row["evidence_event_ids"] == []


def test_the_contexts_are_kept_with_their_sessions(excerpt: Path) -> None:
    official = Files(excerpt).messages()
    for row in read_release(excerpt).contexts["32k"]:
        assert row["messages"] == official[row["shared_context_id"]]
        roles = [message["role"] for message in row["messages"]]
        assert [roles[i] for i in row["session_starts"]] == ["system"] * roles.count("system")
        # The release has neither topics nor dates of sessions.
        assert row["session_topics"] == row["session_dates"] == [""] * len(row["session_starts"])
        assert row["persona_id"] == 0


def test_a_byte_order_mark_and_windows_line_ends(files: Files, excerpt: Path) -> None:
    for path in (files.questions, files.contexts):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_release(files.folder).questions == read_release(excerpt).questions
    assert read_release(files.folder).contexts == read_release(excerpt).contexts


def test_line_ends_inside_a_cell(files: Files) -> None:
    topic = "music\r\nand\nmore"
    files.change(topic=topic)
    assert topic in read_release(files.folder).questions["32k"]["topic"].to_pylist()


def test_blank_lines(files: Files, excerpt: Path) -> None:
    for path in (files.questions, files.contexts):
        path.write_bytes(path.read_bytes() + b"\n\n")
    assert read_release(files.folder).questions == read_release(excerpt).questions


@pytest.mark.parametrize("dialect", [json.dumps, repr], ids=["JSON", "Python literal"])
def test_both_dialects_of_options(files: Files, dialect: Callable[[object], str]) -> None:
    options = ["""(a) It's "fine"\n""", "(b) Käse \\ 🧀", "(c) null", "(d) ['d']"]
    files.change(all_options=dialect(options))
    assert options in read_release(files.folder).questions["32k"]["all_options"].to_pylist()


def test_the_excerpt_holds_both_dialects(excerpt: Path) -> None:
    assert {row["all_options"][:2] for row in Files(excerpt).rows()} == {'["', "['"}


def test_optional_columns_are_kept_and_null_in_a_split_that_lacks_them(files: Files) -> None:
    files.as_split("128k")
    files.write_rows([row | {"stereotypical": "No", "groundtruth_info": "likes tea"} for row in files.rows()])
    questions = read_release(files.folder).questions
    for table in questions.values():
        assert table.schema.names == [*QUESTION_SCHEMA.names, "stereotypical", "groundtruth_info"]
    assert set(questions["32k"]["stereotypical"].to_pylist()) == {"No"}
    assert set(questions["32k"]["groundtruth_info"].to_pylist()) == {"likes tea"}
    assert set(questions["128k"]["stereotypical"].to_pylist()) == {None}


def test_unknown_columns_are_ignored_and_the_order_of_columns_does_not_matter(files: Files, excerpt: Path) -> None:
    files.write_rows([{"mine": "x", **dict(reversed(row.items()))} for row in files.rows()])
    assert read_release(files.folder).questions == read_release(excerpt).questions


def test_the_order_of_rows_does_not_matter(files: Files, excerpt: Path) -> None:
    files.write_rows(files.rows()[::-1])
    files.write_messages(dict(reversed(files.messages().items())))
    assert read_release(files.folder).questions == read_release(excerpt).questions
    assert read_release(files.folder).contexts == read_release(excerpt).contexts


def test_a_context_that_no_question_uses_is_left_out_with_a_note(files: Files, excerpt: Path) -> None:
    orphan = [{"role": "user", "content": "User: hello"}]
    files.write_messages({**files.messages(), official_id(orphan): orphan})
    release = read_release(files.folder)
    assert "32k: 1 of 3 contexts are used by no question and left out" in release.notes
    assert release.contexts == read_release(excerpt).contexts


def test_legal_oddities_are_noted(excerpt: Path) -> None:
    assert read_release(excerpt).notes == [
        "32k: 1 of 17 questions have identical options",
        "32k: 5 of 17 questions repeat a question of the same persona",
        "32k: 52 of 364 neighbouring messages have the same role",
    ]


def test_several_splits_shortest_first(files: Files) -> None:
    files.as_split("1M").as_split("128k")
    assert list(read_release(files.folder).questions) == ["32k", "128k", "1M"]


@pytest.mark.parametrize("missing", ["questions_32k.csv", "shared_contexts_32k.jsonl"])
def test_a_missing_file_of_a_pair(files: Files, refusal: Refusal, missing: str) -> None:
    (files.folder / missing).unlink()
    (line,) = lines_about(refusal(files.folder), missing)
    assert line == f"{missing}: is missing from {files.folder}; both files of the split 32k are needed"


def test_a_folder_without_release_files(refusal: Refusal, tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == f"{tmp_path / 'nowhere'} holds no release files"


LABELS = "must be 4 options that start with (a) to (d), in order"
NO_INTEGER = "not a whole number from 0 up"
NO_PERCENTAGE = "not a percentage such as 92.67%"
NO_LIST = "neither a JSON list nor a Python list of strings"


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("question_type", "recall_user_facts", "unknown label"),
        ("question_type", "", "unknown label"),
        ("end_index_in_shared_context", "184", "the context, which has 183 messages"),
        ("end_index_in_shared_context", "0", "the context, which has 183 messages"),
        ("all_options", '["(a) w", "(b) x", "(c) y"]', LABELS),
        ("all_options", '["(a) w", "(b) x", "(c) y", "(d) z", "(e) e"]', LABELS),
        ("all_options", '["(a) w", "(c) x", "(b) y", "(d) z"]', LABELS),
        ("all_options", '["(a) w", "(b) x", "(c) y", "(d) "]', LABELS),
        ("all_options", "[]", LABELS),
        ("all_options", "(a) w (b) x (c) y (d) z", NO_LIST),
        ("all_options", '["(a) w", "(b) x"', NO_LIST),
        ("all_options", '{"a": "w"}', NO_LIST),
        ("all_options", "[1, 2, 3, 4]", NO_LIST),
        ("all_options", "", NO_LIST),
        ("all_options", "[" * 50_000, NO_LIST),
        ("all_options", "(" * 50_000, NO_LIST),
        ("all_options", "-" * 50_000 + "1", NO_LIST),
        ("all_options", "[" + "9**" * 9 + "9]", NO_LIST),
        ("all_options", "['(a) w' + '(b) x']", NO_LIST),
        ("all_options", "[" + "9" * 5_000 + "]", NO_LIST),
        ("all_options", "[b'(a) w']", NO_LIST),
        ("all_options", "{[]: 1}", NO_LIST),
        ("correct_answer", "(e)", "must be one of (a) (b) (c) (d)"),
        ("correct_answer", "a", "must be one of (a) (b) (c) (d)"),
        ("correct_answer", "", "must be one of (a) (b) (c) (d)"),
        ("shared_context_id", "0" * 64, "no (sound) context of this id in shared_contexts_32k.jsonl"),
        ("shared_context_id", "", "must not be empty"),
        ("question_id", " ", "must not be empty"),
        ("user_question_or_message", "", "must not be empty"),
        ("context_length_in_tokens", "26988", "the context up to the end index gives 26989"),
        ("context_length_in_letters", "152395", "the context up to the end index gives 152394"),
        ("persona_id", "-1", NO_INTEGER),
        ("persona_id", "", NO_INTEGER),
        ("num_irrelevant_tokens", "1.5", NO_INTEGER),
        ("distance_to_ref_in_blocks", "five", NO_INTEGER),
        ("distance_to_ref_in_tokens", str(2**31), NO_INTEGER),
        ("distance_to_ref_in_tokens", "9" * 5000, NO_INTEGER),
        ("distance_to_ref_proportion_in_context", "0.9267", NO_PERCENTAGE),
        ("distance_to_ref_proportion_in_context", "%", NO_PERCENTAGE),
        ("distance_to_ref_proportion_in_context", "many%", NO_PERCENTAGE),
        ("distance_to_ref_proportion_in_context", "nan%", NO_PERCENTAGE),
        ("distance_to_ref_proportion_in_context", "-5%", NO_PERCENTAGE),
    ],
    ids=lambda value: value[:30],
)
def test_a_bad_cell(files: Files, refusal: Refusal, column: str, value: str, problem: str) -> None:
    files.change(**{column: value})
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line.startswith(f"questions_32k.csv row 2, column {column}: ")
    assert value[:40] in line
    assert problem in line


def test_half_a_surrogate_pair_in_an_option(files: Files, refusal: Refusal) -> None:
    files.change(all_options=r'["(a) \ud83e", "(b) x", "(c) y", "(d) z"]')
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line.startswith("questions_32k.csv row 2, column all_options: ")


def test_code_in_a_cell_is_not_run(files: Files, refusal: Refusal, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    files.change(all_options=f"__import__('os').system('touch {trap}')")
    assert NO_LIST in refusal(files.folder)
    assert not trap.exists()


def test_the_same_question_twice(files: Files, refusal: Refusal) -> None:
    rows = files.rows()
    files.write_rows([*rows, rows[2]])
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line == f"questions_32k.csv row 19, column question_id: {rows[2]['question_id']!r}: already in row 4"


def test_a_context_of_two_personas(files: Files, refusal: Refusal) -> None:
    files.change(persona_id="9")
    lines = lines_about(refusal(files.folder), "questions_32k.csv")
    # Which of them is wrong cannot be known: each row that disagrees with the first one is named.
    assert lines[0].startswith("questions_32k.csv row 3, column persona_id: 0: another persona than 9")
    assert len(lines) == 8


def test_a_missing_column(files: Files, refusal: Refusal) -> None:
    rows = files.rows()
    for row in rows:
        del row["topic"], row["all_options"]
    files.write_rows(rows)
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line == "questions_32k.csv: has no column topic, all_options"


def test_a_column_named_twice(files: Files, refusal: Refusal) -> None:
    with files.questions.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    with files.questions.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*header, "topic"], *([*row, "another"] for row in rows)])
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert "topic" in line


@pytest.mark.parametrize(("cells", "count"), [("0,abc", 2), ("x," * 15, 16)])
def test_a_row_with_too_few_or_too_many_cells(files: Files, refusal: Refusal, cells: str, count: int) -> None:
    files.questions.write_text(files.questions.read_text(encoding="utf-8") + cells + "\n", encoding="utf-8")
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line == f"questions_32k.csv row 19: has {count} cells where the header has 15"


def test_a_quote_that_is_not_closed(files: Files, refusal: Refusal) -> None:
    text = files.questions.read_text(encoding="utf-8").rstrip("\n")
    files.questions.write_text(f'{text}\n0,"abc', encoding="utf-8")
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line.startswith("questions_32k.csv row 19: not a readable CSV")


def test_questions_that_are_not_utf8(files: Files, refusal: Refusal) -> None:
    lines = files.questions.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"weekend", b"w\xe9ekend", 1)
    files.questions.write_bytes(b"".join(lines))
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line == "questions_32k.csv row 3: b'\\xe9': not UTF-8 text; save the file as UTF-8"


@pytest.mark.parametrize(("header", "problem"), [(False, "is empty"), (True, "has no questions")])
def test_no_questions(files: Files, refusal: Refusal, header: bool, problem: str) -> None:
    files.questions.write_bytes(files.questions.read_bytes().splitlines(keepends=True)[0] if header else b"")
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert line == f"questions_32k.csv: {problem}"


@pytest.fixture
def context_fault(files: Files, refusal: Refusal) -> Callable[[], str]:
    """Import a release with one bad context: it is named once, and so is each question that uses it."""

    def only_fault() -> str:
        message = refusal(files.folder)
        (line,) = lines_about(message, "shared_contexts_32k.jsonl")
        about_questions = lines_about(message, "questions_32k.csv")
        assert all("no (sound) context of this id in shared_contexts_32k.jsonl" in q for q in about_questions)
        return line

    return only_fault


def test_messages_that_were_changed(files: Files, context_fault: Callable[[], str]) -> None:
    contexts = files.messages()
    key = list(contexts)[1]
    contexts[key][5]["content"] += "!"
    files.write_messages(contexts)
    line = context_fault()
    assert line.startswith(f"shared_contexts_32k.jsonl row 2: '{key}': the messages have the id ")
    assert official_id(contexts[key]) in line


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "text",
        None,
        [{"role": "user"}],
        [{"role": "tool", "content": "x"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": "x", "name": "y"}],
        ["User: x"],
    ],
    ids=repr,
)
def test_something_else_than_messages(files: Files, context_fault: Callable[[], str], messages: Any) -> None:
    files.write_messages({**files.messages(), "mine": messages})
    assert context_fault() == (
        "shared_contexts_32k.jsonl row 3, column mine: must hold a list of {role, content} objects with text"
    )


@pytest.mark.parametrize("line", ["[]", "null", "{'a': 1}", "hello", "[" * 100_000], ids=lambda line: line[:8])
def test_a_line_that_is_no_json_object(files: Files, context_fault: Callable[[], str], line: str) -> None:
    files.contexts.write_text(files.contexts.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    found = context_fault()
    assert found.startswith("shared_contexts_32k.jsonl row 3: ")
    assert found.endswith("not a JSON object {shared_context_id: [messages]}")


def test_a_file_that_is_cut_off(files: Files, context_fault: Callable[[], str]) -> None:
    key = list(files.messages())[1]
    files.contexts.write_bytes(files.contexts.read_bytes()[:-1000])
    line = context_fault()
    assert line.startswith(f"shared_contexts_32k.jsonl row 2: '{{\"{key[:10]}")
    assert line.endswith("the file is cut off here")


def test_a_file_that_is_cut_off_inside_a_character(files: Files, context_fault: Callable[[], str]) -> None:
    content = files.contexts.read_bytes()
    files.contexts.write_bytes(content[: content.rindex("’".encode()) + 1])
    assert context_fault().endswith("the file is cut off here")


def test_text_that_is_not_utf8(files: Files, context_fault: Callable[[], str]) -> None:
    files.contexts.write_bytes(files.contexts.read_bytes() + b'{"a": "\xe9"}\n')
    line = context_fault()
    assert line.startswith("shared_contexts_32k.jsonl row 3: ")
    assert line.endswith("not UTF-8 text; save the file as UTF-8")


def test_half_a_surrogate_pair(files: Files, context_fault: Callable[[], str]) -> None:
    messages = [{"role": "user", "content": "\ud83e"}]
    line = json.dumps({official_id(messages): messages})
    files.contexts.write_text(files.contexts.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    assert context_fault().startswith("shared_contexts_32k.jsonl row 3")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"{}\n"])
def test_no_contexts(files: Files, context_fault: Callable[[], str], content: bytes) -> None:
    files.contexts.write_bytes(content)
    assert context_fault() == "shared_contexts_32k.jsonl: has no contexts"


def test_all_faults_are_listed_at_once(files: Files, refusal: Refusal) -> None:
    files.as_split("128k")
    (files.folder / "shared_contexts_128k.jsonl").unlink()
    rows = files.rows()
    rows[0] |= {"correct_answer": "(e)", "persona_id": "x"}
    rows[3]["context_length_in_tokens"] = "1"
    files.write_rows(rows)
    message = refusal(files.folder)
    assert message.splitlines()[0] == "4 faults in the release, nothing was written"
    for part in (
        "row 2, column correct_answer",
        "row 2, column persona_id",
        "row 5, column context_length_in_tokens",
        "shared_contexts_128k.jsonl: is missing",
    ):
        assert part in message


def test_a_fault_in_one_split_hides_none_in_another(files: Files, refusal: Refusal) -> None:
    files.as_split("128k")
    (files.folder / "shared_contexts_128k.jsonl").write_bytes(b"")
    header = files.questions.read_bytes().splitlines(keepends=True)[0]
    (files.folder / "questions_128k.csv").write_bytes(header)
    files.change(correct_answer="(e)")
    message = refusal(files.folder)
    assert "questions_32k.csv row 2, column correct_answer" in message
    assert "questions_128k.csv: has no questions" in message
    assert "shared_contexts_128k.jsonl: has no contexts" in message


def test_more_than_twenty_faults_are_counted(files: Files, refusal: Refusal) -> None:
    files.write_rows([row | {"correct_answer": "(e)", "topic": "", "persona_id": ""} for row in files.rows()])
    lines = refusal(files.folder).splitlines()
    assert lines[0] == "34 faults in the release, nothing was written"
    assert len(lines) == 1 + 20 + 1
    assert lines[-1].strip() == "… and 14 more"


def test_long_values_are_cut(files: Files, refusal: Refusal) -> None:
    files.change(correct_answer="x" * 10_000)
    (line,) = lines_about(refusal(files.folder), "questions_32k.csv")
    assert len(line) < 200


def test_a_cell_beyond_the_limit_of_csv_is_named_by_its_row(files: Files) -> None:
    files.change(topic="x" * 200_000)
    with pytest.raises(UserError, match=r"questions_32k\.csv row 2: not a readable CSV: field larger than field limit"):
        read_release(files.folder)


def test_a_line_that_is_nested_too_deep_or_holds_a_huge_number_is_named(files: Files) -> None:
    for line in ("[" * 100_000, '{"a": ' * 50_000, '{"a": ' + "9" * 5_000 + "}"):
        shutil.copy(files.contexts, files.folder / "kept")
        with files.contexts.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        with pytest.raises(UserError, match=r"shared_contexts_32k\.jsonl row 3: .*not a JSON object"):
            read_release(files.folder)
        shutil.move(files.folder / "kept", files.contexts)


@pytest.mark.parametrize("name", ["questions_32k.csv", "shared_contexts_32k.jsonl"])
def test_a_folder_in_the_place_of_a_file(files: Files, name: str) -> None:
    (files.folder / name).unlink()
    (files.folder / name).mkdir()
    with pytest.raises(UserError, match=f"{name}: cannot be read: "):
        read_release(files.folder)


def test_two_users_under_one_id_are_found(files: Files) -> None:
    assert read_release(files.folder).strangers == {"32k": []}
    contexts = [json.loads(line) for line in files.contexts.read_text(encoding="utf-8").splitlines()]
    [(old, messages)] = contexts[1].items()
    messages[0]["content"] = "Current user persona: Name: Somebody Else"
    letters = [len(message["content"]) for message in messages]
    tokens = count_tokens([m["content"] for m in messages] + [row["user_question_or_message"] for row in files.rows()])
    new = official_id(messages)
    files.contexts.write_text("".join(json.dumps(c) + "\n" for c in (contexts[0], {new: messages})), encoding="utf-8")
    rows = files.rows()
    for row in rows:
        if row["shared_context_id"] == old:
            end = int(row["end_index_in_shared_context"])
            total = sum(tokens[m["content"]] for m in messages[:end]) + tokens[row["user_question_or_message"]]
            row |= {
                "shared_context_id": new,
                "context_length_in_letters": str(sum(letters[:end])),
                "context_length_in_tokens": str(total),
            }
    files.write_rows(rows)
    [stranger] = read_release(files.folder).strangers["32k"]
    assert stranger in {new, *contexts[0]}
