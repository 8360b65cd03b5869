"""`personamem new-topic`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from generation.errors import UserError
from generation.llm.prices import dollars
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, next_step


@click.command(
    name="new-topic",
    cls=Command,
    examples=['personamem new-topic "pet care" --backend openai:MODEL --out petCare.yaml'],
)
@click.argument("name")
@click.option("--backend", required=True, metavar="NAME", help="Who writes: openai:MODEL or hf:PATH.")
@click.option("--out", type=PATH, help="The file to write. [default: NAME in camel case, with .yaml]")
@click.option("--config", type=PATH, help="A configuration whose llm: settings apply.")
@click.option(
    "--budget", type=float, help="Stop when the calls have cost this many US dollars; rerun the command to resume."
)
def new_topic(name: str, backend: str, out: Path | None, config: Path | None, budget: float | None) -> None:
    """Have a language model write the topic bank NAME. Review it before you use it.

    Each part is checked and sent back with its faults. Faults that remain are printed with their lines, and the exit
    status is 1. Replies are kept in OUT.calls: rerun the command to ask only for what is missing.
    """
    from generation.banks.bank_file import HINT, placed
    from generation.config import LLMConfig, load_config
    from generation.files import replacing
    from generation.llm.backends import make_model, parse_backend
    from generation.llm.cache import ReplyCache
    from generation.llm.client import Account, Client
    from generation.llm.ledger import Ledger, check_budget
    from generation.llm.paid_models import ATTEMPTS, LEDGER, REPLIES
    from generation.llm.prices import known_prices
    from generation.new_topic import as_yaml, camel_case, write_topic

    check_budget(budget)
    writer = parse_backend(backend)
    if writer.is_offline:
        raise UserError("the offline backend knows no new topics", "give a model: --backend openai:MODEL")
    llm = load_config(config).llm if config is not None else LLMConfig()
    file = out or Path(f"{camel_case(name)}.yaml")
    if file.exists():
        raise UserError(f"{file} already exists", "give another --out, or move it away")
    model = make_model(writer, llm)
    calls = file.with_name(f"{file.name}.calls")
    calls.mkdir(parents=True, exist_ok=True)
    prices = {key: known.price for key, known in known_prices([writer.model], llm.prices).items()}
    ledger = Ledger(calls / LEDGER, prices, budget)
    ledger.require_prices([writer.model])
    account = Account(ledger, "new topic", writer.model, llm.reply_tokens)
    with ReplyCache(calls / REPLIES) as replies:
        client = Client(model, replies, ATTEMPTS, account)
        bank, faults, missing = write_topic(
            client, name, lambda part: click.echo(f"written: {part}", err=True), llm.concurrency
        )
    for reason in missing:
        click.echo(f"missing: {reason}")
    if missing:
        raise UserError(f"{len(missing)} parts are missing; {file} was not written", "rerun the command")
    head = f"The topic {name!r}, written by {writer.model} on {dt.datetime.now(dt.UTC).date()}; not reviewed yet."
    text = as_yaml(bank, head)
    with replacing(file) as part:
        part.write_text(text, encoding="utf-8")
    for fault in placed(file, text.encode(), faults):
        click.echo(fault)
    usage = ledger.summary()
    known = [line.cost for line in usage]
    cost = "unknown" if None in known else dollars(sum(cost or 0.0 for cost in known))
    click.echo(f"cost: {cost}; {sum(line.calls for line in usage):,} calls", err=True)
    click.echo(
        f"{file}: {len(bank['items'])} items, {len(bank['slots'])} slots, {len(bank['facts'])} kinds of facts, "
        f"{len(bank['threads'])} threads"
    )
    if faults:
        raise UserError(f"{len(faults)} faults are left: mend them in the file", HINT)
    next_step(f"read {file}, then name it under topics: in a configuration, and personamem generate CONFIG --preview")
