"""What the documentation site does beside MkDocs: links to the source tree, help texts, nothing from elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "_site" / "hooks.py")
assert _spec is not None
assert _spec.loader is not None
hooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hooks)


@pytest.mark.parametrize(
    ("source", "page", "text", "expected"),
    [
        ("docs/evaluate.md", "evaluate.md", "[Tasks](../lm_eval_tasks/README.md#metrics)", "[Tasks](tasks.md#metrics)"),
        ("docs/generate.md", "generate.md", "[`a`](../examples/full.yaml), b", "`a`, b"),
        ("docs/scale.md", "scale.md", "[memory](memory.md#mem0)", "[memory](memory.md#mem0)"),
        (
            "docs/scale.md",
            "scale.md",
            "[here](#ray) [there](https://x.org/a.md)",
            "[here](#ray) [there](https://x.org/a.md)",
        ),
        ("docs/scale.md", "scale.md", "![p](pictures/flow.svg)", "![p](pictures/flow.svg)"),
        ("lm_eval_tasks/README.md", "tasks.md", "[x](../docs/memory.md#a)", "[x](memory.md#a)"),
        ("CONTRIBUTING.md", "contributing.md", "[x](docs/banks.md) [y](README.md)", "[x](banks.md) [y](index.md)"),
        ("docs/scale.md", "scale.md", "[x](no_such_page.md)", "[x](no_such_page.md)"),
    ],
)
def test_links_to_files_become_links_to_pages(source: str, page: str, text: str, expected: str) -> None:
    assert hooks.with_site_links(text, ROOT / source, page) == expected


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('<script src="https://unpkg.com/mermaid.js"></script>', 1),
        ("<link rel=stylesheet href=//fonts.googleapis.com/css>", 1),
        ('<img alt="x" src="http://example.org/x.png">', 1),
        ("@font-face { src: url('https://example.org/f.woff2') }", 1),
        ('<pre class="mermaid">graph</pre>', 1),
        (
            '<a href="https://arxiv.org">a</a> <script src="assets/a.js"></script> <svg xmlns="http://www.w3.org/2000/svg">',
            0,
        ),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(text: str, count: int) -> None:
    assert len(hooks.loaded_from_elsewhere(text)) == count


def test_examples_in_help_texts_become_blocks() -> None:
    text = "Do a thing.\n\n\b\npersonamem a\npersonamem b\n\nMore."
    assert hooks.markdown_help("Do it.", ["personamem a"]) == "Do it.\n\n**Examples:**\n\n    personamem a"
    assert hooks.markdown_help(text) == "Do a thing.\n\n    personamem a\n    personamem b\n\nMore."


def test_all_pages_from_outside_the_folder_are_there() -> None:
    assert [name for name in hooks.PAGES if not (ROOT / name).is_file()] == []
