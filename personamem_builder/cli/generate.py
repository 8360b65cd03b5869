"""`personamem generate`."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click

from generation.banks.load import load_banks
from generation.config import MAX_USERS, Config, load_config
from generation.errors import UserError
from generation.llm.backends import OFFLINE, parse_backend
from generation.llm.ledger import check_budget
from generation.llm.prices import described_price, dollars, known_prices
from generation.llm.usage import Usage
from generation.pipeline import Generated
from generation.pipeline import generate as generate_run
from generation.preview import estimate as estimate_run
from generation.preview import preview as preview_run
from generation.resources import install_hint
from generation.run_config import numbers_shown
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.sharded_run import MadeShard, make_shard, make_shards, shard_inputs
from generation.shards import MAX_SHARDS, SHARDS, Shard, check_count, parse_shard, read_done, shards_there
from generation.store import FailedItem, RunStore
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, json_option, ray_option, workers_of, workers_option
from personamem_builder.text_table import terminal_width, text_table


@click.command(
    cls=Command,
    examples=[
        "personamem generate tiny --preview",
        "personamem generate examples/full.yaml --out runs/full --workers 2",
        "personamem generate examples/tiny.yaml --personas 0-9",
        "personamem generate examples/full.yaml --out runs/big --shard 3/16",
        "personamem generate examples/tiny.yaml --backend openai:MODEL --budget 5 --estimate",
    ],
)
@click.argument("config", type=PATH)
@click.option("--out", type=PATH, help="Folder of the run. [default: runs/NAME of CONFIG]")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="[STAGE=]NAME",
    help="Who writes the text: offline, openai:MODEL or hf:PATH; STAGE=NAME sets it for one stage (repeatable). "
    "reader=NAME checks what the others wrote; otherwise each model checks its own text. [default: offline]",
)
@click.option(
    "--personas",
    metavar="A-B",
    help="Users to make, numbered from 0: 0-9 are the first ten. To a run with 0-4 it adds 5-9. [default: as many as "
    "CONFIG says]",
)
@click.option("--shard", "shard_text", metavar="I/N", help="Make shard I of N, such as 3/16: one part of the users.")
@click.option("--shards", type=click.IntRange(1, MAX_SHARDS), metavar="N", help="Make all N shards, one after another.")
@click.option(
    "--budget", type=float, help="Stop when the run has cost this many US dollars; rerun the command to resume."
)
@workers_option("Processes for the offline backend.")
@ray_option()
@click.option("--preview", is_flag=True, help="Print a sample; write nothing.")
@click.option("--estimate", is_flag=True, help="Print calls, tokens and cost; write nothing.")
@json_option("Print the counts, or the estimate, as JSON.")
def generate(
    config: Path,
    out: Path | None,
    backends: tuple[str, ...],
    personas: str | None,
    shard_text: str | None,
    shards: int | None,
    budget: float | None,
    workers: int,
    ray: str | None,
    preview: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Generate users with their histories, sessions and questions from CONFIG.

    CONFIG is a YAML file (see `personamem init`) or the name of a shipped one: tiny, full or written.

    Rerun the command to resume an interrupted run. The same configuration always gives the same bytes, with any number
    of workers and on a Ray cluster.

    To add users to a run later, raise personas in CONFIG or use --personas: those that are there do not change.

    Split a large run into shards, equal parts of its users, made one after another (--shards) or by several machines
    that share a disk (--shard). Later commands read the shards as one run. --budget covers all shards of the command.

    openai:MODEL is any OpenAI-compatible endpoint. Set OPENAI_API_KEY, and OPENAI_BASE_URL if it is not OpenAI's own.
    Items without a usable reply are listed in failed.jsonl, and the exit status is 1: rerun the command to try them
    again. Replies are kept, so you never pay for one twice.
    """
    check_budget(budget)
    if shard_text is not None and shards is not None:
        raise click.UsageError("give --shard for one shard, or --shards for all")
    settings = load_config(config)
    if personas is not None:
        settings = _with_users(settings, personas)
    work = RunInputs(settings, load_banks(settings), *_backends(backends))
    if preview:
        click.echo(preview_run(work))
        return
    folder = out or Path("runs") / config.stem
    shard = parse_shard(shard_text) if shard_text is not None else None
    if shard is not None:
        check_count(shard.of, settings.personas)
    if estimate:
        _print_estimate(shard_inputs(work, shard) if shard else _left(work, folder), as_json)
        return
    processes = workers_of(workers, ray)
    if shard is not None:
        made = _of_shard(make_shard(work, folder, shard, processes, budget))
        work = shard_inputs(work, shard)
    elif shards is not None:
        check_count(shards, settings.personas)
        made = _together(folder, list(_said(make_shards(work, folder, shards, processes, budget))))
    else:
        store = RunStore.open(folder, work.fingerprint(), _forget_refinement)
        made = _Made.of(folder, generate_run(work, store, processes, budget))
    _print_made(made, work, as_json)
    if made.failures:
        _fail(made, folder)
    click.echo(_next(work, folder, shard), err=True)


class _Made(NamedTuple):
    """What a command made.

    Attributes:
        folder: Of the run, or of the shard that was made.
    """

    folder: Path
    counts: Mapping[str, int]
    failures: Sequence[FailedItem]
    usage: Usage | None

    @classmethod
    def of(cls, folder: Path, made: Generated) -> _Made:
        usage = Usage.of(made.ledger) if made.ledger is not None else None
        return cls(folder, made.counts, made.failures, usage)


def _of_shard(shard: MadeShard) -> _Made:
    return _Made.of(shard.store.folder, shard.generated)


def _said(shards: Iterable[MadeShard]) -> Iterator[_Made]:
    """Yield what was made of each shard, and say that it is finished."""
    for shard in shards:
        click.echo(f"{shard.store.folder}: {'made' if shard.is_new else 'was there'}", err=True)
        yield _of_shard(shard)


def _together(folder: Path, shards: Sequence[_Made]) -> _Made:
    """Return what was made of a run in all its shards."""
    usages = [made.usage for made in shards if made.usage is not None]
    return _Made(
        folder,
        {stage: sum(made.counts[stage] for made in shards) for stage in STAGES},
        [failure for made in shards for failure in made.failures],
        Usage.together(usages) if usages else None,
    )


def _print_made(made: _Made, work: RunInputs, as_json: bool) -> None:
    folder, counts, failures, usage = made
    if as_json:
        paid = usage._asdict() if usage is not None else {}
        click.echo(json.dumps({"run": str(folder), **counts, "failed": len(failures), **paid}))
    else:
        click.echo(f"{folder}: " + ", ".join(f"{count} {stage}" for stage, count in counts.items()))
    settings = work.config
    asked = settings.personas * len(settings.topics) * sum(settings.questions_per_topic.values())
    if counts["questions"] < asked:
        click.echo(f"note: {asked} questions were asked for; the histories give {counts['questions']}", err=True)
    if usage is not None:
        _print_usage(usage, is_independent=bool(work.reader))


def _next(work: RunInputs, folder: Path, shard: Shard | None) -> str:
    """Return what a user may do next."""
    if shard is None:
        topic = next(iter(work.banks.topics))
        return f"next: personamem timeline {folder} --persona {work.config.first_persona} --topic {topic}"
    finished = sum(read_done(path) is not None for path in shards_there(folder).values())
    if finished < shard.of:
        return f"note: {finished} of {shard.of} shards finished"
    return f"next: personamem assemble {folder}"


def _with_users(config: Config, text: str) -> Config:
    """Return a configuration with the users that `--personas` gives."""
    match = re.fullmatch("([0-9]{1,7})-([0-9]{1,7})", text)
    first, last = map(int, match.groups()) if match else (0, -1)
    if not first <= last < MAX_USERS:
        raise UserError(
            f"--personas {text[:40]!r} is not a range of users",
            f"give the first and the last, numbered from 0 to {MAX_USERS - 1}: --personas 0-9",
        )
    return config.model_copy(update={"first_persona": first, "personas": last - first + 1})


def _forget_refinement(store: RunStore) -> None:
    """Take back what `personamem refine` decided: it looks at all users at once."""
    from personamem_builder.refine.commit import forget

    if forget(store):
        click.echo(
            f"note: the questions of {store.folder} are again as they were made; once it has its new users: "
            f"personamem refine {store.folder}",
            err=True,
        )


def _left(work: RunInputs, folder: Path) -> RunInputs:
    """Return what is left to make of a run: where it is there and is to get more users, these alone."""
    store = RunStore(folder)
    if not store.is_there():
        return work
    there, users = store.users(), work.config.users
    if there.start != users.start or there.stop >= users.stop:
        return work
    new = range(there.stop, users.stop)
    click.echo(f"note: {folder} has users {numbers_shown(there)}; this is for users {numbers_shown(new)}", err=True)
    config = work.config.model_copy(update={"first_persona": new.start, "personas": len(new), "fillers": 0})
    return work._replace(config=config)


def _fail(made: _Made, folder: Path) -> NoReturn:
    listed = ", ".join(f"{count} {stage}" for stage, count in Counter(one.stage for one in made.failures).items())
    where = made.folder / (f"{SHARDS}/*/failed.jsonl" if RunStore(made.folder).is_sharded else "failed.jsonl")
    click.echo(f"failed: {listed}; why is in {where}", err=True)
    click.echo(f"next: rerun the command to try them again; or personamem assemble {folder}, without them", err=True)
    sys.exit(1)


def _print_usage(usage: Usage, is_independent: bool) -> None:
    def cost(amount: float | None) -> str:
        return "unknown" if amount is None else dollars(amount)

    click.echo(
        f"cost: {cost(usage.cost)}; {usage.calls:,} calls, {usage.prompt_tokens:,} prompt tokens and "
        f"{usage.reply_tokens:,} reply tokens",
        err=True,
    )
    if usage.cost:
        for name, costs in (("user", usage.cost_by_persona), ("topic", usage.cost_by_topic)):
            shown = ", ".join(f"{key} {cost(amount)}" for key, amount in [*costs.items()][:_SHOWN])
            more = f" and {len(costs) - _SHOWN} more (--json has all)" if len(costs) > _SHOWN else ""
            click.echo(f"by {name}: {shown}{more}", err=True)
    if usage.readings:
        click.echo(
            f"read back: the reader disagreed with the writer about {usage.disagreements} of {usage.readings} texts",
            err=True,
        )
        if not is_independent:
            click.echo(
                "note: the reader was the writer; --backend reader=openai:MODEL has another model read", err=True
            )


_SHOWN: Final = 20


def _backends(given: tuple[str, ...]) -> tuple[str, dict[str, str], str]:
    """Return the backend of a run, those of single stages, and the reader; empty if that is the writer."""
    backend, stages, reader = OFFLINE, {}, ""
    for text in given:
        stage, equals, name = text.partition("=")
        if equals and stage in STAGES:
            parse_backend(name)
            stages[stage] = name
        elif equals and stage == _READER:
            if parse_backend(name).is_offline:
                raise UserError(f"--backend {text}: the offline backend cannot read", "give a model: openai:MODEL")
            reader = name
        elif equals and ":" not in stage:
            names = ", ".join([*STAGES, _READER])
            raise UserError(f"--backend {text}: there is no stage {stage!r}", f"give one of {names}")
        else:
            parse_backend(text)
            backend = text
    return backend, stages, reader


_READER: Final = "reader"


def _print_estimate(work: RunInputs, as_json: bool) -> None:
    entries = estimate_run(work)
    if as_json:
        click.echo(json.dumps([entry._asdict() for entry in entries]))
        return
    rows = [["call", "calls", "prompt\ntokens", "reply\ntokens", "$", ""]]
    for entry in entries:
        cost = "unknown" if entry.cost is None else f"{entry.cost:.2f}"
        name = f"({entry.template} of {entry.stage})" if entry.if_needed else entry.template
        figures = (entry.calls, entry.prompt_tokens, entry.reply_tokens)
        rows.append([name, *(f"{figure:,}" for figure in figures), cost, entry.model])
    sure = [entry for entry in entries if not entry.if_needed]
    prompts, replies = (sum(getattr(entry, name) for entry in sure) for name in ("prompt_tokens", "reply_tokens"))
    costs = [entry.cost for entry in sure]
    known = f"{sum(cost for cost in costs if cost is not None):.2f}{' and more' if None in costs else ''}"
    name = "all" if sure == entries else "all but those in ( )"
    rows.append([name, f"{sum(entry.calls for entry in sure):,}", f"{prompts:,}", f"{replies:,}", known, ""])
    click.echo(text_table(rows, "lrrrrl", width=terminal_width()))
    models = dict.fromkeys(entry.model for entry in entries if entry.model)
    for model, price in known_prices(models, work.config.llm.prices).items():
        click.echo(f"price: {described_price(model, price)}", err=True)
    if not models:
        seconds = sum(entry.seconds for entry in entries)
        click.echo(f"the offline backend needs about {seconds:.0f} s in one process and costs nothing", err=True)
        return
    if sure != entries:
        click.echo("note: ( ) is one call for each text; it is made where one is too short or found faulty", err=True)
    most = sum(entry.most_calls for entry in entries if entry.model)
    click.echo(f"note: repairs cannot be known; with all that there may be, it is {most:,} calls at most", err=True)
    if unpriced := list(dict.fromkeys(entry.model for entry in entries if entry.cost is None)):
        hint = f"set llm.prices in the configuration, or {install_hint('prices')}"
        click.echo(f"note: no price is known of {', '.join(unpriced)}: {hint}", err=True)
