"""Asking language models about a finished run: its cache, its ledger, its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple, TypeVar

from generation.llm.backends import BackendName, make_backend
from generation.llm.cache import ReplyCache
from generation.llm.client import Account, Backend, Client
from generation.llm.ledger import Ledger
from generation.llm.paid_models import ATTEMPTS, LEDGER, REPLIES
from generation.parallel import calls_under_way, ordered_results
from generation.progress import track
from generation.run_inputs import RunInputs
from generation.store import RunStore

T = TypeVar("T")
S = TypeVar("S")

_AHEAD: Final = 8  # questions that each call under way may be ahead of what is taken in


class ConnectedBackend(NamedTuple):
    """A backend that is ready to be asked, with its name."""

    name: BackendName
    backend: Backend


class Clients:
    """Makes the clients of a run; a context manager, which lets go of the replies that are kept.

    Args:
        store: The run; replies are kept in it, and calls written down.
        work: What it was made from.
        names: The backends that will be asked.
        budget: Most that the run may cost, in US dollars, what was spent before included; None for no limit.

    Raises:
        UserError: A model has no price, or the ledger is damaged or cannot be written.
    """

    def __init__(self, store: RunStore, work: RunInputs, names: Sequence[BackendName], budget: float | None) -> None:
        self._store = store
        self._work = work
        self._ledger: Ledger | None = None
        models = [name.model for name in names if not name.is_offline]
        if budget is not None or models:
            self._ledger = Ledger(store.folder / LEDGER, work.prices(models), budget)
            self._ledger.require_prices(models)
        self._open = ExitStack()
        self._replies: ReplyCache | None = None

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def connect(self, name: BackendName) -> ConnectedBackend:
        """Make a backend ready.

        Raises:
            UserError: It needs a key, or a library, that is not there.
        """
        return ConnectedBackend(name, make_backend(name, self._work.config, self._work.banks))

    def client(self, backend: ConnectedBackend, stage: str) -> Client:
        """Return what asks a backend; its calls are written down for a stage."""
        if backend.name.is_offline:
            return Client(backend.backend)
        assert self._ledger is not None, "the backend was not named"
        if self._replies is None:
            self._replies = self._open.enter_context(ReplyCache(self._store.folder / REPLIES))
        account = Account(self._ledger, stage, backend.name.model, self._work.config.llm.reply_tokens)
        return Client(backend.backend, self._replies, ATTEMPTS, account)

    def map(self, backend: ConnectedBackend, what: str, function: Callable[[T], S], tasks: Sequence[T]) -> Iterator[S]:
        """Yield what a function that asks a backend gives for each task, in order.

        The function is called in several threads. `what` names the work on the progress bar.
        """
        threads = 1 if backend.name.is_offline else self._work.config.llm.concurrency
        with calls_under_way(threads) as pool:
            yield from track(ordered_results(pool, threads * _AHEAD, function, tasks), what, len(tasks))
