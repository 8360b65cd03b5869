"""Damages files, has commands read them in processes of their own, and says what each did wrong."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fuzz.damage import ABSENT, FOLDER
from fuzz.damage_parquet import WRONG
from fuzz.kinds import KINDS, Command

SECONDS: Final = 10
"""What a command may take of the processor."""

MEMORY: Final = 2**30
"""What a command may have in memory, in bytes."""

UNDAMAGED: Final = "undamaged"

_SCRIPT: Final = "benchmarks/fuzz_readers.py"
_CRASHED: Final = 70
_FILES: Final = 2**29
"""The longest file that a command may write, in bytes."""


class Case(NamedTuple):
    """A damaged file.

    Attributes:
        kind: What it is.
        number: Of the case among those of the kind.
        damage: How it is damaged.
        seed: Of the whole run.
    """

    kind: str
    number: int
    damage: str
    seed: int

    def damaged(self, content: bytes) -> bytes:
        """Return the content of the damaged file."""
        if self.damage == UNDAMAGED:
            return content
        rng = random.Random(f"{self.seed}/{self.kind}/{self.number}")
        return KINDS[self.kind].damages[self.damage](content, rng)


class Reading(NamedTuple):
    """What a command did with a damaged file.

    Attributes:
        case: The file.
        command: The command.
        exit_code: Its exit status, or minus the signal that ended it.
        refused: Whether it ended with an error meant for people.
        seconds: What it took of the processor.
        memory: The most that it had in memory, in bytes.
        said: What it wrote to stderr.
        faults: What it did wrong.
    """

    case: Case
    command: Command
    exit_code: int
    refused: bool
    seconds: float
    memory: int
    said: str
    faults: tuple[str, ...]


def cases(seed: int, count: int, only: Sequence[str] = ()) -> list[Case]:
    """Return cases, as many of each kind; each way to damage a kind comes once before one comes twice."""
    kinds = _kinds(only)
    orders = {kind: list(KINDS[kind].damages) for kind in kinds}
    for kind, order in orders.items():
        random.Random(f"{seed}/{kind}").shuffle(order)
    made = []
    for index in range(count):
        kind, number = kinds[index % len(kinds)], index // len(kinds)
        made.append(Case(kind, number, orders[kind][number % len(orders[kind])], seed))
    return made


def undamaged(only: Sequence[str] = ()) -> list[Case]:
    """Return a case of each kind that is not damaged, which all commands have to take."""
    return [Case(kind, 0, UNDAMAGED, 0) for kind in _kinds(only)]


def _kinds(only: Sequence[str]) -> list[str]:
    return [kind for kind in KINDS if not only or kind in only]


def read_all(wanted: Sequence[Case], valid: Path, processes: int) -> Iterator[Reading]:
    """Have the commands of each case read it, and yield what they did as they end.

    Args:
        wanted: The cases.
        valid: The folder with valid files; its libraries have to be loaded already.
        processes: How many at a time.
    """
    waiting = [(case, command) for case in reversed(wanted) for command in KINDS[case.kind].commands]
    running: dict[int, _Running] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        while waiting or running:
            while waiting and len(running) < processes:
                case, command = waiting.pop()
                started = _start(case, command, valid, Path(tempfile.mkdtemp(dir=scratch)))
                running[started.pid] = started
            yield from _ended(running)
            time.sleep(0.002)


class _Running(NamedTuple):
    pid: int
    case: Case
    command: Command
    folder: Path
    before: Mapping[str, str]
    began: float


def _start(case: Case, command: Command, valid: Path, folder: Path) -> _Running:
    files = folder / "files"
    lay_out(case, valid, files)
    before = listing(files)
    pid = os.fork()
    if pid == 0:
        _child(command, folder)
    return _Running(pid, case, command, folder, before, time.monotonic())


def lay_out(case: Case, valid: Path, folder: Path) -> None:
    """Put the damaged file, and what the commands need beside it, into a new folder."""
    kind = KINDS[case.kind]
    folder.mkdir(parents=True)
    for name in dict.fromkeys([*kind.needs, kind.path]):
        if (folder / name).exists():
            continue
        if (valid / name).is_dir():
            shutil.copytree(valid / name, folder / name)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(valid / name, folder / name)
    path = folder / kind.path
    content = case.damaged(path.read_bytes())
    if content in (FOLDER, ABSENT):
        path.unlink()
        if content == FOLDER:
            path.mkdir()
    else:
        path.write_bytes(content)
        if path.suffix == ".parquet" and random.Random(f"sign {case}").random() < 0.8:
            _sign(path, content)


def _sign(path: Path, content: bytes) -> None:
    """Enter a damaged data file into the manifest of its folder, so that its digest does not tell."""
    folder = path.parents[1]
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    entry = manifest["files"][str(path.relative_to(folder))]
    entry |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _child(command: Command, folder: Path) -> None:
    """Run a command in this process, which ends with it."""
    code = _CRASHED
    try:
        os.setsid()
        os.chdir(folder / "files")
        for stream, name in ((1, "out"), (2, "err")):
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
            os.dup2(descriptor, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + 2 * MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (3 * SECONDS,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILES,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from personamem_builder.cli import main

        sys.argv = ["personamem", *_split(command.arguments)]
        try:
            main()
            code = 0
        except SystemExit as exited:
            code = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _split(arguments: str) -> list[str]:
    """Split a command line; the JSON in one is left as it is."""
    return [part if part.startswith("{") else shlex.split(part)[0] for part in arguments.split()]


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def _ended(running: dict[int, _Running]) -> Iterator[Reading]:
    for pid, process in list(running.items()):
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        is_late = time.monotonic() - process.began > 6 * SECONDS
        if not ended and is_late:
            os.killpg(pid, signal.SIGKILL)
            ended, status, usage = os.wait4(pid, 0)
        if ended:
            del running[pid]
            yield _judge(process, os.waitstatus_to_exitcode(status), usage)
            shutil.rmtree(process.folder, ignore_errors=True)


def _judge(process: _Running, code: int, usage: resource.struct_rusage) -> Reading:
    said = (process.folder / "err").read_text(encoding="utf-8", errors="replace")
    printed = (process.folder / "out").read_text(encoding="utf-8", errors="replace")
    seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    faults = list(_faults(process, code, said, printed))
    if seconds > SECONDS:
        faults.append(f"took {seconds:.0f} s")
    if memory > MEMORY:
        faults.append(f"took {memory / 2**20:.0f} MiB")
    return Reading(process.case, process.command, code, _refused(code, said), seconds, memory, said, tuple(faults))


def _faults(process: _Running, code: int, said: str, printed: str) -> Iterator[str]:
    command = process.command
    refused = _refused(code, said)
    if process.case.damage == UNDAMAGED and refused:
        yield f"an undamaged file is refused: {_first_error(said)}"
    if code < 0:
        yield f"was ended by signal {-code}"
    elif "Traceback (most recent call last)" in said or code == _CRASHED:
        yield _last_error(said)
    elif code not in (0, 1, 2):
        yield f"exit status {code}"
    elif code != 0 and not refused and not command.limits:
        yield f"exit status {code} without an error"
    elif code == 1 and refused and not _is_named(process.case, said):
        yield "the file is not named: " + _first_error(said)
    elif code == 0 and process.case.damage in WRONG and not command.takes_wrong:
        yield f"was taken: {process.case.damage}"
    elif code == 0 and not (printed or said).strip():
        yield "nothing was said"
    after = listing(process.folder / "files")
    allowed = command.grows if code != 0 and (refused or not command.limits) else command.writes
    changed = sorted(name for name in {*process.before, *after} if process.before.get(name) != after.get(name))
    if changed := [name for name in changed if not any(f"{name}/".startswith(f"{part}/") for part in allowed)]:
        yield f"{'left behind' if code else 'changed'}: {', '.join(changed[:5])}"


def _refused(code: int, said: str) -> bool:
    return code != 0 and "error: " in said.lower()


def _is_named(case: Case, said: str) -> bool:
    kind = KINDS[case.kind]
    path = Path(kind.path)
    # Of a file that is not there, the folder is told in which it is missed.
    folder = path.parts[:1] if case.damage == "no file" else ()
    return any(name in said for name in (path.name, *kind.names, *folder))


def _first_error(said: str) -> str:
    found = re.search(r"error: .*", said, re.IGNORECASE)
    return found[0][:150] if found else ""


def _last_error(said: str) -> str:
    """Return the exception that a traceback ends with, and the line of ours that it came through last."""
    ours = re.findall(r'File "[^"]*?((?:generation|personamem_builder)/[^"]+)", line \d+, in (\w+)', said)
    errors = re.findall(r"^((?:\w+\.)*[A-Z]\w*(?:: .*)?)$", said, re.MULTILINE)
    where = f" in {ours[-1][0]}:{ours[-1][1]}" if ours else ""
    return (errors[-1][:150] if errors else "traceback") + where


def listing(folder: Path) -> dict[str, str]:
    """Return every file and folder below one, with a digest of the content; locks, which stay, are left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
        if not path.name.endswith(".lock")
    }


def to_text(readings: list[Reading]) -> str:
    """Return a table of what came of each kind, and each fault with how to repeat it."""
    lines = [f"{'kind':20} {'cases':>6} {'readings':>9} {'refused':>8} {'accepted':>9} {'failed':>7}"]
    for kind in [*KINDS, "all"]:
        own = [reading for reading in readings if kind in (reading.case.kind, "all")]
        if own:
            refused = sum(reading.refused and not reading.faults for reading in own)
            accepted = sum(not reading.refused and not reading.faults for reading in own)
            failed = sum(bool(reading.faults) for reading in own)
            count = len({reading.case for reading in own})
            lines.append(f"{kind:20} {count:6} {len(own):9} {refused:8} {accepted:9} {failed:7}")
    for reading in readings:
        if reading.faults:
            case = reading.case
            lines += [
                f"\n{case.kind}, {case.damage}: personamem {reading.command.arguments}",
                *(f"  {fault}" for fault in reading.faults),
                f"  again: python {_SCRIPT} --seed {case.seed} --only {case.kind} --case {case.number}",
            ]
    if readings:
        slowest, largest = max(readings, key=lambda r: r.seconds), max(readings, key=lambda r: r.memory)
        lines += [
            f"\nslowest: {slowest.seconds:.1f} s, {slowest.case.kind}, personamem {slowest.command.arguments}",
            f"largest: {largest.memory / 2**20:.0f} MiB, {largest.case.kind}, personamem {largest.command.arguments}",
        ]
    return "\n".join(lines)
