"""A refinement of a run: questions that give themselves away are reworded or left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from generation.errors import UserError
from generation.files import file_digest
from generation.interruption import kept_if_interrupted
from generation.llm.backends import parse_backend
from generation.prompts import template_digests
from generation.run_inputs import RunInputs
from generation.store import RunStore
from personamem_builder.assemble.refined import REASONS, Count, Funnel, Refined
from personamem_builder.audit.gates import Gates
from personamem_builder.refine.clients import Clients
from personamem_builder.refine.commit import commit, read_state
from personamem_builder.refine.drafts import QuestionDraft, digest_of, read_drafts
from personamem_builder.refine.no_context import NoContextFilter, apply_filter, check_filter
from personamem_builder.refine.origin import work_of_run
from personamem_builder.refine.repair import missed_limits, repair
from personamem_builder.refine.rewrite import rewrite


class Settings(NamedTuple):
    """What decides about questions.

    Attributes:
        rounds: How often they are rewritten at most.
        gates: Limits for probes.
        writer: Who rewrites, the name of a backend; by default who wrote them.
        filter: Who answers them without the history; None for nobody.
    """

    rounds: int
    gates: Gates
    writer: str | None = None
    filter: NoContextFilter | None = None


class Refinement(NamedTuple):
    """What came of a refinement.

    Attributes:
        refined: What was decided; None where there was nothing to decide.
        missed_at_first: The limits of probes that the questions missed as they were made.
        missed_at_last: Those that the kept ones miss.
        is_new: Whether anything was done.
        was_stale: Whether there was a decision on questions that the run no longer has.
    """

    refined: Refined | None
    missed_at_first: tuple[str, ...]
    missed_at_last: tuple[str, ...]
    is_new: bool = True
    was_stale: bool = False


def refine(store: RunStore, settings: Settings, config: Path | None = None, budget: float | None = None) -> Refinement:
    """Refine a finished run.

    What is decided follows from the questions as they were made and from the settings, not from earlier refinements.
    Nothing is written before all is decided, but replies that were paid for are kept: the same command again after a
    stop pays for none of them.

    Args:
        store: The run.
        settings: What decides about its questions.
        config: The configuration of the run, for prices and for topic banks that are not shipped.
        budget: Most that the calls of the run may cost, in US dollars, those before included; None for no limit.

    Raises:
        UserError: The run is in shards, not finished or was damaged, another process is writing to it, a setting is
            impossible, a model cannot be asked, or the budget is spent.
    """
    if store.is_sharded:
        raise UserError(
            f"{store.folder} is in shards: refine decides on all questions of a run together, from one file",
            "put the shards together first, as docs/scale.md shows",
        )
    said = f"the questions of {store.folder} are as they were, and replies are kept; rerun the command to resume"
    with kept_if_interrupted(said), store.writing():
        return _refine(store, settings, config, budget)


def _refine(store: RunStore, settings: Settings, config: Path | None, budget: float | None) -> Refinement:
    if settings.filter is not None:
        check_filter(settings.filter)
    work = work_of_run(store, config)
    writer = parse_backend(_writer(settings, work))
    state, said = read_state(store), _settings_record(settings, work)
    if (old := state.refined) is not None and state.is_whole and old.settings == said and not _lacks_replies(old):
        return Refinement(old, old.missed_at_first, old.missed_at_last, is_new=False)
    names = [writer] if settings.rounds else []
    names += [parse_backend(settings.filter.model)] if settings.filter else []
    unwritten = 0
    with Clients(store, work, names, budget) as clients:
        asked = [clients.connect(name) for name in names]  # what is missing is said before anything is trained
        drafts = read_drafts(store, work, state.made)

        def rewrite_(chosen: Sequence[QuestionDraft], round_: int) -> None:
            nonlocal unwritten
            unwritten += rewrite(clients, asked[0], work, chosen, round_)

        at_first, at_last = repair(drafts, settings.gates, settings.rounds, rewrite_)
        no_context = apply_filter(clients, asked[-1], settings.filter, drafts) if settings.filter else None
    if no_context is not None and no_context.all.dropped:
        at_last = missed_limits(drafts, settings.gates)
    first, last = (tuple(one.name for one in missed) for missed in (at_first, at_last))
    refined = None
    if no_context is not None or any(draft.rewritten or draft.dropped for draft in drafts):
        refined = Refined(
            made=file_digest(state.made),
            result=digest_of(drafts),
            settings=said,
            missed_at_first=first,
            missed_at_last=last,
            unwritten=unwritten,
            funnel=_funnel(drafts),
            no_context=no_context,
            questions={draft.question.question_id: draft.fate for draft in drafts},
        )
    commit(store, state.made, drafts, refined)
    return Refinement(refined, first, last, was_stale=state.is_stale)


def _writer(settings: Settings, work: RunInputs) -> str:
    return settings.writer or work.stage_backends.get("questions", work.backend)


def _lacks_replies(refined: Refined) -> bool:
    """Say whether a model may be asked again for what it gave no usable reply for."""
    return bool(refined.unwritten or (refined.no_context and refined.no_context.unusable))


def _settings_record(settings: Settings, work: RunInputs) -> dict[str, Any]:
    """Return everything that decides beside the questions, as JSON has it."""
    writer = _writer(settings, work)
    gates = {pattern: gate.model_dump() for pattern, gate in settings.gates.items()}
    filter_ = settings.filter
    said: dict[str, Any] = {
        "rounds": settings.rounds,
        "writer": writer,
        "gates": hashlib.sha256(json.dumps(gates).encode()).hexdigest()[:16],
        "no_context": filter_ and {**filter_._asdict(), "template": template_digests()["no_context.j2"]},
    }
    if filter_ or not parse_backend(writer).is_offline:
        said["llm"] = work.config.llm.identity()
    return said


def _funnel(drafts: Sequence[QuestionDraft]) -> Funnel:
    by_type: dict[str, list[QuestionDraft]] = {}
    for draft in drafts:
        by_type.setdefault(draft.question.question_type, []).append(draft)
    return Funnel(all=_count(drafts), types={name: _count(own) for name, own in by_type.items()})


def _count(drafts: Sequence[QuestionDraft]) -> Count:
    return Count(
        made=len(drafts),
        rewritten=sum(bool(draft.rewritten) for draft in drafts),
        dropped={reason: sum(draft.dropped == reason for draft in drafts) for reason in REASONS},
        kept=sum(draft.dropped is None for draft in drafts),
    )
