"""A run, from the configuration to the stage files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.banks.load import Banks
from generation.config import Config
from generation.errors import UserError
from generation.llm.client import Backend, Client
from generation.llm.offline.backend import OfflineBackend
from generation.parallel import ordered_results, process_pool
from generation.progress import track
from generation.prompts import template_digests
from generation.question_plans import plan_questions
from generation.records import Filler, History, Persona, Question, Record, Session
from generation.stages.fillers import filler_tasks, write_filler
from generation.stages.histories import draw_history, write_history
from generation.stages.personas import draw_personas, write_persona
from generation.stages.questions import write_question
from generation.stages.sessions import session_tasks, write_session
from generation.store import RunStore

BACKENDS: Final = ("offline",)
"""What can stand behind the generator."""

FORMAT_VERSION: Final = 2
"""Raised when the same configuration and banks give other records than before."""

_AHEAD: Final = 8  # tasks that each worker may be ahead of the writing


class Work(NamedTuple):
    """What a run is made from.

    Attributes:
        config: The configuration.
        banks: Its banks.
        backend: Name of the backend.
    """

    config: Config
    banks: Banks
    backend: str

    def client(self) -> Client:
        """Return a client of the backend."""
        backends: dict[str, Backend] = {"offline": OfflineBackend(self.banks, self.config.seed)}
        return Client(backends[self.backend])

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that shapes the records, by key.

        Raises:
            UserError: `persona_source` cannot be read or is faulty.
        """
        draw_personas(self.config, self.banks.people)  # a faulty persona_source is refused before there is a folder
        config = self.config.model_dump(mode="json")
        source = self.config.persona_source
        return {
            **config,
            "topics": list(self.banks.topics),
            "persona_source": source and hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16],
            "backend": self.backend,
            "banks": self.banks.digests,
            "templates": template_digests(),
            "format_version": FORMAT_VERSION,
        }


class Stage(NamedTuple):
    """A stage: a record for each task, in the order of the tasks.

    Attributes:
        name: Of the stage and its file.
        kind: What its records are.
        write: Makes the record of a task.
        task_key: Names a task.
        record_key: Names the task that a record was made for.
    """

    name: str
    kind: type[Record]
    write: Callable[[Client, Banks, Any], Record]
    task_key: Callable[[Any], Any]
    record_key: Callable[[Any], Any]


STAGES: Final = {
    stage.name: stage
    for stage in (
        Stage(
            "personas",
            Persona,
            lambda client, banks, task: write_persona(client, task),
            lambda task: task.persona.persona_id,
            lambda persona: persona.persona_id,
        ),
        Stage(
            "histories",
            History,
            lambda client, banks, task: write_history(client, task),
            lambda task: task.persona.persona_id,
            lambda history: history.persona_id,
        ),
        Stage(
            "sessions",
            Session,
            lambda client, banks, task: write_session(client, task),
            lambda task: task.plan.session_id,
            lambda session: session.session_id,
        ),
        Stage(
            "questions",
            Question,
            lambda client, banks, task: write_question(client, task, banks),
            lambda plan: (plan.persona_id, plan.question_type, plan.topic, plan.subject),
            lambda question: (question.persona_id, question.question_type, question.topic, question.subject),
        ),
        Stage(
            "fillers",
            Filler,
            lambda client, banks, task: write_filler(client, task),
            lambda task: task.facts["title"],
            lambda filler: filler.title,
        ),
    )
}
"""The stages in order."""


def generate(work: Work, store: RunStore, workers: int = 1) -> dict[str, int]:
    """Make a run, or finish one that was interrupted.

    Each stage file grows in one fixed order, whatever the number of workers, so that what a kill leaves is a prefix
    of the whole.

    Args:
        work: What to make.
        store: Where to.
        workers: Processes.

    Returns:
        For each stage, the number of its records.

    Raises:
        UserError: The folder cannot be written, or a stage file in it is damaged.
        ReplyError: The backend gave no usable reply.
    """
    config, banks = work.config, work.banks
    with _Runner(work, store, workers) as runner:
        runner.run("personas", draw_personas(config, banks.people))
        personas = list(store.read("personas", Persona))
        runner.run("histories", [draw_history(config, persona, banks) for persona in personas])
        pairs = list(zip(personas, store.read("histories", History), strict=True))
        runner.run("sessions", [t for p, h in pairs for t in session_tasks(config, p, h, banks)])
        runner.run("questions", [q for p, h in pairs for q in plan_questions(config, p, h, banks)])
        runner.run("fillers", filler_tasks(config))
        return runner.counts


class _Runner:
    """Runs stages one after another, in this process or in several."""

    def __init__(self, work: Work, store: RunStore, workers: int) -> None:
        self._work = work
        self._store = store
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self.counts: dict[str, int] = {}

    def __enter__(self) -> _Runner:
        _start_worker(self._work)
        if self._workers > 1:
            self._pool = process_pool(self._workers, _start_worker, self._work)
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, name: str, tasks: Sequence[Any]) -> None:
        """Make the records of a stage that are not there yet."""
        stage = STAGES[name]
        done = self._resumed(stage, tasks)
        left = tasks[done:]
        if left:
            self._drop_later(name)
        for record in track(self._made(name, left), name, len(left)):
            self._store.append(name, record)
        if not tasks:
            self._store.touch(name)
        self.counts[name] = len(tasks)

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

    def _drop_later(self, name: str) -> None:
        """Remove what later stages made from records that are about to be made anew."""
        names = list(STAGES)
        for later in names[names.index(name) + 1 :]:
            self._store.drop(later)

    def _made(self, name: str, tasks: Sequence[Any]) -> Iterator[Record]:
        if self._pool is None:
            return (_make(name, task) for task in tasks)
        return ordered_results(self._pool, self._workers * _AHEAD, partial(_make, name), tasks)


_worker: tuple[Client, Banks] | None = None


def _start_worker(work: Work) -> None:
    global _worker
    _worker = (work.client(), work.banks)


def _make(name: str, task: Any) -> Record:
    assert _worker is not None, "no worker was started in this process"
    client, banks = _worker
    return STAGES[name].write(client, banks, task)
