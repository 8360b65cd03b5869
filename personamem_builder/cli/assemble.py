"""`personamem assemble`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from generation.store import RunStore
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import json_option, next_step, ray_option, run_argument, workers_of, workers_option


@click.command(
    cls=Command,
    examples=[
        "personamem assemble runs/full",
        "personamem assemble runs/full --split 32k --split 128k",
        "personamem assemble runs/full --n-blocks 1-10",
    ],
)
@run_argument
@click.option("--split", "splits", multiple=True, help="32k, 128k or 1M (repeatable). [default: all three]")
@click.option("--n-blocks", help="Sessions in a context, instead of --split: a number, or a range such as 1-10.")
@click.option(
    "--max-tokens", type=click.IntRange(1, 1_000_000_000), help="With --n-blocks: the most tokens in a context."
)
@click.option(
    "--n-variants", type=click.IntRange(1, 1_000), default=2, show_default=True, help="Contexts for each user."
)
@workers_option()
@ray_option()
@json_option("Print the counts as JSON.")
def assemble(
    run: Path,
    splits: tuple[str, ...],
    n_blocks: str | None,
    max_tokens: int | None,
    n_variants: int,
    workers: int,
    ray: str | None,
    as_json: bool,
) -> None:
    """Assemble the sessions of a RUN into long contexts, and place its questions in them.

    A range of --n-blocks makes one split for each size (1blocks, 2blocks, …), each history a prefix of the next.
    """
    from personamem_builder.assemble.assemble import assemble as assemble_run
    from personamem_builder.assemble.sizes import chosen_sizes

    sizes = chosen_sizes(splits, n_blocks, max_tokens)
    counts = assemble_run(RunStore(run), sizes, n_variants, workers_of(workers, ray))
    if as_json:
        click.echo(json.dumps(counts))
    else:
        for split, count in counts.items():
            click.echo(f"{split}: {count['contexts']} contexts, {count['questions']} questions")
    next_step(f"personamem build {run} --out personamem")
