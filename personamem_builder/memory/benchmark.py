"""A memory system, or a control, on a split: what it finds, measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from generation.errors import UserError
from generation.parallel import Workers, process_pool
from generation.tokenizer import num_tokens
from personamem_builder.dataset.locate import resolve_data, split_folder
from personamem_builder.memory.budget import check_budget, control_settings, within_budget
from personamem_builder.memory.controls import CONTROLS, Control, SplitQuestions
from personamem_builder.memory.measures import (
    Excerpt,
    Measure,
    retrieval_measures,
    retrievals_in_store,
    retrievals_of_excerpts,
    store_measures,
)
from personamem_builder.memory.parallel import MakePool
from personamem_builder.memory.registry import find_system, without_url
from personamem_builder.memory.runner import MAX_TIMEOUT, check_k, read_split, run_memory
from personamem_builder.memory.store import MemoryStore, StoredRun, opened_store
from personamem_builder.memory.summary import of_store, summarise
from personamem_builder.memory.system import Memory
from personamem_builder.schema import ContextRow, QuestionRow

Reader = Callable[[Sequence[QuestionRow], Sequence[ContextRow], Mapping[str, Excerpt]], Mapping[str, float]]
"""Answers questions from their excerpts, by their ids, and gives the credit of each."""


class BenchmarkResult(NamedTuple):
    """JSON of what was run, what it took and what was found, and the `--metadata` that shows models the same.

    `store` in the summary says where the results are.
    """

    summary: dict[str, Any]
    metadata: dict[str, Any]


def benchmark(
    data: str | None,
    split: str,
    name: str,
    settings: Mapping[str, Any],
    k: int,
    *,
    out: Path | None,
    timeout: float,
    budget: int | None = None,
    reader: Reader | None = None,
    workers: Workers = 1,
    make_pool: MakePool = process_pool,
) -> BenchmarkResult:
    """Have a memory system take in each history of a split once, search it for each question, and measure that.

    `data` is as in `resolve_data`, and `name` a system, see `find_system`, or a control that is measured. The results
    of a system are kept in `out`, by default in the cache, those of a control only there. `timeout` is in seconds, for
    one session or query; of what is found, what a `budget` of tokens has no room for does not count, see
    `within_budget`. A `reader` answers the questions too, which is the measure `answers by rules`. `workers` and
    `make_pool` are as in `run_memory`.

    Raises:
        UserError: An argument is of no use, or the system cannot be run.
    """
    if not 0 < timeout <= MAX_TIMEOUT:
        raise UserError(
            f"--timeout {timeout:g}: a system needs time, and not more than {MAX_TIMEOUT:g} seconds",
            "give seconds, such as 600",
        )
    check_k(k)
    source = resolve_data(data, splits=[split])
    split_folder(source, split)
    name, settings = without_url(name, settings)
    check_budget(budget)
    control = CONTROLS.get(name)
    metadata: dict[str, Any] = {"data": str(source.folder), "memory": name}
    if control is not None and control.is_measured:
        _check_control(control, settings, out)
        settings = control_settings(name, settings, budget)
        rows, contexts = read_split(source.folder, split)
        excerpts = _shown(control(settings, SplitQuestions(rows, rows, source.origin)), rows, contexts)
        found = retrievals_of_excerpts(rows, contexts, excerpts)
        measures = retrieval_measures(found)
        if any(excerpts[row["question_id"]].context_id != row["shared_context_id"] for row in rows):
            # Of another history nothing is recalled, and it has no share in this one.
            measures = [measure for measure in measures if measure.unit == "tokens"]
        about: dict[str, Any] = {"system": name, "settings": dict(settings), "split": split}
        about["data_digest"] = source.digest
        if out is not None:
            run = cast(StoredRun, {**about, "version": "", "k": 0})
            about["store"] = str(_keep_excerpts(out, run, rows, contexts, excerpts).folder)
    else:
        spec = find_system(name, settings)
        store = run_memory(
            source.folder, split, spec, k, out=out, timeout=timeout, workers=workers, make_pool=make_pool
        )
        rows, contexts = read_split(source.folder, split)
        texts = {one["shared_context_id"]: [m["content"] for m in one["messages"]] for one in contexts}
        excerpts = {
            row["question_id"]: _found(row, store.memories(row["question_id"]), budget, texts[row["shared_context_id"]])
            for row in rows
        }
        found = retrievals_in_store(store, rows, contexts, budget)
        measures, about = store_measures(store, found), of_store(store)
        metadata |= {"store": str(out)} if out else {"k": k}
    if settings and "store" not in metadata:
        metadata["settings"] = dict(settings)
    if budget is not None:
        about["budget_tokens"] = metadata["budget_tokens"] = budget
    if reader is not None:
        measures.append(Measure("answers by rules", "share", reader(rows, contexts, excerpts)))
    return BenchmarkResult({**about, **summarise(found, measures)}, metadata)


def can_be_parallel(name: str, settings: Mapping[str, Any]) -> bool:
    """Say whether a system, or a control, may walk several histories at a time, see `SystemSpec.is_parallel`.

    Raises:
        UserError: There is no such system, or it cannot say.
    """
    return name in CONTROLS or find_system(name, settings).is_parallel


def _check_control(control: type[Control], settings: Mapping[str, Any], out: Path | None) -> None:
    if settings and not control.takes_settings:
        raise UserError(f"--system {control.name} is a control: it has no settings", "leave out --set")
    if out is not None and control.shows_whole:
        raise UserError(
            f"--system {control.name} is a control whose results cannot be kept: what it shows is the whole history of "
            "a user",
            "leave out --out",
        )


def _shown(control: Control, rows: Sequence[QuestionRow], contexts: Sequence[ContextRow]) -> dict[str, Excerpt]:
    by_id = {context["shared_context_id"]: context for context in contexts}
    excerpts = {}
    for row in rows:
        context = by_id[control.context_id(row)]
        starts = context["session_starts"]
        indices = control.indices(row, context["messages"][: control.end(row, starts)], starts)
        excerpts[row["question_id"]] = Excerpt(context["shared_context_id"], indices)
    return excerpts


def _found(row: QuestionRow, given: Sequence[Memory], budget: int | None, texts: Sequence[str]) -> Excerpt:
    memories = within_budget(given, budget, texts)
    indices = [i for memory in memories for i in memory.message_indices]
    return Excerpt(
        row["shared_context_id"], indices, [memory.text for memory in memories if not memory.message_indices]
    )


def _keep_excerpts(
    out: Path,
    run: StoredRun,
    rows: Sequence[QuestionRow],
    contexts: Sequence[ContextRow],
    excerpts: Mapping[str, Excerpt],
) -> MemoryStore:
    """Keep what a control shows of the questions' own histories as if a system had found it, to compare it with these.

    Raises:
        UserError: `out` holds something else, or cannot be written.
    """
    messages = {context["shared_context_id"]: context["messages"] for context in contexts}
    with opened_store(out, run) as store:
        for row in (row for row in rows if not store.is_answered(row["question_id"])):
            own = messages[row["shared_context_id"]]
            texts = {i: own[i]["content"] for i in excerpts[row["question_id"]].indices if own[i]["role"] != "system"}
            store.add_question(
                {
                    "question_id": row["question_id"],
                    "persona_id": row["persona_id"],
                    "shared_context_id": row["shared_context_id"],
                    "end": row["end_index_in_shared_context"],
                    "memories": [(text, "", [i]) for i, text in texts.items()],
                    "tokens": sum(map(num_tokens, texts.values())),
                    "seconds": 0.0,
                    "error": "",
                    "faults": [],
                    "taint": [],
                    "usage": {},
                }
            )
    return store
