from __future__ import annotations

import errno
import hashlib
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from generation.errors import UserError
from personamem_builder.build.features import features_of
from personamem_builder.build.from_official import import_release
from personamem_builder.build.write import CANARY, CANARY_KEY, Source, write_dataset
from personamem_builder.dataset.folder import changed_files, content_digest
from personamem_builder.dataset.load import iter_examples
from personamem_builder.manifest import read_manifest
from personamem_builder.schema import QUESTION_SCHEMA

SOURCE = Source(name="a test", url="https://example.org", license="mit", version="1.2.3", fingerprint="f" * 64)


def question(context: str, end: int, text: str = "What now?") -> dict[str, Any]:
    return {
        "persona_id": 0,
        "question_id": f"{context}-{end}",
        "question_type": "suggest_new_ideas",
        "topic": "travel",
        "context_length_in_tokens": 10 * end,
        "context_length_in_letters": 40 * end,
        "distance_to_ref_in_blocks": 0,
        "distance_to_ref_in_tokens": 0,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.0,
        "user_question_or_message": text,
        "correct_answer": "(b)",
        "all_options": ["(a) w", "(b) x", "(c) y", "(d) z"],
        "shared_context_id": context,
        "end_index_in_shared_context": end,
        "source_question_type": "suggest_new_ideas",
        "answer_index": 1,
        "evidence_message_indices": [],
        "evidence_event_ids": [],
    }


def context(key: str) -> dict[str, Any]:
    messages = [{"role": role, "content": f"{role} of {key}"} for role in ("system", "user", "assistant")]
    return {
        "shared_context_id": key,
        "persona_id": 0,
        "messages": messages,
        "session_starts": [0],
        "session_topics": [""],
        "session_dates": [""],
        "num_tokens": 30,
    }


def write(out: Path, text: str = "What now?") -> dict[str, Any]:
    """Write a small dataset of one split; `text` makes it differ from another."""
    questions = [question("c1", 2, text), question("c1", 3, text), question("c2", 3, text)]
    return write_dataset(
        out,
        {"32k": [pa.Table.from_pylist(questions, schema=QUESTION_SCHEMA)]},
        [("32k", context(key)) for key in ("c1", "c2")],
        SOURCE,
    )


def texts(folder: Path) -> set[str]:
    """The question texts of a folder, which is sound and whose contexts can be read."""
    assert changed_files(folder) == []
    rows = list(iter_examples("32k", data=folder))
    assert [len(row["context"]) for row in rows] == [2, 3, 3]
    return {row["user_question_or_message"] for row in rows}


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_layout(dataset_folder: Path) -> None:
    assert names(dataset_folder) == [
        "README.md",
        "data/questions_32k.parquet",
        "data/shared_contexts_32k.parquet",
        "figures/32k.svg",
        "manifest.json",
    ]


def test_the_manifest(dataset_folder: Path) -> None:
    manifest = read_manifest(dataset_folder)
    data = dataset_folder / "data"
    questions = pq.read_table(data / "questions_32k.parquet")
    contexts = pq.read_table(data / "shared_contexts_32k.parquet")
    assert manifest["format"] == "personamem"
    assert manifest["schema_version"] == 1
    assert manifest["tokenizer"] == "o200k_base"
    assert manifest["license"] == "mit"
    assert manifest["canary"] == CANARY
    num_bytes = manifest["splits"]["32k"].pop("num_bytes")
    assert num_bytes["benchmark"] == pytest.approx(questions.nbytes, rel=0.1)
    assert num_bytes["shared_contexts"] == pytest.approx(contexts.nbytes, rel=0.1)
    assert manifest["splits"] == {
        "32k": {
            "questions": 17,
            "shared_contexts": 2,
            "personas": 1,
            "max_context_length_in_tokens": max(questions["context_length_in_tokens"].to_pylist()),
            "digests": {"benchmark": content_digest(questions), "shared_contexts": content_digest(contexts)},
        }
    }
    assert manifest["features"] == {
        "benchmark": features_of(questions.schema),
        "shared_contexts": features_of(contexts.schema),
    }
    assert manifest["notes"][0] == "32k: 1 of 17 questions have identical options"
    assert "generation" not in manifest
    assert manifest["files"] == {
        f"data/{path.name}": {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in data.iterdir()
    }
    assert changed_files(dataset_folder) == []


def test_the_digest_is_of_the_content_and_of_nothing_else(tmp_path: Path) -> None:
    first, again, other = write(tmp_path / "a"), write(tmp_path / "b"), write(tmp_path / "c", "What else?")
    assert first["digest"] == again["digest"] != other["digest"]
    first_digests, other_digests = (manifest["splits"]["32k"]["digests"] for manifest in (first, other))
    assert first_digests["benchmark"] != other_digests["benchmark"]
    assert first_digests["shared_contexts"] == other_digests["shared_contexts"]


def test_the_fingerprint_is_of_the_files_read(dataset_folder: Path, excerpt: Path) -> None:
    digests = {
        name: hashlib.sha256((excerpt / name).read_bytes()).hexdigest()
        for name in ("questions_32k.csv", "shared_contexts_32k.jsonl")
    }
    expected = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
    assert read_manifest(dataset_folder)["config_fingerprint"] == expected


def test_the_card_tells_datasets_where_the_data_is_and_when_it_changed(dataset_folder: Path) -> None:
    card = (dataset_folder / "README.md").read_text(encoding="utf-8")
    _, front_matter, text = card.split("---\n", 2)
    configs = {config["config_name"]: config for config in yaml.safe_load(front_matter)["configs"]}
    assert list(configs) == ["benchmark", "shared_contexts"]
    assert [config.get("default", False) for config in configs.values()] == [True, False]
    files = {"benchmark": "data/questions_32k.parquet", "shared_contexts": "data/shared_contexts_32k.parquet"}
    digests = read_manifest(dataset_folder)["splits"]["32k"]["digests"]
    for name, config in configs.items():
        assert config["data_files"] == [{"split": "32k", "path": files[name]}]
        assert config["version"] == "1.0.0"
        assert f"32k:{digests[name]}" in config["description"]
    assert "| `32k` | 17 | 2 | 1 |" in text
    assert "- 32k: 1 of 17 questions have identical options" in text
    assert CANARY in text


def test_every_data_file_carries_the_canary_beside_its_content(dataset_folder: Path, tmp_path: Path) -> None:
    paths = sorted((dataset_folder / "data").iterdir())
    assert len(paths) == 2
    for path in paths:
        file = pq.ParquetFile(path)
        assert file.metadata.metadata[CANARY_KEY.encode()] == CANARY.encode()
        pq.write_table(file.read().replace_schema_metadata(None), tmp_path / path.name)
    # Content and digests are those of files without it, as folders had them before.
    digests = read_manifest(dataset_folder)["splits"]["32k"]["digests"]
    assert content_digest(pq.read_table(tmp_path / "questions_32k.parquet")) == digests["benchmark"]
    assert content_digest(pq.read_table(tmp_path / "shared_contexts_32k.parquet")) == digests["shared_contexts"]


def test_what_was_written_into_the_older_card_by_hand_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    card = out / "README.md"
    ours = card.read_text(encoding="utf-8")
    card.write_text(f"{ours}\n## Thanks\n\nTo all.\n", encoding="utf-8")
    write(out, "new")
    new = card.read_text(encoding="utf-8")
    assert new.endswith("\n## Thanks\n\nTo all.\n")
    assert read_manifest(out)["digest"] in new


@pytest.mark.parametrize("damage", [b"\xff", b"<!-- personamem:end again -->"])
def test_an_older_card_that_cannot_be_read_stops_everything(tmp_path: Path, damage: bytes) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    card = out / "README.md"
    card.write_bytes(card.read_bytes() + b"\n" + damage)
    with pytest.raises(UserError) as raised:
        write(out, "new")
    assert str(card) in raised.value.message
    assert texts(out) == {"old"}


def test_questions_are_sorted_by_context_and_end_index(dataset_folder: Path) -> None:
    rows = pq.read_table(dataset_folder / "data" / "questions_32k.parquet").to_pylist()
    keys = [(row["shared_context_id"], row["end_index_in_shared_context"]) for row in rows]
    assert keys == sorted(keys)


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(
    python: Callable[..., Any], dataset_folder: Path, excerpt: Path, tmp_path: Path
) -> None:
    code = """
import sys
from pathlib import Path
from personamem_builder.build.from_official import import_release
import_release(Path(sys.argv[1]), Path(sys.argv[2]))
"""
    for hash_seed in ("1", "2"):
        python(code, str(excerpt), hash_seed, PYTHONHASHSEED=hash_seed)
    for name in names(dataset_folder):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name
        assert (tmp_path / "1" / name).read_bytes() == (dataset_folder / name).read_bytes(), name


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "personamem")
    assert texts(tmp_path / "a" / "b" / "personamem") == {"What now?"}


def test_an_older_dataset_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    (out / "data" / "questions_128k.parquet").touch()
    write(out, "new")
    assert texts(out) == {"new"}
    assert list(tmp_path.iterdir()) == [out], "nothing is left of the old one, nor of the making of the new one"
    assert "data/questions_128k.parquet" not in names(out)


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    out = tmp_path / "empty"
    out.mkdir()
    write(out)
    assert texts(out) == {"What now?"}


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "a dataset"])
def test_the_current_folder_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: bool) -> None:
    out = tmp_path / "personamem"
    out.mkdir()
    if filled:
        write(out, "old")
    monkeypatch.chdir(out)
    with pytest.raises(UserError) as raised:
        write(Path(), "new")
    assert "--out" in raised.value.hint
    assert not filled or texts(out) == {"old"}


def test_a_link_to_a_dataset_can_be_written_through_again_and_again(tmp_path: Path) -> None:
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for text in ("new", "newer"):
        write(tmp_path / "link", text)
        assert texts(tmp_path / "link") == {text}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_what_is_no_dataset_is_not_touched(tmp_path: Path) -> None:
    folder, file, other = tmp_path / "folder", tmp_path / "file", tmp_path / "other"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    file.write_text("years of work")
    other.mkdir()
    (other / "manifest.json").write_text('{"format": "another"}')
    before = names(tmp_path)
    for out in (folder, file, other):
        with pytest.raises(UserError) as raised:
            write(out)
        assert raised.value.message == f"{out} exists and is not a personamem dataset folder"
        assert "--out" in raised.value.hint
    assert names(tmp_path) == before


@pytest.mark.parametrize("older", [True, False], ids=["over an older dataset", "in a new place"])
def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool) -> None:
    out = tmp_path / "personamem"
    if older:
        write(out, "old")
    before = names(tmp_path)
    calls = []

    def write_table(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        pq_write_table(*arguments, **options)

    pq_write_table = pq.ParquetWriter.write_table
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", write_table)
        with pytest.raises(UserError) as raised:
            write(out, "new")
    assert str(out) in raised.value.message
    assert "No space left" in raised.value.message
    assert names(tmp_path) == before
    if older:
        assert texts(out) == {"old"}
    write(out, "new")
    assert texts(out) == {"new"}


def test_the_old_dataset_is_put_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    rename = Path.rename

    def refused(self: Path, target: Path) -> Path:
        if self.name.startswith(".personamem.new-"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refused)
        with pytest.raises(UserError) as raised:
            write(out, "new")
    assert raised.value.hint == "the folder is as it was before"
    assert texts(out) == {"old"}
    assert list(tmp_path.iterdir()) == [out]


def test_a_place_that_cannot_be_written_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError) as raised:
        write(tmp_path / "file" / "personamem")
    assert str(tmp_path / "file" / "personamem") in raised.value.message


# Kills itself, as the kernel would, when it calls a function for the nth time.
KILLED = """
import importlib.util, os, signal, sys
from pathlib import Path
from pyarrow.parquet import ParquetWriter
from personamem_builder.build import write

spec = importlib.util.spec_from_file_location("test_write", sys.argv[1])
helpers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helpers)
owner, name, at = {"write_table": (ParquetWriter, "write_table", 2), "rename": (Path, "rename", 2)}[sys.argv[3]]
original, calls = getattr(owner, name), []

def killed(*arguments, **options):
    calls.append(arguments)
    if len(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **options)

setattr(owner, name, killed)
helpers.write(Path(sys.argv[2]), "new")
"""


@pytest.mark.slow
def test_a_kill_in_mid_write_leaves_the_old_dataset(python: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    python(KILLED, __file__, str(out), "write_table", exits=-signal.SIGKILL)
    assert texts(out) == {"old"}
    write(out, "new")
    assert texts(out) == {"new"}, "what the killed process left behind is in nobody's way"


def test_a_kill_between_the_two_renames_loses_nothing(
    python: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    python(KILLED, __file__, str(out), "rename", exits=-signal.SIGKILL)
    assert not out.exists()
    assert texts(tmp_path / ".personamem.old") == {"old"}

    # The old dataset is back before anything new is tried.
    def full_disk(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full_disk)
        with pytest.raises(UserError):
            write(out, "new")
    assert texts(out) == {"old"}

    write(out, "new")
    assert texts(out) == {"new"}
    assert not (tmp_path / ".personamem.old").exists()


def test_an_old_dataset_left_behind_after_the_second_rename_is_cleared_away(tmp_path: Path) -> None:
    out = tmp_path / "personamem"
    write(out, "old")
    shutil.copytree(out, tmp_path / ".personamem.old")
    write(out, "new")
    assert texts(out) == {"new"}
    assert list(tmp_path.iterdir()) == [out]


def test_import_release_reports_what_it_met(excerpt: Path, tmp_path: Path) -> None:
    imported = import_release(excerpt, tmp_path / "personamem")
    assert imported.manifest == read_manifest(tmp_path / "personamem")
    assert imported.notes[0] == "32k: 1 of 17 questions have identical options"
