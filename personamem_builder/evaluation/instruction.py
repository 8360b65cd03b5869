"""What stands between a question and its options: the instruction of the task file, or one of the user's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, TemplateSyntaxError, meta

from generation.errors import UserError
from generation.reading import read_text

QUESTION: Final = "user_question_or_message"
OPTIONS: Final = "all_options"
_LAYOUT: Final = (
    '{{{{user_question_or_message}}}}\n\n{{% raw %}}{text}{{% endraw %}}\n\n{{{{all_options | join("\\n")}}}}'
)
_HINT: Final = "write the instruction into it, as the model is to read it"


def last_turn(metadata: dict[str, Any], own: str, task: str) -> str:
    """Return the Jinja template of a question's last user turn; a task file's own, or one with the user's instruction.

    The key `instruction` of the metadata names a file. A text without fields stands where the task file has its own
    instruction, between the question and the options. One with fields is the whole turn: it has
    `{{user_question_or_message}}` and `{{all_options}}` (labelled, a list) where it wants them.

    Args:
        metadata: Of the task; it gets `instruction_sha256`.
        own: The template of the task file.
        task: The task's name.

    Raises:
        UserError: The file cannot be read, is empty or lacks a field, or the task shows no options.
    """
    given = metadata.get("instruction")
    if given is None:
        return own
    if OPTIONS not in own:
        raise UserError(
            f"{task} shows no options, so that --metadata instruction={given} has no place there",
            "use the task with _letters or _generate",
        )
    if not isinstance(given, str) or not given:
        raise UserError(f"--metadata instruction={given!r} is not a path", "give the file that holds the instruction")
    text = read_text(Path(given).expanduser(), _HINT).strip()
    if not text:
        raise UserError(f"{given} is empty: there is no instruction in it", _HINT)
    metadata["instruction_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return _checked(text, given) if "{{" in text else _LAYOUT.format(text=text)


def _checked(text: str, file: str) -> str:
    hint = f"name {{{{{QUESTION}}}}} and {{{{{OPTIONS}}}}}, or no field at all: then it stands between the two"
    try:
        fields = meta.find_undeclared_variables(Environment().parse(text))
    except TemplateSyntaxError as error:
        raise UserError(f"{file}, line {error.lineno}: {error.message}", hint) from error
    if lacking := sorted({QUESTION, OPTIONS} - fields):
        raise UserError(f"{file} has fields, but not {', '.join(lacking)}", hint)
    if others := sorted(fields - {QUESTION, OPTIONS}):
        raise UserError(f"{file}: {', '.join(others)} is not shown to a model", hint)
    return text


def wants_explanation(metadata: dict[str, Any], own: str, task: str) -> bool:
    """Say whether the model is to explain itself before it gives its letter: the key `explain` of the metadata.

    Raises:
        UserError: It is neither true nor false, or the task file has no words for it.
    """
    explain = metadata.get("explain", False)
    if not isinstance(explain, bool):
        raise UserError(f"--metadata explain={explain!r} is neither true nor false", "e.g. '{\"explain\": true}'")
    if explain and metadata.get("instruction") is not None:
        raise UserError("--metadata has both explain and instruction", "ask for the explanation in the instruction")
    if explain and "explain" not in own:
        raise UserError(f"{task} takes no explanation: nothing is written there", "use the task with _generate")
    return explain
