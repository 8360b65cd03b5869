"""One chat request, and what its failure means: what may pass, what never will, and how long to wait."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from generation.errors import UserError
from generation.http import Address, HttpError, Redirected, Unreachable, post
from generation.llm.replies import ChatReply, RequestFailure, error_body, read_reply, spoken
from generation.seeds import rng_for

_CONFLICTS: Final = (408, 409, 425, 429)  # these pass, as do all from 500
_TOO_LONG: Final = re.compile(
    r"context.{0,12}(?:length|window|size|limit)|exceed_context|prompt is too long|input token count"
    r"|reduce the length|too many tokens|maximum.{0,20}tokens allowed",
    re.IGNORECASE,
)
_OUT_OF_MONEY: Final = re.compile(r"insufficient_quota|insufficient.balance|credit balance is too low", re.IGNORECASE)
_DECLINED: Final = re.compile(r"content_filter|content.{0,12}policy|usage policy|invalid_prompt|flagged", re.IGNORECASE)
_NO_SYSTEM: Final = re.compile(
    r"system.{0,12}(?:role|message|prompt|instruction)|developer instruction|roles must alternate|role.{0,12}system",
    re.IGNORECASE,
)
RESUME: Final = "rerun the command later: finished calls are kept"


class EndpointLabels(NamedTuple):
    """How errors name an endpoint.

    Attributes:
        at: Its address, without credentials.
        model: Name of the model that is asked.
        key: Where its key comes from, such as `OPENAI_API_KEY`.
        address: Where its address comes from, such as `OPENAI_BASE_URL`.
        path: How addresses of this kind end.
    """

    at: str
    model: str
    key: str
    address: str
    path: str


def send_chat(
    address: Address,
    body: Mapping[str, object],
    headers: Mapping[str, str],
    timeout: float,
    context: ssl.SSLContext | None = None,
) -> ChatReply | RequestFailure:
    """Send one chat request, once; its headers hold the key."""
    try:
        response = post(address, json.dumps(body).encode(), headers, timeout, context=context)
    except HttpError as error:
        return RequestFailure(0, str(error), unreachable=isinstance(error, Unreachable | Redirected))
    if response.status != 200:
        return RequestFailure(response.status, error_body(response.content), response.headers)
    return read_reply(response.content)


def is_too_long(failure: RequestFailure) -> bool:
    """Say whether the prompt does not fit the model's window."""
    return failure.status not in (0, 429) and _TOO_LONG.search(_text(failure)) is not None


def is_declined(failure: RequestFailure) -> bool:
    """Say whether the prompt was withheld from the model by a filter."""
    return failure.status in (400, 403, 422) and _DECLINED.search(_text(failure)) is not None


def refuses_system(failure: RequestFailure) -> bool:
    """Say whether the endpoint takes no system message."""
    return failure.status in (400, 422, 500) and _NO_SYSTEM.search(_text(failure)) is not None


def is_refused(failure: RequestFailure) -> bool:
    """Say whether the endpoint will never take this request."""
    return bool(failure.status) and failure.status < 500 and failure.status not in _CONFLICTS


def end_of_run(failure: RequestFailure, endpoint: EndpointLabels) -> UserError | None:
    """Return the error that a failure is where no request at all can succeed any more, else None."""
    status, said, at = failure.status, spoken(failure.body), endpoint.at
    if status == 401:
        return UserError(f"{at} does not accept the key in {endpoint.key}", "set one that belongs to this endpoint")
    if status == 403:
        return UserError(f"the key in {endpoint.key} may not use {endpoint.model} at {at}: {said}")
    if status == 402 or _OUT_OF_MONEY.search(_text(failure)):
        return UserError(f"the account of {endpoint.key} has no credit left at {at}: {said}", RESUME)
    if status == 404:
        hint = f"check the name of the model, and {endpoint.address}: most end in {endpoint.path}"
        return UserError(f"there is no model {endpoint.model} at {at}: {said}", hint)
    return None


def not_there(failure: RequestFailure, endpoint: EndpointLabels) -> UserError:
    """Return the error that a failure is where nobody who speaks of chats is there."""
    message = f"no chat endpoint can be reached at {endpoint.at}: {spoken(failure.body)}"
    return UserError(message, f"check {endpoint.address}")


def described(failure: RequestFailure) -> str:
    """Return what happened, in one line."""
    what = f"status {failure.status}" if failure.status else "no answer"
    return f"{what}: {spoken(failure.body)}"


def asked_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds that an endpoint asks to wait, or 0 where it asks for nothing that can be understood."""
    try:
        asked = (
            float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(headers["retry-after"])
        )
    except KeyError:
        return 0.0
    except ValueError:
        try:
            # By the clock of the server, which need not agree with ours.
            asked = (
                parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(headers["date"])
            ).total_seconds()
        except (KeyError, ValueError, TypeError, OverflowError):
            return 0.0
    return asked if asked > 0 else 0.0  # what is no number is not above 0 either


def backoff(seed: int, failures: int, first: float = 2.0, longest: float = 60.0) -> float:
    """Return the seconds to wait after so many failures in a row: ever more, and not the same for all calls."""
    wait = min(longest, first * 2.0 ** min(failures - 1, 20))
    return wait * rng_for(seed, "backoff", failures).uniform(0.5, 1)


def _text(failure: RequestFailure) -> str:
    return str(failure.body)[:20_000]
