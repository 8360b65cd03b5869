"""What calls to language models took and cost, and the budget that ends a run."""

from __future__ import annotations

import math
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path

from pydantic import ValidationError

from generation.config import Price
from generation.errors import UserError
from generation.llm.paid_calls import MOST_TOKENS, CallOutcome, PaidCall, Readings, Share, ShareOf, StageUsage
from generation.llm.prices import dollars, price_of
from generation.reading import describe

if sys.platform == "win32":
    from filelock import FileLock
else:
    import fcntl


class BudgetReached(UserError):
    """The budget of a run is spent."""


class Ledger:
    """The paid calls of a run: one line of JSON each, in a file that threads and processes append to.

    Methods raise `UserError` where the file is damaged or cannot be read or written.

    A line is with the operating system when `record` returns, so that a kill loses at most the calls under way. It is
    not forced to the disk: that would cost each call milliseconds, and guard only against a loss of power.

    The budget is that of the run, earlier sessions included. A call begins only while what is spent and what the calls
    under way have reserved stay below it together. If no call costs more than it reserved, the run thus ends at most
    the cost of one call above its budget, however many are under way; what calls cost beyond their reservations comes
    on top. Another process is seen only by what it has recorded: each one more may add what it has under way.

    Args:
        path: The file, `ledger.jsonl` in the folder of a run; made if it is not there.
        prices: By the name of the model.
        budget: Most that the run may cost, in US dollars; None for no limit.
        spent_elsewhere: What counts as spent beside the calls of this ledger.

    Raises:
        UserError: The budget is not above 0 or not finite, or the file is damaged or cannot be written.
    """

    def __init__(
        self, path: Path, prices: Mapping[str, Price], budget: float | None = None, spent_elsewhere: float = 0.0
    ) -> None:
        check_budget(budget)
        self._path = path
        self._prices = prices
        self._budget = budget
        self._changed = threading.Condition()
        self._end = 0  # of what was read
        self._number = 0  # of lines read
        self._spent = spent_elsewhere
        self._lines: dict[tuple[str, str], StageUsage] = {}
        self._shares: dict[ShareOf, dict[int | str, Share]] = {"persona_id": {}, "topic": {}}
        self._readings: dict[str, Readings] = {}
        self._reserved: list[float] = []
        self._owed: dict[str, float] = {}
        try:
            # Unbuffered, so that what could not be written is not tried again with the next line.
            self._file = FileIO(path, "a+")
        except OSError as error:
            raise self._unwritable(error) from error
        weakref.finalize(self, self._file.close)
        self._append(b"")  # a file that cannot be written is found out before anything is paid

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget, and thus anything to reserve."""
        return self._budget is not None

    def spent(self) -> float:
        """Return what was spent so far, in US dollars, as far as it is known."""
        with self._changed:
            self._read()
            return self._spent + sum(self._owed.values())

    def check(self) -> None:
        """Stop the run if its budget is spent.

        Raises:
            BudgetReached: It is.
            UserError: The file is damaged or cannot be read.
        """
        spent = self.spent()
        if self._budget is not None and spent >= self._budget:
            raise BudgetReached(
                f"stopped after {dollars(spent)} of {dollars(self._budget)}; what is done is kept",
                "run again with a higher --budget",
            )

    def require_prices(self, models: Iterable[str]) -> None:
        """Refuse models without a price if there is a budget.

        Raises:
            UserError: There is, and a model has none.
        """
        missing = [model for model in dict.fromkeys(models) if model not in self._prices]
        if missing and self._budget is not None:
            keys = ", ".join(f"{model}: {{input: …, output: …}}" for model in missing)
            raise UserError(
                f"--budget needs the price of {', '.join(missing)}",
                f"add it to llm.prices in the configuration, in dollars a million tokens: {keys}",
            )

    @contextmanager
    def reserve(self, model: str, prompt_tokens: int, reply_tokens: int) -> Iterator[None]:
        """Keep money back for a call, for as long as the block lasts; `record` the call inside it.

        Where the budget is not spent but all reserved, this waits for other calls to end: they may cost less. A thread
        must not reserve twice at a time. Without a budget there is nothing to keep back. Tokens are the most that there
        may be.

        Raises:
            BudgetReached: The budget is spent.
            UserError: There is a budget, and the model has no price, or the file is damaged or cannot be read.
        """
        if self._budget is None:
            yield
            return
        self.require_prices([model])
        cost = price_of(model, prompt_tokens, reply_tokens, self._prices) or 0.0
        with self._changed:
            while True:
                self.check()
                if self._spent + sum(self._owed.values()) + sum(self._reserved) < self._budget:
                    break
                self._changed.wait()
            self._reserved.append(cost)
        try:
            yield
        finally:
            with self._changed:
                self._reserved.remove(cost)
                self._changed.notify_all()

    def owe(self, receipt: str, model: str, prompt_tokens: int, reply_tokens: int) -> None:
        """Count a call as spent that is over; who judges the reply is elsewhere, and `record`s it under the receipt."""
        with self._changed:
            self._owed[receipt] = price_of(model, prompt_tokens, reply_tokens, self._prices) or 0.0

    def record(
        self,
        *,
        stage: str,
        template: str,
        model: str,
        prompt_tokens: int,
        reply_tokens: int,
        outcome: CallOutcome,
        persona_id: int | None = None,
        topic: str = "",
        disagreed: bool | None = None,
        receipt: str = "",
    ) -> None:
        """Append a call; what was written before is kept where that fails.

        A call with a receipt is appended once, however often it is recorded.
        """
        # What an endpoint says may make no sense; the call is paid for all the same.
        prompt_tokens, reply_tokens = (min(max(0, count), MOST_TOKENS) for count in (prompt_tokens, reply_tokens))
        call = PaidCall(
            stage=stage,
            template=template,
            model=model,
            prompt_tokens=prompt_tokens,
            reply_tokens=reply_tokens,
            cost=price_of(model, prompt_tokens, reply_tokens, self._prices),
            outcome=outcome,
            persona_id=persona_id,
            topic=topic,
            disagreed=disagreed,
        )
        line = f"{call.model_dump_json(exclude_defaults=True)}\n".encode()
        with self._changed:
            if receipt and receipt not in self._owed:
                return
            self._append(line)
            self._add(call, len(line))
            self._owed.pop(receipt, None)

    def summary(self) -> list[StageUsage]:
        """Return what each stage took of each model, in the order of their first calls."""
        with self._changed:
            self._read()
            return [replace(line, outcomes=dict(line.outcomes)) for line in self._lines.values()]

    def shares(self, of: ShareOf) -> dict[int | str, Share]:
        """Return what each user, or each topic, took."""
        with self._changed:
            self._read()
            return {key: replace(share) for key, share in sorted(self._shares[of].items())}

    def readings(self) -> dict[str, Readings]:
        """Return how often each model read texts back, and how often it disagreed."""
        with self._changed:
            self._read()
            return dict(self._readings)

    def _append(self, line: bytes) -> None:
        """Write a line after the last whole one: while the file is locked, half a line is what a kill left."""
        try:
            with self._locked():
                if self._read() > self._end:
                    self._file.truncate(self._end)
                while line:
                    line = line[self._file.write(line) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> UserError:
        hint = "free some space, or mend the folder's rights, and run again; what is done is kept"
        return UserError(f"{self._path} cannot be written: {error.strerror}", hint)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing."""
        if sys.platform == "win32":
            with FileLock(self._path.with_name(f".{self._path.name}.lock")):
                yield
        else:
            # FileLock takes ten times as long: with many calls at a time, as long as all else that a line takes.
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> int:
        """Take in the whole lines that others wrote since the last time; return the size of the file."""
        try:
            found = os.fstat(self._file.fileno())
            data = b""
            if found.st_size > self._end:
                self._file.seek(self._end)
                data = self._file.read()
            is_there = os.path.samestat(found, self._path.stat())
        except FileNotFoundError:
            is_there = False
        except OSError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror}", "restore it and run again") from error
        if found.st_size < self._end or not is_there:
            raise UserError(f"{self._path} was cut or replaced while the run used it", "restore it and run again")
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            try:
                call = PaidCall.model_validate_json(line)
            except ValidationError as error:
                raise UserError(
                    f"{self._path}, line {self._number + 1} is damaged: {describe(error)}",
                    "restore the file, or move it away: what it holds is then not counted as spent",
                ) from error
            self._add(call, len(line))
        return found.st_size

    def _add(self, call: PaidCall, size: int) -> None:
        """Count a call whose line of so many bytes is next in the file."""
        self._number += 1
        self._end += size
        line = self._lines.setdefault((call.stage, call.model), StageUsage(call.stage, call.model))
        line.calls += 1
        line.prompt_tokens += call.prompt_tokens
        line.reply_tokens += call.reply_tokens
        line.outcomes[call.outcome] = line.outcomes.get(call.outcome, 0) + 1
        cost = call.cost
        if cost is None:  # the price may have become known since
            cost = price_of(call.model, call.prompt_tokens, call.reply_tokens, self._prices)
        self._spent += cost or 0.0
        line.cost = None if line.cost is None or cost is None else line.cost + cost
        keys: dict[ShareOf, int | str | None]
        keys = {"persona_id": call.persona_id, "topic": call.topic or None}
        for of, key in keys.items():
            if key is not None:
                share = self._shares[of].setdefault(key, Share())
                share.calls += 1
                share.cost = None if share.cost is None or cost is None else share.cost + cost
        if call.disagreed is not None:
            before = self._readings.get(call.model, Readings(0, 0))
            self._readings[call.model] = Readings(before.texts + 1, before.disagreed + call.disagreed)


def check_budget(budget: float | None) -> None:
    """Refuse a budget that limits nothing, or allows nothing.

    Raises:
        UserError: It is neither None nor a finite number above 0.
    """
    if budget is not None and not 0 < budget < math.inf:
        raise UserError(
            f"--budget must be above 0, and finite (it is {budget:g})", "leave it out to spend without a limit"
        )
