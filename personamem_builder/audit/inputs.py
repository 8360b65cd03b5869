"""What can be audited: a dataset folder, a run, the files of a release, or questions alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast

import pyarrow as pa

from generation.errors import UserError
from generation.records import Question
from generation.store import RunStore
from generation.tokenizer import count_tokens
from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.records import Block
from personamem_builder.assemble.run_records import PersonaRecords, PersonaSpans, find_personas, read_persona
from personamem_builder.audit.packed_rows import pack
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import changed_files, context_files, question_files
from personamem_builder.manifest import may_be_dataset, read_manifest
from personamem_builder.official import questions_csv
from personamem_builder.official.contexts_jsonl import read_contexts, session_starts
from personamem_builder.official.faults import Faults
from personamem_builder.official.release import contexts_file, questions_file
from personamem_builder.schema import SPLITS, ContextRow, QuestionRow, question_columns, table_order

RUN: Final = "run"
"""Name of the only split of a run: all its questions, as they are before contexts are put together."""

_NUM_OPTIONS: Final = range(2, 27)  # as many as there are letters
_CSV: Final = (".csv", ".csv.gz")
_UNKNOWN_PERSONA: Final = -1
_FAULTS_SHOWN: Final = 5
_BATCH: Final = 1024

_Reader = Callable[[], AuditedSplit]


def read_splits(path: Path, splits: Sequence[str] = ()) -> list[AuditedSplit]:
    """Read what is to be audited; faults of the files are noted, and what is sound of them is read on.

    Args:
        path: A dataset folder; a run, whose questions are one split, `run`, each with its persona's whole history; a
            folder of release files, where `questions_{split}.csv` may lack its contexts, and those columns that speak
            of them; or one such CSV, `.csv.gz` too.
        splits: Names of the splits to read; all of them by default.

    Returns:
        The splits, each with at least one question. Those of a CSV have a `row` number beside their columns.

    Raises:
        UserError: There is nothing of this kind, it has no such split, or no question of a split can be read.
    """
    readers = _readers(path)
    for name in splits:
        if name not in readers:
            raise UserError(f"{path} has no split {name!r}, it has {', '.join(readers)}", "choose one of these")
    return [_with_questions(path, readers[name]()) for name in dict.fromkeys(splits) or readers]


def _readers(path: Path) -> Mapping[str, _Reader]:
    """Return what reads each split."""
    if path.is_file() and path.name.endswith(_CSV):
        return {_split_name(path): partial(_read_csv, path, None)}
    if may_be_dataset(path):
        return {name: partial(_read_dataset, path, name) for name in read_manifest(path)["splits"]}
    if (path / "stages").is_dir() or RunStore(path).is_sharded:
        return {RUN: partial(read_run, RunStore(path))}
    found = [file for file in path.glob("questions_*") if file.name.endswith(_CSV)]
    # Of two files of a split the shorter name is read: the one that is not of options only, or not packed.
    if files := {_split_name(file): file for file in sorted(found, key=lambda file: -len(file.name))}:
        names = sorted(files, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name))
        return {name: partial(_read_csv, files[name], path / contexts_file(name)) for name in names}
    raise UserError(
        f"{path} {'is nothing that can be audited' if path.exists() else 'does not exist'}",
        f"give a dataset folder, a run, a folder with {questions_file('32k')} in it, or one CSV of questions",
    )


def _split_name(path: Path) -> str:
    stem = path.name.removesuffix(".gz").removesuffix(".csv")
    return stem.removeprefix("questions_").removesuffix("_options_only")


def _with_questions(path: Path, split: AuditedSplit) -> AuditedSplit:
    if not split.rows:
        faults = "".join(f"\n  {fault}" for fault in split.source_faults[:_FAULTS_SHOWN])
        raise UserError(f"{path}: the split {split.name} has no question that can be read{faults}", "mend its file")
    return split


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path} cannot be read: {error}", "restore the file, or make it again") from error


# --- a dataset folder


def _read_dataset(folder: Path, split: str) -> AuditedSplit:
    questions, contexts = question_files(folder, split), context_files(folder, split)
    with _reading(questions[0]):
        # Whether the files are as written, and how questions stand to their contexts, is for the audit to find.
        table = read_questions(folder, split, contexts=False, whole=False)
        rows = pack(
            cast("QuestionRow", {column: value for column, value in row.items() if value is not None})
            for batch in table.to_batches(max_chunksize=_BATCH)
            for row in batch.to_pylist()
        )
        del table
        pa.default_memory_pool().release_unused()  # the table was larger than what is kept of it
        changed = changed_files(folder)
    return AuditedSplit(
        name=split,
        rows=rows,
        contexts=partial(_dataset_contexts, contexts) if all(path.is_file() for path in contexts) else None,
        source_faults=[
            f"{name} is missing, or not as it was written"
            for name in changed
            if folder / name in (*questions, *contexts)
        ],
    )


def _dataset_contexts(paths: Sequence[Path], wanted: Collection[str] | None = None) -> Iterator[ContextRow]:
    for path in paths:
        with _reading(path):
            yield from iter_contexts(path, wanted=wanted)


# --- a run


def read_run(store: RunStore, *, refined: bool = True) -> AuditedSplit:
    """Read the questions of a run, each asked in the whole history of its persona, as late as it can be.

    Args:
        store: The run.
        refined: Whether the questions that `personamem refine` dropped are left out.

    Raises:
        UserError: The run is not finished, or was damaged.
    """
    places = list(find_personas(store, refined=refined))
    rows = []
    histories = []
    for place in places:
        records = read_persona(place)
        layout = _whole_history(records)
        histories.append((layout.shared_context_id, place))
        starts = dict(zip(layout.session_ids, layout.session_starts, strict=True))
        for question in records.questions:
            end = starts.get(question.before_session_id or "", len(layout.messages))
            rows.append(_run_row(question, layout, end))
    rows.sort(key=table_order)
    return AuditedSplit(name=RUN, rows=rows, contexts=partial(_run_contexts, histories))


def _run_contexts(
    histories: Sequence[tuple[str, PersonaSpans]], wanted: Collection[str] | None = None
) -> Iterator[ContextRow]:
    for context_id, place in histories:
        if wanted is not None and context_id not in wanted:
            continue
        records = read_persona(place)
        layout = _whole_history(records)
        sessions = {plan.session_id: (topic.topic, plan) for topic in records.history.topics for plan in topic.sessions}
        planned = [sessions[session_id] for session_id in layout.session_ids]
        yield {
            "shared_context_id": layout.shared_context_id,
            "persona_id": place.persona_id,
            "messages": layout.messages,
            "session_starts": layout.session_starts,
            "session_topics": [topic for topic, _ in planned],
            "session_dates": [plan.date.isoformat() for _, plan in planned],
            "num_tokens": layout.tokens_before[-1],
        }


def _whole_history(records: PersonaRecords) -> Layout:
    plans = sorted((s for topic in records.history.topics for s in topic.sessions), key=lambda plan: plan.date)
    return lay_out(records, [Block(kind="session", id=plan.session_id) for plan in plans], {})


def _run_row(question: Question, layout: Layout, end: int) -> QuestionRow:
    return {
        **question_columns(question),
        "context_length_in_tokens": layout.tokens_before[end] + question.num_tokens,
        "context_length_in_letters": layout.letters_before[end],
        "shared_context_id": layout.shared_context_id,
        "end_index_in_shared_context": end,
        "evidence_message_indices": [layout.event_places[event_id] for event_id in question.evidence_event_ids],
    }


# --- files of a release


def _read_csv(path: Path, contexts: Path | None) -> AuditedSplit:
    faults = Faults()
    with _reading(path):
        rows = questions_csv.read_questions(
            path, faults, required=questions_csv.OPTIONS_ONLY_COLUMNS, num_options=_NUM_OPTIONS
        )
    if contexts is not None and contexts.is_file():
        with _reading(contexts):
            read_contexts(contexts, faults)
    else:
        contexts = None
    return AuditedSplit(
        name=_split_name(path),
        rows=rows,
        contexts=None if contexts is None else partial(_release_contexts, contexts, _owners(rows), {}),
        source_faults=faults.lines,
    )


def _owners(rows: Sequence[QuestionRow]) -> dict[str, int]:
    """Return the persona of each context: that of its first question, since the release does not name it."""
    owners: dict[str, int] = {}
    for row in rows:
        owners.setdefault(row["shared_context_id"], row["persona_id"])
    return owners


def _release_contexts(
    path: Path, owners: Mapping[str, int], counted: dict[str, int], wanted: Collection[str] | None = None
) -> Iterator[ContextRow]:
    """Yield the contexts of a file; the tokens of each are counted the first time."""
    with _reading(path):
        contexts = read_contexts(path, Faults())
    for key, messages in contexts.items():
        if wanted is not None and key not in wanted:
            continue
        if key not in counted:
            tokens = count_tokens(message["content"] for message in messages)
            counted[key] = sum(tokens[message["content"]] for message in messages)
        starts = session_starts(messages)
        yield {
            "shared_context_id": key,
            "persona_id": owners.get(key, _UNKNOWN_PERSONA),
            "messages": messages,
            "session_starts": starts,
            "session_topics": [""] * len(starts),
            "session_dates": [""] * len(starts),
            "num_tokens": counted[key],
        }
