"""One process of a Ray cluster that does all paid calls of a run, on the machine of the command.

Tasks on all machines render prompts and check replies; what is asked goes through the desk. So limits, budget, ledger
and kept replies are those of one process, and keys stay on one machine. A call goes on where the task that wants it is
lost: the task is begun again elsewhere, and gets the same reply.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from generation.errors import UserError
from generation.interruption import CALLS_SECONDS
from generation.llm.backends import BackendName
from generation.llm.chat_request import RESUME
from generation.llm.client import Call, Client, Completion, prompt_tokens, reply_key
from generation.llm.endpoint import Endpoint
from generation.llm.paid_models import ModelSettings, PaidModels, paying_client
from generation.progress import Waiting
from generation.ray_worker import ignore_interrupts, outcome, unpacked

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_VARIABLES: Final = re.compile(r"OPENAI_API_KEY|OPENAI_BASE_URL|SSL_CERT_(FILE|DIR)|(?i:\w+_proxy)")
"""What of the environment shapes how an endpoint is asked."""
_DONE: Final = outcome(bool)
_FILES_AT_ONCE: Final = 16  # short: keeping a reply, writing a call down


class DeskActor:
    """The desk itself; other processes have a `Desk`. Its methods return outcomes, see `ray_worker.outcome`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[str, dict[str, Future[Completion]]] = {}
        self._unjudged: dict[str, dict[str, Any]] = {}

    def open(self, settings: ModelSettings, variables: dict[str, str]) -> bytes:
        """Get ready; returns the identity of each model.

        The variables are those of the command's environment. They come as an argument, which Ray shows and logs
        nowhere; those of a runtime environment are seen by all who see the cluster.
        """
        for name in filter(_VARIABLES.fullmatch, list(os.environ)):
            del os.environ[name]  # of the machine's cluster, which may have been started long ago
        os.environ.update(variables)
        return outcome(self._open, settings)

    def _open(self, settings: ModelSettings) -> dict[BackendName, dict[str, object]]:
        self._ledger = settings.ledger()
        self._reply_tokens = settings.llm.reply_tokens
        self._models = PaidModels(settings, self._ledger)
        return {name: backend.identity for name, backend in self._models.backends.items()}

    def call(self, item: str, stage: str, name: BackendName, call: Call) -> bytes:
        """Ask a model, or return what it said when the task of this item asked it before."""
        return outcome(self._call, item, stage, name, call)

    def _call(self, item: str, stage: str, name: BackendName, call: Call) -> Completion:
        identity = self._models.backends[name].identity
        content = f"{item}\0{reply_key(identity, call.messages, call.schema)}\0{call.seed}"
        receipt = hashlib.sha256(content.encode()).hexdigest()
        with self._lock:
            asked = self._asked.setdefault(item, {})
            is_new = receipt not in asked
            found = asked.setdefault(receipt, Future())
        if is_new:
            try:
                found.set_result(self._ask(stage, name, call, receipt))
            except BaseException as error:
                found.set_exception(error)
                with self._lock:
                    del asked[receipt]
        return found.result()

    def _ask(self, stage: str, name: BackendName, call: Call, receipt: str) -> Completion:
        most = prompt_tokens(call.messages) if self._ledger.is_limited else 0
        with self._ledger.reserve(name.model, most, self._reply_tokens):
            completion = self._models.backends[name].complete(call)
            line = {
                "stage": stage,
                "template": call.request.template,
                "model": name.model,
                "prompt_tokens": completion.prompt_tokens,
                "reply_tokens": completion.reply_tokens,
                "persona_id": call.request.persona_id,
                "topic": call.request.topic,
            }
            with self._lock:
                self._unjudged[receipt] = line
            self._ledger.owe(receipt, name.model, completion.prompt_tokens, completion.reply_tokens)
        return completion._replace(receipt=receipt)

    def record(self, line: dict[str, Any]) -> bytes:
        """Write a call down, once."""
        with self._lock:
            self._unjudged.pop(line["receipt"], None)
        return outcome(self._ledger.record, **line)

    def get(self, key: str) -> bytes:
        """Return the reply kept under a key, if there is one."""
        return outcome(self._models.replies.get, key)

    def put(self, key: str, text: str) -> bytes:
        """Keep a reply; it is on the disk when this returns."""
        return outcome(self._models.replies.put, key, text)

    def forget(self, item: str) -> bytes:
        """Let go of what was said for an item, whose result has arrived."""
        with self._lock:
            self._asked.pop(item, None)
        return _DONE

    def waiting(self) -> bytes:
        """Return what the desk waits for."""
        endpoints = [backend for backend in self._models.backends.values() if isinstance(backend, Endpoint)]
        return outcome("; ".join, [endpoint.waiting.line() for endpoint in endpoints])

    def close(self) -> bytes:
        """Write down what was paid and not judged, as its task did not come to it; let go of the files."""
        return outcome(self._close)

    def _close(self) -> None:
        with self._lock:
            unjudged, self._unjudged = self._unjudged, {}
        for receipt, line in unjudged.items():
            self._ledger.record(outcome="error", receipt=receipt, **line)
        self._models.replies.close()


class _DeskProcess(DeskActor):
    def __init__(self) -> None:
        ignore_interrupts()
        super().__init__()


class Desk:
    """A desk, as the command and its tasks know it; it can be pickled.

    Args:
        send: Calls a method of the `DeskActor`, by name, and returns or raises its outcome.
        settings: Those of the desk.
        identities: Of its models.
    """

    def __init__(
        self, send: Callable[..., Any], settings: ModelSettings, identities: dict[BackendName, dict[str, object]]
    ) -> None:
        self._send = send
        self._reply_tokens = settings.llm.reply_tokens
        self._identities = identities

    def client(self, stage: str, name: BackendName, reader: BackendName | None, item: str) -> Client:
        """Return what asks a model for an item of a stage, as `PaidModels.client` does."""

        def asking(name: BackendName, reader: Client | None = None) -> Client:
            backend = _DeskBackend(partial(self._send, "call", item, stage, name), self._identities[name])
            return paying_client(
                backend, _DeskReplies(self._send), _DeskBook(self._send), stage, name, self._reply_tokens, reader
            )

        return asking(name, asking(reader) if reader else None)

    def forget(self, item: str) -> None:
        """Let the desk forget what was said for an item, whose result has arrived."""
        self._send("forget", item)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show what the desk waits for while the block lasts, as one process would."""
        with _DeskWaiting(self).call():
            yield

    def waiting(self) -> str:
        """Return what the desk waits for."""
        return str(self._send("waiting"))


class _ToActor:
    """Calls methods of the actor."""

    def __init__(self, actor: ActorHandle[DeskActor]) -> None:
        self._actor = actor

    def __call__(self, method: str, *arguments: Any) -> Any:
        import ray

        group = "calls" if method == "call" else "files"
        try:
            return unpacked(ray.get(getattr(self._actor, method).options(concurrency_group=group).remote(*arguments)))
        except ray.exceptions.RayActorError as error:
            raise UserError(f"the process that asks the language models is gone: {error}", RESUME) from error


@contextmanager
def open_desk(settings: ModelSettings) -> Iterator[Desk]:
    """Have a desk on this machine while the block lasts.

    Raises:
        UserError: A model needs a key that is not there, or the folder cannot be written.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    kind = ray.remote(concurrency_groups={"calls": settings.llm.concurrency, "files": _FILES_AT_ONCE})(_DeskProcess)
    actor = kind.options(num_cpus=0, scheduling_strategy=here).remote()
    try:
        variables = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
        identities = unpacked(ray.get(actor.open.remote(settings, variables)))
        try:
            yield Desk(_ToActor(actor), settings, identities)
        finally:
            with suppress(ray.exceptions.RayError):
                unpacked(ray.get(actor.close.remote(), timeout=CALLS_SECONDS))
    finally:
        ray.kill(actor)


class _DeskBackend:
    def __init__(self, send: Callable[[Call], Completion], identity: dict[str, object]) -> None:
        self.complete = send
        self.identity = identity


class _DeskReplies:
    def __init__(self, send: Callable[..., Any]) -> None:
        self._send = send

    def get(self, key: str) -> str | None:
        kept: str | None = self._send("get", key)
        return kept

    def put(self, key: str, text: str) -> None:
        self._send("put", key, text)


class _DeskBook:
    """Money is kept back at the desk."""

    is_limited = False

    def __init__(self, send: Callable[..., Any]) -> None:
        self._send = send

    def reserve(self, model: str, prompt_tokens: int, reply_tokens: int) -> AbstractContextManager[None]:
        return nullcontext()

    def record(self, **line: Any) -> None:
        self._send("record", line)


class _DeskWaiting(Waiting):
    def __init__(self, desk: Desk) -> None:
        super().__init__("the language models")
        self._desk = desk

    def line(self) -> str:
        try:
            return self._desk.waiting()
        except UserError as error:  # the command will say so
            return error.message
