"""Who writes the text of a run: a backend by its name."""

from __future__ import annotations

from typing import Final, NamedTuple

from generation.banks.load import Banks
from generation.config import Config, LLMConfig
from generation.errors import UserError
from generation.llm.client import Backend

OFFLINE: Final = "offline"
KINDS: Final = ("openai:MODEL", "hf:PATH", OFFLINE)


class BackendName(NamedTuple):
    """The name of a backend, taken apart.

    Attributes:
        kind: `offline`, `openai` or `hf`.
        model: Name of the model or its path; empty for `offline`.
    """

    kind: str
    model: str

    @property
    def is_offline(self) -> bool:
        """Whether it costs nothing and never fails."""
        return self.kind == OFFLINE


def parse_backend(text: str) -> BackendName:
    """Take the name of a backend apart.

    Raises:
        UserError: There is no such backend.
    """
    kind, _, model = text.partition(":")
    if text != OFFLINE and (kind not in ("openai", "hf") or not model):
        raise UserError(f"there is no backend {text!r}", f"give one of {', '.join(KINDS)}")
    return BackendName(kind, model)


def make_backend(name: BackendName, config: Config, banks: Banks) -> Backend:
    """Return a backend, ready to be asked.

    Raises:
        UserError: It needs a key, or a library, that is not there.
    """
    if not name.is_offline:
        return make_model(name, config.llm)
    from generation.llm.offline.backend import OfflineBackend

    return OfflineBackend(banks, config.seed)


def make_model(name: BackendName, llm: LLMConfig) -> Backend:
    """Return a language model, ready to be asked; raises as `make_backend` does."""
    if name.kind == "openai":
        from generation.llm.endpoint import Endpoint
        from generation.llm.rate_limit import RateLimit

        endpoint = Endpoint(
            name.model,
            temperature=llm.temperature,
            max_tokens=llm.reply_tokens,
            fields=llm.sampling(),
            timeout=llm.timeout,
            rate_limit=RateLimit(llm.requests_per_minute, llm.tokens_per_minute),
        )
        endpoint.connect()
        return endpoint
    from generation.llm.local import LocalModel

    if given := llm.sampling():
        raise UserError(f"llm.{next(iter(given))}: hf:{name.model} takes no such field", "it is for openai:MODEL")
    return LocalModel(name.model, temperature=llm.temperature, max_tokens=llm.reply_tokens)
