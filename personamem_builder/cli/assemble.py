"""`personamem assemble`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from generation.store import RunStore
from personamem_builder.cli.options import json_option, next_step, ray_option, run_argument, workers_of, workers_option


@click.command()
@run_argument
@click.option("--split", "splits", multiple=True, help="32k, 128k or 1M (repeatable). [default: all three]")
@click.option("--n-blocks", help="Sessions of a context instead of a --split: a number, or a range such as 1-10.")
@click.option("--max-tokens", type=click.IntRange(1, 1_000_000_000), help="With --n-blocks: nominal size of a context.")
@click.option(
    "--n-variants", type=click.IntRange(1, 1_000), default=2, show_default=True, help="Contexts of each persona."
)
@workers_option()
@ray_option()
@json_option("Print the counts as JSON.", "PERSONAMEM_ASSEMBLE_JSON")
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
    """Put the sessions of a RUN together to long contexts, and place its questions in them.

    A range of --n-blocks makes a split for each size, 1blocks, 2blocks and so on, each history a prefix of the next.

    personamem assemble runs/full --split 32k --split 128k
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
