"""How templates of pages, and of other markup, are rendered."""

from __future__ import annotations

from pathlib import Path

import jinja2


def markup_environment(*folders: Path) -> jinja2.Environment:
    """Return an environment for the templates in folders: it escapes what they insert and refuses unknown names."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
