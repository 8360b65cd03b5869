"""The dataset folder: what is in it, and that it is whole or not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reddit_like import deep_post, make_posts, write_flat

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.persona_bench.audit import audit_folder, render
from personamem_builder.persona_bench.card import items_path, table_path
from personamem_builder.persona_bench.records import (
    ITEM_SCHEMA,
    MESSAGE_SCHEMA,
    POST_SCHEMA,
    SPLITS,
    TASKS,
    USER_SCHEMA,
)
from personamem_builder.persona_bench.write import import_file, read_manifest

_TABLES = {"posts": POST_SCHEMA, "messages": MESSAGE_SCHEMA, "users": USER_SCHEMA}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    posts = [*make_posts(seed=4, users=30), deep_post(1200, author="user_0001")]
    return write_flat(posts, tmp_path_factory.mktemp("raw") / "posts.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, file: Path) -> Path:
    out = tmp_path_factory.mktemp("out") / "persona_bench"
    import_file(file, out, seed=1)
    return out


def files_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): file_digest(path) for path in folder.rglob("*") if path.is_file()}


def test_the_tables_have_the_schemas_of_records(folder: Path):
    tables = {table_path(name): schema for name, schema in _TABLES.items()}
    tables |= {items_path(task, split): ITEM_SCHEMA for task in TASKS for split in SPLITS}
    for path, schema in tables.items():
        table = pq.read_table(folder / path)
        assert table.schema.names == schema.names
        assert table.cast(schema).num_rows == table.num_rows  # Parquet has no seconds: they come back as ms
        assert pq.read_metadata(folder / path).row_group(0).column(0).compression == "ZSTD"


@pytest.mark.slow
def test_every_table_loads_with_plain_datasets(folder: Path):
    import datasets

    manifest = read_manifest(folder)
    for task in TASKS:
        for split in SPLITS:
            items = datasets.load_dataset(str(folder), f"items_{task}", split=split)
            assert len(items) == manifest["items"][task][split]["items"]
            assert {item["task"] for item in items} == {task}
    for name in _TABLES:
        assert len(datasets.load_dataset(str(folder), name, split="train")) == manifest["counts"][name]


def test_authors_are_in_one_split_each_and_the_users_table_says_which(folder: Path):
    split_of = {row["author"]: row["split"] for row in pq.read_table(folder / table_path("users")).to_pylist()}
    for task in TASKS:
        for split in SPLITS:
            rows = pq.read_table(folder / items_path(task, split), columns=["author"]).to_pylist()
            assert {split_of[row["author"]] for row in rows} <= {split}


def test_the_manifest_tells_counts_label_balance_and_terms(folder: Path, file: Path):
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))

    assert manifest["format"] == "persona-bench"
    assert manifest["source"]["sha256"] == file_digest(file)
    assert manifest["counts"]["posts"] == 121
    assert manifest["counts"]["messages_deleted"] > 0
    for split, counts in manifest["items"]["sentiment"].items():
        labels = pq.read_table(folder / items_path("sentiment", split), columns=["score"])["score"].to_pylist()
        assert counts["items"] == len(labels) == counts["positive"] + counts["zero"] + counts["negative"]
        assert counts["positive"] == sum(score > 0 for score in labels)
    assert manifest["replies_left_out"]["scored: edited"] > 0
    for text in (manifest["terms"], (folder / "README.md").read_text(encoding="utf-8")):
        assert "Research only" in text
        assert "Reddit's terms of service" in text


def test_the_same_input_gives_the_same_bytes(folder: Path, file: Path, tmp_path: Path):
    import_file(file, tmp_path / "again", seed=1)
    import_file(file, tmp_path / "other", seed=2)

    assert files_of(tmp_path / "again") == files_of(folder)
    assert files_of(tmp_path / "other")["data/users.parquet"] != files_of(folder)["data/users.parquet"]


def test_a_fault_leaves_the_folder_as_it_was(tmp_path: Path):
    posts = make_posts(users=5)
    out = tmp_path / "persona_bench"
    import_file(write_flat(posts, tmp_path / "good.json"), out)
    before = files_of(out)
    posts[3]["score"], posts[9]["author"] = "12", ""

    with pytest.raises(UserError, match="2 faults") as error:
        import_file(write_flat(posts, tmp_path / "bad.json"), out)

    assert "bad.json post 4 column score: '12'" in str(error.value)
    assert "bad.json post 10 column author" in str(error.value)
    assert files_of(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "good.json", "persona_bench"]


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path, file: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()

    with pytest.raises(UserError, match="exists and is not a PERSONA-Bench folder"):
        import_file(file, tmp_path / "mine")

    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_an_older_folder_is_replaced(tmp_path: Path):
    out = tmp_path / "persona_bench"
    for users in (5, 3):
        import_file(write_flat(make_posts(users=users), tmp_path / "posts.json"), out)

    assert read_manifest(out)["counts"]["posts"] == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["persona_bench", "posts.json"]


def test_a_post_that_is_there_twice_is_counted_once(tmp_path: Path):
    posts = make_posts(users=3)

    manifest = import_file(write_flat([*posts, *posts[:2]], tmp_path / "posts.json"), tmp_path / "out")

    assert (manifest["counts"]["posts"], manifest["counts"]["posts_twice"]) == (12, 2)
    assert manifest["counts"]["messages"] == pq.read_metadata(tmp_path / "out" / table_path("messages")).num_rows


def test_posts_that_give_no_items_still_make_a_folder(tmp_path: Path):
    out = tmp_path / "out"

    import_file(write_flat([deep_post(3)], tmp_path / "posts.json"), out)

    assert "0 test" in render(audit_folder(out))
    assert "no items to probe" in render(audit_folder(out))


def test_an_audit_scans_all_items_and_probes_the_labels(folder: Path):
    found = audit_folder(folder)

    manifest = read_manifest(folder)
    assert found.leaks == []
    for task in TASKS:
        assert {s: count for s, (count, _) in found.items[task].items()} == {
            s: entry["items"] for s, entry in manifest["items"][task].items()
        }
    sentiment = manifest["items"]["sentiment"]
    assert sentiment["train"]["positive"] > sentiment["train"]["items"] / 2
    majority = sentiment["test"]["positive"] / sentiment["test"]["items"]
    assert found.probes["sentiment"]["majority"]["acc"].value == pytest.approx(majority)
    assert {*found.probes["impact"]} == {"majority (median)", "length", "parent's score"}


def test_an_audit_finds_a_leak_in_a_file_and_a_changed_file(tmp_path: Path, folder: Path):
    out = tmp_path / "out"
    shutil.copytree(folder, out)
    path = out / items_path("sentiment", "test")
    rows = pq.read_table(path).to_pylist()
    rows[0]["title"] += " (edit: 512 points)"
    pq.write_table(pa.Table.from_pylist(rows, schema=ITEM_SCHEMA), path)

    with pytest.raises(UserError, match=r"items_sentiment_test.parquet is not what the manifest says"):
        audit_folder(out)
    manifest = read_manifest(out)
    manifest["files"][items_path("sentiment", "test")]["sha256"] = file_digest(path)
    (out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    (leak,) = audit_folder(out).leaks
    assert leak == f"test {rows[0]['item_id']}: title: not as it was written"
