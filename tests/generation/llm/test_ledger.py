"""What was paid is written down once and for all, and a budget ends a run in time, whoever spends it at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.config import Price
from generation.errors import UserError
from generation.llm.ledger import BudgetReached, Ledger
from generation.llm.paid_calls import PaidCall
from generation.llm.prices import price_of

Python = Callable[..., "subprocess.CompletedProcess[str]"]

PRICES = {"gpt-x": Price(input=1, output=1_000_000), "local": Price(input=0, output=0)}
"""A reply token of gpt-x costs a dollar."""

CALL: dict[str, Any] = {
    "stage": "sessions",
    "template": "session",
    "model": "gpt-x",
    "prompt_tokens": 0,
    "reply_tokens": 1,
    "outcome": "ok",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def calls(ledger: Ledger) -> int:
    return sum(line.calls for line in ledger.summary())


# --- prices


def test_a_price_is_of_a_million_tokens() -> None:
    prices = {"gpt-x": Price(input=0.5, output=2)}
    assert price_of("gpt-x", 1_000_000, 0, prices) == 0.5
    assert price_of("gpt-x", 3_000, 500, prices) == pytest.approx(0.0015 + 0.001)
    assert price_of("local", 5, 5, {"local": Price(input=0, output=0)}) == 0


def test_an_unknown_price_stays_unknown() -> None:
    assert price_of("gpt-y", 3_000, 500, {"gpt-x": Price(input=0.5, output=2)}) is None


# --- lines


def test_a_call_is_one_line_of_json(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**CALL)
    ledger.record(**{**CALL, "model": "gpt-y", "outcome": "cut"})
    assert lines(path) == [{**CALL, "cost": 1.0}, {**CALL, "model": "gpt-y", "outcome": "cut", "cost": None}]


paid_calls = st.lists(
    st.fixed_dictionaries(
        {
            "stage": st.sampled_from(["personas", "sessions"]),
            "template": st.text(),
            "model": st.sampled_from(["gpt-x", "local", "gpt-y"]) | st.text(),
            "prompt_tokens": st.integers(0, 10**7),
            "reply_tokens": st.integers(0, 10**5),
            "outcome": st.sampled_from(["ok", "repaired", "cut", "refusal", "rejected", "error"]),
        }
    ),
    max_size=12,
)


@given(paid_calls)
def test_what_is_spent_is_the_sum_of_the_lines(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = Ledger(path, PRICES)
    for call in made:
        ledger.record(**call)
    written = lines(path)
    assert [{key: line[key] for key in line if key != "cost"} for line in written] == made
    total = sum(line["cost"] or 0 for line in written)
    for reader in (ledger, Ledger(path, PRICES)):
        summary = reader.summary()
        assert reader.spent() == pytest.approx(total)
        assert sum(line.cost or 0 for line in summary) == pytest.approx(total)
        assert sum(line.calls for line in summary) == len(made)
        assert sum(line.reply_tokens for line in summary) == sum(call["reply_tokens"] for call in made)


def test_the_summary_has_a_line_for_each_stage_and_model_in_the_order_of_their_calls(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**{**CALL, "outcome": "rejected", "prompt_tokens": 7})
    ledger.record(**{**CALL, "model": "gpt-y"})
    ledger.record(**{**CALL, "stage": "fillers", "model": "local", "reply_tokens": 40})
    ledger.record(**{**CALL, "outcome": "repaired", "prompt_tokens": 5, "reply_tokens": 3})
    ledger.record(**{**CALL, "outcome": "rejected", "template": "repair"})
    first, second, third = ledger.summary()
    assert (first.stage, first.model, first.calls) == ("sessions", "gpt-x", 3)
    assert (first.prompt_tokens, first.reply_tokens) == (12, 5)
    assert first.cost == pytest.approx(5.000012)
    assert first.outcomes == {"rejected": 2, "repaired": 1}
    assert (second.stage, second.model, second.cost) == ("sessions", "gpt-y", None)
    assert (third.stage, third.model, third.cost, third.reply_tokens) == ("fillers", "local", 0, 40)


def test_a_summary_stays_as_it_was_given(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**CALL)
    before = ledger.summary()[0]
    ledger.record(**CALL)
    assert (before.calls, before.outcomes) == (1, {"ok": 1})


def test_a_cost_that_was_unknown_counts_once_its_price_is_given(path: Path) -> None:
    Ledger(path, {}).record(**CALL)
    assert Ledger(path, {}).spent() == 0
    assert Ledger(path, PRICES).spent() == 1


def test_what_was_paid_at_another_price_stays_paid(path: Path) -> None:
    Ledger(path, PRICES).record(**CALL)
    assert Ledger(path, {"gpt-x": Price(input=0, output=0)}).spent() == 1
    assert Ledger(path, {}).summary()[0].cost == 1


# --- kills, damage, and others that write


@given(st.data())
def test_half_a_line_is_as_if_it_had_not_been_written(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = Ledger(path, PRICES)
    for reply_tokens in (1, 20, 300):
        ledger.record(**{**CALL, "template": "naïve }\n{", "reply_tokens": reply_tokens})
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    again = Ledger(path, PRICES)
    assert again.spent() == (0, 1, 21, 321)[kept]
    again.record(**CALL)
    assert len(lines(path)) == kept + 1
    assert Ledger(path, PRICES).spent() == (0, 1, 21, 321)[kept] + 1


def test_half_a_line_that_another_process_left_does_not_spoil_the_next(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**CALL)
    with path.open("a") as file:
        file.write('{"stage":"sess')
    assert ledger.spent() == 1
    ledger.record(**CALL)
    assert (ledger.spent(), len(lines(path))) == (2, 2)


CHILD = """
import sys
from pathlib import Path
from generation.config import Price
from generation.llm.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), {"gpt-x": Price(input=1, output=1_000_000)})
"""
RECORD = """ledger.record(
        stage="sessions", template="session", model="gpt-x", prompt_tokens=0, reply_tokens=1, outcome="ok"
    )
"""


def test_a_kill_loses_at_most_the_call_under_way(path: Path) -> None:
    code = f"{CHILD}\nn = 0\nwhile True:\n    {RECORD}    n += 1\n    print(n, flush=True)"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) == 50:
                child.kill()
                break
        said = max([50, *(int(line) for line in child.stdout if line.endswith("\n"))])
    assert child.returncode == -signal.SIGKILL
    assert said <= calls(Ledger(path, PRICES)) <= said + 1


def test_two_processes_lose_nothing_and_see_each_other(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    long = "long " * 20_000  # lines so long that a reader may find them half written
    code = f"{CHILD}\nsys.stdin.readline()\nfor _ in range(100):\n    {RECORD}".replace('"session"', repr(long))
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for _ in range(50):
        ledger.record(**CALL)
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0, 0]
    assert ledger.spent() == 250
    assert [line["template"] for line in lines(path)].count(long) == 200


def test_threads_lose_nothing(path: Path) -> None:
    ledger = Ledger(path, PRICES)

    def write(thread: int) -> None:
        for i in range(25):
            ledger.record(**{**CALL, "template": f"{thread} {i}"})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert {line["template"] for line in lines(path)} == {f"{t} {i}" for t in range(8) for i in range(25)}
    assert ledger.spent() == 200


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("my thesis, chapter one", "Invalid JSON"),
        ("", "Invalid JSON"),
        (json.dumps(CALL), "cost: Field required"),
        (json.dumps({**CALL, "cost": -1}), "cost: .*greater than or equal to 0"),
        (json.dumps({**CALL, "cost": 1, "outcome": "fine"}), "outcome: "),
        (json.dumps({**CALL, "cost": 1, "time": 1}), "unknown key 'time'"),
    ],
)
def test_a_damaged_line_is_named_each_time_and_left_alone(path: Path, line: str, fault: str) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**CALL)
    with path.open("a") as file:
        file.write(f"{line}\n")
    before = path.read_bytes()
    for use in (ledger.spent, ledger.summary, lambda: ledger.record(**CALL), lambda: Ledger(path, PRICES)):
        with pytest.raises(UserError, match=f"ledger.jsonl, line 2 is damaged: .*{fault}"):
            use()
    assert path.read_bytes() == before


def test_a_ledger_that_shrinks_under_a_run_is_an_error_since_what_it_spends_would_be_lost(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**CALL)
    path.write_bytes(b"")
    with pytest.raises(UserError, match="was cut or replaced"):
        ledger.check()


def _copied_over(path: Path) -> None:
    """Put a copy in the place of the file, as editors and rsync do."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize(
    "replaced",
    [Path.unlink, _copied_over, lambda path: path.rename(path.with_name("away"))],
    ids=["removed", "replaced", "moved away"],
)
def test_a_ledger_whose_file_is_gone_is_an_error_since_what_it_spends_would_be_lost(
    path: Path, replaced: Callable[[Path], object]
) -> None:
    ledger = Ledger(path, PRICES, 5)
    ledger.record(**CALL)
    replaced(path)
    left = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    uses = (ledger.spent, ledger.check, ledger.summary, lambda: ledger.record(**CALL))
    for use in uses:
        with pytest.raises(UserError, match=r"ledger\.jsonl was cut or replaced while the run used it") as caught:
            use()
        assert caught.value.hint == "restore it and run again"
    with pytest.raises(UserError, match="was cut or replaced"), ledger.reserve("gpt-x", 0, 1):
        pytest.fail("a call began that cannot be written down")
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == left
    # What is there now is a ledger like any other.
    assert Ledger(path, PRICES).spent() == left.get(path.name, b"").count(b"\n")


def test_a_ledger_that_is_put_back_goes_on(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(**CALL)
    path.rename(path.with_name("away"))
    with pytest.raises(UserError, match="was cut or replaced"):
        ledger.record(**CALL)
    path.with_name("away").rename(path)
    ledger.record(**CALL)
    assert (ledger.spent(), len(lines(path))) == (2, 2)


def test_a_process_that_is_killed_while_it_writes_does_not_spoil_the_lines_of_another(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    long = "long " * 200_000  # most of a kill's moments are inside of a write
    code = f"{CHILD}\nn = 0\nwhile True:\n    {RECORD}    n += 1\n    print(n, flush=True)"
    code = code.replace('"session"', repr(long))
    said = []
    for _ in range(3):
        script = path.with_name("writes.py")
        script.write_text(code)
        with subprocess.Popen([sys.executable, str(script), str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                ledger.record(**CALL)
                if int(line) == 5:
                    child.kill()
                    break
            said.append(max([5, *(int(line) for line in child.stdout if line.endswith("\n"))]))
    ledger.record(**CALL)
    templates = Counter(line["template"] for line in lines(path))
    assert templates["session"] == 3 * 5 + 1
    assert sum(said) <= templates[long] <= sum(said) + 3  # of each child at most the call under way
    assert ledger.spent() == Ledger(path, PRICES).spent() == templates.total()


def test_two_processes_of_one_budget_stop_when_both_have_spent_it(path: Path) -> None:
    code = f"""{CHILD.replace("})", "}, 40)")}
from generation.llm.ledger import BudgetReached
sys.stdin.readline()
n = 0
try:
    while True:
        with ledger.reserve("gpt-x", 0, 1):
            {RECORD.replace("    ", " " * 12)}
            n += 1
except BudgetReached:
    print(n)
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    made = [int(child.communicate()[0]) for child in children]
    # Each may have one call under way that the other does not see.
    assert 40 <= sum(made) <= 41
    assert Ledger(path, PRICES).spent() == sum(made) == len(lines(path))


def test_a_ledger_that_cannot_be_written_is_found_out_before_anything_is_paid(path: Path) -> None:
    path.mkdir()
    with pytest.raises(UserError, match=r"ledger\.jsonl cannot be written: Is a directory"):
        Ledger(path, PRICES)


def test_a_full_disk_is_a_clear_error_and_loses_nothing(path: Path, python: Python) -> None:
    code = f"""
import resource
{CHILD.replace("sys.argv[1]", repr(str(path)))}
from generation.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
n = 0
try:
    while True:
        ledger.record(stage="s", template="t", model="gpt-x", prompt_tokens=0, reply_tokens=1, outcome="ok")
        n += 1
except UserError as error:
    print("cannot be written" in error.message, n, int(ledger.spent()))
"""
    fine, recorded, spent = python(code).stdout.split()
    assert fine == "True"
    assert 0 < int(recorded) == int(spent) == Ledger(path, PRICES).spent()


# --- the budget


@pytest.mark.parametrize("budget", [0, -1, float("nan")])
def test_a_budget_of_nothing_is_refused(path: Path, budget: float) -> None:
    with pytest.raises(UserError, match="--budget must be above 0") as caught:
        Ledger(path, PRICES, budget)
    assert caught.value.hint == "leave it out to spend without a limit"
    assert not path.exists()


def test_a_run_stops_when_its_budget_is_spent_and_goes_on_with_a_higher_one(path: Path) -> None:
    ledger = Ledger(path, PRICES, 3)
    for _ in range(3):
        ledger.check()
        ledger.record(**CALL)
    with pytest.raises(BudgetReached) as caught:
        ledger.check()
    assert caught.value.message == "stopped after $3.00 of $3.00; what is done is kept"
    assert caught.value.hint == "run again with a higher --budget"
    with pytest.raises(BudgetReached, match=r"\$3.00 of \$2.50"):
        Ledger(path, PRICES, 2.5).check()
    with pytest.raises(BudgetReached), Ledger(path, PRICES, 3).reserve("gpt-x", 0, 1):
        pytest.fail("a call began beyond the budget")
    Ledger(path, PRICES, 3.5).check()


def test_what_another_process_spends_counts(path: Path) -> None:
    mine, other = Ledger(path, PRICES, 2), Ledger(path, PRICES)
    mine.check()
    other.record(**{**CALL, "reply_tokens": 2})
    with pytest.raises(BudgetReached):
        mine.check()


def test_small_amounts_are_not_shown_as_nothing(path: Path) -> None:
    ledger = Ledger(path, {"gpt-x": Price(input=1, output=1)}, 0.0012)
    ledger.record(**{**CALL, "prompt_tokens": 1234, "reply_tokens": 0})
    with pytest.raises(BudgetReached, match=r"after \$0.0012 of \$0.0012;"):
        ledger.check()


def test_without_a_budget_nothing_stops_a_run_or_makes_it_wait(path: Path) -> None:
    ledger = Ledger(path, PRICES)
    with ExitStack() as calls_under_way:
        for model in ("gpt-x", "gpt-y"):
            for _ in range(40):
                calls_under_way.enter_context(ledger.reserve(model, 10**6, 10**6))
        ledger.record(**{**CALL, "reply_tokens": 10**9})
        ledger.check()


def test_a_budget_needs_the_price_of_each_model(path: Path) -> None:
    ledger = Ledger(path, PRICES, 5)
    ledger.require_prices(["gpt-x", "local"])
    with pytest.raises(UserError, match="--budget needs the price of gpt-y, gpt-z") as caught:
        ledger.require_prices(["gpt-x", "gpt-y", "gpt-z", "gpt-y"])
    assert "llm.prices" in caught.value.hint
    with pytest.raises(UserError, match="the price of gpt-y"), ledger.reserve("gpt-y", 1, 1):
        pytest.fail("a call without a price began under a budget")
    Ledger(path, PRICES).require_prices(["gpt-y"])


def run_calls(ledger: Ledger, costs: list[tuple[int, int]], inside: Callable[[], object]) -> int:
    """Make calls of (reserved, paid) dollars, all at once; return how many were stopped by the budget."""

    def call(cost: tuple[int, int]) -> bool:
        reserved, paid = cost
        try:
            with ledger.reserve("gpt-x", 0, reserved):
                inside()
                ledger.record(**{**CALL, "reply_tokens": paid})
        except BudgetReached:
            return True
        return False

    with ThreadPoolExecutor(max(1, len(costs))) as pool:
        return sum(pool.map(call, costs))


def test_32_calls_at_once_do_not_overshoot_by_more_than_one_of_them(path: Path) -> None:
    ledger = Ledger(path, PRICES, 9.5)
    all_at_once = threading.Barrier(32)

    def inside() -> None:
        with suppress(threading.BrokenBarrierError):
            all_at_once.wait(0.1)  # were all let in, they would meet here

    assert run_calls(ledger, [(1, 1)] * 32, inside) == 22
    assert ledger.spent() == 10


def test_calls_that_fit_into_the_budget_are_made_at_the_same_time(path: Path) -> None:
    all_at_once = threading.Barrier(10)
    assert run_calls(Ledger(path, PRICES, 9.5), [(1, 1)] * 10, lambda: all_at_once.wait(30)) == 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=32), st.integers(1, 200))
def test_the_overshoot_is_bounded(
    tmp_path_factory: pytest.TempPathFactory, costs: list[tuple[int, int]], budget: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = Ledger(path, PRICES, budget)
    stopped = run_calls(ledger, costs, lambda: None)
    beyond_reservation = sum(max(0, paid - reserved) for reserved, paid in costs)
    assert ledger.spent() < budget + max((paid for _, paid in costs), default=0) + beyond_reservation + 1e-9
    assert not stopped or ledger.spent() >= budget  # no call is stopped while there is money
    assert calls(ledger) == len(costs) - stopped


def test_money_that_was_reserved_and_not_spent_is_free_again(path: Path) -> None:
    ledger = Ledger(path, PRICES, 10)
    assert run_calls(ledger, [(10, 1)] * 9, lambda: None) == 0
    assert ledger.spent() == 9


def test_a_call_that_fails_gives_its_reservation_back(path: Path) -> None:
    ledger = Ledger(path, PRICES, 10)
    for _ in range(3):
        with pytest.raises(ValueError, match="the line is dead"), ledger.reserve("gpt-x", 0, 10):
            raise ValueError("the line is dead")
    ledger.check()


def test_a_line_can_be_read_back_as_a_call(path: Path) -> None:
    Ledger(path, PRICES).record(**CALL)
    assert PaidCall.model_validate_json(path.read_bytes()) == PaidCall(**CALL, cost=1)


# --- what makes no sense


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prompt_tokens", "-1"),
        ("prompt_tokens", "true"),
        ("prompt_tokens", "1.5"),
        ("reply_tokens", "1" + "0" * 400),
        ("reply_tokens", "1" * 5_000),
        ("reply_tokens", "[" * 10_000),
        ("cost", "Infinity"),
        ("cost", "NaN"),
        ("cost", "-1"),
        ("model", "null"),
        ("outcome", '"fine"'),
    ],
)
def test_a_line_that_makes_no_sense_is_named(path: Path, key: str, value: str) -> None:
    line = {"stage": '"s"', "template": '"t"', "model": '"m"', "prompt_tokens": "1", "reply_tokens": "1", "cost": "0.5"}
    whole = line | {"outcome": '"ok"'}
    lines = [", ".join(f'"{name}": {text}' for name, text in entry.items()) for entry in (whole, whole | {key: value})]
    path.write_text("".join(f"{{{text}}}\n" for text in lines))
    with pytest.raises(UserError, match="line 2 is damaged") as caught:
        Ledger(path, PRICES)
    assert "restore the file" in caught.value.hint


@pytest.mark.parametrize(("said", "kept"), [(-5, 0), (10**400, 10**12)])
def test_counts_of_an_endpoint_that_make_no_sense_lose_no_call(path: Path, said: int, kept: int) -> None:
    ledger = Ledger(path, PRICES)
    ledger.record(stage="s", template="t", model="m", prompt_tokens=said, reply_tokens=said, outcome="ok")
    [line] = Ledger(path, PRICES).summary()
    assert (line.calls, line.prompt_tokens, line.reply_tokens) == (1, kept, kept)
