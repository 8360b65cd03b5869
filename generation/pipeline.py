"""A run, from the configuration to the stage files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from generation.banks.load import Banks
from generation.errors import UserError
from generation.history_records import History
from generation.interruption import kept_if_interrupted
from generation.llm.backends import parse_backend
from generation.llm.client import Client, ReplyError
from generation.llm.ledger import Ledger
from generation.llm.paid_models import ModelSettings, PaidModels
from generation.parallel import WorkerPool, Workers, calls_under_way, ordered_results, worker_pool
from generation.progress import track
from generation.prompts import template_digests
from generation.question_plans import plan_questions
from generation.ray_cluster import RayCluster, connected
from generation.ray_pool import RayPool
from generation.records import Persona, Record, Session
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES, Stage, stages_after
from generation.stages.fillers import filler_tasks
from generation.stages.histories import draw_history
from generation.stages.personas import draw_personas
from generation.stages.sessions import session_tasks
from generation.store import FailedItem, RunStore

if TYPE_CHECKING:
    from generation.llm.desk import Desk

_AHEAD: Final = 8  # tasks, or parts, that each worker may be ahead of the writing
_MOST_TOGETHER: Final = 8  # tasks in a part: each part costs a message to a worker and one back
_LEAST_PARTS: Final = 8  # for each worker, so that they end at about the same time


class Generated(NamedTuple):
    """The number of records of each stage, the items that are missing, and what was paid; None where nothing was."""

    counts: dict[str, int]
    failures: list[FailedItem]
    ledger: Ledger | None = None


def generate(
    work: RunInputs, store: RunStore, workers: Workers = 1, budget: float | None = None, spent_elsewhere: float = 0.0
) -> Generated:
    """Make a run, or finish one that was interrupted; its calls cost at most the budget, in US dollars.

    What was `spent_elsewhere`, on other shards, counts towards the budget.

    Each stage file grows in one fixed order, whatever the number of workers, so that what a kill leaves is a prefix
    of the whole. An item that a language model gives no usable reply for is left out, with what is built on it, and
    listed in `failed.jsonl`; the next run asks for it anew. Replies that were paid for are kept beside.

    Raises:
        UserError: The folder cannot be written, another process is writing to it, a stage file in it is damaged, a
            model cannot be asked, or the budget is spent.
    """
    config, banks = work.config, work.banks
    said = f"what was finished is kept in {store.folder}; rerun the command to resume"
    with kept_if_interrupted(said), store.writing(), _Runner(work, store, workers, budget, spent_elsewhere) as runner:
        runner.run("personas", draw_personas(config, banks))
        personas = {persona.persona_id: persona for persona in store.read("personas", Persona)}
        runner.run("histories", [draw_history(config, persona, banks) for persona in personas.values()])
        pairs = [(personas[h.persona_id], h) for h in store.read("histories", History)]
        runner.run("sessions", [t for p, h in pairs for t in session_tasks(config, p, h, banks)])
        told = _told(pairs, store)
        plans = [plan for p, h in pairs for plan in plan_questions(config, p, h, banks)]
        runner.run("questions", [plan for plan in plans if told.issuperset(plan.after_session_ids)])
        runner.run("fillers", filler_tasks(config))
        return Generated(runner.counts, runner.failures, runner.ledger)


def _told(pairs: Sequence[tuple[Persona, History]], store: RunStore) -> set[str]:
    """Return the sessions that contexts can hold: those that are there, but for those behind a gap in their topic."""
    there = {session.session_id for session in store.read("sessions", Session)}
    cut = [history.up_to_missing(there) for _, history in pairs]
    return {session.session_id for history in cut for topic in history.topics for session in topic.sessions}


class _Runner:
    """Runs stages one after another, in this process or in several."""

    def __init__(
        self, work: RunInputs, store: RunStore, workers: Workers, budget: float | None, spent_elsewhere: float
    ) -> None:
        self._work = work
        self._store = store
        self._workers = workers
        self._pool: WorkerPool | None = None
        self._models: PaidModels | Desk | None = None
        self._askers: RayPool | None = None
        self.ledger: Ledger | None = None
        self.counts: dict[str, int] = {}
        self.failures: list[FailedItem] = []
        names = work.models()
        asked = [name.model for name in names]
        if isinstance(workers, RayCluster) and (loaded := [name.model for name in names if name.kind == "hf"]):
            raise UserError(
                f"hf:{loaded[0]} is loaded on this machine, and not on a cluster",
                "serve it with vLLM and ask it as openai:MODEL, or leave out --ray",
            )
        self._settings = ModelSettings(
            store.folder.absolute(), names, work.config.llm, work.prices(asked), budget, spent_elsewhere
        )
        if budget is not None or asked:
            self.ledger = self._settings.ledger()
            self.ledger.require_prices(asked)

    def __enter__(self) -> _Runner:
        self._forget_failures()
        with ExitStack() as stack:
            if isinstance(self._workers, RayCluster):
                stack.enter_context(connected(self._workers))
            if self._settings.names:
                self._open_models(stack)
            if any(self._work.backend_of(stage).is_offline for stage in STAGES):
                self._pool = stack.enter_context(worker_pool(self._workers, _start_worker, self._work))
            self._open = stack.pop_all()
        return self

    def _open_models(self, stack: ExitStack) -> None:
        assert self.ledger is not None
        if not isinstance(self._workers, RayCluster):
            self._models = stack.enter_context(PaidModels(self._settings, self.ledger))
            return
        from generation.llm.desk import open_desk

        self._models = stack.enter_context(open_desk(self._settings))
        self._askers = RayPool(
            _start_asking, self._work, self._models, template_digests(), at_once=self._settings.llm.concurrency
        )
        stack.callback(self._askers.shutdown, cancel_futures=True)

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _forget_failures(self) -> None:
        """Begin anew with the first stage that lacks something: what was paid for is in the cache of replies."""
        lacking = {failure.stage for failure in self._store.failures()}
        first = next((stage for stage in STAGES if stage in lacking), None)
        if first is not None:
            self._store.drop(first)
            for later in stages_after(first):
                self._store.drop(later)
        self._store.drop_failures()

    def run(self, name: str, tasks: Sequence[Any]) -> None:
        """Make the records of a stage that are not there yet."""
        stage = STAGES[name]
        done = self._resumed(stage, tasks)
        left = tasks[done:]
        if left:
            self._drop_later(stage, left[0], is_begun=bool(done))
        for made in track(self._made(name, left), name, len(left)):
            if isinstance(made, FailedItem):
                self._store.add_failure(made)
                self.failures.append(made)
            else:
                self._store.append(name, made)
                done += 1
        if not self._store.path(name).exists():
            self._store.touch(name)
        self.counts[name] = done
        if tasks and not done:
            raise UserError(
                f"0 of {len(tasks)} {name} came out; the first: {self.failures[-len(tasks)].reason}",
                "give another model, or look at failed.jsonl in the run's folder",
            )

    def _resumed(self, stage: Stage, tasks: Sequence[Any]) -> int:
        done = 0
        for record in self._store.resume(stage.name, stage.kind):
            if done == len(tasks) or stage.record_key(record) != stage.task_key(tasks[done]):
                path = self._store.path(stage.name)
                raise UserError(
                    f"{path}, line {done + 1} is not what the run has there: a line is missing, or one too many",
                    "restore the file, or remove it and run again: the stage and those after it are made anew",
                )
            done += 1
        return done

    def _drop_later(self, stage: Stage, task: Any, *, is_begun: bool) -> None:
        """Remove what later stages made from records that are about to be made anew, from a task on.

        What they have of the users before its user stays: a run that gets more users is as it was for the others.
        """
        for later in stages_after(stage.name):
            if not is_begun:
                self._store.drop(later)
            elif stage.user is not None and STAGES[later].user is not None:
                self._store.cut(later, stage.user(task))

    def _made(self, name: str, tasks: Sequence[Any]) -> Iterator[Record | FailedItem]:
        if not self._work.backend_of(name).is_offline:
            return self._asked(name, tasks)
        if self._pool is None:
            return (_make(name, task) for task in tasks)
        # The more tasks there are, the less it matters which process has the last ones, and the more what each costs.
        size = max(1, min(_MOST_TOGETHER, len(tasks) // (_LEAST_PARTS * self._pool.workers)))
        parts = (tasks[start : start + size] for start in range(0, len(tasks), size))
        made = ordered_results(self._pool.executor, self._pool.workers * _AHEAD, partial(_make_all, name), parts)
        return chain.from_iterable(made)

    def _asked(self, name: str, tasks: Sequence[Any]) -> Iterator[Record | FailedItem]:
        """Ask a language model, with several calls under way; those that are when a run stops are kept too."""
        assert self._models is not None
        ahead = self._settings.llm.concurrency * _AHEAD
        if self._askers is None or isinstance(self._models, PaidModels):
            with calls_under_way(self._settings.llm.concurrency) as pool:
                yield from ordered_results(pool, ahead, partial(_ask, self._work, self._models, name), tasks)
            return
        with self._models.shown():
            made = ordered_results(self._askers, ahead, partial(_ask_at_desk, name), tasks)
            for task, record in zip(tasks, made, strict=True):
                yield record
                self._models.forget(_item(name, task))


_worker: tuple[Client, Banks] | None = None
_asking: tuple[RunInputs, Desk] | None = None


def _start_worker(work: RunInputs) -> None:
    global _worker
    _worker = (work.client(), work.banks)


def _make(name: str, task: Any) -> Record:
    assert _worker is not None, "no worker was started in this process"
    client, banks = _worker
    return STAGES[name].write(client, banks, task)


def _make_all(name: str, tasks: Sequence[Any]) -> list[Record]:
    return [_make(name, task) for task in tasks]


def _start_asking(work: RunInputs, desk: Desk, templates: dict[str, str]) -> None:
    global _asking
    if template_digests() != templates:
        raise UserError("a machine of the cluster has other prompts", "install the same version of personamem on all")
    _asking = (work, desk)


def _ask_at_desk(name: str, task: Any) -> Record | FailedItem:
    assert _asking is not None, "no worker was started in this process"
    work, desk = _asking
    return _ask(work, desk, name, task)


def _ask(work: RunInputs, models: PaidModels | Desk, name: str, task: Any) -> Record | FailedItem:
    reader = parse_backend(work.reader) if work.reader else None
    client = models.client(name, work.backend_of(name), reader, _item(name, task))
    try:
        return STAGES[name].write(client, work.banks, task)
    except ReplyError as error:
        return FailedItem(stage=name, item=str(STAGES[name].task_key(task)), reason=error.message)


def _item(name: str, task: Any) -> str:
    return f"{name} {STAGES[name].task_key(task)}"
