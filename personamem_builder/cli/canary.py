"""`personamem canary`."""

from __future__ import annotations

import click

from personamem_builder.cli.options import json_option


@click.command()
@click.option("--model", required=True, help="lm-eval's name of the model's kind: hf, vllm, hf-prefix, …")
@click.option("--model_args", default="", help="Its arguments, as lm-eval has them: pretrained=MODEL.")
@click.option("--batch_size", default="1", show_default=True, help="As lm-eval has it: a number, or auto.")
@click.option("--device", help="As lm-eval has it: cpu, cuda:0, …")
@click.option(
    "--samples", type=click.IntRange(19, 100_000), default=200, show_default=True, help="Random GUIDs to compare with."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of these.")
@json_option()
def canary(
    model: str, model_args: str, batch_size: str, device: str | None, samples: int, seed: int, as_json: bool
) -> None:
    """Test whether a model has seen our data: whether it finds their canary likelier than other GUIDs.

    Every published file holds the canary, a GUID that is nowhere else. Its log-likelihood is compared with those of
    random GUIDs of the same form (the exposure test of Carlini et al., The Secret Sharer, 2019). A model that never
    saw it gives each rank with the same probability.

    personamem canary --model hf --model_args pretrained=MODEL
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
