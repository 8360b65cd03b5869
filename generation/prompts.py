"""Prompts: one Jinja template for each kind of call to a language model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from generation.errors import UserError
from generation.resources import data_dir


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    # Prompts are plain text, so nothing is escaped for HTML.
    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(data_dir("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def render(name: str, facts: Mapping[str, Any]) -> str:
    """Render the prompt of one call.

    Raises:
        UserError: There is no such template, or it refers to something that is not among the facts.
    """
    try:
        return _environment().get_template(f"{name}.j2").render(facts)
    except TemplateError as error:
        known = ", ".join(sorted(facts))
        raise UserError(
            f"templates/{name}.j2: {type(error).__name__}: {error.message}", f"a template may refer to {known}"
        ) from error


def template_digests() -> dict[str, str]:
    """Return, for each template file, the sha256 of its content (16 digits)."""
    paths = sorted(data_dir("templates").glob("*.j2"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths}
