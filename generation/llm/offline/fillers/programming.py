"""The slots of fillers about programming, what the code prints among them.

Nothing is executed when a filler is written: each function computes what the code in the bank prints, and the tests run
the code and compare.
"""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
import json
import math
import statistics
from fractions import Fraction
from functools import cache
from typing import Final

from generation.llm.offline.fillers.formats import join, row, times
from generation.llm.offline.fillers.tables import Evaluator, Slots, distinct, tables


def sum_of_multiples(limit: int, a: int, b: int) -> Slots:
    """A generator expression in a function, then a closed formula."""
    total = sum(n for n in range(1, limit) if n % a == 0 or n % b == 0)
    return {"total": total}


def while_loop(number: int) -> Slots:
    """The Collatz sequence with a loop, then as a generator."""
    path = [number]
    while path[-1] != 1:
        path.append(path[-1] // 2 if path[-1] % 2 == 0 else 3 * path[-1] + 1)
    climb = "higher" if max(path) > number else "lower"
    return {"steps": len(path) - 1, "climb": climb, "top": max(path), "begin": path[:5]}


def recursion(a: int, b: int, n: int) -> Slots:
    """A recursive sequence, then with a cache."""
    terms = [a, b]
    while len(terms) <= n:
        terms.append(terms[-1] + terms[-2])
    return {"begin": terms[:8], "term": terms[n]}


def generators(low: int, length: int, size: int) -> Slots:
    """Chunks of a list by a generator, then windows."""
    high = low + length
    numbers = list(range(low, high))
    parts = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    sums = [sum(numbers[i : i + size]) for i in range(len(numbers) - size + 1)]
    slots = {"high": high, "last": high - 1, "rest": len(parts[-1]), "count": len(parts), "windows": len(sums)}
    return slots | {"parts": "\n".join(map(str, parts)), "sums": sums}


def itertools_module(a: int, b: int, c: int, d: int, over: int) -> Slots:
    """Combinations, then accumulate."""
    numbers = [a + 5, b + 11, c + 20, d + 8, (a + d) % 40 + 3, (b + c) % 40 + 6]
    limit = sum(numbers) // 3
    pairs = itertools.combinations(numbers, 2)
    matches = [pair for pair in pairs if (sum(pair) > limit if over else sum(pair) < limit)]
    return (
        {"numbers": numbers, "list": row(numbers), "limit": limit, "sign": ">" if over else "<"}
        | {"word": "more" if over else "less", "count": len(matches), "matches": matches[:3]}
        | {"totals": list(itertools.accumulate(numbers)), "maxima": list(itertools.accumulate(numbers, max))}
    )


def counting_words(first: int, second: int, third: int) -> Slots:
    """Word counts with a Counter, then letters."""
    x, y, z = distinct(tables().words[:60], first, second, third)
    text = f"{x} {y} {z} {y} {x} {y}"
    plain = text.replace(" ", "")
    letters = {letter: plain.count(letter) for letter in plain}
    best = min(letters.items(), key=lambda item: (-item[1], item[0]))
    slots = {"text": text, "x": x, "y": y, "z": z, "letter": z[0], "n": letters[z[0]], "best": best[0]}
    return slots | {"most": best[1], "pair": best, "distinct": len(letters)}


def sorting_with_key(first: int, second: int, third: int, low: int, high: int) -> Slots:
    """Sorting tuples by a key, then by two keys."""
    x, y, z = distinct(tables().parts, first, second, third)
    a, b, c = low + 10, high + 15, (low + high) % 60 + 12
    stock = [(x, a), (y, b), (z, c)]
    both = sorted([*stock, (y, a)], key=lambda item: (item[0], -item[1]))
    return (
        {"x": x, "y": y, "z": z, "a": a, "b": b, "c": c, "top": max(stock, key=lambda item: item[1])[0]}
        | {"by_count": sorted(stock, key=lambda item: item[1], reverse=True)}
        | {"by_name": "\n".join(f"{name} {count}" for name, count in both)}
    )


def dataclasses_module(part: int, n: int, quarters: int) -> Slots:
    """A data class, then a frozen one."""
    price = quarters / 4
    return {"part": tables().parts[part], "price": price, "total": n * price, "more": n + 5}


def datetime_module(day: int, n: int) -> Slots:
    """Adding days, then counting working days."""
    start = dt.date(2001, 1, 1) + dt.timedelta(day)
    end = start + dt.timedelta(n)
    work = sum((start.weekday() + k) % 7 < 5 for k in range(n))
    slots = {"y": start.year, "m": start.month, "d": start.day, "iso": start.isoformat()}
    return slots | {"end": end.isoformat(), "weekday": tables().weekdays[end.weekday()], "work": work}


def json_module(first: int, second: int, third: int, n: int) -> Slots:
    """Writing and reading JSON."""
    x, y, z = distinct(tables().parts, first, second, third)
    m = 2 * n - 3
    record = {"name": x, "count": n, "tags": [y, z], "checked": None}
    text = json.dumps({"items": [{"name": x, "count": n}, {"name": y, "count": m}]})
    slots = {"x": x, "y": y, "z": z, "m": m, "pos": len(text) - 1, "record": json.dumps(record, sort_keys=True)}
    return slots | {"sum": n + m}


def regular_expressions(first: int, second: int, third: int, number: int) -> Slots:
    """Finding codes, then replacing numbers."""
    x, y, z = distinct(tables().parts, first, second, third)
    a, b = number + 10, (number * 7) % 900 + 12
    c = (number * 3) % 90 + 2
    slots = {"x": x, "y": y, "z": z, "a": a, "b": b, "c": c, "fits": f"{len(str(a))} digits"}
    return slots | {"codes": [(x, str(a)), (y, str(b))], "a1": a + 1, "b1": b + 1, "c1": c + 1, "three": a > 99}


def string_formatting(first: int, second: int, count: int, price: int) -> Slots:
    """A table with f-strings, then other formats."""
    x, y = distinct(tables().parts, first, second)
    a, b = count + 7, 3 * count + 4
    p, q = (price + 2) / 4, (price + 9) / 2
    total = a * 37 + 1000
    lines = [f"{name:<10}{n:>6}{cost:>9.2f}" for name, n, cost in ((x, a, p), (y, b, q))]
    slots = {"x": x, "y": y, "a": a, "b": b, "p": p, "q": q, "t": total, "table": "\n".join(lines)}
    return slots | {"formats": f"{a:05d}\n{total:,}\n{a / total:.1%}\n{a:b} {a:x}"}


def sql_grouping(first: int, second: int, third: int, low: int, high: int) -> Slots:
    """GROUP BY, then HAVING, with sqlite3."""
    x, y, z = distinct(tables().parts, first, second, third)
    a, b, c, d = low + 5, high + 6, (low + 2 * high) % 40 + 3, (3 * low + high) % 40 + 8
    limit = min(a + b, c + d)
    sums = sorted(((x, a + c), (y, b), (z, d)), key=lambda item: (-item[1], item[0]))
    places = [("north", 2, max(a, b))] * (a + b > limit) + [("south", 2, max(c, d))] * (c + d > limit)
    return (
        {"x": x, "y": y, "z": z, "a": a, "b": b, "c": c, "d": d, "limit": limit}
        | {"found": "one" if places else "none", "place": places[0][0] if places else ""}
        | {"sums": "\n".join(map(str, sums)), "places": places}
    )


def sql_joining(first: int, second: int, third: int, low: int, high: int) -> Slots:
    """An inner join, then a left join, with sqlite3."""
    x, y, z = distinct(tables().parts, first, second, third)
    a, b, c = low + 3, high + 4, (low + 3 * high) % 50 + 60
    sales = sorted([(x, a), (z, b), (x, c)], key=lambda item: (item[1], item[0]))
    slots = {"x": x, "y": y, "z": z, "a": a, "b": b, "c": c, "sum": a + c, "sales": sales}
    return slots | {"totals": [(x, a + c), (y, 0), (z, b)]}


def unit_testing(low: int, width: int) -> Slots:
    """Tests for a function that clamps, then an error case."""
    high = low + width
    return {"high": high, "mid": (low + high) // 2}


def binary_search(a: int, to_b: int, to_c: int) -> Slots:
    """Labels by bisection, then the search by hand."""
    b, c = a + to_b, a + to_b + to_c
    v, w = (a + b) // 2, c + 9
    labels = ["low", "medium", "high", "extreme"]
    found = [labels[bisect.bisect_right([a, b, c], value)] for value in (v, b, w)]
    step = 2 + (to_c + 1) % 5
    numbers = list(range(a, w * 10, step))
    low, high, steps = 0, len(numbers), 0
    while low < high:
        steps += 1
        middle = (low + high) // 2
        if numbers[middle] < w:
            low = middle + 1
        else:
            high = middle
    slots = {"b": b, "c": c, "v": v, "w": w, "step": step, "at": low, "steps": steps, "size": len(numbers)}
    return slots | {"labels": found}


def exceptions(part: int, a: int, b: int) -> Slots:
    """Collecting bad input, then an exception of one's own."""
    x, c = tables().parts[part], (a * b) % 80 + 5
    return {"x": x, "c": c, "sum": a + b, "sorted": ([a, b], [x, "", f"{c}.5"])}


def matrices(a: int, b: int, c: int, d: int) -> Slots:
    """A matrix product, then an inverse."""
    e, f = (a + c) % 7 + 2, (b + d) % 5 + 3
    product = [[a * e + b, a * f + 2 * b], [c * e + d, c * f + 2 * d]]
    det = a * d - b * c
    inverse = [" ".join(str(Fraction(value, det)) for value in pair) for pair in ((d, -b), (-c, a))] if det else []
    lines = [str(det), *(inverse or ["no inverse"])]
    slots = {"e": e, "f": f, "det": det, "so": "regular" if det else "singular", "product": product}
    return slots | {"inverse": "\n".join(lines)}


@cache
def _primes() -> list[int]:
    return [n for n in range(2, 9300) if all(n % d for d in range(2, math.isqrt(n) + 1))]


def prime_sieve(n: int) -> Slots:
    """The sieve of Eratosthenes, then a test of single numbers."""
    primes = _primes()
    count = bisect.bisect_right(primes, n)
    return {"count": count, "last": primes[count - 1], "next": primes[count], "largest": primes[count - 3 : count]}


def comprehensions(low: int, width: int, k: int, r: int) -> Slots:
    """A dictionary comprehension, then a grouping."""
    high = low + 2 * width
    squares = {n: n * n for n in range(low, high) if n % k == r}
    digits: dict[int, list[int]] = {}
    for n, square in squares.items():
        digits.setdefault(square % 10, []).append(n)
    slots = {"high": high, "last": high - 1, "count": len(squares), "keys": join(squares)}
    return slots | {"groups": times(len(digits), "group"), "squares": squares, "digits": digits}


def dictionaries(first: int, second: int, low: int, middle: int, high: int) -> Slots:
    """Values per name, then merging two dictionaries."""
    x, y = distinct(tables().parts, first, second)
    a, b, c = 3 * low, 3 * middle, 3 * high
    averages = [f"{x} {(a + b + c) // 3} {statistics.median((a, b, c))}", f"{y} {(2 * a + c) // 3} {a}"]
    slots = {"x": x, "y": y, "a": a, "b": b, "c": c, "bar": "`|`", "averages": "\n".join(averages)}
    return slots | {"merged": {x: a, y: c, "spare": a}, "added": {x: a, y: b + c, "spare": a}, "shared": [y]}


EVALUATORS: Final[tuple[Evaluator, ...]] = (
    *(sum_of_multiples, while_loop, recursion, generators, itertools_module, counting_words, sorting_with_key),
    *(dataclasses_module, datetime_module, json_module, regular_expressions, string_formatting, sql_grouping),
    *(sql_joining, unit_testing, binary_search, exceptions, matrices, prime_sieve, comprehensions, dictionaries),
)
