"""Reading what is to be audited."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from small_runs import make_run, tiny_work

from generation.errors import UserError
from generation.records import Question, Session
from generation.store import RunStore
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.build.from_official import import_release
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.dataset.load import iter_examples
from personamem_builder.schema import ContextRow, QuestionRow, option_text

OPTIONS_ONLY = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "shared_context_id",
    "user_question_or_message",
    "correct_answer",
    "all_options",
)


@pytest.fixture
def release(excerpt: Path, tmp_path: Path) -> Path:
    """A copy of the excerpt that a test may spoil."""
    folder = tmp_path / "release"
    folder.mkdir()
    for name in ("questions_32k.csv", "shared_contexts_32k.jsonl"):
        shutil.copy(excerpt / name, folder)
    return folder


@pytest.fixture
def dataset(dataset_folder: Path, tmp_path: Path) -> Path:
    """A copy of the dataset folder that a test may spoil."""
    return Path(shutil.copytree(dataset_folder, tmp_path / "personamem"))


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: Iterable[dict[str, str]], columns: Iterable[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def change(release: Path, **cells: str) -> None:
    """Change cells of the first question."""
    path = release / "questions_32k.csv"
    rows = csv_rows(path)
    rows[0] |= cells
    write_csv(path, rows, rows[0])


def one(path: Path) -> AuditedSplit:
    [split] = read_splits(path)
    return split


def stream(split: AuditedSplit) -> list[ContextRow]:
    assert split.contexts is not None
    return list(split.contexts())


# --- a dataset folder


def test_a_dataset_folder_gives_the_questions_and_contexts_that_a_user_gets(generated: Path) -> None:
    split = one(generated)
    contexts = {context["shared_context_id"]: context for context in stream(split)}
    examples = list(iter_examples("32k", data=generated))
    assert (split.name, split.is_generated, list(split.source_faults)) == ("32k", True, [])
    assert [row["question_id"] for row in split.rows] == [example["question_id"] for example in examples]
    for row, example in zip(split.rows, examples, strict=True):
        context = contexts[row["shared_context_id"]]
        assert list(context["messages"][: row["end_index_in_shared_context"]]) == example["context"]
        assert context["persona_id"] == row["persona_id"]
        assert {**row, "context": example["context"]} == example
    store = ContextStore(generated)
    assert all(context["session_starts"] == store.session_starts(key) for key, context in contexts.items())


def test_contexts_can_be_streamed_again(dataset_folder: Path) -> None:
    split = one(dataset_folder)
    assert stream(split) == stream(split)


def test_what_an_imported_release_lacks_is_absent(dataset_folder: Path) -> None:
    split = one(dataset_folder)
    assert not split.is_generated
    assert not any("option_states" in row or "row" in row for row in split.rows)


def test_a_dataset_file_that_was_changed_is_noted_and_read(dataset: Path) -> None:
    manifest = json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["data/shared_contexts_32k.parquet"]["sha256"] = "0" * 64
    (dataset / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    split = one(dataset)
    assert split.source_faults == ["data/shared_contexts_32k.parquet is missing, or not as it was written"]
    assert len(stream(split)) == 2


def test_a_split_has_what_is_its_own(release: Path, tmp_path: Path) -> None:
    for name in ("questions_{}.csv", "shared_contexts_{}.jsonl"):
        shutil.copy(release / name.format("32k"), release / name.format("128k"))
    rows = csv_rows(release / "questions_128k.csv")
    write_csv(
        release / "questions_128k.csv", [row | {"stereotypical": "No"} for row in rows], [*rows[0], "stereotypical"]
    )
    import_release(release, tmp_path / "personamem")
    (tmp_path / "personamem" / "data" / "shared_contexts_128k.parquet").unlink()
    short, long = read_splits(tmp_path / "personamem")
    assert (short.name, long.name) == ("32k", "128k")
    # A column that only one of them has is null in the files of the other; a file that is gone is its own fault.
    assert not any("stereotypical" in row for row in short.rows)
    assert {row["stereotypical"] for row in long.rows} == {"No"}
    assert (len(short.source_faults), len(long.source_faults)) == (0, 1)


def test_a_dataset_without_its_contexts(dataset: Path) -> None:
    (dataset / "data" / "shared_contexts_32k.parquet").unlink()
    split = one(dataset)
    assert split.contexts is None
    assert split.source_faults == ["data/shared_contexts_32k.parquet is missing, or not as it was written"]
    assert len(split.rows) == 17


def test_a_dataset_whose_questions_cannot_be_read(dataset: Path) -> None:
    path = dataset / "data" / "questions_32k.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"questions_32k\.parquet cannot be read"):
        read_splits(dataset)


def test_a_dataset_whose_contexts_cannot_be_read(dataset: Path) -> None:
    (dataset / "data" / "shared_contexts_32k.parquet").write_bytes(b"no Parquet")
    split = one(dataset)
    with pytest.raises(UserError, match=r"shared_contexts_32k\.parquet cannot be read"):
        stream(split)


# --- a run


def test_a_run_is_one_split_of_all_its_questions(generated: Path) -> None:
    split = one(generated.parent / "run")
    questions = {q.question_id: q for q in RunStore(generated.parent / "run").read("questions", Question)}
    assert (split.name, split.is_generated) == ("run", True)
    assert len(split.rows) == len(questions) > 0
    for row in split.rows:
        question = questions[row["question_id"]]
        gold = question.options[question.answer_index]
        assert (row["question_id"], row["persona_id"]) == (question.question_id, question.persona_id)
        assert (row["question_type"], row["topic"]) == (question.question_type, question.topic)
        assert row["all_options"][row["answer_index"]] == f"{row['correct_answer']} {gold.text}"
        assert row["option_states"][row["answer_index"]] == list(gold.states)
        assert row["option_roles"] == [option.role for option in question.options]
        assert row["evidence_event_ids"] == list(question.evidence_event_ids)


def test_a_question_of_a_run_is_asked_in_the_whole_history_before_its_answer_changes(generated: Path) -> None:
    split = one(generated.parent / "run")
    assert split.contexts is not None
    contexts = {context["shared_context_id"]: context for context in split.contexts()}
    store = RunStore(generated.parent / "run")
    questions = {q.question_id: q for q in store.read("questions", Question)}
    sessions = {s.session_id: s for s in store.read("sessions", Session)}
    told = {e: m.content for s in sessions.values() for m in s.messages for e in m.event_ids}
    assert sum(len(context["session_starts"]) for context in contexts.values()) == len(sessions)
    for row in split.rows:
        context, question = contexts[row["shared_context_id"]], questions[row["question_id"]]
        assert context["persona_id"] == row["persona_id"]
        visible = context["messages"][: row["end_index_in_shared_context"]]
        evidence = [visible[i]["content"] for i in row["evidence_message_indices"]]
        assert evidence == [told[event_id] for event_id in question.evidence_event_ids]
        following = context["messages"][row["end_index_in_shared_context"] :]
        if question.before_session_id is None:
            assert not following
        else:
            assert following[1]["content"] == sessions[question.before_session_id].messages[0].content


def test_the_rows_of_a_run_have_the_values_of_the_dataset_made_of_it(generated: Path) -> None:
    run = {row["question_id"]: row for row in one(generated.parent / "run").rows}
    for row in one(generated).rows:
        source = run[row["source_question_id"]]
        # An option may stand elsewhere in the dataset; what belongs to it goes with it.
        parts = ("all_options", "option_states", "option_roles", "option_stereotypical")
        assert sorted(zip(*(map(_plain, row[p]) for p in parts), strict=True)) == sorted(
            zip(*(map(_plain, source[p]) for p in parts), strict=True)
        )
        placed = {*parts, "question_id", "correct_answer", "answer_index", "shared_context_id"}
        placed |= {"end_index_in_shared_context", "evidence_message_indices"}
        placed |= {"context_length_in_tokens", "context_length_in_letters"}
        assert {k: v for k, v in source.items() if k not in placed} == {
            k: v for k, v in row.items() if k in source and k not in placed
        }


def _plain(value: Any) -> Any:
    return option_text(value) if isinstance(value, str) else value


def test_a_run_without_questions_yet(tmp_path: Path) -> None:
    store = make_run(tiny_work(fillers=0), tmp_path / "run")
    store.path("questions").unlink()
    with pytest.raises(UserError, match=r"questions\.jsonl"):
        read_splits(tmp_path / "run")


# --- files of a release


def test_a_release_gives_what_the_dataset_made_of_it_gives(excerpt: Path, dataset_folder: Path) -> None:
    release, imported = one(excerpt), one(dataset_folder)
    numbered = {row["question_id"]: row for row in release.rows}
    assert sorted(row["row"] for row in release.rows) == list(range(2, 19))
    for row in imported.rows:
        assert _rounded(numbered[row["question_id"]]) == _rounded(row)
    by_id = {context["shared_context_id"]: context for context in stream(imported)}
    assert {context["shared_context_id"]: context for context in stream(release)} == by_id
    assert list(release.source_faults) == []


def _rounded(row: QuestionRow) -> dict[str, Any]:
    column = "distance_to_ref_proportion_in_context"  # of 32 bits in a dataset
    return {key: value for key, value in row.items() if key != "row"} | {column: round(row[column], 6)}


def test_a_release_without_contexts(release: Path) -> None:
    (release / "shared_contexts_32k.jsonl").unlink()
    split = one(release)
    assert split.contexts is None
    assert len(split.rows) == 17


def test_a_bad_row_is_noted_and_the_others_are_read(release: Path) -> None:
    change(release, question_type="recall_user_facts", correct_answer="(x)")
    split = one(release)
    assert len(split.rows) == 16
    assert [line.split(":")[0] for line in split.source_faults] == [
        "questions_32k.csv row 2, column question_type",
        "questions_32k.csv row 2, column correct_answer",
    ]


def test_a_bad_context_is_noted_and_the_others_are_read(release: Path) -> None:
    path = release / "shared_contexts_32k.jsonl"
    first, second = path.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{first}\n{second.replace('User: ', 'User:  ', 1)}\n", encoding="utf-8")
    split = one(release)
    assert len(split.rows) == 17
    [line] = split.source_faults
    assert line.startswith("shared_contexts_32k.jsonl row 2: ")
    assert [context["shared_context_id"] for context in stream(split)] == list(json.loads(first))


def test_a_context_that_no_question_uses_has_no_persona(release: Path) -> None:
    path = release / "questions_32k.csv"
    rows = csv_rows(path)
    kept = [row for row in rows if row["shared_context_id"] == rows[0]["shared_context_id"]]
    write_csv(path, kept, rows[0])
    personas = {context["shared_context_id"]: context["persona_id"] for context in stream(one(release))}
    assert sorted(personas.values()) == [-1, 0]
    assert personas[rows[0]["shared_context_id"]] == 0


def test_splits_come_shortest_first_and_can_be_chosen(release: Path) -> None:
    for split in ("1M", "128k", "extra"):
        shutil.copy(release / "questions_32k.csv", release / f"questions_{split}.csv")
    assert [split.name for split in read_splits(release)] == ["32k", "128k", "1M", "extra"]
    assert [split.name for split in read_splits(release, ["1M", "32k", "1M"])] == ["1M", "32k"]


def test_a_split_that_is_not_chosen_is_not_read(release: Path) -> None:
    (release / "questions_1M.csv").write_text("", encoding="utf-8")
    assert [split.name for split in read_splits(release, ["32k"])] == ["32k"]


def test_a_split_without_a_question_that_can_be_read(release: Path) -> None:
    rows = csv_rows(release / "questions_32k.csv")
    write_csv(release / "questions_32k.csv", [row | {"correct_answer": "(x)"} for row in rows], rows[0])
    with pytest.raises(UserError, match="no question that can be read") as raised:
        read_splits(release)
    assert "questions_32k.csv row 2, column correct_answer: '(x)'" in raised.value.message
    assert "row 18" not in raised.value.message


# --- questions alone


@pytest.fixture
def options_only(excerpt: Path, tmp_path: Path) -> Path:
    rows = csv_rows(excerpt / "questions_32k.csv")
    return write_csv(tmp_path / "questions_32k_options_only.csv", rows, OPTIONS_ONLY)


@pytest.mark.parametrize("packed", [False, True])
def test_questions_alone(options_only: Path, excerpt: Path, packed: bool) -> None:
    path = options_only
    if packed:
        path = path.with_suffix(".csv.gz")
        path.write_bytes(gzip.compress(options_only.read_bytes()))
    split = one(path)
    assert (split.name, split.contexts, list(split.source_faults)) == ("32k", None, [])
    whole = {row["question_id"]: row for row in one(excerpt).rows}
    assert len(split.rows) == len(whole)
    for row in split.rows:
        assert {*OPTIONS_ONLY} < {*row}
        assert "end_index_in_shared_context" not in row
        assert all(whole[row["question_id"]][column] == value for column, value in row.items())


def test_other_columns_of_questions_alone_are_read_where_they_are(options_only: Path, excerpt: Path) -> None:
    rows = csv_rows(excerpt / "questions_32k.csv")
    rows[0]["distance_to_ref_in_tokens"] = "far"
    split = one(write_csv(options_only, rows, [*OPTIONS_ONLY, "distance_to_ref_in_tokens"]))
    assert [row["distance_to_ref_in_tokens"] for row in split.rows] == [
        int(row["distance_to_ref_in_tokens"]) for row in rows[1:]
    ]
    [line] = split.source_faults
    assert line.startswith("questions_32k_options_only.csv row 2, column distance_to_ref_in_tokens: 'far'")


@pytest.mark.parametrize(("count", "accepted"), [(1, False), (2, True), (5, True), (26, True), (27, False)])
def test_how_many_options_a_question_may_have(options_only: Path, count: int, accepted: bool) -> None:
    rows = csv_rows(options_only)
    options = [f"({chr(ord('a') + i)}) option {i}" for i in range(count)]
    rows[0] |= {"all_options": json.dumps(options), "correct_answer": "(a)"}
    split = one(write_csv(options_only, rows, OPTIONS_ONLY))
    first = next((row for row in split.rows if row["row"] == 2), None)
    assert (first is not None) == accepted == (not split.source_faults)
    assert first is None or (first["all_options"], first["answer_index"]) == (options, 0)


def test_the_answer_must_be_one_of_the_options_that_there_are(options_only: Path) -> None:
    rows = csv_rows(options_only)
    rows[0] |= {"all_options": '["(a) yes", "(b) no"]', "correct_answer": "(c)"}
    split = one(write_csv(options_only, rows, OPTIONS_ONLY))
    assert split.source_faults == [
        "questions_32k_options_only.csv row 2, column correct_answer: '(c)': must be one of (a) (b)"
    ]


def test_a_packed_file_that_is_cut_off(options_only: Path) -> None:
    path = options_only.with_suffix(".csv.gz")
    path.write_bytes(gzip.compress(options_only.read_bytes())[:-20])
    with pytest.raises(UserError, match="not a whole gzip file"):
        read_splits(path)


def test_a_column_that_no_audit_can_do_without(options_only: Path) -> None:
    write_csv(options_only, csv_rows(options_only), [c for c in OPTIONS_ONLY if c != "all_options"])
    with pytest.raises(UserError, match="has no column all_options"):
        read_splits(options_only)


def test_in_a_folder_whole_questions_count_before_questions_alone(release: Path, options_only: Path) -> None:
    shutil.copy(options_only, release)
    split = one(release)
    assert all("end_index_in_shared_context" in row for row in split.rows)


@pytest.mark.parametrize(("name", "count"), [("128k", 2727), ("1M", 2674)])
def test_the_official_questions_alone(release_dir: Path, name: str, count: int) -> None:
    path = release_dir / f"questions_{name}_options_only.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not beside this checkout")
    split = one(path)
    assert (split.name, len(split.rows), list(split.source_faults)) == (name, count, [])
    assert len(split.personas) == count
    assert len(set(split.personas)) == 20
    assert len(set(split.types)) == 7


# --- anything else


@pytest.mark.parametrize("name", ["absent", "empty", "notes.txt"])
def test_what_cannot_be_audited(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        read_splits(tmp_path / name)
    assert str(tmp_path / name) in raised.value.message
    for kind in ("dataset folder", "run", "questions_32k.csv", "CSV"):
        assert kind in raised.value.hint


@pytest.mark.parametrize("kind", ["dataset", "run", "release", "questions"])
def test_a_split_that_is_not_there(kind: str, generated: Path, excerpt: Path, options_only: Path) -> None:
    path = {
        "dataset": generated,
        "run": generated.parent / "run",
        "release": excerpt,
        "questions": options_only,
    }[kind]
    with pytest.raises(UserError) as raised:
        read_splits(path, ["64k"])
    there = "run" if kind == "run" else "32k"
    assert raised.value.message == f"{path} has no split '64k', it has {there}"
    assert raised.value.hint


@pytest.mark.parametrize("kind", ["dataset", "run", "release"])
@pytest.mark.parametrize("count", [1, 3, 50])
def test_shares_have_each_question_once_with_its_context_alone(
    kind: str, count: int, generated: Path, release: Path
) -> None:
    path = {"dataset": generated, "run": generated.parent / "run", "release": release}[kind]
    [split] = read_splits(path)
    shares = [split.share(number, count) for number in range(count)]
    indices = [split.indices_of_share(number, count) for number in range(count)]
    assert sorted(i for own in indices for i in own) == [*range(len(split.rows))]
    assert split.contexts is not None
    asked = {row["shared_context_id"] for row in split.rows}
    whole = {context["shared_context_id"]: context for context in split.contexts()}
    read: list[ContextRow] = []
    for own, share in zip(indices, shares, strict=True):
        assert [*share.rows] == [split.rows[i] for i in own]
        assert share.contexts is not None
        read += share.contexts()
    assert sorted(context["shared_context_id"] for context in read) == sorted(asked)
    assert all(context == whole[context["shared_context_id"]] for context in read)
