"""The arguments of `personamem eval` that lm-eval does not know."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.errors import UserError

_OF_ESTIMATES: Final = ("json", "price", "llm_config", "requests_per_minute", "tokens_per_minute")

HELP: Final = """\
  --shard I/N   Ask one part of the questions, such as 3/8: whole contexts, about
                as many tokens in each part. `personamem merge` merges the parts.
  --estimate    Print what the run will take, and send nothing: requests, tokens,
                dollars and hours for an endpoint; tokens and memory for a local
                model. With it go
    --json                     print JSON
    --price IN,OUT[,CACHED]    dollars per million prompt, reply and cached tokens
    --llm-config FILE          a configuration of `personamem generate`, whose key
                               llm has prices and limits
    --requests-per-minute N, --tokens-per-minute N
                               limits of the endpoint, for the hours
"""


class OwnArguments(NamedTuple):
    """What was given; None or False where it was not.

    Attributes:
        shard: Which part is asked: `3/8`.
        estimate: Whether only the cost is asked for.
        json: Whether it is printed as JSON.
        price: Of the model.
        llm_config: File of a generator's configuration.
        requests_per_minute: Most requests of the endpoint.
        tokens_per_minute: Most tokens of the endpoint.
    """

    shard: str | None = None
    estimate: bool = False
    json: bool = False
    price: str | None = None
    llm_config: str | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


def take_own(arguments: Sequence[str]) -> tuple[list[str], OwnArguments]:
    """Return the arguments of lm-eval's command line, and our own, which are not among them.

    Raises:
        UserError: One that belongs to estimates is given without `--estimate`.
    """
    parser = argparse.ArgumentParser("personamem eval", add_help=False, allow_abbrev=False)
    parser.add_argument("--shard", metavar="I/N")
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--price", metavar="IN,OUT[,CACHED]")
    parser.add_argument("--llm-config", metavar="FILE")
    for name in ("--requests-per-minute", "--tokens-per-minute"):
        parser.add_argument(name, type=_positive, metavar="N")
    found, theirs = parser.parse_known_args(list(arguments))
    own = OwnArguments(**vars(found))
    if not own.estimate and (given := [name for name in _OF_ESTIMATES if getattr(own, name)]):
        raise UserError(f"--{given[0].replace('_', '-')} belongs to --estimate", "add it, or leave this out")
    return theirs, own


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value
