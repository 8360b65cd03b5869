from __future__ import annotations

import csv
import io
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import personamem_builder
from generation.errors import UserError
from personamem_builder.build.from_official import import_release
from personamem_builder.schema import QUESTION_SCHEMA

Python = Callable[..., Any]
Expected = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def expected(excerpt: Path) -> Expected:
    """The context of each question, by its id, from the official files."""
    lines = (excerpt / "shared_contexts_32k.jsonl").read_text(encoding="utf-8").splitlines()
    contexts = {key: messages for line in lines for key, messages in json.loads(line).items()}
    with (excerpt / "questions_32k.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["question_id"]: contexts[row["shared_context_id"]][: int(row["end_index_in_shared_context"])]
            for row in csv.DictReader(file)
        }


@pytest.fixture(scope="module")
def questions(dataset_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> datasets.Dataset:
    return datasets.load_dataset(
        str(dataset_folder), split="32k", cache_dir=str(tmp_path_factory.mktemp("questions-cache"))
    )


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def assert_contexts(rows: Any, expected: Expected, count: int = 17) -> None:
    rows = list(rows)
    assert len(rows) == count
    for row in rows:
        assert row["context"] == expected[row["question_id"]]


# What anyone gets who has `datasets` and the folder, and nothing of ours.

PLAIN = """
import json, os, shutil, sys
from datasets import load_dataset

def load():
    questions = load_dataset("personamem", split="32k")
    return {
        "questions": [row["question_id"] for row in questions],
        "columns": questions.column_names,
        "options": questions[0]["all_options"],
        "contexts": [len(row["messages"]) for row in load_dataset("personamem", "shared_contexts", split="32k")],
        "splits": list(load_dataset("personamem")),
    }

first = load()
shutil.rmtree("personamem")
os.rename("other", "personamem")
print(json.dumps([first, load()]))
assert "personamem_builder" not in sys.modules
"""


@pytest.mark.slow
def test_plain_datasets_beside_the_folder(
    python: Python, dataset_folder: Path, excerpt: Path, tmp_path: Path, expected: Expected
) -> None:
    shutil.copytree(dataset_folder, tmp_path / "personamem")
    import_release(fewer_questions(excerpt, tmp_path), tmp_path / "other")
    first, second = json.loads(python(PLAIN).stdout)
    assert sorted(first["questions"]) == sorted(expected)
    assert first["columns"] == QUESTION_SCHEMA.names
    assert [option[:4] for option in first["options"]] == ["(a) ", "(b) ", "(c) ", "(d) "]
    assert first["contexts"] == [183, 183]
    assert first["splits"] == ["32k"]
    # The card names the digests of the data, so another dataset at the same place is not taken from the cache.
    assert (len(second["questions"]), second["contexts"]) == (9, [183])


def fewer_questions(excerpt: Path, tmp_path: Path) -> Path:
    """Release files with the first context only, which has 9 questions."""
    folder = tmp_path / "fewer"
    folder.mkdir()
    rows = list(csv.DictReader(io.StringIO((excerpt / "questions_32k.csv").read_text("utf-8"), newline="")))
    with (folder / "questions_32k.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(row for row in rows if row["shared_context_id"] == rows[0]["shared_context_id"])
    shutil.copy(excerpt / "shared_contexts_32k.jsonl", folder)
    return folder


# Where the data is found after `import personamem_builder`.


def test_by_name_through_the_environment(
    elsewhere: Path, dataset_folder: Path, expected: Expected, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    assert_contexts(datasets.load_dataset("personamem", split="32k", cache_dir=cache), expected)


def test_by_name_through_data_dir(elsewhere: Path, dataset_folder: Path, expected: Expected, cache: str) -> None:
    rows = datasets.load_dataset("personamem", split="32k", data_dir=str(dataset_folder), cache_dir=cache)
    assert_contexts(rows, expected)


def test_by_name_beside_the_folder(elsewhere: Path, dataset_folder: Path, expected: Expected, cache: str) -> None:
    shutil.copytree(dataset_folder, elsewhere / "personamem")
    assert_contexts(datasets.load_dataset("personamem", split="32k", cache_dir=cache), expected)


def test_by_path(elsewhere: Path, dataset_folder: Path, expected: Expected, cache: str) -> None:
    assert_contexts(datasets.load_dataset(str(dataset_folder), split="32k", cache_dir=cache), expected)
    shutil.copytree(dataset_folder, elsewhere / "mine")
    assert_contexts(datasets.load_dataset("./mine", split="32k", cache_dir=cache), expected)


def test_by_our_own_function(elsewhere: Path, dataset_folder: Path, expected: Expected, cache: str) -> None:
    rows = personamem_builder.load_dataset("32k[:3]", data=dataset_folder, cache_dir=cache)
    assert_contexts(rows, expected, count=3)


def test_all_splits_at_once(dataset_folder: Path, expected: Expected, cache: str) -> None:
    splits = personamem_builder.load_dataset(data=dataset_folder, cache_dir=cache)
    assert list(splits) == ["32k"]
    assert_contexts(splits["32k"], expected)


def test_the_shared_contexts_are_a_config_of_their_own(dataset_folder: Path, cache: str) -> None:
    contexts = datasets.load_dataset(str(dataset_folder), "shared_contexts", split="32k", cache_dir=cache)
    assert contexts.num_rows == 2
    assert "context" not in contexts[0]
    assert contexts[0]["messages"][0]["role"] == "system"


# What keeps the context.


def plus_length(row: dict[str, Any]) -> dict[str, Any]:
    return {"length": len(row["context"])}


def plus_lengths(batch: dict[str, Any]) -> dict[str, Any]:
    return {"length": [len(context) for context in batch["context"]]}


def test_rows_by_index_slice_and_iteration(questions: datasets.Dataset, expected: Expected) -> None:
    assert_contexts((questions[i] for i in range(len(questions))), expected)
    assert_contexts(questions, expected)
    for batch in (questions[2:5], questions[[2, 3, 4]], next(questions.skip(2).iter(batch_size=3))):
        assert batch["context"] == [expected[key] for key in batch["question_id"]]
    assert questions[-1]["context"] == expected[questions[-1]["question_id"]]


@pytest.mark.parametrize(
    ("operation", "count"),
    [
        (lambda ds: ds.select([3, 1, 2]), 3),
        (lambda ds: ds.shuffle(seed=1), 17),
        (lambda ds: ds.sort("question_id"), 17),
        (lambda ds: ds.shard(num_shards=2, index=0), 9),
        (lambda ds: ds.train_test_split(test_size=5, seed=1)["test"], 5),
        (lambda ds: ds.filter(lambda row: len(row["context"]) == 182, load_from_cache_file=False), 13),
        (lambda ds: datasets.concatenate_datasets([ds.select([0, 1]), ds.select([5])]), 3),
        (lambda ds: datasets.DatasetDict({"x": ds})["x"], 17),
        (lambda ds: ds.rename_column("topic", "subject").remove_columns("persona_id"), 17),
        (lambda ds: pickle.loads(pickle.dumps(ds)), 17),
    ],
    ids=["select", "shuffle", "sort", "shard", "split", "filter", "concatenate", "dict", "columns", "pickle"],
)
def test_it_survives(
    questions: datasets.Dataset, expected: Expected, operation: Callable[[datasets.Dataset], Any], count: int
) -> None:
    assert_contexts(operation(questions), expected, count)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (plus_length, {}),
        (plus_lengths, {"batched": True, "batch_size": 5}),
        (plus_length, {"num_proc": 2}),
    ],
    ids=["row by row", "batched", "two processes"],
)
def test_map_sees_it_and_does_not_store_it(
    questions: datasets.Dataset, expected: Expected, function: Callable[..., Any], options: dict[str, Any]
) -> None:
    mapped = questions.map(function, load_from_cache_file=False, **options)
    assert_contexts(mapped, expected)
    assert [row["length"] for row in mapped] == [len(expected[row["question_id"]]) for row in mapped]
    assert mapped.column_names == [*questions.column_names, "length"]


def test_a_column_of_the_users_own_called_context_is_not_overwritten(questions: datasets.Dataset) -> None:
    shortened = questions.map(lambda row: {"context": row["context"][-2:]}, load_from_cache_file=False)
    assert len(shortened[0]["context"]) == 2
    assert [len(context) for context in shortened[:3]["context"]] == [2, 2, 2]


def test_columns_without_the_key_have_no_context(questions: datasets.Dataset) -> None:
    assert questions.select_columns(["topic"])[0] == {"topic": questions[0]["topic"]}


def test_it_survives_being_saved(questions: datasets.Dataset, expected: Expected, tmp_path: Path) -> None:
    questions.shuffle(seed=1).save_to_disk(tmp_path / "saved")
    assert_contexts(datasets.load_from_disk(tmp_path / "saved"), expected)


@pytest.mark.slow
def test_a_pickle_brings_the_context_into_a_process_that_never_imported_us(
    python: Python, questions: datasets.Dataset, expected: Expected, tmp_path: Path
) -> None:
    (tmp_path / "questions.pickle").write_bytes(pickle.dumps(questions.select(range(3))))
    code = """
import json, pickle
rows = pickle.load(open("questions.pickle", "rb"))
print(json.dumps([[row["question_id"], row["context"]] for row in rows]))
"""
    rows = json.loads(python(code).stdout)
    assert len(rows) == 3
    for key, context in rows:
        assert context == expected[key]


def test_a_changed_context_changes_no_later_row(questions: datasets.Dataset, expected: Expected) -> None:
    context = questions[0]["context"]
    context[0]["content"] = "changed"
    context.clear()
    for row in questions[:2]["context"]:
        row[0]["content"] = "changed"
    assert_contexts(questions, expected)


# Other ways to read.


def test_a_stream_has_it_too(dataset_folder: Path, expected: Expected, elsewhere: Path) -> None:
    stream = datasets.load_dataset("personamem", split="32k", data_dir=str(dataset_folder), streaming=True)
    assert_contexts(stream, expected)
    assert_contexts(stream.filter(lambda row: len(row["context"]) == 182).take(4), expected, count=4)
    assert "context" not in next(
        iter(datasets.load_dataset(str(dataset_folder), "shared_contexts", split="32k", streaming=True))
    )


def test_iter_examples_gives_the_same_rows(dataset_folder: Path, questions: datasets.Dataset) -> None:
    assert list(personamem_builder.iter_examples("32k", data=dataset_folder)) == list(questions)


# What goes wrong is said.


def test_no_data_at_all(elsewhere: Path, cache: str) -> None:
    with pytest.raises(UserError) as raised:
        datasets.load_dataset("personamem", split="32k", cache_dir=cache)
    assert "PERSONAMEM_DATA" in raised.value.message
    assert "personamem import-official" in raised.value.hint
    with pytest.raises(UserError, match="PERSONAMEM_DATA"):
        personamem_builder.load_dataset("32k")
    with pytest.raises(UserError, match="PERSONAMEM_DATA"):
        next(personamem_builder.iter_examples("32k"))


@pytest.mark.parametrize("beside", [False, True], ids=["elsewhere", "beside another dataset"])
def test_a_named_folder_without_data(elsewhere: Path, dataset_folder: Path, cache: str, beside: bool) -> None:
    if beside:
        shutil.copytree(dataset_folder, elsewhere / "personamem")
    with pytest.raises(UserError) as raised:
        datasets.load_dataset("personamem", split="32k", data_dir=str(elsewhere / "typo"), cache_dir=cache)
    assert str(elsewhere / "typo") in raised.value.message
    with pytest.raises(UserError) as raised:
        personamem_builder.load_dataset("32k", data=elsewhere / "typo", cache_dir=cache)
    assert str(elsewhere / "typo") in raised.value.message


def test_the_environment_naming_a_folder_without_data_is_not_passed_over(
    elsewhere: Path, dataset_folder: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(dataset_folder, elsewhere / "personamem")
    monkeypatch.setenv("PERSONAMEM_DATA", str(elsewhere / "typo"))
    with pytest.raises(UserError) as raised:
        datasets.load_dataset("personamem", split="32k", cache_dir=cache)
    assert str(elsewhere / "typo") in raised.value.message
    with pytest.raises(UserError) as raised:
        personamem_builder.load_dataset("32k", cache_dir=cache)
    assert str(elsewhere / "typo") in raised.value.message


def test_a_missing_split(dataset_folder: Path, cache: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1M.*\['32k'\]"):
        personamem_builder.load_dataset("1M", data=dataset_folder, cache_dir=cache)
    message = f"{dataset_folder} has no split '1M', it has 32k"
    with pytest.raises(UserError) as raised:
        next(personamem_builder.iter_examples("1M", data=dataset_folder))
    assert raised.value.message == message
    with pytest.raises(UserError) as raised:
        personamem_builder.materialise("1M", tmp_path / "out.parquet", data=dataset_folder)
    assert raised.value.message == message
    assert not (tmp_path / "out.parquet").exists()


def test_other_datasets_are_loaded_as_ever(tmp_path: Path, cache: str) -> None:
    (tmp_path / "data.jsonl").write_text('{"shared_context_id": "c", "end_index_in_shared_context": 1}\n')
    rows = datasets.load_dataset("json", data_files=str(tmp_path / "data.jsonl"), split="train", cache_dir=cache)
    assert rows[0] == {"shared_context_id": "c", "end_index_in_shared_context": 1}


# A changed folder never gives old rows.


def test_another_dataset_in_the_same_place(
    dataset_folder: Path, excerpt: Path, expected: Expected, cache: str, tmp_path: Path
) -> None:
    folder = tmp_path / "personamem"
    shutil.copytree(dataset_folder, folder)
    before = datasets.load_dataset(str(folder), split="32k", cache_dir=cache)
    assert_contexts(before, expected)

    import_release(fewer_questions(excerpt, tmp_path), folder)
    assert_contexts(datasets.load_dataset(str(folder), split="32k", cache_dir=cache), expected, count=9)
    assert_contexts(personamem_builder.iter_examples("32k", data=folder), expected, count=9)

    # What was loaded before still works where it can, and says so where it cannot.
    lost = [row["question_id"] for row in before.with_format(None) if row["shared_context_id"].startswith("1b0b")]
    assert lost
    with pytest.raises(UserError, match="load the dataset again"):
        before[before.with_format(None)["question_id"].index(lost[0])]


def test_parquet_edited_in_place(dataset_folder: Path, cache: str, tmp_path: Path) -> None:
    folder = tmp_path / "personamem"
    shutil.copytree(dataset_folder, folder)
    assert "edited" not in datasets.load_dataset(str(folder), split="32k", cache_dir=cache)["topic"]

    path = folder / "data" / "questions_32k.parquet"
    table = pq.read_table(path)
    edited = pa.array(["edited"] * table.num_rows)
    pq.write_table(table.set_column(table.schema.get_field_index("topic"), "topic", edited), path)
    assert set(datasets.load_dataset(str(folder), split="32k", cache_dir=cache)["topic"]) == {"edited"}


def test_contexts_edited_in_place(dataset_folder: Path, cache: str, tmp_path: Path) -> None:
    folder = tmp_path / "personamem"
    shutil.copytree(dataset_folder, folder)
    before = datasets.load_dataset(str(folder), split="32k", cache_dir=cache)
    assert before[0]["context"][0]["content"] != "edited"

    path = folder / "data" / "shared_contexts_32k.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        row["messages"][0]["content"] = "edited"
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path, row_group_size=1)
    assert before[0]["context"][0]["content"] == "edited"
    after = datasets.load_dataset(str(folder), split="32k", cache_dir=cache)
    assert after[0]["context"][0]["content"] == "edited"


READ_ONLY = """
import personamem_builder
import datasets
for load in (
    lambda: personamem_builder.load_dataset("32k"),
    lambda: datasets.load_dataset("personamem", split="32k"),
):
    try:
        load()
    except Exception as error:
        print(type(error).__name__, error)
print(len(list(personamem_builder.iter_examples("32k"))))
"""


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_said_in_words(python: Python, dataset_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # a folder without rights would do for others than root
    told = python(READ_ONLY, PERSONAMEM_DATA=str(dataset_folder), HF_HOME=str(tmp_path / "file" / "home")).stdout
    *errors, count = told.splitlines()
    assert len(errors) == 4
    for message, hint in (errors[:2], errors[2:]):
        assert message.startswith(f"UserError datasets cannot write its cache, {tmp_path / 'file' / 'home'}")
        assert "HF_HOME" in hint
        assert "iter_examples" in hint
    assert count == "17"


@pytest.mark.parametrize("split", ["32k", "128k", "1M"])
def test_a_split_in_the_place_of_the_name(elsewhere: Path, split: str) -> None:
    with pytest.raises(UserError) as raised:
        datasets.load_dataset(split)
    assert raised.value.message == f"load_dataset({split!r}): {split} is a split"
    assert raised.value.hint == f'load_dataset("personamem", split="{split}")'
