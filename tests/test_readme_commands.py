"""The commands in the documentation can be typed: they exist, with the options, choices, tasks and settings named."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from lm_eval._cli import HarnessCLI
from lm_eval.utils import simple_parse_args_string

from generation.shards import parse_shard
from personamem_builder.cli import cli
from personamem_builder.evaluation.own_arguments import take_own

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "docs", "examples", "lm_eval_tasks")
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.md")),
]
SHELLS = ("", "bash", "sh")
ELLIPSIS = "…"


class Shown(NamedTuple):
    """A command in a document; one that stands in a sentence may lack arguments."""

    document: str
    words: tuple[str, ...]
    in_sentence: bool

    def __str__(self) -> str:
        return f"{self.document}: {' '.join(self.words)}"


def shown_commands() -> Iterator[Shown]:
    """Yield the commands `personamem …` and `lm_eval …` of all documents."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(ROOT))
        parts = re.split(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        for language, block in zip(parts[1::3], parts[2::3], strict=True):
            if language in SHELLS:
                for line in block.replace("\\\n", " ").splitlines():
                    yield from _commands(name, line, in_sentence=False)
        for prose in parts[0::3]:
            for code in re.findall(r"`((?:personamem|lm_eval) [^`]+)`", prose):
                yield from _commands(name, " ".join(code.split()), in_sentence=True)


def _commands(document: str, line: str, *, in_sentence: bool) -> Iterator[Shown]:
    starts = re.compile(r"\s*(?:[A-Z_]+=\S+ )*(?:personamem|lm_eval) ")
    if starts.match(line):
        for command in filter(starts.match, line.partition(" > ")[0].split(" && ")):
            yield _shown(document, command, in_sentence=in_sentence)


def _shown(document: str, command: str, *, in_sentence: bool) -> Shown:
    words = shlex.split(command, comments=True)
    while "=" in words[0]:
        del words[0]
    # "And more arguments", or else the value of an option.
    words = [word for i, word in enumerate(words) if word != ELLIPSIS or words[i - 1].startswith("-")]
    return Shown(document, tuple(words), in_sentence)


SHOWN = list(dict.fromkeys(shown_commands()))


def test_the_documents_show_commands() -> None:
    assert len(SHOWN) > 60
    assert {shown.document for shown in SHOWN} >= {
        "README.md",
        "docs/generate.md",
        "docs/memory.md",
        "lm_eval_tasks/README.md",
    }


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_it_can_be_typed(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *arguments = shown.words
    if program == "lm_eval" or arguments[0] == "eval":
        check_lm_eval(arguments[program == "personamem" :], monkeypatch)
    else:
        check_click(arguments, shown.in_sentence)


def check_click(arguments: list[str], in_sentence: bool) -> None:
    """Parse a command as click does, without running it."""
    command: click.Command = cli
    context = click.Context(cli, info_name="personamem")
    while isinstance(command, click.Group) and arguments and arguments[0] not in ("--help", "-h"):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    if isinstance(command, click.Group) or arguments in (["--help"], ["-h"]):
        return
    try:
        command.make_context("personamem", arguments)
    except click.UsageError as error:
        if not (in_sentence and (isinstance(error, click.MissingParameter) or "requires an argument" in error.message)):
            raise


def check_lm_eval(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command as lm-eval does, and look the tasks and the settings up."""
    arguments, own = take_own(arguments)
    assert own.shard is None or parse_shard(own.shard)
    if arguments in ([], ["--help"]):
        return
    monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
    args = HarnessCLI().parse_args()
    for task in (name for names in args.tasks or () for name in names.split(",")):
        assert any((ROOT / "lm_eval_tasks").rglob(f"{task}.yaml")), f"there is no task {task}"
    metadata = args.metadata or {}
    given = simple_parse_args_string(metadata) if isinstance(metadata, str) else metadata
    assert set(given) <= settings(), f"no setting {set(given) - settings()}"


def settings() -> set[str]:
    """Return the keys of `--metadata` that `lm_eval_tasks/README.md` lists."""
    text = (ROOT / "lm_eval_tasks" / "README.md").read_text(encoding="utf-8")
    table = text.partition("| key | ")[2].partition("\n\n")[0]
    return {key for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}


def test_all_settings_that_the_tasks_take_are_listed() -> None:
    assert {"data", "config", "seed", "repo", "revision", "subset", "memory", "store", "k", "overlength"} <= settings()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("personamem generat tiny", "no command generat"),
        ("personamem view personamem --spilt 32k", "No such option"),
        ("personamem inspect personamem --format xml", "is not one of"),
        ("personamem publish personamem --tag v1.0.0", "repo_id"),
        ("personamem eval --tasks personamem_31k --model hf", "no task personamem_31k"),
        ("personamem eval --tasks personamem_32k --metadata dtaa=x --model hf", "no setting {'dtaa'}"),
    ],
)
def test_a_wrong_command_is_found(line: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = _commands("here", line, in_sentence=False)
    with pytest.raises((AssertionError, click.UsageError)) as raised:
        test_it_can_be_typed(shown, monkeypatch)
    assert message.lower() in str(raised.value).lower()
