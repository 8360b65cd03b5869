"""Filler sessions: any number without repeats, correct facts, code that prints what the answer says."""

from __future__ import annotations

import ast
import calendar
import contextlib
import datetime as dt
import hashlib
import io
import itertools
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from generation.errors import UserError
from generation.llm.offline.fillers import PER_KIND, FillerChat, count, filler, tables
from generation.llm.offline.fillers.bank import FillerKind, Program, kinds
from generation.llm.offline.fillers.draft import draft

KINDS = kinds()
PROGRAMMING = [kind for kind in KINDS if isinstance(kind.texts.answer, Program)]
COUNTRIES = tables.tables().countries
ELEMENTS = tables.tables().elements
SEED = 7
PER_SAMPLE = 12
NAMES = [kind.name for kind in KINDS]


@pytest.fixture(scope="module")
def sample() -> dict[str, list[FillerChat]]:
    """Some fillers of each kind, far apart."""
    found: dict[str, list[FillerChat]] = {name: [] for name in NAMES}
    for turn in range(0, PER_KIND, PER_KIND // PER_SAMPLE):
        for place in range(len(KINDS)):
            one = filler(turn * len(KINDS) + place, SEED)
            found[one.kind].append(one)
    return found


def messages(one: FillerChat) -> list[str]:
    return [message for turn in one.turns for message in turn]


def number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def find(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    assert match, f"{pattern!r} is not in {text!r}"
    return match.groups()


def date_of(text: str) -> dt.date:
    return dt.datetime.strptime(text, "%d %B %Y").date()  # noqa: DTZ007


DATE = r"(\d+ [A-Z][a-z]+ \d{4})"
NUMBER = r"(−?[\d,]+(?:\.\d+)?)"


# --- the whole collection


def test_there_are_enough_kinds_and_fillers() -> None:
    assert count() >= 200_000
    assert len(PROGRAMMING) >= 12
    assert len(KINDS) - len(PROGRAMMING) >= 14
    assert len(set(NAMES)) == len(NAMES)
    # A kind with fewer combinations than it has fillers would have to repeat itself.
    assert all(kind.size >= PER_KIND for kind in KINDS)


@pytest.mark.parametrize("index", [-1, count(), count() + 5])
def test_an_index_out_of_range_is_an_error(index: int) -> None:
    with pytest.raises(IndexError, match=str(index)):
        filler(index, SEED)


def test_the_ends_of_the_range_are_fillers_of_four_messages() -> None:
    for index in (0, count() - 1):
        assert [len(turn) for turn in filler(index, SEED).turns] == [2, 2]


@pytest.mark.parametrize("indices", [range(4000, 4600), range(0, count(), count() // 1500)], ids=["near", "far"])
@pytest.mark.parametrize("seed", [0, SEED])
def test_no_title_and_no_message_comes_twice(seed: int, indices: range) -> None:
    fillers = [filler(index, seed) for index in indices]
    titles = [one.title for one in fillers]
    texts = [message for one in fillers for message in messages(one)]
    assert len(set(titles)) == len(titles)
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_comes_twice_within_a_kind(name: str) -> None:
    """Neighbouring combinations differ in one parameter only, and even these differ in every message."""
    kind = KINDS[NAMES.index(name)]
    # The wording is the same for all, so that only the parameters can make a difference.
    drafts = [draft(kind, step, ConstantRandom(0.5)) for step in single_steps(kind)]
    for field in zip(*drafts, strict=True):
        assert len(set(field)) == len(drafts)


def single_steps(kind: FillerKind) -> list[int]:
    """Numbers of combinations: one in the middle, and those that differ from it in a single parameter."""
    weights = [math.prod(kind.sizes[:place]) for place in range(len(kind.sizes))]
    middle = sum(weight * (radix // 2) for weight, radix in zip(weights, kind.sizes, strict=True))
    steps = {middle}
    for weight, radix in zip(weights, kind.sizes, strict=True):
        steps |= {middle + weight * step for step in range(-(radix // 2), radix - radix // 2) if abs(step) < 40}
    return sorted(steps)


def test_neighbours_are_of_different_kinds_and_all_kinds_come_equally_often() -> None:
    kinds = [filler(index, SEED).kind for index in range(2 * len(KINDS))]
    assert all(one != other for one, other in itertools.pairwise(kinds))
    assert sorted(kinds) == sorted(2 * NAMES)


def test_the_seed_changes_the_order_and_the_parameters() -> None:
    one, other = ([filler(index, seed) for index in range(300)] for seed in (1, 2))
    assert [x.kind for x in one] != [x.kind for x in other]
    assert len({x.title for x in one} & {x.title for x in other}) < 30


def test_another_process_with_other_hashes_writes_the_same() -> None:
    script = (
        "import hashlib; from generation.llm.offline.fillers import count, filler;"
        f"text = repr([filler(index, {SEED}) for index in range(0, count(), 1500)]);"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    here = repr([filler(index, SEED) for index in range(0, count(), 1500)])
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


def test_the_global_generator_is_left_alone() -> None:
    state = random.getstate()
    filler(123, SEED)
    assert random.getstate() == state


# --- the bank


def test_parameters_that_choose_from_a_table_reach_its_end() -> None:
    facts = tables.tables()
    ends = {
        ("unit_conversion", "unit"): len(facts.units),
        ("planet_weight", "planet"): len(facts.planets),
        ("capitals", "first"): len(facts.countries),
        ("capitals", "second"): len(facts.countries) - 1,
        ("chemical_elements", "x"): len(facts.elements) + 1,
        ("chemical_elements", "y"): len(facts.elements),
        ("truth_table", "letters"): len(facts.variables),
        ("dataclasses_module", "part"): len(facts.parts),
        ("json_module", "third"): len(facts.parts) - 2,
    }
    found = {(kind.name, name): last for kind in KINDS for name, (_, last) in kind.texts.parameters.items()}
    assert {key: found[key] + 1 for key in ends} == ends


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_the_first_and_the_last_combination_can_be_written(kind: FillerKind) -> None:
    for number in (0, kind.size - 1):
        for message in draft(kind, number, ConstantRandom(0.5))[1:]:
            check_text(message)


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("world.yaml", "capital of {x}", "capital of {z}", r"capitals: slots not given: \['z'\]"),
        ("mathematics.yaml", "{hex}", "it", r"number_bases: .* not used: \['hex'\]"),
        ("programming.yaml", "print($name($limit, $a, $b))", "print($b2)", r"sum_of_multiples: .*given: \['b2'\]"),
        ("programming.yaml", "recursion:", "loops:", r"programming: .* \['loops', 'recursion'\]"),
    ],
)
def test_texts_and_functions_must_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, fault: str
) -> None:
    changed_files(tmp_path, monkeypatch, file, old, new)
    with pytest.raises(ValueError, match=fault):
        kinds.__wrapped__()


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("world.yaml", "capital of {x}", "capital of {x", "a { that is no slot"),
        ("programming.yaml", "print($name($limit, $a, $b))", "print($)", r"a \$ that is no slot"),
        ("mathematics.yaml", "percentages:", "percentages:\n  colour: red", "unknown key 'percentages.colour'"),
        ("mathematics.yaml", "percentages:", "percentages: [", "is not YAML"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, fault: str
) -> None:
    changed_files(tmp_path, monkeypatch, file, old, new)
    with pytest.raises(UserError, match=f"{file}.*{fault}"):
        kinds.__wrapped__()


def changed_files(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str) -> None:
    """Have the bank read from a copy in which a text is replaced once."""
    shutil.copytree(tables.FILES, folder, dirs_exist_ok=True)
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(tables, "FILES", folder)


def test_no_file_is_read_before_the_first_filler() -> None:
    script = (
        "from generation.llm.offline import backend; from generation.llm.offline.fillers import bank, count, tables;"
        "count(); print(bank.kinds.cache_info().currsize, tables.tables.cache_info().currsize)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["0", "0"]


# --- the text


class ConstantRandom(random.Random):
    """Always takes the branch at the same relative place, so that a few of these visit every branch."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


def prose(message: str) -> str:
    """Return a message without its code."""
    return re.sub(r"`[^`\n]+`", "code", re.sub(r"```.*?```", "\n", message, flags=re.DOTALL))


def check_text(message: str) -> None:
    assert message.count("```") % 2 == 0
    text = prose(message)
    assert not re.search(r"[\[\]|{}]", text), text
    assert not re.search(r"  | [.,:;?!]|[.,:;?]{2}|\b(\w+) \1\b(?<!\d)", text), text
    assert not re.search(r"[.!?] [a-z](?!ode\b)", text), text
    assert re.match(r"[A-Z0-9`−]", message), text
    assert re.search(r"([.?!]|```)$", message), text
    assert "None" not in text.replace("None becomes", "").replace("returns None", "")
    assert text.count("(") == text.count(")")
    assert text.count('"') % 2 == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_wording_reads_as_a_text(name: str) -> None:
    kind = KINDS[NAMES.index(name)]
    for place in range(24):
        title, *texts = draft(kind, (kind.size // 24) * place + place, ConstantRandom((place + 0.5) / 24))
        assert title.strip() == title != ""
        for message in texts:
            check_text(message)


@pytest.mark.parametrize("name", NAMES)
def test_messages_are_sane_and_of_the_usual_length(name: str, sample: dict[str, list[FillerChat]]) -> None:
    for one in sample[name]:
        for user, assistant in one.turns:
            check_text(user)
            check_text(assistant)
            assert 15 <= len(user.split()) <= 170
            assert 50 <= len(assistant.split()) <= 220


def test_wording_varies(sample: dict[str, list[FillerChat]]) -> None:
    for name, fillers in sample.items():
        openings = {tuple(one.turns[0][1].split()[:2]) for one in fillers}
        questions = {re.sub(r"[\d,.−]+", "0", one.turns[0][0]) for one in fillers}
        assert len(openings) >= 3, name
        assert len(questions) >= 6, name


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("clock_arithmetic", {"start": 1, "span": 76}, "00:01 is 1 minute after midnight"),
        ("clock_arithmetic", {"start": 77, "span": 76}, "That leaves 1 minute after midnight"),
        ("clock_arithmetic", {"start": 0, "span": 719}, "11:59 in the morning"),
        ("clock_arithmetic", {"start": 0, "span": 720}, "12:00 in the afternoon"),
        ("clock_arithmetic", {"start": 0, "span": 1080}, "6:00 in the evening"),
        ("uniform_acceleration", {"speed": 1}, "at 1 metre per second"),
        ("uniform_acceleration", {"speed": 2}, "at 2 metres per second"),
        ("dice_probability", {"die": 2}, "a fair 8-sided die"),
        ("itertools_module", {"a": 39, "over": 1}, "a sum of more than 43 is 9."),
    ],
)
def test_small_numbers_and_articles_agree(name: str, parameters: dict[str, int], expected: str) -> None:
    kind = KINDS[NAMES.index(name)]
    number, weight = 0, 1
    for (parameter, (first, _)), size in zip(kind.texts.parameters.items(), kind.sizes, strict=True):
        number += weight * (parameters.get(parameter, first) - first)
        weight *= size
    assert any(expected in text for text in draft(kind, number, ConstantRandom(0.5)))


def test_nothing_tells_of_the_users_tastes_or_life(sample: dict[str, list[FillerChat]]) -> None:
    lived = "wife|husband|partner|kids?|children|son|daughter|mother|father|boss|job|house|flat|home|car|dog|cat|garden"
    personal = re.compile(
        rf"\b(my (?:{lived})|favou?rite|I (?:(?:really|always|usually) )?(?:prefer|like|love|hate|enjoy|dislike))\b",
        re.IGNORECASE,
    )
    for one in itertools.chain.from_iterable(sample.values()):
        for user, _ in one.turns:
            assert not personal.search(user), user


def test_messages_are_of_all_lengths_that_messages_of_sessions_have(sample: dict[str, list[FillerChat]]) -> None:
    lengths = sorted(
        len(user.split()) for one in itertools.chain.from_iterable(sample.values()) for user, _ in one.turns
    )
    tenth, ninth = lengths[len(lengths) // 10], lengths[len(lengths) * 9 // 10]
    assert tenth < 45
    assert ninth > 90


# --- the code


@pytest.mark.parametrize("name", [kind.name for kind in PROGRAMMING])
def test_code_runs_and_prints_what_the_answer_says(name: str, sample: dict[str, list[FillerChat]]) -> None:
    for one in sample[name]:
        for _, assistant in one.turns:
            pairs = re.findall(r"```python\n(.*?)```\n\n[^\n`]+:\n\n```text\n(.*?)```", assistant, re.DOTALL)
            assert len(pairs) == 1 == assistant.count("```python")
            code, claimed = pairs[0]
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, one.title, "exec"), {"__name__": "__main__"})
            assert out.getvalue() == claimed


def test_programming_claims_in_the_text_agree_with_the_code(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["datetime_module"]:
        days, start, end, weekday = find(r"so (\d+) days after ([\d-]+) is ([\d-]+), a (\w+)\.", one.turns[0][1])
        date = dt.date.fromisoformat(start) + dt.timedelta(int(days))
        assert (date.isoformat(), calendar.day_name[date.weekday()]) == (end, weekday)
    for one in sample["prime_sieve"]:
        found, limit, last = find(
            r"there are (\d+) primes up to (\d+), and (\d+)", one.turns[0][1].replace("There", "there")
        )
        primes = [n for n in range(2, int(limit) + 1) if all(n % d for d in range(2, math.isqrt(n) + 1))]
        assert (len(primes), primes[-1]) == (int(found), int(last))
    for one in sample["binary_search"]:
        at, steps, size = find(r"index (\d+), found after (\d+) steps among (\d+)", one.turns[1][1])
        assert int(at) < int(size)
        assert int(steps) <= int(size).bit_length()
    for one in sample["matrices"]:
        a, d, b, c, det = map(number, find(r"is (\d+) × (\d+) − (\d+) × (\d+) = (−?-?\d+)", one.turns[1][1]))
        assert a * d - b * c == det


# --- the facts


def test_unit_conversions(sample: dict[str, list[FillerChat]]) -> None:
    metres = {"miles": 1609.344, "kilometres": 1000, "feet": 0.3048, "metres": 1, "inches": 0.0254, "yards": 0.9144}
    metres |= {"centimetres": 0.01, "nautical miles": 1852}
    kilograms = {"pounds": 0.45359237, "kilograms": 1, "grams": 0.001, "avoirdupois ounces": 0.45359237 / 16}
    litres = {"US gallons": 231 * 2.54**3 / 1000, "litres": 1, "imperial gallons": 4.54609}
    areas = {"acres": 4840 * 0.9144**2, "hectares": 10_000}
    speeds = {"knots": 1.852, "kilometres per hour": 1, "miles per hour": 1.609344, "metres per second": 3.6}
    others = {"kilowatt hours": 3.6, "megajoules": 1, "standard atmospheres": 101.325, "kilopascals": 1}
    calories = {"international calories": 4.1868, "joules": 1}
    kind = KINDS[NAMES.index("unit_conversion")]
    for unit in range(kind.sizes[0]):
        one = draft(kind, unit + kind.sizes[0] * (31 * unit % 900), random.Random(0))
        value, source, result, target = find(
            rf"so {NUMBER} ([a-zA-Z ]+) are about {NUMBER} ([a-z ]+[a-z]|US gallons)[.;]", one.answer
        )
        scale = next(s for s in (metres, kilograms, litres, areas, speeds, others, calories) if source in s)
        expected = number(value) * scale[source] / scale[target]
        assert number(result) == pytest.approx(expected, abs=6e-4), one.title
        _, _, back, _ = find(rf"So {NUMBER} ([a-zA-Z ]+) are about {NUMBER} ([a-zA-Z ]+)\.", one.reply)
        assert number(back) == pytest.approx(number(value) * scale[target] / scale[source], abs=6e-4)


def test_temperatures(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["temperature_conversion"]:
        value, source, result, sign = find(rf"So {NUMBER} degrees (\w+) are {NUMBER} (°F|°C|K)", one.turns[0][1])
        celsius = number(value) if source == "Celsius" else (number(value) - 32) / 1.8
        expected = {"°C": celsius, "°F": celsius * 1.8 + 32, "K": celsius + 273.15}[sign]
        assert number(result) == pytest.approx(expected, abs=0.006)
        (state,) = find(r"water is therefore (frozen|liquid|steam|just)", one.turns[1][1])
        assert state == (
            "frozen" if celsius < 0 else "liquid" if 0 < celsius < 100 else "steam" if celsius > 100 else "just"
        )


def test_weekdays(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["weekday_of_date"]:
        text, weekday = find(DATE + r" is a (\w+)\.", one.turns[0][1])
        assert (
            calendar.day_name[calendar.weekday(date_of(text).year, date_of(text).month, date_of(text).day)] == weekday
        )
        rank, week, year = find(r"the (\d+)\w\w day of \d+, .* week (\d+) of (\d+)\.", one.turns[1][1])
        assert date_of(text).strftime("%j").lstrip("0") == rank
        assert date_of(text).strftime("%G-%V") == f"{year}-{int(week):02}"


def test_days_between_dates(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["days_between"]:
        first, second, days, weeks, rest = find(
            rf"[Ff]rom {DATE} to {DATE} .*?([\d,]+) days, .*?That is ([\d,]+) full weeks? and (\d) day", one.turns[0][1]
        )
        gap = date_of(second).toordinal() - date_of(first).toordinal()
        assert (gap, *divmod(gap, 7)) == (number(days), number(weeks), number(rest))
        (third,) = find(rf"leads to {DATE}, a", one.turns[1][1])
        assert date_of(third).toordinal() == date_of(second).toordinal() + gap


def test_leap_years_and_clocks(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["leap_years"]:
        first, last = map(int, find(r"from (\d+) to (\d+)", one.title))
        (leaps,) = find(r"= (\d+) leap years", one.turns[0][1])
        assert int(leaps) == calendar.leapdays(first, last + 1)
        (days,) = find(r"= ([\d,]+) days", one.turns[1][1])
        assert number(days) == (dt.date(last + 1, 1, 1) - dt.date(first, 1, 1)).days
    for one in sample["clock_arithmetic"]:
        hours, minutes, start = re.search(
            r"(?:(\d+) hours?)?(?: and )?(?:(\d+) minutes?)? after (\d\d:\d\d)", one.title
        ).groups()  # type: ignore[union-attr]
        then = dt.datetime(2001, 5, 10, *map(int, start.split(":")))  # noqa: DTZ001
        span = dt.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        shown, when = find(r"the clock shows (\d\d:\d\d), ([a-z0-9 ]+)\.", one.turns[0][1])
        names = {0: "the same day", 1: "the next day"}
        assert (then + span).strftime("%H:%M") == shown
        days = (then + span).toordinal() - then.toordinal()
        assert when == names.get(days, f"{days} days later")
        (before,) = find(r"it was (\d\d:\d\d)", one.turns[1][1])
        assert (then - span).strftime("%H:%M") == before


def test_interest_and_loans(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["compound_interest"]:
        start, rate, years = map(number, find(rf"on {NUMBER} at {NUMBER}% over (\d+)", one.title))
        balance = start
        for _ in range(int(years)):
            balance += balance * rate / 100
        (end,) = find(rf"≈ {NUMBER} \(", one.turns[0][1])
        assert number(end) == pytest.approx(balance, abs=0.006)
    for one in sample["loan_payment"]:
        debt, rate, years = map(number, find(rf"for {NUMBER} at {NUMBER}% over (\d+)", one.title))
        payment = number(find(rf"gives about {NUMBER}", one.turns[0][1])[0])
        for _ in range(int(years) * 12):
            debt = debt * (1 + rate / 1200) - payment
        # A payment that is off by less than a cent leaves next to nothing at the end.
        assert abs(debt) < 0.006 * ((1 + rate / 1200) ** (12 * years) - 1) / (rate / 1200)


def test_geometry_and_percentages(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["right_triangle"]:
        a, b = map(number, find(r"legs (\d+) and (\d+)", one.title))
        word, c = find(rf"gives (exactly|about) {NUMBER} cm", one.turns[0][1])
        assert number(c) == pytest.approx(math.dist((0, b), (a, 0)), abs=0.006)
        assert (word == "exactly") == (math.dist((0, b), (a, 0)).is_integer())
        (angle,) = find(rf"so that angle is about {NUMBER}°", one.turns[1][1])
        assert math.tan(math.radians(number(angle))) == pytest.approx(a / b, rel=0.05)
    for one in sample["cylinder"]:
        r, h = map(number, find(r"radius (\d+) and height (\d+)", one.title))
        (volume,) = find(rf"about {NUMBER} cubic", one.turns[0][1])
        assert number(volume) == pytest.approx(math.pi * r**2 * h, abs=0.06)
        (surface,) = find(rf"\) ≈ {NUMBER} square", one.turns[1][1])
        assert number(surface) == pytest.approx(2 * math.pi * r * (r + h), abs=0.06)
    for one in sample["percentages"]:
        rate, whole = map(number, find(rf"(\d+)% of {NUMBER}", one.title))
        left = number(find(rf"{NUMBER} − {NUMBER} = {NUMBER}", one.turns[0][1])[2])
        assert left == pytest.approx(whole - whole * rate / 100)
        growth = number(find(rf"÷ {NUMBER} = {NUMBER}%", one.turns[1][1])[1])
        assert left * (1 + growth / 100) == pytest.approx(whole, rel=1e-3)


def test_numbers_and_their_forms(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["factorisation"]:
        whole = int(number(find(rf"of {NUMBER}$", one.title)[0]))
        divisors = [d for d in range(1, whole + 1) if whole % d == 0]
        counted, total = find(rf"by one: (\d+) in this case.* which gives {NUMBER}\.", one.turns[1][1])
        assert (len(divisors), sum(divisors)) == (int(counted), number(total))
        if len(divisors) > 2:
            (product,) = find(rf"So {one.title.split()[-1]} = ([\d,× ]+)\.", one.turns[0][1])
            factors = [int(number(text)) for text in product.split(" × ")]
            assert math.prod(factors) == whole
            assert all(sum(f % d == 0 for d in range(1, f + 1)) == 2 for f in factors)
        else:
            assert "itself a prime number" in one.turns[0][1]
    for one in sample["common_divisor"]:
        a, b = map(int, find(r"of (\d+) and (\d+)", one.title))
        assert int(find(r"(?:Here|So) it is (\d+)\.", one.turns[0][1])[0]) == math.gcd(a, b)
        assert number(find(rf"multiple is .* = {NUMBER}\. The", one.turns[1][1])[0]) == math.lcm(a, b)
        assert str(Fraction(b, a)) in one.turns[1][1]
    for one in sample["number_bases"]:
        (whole_text,) = find(r"number (\d+)", one.title)
        hexadecimal, octal = (
            find(r"result is ([0-9A-F]+)\.", one.turns[0][1])[0],
            find(r"([0-7]+) in base 8", one.turns[1][1])[0],
        )
        binary = find(r"(?:follows|written down) at once: ([01]+)", one.turns[0][1])[0]
        assert int(hexadecimal, 16) == int(octal, 8) == int(binary, 2) == int(whole_text)
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    for one in sample["roman_numerals"]:
        x, rx, y, ry = find(r"(\d+) is ([IVXLCDM]+) and (\d+) is ([IVXLCDM]+)\.", one.turns[0][1])
        (rsum,) = find(r"which is ([IVXLCDM]+)\.", one.turns[1][1])
        for text, expected in ((rx, int(x)), (ry, int(y)), (rsum, int(x) + int(y))):
            digits = [values[letter] for letter in text]
            assert (
                sum(-d if d < after else d for d, after in itertools.zip_longest(digits, digits[1:], fillvalue=0))
                == expected
            )
            assert not re.search(r"(.)\1{3}|VV|LL|DD", text)


def test_statistics_and_probability(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["list_statistics"]:
        values = [int(text) for text in one.title.removeprefix("mean and median of ").split(", ")]
        mean, median = find(rf"÷ 7 ≈ {NUMBER}\..* so it is (\d+)\.", one.turns[0][1])
        assert number(mean) == pytest.approx(statistics.mean(values), abs=0.006)
        assert number(median) == statistics.median(values)
        population, sample_sd = find(rf"of about {NUMBER}\. .* of about {NUMBER}\.", one.turns[1][1])
        assert number(population) == pytest.approx(statistics.pstdev(values), abs=0.006)
        assert number(sample_sd) == pytest.approx(statistics.stdev(values), abs=0.006)
    for one in sample["dice_probability"]:
        hits, rolls, sides = map(int, find(r"exactly (\d+) .* in (\d+) rolls of an? (\d+)-sided", one.title))
        # A dynamic programme instead of the formula.
        chances = [Fraction(1)] + [Fraction(0)] * hits
        for _ in range(rolls):
            chances = [
                p * Fraction(sides - 1, sides) + (chances[k - 1] / sides if k else 0) for k, p in enumerate(chances)
            ]
        stated = number(find(rf"gives about {NUMBER}%", one.turns[0][1])[0])
        assert stated == pytest.approx(float(100 * chances[hits]), rel=6e-3)
        never, some = map(number, find(rf", about {NUMBER}%, .* probability {NUMBER}%\.", one.turns[1][1]))
        assert never + some == pytest.approx(100, abs=0.02)
    for one in sample["urn_probability"]:
        hits, draws, red, blue = map(int, find(r"drawing (\d+) red among (\d+) from (\d+) red and (\d+)", one.title))
        chance = Fraction(0)
        for pattern in set(itertools.permutations([True] * hits + [False] * (draws - hits))):
            left, part = {True: red, False: blue}, Fraction(1)
            for colour in pattern:
                part *= Fraction(left[colour], sum(left.values()))
                left[colour] -= 1
            chance += part
        assert find(r"(?:is|equals) (\d+/\d+) in lowest terms", one.turns[0][1])[0] == str(chance)


def test_logic_and_ciphers(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["truth_table"]:
        expression = one.title.removeprefix("the truth table of ")
        p, inner, q, outer, r = find(r"\((.+?) (\w+) ((?:not )?\w)\) (\w+) (.+)", expression)
        table = {"and": "{} and {}", "or": "{} or {}", "xor": "({}) != ({})", "equals": "({}) == ({})"}
        table |= {"nand": "not (({}) and ({}))", "nor": "not (({}) or ({}))", "implies": "not ({}) or ({})"}
        code = table[outer].format("(" + table[inner].format(p, q) + ")", r)
        rows = find(
            r"```text\n(.*?)\n```",
            one.turns[0][1].replace("\n", ";").replace("```text;", "```text\n").replace(";```", "\n```"),
        )
        header, *lines = rows[0].split(";")
        names = header.split()[:3]
        assert len(set(lines)) == 8
        for line in lines:
            *bits, value = (int(bit) for bit in line.split())
            assert bool(eval(code, {}, {n: bool(b) for n, b in zip(names, bits, strict=True)})) == bool(value)
    for one in sample["caesar_cipher"]:
        plain, shift = find(r"'([a-z ]+)' with shift (\d+)", one.title)
        secret = find(r'"([a-z ]+)"; the', one.turns[0][1])[0]
        letters = "abcdefghijklmnopqrstuvwxyz"
        turned = letters[int(shift) :] + letters[: int(shift)]
        assert secret.translate(str.maketrans(turned, letters)) == plain
        mirrored = find(r'turns into "([a-z ]+)"', one.turns[1][1])[0]
        assert mirrored.translate(str.maketrans(letters, letters[::-1])) == plain


def test_algebra(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["quadratic_equation"]:
        a, b, c = map(number, find(rf"a = {NUMBER}, b = {NUMBER} and c = (−?[\d,]+)\.", one.turns[0][1]))
        for root in find(rf"They are x = {NUMBER} and x = (−?\d+)\.", one.turns[0][1]):
            assert a * number(root) ** 2 + b * number(root) + c == 0
        x, y = map(
            number, find(rf"÷ 2 = (−?\d+(?:\.\d+)?)\. There .* has the value {NUMBER}, the minimum", one.turns[1][1])
        )
        assert x == pytest.approx(-b / (2 * a))
        assert y == pytest.approx(a * x * x + b * x + c)
    for one in sample["adding_fractions"]:
        x, y = map(Fraction, find(r"of (\d+/\d+) and (\d+/\d+)", one.title))
        assert f"{x + y} in lowest terms" in one.turns[0][1] or f": {x + y}. Nothing cancels" in one.turns[0][1]
        assert re.search(rf"(= |is ){x * y}(,|\.)", one.turns[1][1])
        assert re.search(rf"(= |is ){x / y}(,|\.)", one.turns[1][1])
    for one in sample["arithmetic_sequence"]:
        terms, start, step = map(int, find(r"(\d+) terms of the sequence from (\d+) in steps of (\d+)", one.title))
        sequence = [start + k * step for k in range(4 * terms + start)]
        assert number(find(rf"÷ 2 = {NUMBER}\.", one.turns[0][1])[0]) == sum(sequence[:terms])
        first = next(k for k, term in enumerate(sequence, 1) if term > 2 * sequence[terms - 1])
        assert int(find(r"the answer is the (\d+)\w\w term", one.turns[1][1])[0]) == first
    for one in sample["insertion_sort"]:
        values = [int(text) for text in one.title.removeprefix("insertion sort on ").split(", ")]
        last = re.findall(r"after inserting \d+: ([\d, ]+)\n", one.turns[0][1])[-1]
        assert ast.literal_eval(f"[{last}]") == sorted(values)
        swaps = sum(x > y for x, y in itertools.combinations(values, 2))
        assert find(r"past a larger one (\d+) time", one.turns[0][1]) == (str(swaps),)


def test_physics(sample: dict[str, list[FillerChat]]) -> None:
    for one in sample["uniform_acceleration"]:
        a, t = map(number, find(rf"with {NUMBER} m/s² for (\d+)", one.title))
        u = 0.0 if "from rest" in one.title else number(find(r"at (\d+) metres?", one.title)[0])
        distance = number(find(rf"that makes {NUMBER} metres", one.turns[0][1])[0])
        slices = 1000
        simulated = sum((u + a * t * (k + 0.5) / slices) * t / slices for k in range(slices))
        assert distance == pytest.approx(simulated, abs=0.01)
        stop = number(find(rf"≈ {NUMBER} metres\.", one.turns[1][1])[0])
        assert stop == pytest.approx((u + a * t) ** 2 / 8, abs=0.006)
    for one in sample["heating_water"]:
        mass, low, high = map(number, find(r"heat (\d+) kg of water from (\d+) to (\d+)", one.title))
        hours = number(find(rf"about {NUMBER} kilowatt hours", one.turns[0][1])[0])
        assert hours == pytest.approx(4.19 * mass * (high - low) / 3600, abs=0.006)
    for one in sample["electric_circuit"]:
        volts, ohms = map(number, find(r"(\d+) volts across (\d+) ohms", one.title))
        amps = number(find(rf"≈ {NUMBER} amperes", one.turns[0][1])[0])
        watts = number(find(rf"≈ {NUMBER} watts", one.turns[0][1])[0])
        assert amps * ohms == pytest.approx(volts, abs=0.06)
        assert watts * ohms == pytest.approx(volts**2, abs=0.6)
    pull = {
        "Mercury": 3.7,
        "Venus": 8.87,
        "Mars": 3.71,
        "Jupiter": 24.8,
        "Saturn": 10.4,
        "Uranus": 8.7,
        "Neptune": 11.2,
    }
    for one in sample["planet_weight"]:
        mass, planet = find(rf"of {NUMBER} kg on (\w+)", one.title)
        weight = number(find(rf"≈ {NUMBER} newtons, whereas", one.turns[0][1])[0])
        assert weight == pytest.approx(number(mass) * pull[planet], abs=0.06)


def test_the_periodic_table() -> None:
    assert len(ELEMENTS) == len({one.symbol for one in ELEMENTS}) == len({one.name for one in ELEMENTS}) == 118
    known = {1: "H", 6: "C", 26: "Fe", 29: "Cu", 47: "Ag", 50: "Sn", 57: "La", 71: "Lu", 74: "W", 79: "Au", 80: "Hg"}
    known |= {82: "Pb", 86: "Rn", 89: "Ac", 92: "U", 103: "Lr", 104: "Rf", 110: "Ds", 112: "Cn", 118: "Og"}
    assert all(ELEMENTS[z - 1].symbol == symbol for z, symbol in known.items())
    columns = {
        1: (1, 3, 11, 19, 37, 55, 87),
        2: (4, 12, 20, 38, 56, 88),
        4: (22, 40, 72, 104),
        11: (29, 47, 79, 111),
        13: (5, 13, 31, 49, 81, 113),
        17: (9, 17, 35, 53, 85, 117),
        18: (2, 10, 18, 36, 54, 86, 118),
        None: (*range(57, 72), *range(89, 104)),
    }
    for group, numbers in columns.items():
        assert {z for z, one in enumerate(ELEMENTS, 1) if one.group == group} == set(numbers)
    assert [one.period for one in ELEMENTS] == [p for p, n in enumerate((2, 8, 8, 18, 18, 32, 32), 1) for _ in range(n)]


def test_the_elements_in_the_text(sample: dict[str, list[FillerChat]]) -> None:
    numbers = {one.name: z for z, one in enumerate(ELEMENTS, 1)}
    for one in sample["chemical_elements"]:
        for name in find(r"elements (\w+) and (\w+)", one.title):
            z = numbers[name]
            symbol, stated, period = find(
                rf"{name.capitalize()} has the symbol (\w+) and the atomic number (\d+); it stands in period (\d)",
                one.turns[0][1],
            )
            assert (symbol, int(stated), int(period)) == (ELEMENTS[z - 1].symbol, z, ELEMENTS[z - 1].period)


def test_countries(sample: dict[str, list[FillerChat]]) -> None:
    assert len({c.name for c in COUNTRIES}) == len({c.capital for c in COUNTRIES}) == len(COUNTRIES)
    landlocked = {c.name for c in COUNTRIES if c.landlocked}
    assert {"Austria", "Bhutan", "Chad", "Mali", "Nepal", "Paraguay", "Zambia", "Mongolia"} <= landlocked
    assert not landlocked & {"Germany", "Iran", "Cameroon", "Vietnam", "Croatia", "Slovenia", "Jordan"}
    known = {
        "Australia": "Canberra",
        "Canada": "Ottawa",
        "Brazil": "Brasília",
        "Nigeria": "Abuja",
        "Pakistan": "Islamabad",
    }
    assert known.items() <= {c.name: c.capital for c in COUNTRIES}.items()
    table = {c.name: c for c in COUNTRIES}
    for one in sample["capitals"]:
        for name in find(r"capitals of (.+) and (.+)$", one.title.replace("Bosnia and", "Bosnia &")):
            country = table[name.replace("&", "and")]
            assert f"capital of {country.name} is {country.capital}" in one.turns[0][1]
            assert f"{country.name} lies in {country.continent}" in one.turns[0][1]
            assert f"{country.name} {'is landlocked' if country.landlocked else 'has a coast'}" in one.turns[1][1]
