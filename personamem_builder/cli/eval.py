"""`personamem eval`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from personamem_builder.cli.help import Command, write_examples
from personamem_builder.cli.options import next_step, note, print_json

if TYPE_CHECKING:
    from personamem_builder.evaluation.estimate import Estimate

_PART: Final = re.compile(r"part-\d+-of-\d+")
_GIGABYTE: Final = 10**9


_EXAMPLES: Final = (
    "personamem eval --tasks personamem_32k --model hf --model_args pretrained=MODEL --apply_chat_template",
    "personamem eval --tasks personamem_32k --model personamem-floor --model_args policy=longest",
    "personamem eval --config examples/eval/openai.yaml --estimate",
)


@click.command(
    cls=Command,
    examples=_EXAMPLES,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def evaluate(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Evaluate a model with lm-eval: ARGUMENTS are lm-eval's own, and some of ours.

    `personamem eval --help` shows both.
    """
    from personamem_builder.evaluation.own_arguments import HELP, take_own
    from personamem_builder.evaluation.run import Unanswered, estimate_lm_eval, run_lm_eval

    if not arguments or arguments[0] in ("-h", "--help"):
        formatter = ctx.make_formatter()
        write_examples(_EXAMPLES, formatter)
        click.echo(
            "personamem eval evaluates a model with lm-eval. It takes all arguments of\n"
            f"`lm_eval run` (shown by `personamem eval run --help`), and these:\n\n{HELP}\n{formatter.getvalue()}"
        )
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
    from personamem_builder.text_table import terminal_width, text_table

    if as_json:
        print_json(estimate.to_json())
        return
    columns = _LOCAL if estimate.is_local else _ENDPOINT
    lines = [(one.task, one._asdict()) for one in estimate.tasks]
    if len(lines) > 1:
        lines.append(("all", {name: sum(own[name] for _, own in lines) for name in columns.values()}))
    rows = [[name, *(f"{own[field]:,}" for field in columns.values())] for name, own in lines]
    click.echo(text_table([["task", *columns], *rows], "lr", width=terminal_width()))
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
    "requests": "requests",
    "prompt\ntokens": "prompt_tokens",
    "of these\ncached": "cached_tokens",
    "reply\ntokens": "reply_tokens",
    "at most": "most_reply_tokens",
}
_LOCAL: Final = {
    "requests": "requests",
    "one by one": "prompt_tokens",
    "distinct": "distinct_tokens",
    "computed": "computed_tokens",
    "at most\nwritten": "most_reply_tokens",
}
"""Of each column its title, and the field that it shows."""
