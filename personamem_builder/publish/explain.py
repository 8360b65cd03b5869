"""Why something could not be written on the Hub, in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from generation.errors import UserError
from personamem_builder.hub.failures import explain_hub_error, hub_failures
from personamem_builder.hub.repository import LOG_IN
from personamem_builder.hub.retries import BUSY, status_of, telling_error

_AGAIN: Final = "rerun the command: what has arrived is not sent again"


@contextmanager
def explained(repo_id: str, kind: str = "dataset") -> Iterator[None]:
    """Turn what goes wrong in the block, between us and the Hub, into an error for people.

    Args:
        repo_id: The repository that is written to.
        kind: What it is, for the error.
    """
    try:
        yield
    except hub_failures() as error:
        raise _explain(error, repo_id, kind) from error


def _explain(error: Exception, repo_id: str, kind: str) -> UserError:
    from huggingface_hub import constants, errors

    hub, told = constants.ENDPOINT, telling_error(error)
    if isinstance(told, errors.RepositoryNotFoundError | errors.HFValidationError):
        return explain_hub_error(told, repo_id, kind=kind)
    match status_of(error):
        case 400:  # a card or the name of a branch; the client adds what the Hub has against it
            return UserError(f"{hub} refuses this: {_reason(error)}", "change it and run the command again")
        case 401:
            return UserError(f"{hub} does not know the token", LOG_IN)
        case 403:
            return UserError(
                f"the token may not write to {kind} {repo_id}",
                "use one that may (HF_TOKEN), or publish under a name of your own",
            )
        case 404 | 409 | 412:
            return UserError(
                f"{kind} {repo_id} was changed by somebody else in the meantime ({_reason(told)})",
                "rerun the command: it compares with what is there now; "
                "if it says the same, this token cannot see what is there",
            )
        case status if status in BUSY:
            return UserError(f"{hub} is busy (HTTP {status})", f"wait a while, then {_AGAIN}")
    return UserError(
        f"publishing {kind} {repo_id} on {hub} stopped: {_reason(told)}", f"check the connection, then {_AGAIN}"
    )


def _reason(error: Exception) -> str:
    """Return the message of an error in one line, without what is secret in it."""
    text = " ".join(str(error).split()) or type(error).__name__
    # The addresses of uploads are signed.
    return re.sub(r"(https?://[^\s?'\"]+)\?[^\s'\"]+", r"\1", text)
