"""The language models of a run, with the ledger and the kept replies that all its calls share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

from generation.config import LLMConfig, Price
from generation.llm.backends import BackendName, make_model
from generation.llm.cache import ReplyCache
from generation.llm.client import Account, Backend, CallBook, Client, KeptReplies
from generation.llm.ledger import Ledger

ATTEMPTS: Final = 3
"""Conversations that are begun with a language model before an item is given up."""
REPLIES: Final = "replies.sqlite"
"""Where a run keeps the replies that were paid for."""
LEDGER: Final = "ledger.jsonl"
"""Where a run writes down its paid calls."""


class ModelSettings(NamedTuple):
    """What the language models of a run are asked with.

    Attributes:
        folder: Of the run.
        names: The models.
        prices: By the name of the model, as far as they are known.
        budget: Most that the run may cost, in US dollars; None for no limit.
        spent_elsewhere: What other shards of the run cost, which counts towards it.
    """

    folder: Path
    names: tuple[BackendName, ...]
    llm: LLMConfig
    prices: dict[str, Price]
    budget: float | None
    spent_elsewhere: float = 0.0

    def ledger(self) -> Ledger:
        """Open the ledger.

        Raises:
            UserError: It is damaged or cannot be written, or the budget limits nothing.
        """
        return Ledger(self.folder / LEDGER, self.prices, self.budget, self.spent_elsewhere)


class PaidModels(AbstractContextManager["PaidModels"]):
    """The models, ready to be asked; at the end of the block the kept replies are let go of.

    Stages share a model: a local one is large, and an endpoint counts requests whoever sends them.

    Raises:
        UserError: A model needs a key, or a library, that is not there, or the folder cannot be written.
    """

    def __init__(self, settings: ModelSettings, ledger: Ledger) -> None:
        self.ledger = ledger
        self.backends: dict[BackendName, Backend] = {
            name: make_model(name, settings.llm) for name in dict.fromkeys(settings.names)
        }
        self._reply_tokens = settings.llm.reply_tokens
        self.replies = ReplyCache(settings.folder / REPLIES)

    def client(self, stage: str, name: BackendName, reader: BackendName | None, item: str = "") -> Client:
        """Return what asks a model for an item of a stage; without a reader it reads back what it wrote."""

        def asking(name: BackendName, reader: Client | None = None) -> Client:
            return paying_client(
                self.backends[name], self.replies, self.ledger, stage, name, self._reply_tokens, reader
            )

        return asking(name, asking(reader) if reader else None)

    def __exit__(self, *error: object) -> None:
        self.replies.__exit__(*error)


def paying_client(
    backend: Backend,
    replies: KeptReplies,
    book: CallBook,
    stage: str,
    name: BackendName,
    reply_tokens: int,
    reader: Client | None,
) -> Client:
    """Return a client whose calls are written down in a book, and whose replies are kept."""
    return Client(backend, replies, ATTEMPTS, Account(book, stage, name.model, reply_tokens), reader)
