"""Datasets on a loopback Hub, and what the processes of a `HubClient` do with them.

Nothing of ours is imported at the top: one of these processes shows what users have who do not know this package.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import loopback_hub

CONTEXTS = {"32k": 12, "128k": 2}
"""How many contexts, and as many row groups, each split of `make_dataset` has; there are two questions about each."""


def make_dataset(folder: Path, file_limit: int = 10**9, **manifest: Any) -> dict[str, bytes]:
    """Write a dataset whose contexts file has a row group of about 50 kB for each context.

    Args:
        folder: The folder to make.
        file_limit: See `write_dataset`.
        **manifest: More keys of the manifest.

    Returns:
        The files, as the Hub has them.
    """
    import json

    import pyarrow as pa

    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.schema import QUESTION_SCHEMA

    rows = {split: [_context(split, i) for i in range(count)] for split, count in CONTEXTS.items()}
    questions = {
        split: [
            pa.Table.from_pylist(
                [_question(context, end) for context in contexts for end in (2, 3)], schema=QUESTION_SCHEMA
            )
        ]
        for split, contexts in rows.items()
    }
    source = Source(name="a test", url="https://example.org", license="mit", version="1.0.0", fingerprint="f" * 64)
    with patch("personamem_builder.build.contexts_parquet._DISTINCT", 50_000):
        contexts = ((split, row) for split in rows for row in rows[split])
        write_dataset(folder, questions, contexts, source, file_limit=file_limit)
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | manifest))
    return files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _context(split: str, number: int) -> dict[str, Any]:
    key = f"{split}-{number:02}"
    noise = random.Random(key).randbytes(50_000).hex()  # half of which stays when it is compressed
    texts = {"system": f"Current user persona: {key}", "user": f"user of {key}", "assistant": noise}
    return {
        "shared_context_id": key,
        "persona_id": number,
        "messages": [{"role": role, "content": text} for role, text in texts.items()],
        "session_starts": [0],
        "session_topics": [""],
        "session_dates": [""],
        "num_tokens": 30,
    }


def _question(context: Mapping[str, Any], end: int) -> dict[str, Any]:
    return {
        "persona_id": context["persona_id"],
        "question_id": f"{context['shared_context_id']}-{end}",
        "question_type": "suggest_new_ideas",
        "topic": "travel",
        "context_length_in_tokens": 10 * end,
        "context_length_in_letters": 40 * end,
        "distance_to_ref_in_blocks": 0,
        "distance_to_ref_in_tokens": 0,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.0,
        "user_question_or_message": "What now?",
        "correct_answer": "(b)",
        "all_options": ["(a) w", "(b) x", "(c) y", "(d) z"],
        "shared_context_id": context["shared_context_id"],
        "end_index_in_shared_context": end,
        "source_question_type": "suggest_new_ideas",
        "answer_index": 1,
        "evidence_message_indices": [],
        "evidence_event_ids": [],
    }


@contextmanager
def counted_bytes() -> Iterator[dict[str, int]]:
    """Count the bytes of files that the Hub sends in the block, by the file's path in its repository."""
    counts: dict[str, int] = {}
    send = loopback_hub._Handler.send

    def counting(self: Any, body: bytes, *args: Any, **kwargs: Any) -> None:
        if self.command == "GET" and "/resolve/" in self.path:
            path = self.path.split("/resolve/", 1)[1].split("/", 1)[1]
            counts[path] = counts.get(path, 0) + len(body)
        send(self, body, *args, **kwargs)

    with patch.object(loopback_hub._Handler, "send", counting):
        yield counts


# What the processes do.


def load(path: str, *args: Any, take: int | None = None, ours: bool = True, **kwargs: Any) -> list[dict[str, Any]]:
    """Load a split and return its first rows; with or without this package."""
    from itertools import islice

    if ours:
        import personamem_builder  # noqa: F401
    import datasets

    rows = [dict(row) for row in islice(datasets.load_dataset(path, *args, **kwargs), take)]
    assert ours or "personamem_builder" not in sys.modules
    return rows


def read_api(repo_id: str) -> dict[str, Any]:
    """Read what stands in a repository with the library's other calls."""
    from huggingface_hub import HfApi, HfFileSystem

    api, repo = HfApi(), {"repo_id": repo_id, "repo_type": "dataset"}
    refs = api.list_repo_refs(**repo)
    with HfFileSystem().open(f"datasets/{repo_id}@v1/manifest.json", block_size=4) as file:
        file.seek(2)
        part = file.read(3)
    return {
        "refs": [ref.name for ref in refs.branches + refs.tags],
        "tree": [entry.path for entry in api.list_repo_tree(**repo)],
        "folder": [entry.path for entry in api.list_repo_tree(**repo, path_in_repo="data")],
        "paths": [entry.path for entry in api.get_paths_info(**repo, paths=["data", "manifest.json", "none"])],
        "exist": [api.file_exists(repo_id, "none", repo_type="dataset"), api.revision_exists(**repo, revision="none")],
        "part": part,
    }


def seconds_of_failure(function: Any, *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """Return how long a call took to fail, and its error."""
    import time

    from generation.errors import UserError

    start = time.monotonic()
    try:
        function(*args, **kwargs)
    except UserError as error:
        return time.monotonic() - start, error
    raise AssertionError("it did not fail")


def listed(function: Any, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """Return what a function yields."""
    return list(function(*args, **kwargs))


def load_all(path: str) -> dict[str, list[dict[str, Any]]]:
    """Load all splits."""
    import datasets

    return {split: list(rows) for split, rows in datasets.load_dataset(path).items()}


def load_offline(path: str, **kwargs: Any) -> list[dict[str, Any]]:
    """Load a split as if `HF_DATASETS_OFFLINE` were set."""
    import datasets

    with patch.object(datasets.config, "HF_HUB_OFFLINE", True):
        return load(path, **kwargs)


def warnings_of(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    """Return what a call warns of, as `CATEGORY: message`."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    return [f"{w.category.__name__}: {w.message}" for w in caught if "supersede" in str(w.message)]


def evaluate(tasks: str, metadata: dict[str, Any], limit: int | None = None) -> dict[str, Any]:
    """Run some tasks with a model that likes long options; return the recorded metadata, and the histories it saw."""
    import os

    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    from generation.resources import data_dir

    os.environ.pop("PERSONAMEM_DATA", None)
    prompts: dict[str, str] = {}

    class Model(LM):
        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            prompts.update({r.doc["question_id"]: r.args[0] for r in requests})
            return [(float(len(r.args[1])), False) for r in requests]

        loglikelihood_rolling = generate_until = None

    Model.__abstractmethods__ = frozenset()
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    results = simple_evaluate(
        model=Model(), tasks=tasks.split(","), task_manager=manager, limit=limit, bootstrap_iters=1
    )
    return {
        "metadata": {name: config["metadata"] for name, config in results["configs"].items()},
        "prompts": prompts,
    }


def command(*arguments: str) -> str:
    """Run a command of `personamem`, and return what it prints."""
    import io
    from contextlib import redirect_stdout

    from personamem_builder.cli import cli

    with redirect_stdout(io.StringIO()) as printed:
        cli.main(arguments, standalone_mode=False)
    return printed.getvalue()


def ask_elsewhere(task: str, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return what a task for other harnesses than lm-eval says of itself, and the messages of each question."""
    from personamem_builder.evaluation.written_task import WrittenTask

    written = WrittenTask(task, given)
    return written.metadata, {row["question_id"]: written.messages(row) for row in written.rows}
