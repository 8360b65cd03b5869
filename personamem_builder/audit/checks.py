"""The checks of an audit as tasks, which may be made one after another or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.parallel import WorkerPool, Workers, worker_pool
from personamem_builder.audit.balance import balance_findings
from personamem_builder.audit.cues import cue_findings
from personamem_builder.audit.history.history import (
    POOLED,
    history_credits,
    pooled_findings,
    reading_findings,
    telling_findings,
    unread_findings,
)
from personamem_builder.audit.history.memoriser import Memory
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.integrity import integrity_findings
from personamem_builder.audit.probes import probe_credits, probe_findings
from personamem_builder.audit.readers import can_be_read, findings_of_readings, is_offline, read_questions, unread
from personamem_builder.audit.records import ALL, AuditedSplit, Finding
from personamem_builder.audit.sample import SAMPLE, sample
from personamem_builder.audit.surface import surface_findings
from personamem_builder.audit.texts import text_findings

_PROBES: Final = "probe"
_READER: Final = "reader"
_HISTORY: Final = "history"
_WHOLE: Final[Mapping[str, Callable[[AuditedSplit], list[Finding]]]] = {
    "telling": telling_findings,
    "text": text_findings,
    "surface": surface_findings,
    "cue": cue_findings,
    "balance": balance_findings,
    "integrity": integrity_findings,
}
_SHARES: Final = 2  # for each process, of what is made context by context


class Check(NamedTuple):
    """A task: a check of a split, or of a share of its contexts.

    Attributes:
        split: Name of the split.
        name: Of the check.
        number: Of the share.
        shares: How many there are.
    """

    split: str
    name: str
    number: int = 0
    shares: int = 1


def checks_of(split: str, workers: int) -> list[Check]:
    """Return the checks of a split, those first that take longest."""
    count = 1 if workers == 1 else _SHARES * workers
    shares = [Check(split, name, number, count) for name in (_HISTORY, _READER) for number in range(count)]
    return [*shares, *(Check(split, name) for name in (_PROBES, POOLED, *_WHOLE))]


class Checker:
    """Makes checks, in one process.

    Args:
        read: Gives a split by its name.
        memory: What the memoriser learned.
        most_probed: Of so many questions of a split at most probes are trained and tested, see `sample`.
    """

    def __init__(self, read: Callable[[str], AuditedSplit], memory: Memory | None, most_probed: int = SAMPLE) -> None:
        self._memory = memory
        # One split at a time is in memory: its checks come one after another.
        self._split = lru_cache(maxsize=1)(lambda name: read(name))
        self._probed = lru_cache(maxsize=1)(lambda name: sample(self._split(name), most_probed))
        self._is_offline = lru_cache(maxsize=1)(lambda name: is_offline(self._split(name)))

    def make(self, check: Check) -> Any:
        """Return what a check gives, which is for `findings` to put together."""
        if check.name == _PROBES:
            return probe_credits(self._probed(check.split))
        if check.name == POOLED:
            return pooled_findings(self._probed(check.split))
        split = self._split(check.split)
        if check.name in _WHOLE:
            return _WHOLE[check.name](split)
        share = split.share(check.number, check.shares) if check.shares > 1 else split
        if check.name == _HISTORY:
            return history_credits(share, self._memory)
        return read_questions(share, self._is_offline(split.name)) if can_be_read(split) else None

    def findings(
        self, split: AuditedSplit, made: Mapping[str, Sequence[Any]]
    ) -> tuple[list[Finding], dict[str, list[float]], AuditedSplit]:
        """Return the findings of a split, from what its checks gave, by name, share by share.

        Beside them the credits of the trained probes, and the questions that these belong to.
        """
        probed = self._probed(split.name)
        [credits_], [pooled] = made[_PROBES], made[POOLED]
        whole = {name: found for name in _WHOLE for [found] in [made[name]]}
        readings = _joined(split, made[_READER])
        histories = [*made[_HISTORY]]
        return (
            [
                *whole["surface"],
                *_told(split, probed, probe_findings(probed, credits_)),
                *whole["cue"],
                *whole["balance"],
                *whole["text"],
                *whole["integrity"],
                *(unread(split) if readings is None else findings_of_readings(split, readings)),
                *reading_findings(split, _joined_credits(split, histories)),
                *whole["telling"],
                *_told(split, probed, pooled),
                *unread_findings(split, self._memory),
            ],
            credits_,
            probed,
        )


def _joined(split: AuditedSplit, shares: Sequence[Sequence[Any] | None]) -> list[Any] | None:
    """Return a list for the questions of a split from one for those of each share."""
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    if len(shares) == 1:
        return [*known[0]]
    joined: list[Any] = [None] * len(split.rows)
    for number, share in enumerate(known):
        for i, value in zip(split.indices_of_share(number, len(known)), share, strict=True):
            joined[i] = value
    return joined


def _joined_credits(
    split: AuditedSplit, shares: Sequence[Mapping[str, Sequence[float]] | None]
) -> dict[str, list[float]] | None:
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    return {check: _joined(split, [share[check] for share in known]) or [] for check in known[0]}


def _told(split: AuditedSplit, probed: AuditedSplit, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with a note on those that were made of a sample."""
    if probed is split:
        return [*findings]
    note = f"a sample: {len(probed.rows):,} of {len(split.rows):,} questions"
    return [
        finding._replace(note="; ".join(filter(None, [finding.note, note]))) if _is_of_sample(finding) else finding
        for finding in findings
    ]


def _is_of_sample(finding: Finding) -> bool:
    return finding.slice == ALL and not finding.needs


# --- in several processes


@contextmanager
def checking_pool(workers: Workers, path: Path, memory: Memory | None) -> Iterator[WorkerPool | None]:
    """Give processes for `make`, which audit what is at a path; None where this process is to work alone."""
    folder = path if path.is_dir() else path.absolute().parent
    with worker_pool(workers, _start, path.absolute(), memory, visible=[folder]) as pool:
        yield pool


_checker: Checker


def _start(path: Path, memory: Memory | None) -> None:
    global _checker
    _checker = Checker(lambda name: read_splits(path, [name])[0], memory)


def make(check: Check) -> Any:
    """Make a check in a process of `checking_pool`."""
    return _checker.make(check)
