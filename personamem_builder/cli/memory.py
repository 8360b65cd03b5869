"""`personamem memory`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from generation.errors import UserError
from personamem_builder.cli.help import Group
from personamem_builder.cli.options import (
    PATH,
    data_option,
    json_option,
    next_step,
    note,
    ray_option,
    workers_of,
    workers_option,
)

budget_option: Final = click.option(
    "--budget-tokens",
    "budget",
    type=int,
    help="The most tokens of memories to show the model: the best first, the last one cut.",
)


@click.group(cls=Group)
def memory() -> None:
    """Run memory systems on a benchmark and compare what they find."""


@memory.command(
    short_help="Run a memory system on a split.",
    examples=[
        "personamem memory run --system bm25 --data personamem --split 32k",
        "personamem memory run --system mem0 --set model=gpt-4o-mini --split 32k --k 5",
    ],
)
@click.option(
    "--system",
    default="bm25",
    show_default=True,
    help="The system: bm25, dense, hybrid, summaries, mem0, http, arena:http://…, one of an installed package, or "
    "module:Class; or a control: none, full, oracle, wrong-user, recent.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the system (repeatable).")
@data_option
@click.option("--split", default="32k", show_default=True, help="The split.")
@click.option("--k", default=10, show_default=True, help="The most memories to ask for.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to keep results in. [default: in the cache]",
)
@click.option("--timeout", default=600.0, show_default=True, help="Seconds that a session or a query may take.")
@budget_option
@click.option(
    "--send-options", is_flag=True, help="Send the options with each search (arena only); marks the run TAINTED."
)
@workers_option("Histories to walk at a time, each in a process of its own.")
@ray_option()
@click.option(
    "--answer",
    type=click.Choice(["rules"]),
    help="Also answer the questions from what was found, by rules (generated data only).",
)
@json_option()
def run(
    system: str,
    settings: tuple[str, ...],
    data: str | None,
    split: str,
    k: int,
    out: Path | None,
    timeout: float,
    budget: int | None,
    send_options: bool,
    workers: int,
    ray: str | None,
    answer: str | None,
    as_json: bool,
) -> None:
    """Let a memory system read each history of a split once, and search it for each question.

    Results are kept: rerun the command to resume, and evaluate models on them with `personamem eval`, as the last line
    of the output says. With --workers or --ray, a history is kept once it is finished.
    """
    import json

    from personamem_builder.memory.benchmark import Reader, benchmark, can_be_parallel
    from personamem_builder.memory.summary import to_text
    from personamem_builder.text_table import terminal_width

    reader: Reader | None = None
    if answer:
        from personamem_builder.audit.memory_reader import read_with_rules as reader
    given = _settings(settings) | ({"send_options": True} if send_options else {})
    who = workers_of(workers, ray)
    if who != 1 and not can_be_parallel(system, given):
        note(f"{system} keeps one user at a time, so histories are walked one after the other: see docs/memory.md")
    summary, metadata = benchmark(
        data, split, system, given, k, out=out, timeout=timeout, budget=budget, reader=reader, workers=who
    )
    click.echo(json.dumps(summary, indent=2, ensure_ascii=False) if as_json else to_text(summary, terminal_width()))
    if "store" in summary:
        click.echo(f"the results are in {summary['store']}", err=True)
        click.echo(
            f"next: personamem eval --tasks personamem_{split} --metadata '{json.dumps(metadata)}' --model …", err=True
        )
    queries, sessions = summary.get("failed_queries", 0), summary.get("failed_sessions", 0)
    if queries or sessions:
        raise UserError(
            f"{system} failed at {queries} queries and {sessions} sessions: {summary['first_error']}",
            "rerun the command to resume: it asks again only what failed, and what came after it",
        )


@memory.command(
    short_help="Compare two systems question by question.",
    examples=["personamem memory compare memory/bm25 memory/dense"],
)
@click.argument("first", metavar="A", type=PATH)
@click.argument("second", metavar="B", type=PATH)
@data_option
@budget_option
@json_option()
def compare(first: Path, second: Path, data: str | None, budget: int | None, as_json: bool) -> None:
    """Compare what two systems found: A and B are folders of `personamem memory run --out`.

    Differences are paired, on the questions that both were asked, with 95 % intervals clustered by user.
    """
    import json

    from personamem_builder.memory.comparison import compare_stores
    from personamem_builder.memory.summary import comparison_to_text

    stores, differences = compare_stores(first, second, data, budget)
    if as_json:
        shown = {"first": str(first), "second": str(second), "measures": [line._asdict() for line in differences]}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    click.echo(comparison_to_text(stores, differences))
    for store in stores:
        if store.tainted:
            click.echo(f"TAINTED: {store.folder}, {len(store.tainted)} questions; see `personamem memory run`")


@memory.command(
    short_help="Install a memory system in an environment of its own.",
    examples=["personamem memory setup langmem", "personamem memory setup mem0 --local-embedder"],
)
@click.argument("name")
@click.option("--local-embedder", is_flag=True, help="Also install what local embeddings need.")
def setup(name: str, local_embedder: bool) -> None:
    """Install a memory system at a pinned version, in an environment of its own in the cache.

    NAME is mem0, a-mem, langmem, graphiti, cognee or hindsight. `personamem memory run --system NAME` then starts and
    stops it.
    """
    from personamem_builder.memory.isolated.environments import isolated_systems, set_up

    python = set_up(name, local_embedder=local_embedder)
    click.echo(f"{name} ({', '.join(isolated_systems()[name].requires)}) is in {python.parents[1]}")
    next_step(f"personamem memory run --system {name} --set model=… --set base_url=…")


@memory.command(
    short_help="Check that a memory system behaves as the benchmark expects.",
    examples=["personamem memory check my_memory:LastWords", "personamem memory check bm25"],
)
@click.argument("system", metavar="SYSTEM")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the system (repeatable).")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds that one call may take.")
@json_option()
def check(system: str, settings: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """Check with made-up users that a memory system behaves as the benchmark expects.

    SYSTEM is named as in `personamem memory run --system`. The checks: order, isolation of users, leaks, forgetting,
    persistence, a crash, odd texts, and time limits. The exit status is 1 if one fails.
    """
    import json
    from textwrap import fill

    from personamem_builder.memory.conformance import check_system
    from personamem_builder.text_table import terminal_width, text_table

    verdicts = check_system(system, _settings(settings), timeout)
    if as_json:
        click.echo(json.dumps([verdict._asdict() for verdict in verdicts], indent=2, ensure_ascii=False))
    else:
        room = max(30, terminal_width() - max(len(verdict.check) for verdict in verdicts) - _RESULT)
        rows = [[*verdict[:-1], fill(verdict[-1], room)] for verdict in verdicts]
        click.echo(text_table([["check", "result", "what was found"], *rows], "lll", ruled=True))
    if failed := [verdict.check for verdict in verdicts if verdict.status == "FAILED"]:
        raise UserError(
            f"{system} failed {len(failed)} of {len(verdicts)} checks: {', '.join(failed)}",
            "docs/memory.md says what each checks",
        )


_RESULT: Final = 10
"""Columns of a result of `check`, with the gaps beside it."""


def _settings(given: Sequence[str]) -> dict[str, Any]:
    from generation.yaml_reading import parse_yaml

    settings: dict[str, Any] = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise UserError(f"--set {setting} is not a setting", "give KEY=VALUE, such as --set unit=session")
        settings[key] = parse_yaml(value, f"--set {key}", "put a text with such signs in quotes: --set KEY='\"TEXT\"'")
    return settings
