"""What MkDocs does not do by itself: pages from outside `docs/`, help texts as Markdown, and a check of the site.

MkDocs finds these functions by their names (https://www.mkdocs.org/user-guide/configuration/#hooks).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]

PAGES: Final = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/persona_bench/README.md": "persona_bench_example.md",
    "examples/written/README.md": "written.md",
    "lm_eval_tasks/README.md": "tasks.md",
    "lm_eval_tasks/persona_bench/README.md": "persona_bench_tasks.md",
}
"""Files outside `docs/`, and the pages that they are on the site; `index.md` takes the place of the README."""

_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_LOADED: Final = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^\s>]+"
)
_STYLED: Final = re.compile(r"(?:@import\s+|url\()[\"']?(?:https?:)?//[^\s)]+")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make commands ready to be printed: help as Markdown, names as they are typed, no defaults of click's own."""
    from personamem_builder.cli import cli

    _make_ready(cli, "personamem")
    return config


def _make_ready(command: click.Command, name: str) -> None:
    command.name = name
    command.help = markdown_help(command.help or "", getattr(command, "examples", ()))
    context = click.Context(command)
    for parameter in command.get_params(context):  # with --help, which click makes
        if not isinstance(parameter.default, bool | int | float | str | list | tuple):
            parameter.default = None
    if isinstance(command, click.Group):
        for own in command.list_commands(context):
            found = command.get_command(context, own)
            if found is not None:
                _make_ready(found, own)


def markdown_help(text: str, examples: Sequence[str] = ()) -> str:
    """Return a help text in Markdown; paragraphs that click does not wrap, those after a backspace, are code."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        start, mark, rest = paragraph.partition("\b\n")
        paragraphs.append(f"{start}{_code(rest.splitlines())}" if mark else paragraph)
    if examples:
        paragraphs += ["**Examples:**", _code(examples)]
    return "\n\n".join(paragraphs)


def _code(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside `docs/`."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files of the repository to their pages."""
    source = Path(page.file.abs_src_path or ROOT / "docs" / page.file.src_uri)
    return with_site_links(markdown, source, page.file.src_uri)


def with_site_links(markdown: str, source: Path, page: str) -> str:
    """Return the text of a page with each link to a file outside `docs/` replaced.

    A link to a file that is a page points to the page; of any other only its text is left.

    Args:
        markdown: The text.
        source: The file that it comes from.
        page: The path of its page, from `docs/`.
    """

    def replace(found: re.Match[str]) -> str:
        text, link = found.groups()
        path, hash_, anchor = link.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return found.group()
        target = (source.parent / path).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return found.group()  # MkDocs says what is wrong with it
        named = target.relative_to(ROOT).as_posix()
        if named in PAGES:
            site_path = PAGES[named]
        elif named.startswith("docs/"):
            site_path = named.removeprefix("docs/")
        else:
            return text
        return f"[{text}]({os.path.relpath(site_path, Path(page).parent)}{hash_}{anchor})"

    return _LINK.sub(replace, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that loads anything from elsewhere.

    Raises:
        PluginError: It does; the error names the files and the addresses.
    """
    from mkdocs.exceptions import PluginError

    folder = Path(config.site_dir)
    found = [
        f"{path.relative_to(folder)}: {address}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".html", ".css", ".svg")
        for address in loaded_from_elsewhere(path.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("the site loads from elsewhere: " + "; ".join(found))


def loaded_from_elsewhere(text: str) -> list[str]:
    """Return the places of a page or style sheet that make a browser load something from another host."""
    mermaid = re.findall(r"class=\"mermaid\"", text)  # the theme fetches its script
    return [*_LOADED.findall(text), *_STYLED.findall(text), *mermaid]
