"""The page of an audit that was saved as JSON is that of the audit itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.audit.audit import audit
from personamem_builder.audit.gates import read_gates
from personamem_builder.audit.page import saved_to_html, to_html
from personamem_builder.audit.render import to_json
from personamem_builder.audit.saved import read_audit


@pytest.fixture(scope="module")
def saved(dataset_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The JSON and the page of the audit of the official excerpt."""
    found = audit(dataset_folder, [], read_gates())
    path = tmp_path_factory.mktemp("audit") / "audit.json"
    path.write_text(json.dumps(to_json(found)), encoding="utf-8")
    return path, to_html(found)


def test_it_is_the_same_page(saved: tuple[Path, str]) -> None:
    path, page = saved
    assert saved_to_html(read_audit(path, "")) == page
    with_home = saved_to_html(read_audit(path, ""), home="index.html")
    assert '<nav><a href="index.html">leaderboard</a></nav>' in with_home
    assert with_home.replace('<nav><a href="index.html">leaderboard</a></nav>\n', "") == page


def test_what_is_no_audit_is_an_error(saved: tuple[Path, str], tmp_path: Path) -> None:
    content: dict[str, Any] = json.loads(saved[0].read_text())
    path = tmp_path / "audit.json"
    for change in ({"schema_version": 2}, {"digest": 3}, {"splits": [{"split": "32k"}]}, {"format": "other"}):
        path.write_text(json.dumps(content | change))
        with pytest.raises(UserError, match=f"^{path}: {next(iter(change))}"):
            read_audit(path, "audit it anew")


@pytest.mark.parametrize(
    ("module", "not_loaded"),
    [
        ("personamem_builder.space.write", {"sklearn", "snowballstemmer"}),
        ("personamem_builder.publish.push", {"sklearn", "snowballstemmer", "scipy"}),  # in no extra
    ],
)
def test_it_needs_nothing_of_what_an_audit_needs(python: Any, module: str, not_loaded: set[str]) -> None:
    python(f"import sys, {module}; assert not {not_loaded} & {{*sys.modules}}")
