"""Asking language models about a finished run: its cache, its ledger, its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from generation.llm.backends import BackendName, make_backend
from generation.llm.cache import ReplyCache
from generation.llm.client import Account, Backend, Client
from generation.llm.ledger import Ledger
from generation.llm.offline.backend import OfflineBackend
from generation.parallel import calls_under_way, ordered_results
from generation.pipeline import ATTEMPTS, LEDGER, REPLIES, Work
from generation.progress import track
from generation.store import RunStore

T = TypeVar("T")
S = TypeVar("S")

_AHEAD: Final = 8  # questions that each call under way may be ahead of what is taken in


class Asked(NamedTuple):
    """A backend that is ready to be asked.

    Attributes:
        name: Its name.
        backend: The backend.
    """

    name: BackendName
    backend: Backend


class Clients:
    """Makes the clients of a run.

    Args:
        store: The run; replies are kept in it, and calls written down.
        work: What it was made from.
        names: The backends that will be asked.
        budget: Most that the run may cost, in US dollars, what was spent before included; None for no limit.

    Raises:
        UserError: A model has no price, or the ledger is damaged or cannot be written.
    """

    def __init__(self, store: RunStore, work: Work, names: Sequence[BackendName], budget: float | None) -> None:
        self._store = store
        self._work = work
        self._ledger: Ledger | None = None
        models = [name.model for name in names if not name.is_offline]
        if budget is not None or models:
            self._ledger = Ledger(store.folder / LEDGER, work.config.llm.prices, budget)
            self._ledger.require_prices(models)

    def connect(self, name: BackendName) -> Asked:
        """Return a backend.

        Raises:
            UserError: It needs a key, or a library, that is not there.
        """
        if name.is_offline:
            return Asked(name, OfflineBackend(self._work.banks, self._work.config.seed))
        return Asked(name, make_backend(name, self._work.config, self._work.banks))

    def client(self, asked: Asked, stage: str) -> Client:
        """Return what asks a backend.

        Args:
            asked: The backend.
            stage: What its calls are written down for.
        """
        if asked.name.is_offline:
            return Client(asked.backend)
        assert self._ledger is not None, "the backend was not named"
        account = Account(self._ledger, stage, asked.name.model, self._work.config.llm.max_tokens)
        return Client(asked.backend, ReplyCache(self._store.folder / REPLIES), ATTEMPTS, account)

    def map(self, asked: Asked, what: str, function: Callable[[T], S], tasks: Sequence[T]) -> Iterator[S]:
        """Yield what a function gives for each task, in order, with several calls under way.

        Args:
            asked: The backend that the function asks.
            what: What the work is, for the progress bar.
            function: May be called in several threads.
            tasks: What to call it with.
        """
        threads = 1 if asked.name.is_offline else self._work.config.llm.concurrency
        with calls_under_way(threads) as pool:
            yield from track(ordered_results(pool, threads * _AHEAD, function, tasks), what, len(tasks))
