from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from generation.errors import UserError
from personamem_builder.dataset.contexts import ContextStore, iter_contexts, open_contexts, read_context

Messages = list[dict[str, str]]


@pytest.fixture(scope="module")
def contexts(excerpt: Path) -> dict[str, Messages]:
    """The shared contexts as the official file has them."""
    lines = (excerpt / "shared_contexts_32k.jsonl").read_text(encoding="utf-8").splitlines()
    return {key: messages for line in lines for key, messages in json.loads(line).items()}


@pytest.fixture
def store(dataset_folder: Path) -> ContextStore:
    return ContextStore(dataset_folder)


@pytest.fixture
def ids(contexts: dict[str, Messages]) -> list[str]:
    return sorted(contexts)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups whose messages have been decoded so far."""
    groups: list[int] = []
    read = pq.ParquetFile.read_row_group

    def read_row_group(self: pq.ParquetFile, i: int, columns: Any = None, **kwargs: Any) -> Any:
        if columns is None or "messages" in columns:
            groups.append(i)
        return read(self, i, columns=columns, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_row_group)
    return groups


@pytest.mark.parametrize("end", [1, 2, 91, 183])
def test_a_question_sees_the_messages_before_its_end_index(
    store: ContextStore, contexts: dict[str, Messages], end: int
) -> None:
    for key, messages in contexts.items():
        assert store.messages(key, end) == messages[:end]


def test_messages_are_the_callers_own(store: ContextStore, contexts: dict[str, Messages], ids: list[str]) -> None:
    got = store.messages(ids[0], 3)
    got[0]["content"] = "changed"
    got.pop()
    assert store.messages(ids[0], 3) == contexts[ids[0]][:3]


def test_sessions_start_where_the_persona_is_repeated(store: ContextStore, contexts: dict[str, Messages]) -> None:
    for key, messages in contexts.items():
        assert store.session_starts(key) == [i for i, message in enumerate(messages) if message["role"] == "system"]


def test_a_batch_holds_each_message_once(store: ContextStore, contexts: dict[str, Messages], ids: list[str]) -> None:
    keys = [(ids[0], 2), (ids[1], 5), (ids[0], 4)]
    batch = store.batch(keys)
    assert batch == [contexts[key][:end] for key, end in keys]
    assert all(short is long for short, long in zip(batch[0], batch[2], strict=False))


def test_a_batch_shares_nothing_with_what_is_read_later(
    store: ContextStore, contexts: dict[str, Messages], ids: list[str]
) -> None:
    store.batch([(ids[0], 2)])[0][0]["content"] = "changed"
    assert store.batch([(ids[0], 2)]) == [contexts[ids[0]][:2]]
    assert store.messages(ids[0], 2) == contexts[ids[0]][:2]


def test_nothing_is_decoded_until_it_is_asked_for(dataset_folder: Path, decoded: list[int]) -> None:
    ContextStore(dataset_folder)
    assert decoded == []


def test_the_texts_of_a_row_group_are_read_once(store: ContextStore, ids: list[str], decoded: list[int]) -> None:
    for _ in range(3):
        for key in ids:
            store.messages(key, 5)
    store.batch([(key, 2) for key in ids])
    assert decoded == [0]


def test_a_file_of_an_older_version_is_read_too(
    dataset_folder: Path, contexts: dict[str, Messages], tmp_path: Path
) -> None:
    """A row group for each context, and a dictionary for none."""
    shutil.copytree(dataset_folder, tmp_path / "personamem")
    path = tmp_path / "personamem" / "data" / "shared_contexts_32k.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=1, use_dictionary=False)
    store = ContextStore(tmp_path / "personamem")
    assert {key: store.messages(key, len(messages)) for key, messages in contexts.items()} == contexts
    assert {row["shared_context_id"]: row["messages"] for row in iter_contexts(path)} == contexts


def test_rows_can_be_read_one_by_one(dataset_folder: Path) -> None:
    path = dataset_folder / "data" / "shared_contexts_32k.parquet"
    rows = pq.read_table(path).to_pylist()
    assert list(iter_contexts(path)) == rows
    assert [read_context([path], row["shared_context_id"]) for row in rows] == rows
    with pytest.raises(UserError, match="no context nosuch"):
        read_context([path], "nosuch")


@pytest.mark.parametrize("ask", ["messages", "batch", "session_starts"])
def test_an_unknown_context_is_an_error_that_names_it_and_the_folder(
    store: ContextStore, dataset_folder: Path, ids: list[str], ask: str
) -> None:
    arguments = {"messages": ("nosuch", 1), "batch": ([(ids[0], 1), ("nosuch", 1)],), "session_starts": ("nosuch",)}
    with pytest.raises(UserError) as raised:
        getattr(store, ask)(*arguments[ask])
    assert "nosuch" in raised.value.message
    assert str(dataset_folder) in raised.value.message


def test_a_folder_is_opened_once_for_as_long_as_its_files_stay_the_same(dataset_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "personamem"
    shutil.copytree(dataset_folder, folder)
    store = open_contexts(folder)
    assert open_contexts(folder) is store

    path = folder / "data" / "shared_contexts_32k.parquet"
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    assert open_contexts(folder) is not store
    with pytest.raises(UserError):
        open_contexts(folder).messages(pq.read_table(dataset_folder / path.relative_to(folder))[0][1].as_py(), 1)


@pytest.mark.parametrize("end", [-1, -200, 184, 10**6, 2**31 - 1])
def test_an_end_outside_the_context_is_an_error_and_no_shorter_or_longer_history(
    store: ContextStore, ids: list[str], end: int
) -> None:
    assert len(store.messages(ids[0], 183)) == 183
    assert store.messages(ids[0], 0) == []
    for ask in (lambda: store.messages(ids[0], end), lambda: store.batch([(ids[0], 1), (ids[0], end)])):
        with pytest.raises(UserError) as raised:
            ask()
        assert f"end index {end} lies outside the shared context {ids[0]}, which has 183" in raised.value.message
