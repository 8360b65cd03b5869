"""`personamem eval`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from personamem_builder.cli.options import next_step, note, print_json

if TYPE_CHECKING:
    from personamem_builder.evaluation.estimate import Estimate

_PART: Final = re.compile(r"part-\d+-of-\d+")
_GIGABYTE: Final = 10**9


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def evaluate(arguments: tuple[str, ...]) -> None:
    """Run lm-eval with the personamem tasks and models: ARGUMENTS are lm-eval's own, --shard and --estimate."""
    from personamem_builder.evaluation.own_arguments import HELP, take_own
    from personamem_builder.evaluation.run import Unanswered, estimate_lm_eval, run_lm_eval

    if not arguments or arguments[0] in ("-h", "--help"):
        click.echo(f"personamem eval takes the arguments of lm-eval's command line, and some of its own:\n\n{HELP}")
        click.echo("lm-eval says of itself:\n")
    if take_own(arguments)[1].estimate:
        _print_estimate(estimate_lm_eval(arguments), as_json=take_own(arguments)[1].json)
        return
    unanswered: Unanswered | None = None
    try:
        written = run_lm_eval(arguments)
    except Unanswered as error:
        unanswered, written = error, error.written
    for path in written:
        click.echo(f"wrote {path}", err=True)
        next_step(_next(path.parent))
    if unanswered:
        raise unanswered


def _next(folder: Path) -> str:
    """Return what may be done with results in a folder: those of a part lie in the folder of the part."""
    part = next((one for one in (folder, *folder.parents) if _PART.fullmatch(one.name)), None)
    return f"personamem report {folder}" if part is None else f"personamem merge {part.parent}"


def _print_estimate(estimate: Estimate, *, as_json: bool) -> None:
    from generation.llm.prices import described_price

    if as_json:
        print_json(estimate.to_json())
        return
    columns = _LOCAL if estimate.is_local else _ENDPOINT
    click.echo(f"{'task':38}" + "".join(f"{title:>{width}}" for title, (_, width) in columns.items()))
    lines = [(one.task, one._asdict()) for one in estimate.tasks]
    if len(lines) > 1:
        lines.append(("all", {name: sum(own[name] for _, own in lines) for name, _ in columns.values()}))
    for name, own in lines:
        click.echo(f"{name:38}" + "".join(f"{own[field]:>{width},}" for field, width in columns.values()))
    if cache := estimate.kv_cache:
        gigabytes = cache.bytes / _GIGABYTE
        click.echo(
            f"key-value cache of the longest request, {cache.tokens:,} tokens in {cache.dtype}: {gigabytes:.2f} GB"
        )
    if dollars := estimate.dollars:
        click.echo(
            f"${dollars.expected:,.2f}; ${dollars.without_cache:,.2f} if the endpoint caches nothing; "
            f"${dollars.most:,.2f} if it does not and every reply is as long as it may be"
        )
    if estimate.hours is not None:
        click.echo(f"{estimate.hours:,.2f} hours at the limits")
    for known in estimate.prices:
        click.echo(f"price: {described_price(estimate.model, known)}", err=True)
    for text in estimate.notes:
        note(text)


_ENDPOINT: Final = {
    "requests": ("requests", 10),
    "prompt tokens": ("prompt_tokens", 16),
    "of these cached": ("cached_tokens", 17),
    "reply tokens": ("reply_tokens", 14),
    "at most": ("most_reply_tokens", 12),
}
_LOCAL: Final = {
    "requests": ("requests", 10),
    "one by one": ("prompt_tokens", 16),
    "distinct": ("distinct_tokens", 15),
    "computed": ("computed_tokens", 16),
    "at most written": ("most_reply_tokens", 17),
}
"""Of each column its title, the field that it shows, and its width."""
