"""Whether a memory system does what the benchmark takes for granted: a check with made-up users, and its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from generation.errors import UserError
from personamem_builder.memory.made_up import ODD_QUERIES, MadeUpUser, made_up_user, odd_session
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.system import Memory, Session
from personamem_builder.memory.trial import Failure, Lab, Skipped, Trial, Unclear, temporary_files_in
from personamem_builder.memory.worker import Hung, Worker

Status = Literal["passed", "FAILED", "unclear", "skipped"]

_CRASHED: Final = 9
_CALLS_BEFORE_A_CRASH: Final = 4
_IN_A_PROCESS: Final = (
    f"import json, sys; path, *system = json.loads(sys.argv[1]); sys.path[:] = path; import {__name__} as checks; "
    "checks.die_in_mid_history(*system)"
)

_ONE: Final = made_up_user("one")
_OTHER: Final = made_up_user("other")
_ASKED_ONLY: Final = made_up_user("asked only").facts[0].word


class Verdict(NamedTuple):
    """What came of a check: `unclear` where it could not tell, `skipped` where the system has no such thing."""

    check: str
    status: Status
    detail: str


# ---- checks


def _finds(lab: Lab) -> str:
    with lab.trial(*_ONE.sessions) as trial:
        found = trial.found(_ONE)
        lab.found = {
            place
            for place, (memories, fact) in enumerate(zip(found, _ONE.facts, strict=True))
            if _holds(memories, [fact.word])
        }
        fewer = trial.search(_ONE.facts[0].question, 1)
    if len(fewer) > 1:
        raise Failure("search with k = 1 returns more than one memory")
    return lab.sure(f"{len(lab.found)} of {len(_ONE.facts)} facts found")


def _order(lab: Lab) -> str:
    fact = _ONE.facts[_ONE.changed]
    with lab.trial() as trial:
        if early := [memory.text for memory in trial.search(fact.question) if memory.text.strip()]:
            raise Failure(f"it remembers something before it is told anything: {early[0][:60]!r}")
        trial.feed(_ONE.sessions[:-1])
        if _holds(trial.search(fact.question), [fact.word]):
            raise Failure("it knows what it has not been told yet")
        trial.feed(_ONE.sessions[-1:])
        now = trial.search(fact.question)
    for memory in now:
        words = [word for word in _ONE.words if word in memory.text.lower()]
        days = {session.date for session in _ONE.sessions for word in words if _says(session, word)}
        if memory.date and days and memory.date not in days:
            raise Failure(f"a memory of {min(days)} bears the date {memory.date}")
    if _holds(now, [fact.word]):
        return "the newest state is found"
    if _holds(now, [_ONE.outdated]):
        raise Failure("of a preference that changed it finds the outdated state only")
    raise Unclear("of a preference that changed it finds neither state")


def _pieces(lab: Lab) -> str:
    session = _ONE.sessions[1]
    first, second = session.messages[:2], session.messages[2:]
    rest = session._replace(messages=second, first_index=session.first_index + len(first))
    with lab.trial(_ONE.sessions[0], session._replace(messages=first), rest) as trial:
        is_found = _holds(trial.search(_ONE.facts[1].question), [_ONE.facts[1].word])
    if lab.sure_of(1) and not is_found:
        raise Failure("a session that comes in pieces loses what its first piece told")
    return "what was told in the first piece of a session is there after the second"


def _searching(lab: Lab) -> str:
    with lab.trial(*_ONE.sessions) as trial:
        before = trial.found(_ONE)
        trial.search(f"Did I ever mention {_ASKED_ONLY}?")
        asked = trial.search(f"Did I ever mention {_ASKED_ONLY}?")
        after = trial.found(_ONE)
    if _holds(asked, [_ASKED_ONLY]):
        raise Failure("it writes down what it is asked, and gives it back")
    if _texts(before) != _texts(after):
        raise Failure("the same search finds other things after other searches")
    return "searching changes nothing, and is not remembered"


def _repeats(lab: Lab) -> str:
    with lab.trial(*_ONE.sessions) as trial:
        first = trial.found(_ONE)
        trial.reset()
        trial.feed(_ONE.sessions)
        again = trial.found(_ONE)
    if _texts(first) != _texts(again):
        raise Unclear("the same history gives other memories a second time: repeat runs, and report the spread")
    return "the same history gives the same memories"


def _isolation(lab: Lab) -> str:
    with lab.trial(*_ONE.sessions) as trial:
        trial.reset()
        trial.feed(_OTHER.sessions)
        _refuse(trial, _ONE, "after a reset")
    if not lab.spec.is_parallel:
        return lab.sure("the next user finds nothing of the one before (one user at a time: parallel = False)")
    with lab.trial() as one, lab.trial() as other:
        for mine, others in zip(_ONE.sessions, _OTHER.sessions, strict=True):
            one.feed([mine])
            other.feed([others])
        _refuse(one, _OTHER, "of two systems side by side")
        _refuse(other, _ONE, "of two systems side by side")
    return lab.sure("neither the next user nor one beside finds anything of a user")


def _forgetting(lab: Lab) -> str:
    with (
        tempfile.TemporaryDirectory(prefix="personamem-check-", ignore_cleanup_errors=True) as folder,
        temporary_files_in(folder),
        lab.trial(*_ONE.sessions) as trial,
    ):
        lab.sure("")
        trial.reset()
        _refuse(trial, _ONE, "after a reset")
        snapshot = getattr(trial.system, "snapshot", None)
        if callable(snapshot) and _has_words(trial.call("snapshot", snapshot), _ONE):
            raise Failure("after a reset its snapshot holds words of the user before")
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        if left := [path for path in files if _has_words(_read(path), _ONE)]:
            raise Failure(f"after a reset {len(left)} of its files hold words of the user before: {left[0].name}")
    return "a reset leaves nothing of a user, in temporary files either"


def _persistence(lab: Lab) -> str:
    with lab.trial(*_ONE.sessions[:3]) as trial:
        if not all(callable(getattr(trial.system, name, None)) for name in ("snapshot", "restore")):
            raise Skipped("it has no snapshot and restore: an interrupted run shows it the earlier sessions again")
        content = trial.call("snapshot", trial.system.snapshot)
        if not isinstance(content, bytes):
            raise Failure(f"snapshot returns {type(content).__name__}, not bytes")
        trial.feed(_ONE.sessions[3:])
        expected = trial.found(_ONE)
    with lab.trial(*_OTHER.sessions) as trial:
        trial.reset()
        trial.call("restore", partial(trial.system.restore, content))
        trial.knows(_ONE.sessions[:3])
        trial.feed(_ONE.sessions[3:])
        if _texts(trial.found(_ONE)) != _texts(expected):
            raise Failure("restored from a snapshot it finds other things than without")
    return "restored from a snapshot it finds the same"


def _crash(lab: Lab) -> str:
    told = json.dumps([sys.path, lab.spec.name, dict(lab.spec.settings)])
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _IN_A_PROCESS, told],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=lab.timeout * _CALLS_BEFORE_A_CRASH,
        )
    except subprocess.TimeoutExpired:
        raise Failure("in a process of its own it hangs") from None
    if ended.returncode != _CRASHED:
        last = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        raise Failure(f"in a process of its own it fails: {last}"[:300])
    with lab.trial(*_OTHER.sessions) as trial:
        _refuse(trial, _ONE, "after a crash")
        trial.reset()
        trial.feed(_ONE.sessions)
        hits = sum(_holds(found, [fact.word]) for found, fact in zip(trial.found(_ONE), _ONE.facts, strict=True))
    lab.sure("")
    if not hits:
        raise Failure("after a crash in mid-history it finds nothing any more")
    return "a process that dies in mid-history leaves nothing behind, and the history can be shown again"


def _unicode(lab: Lab) -> str:
    odd = odd_session(0, 0)
    next_one = _ONE.sessions[1]._replace(first_index=len(odd.messages))
    with lab.trial(odd, next_one) as trial:
        for query in ODD_QUERIES:
            trial.search(query, is_strict=False)
        # Halves of characters may come back mended, and then stand for no message.
        is_found = _holds(trial.search(_ONE.facts[1].question, is_strict=False), [_ONE.facts[1].word])
    if lab.sure_of(1) and not is_found:
        raise Failure("after texts of other scripts, control characters and long words it finds nothing any more")
    return "other scripts, control characters, empty and long texts do no harm"


def _twice(lab: Lab) -> str:
    if not getattr(lab.spec.cls, "takes_in_once", False):
        raise Skipped("no session is sent to it twice")
    with lab.trial(*_ONE.sessions) as trial:
        once = trial.found(_ONE)
    with lab.trial(*chain.from_iterable((session, session) for session in _ONE.sessions)) as trial:
        twice = trial.found(_ONE)
    lab.sure("")
    if any(len(a) < len(b) for a, b in zip(_texts(once), _texts(twice), strict=True)):
        raise Failure("a session that is sent again is taken in twice")
    return "a session that is sent again is taken in once"


def _usage(lab: Lab) -> str:
    with lab.trial() as trial:
        if not callable(usage := getattr(trial.system, "usage", None)):
            raise Skipped("it has no usage: what it costs is known in seconds only")
        before = dict(trial.call("usage", usage))
        trial.feed(_ONE.sessions)
        after = dict(trial.call("usage", usage))
    for key, value in after.items():
        if not isinstance(value, int | float) or value < before.get(key, 0):
            raise Failure(f"usage: {key} is {value!r}, and was {before.get(key, 0)!r}: it takes sums that only grow")
    return f"it tells {', '.join(map(str, after)) or 'nothing so far'}"


def _time(lab: Lab) -> str:
    seconds, what = lab.slowest
    if seconds > lab.timeout:
        raise Failure(f"{what} took longer than {lab.timeout:g} s")
    return f"no call took longer than {lab.timeout:g} s; the slowest, {what}, {seconds:.2g} s"


_CHECKS: Final[Mapping[str, Callable[[Lab], str]]] = {
    "finds": _finds,
    "order": _order,
    "pieces": _pieces,
    "searching": _searching,
    "repeats": _repeats,
    "isolation": _isolation,
    "forgetting": _forgetting,
    "persistence": _persistence,
    "crash": _crash,
    "unicode": _unicode,
    "sent twice": _twice,
    "usage": _usage,
    "time limit": _time,
}


def check_system(name: str, settings: Mapping[str, Any], timeout: float) -> list[Verdict]:
    """Check a memory system; `name` and `settings` are as in `find_system`, `timeout` is in seconds, for one call.

    Raises:
        UserError: It cannot be made, or there is no time.
    """
    if not timeout > 0:
        raise UserError(f"--timeout {timeout:g}: a system needs time", "give seconds, such as 60")
    spec = find_system(name, settings)
    worker = Worker()
    try:
        worker.call(lambda: spec.make().reset(), timeout)
    except Hung as hung:
        raise UserError(f"the memory system {spec.name} cannot be made and reset: {hung}", "raise --timeout") from None
    except UserError:
        raise
    except Exception:  # the checks say what it does wrong
        pass
    worker.close()
    lab = Lab(spec, timeout)
    return [_verdict(check, function, lab) for check, function in _CHECKS.items()]


def _verdict(check: str, function: Callable[[Lab], str], lab: Lab) -> Verdict:
    try:
        return Verdict(check, "passed", function(lab))
    except Failure as failure:
        return Verdict(check, "FAILED", str(failure))
    except Unclear as unclear:
        return Verdict(check, "unclear", str(unclear))
    except Skipped as skipped:
        return Verdict(check, "skipped", str(skipped))


# ---- what checks share


def die_in_mid_history(name: str, settings: Mapping[str, Any]) -> None:
    """Take in some sessions, and end as a process does that is killed."""
    system = find_system(name, settings).make()
    system.reset()
    for session in _ONE.sessions[:2]:
        system.add_session(session)
    os._exit(_CRASHED)


def _texts(found: Sequence[Sequence[Memory]]) -> list[list[str]]:
    return [[memory.text for memory in memories] for memories in found]


def _holds(memories: Sequence[Memory], words: Sequence[str]) -> bool:
    return any(word in memory.text.lower() for memory in memories for word in words)


def _says(session: Session, word: str) -> bool:
    return any(word in message["content"] for message in session.messages)


def _refuse(trial: Trial, user: MadeUpUser, when: str) -> None:
    queries = [*(fact.question for fact in user.facts), *user.words]
    for query in queries:
        for memory in trial.search(query, is_strict=False):
            word = next((word for word in user.words if word in memory.text.lower()), None)
            if (
                word is not None and memory.text.strip() not in queries
            ):  # what is asked and given back is told elsewhere
                raise Failure(f"{when} a user is given what another said: {word!r} in {memory.text[:60]!r}")


def _has_words(content: Any, user: MadeUpUser) -> bool:
    return isinstance(content, bytes) and any(
        word.encode(code) in content for word in user.words for code in ("utf-8", "utf-16-le")
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
