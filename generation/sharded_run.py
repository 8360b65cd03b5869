"""A run in shards: one of them made, or all one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from generation.llm.ledger import Ledger
from generation.llm.paid_models import LEDGER
from generation.parallel import Workers
from generation.pipeline import Generated, generate
from generation.run_inputs import RunInputs
from generation.shards import Shard, drop_done, is_unchanged, mark_done, read_done, shards_there
from generation.store import RunStore


class MadeShard(NamedTuple):
    """A shard that is finished.

    Attributes:
        store: Its own folder.
        is_new: Whether there was anything left to make.
    """

    store: RunStore
    generated: Generated
    is_new: bool


def shard_inputs(work: RunInputs, shard: Shard) -> RunInputs:
    """Return what a shard is made from: the same for fewer users; the first shard has the fillers too."""
    users = shard.users(work.config.users)
    own = {"first_persona": users.start, "personas": len(users), "fillers": shard.fillers(work.config.fillers)}
    return work._replace(config=work.config.model_copy(update=own))


def make_shard(
    work: RunInputs,
    folder: Path,
    shard: Shard,
    workers: Workers = 1,
    budget: float | None = None,
    spent_elsewhere: float = 0.0,
) -> MadeShard:
    """Make a shard of a run, or finish one that was interrupted; a finished one is not read again.

    Other processes may make other shards at the same time, on other machines too.

    Args:
        work: What the whole run is made from.
        folder: That of the run.
        shard: Which.
        workers: Processes.
        budget: Most that it may cost, in US dollars, earlier sessions included.
        spent_elsewhere: What counts as spent of the budget beside what the shard itself cost.

    Raises:
        UserError: The folder holds another run, or as `generate`.
    """
    own = shard_inputs(work, shard)
    store = RunStore.open_shard(folder, shard, work.fingerprint(), own.fingerprint())
    done = read_done(store.folder)
    if done is not None and is_unchanged(store.folder, done) and not store.failures():
        return MadeShard(store, Generated(dict(done.records), [], _ledger(work, store.folder)), is_new=False)
    drop_done(store.folder)
    generated = generate(own, store, workers, budget, spent_elsewhere)
    mark_done(store.folder, generated.counts)
    return MadeShard(store, generated, is_new=True)


def make_shards(
    work: RunInputs, folder: Path, count: int, workers: Workers = 1, budget: float | None = None
) -> Iterator[MadeShard]:
    """Make all shards of a run, each finished before the next; they may cost the budget together.

    Raises:
        UserError: As `make_shard`.
    """
    for number in range(1, count + 1):
        shard = Shard(number, count)
        elsewhere = 0.0 if budget is None else _spent(work, folder, besides=shard)
        yield make_shard(work, folder, shard, workers, budget, elsewhere)


def _spent(work: RunInputs, folder: Path, besides: Shard) -> float:
    ledgers = (_ledger(work, path) for shard, path in shards_there(folder).items() if shard != besides)
    return sum(ledger.spent() for ledger in ledgers if ledger is not None)


def _ledger(work: RunInputs, folder: Path) -> Ledger | None:
    path = folder / LEDGER
    return Ledger(path, work.prices([name.model for name in work.models()])) if path.exists() else None
