"""The Croissant file of a release: its files and tables for machines, and what to know before using them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from personamem_builder.build.card import columns, statements
from personamem_builder.build.front_matter import is_generated
from personamem_builder.manifest import Manifest
from personamem_builder.table_files import CONFIGS, ConfigName, data_files, table_files, table_pattern


def _cr(*names: str) -> dict[str, str]:
    return {name: f"cr:{name}" for name in names}


_CONTEXT: Final = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **_cr("citeAs", "column"),
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "prov": "http://www.w3.org/ns/prov#",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    **_cr("equivalentProperty"),
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **_cr("extract", "field", "fileProperty", "fileObject", "fileSet", "format", "includes", "isLiveDataset"),
    **_cr("jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated"),
    **_cr("replace", "samplingRate"),
    "sc": "https://schema.org/",
    **_cr("separator", "source", "subField", "transform"),
}

_TYPES: Final = {"string": "sc:Text", "bool": "sc:Boolean", "float32": "sc:Float"}  # the others are integers
_KEYS: Final = {"benchmark": "question_id", "shared_contexts": "shared_context_id"}
_TABLES: Final = {"benchmark": "questions", "shared_contexts": "shared_contexts"}
_REPOSITORY: Final = "repository"
_PAPER: Final = "https://arxiv.org/abs/2504.14225"

_LICENSES: Final = {
    "mit": "https://spdx.org/licenses/MIT.html",
    "apache-2.0": "https://spdx.org/licenses/Apache-2.0.html",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "cc-by-nc-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
}


def croissant(manifest: Manifest) -> dict[str, Any]:
    """Return the Croissant 1.0 description of a release, with the RAI 1.0 properties.

    There is a record set for each table of each split; that of the questions refers to that of the contexts. A table of
    several files is a file set in the repository; each file has its digest too. The manifest is that of the release,
    with `repo_id`.
    """
    page = f"https://huggingface.co/datasets/{manifest['repo_id']}"
    tag = f"v{manifest['version']}"
    names = [manifest["license"]] if isinstance(manifest["license"], str) else manifest["license"]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": manifest["repo_id"].split("/")[-1],
        "description": (
            "Multiple-choice questions that ask whether an assistant, given a long history of sessions with one user, "
            "answers as that user is now."
        ),
        "version": manifest["version"],
        "license": [_LICENSES.get(name, name) for name in names],
        "url": f"{page}/tree/{tag}",
        "creator": {"@type": "Organization", "name": manifest["repo_id"].split("/")[0], "url": page.rpartition("/")[0]},
        "keywords": ["personalization", "long context", "memory", "benchmark", "synthetic"],
        "inLanguage": "en",
        "isLiveDataset": False,
        "citeAs": (
            "Jiang et al.: Know Me, Respond to Me: Benchmarking LLMs for Dynamic User Profiling and Personalized "
            f"Responses at Scale, 2025, {_PAPER}; {manifest['repo_id']}, version {manifest['version']}."
        ),
        **_responsible(manifest),
        "distribution": _distribution(manifest, page, tag),
        "recordSet": [_records(manifest, split, config) for split in manifest["splits"] for config in CONFIGS],
    }


def _responsible(manifest: Manifest) -> dict[str, Any]:
    told = statements(manifest)
    source = manifest["source"]["url"]
    tools = manifest.get("generation", {}).get("backend", "")
    if isinstance(tools, Mapping):
        tools = ", ".join(f"{stage}: {name}" for stage, name in tools.items())
    return {
        "rai:dataCollection": told["provenance"] + (f" Backend: {tools}." if tools else ""),
        "rai:dataCollectionType": ["Others: synthetic, made by software"],
        "rai:dataAnnotationProtocol": (
            "No person labelled anything: which option is right was fixed before its text was written."
            if is_generated(manifest)
            else "As in the official release."
        ),
        "rai:dataLimitations": told["limits"],
        "rai:dataBiases": told["biases"],
        "rai:personalSensitiveInformation": [told["personal_data"]],
        "rai:dataUseCases": [*told["intended"], *(f"Out of scope: {line}" for line in told["out_of_scope"])],
        "rai:dataSocialImpact": told["social_impact"],
        "rai:dataReleaseMaintenancePlan": [
            "Versions are tagged and never changed; what differs from one to the next is listed in the card."
        ],
        "rai:hasSyntheticData": True,
        **({"prov:wasDerivedFrom": {"@id": source}} if source else {}),
    }


def _distribution(manifest: Manifest, page: str, tag: str) -> list[dict[str, Any]]:
    paths = data_files(manifest["files"], manifest["splits"])
    files = [_file(manifest, path, f"{page}/resolve/{tag}/{path}") for path in paths]
    tables = [(config, split) for split in manifest["splits"] for config in CONFIGS]
    if not (sets := [found for table in tables if (found := _file_set(manifest, *table))]):
        return files
    repository = {
        "@type": "cr:FileObject",
        "@id": _REPOSITORY,
        "name": _REPOSITORY,
        "description": "The repository on the Hugging Face Hub.",
        "contentUrl": f"{page}/tree/{tag}",
        "encodingFormat": "git+https",
        "sha256": "https://github.com/mlcommons/croissant/issues/80",  # what the Hub writes: a repository has none
    }
    return [repository, *files, *sets]


def _file_set(manifest: Manifest, config: ConfigName, split: str) -> dict[str, Any] | None:
    """Return the file set of a table; None if it is one file."""
    count = len(table_files(manifest["files"], config, split))
    pattern = table_pattern(CONFIGS[config](split), count)
    if count == 1:
        return None
    return {
        "@type": "cr:FileSet",
        "@id": pattern,
        "name": pattern,
        "containedIn": {"@id": _REPOSITORY},
        "encodingFormat": "application/x-parquet",
        "includes": pattern,
    }


def _file(manifest: Manifest, path: str, url: str) -> dict[str, Any]:
    entry = manifest["files"][path]
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": url,
        "contentSize": f"{entry['bytes']} B",
        "encodingFormat": "application/x-parquet",
        "sha256": entry["sha256"],
    }


def _records(manifest: Manifest, split: str, config: ConfigName) -> dict[str, Any]:
    name = f"{_TABLES[config]}_{split}"
    file_set = _file_set(manifest, config, split)
    source = {"fileSet": {"@id": file_set["@id"]}} if file_set else {"fileObject": {"@id": CONFIGS[config](split)}}
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"The {_TABLES[config].replace('_', ' ')} of the split {split}.",
        "key": {"@id": f"{name}/{_KEYS[config]}"},
        "field": [
            _field(name, feature, meaning, source)
            | (
                {"references": {"field": {"@id": f"shared_contexts_{split}/shared_context_id"}}}
                if config == "benchmark" and feature["name"] == "shared_context_id"
                else {}
            )
            for feature, meaning in columns(manifest)[config]
        ],
    }


def _field(parent: str, feature: Mapping[str, Any], meaning: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field; a list is a repeated one, and a list of lists too, since Croissant 1.0 has no more to say."""
    kind: Any = feature.get("list", feature.get("dtype"))
    while isinstance(kind, Mapping):
        kind = kind.get("list", kind.get("dtype"))
    id_ = f"{parent}/{feature['name']}"
    source = {**files, "extract": {"column": feature["name"]}}
    field = {
        "@type": "cr:Field",
        "@id": id_,
        "name": feature["name"],
        **({"description": meaning} if meaning else {}),
        **({"repeated": True} if "list" in feature else {}),
    }
    if isinstance(kind, str):
        return field | {"dataType": _TYPES.get(kind, "sc:Integer"), "source": source}
    members = [
        {
            "@type": "cr:Field",
            "@id": f"{id_}/{member['name']}",
            "name": member["name"],
            "dataType": _TYPES.get(member["dtype"], "sc:Integer"),
            "source": source | {"transform": {"jsonPath": member["name"]}},
        }
        for member in kind
    ]
    return field | {"subField": members}
