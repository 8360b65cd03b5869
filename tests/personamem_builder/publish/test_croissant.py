"""The Croissant file of a release: its references hold, and the library of its authors validates and reads it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_parts import cut_dataset

from personamem_builder.manifest import read_manifest
from personamem_builder.publish.croissant import croissant

needs_mlcroissant = pytest.mark.skipif(
    importlib.util.find_spec("mlcroissant") is None, reason="mlcroissant is not installed (pip install '.[croissant]')"
)


@pytest.fixture(scope="module")
def folder(generated: Path) -> Path:
    """A generated dataset folder; tests leave it as it is."""
    return generated


@pytest.fixture(scope="module")
def cut(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as tables of several files."""
    return cut_dataset(generated, tmp_path_factory.mktemp("cut") / "personamem", 3000)


def described(folder: Path, **more: Any) -> dict[str, Any]:
    return croissant(read_manifest(folder) | {"repo_id": "org/name", "version": "1.1.0"} | more)


def nodes(content: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping inside."""
    if isinstance(content, dict):
        yield content
        content = list(content.values())
    if isinstance(content, list):
        for inner in content:
            yield from nodes(inner)


def test_files_are_those_of_the_tag_with_their_digests(folder: Path) -> None:
    files = {file["@id"]: file for file in described(folder)["distribution"]}
    assert list(files) == ["data/questions_32k.parquet", "data/shared_contexts_32k.parquet"]
    for path, entry in read_manifest(folder)["files"].items():
        assert files[path]["sha256"] == entry["sha256"]
        assert files[path]["contentUrl"] == f"https://huggingface.co/datasets/org/name/resolve/v1.1.0/{path}"
        assert files[path]["encodingFormat"] == "application/x-parquet"


def test_a_table_of_several_files_is_a_file_set(cut: Path) -> None:
    content = described(cut)
    found = {node["@id"]: node for node in content["distribution"]}
    assert {name for name in found if name.endswith(".parquet") and "*" not in name} == set(read_manifest(cut)["files"])
    sets = {name: node for name, node in found.items() if node["@type"] == "cr:FileSet"}
    assert len(sets) == 2
    for records in content["recordSet"]:
        [of] = {node["fileSet"]["@id"] for node in nodes(records) if "fileSet" in node}
        matched = {path.relative_to(cut).as_posix() for path in cut.glob(sets[of]["includes"])}
        assert matched == {name for name in read_manifest(cut)["files"] if name.startswith(f"data/{records['name']}-")}
        assert found[sets[of]["containedIn"]["@id"]]["encodingFormat"] == "git+https"


@pytest.mark.parametrize("kind", ["one file", "several files"])
def test_every_reference_points_at_something_and_every_column_is_there(folder: Path, cut: Path, kind: str) -> None:
    folder = cut if kind == "several files" else folder
    content = described(folder)
    defined = [node["@id"] for node in nodes(content) if "@type" in node and "@id" in node and "name" in node]
    assert len(defined) == len(set(defined))
    referred = {node["@id"] for node in nodes(content["recordSet"]) if set(node) == {"@id"}}
    assert referred <= set(defined)
    assert "shared_contexts_32k/shared_context_id" in referred
    for records in content["recordSet"]:
        columns = pq.read_schema(next(folder.glob(f"data/{records['@id']}*"))).names
        assert [field["name"] for field in records["field"]] == columns


@pytest.mark.parametrize("kind", ["generated", "imported"])
def test_what_to_know_before_using_it(folder: Path, dataset_folder: Path, kind: str) -> None:
    content = described(folder if kind == "generated" else dataset_folder)
    for name in (
        "dataLimitations",
        "dataBiases",
        "personalSensitiveInformation",
        "dataUseCases",
        "dataSocialImpact",
        "dataCollection",
        "hasSyntheticData",
    ):
        assert content[f"rai:{name}"], name
    assert ("Backend: offline" in content["rai:dataCollection"]) == (kind == "generated")
    assert ("prov:wasDerivedFrom" in content) == (kind == "imported")


@needs_mlcroissant
@pytest.mark.parametrize("kind", ["generated", "imported", "several files"])
def test_mlcroissant_validates_and_reads_it(
    folder: Path, dataset_folder: Path, cut: Path, tmp_path: Path, kind: str
) -> None:
    import mlcroissant

    source = {"generated": folder, "imported": dataset_folder, "several files": cut}[kind]
    content = described(source)
    path = tmp_path / "croissant.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    issues = mlcroissant.Dataset(path).metadata.ctx.issues
    assert not issues.errors
    # A date would make two builds of the same data differ.
    assert all("datePublished" in warning for warning in issues.warnings)

    if kind == "several files":
        return  # it would fetch the repository
    for file in content["distribution"]:
        file["contentUrl"] = str(source / file["@id"])
    path.write_text(json.dumps(content), encoding="utf-8")
    dataset = mlcroissant.Dataset(path)
    for name in ("questions_32k", "shared_contexts_32k"):
        expected = pq.read_table(source / "data" / f"{name}.parquet").to_pylist()
        found = list(dataset.records(name))
        assert len(found) == len(expected)
        assert {key.split("/")[1] for key in found[0]} == set(expected[0])
        key = "shared_context_id"
        assert [record[f"{name}/{key}"].decode() for record in found] == [row[key] for row in expected]
    first = found[0]["shared_contexts_32k/messages"][0]
    assert first["shared_contexts_32k/messages/content"].decode() == expected[0]["messages"][0]["content"]
