"""What all commands have in common: help, examples, variables of the environment, near misses, versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version

import click
import pytest
from click.shell_completion import BashComplete
from command_line import personamem

from personamem_builder.cli import _COMMANDS, _GROUPS, cli
from personamem_builder.cli.help import Command, Group


def all_commands(group: click.Group = cli, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from all_commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


ALL = dict(all_commands())
WITH_OWN_HELP = [name for name in ALL if name != "eval"]  # lm-eval parses what follows `eval`


def test_the_help_has_the_groups_in_the_order_of_the_work() -> None:
    lines = personamem("--help").out.splitlines()
    shown = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert shown == ["Options", "Make", "Check", "Evaluate", "Look", "Publish", "Memory", "Examples"]
    order = [found[1] for found in map(re.compile(r"  ([a-z][\w-]*)  +[A-Z]").match, lines) if found]
    assert order == [name for commands in _GROUPS.values() for name in commands]
    assert [line for line in lines if len(line) > 80] == []
    assert all(summary in personamem("--help").out for summary in _COMMANDS.values()), "each fits on its line"


@pytest.mark.parametrize("name", WITH_OWN_HELP)
def test_every_command_has_examples_that_can_be_typed(name: str) -> None:
    command = ALL[name]
    assert isinstance(command, Command)
    assert command.examples
    shown = personamem(*name.split(), "--help").out.partition("\nExamples:\n")[2]
    joined = " ".join(shown.replace("\\\n", " ").split())
    for example in command.examples:
        assert " ".join(example.split()) in joined
        program, *words = shlex.split(example)
        if program == "personamem":
            assert words[: len(name.split())] == name.split()
            command.make_context(name, words[len(name.split()) :])  # raises what click has against it


@pytest.mark.parametrize("name", WITH_OWN_HELP)
def test_help_fits_80_columns_and_ends_its_first_line_with_a_full_stop(name: str) -> None:
    shown = personamem(*name.split(), "--help", COLUMNS="200").out
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert (ALL[name].help or "").split("\n\n")[0].strip().endswith(".")


def test_json_is_a_flag_and_out_a_path_everywhere() -> None:
    for name, command in ALL.items():
        for option in command.params:
            assert isinstance(option, click.Option | click.Argument)
            if "--json" in option.opts:
                assert (option.name, option.type.name) == ("as_json", "boolean"), name
            if "--out" in option.opts:
                assert isinstance(option.type, click.Path), name
            assert isinstance(option, click.Option) or option.name != "out", name


def test_every_option_is_a_variable_by_the_name_of_its_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    @click.command(cls=Command)
    @click.option("--json", "as_json", is_flag=True)
    @click.option("-n", "--max-items", "count", type=int)
    @click.option("--split", "splits", multiple=True)
    def show(**values: object) -> None:
        seen.append(values)

    group = Group("tool", commands={"show-it": show}, context_settings={"auto_envvar_prefix": "TOOL"})
    for name, value in {"JSON": "1", "MAX_ITEMS": "3", "SPLIT": "a b"}.items():
        monkeypatch.setenv(f"TOOL_SHOW_IT_{name}", value)
    monkeypatch.setenv("TOOL_SHOW_IT_COUNT", "4")
    group.main(["show-it"], standalone_mode=False)
    group.main(["show-it", "--max-items", "5"], standalone_mode=False)
    assert [values["count"] for values in seen] == [3, 5]
    assert seen[0] == {"as_json": True, "count": 3, "splits": ("a", "b")}


def test_a_long_example_goes_on_before_an_option_and_is_still_one_command() -> None:
    example = 'tool run --name "a b" ' + " ".join(f"--option-{number} value" for number in range(9))
    command = Command("run", examples=[example])
    lines = command.get_help(click.Context(command)).partition("Examples:\n")[2].splitlines()
    assert len(lines) > 2
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert all(line.strip().startswith("--") for line in lines[1:])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(example)


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["generat"], "'generate'"), (["memory", "rum"], "'run'"), (["view", "--spilt", "32k"], "'--split'")],
)
def test_a_near_miss_names_what_may_be_meant(words: list[str], meant: str) -> None:
    outcome = personamem(*words)
    assert outcome.exit_code == 2
    assert "Did you mean" in outcome.err
    assert meant in outcome.err


def test_what_is_like_nothing_is_only_refused() -> None:
    outcome = personamem("xyzzy")
    assert outcome.exit_code == 2
    assert outcome.err.endswith("Error: No such command 'xyzzy'.\n")


def test_the_version_names_the_libraries_on_which_scores_depend() -> None:
    lines = dict(line.split(" ", 1) for line in personamem("--version").out.splitlines())
    assert list(lines) == ["personamem", "lm-eval", "datasets", "torch"]
    assert lines["datasets"] == version("datasets")


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: list[str], incomplete: str) -> list[str]:
        found = BashComplete(cli, {}, "personamem", "_PERSONAMEM_COMPLETE").get_completions(words, incomplete)
        return [item.value for item in found]

    assert completed([], "pub") == ["publish", "publish-space"]
    assert completed([], "--v") == ["--version"]
    assert completed(["memory"], "c") == ["check", "compare"]
    assert completed(["audit"], "--h") == ["--html", "--help"]
