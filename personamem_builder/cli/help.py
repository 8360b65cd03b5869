"""What commands share as commands: help with groups and examples, variables of the environment, near misses."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import click

_INDENT: Final = 2


class Command(click.Command):
    """A command whose help ends with examples, and whose options are variables of the environment by their flags.

    Args:
        examples: Command lines, each of which can be typed as it is, but for names in capitals.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; where a flag is not given, the variable of its name counts, and not of its parameter's."""
        for option in self.params:
            if isinstance(option, click.Option) and option.allow_from_autoenv and not option.envvar:
                flag = max(option.opts, key=len).strip("-").replace("-", "_").upper()
                option.envvar = f"{ctx.auto_envvar_prefix}_{flag}" if ctx.auto_envvar_prefix else None
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each on lines that a shell takes as one command."""
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


class Group(click.Group):
    """A command with commands of its own, whose help can have examples too."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write a section of command lines; those that are too long go on in the next line, before an option."""
    if not examples:
        return
    with formatter.section("Examples"):
        for example in examples:
            formatter.write("".join(f"{' ' * _INDENT}{line}\n" for line in _folded(example, formatter.width - _INDENT)))


def _folded(command: str, width: int) -> list[str]:
    """Return a command line in lines of at most a width, where its words allow it."""
    lines: list[str] = []
    for word in _words(command):
        if lines and len(lines[-1]) + 1 + len(word) + len(" \\") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}" if lines else word)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _words(command: str) -> list[str]:
    """Return the words of a command line as they are typed, an option together with its value."""
    parts: list[str] = []
    for word in shlex.split(command, posix=False):
        if parts and parts[-1].startswith("-") and " " not in parts[-1] and not word.startswith("-"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


def write_groups(groups: Mapping[str, Mapping[str, str]], formatter: click.HelpFormatter) -> None:
    """Write a section for each group of commands, with what each does, all summaries in one column."""
    width = max(len(name) for commands in groups.values() for name in commands)
    for title, commands in groups.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])


def no_such_command(name: str, known: Sequence[str]) -> str:
    """Return what is said of a command that is not there, with those that may be meant."""
    near = get_close_matches(name, known)
    return f"No such command {name!r}." + (f" Did you mean {' or '.join(map(repr, near))}?" if near else "")
