"""`personamem canary`."""

from __future__ import annotations

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import json_option


@click.command(cls=Command, examples=["personamem canary --model hf --model_args pretrained=MODEL"])
@click.option("--model", required=True, help="Kind of model, as lm-eval calls it: hf, vllm, hf-prefix, …")
@click.option("--model_args", default="", help="Its arguments, as in lm-eval: pretrained=MODEL.")
@click.option("--batch_size", default="1", show_default=True, help="As in lm-eval: a number, or auto.")
@click.option("--device", help="As in lm-eval: cpu, cuda:0, …")
@click.option(
    "--samples", type=click.IntRange(19, 100_000), default=200, show_default=True, help="Random GUIDs to compare with."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random GUIDs.")
@json_option()
def canary(
    model: str, model_args: str, batch_size: str, device: str | None, samples: int, seed: int, as_json: bool
) -> None:
    """Test whether a model has been trained on data that personamem published.

    Every published file holds the canary, a GUID found nowhere else. The test compares its log-likelihood with
    those of random GUIDs (the exposure test of Carlini et al., The Secret Sharer, 2019). To a model that never saw the
    canary, every rank among them is equally likely.
    """
    import json
    import sys
    from contextlib import redirect_stdout
    from dataclasses import asdict

    from personamem_builder.evaluation.canary import in_words, load_model, measure

    with redirect_stdout(sys.stderr):  # where libraries print while a model loads
        found = measure(load_model(model, model_args, batch_size, device), samples, seed)
    if as_json:
        click.echo(json.dumps({**asdict(found), "exposure": found.exposure, "p_value": found.p_value}, indent=2))
    else:
        click.echo(in_words(found))
