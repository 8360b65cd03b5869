"""Texts that a second reading confirms: written, read back, rewritten with what the reader found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pydantic import BaseModel

from generation.llm.client import Client, ReplyError, Request

S = TypeVar("S", bound=BaseModel)

REWRITES: Final = 2
"""How often a text is rewritten with what a reader found."""

STARTS: Final = 2
"""How many texts are begun, each with a seed of its own."""


def ask_and_read_back(
    client: Client,
    request: Request,
    schema: type[S],
    check: Callable[[S], list[str]],
    read_back: Callable[[S], list[str]],
    finish: Callable[[S], S] = lambda reply: reply,
    mend: Callable[[S, list[str], tuple[int, int]], S] | None = None,
) -> S:
    """Ask for a text until a reader finds in it what it is to say.

    `check` returns what is wrong even without a reader; a reply is read once `finish` has completed it. `mend` returns
    one with the faults mended, given the numbers of the start and of the rewriting; by default all is written anew.

    Text, reading and rewriting are requests of their own, not one check within another: so each reply is kept as soon
    as it is there, and a run that stops between two of them pays for neither again. A text that was found wrong is
    kept like any other; a further start refuses it, and so does the next run when it asks anew.

    Raises:
        ReplyError: There is no usable reply, or a reader still found faults after the last rewriting.
    """
    refused: dict[str, list[str]] = {}

    def check_unread(reply: S) -> list[str]:
        # One that a reader has refused already is sent back with what the reader found.
        return refused.get(reply.model_dump_json()) or check(reply)

    faults: list[str] = []
    for start in range(STARTS):
        asked = request if start == 0 else request._replace(seed=(*request.seed, "start", start))
        written = client.ask(asked, schema, check_unread)
        for rewrite in range(1 + REWRITES):
            reply = finish(written)
            faults = read_back(reply)
            if not faults:
                return reply
            refused[written.model_dump_json()] = refused[reply.model_dump_json()] = faults
            if rewrite == REWRITES:
                break
            if mend is not None:
                written = mend(reply, faults, (start, rewrite))
            else:
                again = rewrite_request(request, reply, faults, (start, rewrite))
                written = client.ask(again, schema, check_unread)
    name = " ".join(str(part) for part in request.seed)
    raise ReplyError(f"{request.template} for {name}: still wrong after {REWRITES} rewrites: {'; '.join(faults)}")


def rewrite_request(request: Request, reply: BaseModel, faults: list[str], number: tuple[int, int]) -> Request:
    """Return the call that rewrites a text; `number` is that of the start and of the rewriting."""
    facts = {**request.facts, "original": request.template, "draft": reply.model_dump_json(), "faults": faults}
    return request._replace(template="rewrite", facts=facts, seed=(*request.seed, *number))
