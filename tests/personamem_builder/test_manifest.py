from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from small_manifests import small_manifest

from generation.errors import UserError
from personamem_builder.dataset.folder import is_whole
from personamem_builder.dataset.locate import resolve_data
from personamem_builder.manifest import is_dataset_folder, may_be_dataset, read_manifest

Folder = Callable[[str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    def write(text: str) -> Path:
        (tmp_path / "personamem").mkdir(exist_ok=True)
        (tmp_path / "personamem" / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        return tmp_path / "personamem"

    return write


def fault_of(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        read_manifest(folder)
    assert raised.value.hint
    assert str(folder) in raised.value.message
    return raised.value.message


def changed(path: str, value: Any) -> dict[str, Any]:
    """A manifest with the value at `a.b.c` replaced, or the key gone where it is None."""
    manifest: dict[str, Any] = json.loads(json.dumps(small_manifest()))
    *parents, last = path.split("/")
    inner = manifest
    for key in parents:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return manifest


def test_a_manifest_is_read_as_it_stands_with_keys_of_newer_versions(folder: Folder) -> None:
    manifest = small_manifest(
        ("32k", "1M"), later={"a": [1]}, superseded_by="org/name@v2.0.0", license=["mit", "other"]
    )
    assert read_manifest(folder(json.dumps(manifest))) == manifest
    assert read_manifest(folder("\ufeff" + json.dumps(manifest))) == manifest


@pytest.mark.parametrize(
    "path",
    [
        "schema_version", "version", "digest", "source", "source/name", "source/url", "license", "tokenizer",
        "config_fingerprint", "splits", "splits/32k/questions", "splits/32k/shared_contexts", "splits/32k/digests",
        "splits/32k/digests/benchmark", "splits/32k/max_context_length_in_tokens", "splits/32k/personas", "files",
        "files/data\\questions_32k.parquet", "files/data\\questions_32k.parquet/sha256",
        "files/data\\questions_32k.parquet/bytes",
    ],
)  # fmt: skip
def test_a_missing_key_and_a_wrong_type_are_named(folder: Folder, path: str) -> None:
    keys = [key.replace("\\", "/") for key in path.split("/")]
    for value in (None, -1, 1.5, True, [[]], {"a": {}}):
        manifest: dict[str, Any] = json.loads(json.dumps(small_manifest()))
        inner = manifest
        for key in keys[:-1]:
            inner = inner[key]
        if value is None:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = value
        message = fault_of(folder(json.dumps(manifest)))
        assert "manifest.json: " in message
        assert keys[-1] in message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("superseded_by", 7),
        ("notes", "one"),
        ("generation", []),
        ("features", {"benchmark": 3}),
        ("features", {"benchmark": [{"name": "a", "dtype": 0}], "shared_contexts": []}),
        ("features", {"benchmark": [{"name": "a", "list": {"dtype": [3]}}], "shared_contexts": []}),
        ("changelog", [{"version": "1.0.0"}]),
        ("canary", ["x"]),
        ("splits", {}),
        ("splits", {"../32k": {}}),
        ("digest", "F" * 64),
        ("schema_version", 0),
    ],
)
def test_what_may_be_absent_must_be_right_where_it_is_there(folder: Folder, path: str, value: Any) -> None:
    assert f"manifest.json: {path}" in fault_of(folder(json.dumps(changed(path, value))))


@pytest.mark.parametrize("name", ["../x", "data/../../x", "/etc/x", "data/a\\b", "x", "data/"])
def test_no_file_lies_elsewhere(folder: Folder, name: str) -> None:
    manifest = small_manifest()
    manifest["files"] = {**manifest["files"], name: {"bytes": 1, "sha256": "0" * 64}}
    assert "files" in fault_of(folder(json.dumps(manifest)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"format": "personamem", ',
        "[" * 100_000,
        '{"format": "personamem", "splits": ' + '{"a":' * 5_000 + "1" + "}" * 5_001,
        '{"format": "personamem", "schema_version": ' + "9" * 5_000 + "}",
        json.dumps(small_manifest()).replace("mit", "\udc80"),
    ],
    ids=["empty", "open", "cut", "brackets", "deep", "digits", "not UTF-8"],
)
def test_a_damaged_manifest_is_no_missing_dataset(
    folder: Folder, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = folder(text)
    assert "manifest.json" in fault_of(damaged)
    # It is not ours to replace, but whoever wants to read it is told.
    assert not is_dataset_folder(damaged)
    assert not is_whole(damaged)
    assert may_be_dataset(damaged)
    monkeypatch.chdir(tmp_path)
    for data in (None, "personamem", damaged):
        with pytest.raises(UserError, match=r"manifest\.json"):
            resolve_data(data)


@pytest.mark.parametrize("text", ["[]", "null", "3", "{}", '{"format": "another"}', '{"format": {"personamem": 1}}'])
def test_the_manifest_of_something_else(folder: Folder, text: str) -> None:
    other = folder(text)
    assert "is not a personamem dataset folder" in fault_of(other)
    assert not is_dataset_folder(other)
    assert not may_be_dataset(other)


@pytest.mark.parametrize(
    "arguments",
    [
        ["view", "DATA", "--no-open", "--out", "out"],
        ["inspect", "DATA"],
        ["annotate", "DATA", "--out", "out"],
        ["export", "DATA", "--out", "out"],
        ["audit", "DATA"],
        ["memory", "run", "--data", "DATA", "--out", "out"],
        ["memory", "run", "--data", "DATA", "--system", "recent", "--set", "tokens=5"],
        ["diff", "DATA", "DATA"],
        ["publish", "DATA", "org/name", "--tag", "v1.0.0", "--dry-run"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
@pytest.mark.parametrize("text", ['{"format": "personamem"}', '{"format": "personamem"', "[" * 100_000])
def test_every_command_names_the_fault_and_leaves_nothing(
    folder: Folder, text: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if arguments[0] == "publish":
        monkeypatch.setattr("personamem_builder.publish.plan.current_version", lambda *_: None)
    folder(text)
    monkeypatch.chdir(tmp_path)
    outcome = personamem(*(argument.replace("DATA", "personamem") for argument in arguments))
    assert outcome.exit_code == 1
    assert outcome.err.startswith("error: ")
    assert "personamem/manifest.json" in outcome.err.splitlines()[0]
    assert "hint: " in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["personamem"]
