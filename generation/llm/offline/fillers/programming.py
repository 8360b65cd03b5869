"""Programming fillers: small Python tasks with code that runs, and what it prints.

Nothing is executed when a filler is written. Each builder computes the output by the same logic as its code, and the
tests run the code and compare.
"""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
import json
import math
import random
import statistics
from string import Template
from typing import Final

from generation.llm.offline.fillers.parts import Draft, coding, join, kind, pick, program, row, times
from generation.llm.offline.fillers.tables import PARTS, WEEKDAYS, WORDS


def _three(items: tuple[str, ...], first: int, second: int, third: int) -> tuple[str, str, str]:
    """Return three different items, given places among all, all but one, and all but two."""
    left = list(items)
    return left.pop(first), left.pop(second), left.pop(third)


_MULTIPLES: Final = Template("""
def $name(limit, first, second):
    return sum(n for n in range(1, limit) if n % first == 0 or n % second == 0)


print($name($limit, $a, $b))
""")
_MULTIPLES_FAST: Final = Template("""
from math import lcm


def below(limit, step):
    count = (limit - 1) // step
    return step * count * (count + 1) // 2


def $name(limit, first, second):
    both = lcm(first, second)
    return below(limit, first) + below(limit, second) - below(limit, both)


print($name($limit, $a, $b))
""")


@kind(900, 9, 11)
def sum_of_multiples(rng: random.Random, limit: int, first: int, second: int) -> Draft:
    """A generator expression in a function, then a closed formula."""
    limit, a, b = limit + 100, first + 3, second + 12
    total = sum(n for n in range(1, limit) if n % a == 0 or n % b == 0)
    name = pick(rng, ("sum_multiples", "multiples_total", "sum_of_multiples", "add_multiples"))
    slots = {"limit": str(limit), "a": str(a), "b": str(b), "name": name}
    return coding(
        rng,
        f"a Python sum of the multiples of {a} or {b} below {limit}",
        "[how do I write|how would one write|could you write] a Python function that adds up all [positive|] "
        "[numbers|integers] below {limit} that are multiples of {a} or {b}?",
        program(
            rng,
            "a generator expression inside `sum` keeps this short, as nothing has to be stored:",
            _MULTIPLES.substitute(slots),
            str(total),
            "the condition uses or, so a number that is a multiple of both {a} and {b} is [counted|added] only once. "
            "The range stops before {limit}, [because|since] the upper end of a range is exclusive. [The work "
            "grows|Running time grows] in proportion to the limit, which is fine for anything up to [a few|several] "
            "million.",
            **slots,
        ),
        "can the sum for {a}, {b} and the limit {limit} be computed without a loop, in case the limit becomes huge?",
        program(
            rng,
            "[it can|that is possible]: the multiples of one number form an arithmetic sequence, which has a closed "
            "formula. [Adding|If we add] both sums, the common multiples are counted twice and must be subtracted "
            "once:",
            _MULTIPLES_FAST.substitute(slots),
            str(total),
            "the result for {limit} is the same as before, but the number of steps no longer depends on the limit. "
            "This is the principle of inclusion and exclusion. Note that the common multiples of {a} and {b} are the "
            "multiples of their least common multiple, not always of their product.",
            **slots,
        ),
        (
            "integer division with two slashes is essential here, because a float would lose digits for large limits.",
            "`math.lcm` exists since Python 3.9; before that, one had to divide the product by `math.gcd`.",
            "a generator expression as the only argument of a call needs no parentheses of its own.",
            "comparing a fast version with a slow one on many small inputs is a good test.",
        ),
        **slots,
    )


_COLLATZ: Final = Template("""
def $name(number):
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


print($name($n))
""")
_COLLATZ_PATH: Final = Template("""
def path(number):
    yield number
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        yield number


numbers = list(path($n))
print(numbers[:5])
print(max(numbers), len(numbers) - 1)
""")


@kind(9000)
def while_loop(rng: random.Random, number: int) -> Draft:
    """The Collatz sequence with a loop, then as a generator."""
    number += 20
    path = [number]
    while path[-1] != 1:
        path.append(path[-1] // 2 if path[-1] % 2 == 0 else 3 * path[-1] + 1)
    name = pick(rng, ("collatz_steps", "count_steps", "steps_to_one", "chain_length"))
    slots = {"n": str(number), "name": name, "steps": str(len(path) - 1)}
    top = max(path)
    slots["climb"] = f"climbs as high as {top} before it comes down" if top > number else "never rises above its start"
    return coding(
        rng,
        f"the Collatz steps from {number} in Python",
        "[how can I count|how do I count|could you show how to count] in Python the steps of the Collatz rule from "
        "{n} down to 1? [Even numbers are halved, odd ones become three times the number plus one.|An even number is "
        "halved, an odd one is tripled and increased by one.]",
        program(
            rng,
            "a while loop fits, because the number of [rounds|steps] is not known in advance:",
            _COLLATZ.substitute(slots),
            slots["steps"],
            "starting at {n}, the loop needs {steps} steps. The conditional expression [picks|chooses] one of the two "
            "rules, and two slashes keep the result an integer. [Nobody has proved|It is unproved] that the loop ends "
            "for every start, but it has been [checked|verified] far beyond the numbers [in question|used] here.",
            **slots,
        ),
        "could the function also give the numbers visited on the way from {n}, and the [largest|highest] of them?",
        program(
            rng,
            "a generator is a [neat|good] choice: it [yields|hands out] one number at a time, and the caller decides "
            "what to do with [them|the numbers]:",
            _COLLATZ_PATH.substitute(slots),
            f"{path[:5]}\n{max(path)} {len(path) - 1}",
            "the chain from {n} {climb}. Since the generator yields the start as "
            "well, the number of steps is one less than the length of the list. The [memory|space] needed grows with "
            "the length of the chain only because of `list`; a loop over the generator would need [almost none|hardly "
            "any].",
            **slots,
        ),
        (
            "Python integers have no fixed size, so the values on the way cannot overflow.",
            "a function with yield returns an iterator; its body starts to run only when the first value is requested.",
            "for many starting numbers, a dictionary of known lengths would save a lot of repeated work.",
            "an input of zero would loop forever, so a check at the top of the function would be prudent.",
        ),
        **slots,
    )


_RECURSION: Final = Template("""
def $name(n):
    if n == 0:
        return $a
    if n == 1:
        return $b
    return $name(n - 1) + $name(n - 2)


print([$name(n) for n in range(8)])
""")
_MEMO: Final = Template("""
from functools import lru_cache


@lru_cache(maxsize=None)
def $name(n):
    if n < 2:
        return ($a, $b)[n]
    return $name(n - 1) + $name(n - 2)


print($name($n))
""")


@kind(40, 40, 60)
def recursion(rng: random.Random, first: int, second: int, place: int) -> Draft:
    """A recursive sequence, then with a cache."""
    a, b, n = first + 2, second + 3, place + 30
    terms = [a, b]
    while len(terms) <= n:
        terms.append(terms[-1] + terms[-2])
    name = pick(rng, ("term", "sequence", "nth", "value_at"))
    slots = {"a": str(a), "b": str(b), "n": str(n), "name": name}
    return coding(
        rng,
        f"a recursive Python sequence from {a} and {b} up to term {n}",
        "[how do I write|how does one write|could you write] a recursive Python function for a sequence that starts "
        "with {a} and {b} and in which [every|each] later term is the sum of the two before it? [term|In the end, "
        "term] {n} is needed.",
        program(
            rng,
            "the two starting values are the base cases, and everything else follows from the [definition|rule]:",
            _RECURSION.substitute(slots),
            str(terms[:8]),
            "counting starts at zero, so {a} is term 0 and {b} is term 1. For small indices this is fine, but for "
            "term {n} it would take far too long: each call makes two more, so the number of calls grows "
            "exponentially, [like the sequence itself|by about 62% per step].",
            **slots,
        ),
        "how can it be made fast enough for term {n}, still with {a} and {b} at the start and without giving up "
        "recursion?",
        program(
            rng,
            "by remembering results. The decorator `lru_cache` stores each value [when|as soon as] it has been "
            "computed[ once|], so no term is computed twice:",
            _MEMO.substitute(slots),
            str(terms[n]),
            "that is term {n} of the sequence from {a} and {b}. The number of real calls is now proportional to the "
            "index. [Recursion|The recursion] still [goes|reaches] as deep as the index, and Python stops at a depth "
            "of about 1,000 by default, so for much larger indices a simple loop with two variables is [safer|the "
            "better choice].",
            **slots,
        ),
        (
            "every recursion needs a base case that is certainly reached, otherwise it ends in a RecursionError.",
            "`functools.cache` is a shorter name for the same decorator without a size limit.",
            "a cached function should be pure, since stored results are returned without running the body again.",
            "the ratio of neighbouring terms approaches the golden ratio, whatever the two positive starting values "
            "are.",
        ),
        **slots,
    )


_CHUNKS: Final = Template("""
def $name(items, size):
    for start in range(0, len(items), size):
        yield items[start:start + size]


for part in $name(list(range($low, $high)), $size):
    print(part)
""")
_WINDOWS: Final = Template("""
def windows(items, size):
    for start in range(len(items) - size + 1):
        yield items[start:start + size]


sums = [sum(part) for part in windows(list(range($low, $high)), $size)]
print(sums)
""")


@kind(800, 9, 4)
def generators(rng: random.Random, low: int, length: int, size: int) -> Draft:
    """Chunks of a list by a generator, then windows."""
    low, size = low + 5, size + 3
    high = low + length + 8
    numbers = list(range(low, high))
    name = pick(rng, ("chunks", "in_chunks", "split_up", "batches"))
    parts = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    sums = [sum(numbers[i : i + size]) for i in range(len(numbers) - size + 1)]
    slots = {"low": str(low), "high": str(high), "last": str(high - 1), "size": str(size), "name": name}
    slots |= {"rest": str(len(parts[-1])), "count": str(len(parts)), "windows": str(len(sums))}
    return coding(
        rng,
        f"splitting the numbers {low} to {high - 1} into chunks of {size}",
        "[how do I|how can I|what is a clean way to] split a Python list, say the numbers from {low} to {last}, into "
        "[chunks|pieces] of {size}, with a shorter last one if it does not [come out|work out] evenly?",
        program(
            rng,
            "a generator with slices does it, as a slice that runs past the end is simply cut [short|off]:",
            _CHUNKS.substitute(slots),
            "\n".join(map(str, parts)),
            "the starts are {size} apart, so the numbers from {low} to {last} give {count} chunks, the last one of "
            "length {rest}. [Nothing is computed|No slice is made] before it is asked for, because yield hands out "
            "one [chunk|piece] at a time.",
            **slots,
        ),
        "and how would overlapping windows of {size} neighbours look for {low} to {last}, for [example|instance] to "
        "add up each window?",
        program(
            rng,
            "for windows the start moves on by one [each time|at a time], and it has to stop early enough for a full "
            "window:",
            _WINDOWS.substitute(slots),
            str(sums),
            "there are {windows} windows of {size} numbers between {low} and {last}. Summing each of them from "
            "scratch takes time proportional to the number of windows times their size; a running sum that adds the "
            "new number and subtracts the oldest one would [avoid|get rid of] the second factor.",
            **slots,
        ),
        (
            "slicing copies references, not the objects, so chunks of large objects are still cheap.",
            "since Python 3.12 there is `itertools.batched`, which does the same for any iterable and yields tuples.",
            "a generator can be consumed only once; wrap it in a list if it is needed again.",
            "a size of zero makes range raise a ValueError, which is a reasonable reaction to such an input.",
        ),
        **slots,
    )


_PAIRS: Final = Template("""
from itertools import combinations

numbers = $numbers
matches = [pair for pair in combinations(numbers, 2) if sum(pair) $sign $limit]
print(len(matches))
print(matches[:3])
""")
_RUNNING: Final = Template("""
from itertools import accumulate

numbers = $numbers
print(list(accumulate(numbers)))
print(list(accumulate(numbers, max)))
""")


@kind(40, 40, 40, 40, 2)
def itertools_module(rng: random.Random, a: int, b: int, c: int, d: int, over: int) -> Draft:
    """Combinations, then accumulate."""
    numbers = [a + 5, b + 11, c + 20, d + 8, (a + d) % 40 + 3, (b + c) % 40 + 6]
    limit = sum(numbers) // 3
    pairs = list(itertools.combinations(numbers, 2))
    matches = [pair for pair in pairs if (sum(pair) > limit if over else sum(pair) < limit)]
    slots = {"numbers": str(numbers), "list": row(numbers), "limit": str(limit), "sign": ">" if over else "<"}
    slots |= {"word": "more" if over else "less", "count": str(len(matches)), "matching": times(len(matches), "pair")}
    return coding(
        rng,
        f"pairs from {row(numbers)} with a sum of {'more' if over else 'less'} than {limit}",
        "[how do I list|how can I find|what is the shortest way to get] all pairs from the numbers {list} whose sum "
        "is {word} than {limit}, in Python?",
        program(
            rng,
            "`itertools.combinations` produces every pair once, without regard to order:",
            _PAIRS.substitute(slots),
            f"{len(matches)}\n{matches[:3]}",
            "six numbers have 6 × 5 ÷ 2 = 15 pairs, of which {count} [pass|meet] the test of a sum of {word} than "
            "{limit}. The pairs come in the order of the list, and equal values at different places count as "
            "different. [For n numbers|In general] the count of pairs grows with the square of n.",
            **slots,
        ),
        "besides pairs with a sum of {word} than {limit}, does the module [also have|offer] something for running "
        "totals and running maxima of {list}?",
        program(
            rng,
            "that [is|would be] `accumulate`, which adds by default and takes [any other|another] function "
            "of two arguments as an option:",
            _RUNNING.substitute(slots),
            f"{list(itertools.accumulate(numbers))}\n{list(itertools.accumulate(numbers, max))}",
            "the last running total is the sum of all numbers, and the last maximum is the largest of them. The "
            "search for pairs with {word} than {limit} has to look at every pair, whereas `accumulate` needs "
            "[only|just] one pass. It is lazy, so `list` is only there to show the values.",
            **slots,
        ),
        (
            "`permutations` would list every pair in both orders, and `combinations_with_replacement` allows a number "
            "twice.",
            "for a sorted list and a fixed target, two pointers from both ends find matching pairs in linear time.",
            "the iterators of this module are written in C and need very little memory.",
            "a tuple such as a pair can serve as a dictionary key, unlike a list.",
        ),
        **slots,
    )


_COUNTER: Final = Template("""
from collections import Counter

text = "$text"
counts = Counter(text.split())
for word, count in counts.most_common():
    print(word, count)
""")
_LETTERS: Final = Template("""
from collections import Counter

text = "$text"
letters = Counter(text.replace(" ", ""))
best = min(letters.items(), key=lambda item: (-item[1], item[0]))
print(best)
print(letters["$letter"], len(letters))
""")


@kind(60, 59, 58)
def counting_words(rng: random.Random, first: int, second: int, third: int) -> Draft:
    """Word counts with a Counter, then letters."""
    x, y, z = _three(WORDS[:60], first, second, third)
    text = f"{x} {y} {z} {y} {x} {y}"
    plain = text.replace(" ", "")
    letters = {letter: plain.count(letter) for letter in plain}
    best = min(letters.items(), key=lambda item: (-item[1], item[0]))
    slots = {"text": text, "x": x, "y": y, "z": z, "letter": z[0], "n": str(letters[z[0]])}
    slots |= {"best": best[0], "most": str(best[1])}
    return coding(
        rng,
        f"counting the words {x}, {y} and {z}",
        'how do I count [how often|how many times] each word occurs in a [text|string] such as "{text}", with the '
        "most [frequent|common] word first?",
        program(
            rng,
            "`collections.Counter` is made for [this|that]; it is a dictionary from items to counts:",
            _COUNTER.substitute(slots),
            f"{y} 3\n{x} 2\n{z} 1",
            "`split` without arguments cuts at any white space, and `most_common` sorts by count. So {y} comes first, "
            "then {x}, then {z}. A word that does not occur has the count zero rather than raising a KeyError. [All "
            "of this|The whole thing] takes one pass over the text plus a sort of the distinct words.",
            **slots,
        ),
        "what would it look like for single letters instead of the words {x}, {y} and {z}, with ties decided by the "
        "alphabet?",
        program(
            rng,
            "a string is a sequence of letters, so the blanks are removed and the rest is counted [directly|as it is]:",
            _LETTERS.substitute(slots),
            f"{best!r}\n{letters[z[0]]} {len(letters)}",
            'among {x}, {y} and {z} in the text, the most frequent letter is "{best}", which occurs {most} times. The '
            "key has two parts: the "
            "negative count puts large counts first, and the letter itself breaks ties. The last line shows how often "
            "the first letter of {z} occurs, and how many different letters there are.",
            **slots,
        ),
        (
            "for real texts, lower-case everything first and strip punctuation, or the same word is counted under "
            "several forms.",
            "counters can be added and subtracted, which is handy when a text is read in pieces.",
            "items with equal counts come out of `most_common` in the order in which they were first seen.",
            "a plain dictionary with `get` and a default of zero would work too, in two more lines.",
        ),
        **slots,
    )


_SORT: Final = Template("""
stock = [("$x", $a), ("$y", $b), ("$z", $c)]
by_count = sorted(stock, key=lambda item: item[1], reverse=True)
print(by_count)
""")
_SORT_TWO: Final = Template("""
stock = [("$x", $a), ("$y", $b), ("$z", $c), ("$y", $a)]
stock.sort(key=lambda item: (item[0], -item[1]))
for name, count in stock:
    print(name, count)
""")


@kind(18, 17, 16, 60, 60)
def sorting_with_key(rng: random.Random, first: int, second: int, third: int, low: int, high: int) -> Draft:
    """Sorting tuples by a key, then by two keys."""
    x, y, z = _three(PARTS, first, second, third)
    a, b, c = low + 10, high + 15, (low + high) % 60 + 12
    stock = [(x, a), (y, b), (z, c)]
    both = sorted([*stock, (y, a)], key=lambda item: (item[0], -item[1]))
    slots = {"x": x, "y": y, "z": z, "a": str(a), "b": str(b), "c": str(c)}
    slots["top"] = max(stock, key=lambda item: item[1])[0]
    return coding(
        rng,
        f"sorting {a} {x}s, {b} {y}s and {c} {z}s by their counts",
        "in Python, how do I sort a list of pairs such as {x} with {a}, {y} with {b} and {z} with {c} by the number, "
        "largest first?",
        program(
            rng,
            "pass `sorted` a key function, which says what to compare for [each|every] item:",
            _SORT.substitute(slots),
            str(sorted(stock, key=lambda item: item[1], reverse=True)),
            "the key is the second part of each pair, and reverse turns the order around, so {top} [comes "
            "first|leads]. The original list is left alone, since `sorted` returns a new one. The key is computed "
            "once per item, and sorting takes time proportional to n log n. [With equal numbers|If numbers were "
            "equal], the pairs would keep their order, because the sort is stable.",
            **slots,
        ),
        "and what if names may repeat, say {y} with {b} and again with {a} next to {x} and to {z} with {c}, and "
        "should be sorted by name first and then by falling number?",
        program(
            rng,
            "let the key return a tuple: the first part decides, and the second one only breaks ties. [Negating|A "
            "minus before] the number reverses [just|] that part:",
            _SORT_TWO.substitute(slots),
            "\n".join(f"{name} {count}" for name, count in both),
            "the method `sort` changes the list in place and returns None, which is a common source of surprises. A "
            "minus works for numbers only; for a falling order of text, sort twice, first by the less important key "
            "and then by the more important one, as stability keeps the earlier order among equals. So {x}, {y} and "
            "{z} come out alphabetically, and {b} and {a} from large to small.",
            **slots,
        ),
        (
            "`operator.itemgetter` can replace the small lambda functions and is slightly faster.",
            "text is compared by code points, so capital letters come before small ones unless the key lower-cases "
            "them.",
            "for only the few largest items, `heapq.nlargest` avoids a full sort.",
            "tuples are compared part by part, from the left, until a difference is found.",
        ),
        **slots,
    )


_DATACLASS: Final = Template("""
from dataclasses import dataclass


@dataclass
class $cls:
    name: str
    count: int
    price: float

    def total(self):
        return self.count * self.price


item = $cls("$part", $n, $price)
print(item)
print(item.total())
""")
_FROZEN: Final = Template("""
from dataclasses import FrozenInstanceError, dataclass, replace


@dataclass(frozen=True, order=True)
class $cls:
    name: str
    count: int
    price: float = $price


item = $cls("$part", $n)
more = replace(item, count=item.count + 5)
print(more)
print(item < more)
try:
    item.count = 0
except FrozenInstanceError:
    print("read-only")
""")


@kind(18, 300, 40)
def dataclasses_module(rng: random.Random, part: int, count: int, quarters: int) -> Draft:
    """A data class, then a frozen one."""
    name, n, price = PARTS[part], count + 4, (quarters + 3) / 4
    cls = pick(rng, ("Item", "Article", "StockItem", "Part"))
    slots = {"part": name, "n": str(n), "price": str(price), "cls": cls, "total": str(n * price)}
    return coding(
        rng,
        f"a data class for {n} {name}s at {price}",
        "[how do I write|could you show|what does] a Python data class [for|look like for] a stock item with name, "
        "count and price, for example {n} of the part {part} at {price} each? [The|A] total [value|] should be [a "
        "method|computed by a method].",
        program(
            rng,
            "the decorator `dataclass` writes the constructor, the comparison and the printed form from the annotated "
            "fields:",
            _DATACLASS.substitute(slots),
            f"{cls}(name={name!r}, count={n}, price={price})\n{n * price}",
            "ordinary methods are added as in any other class, so the total of {n} × {price} is computed on demand. "
            "The annotations are not checked at run time; a type checker such as mypy does that. [Two "
            "items|Instances] with equal fields compare as equal.",
            **slots,
        ),
        "how can that class be made read-only and sortable, with {price} as the default price for the {n} of {part}?",
        program(
            rng,
            "two options of the decorator do that: frozen forbids assignment, and order adds the comparison operators:",
            _FROZEN.substitute(slots),
            f"{cls}(name={name!r}, count={n + 5}, price={price})\nTrue\nread-only",
            "`replace` makes a changed copy, since the original may not be altered. Comparison goes field by field, "
            "so with equal names the smaller count, {n}, comes first. Fields with defaults have to follow those "
            "without. Frozen instances are hashable [too|as well], so a {part} record can be a key of a dictionary or "
            "a member of a set.",
            **slots,
        ),
        (
            "a mutable default such as a list must be given through `field` with a default factory.",
            "the option slots, available since Python 3.10, saves memory when there are very many instances.",
            "`asdict` turns an instance into a dictionary, which can then be written as JSON.",
            "money is better kept as a Decimal or in whole cents; a float is used here for brevity only.",
        ),
        **slots,
    )


_DATES: Final = Template("""
from datetime import date, timedelta

start = date($y, $m, $d)
end = start + timedelta(days=$n)
print(end.isoformat(), end.strftime("%A"))
""")
_WORKDAYS: Final = Template("""
from datetime import date, timedelta

start = date($y, $m, $d)
days = (start + timedelta(days=k) for k in range($n))
print(sum(day.weekday() < 5 for day in days))
""")


@kind(9000, 150)
def datetime_module(rng: random.Random, day: int, span: int) -> Draft:
    """Adding days, then counting working days."""
    start, n = dt.date(2001, 1, 1) + dt.timedelta(day), span + 15
    end = start + dt.timedelta(n)
    work = sum((start.weekday() + k) % 7 < 5 for k in range(n))
    slots = {"y": str(start.year), "m": str(start.month), "d": str(start.day), "n": str(n), "iso": start.isoformat()}
    slots |= {"end": end.isoformat(), "weekday": WEEKDAYS[end.weekday()], "work": str(work)}
    return coding(
        rng,
        f"the date {n} days after {start.isoformat()} in Python",
        "[how do I compute|how can I get|what is the right way to get] the date that lies {n} days after {iso} in "
        "Python, [together with|including] its weekday?",
        program(
            rng,
            "the module `datetime` has a type for dates and one for differences between them:",
            _DATES.substitute(slots),
            f"{end.isoformat()} {WEEKDAYS[end.weekday()]}",
            "adding a timedelta handles month ends and leap years [correctly|by itself], so {n} days after {iso} is "
            "{end}, a {weekday}. Subtracting two dates gives a timedelta again, whose attribute days is the distance. "
            "The name of the weekday follows the locale, which is English unless a program sets another.",
            **slots,
        ),
        "and how many of the {n} days from {iso} on, that day included, fall on Monday to Friday?",
        program(
            rng,
            "generate the days and count those whose weekday number is below five, as Monday is 0 and Sunday is 6:",
            _WORKDAYS.substitute(slots),
            str(work),
            "so {work} of the {n} days from {iso} on are working days, if public holidays are left out of account. "
            "True counts as 1 in a sum, which makes the counting short. The loop is linear in the number of days; for "
            "spans of many years, whole weeks could be multiplied by five, with only the rest counted singly.",
            **slots,
        ),
        (
            "dates are immutable and hashable, so they can be dictionary keys and are never changed by accident.",
            "`date.fromisoformat` parses the same form that `isoformat` writes.",
            "for moments in time rather than dates, use aware datetimes with an explicit time zone.",
            "a timedelta has no months or years, because these do not have a fixed length.",
        ),
        **slots,
    )


_JSON: Final = Template("""
import json

record = {"name": "$x", "count": $n, "tags": ["$y", "$z"], "checked": None}
text = json.dumps(record, sort_keys=True)
print(text)
print(json.loads(text) == record)
""")
_JSON_LIST: Final = Template("""
import json

text = '{"items": [{"name": "$x", "count": $n}, {"name": "$y", "count": $m}]}'
data = json.loads(text)
total = sum(item["count"] for item in data["items"])
print(total)
try:
    json.loads(text[:-1])
except json.JSONDecodeError as error:
    print("broken at", error.pos)
""")


@kind(18, 17, 16, 200)
def json_module(rng: random.Random, first: int, second: int, third: int, count: int) -> Draft:
    """Writing and reading JSON."""
    x, y, z = _three(PARTS, first, second, third)
    n, m = count + 5, 2 * count + 7
    record = {"name": x, "count": n, "tags": [y, z], "checked": None}
    text = json.dumps({"items": [{"name": x, "count": n}, {"name": y, "count": m}]})
    slots = {"x": x, "y": y, "z": z, "n": str(n), "m": str(m), "pos": str(len(text) - 1)}
    return coding(
        rng,
        f"a JSON record of {n} {x}s tagged {y} and {z}",
        "[how do I|how can I] turn a Python dictionary, for instance one with the name {x}, the count {n} and the "
        "tags {y} and {z}, into JSON [text|] and [back again|read it back]?",
        program(
            rng,
            "`json.dumps` writes a string, and `json.loads` reads one:",
            _JSON.substitute(slots),
            f"{json.dumps(record, sort_keys=True)}\nTrue",
            "with sorted keys the text is the same on every run, which makes files easy to compare. None becomes "
            "null, and True would become true. The record of {n} for {x}, with {y} and {z}, survives the round trip; "
            "tuples would come back as lists, and all keys of a JSON object are strings.",
            **slots,
        ),
        "[once|now that] the record with the tags {y} and {z} works: how [would|do] I read a JSON list of items, {n} "
        "of {x} and {m} of {y}, add up the counts and notice broken input?",
        program(
            rng,
            "the parsed data are ordinary lists and dictionaries, and [broken|invalid] text raises a JSONDecodeError:",
            _JSON_LIST.substitute(slots),
            f"{n + m}\nbroken at {len(text) - 1}",
            "the sum is {n} + {m}, for {x} and {y}. The tags {y} and {z} of the record could be read in the same way, "
            "as a list. The second attempt lacks the closing brace, and the position tells where the parser gave up. "
            "The error is a subclass of ValueError, so older code that catches that still works. For files, "
            "`json.load` takes an open file directly.",
            **slots,
        ),
        (
            "the argument indent makes the text readable for people, at the price of some bytes.",
            "text other than ASCII is escaped unless `ensure_ascii` is set to False.",
            "JSON has no type for dates, so they are usually written as ISO strings.",
            "for many records, one JSON object per line is convenient, because such a file can be read piece by piece.",
        ),
        **slots,
    )


_REGEX: Final = Template("""
import re

text = "$x-$a and $y-$b were moved, $z stayed at row $c"
codes = re.findall(r"\\b([a-z]+)-(\\d+)\\b", text)
print(codes)
""")
_REGEX_SUB: Final = Template("""
import re

text = "$x-$a and $y-$b were moved, $z stayed at row $c"
result = re.sub(r"\\d+", lambda match: str(int(match.group()) + 1), text)
print(result)
print(bool(re.fullmatch(r"[a-z]+-\\d{3}", "$x-$a")))
""")


@kind(18, 17, 16, 900)
def regular_expressions(rng: random.Random, first: int, second: int, third: int, number: int) -> Draft:
    """Finding codes, then replacing numbers."""
    x, y, z = _three(PARTS, first, second, third)
    a, b = number + 10, (number * 7) % 900 + 12
    c = (number * 3) % 90 + 2
    slots = {
        "x": x,
        "y": y,
        "z": z,
        "a": str(a),
        "b": str(b),
        "c": str(c),
        "fits": "fits" if a > 99 else "does not fit",
    }
    return coding(
        rng,
        f"a regular expression for the codes {x}-{a} and {y}-{b} beside {z}",
        "[which regular expression|what regular expression|which pattern] finds codes such as {x}-{a} and {y}-{b} in "
        "a Python string, [but neither the word {z} alone nor|and skips the word {z} alone and] the lone number {c}?",
        program(
            rng,
            "a code is a run of small letters, a hyphen and a run of digits. [Two groups|Groups] separate the parts:",
            _REGEX.substitute(slots),
            str([(x, str(a)), (y, str(b))]),
            "with groups in the pattern, `findall` returns one tuple per match, here for {x} and {y}. The word {z} is "
            "left out for lack of a hyphen, and {c} for lack of a word before it. The marks at both ends are word "
            "boundaries. A raw string, with the prefix r, keeps the backslashes as they are.",
            **slots,
        ),
        "how can all numbers in that text ({a}, {b} and {c}, next to {x}, {y} and {z}) be raised by one, and how do I "
        "test whether a string is such a code with exactly three digits?",
        program(
            rng,
            "`re.sub` accepts a function that computes each replacement, and `fullmatch` demands that the whole "
            "string fits:",
            _REGEX_SUB.substitute(slots),
            f"{x}-{a + 1} and {y}-{b + 1} were moved, {z} stayed at row {c + 1}\n{a > 99}",
            "the function receives a match object, and `group` returns the matched text. The code {x}-{a} {fits}, "
            "because exactly three digits are required. The same call has changed {b} for {y} and {c} for {z}. Unlike "
            "`fullmatch`, `search` is content with a match anywhere in the string.",
            **slots,
        ),
        (
            "a pattern that is used in a loop may be compiled once with `re.compile`, which also gives it a name.",
            "the verbose flag allows spaces and comments in a pattern, which helps with long ones.",
            "for nested structures such as HTML, a real parser is the better tool.",
            "quantifiers are greedy by default; a question mark after one makes it stop as early as possible.",
        ),
        **slots,
    )


_FORMAT: Final = Template("""
rows = [("$x", $a, $p), ("$y", $b, $q)]
for name, count, price in rows:
    print(f"{name:<10}{count:>6}{price:>9.2f}")
""")
_FORMAT_MORE: Final = Template("""
count, total = $a, $t
print(f"{count:05d}")
print(f"{total:,}")
print(f"{count / total:.1%}")
print(f"{count:b} {count:x}")
""")


@kind(18, 17, 300, 40)
def string_formatting(rng: random.Random, first: int, second: int, count: int, price: int) -> Draft:
    """A table with f-strings, then other formats."""
    x, y, _ = _three(PARTS, first, second, 0)
    a, b = count + 7, 3 * count + 4
    p, q = (price + 2) / 4, (price + 9) / 2
    total = a * 37 + 1000
    slots = {"x": x, "y": y, "a": str(a), "b": str(b), "p": str(p), "q": str(q), "t": str(total)}
    lines = [f"{name:<10}{n:>6}{cost:>9.2f}" for name, n, cost in ((x, a, p), (y, b, q))]
    return coding(
        rng,
        f"a text table with {a} {x}s at {p} and {b} {y}s",
        "how do I print [aligned columns|a small table|neat columns] in Python with f-strings, for instance {x} with "
        "{a} at {p} and {y} with {b} at {q}, the [prices|last column] with two decimals?",
        program(
            rng,
            "the part after the colon in an f-string is the format: alignment, width and precision:",
            _FORMAT.substitute(slots),
            "\n".join(lines),
            "the sign `<` aligns to the left and `>` to the right, the number after it is the width, and `.2f` means "
            "two decimals. So {a} and {b} end in the same column, and {p} and {q} get their second decimal. [Longer "
            "names|A longer name] than ten characters would push the rest to the right, but for {x} and {y} ten is "
            "enough.",
            **slots,
        ),
        "besides such a table for {x} at {p} and {y}, [which|what] formats are there for leading zeros, thousands and "
        "percentages, for [example|instance] with {a} out of {t}?",
        program(
            rng,
            "all of these are short codes in the same place, so no function calls are needed:",
            _FORMAT_MORE.substitute(slots),
            f"{a:05d}\n{total:,}\n{a / total:.1%}\n{a:b} {a:x}",
            "a zero before the width fills up with zeros, the comma separates thousands, and the percent sign "
            "multiplies by 100 and appends the sign. The last line shows {a} in binary and in hexadecimal. Together "
            "with the table for {x} at {p} and {y}, these four lines cover most [everyday|ordinary] needs.",
            **slots,
        ),
        (
            "an equals sign after the expression prints its text as well, which is handy for debugging.",
            "widths may come from variables too, by nesting another pair of braces inside the format.",
            "the method `format` and the percent operator are older ways to the same end.",
            "columns line up only in a font with characters of equal width.",
        ),
        **slots,
    )


_SQL: Final = Template("""
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE stock (part TEXT, place TEXT, count INTEGER)")
rows = [("$x", "north", $a), ("$y", "north", $b), ("$x", "south", $c), ("$z", "south", $d)]
db.executemany("INSERT INTO stock VALUES (?, ?, ?)", rows)
query = "SELECT part, SUM(count) FROM stock GROUP BY part ORDER BY SUM(count) DESC, part"
for line in db.execute(query):
    print(line)
""")
_SQL_HAVING: Final = Template("""
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE stock (part TEXT, place TEXT, count INTEGER)")
rows = [("$x", "north", $a), ("$y", "north", $b), ("$x", "south", $c), ("$z", "south", $d)]
db.executemany("INSERT INTO stock VALUES (?, ?, ?)", rows)
query = "SELECT place, COUNT(*), MAX(count) FROM stock GROUP BY place HAVING SUM(count) > ? ORDER BY place"
print(db.execute(query, ($limit,)).fetchall())
""")


@kind(18, 17, 16, 40, 40)
def sql_grouping(rng: random.Random, first: int, second: int, third: int, low: int, high: int) -> Draft:
    """GROUP BY, then HAVING, with sqlite3."""
    x, y, z = _three(PARTS, first, second, third)
    a, b, c, d = low + 5, high + 6, (low + 2 * high) % 40 + 3, (3 * low + high) % 40 + 8
    limit = min(a + b, c + d)
    sums = sorted(((x, a + c), (y, b), (z, d)), key=lambda item: (-item[1], item[0]))
    places = [("north", 2, max(a, b))] * (a + b > limit) + [("south", 2, max(c, d))] * (c + d > limit)
    slots = {"x": x, "y": y, "z": z, "a": str(a), "b": str(b), "c": str(c), "d": str(d), "limit": str(limit)}
    slots["found"] = places[0][0] + " is" if places else "neither of the two is"
    return coding(
        rng,
        f"a SQL sum of {a} and {c} {x}s, {b} {y}s and {d} {z}s",
        "how do I add up counts per part in SQL? [say|Suppose] a table has {x} with {a} and {c} in two places, {y} "
        "with {b} and {z} with {d}, and the [largest|highest] total should come first.",
        program(
            rng,
            "GROUP BY makes one row per part, and SUM adds within [each|the] group. Python's `sqlite3` can run it in "
            "memory:",
            _SQL.substitute(slots),
            "\n".join(str(item) for item in sums),
            "the two rows for {x} are merged into {a} + {c}, while {y} and {z} keep {b} and {d}. Ties are broken by "
            "the name. The question marks pass values safely, so no text is ever pasted into the statement.",
            **slots,
        ),
        "and how do I list only the places with more than {limit} pieces, given {a} of {x} and {b} of {y} in the "
        "north, and {c} of {x} and {d} of {z} in the south?",
        program(
            rng,
            "WHERE filters rows before grouping; to filter groups, use HAVING:",
            _SQL_HAVING.substitute(slots),
            str(places),
            "only groups whose sum is above {limit} remain, so {found} listed. The totals are {a} + {b} in the north, "
            "for {x} and {y}, and {c} + {d} in the south, for {x} and {z}. An equal sum does not pass, since the "
            "comparison is strict.",
            **slots,
        ),
        (
            "columns outside of an aggregate should appear in the GROUP BY list; most databases insist on that.",
            "an index on the grouped column helps with large tables, because rows then arrive in order.",
            "a database in memory vanishes with its connection, which makes it ideal for tests.",
            "COUNT with a star counts rows, while COUNT of a column skips NULL values.",
        ),
        **slots,
    )


_JOIN: Final = Template("""
import sqlite3

db = sqlite3.connect(":memory:")
db.executescript(\"\"\"
    CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE sale (part_id INTEGER, count INTEGER);
    INSERT INTO part VALUES (1, '$x'), (2, '$y'), (3, '$z');
    INSERT INTO sale VALUES (1, $a), (3, $b), (1, $c);
\"\"\")
query = "SELECT name, count FROM part JOIN sale ON part.id = sale.part_id ORDER BY count, name"
print(db.execute(query).fetchall())
""")
_LEFT_JOIN: Final = Template("""
import sqlite3

db = sqlite3.connect(":memory:")
db.executescript(\"\"\"
    CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE sale (part_id INTEGER, count INTEGER);
    INSERT INTO part VALUES (1, '$x'), (2, '$y'), (3, '$z');
    INSERT INTO sale VALUES (1, $a), (3, $b), (1, $c);
\"\"\")
query = \"\"\"
    SELECT name, COALESCE(SUM(count), 0) FROM part
    LEFT JOIN sale ON part.id = sale.part_id
    GROUP BY part.id ORDER BY part.id
\"\"\"
print(db.execute(query).fetchall())
""")


@kind(18, 17, 16, 50, 50)
def sql_joining(rng: random.Random, first: int, second: int, third: int, low: int, high: int) -> Draft:
    """An inner join, then a left join, with sqlite3."""
    x, y, z = _three(PARTS, first, second, third)
    a, b, c = low + 3, high + 4, (low + 3 * high) % 50 + 60
    sales = sorted([(x, a), (z, b), (x, c)], key=lambda item: (item[1], item[0]))
    slots = {"x": x, "y": y, "z": z, "a": str(a), "b": str(b), "c": str(c), "sum": str(a + c)}
    return coding(
        rng,
        f"a SQL join of {x}, {y} and {z} with sales of {a}, {b} and {c}",
        "how do I join two tables in SQL: parts ({x}, {y}, {z}) with an id, and sales of {a} and {c} for {x} and {b} "
        "for {z}?",
        program(
            rng,
            "JOIN with ON pairs each sale with the part that has the same id:",
            _JOIN.substitute(slots),
            str(sales),
            "{x} appears twice, because it has two sales, {a} and {c}, and {z} once, with {b}. The part {y} is "
            "missing, as an inner join keeps only rows with a partner. If both tables had a column of the same name, "
            "it would need the table as a prefix.",
            **slots,
        ),
        "how do I also get {y}, with a total of zero, next to the totals for {x} ({a} and {c}) and {z} ({b})?",
        program(
            rng,
            "LEFT JOIN keeps every row of the first table, and missing partners become NULL:",
            _LEFT_JOIN.substitute(slots),
            str([(x, a + c), (y, 0), (z, b)]),
            "COALESCE turns the NULL for {y} into zero. The total for {x} is {a} + {c} = {sum}, and {z} keeps {b}. A "
            "condition on the second table belongs into ON, since in WHERE it would drop the unmatched rows again.",
            **slots,
        ),
        (
            "a foreign key would make sure that no sale refers to a part that does not exist.",
            "an index on the joined column of the larger table is usually the most useful one.",
            "the order of rows is undefined without ORDER BY, even if it looks stable in a test.",
            "a join without any condition pairs every row with every other one, which is seldom wanted.",
        ),
        **slots,
    )


_CLAMP: Final = Template("""
import unittest


def $name(value, low, high):
    return max(low, min(value, high))


class ClampTest(unittest.TestCase):
    def test_inside(self):
        self.assertEqual($name($mid, $low, $high), $mid)

    def test_outside(self):
        self.assertEqual($name($low - 7, $low, $high), $low)
        self.assertEqual($name($high + 7, $low, $high), $high)


suite = unittest.defaultTestLoader.loadTestsFromTestCase(ClampTest)
result = unittest.TestResult()
suite.run(result)
print(result.testsRun, len(result.failures))
""")
_CLAMP_RAISE: Final = Template("""
def $name(value, low, high):
    if low > high:
        raise ValueError(f"empty range: {low} to {high}")
    return max(low, min(value, high))


for value in ($low - 7, $mid, $high + 7):
    print($name(value, $low, $high))
try:
    $name($mid, $high, $low)
except ValueError as error:
    print(error)
""")


@kind(90, 120)
def unit_testing(rng: random.Random, low: int, width: int) -> Draft:
    """Tests for a function that clamps, then an error case."""
    low, high = low - 20, low + width - 10
    middle = (low + high) // 2
    name = pick(rng, ("clamp", "limit_to", "restrict", "keep_within"))
    slots = {"low": str(low), "high": str(high), "mid": str(middle), "name": name}
    return coding(
        rng,
        f"unit tests for clamping to {low} and {high}",
        "[how do I test|what are good unit tests for|how would one test] a Python function that [restricts|limits] a "
        "number to the range from {low} to {high}? [the|Only the] standard library should be used.",
        program(
            rng,
            "test one value inside the range and one beyond each end. `unittest` comes with Python:",
            _CLAMP.substitute(slots),
            "2 0",
            "two tests ran, without a failure. In a test file one would simply call `unittest.main`; the last lines "
            "run the class by hand so that the example is complete. Values exactly at {low} and {high} would be worth "
            "a test [too|as well].",
            **slots,
        ),
        "what should happen when the limits are swapped, so {high} as the lower and {low} as the upper one?",
        program(
            rng,
            "such a call is a mistake of the caller, so it [is best to|should] raise a ValueError with a clear "
            "message:",
            _CLAMP_RAISE.substitute(slots),
            f"{low}\n{middle}\n{high}\nempty range: {high} to {low}",
            "the first three lines show a value below {low}, one inside, and one above {high}. Without the check, the "
            "swapped call would [silently|quietly] return one of the limits. In a test, `assertRaises` "
            "[verifies|checks] that the error really occurs.",
            **slots,
        ),
        (
            "a good test fails when the code is broken; swapping min and max once by hand shows whether it does.",
            "property-based testing generates many inputs and checks rules, for example that the result never leaves "
            "the range.",
            "tests should not depend on each other, so each one prepares what it needs.",
            "names of tests should say what is expected, because that is the first thing seen in a report.",
        ),
        **slots,
    )


_BISECT: Final = Template("""
from bisect import bisect_right

bounds = [$a, $b, $c]
labels = ["low", "medium", "high", "extreme"]


def $name(value):
    return labels[bisect_right(bounds, value)]


print([$name(value) for value in ($v, $b, $w)])
""")
_SEARCH: Final = Template("""
def search(numbers, target):
    low, high, steps = 0, len(numbers), 0
    while low < high:
        steps += 1
        middle = (low + high) // 2
        if numbers[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low, steps


numbers = list(range($a, $w * 10, $step))
print(search(numbers, $w))
print(len(numbers))
""")


@kind(60, 40, 40)
def binary_search(rng: random.Random, first: int, second: int, third: int) -> Draft:
    """Labels by bisection, then the search by hand."""
    a, b = first + 10, first + second + 13
    c = b + third + 4
    v, w = (a + b) // 2, c + 9
    labels = ["low", "medium", "high", "extreme"]
    found = [labels[bisect.bisect_right([a, b, c], value)] for value in (v, b, w)]
    step = 2 + third % 5
    numbers = list(range(a, w * 10, step))
    low, high, steps = 0, len(numbers), 0
    while low < high:
        steps += 1
        middle = (low + high) // 2
        if numbers[middle] < w:
            low = middle + 1
        else:
            high = middle
    name = pick(rng, ("label", "level", "grade", "classify"))
    slots = {"a": str(a), "b": str(b), "c": str(c), "v": str(v), "w": str(w), "name": name, "step": str(step)}
    slots |= {"at": str(low), "steps": str(steps), "size": str(len(numbers))}
    return coding(
        rng,
        f"bisection with the bounds {a}, {b} and {c}",
        "[how do I sort|how can I put] numbers into four classes in Python, low, medium, high and extreme, with the "
        "bounds {a}, {b} and {c}, but without a chain of ifs?",
        program(
            rng,
            "the bounds are sorted, so `bisect_right` finds the class by binary search:",
            _BISECT.substitute(slots),
            str(found),
            "the function returns how many bounds are at most the value, which is exactly the index of the label. A "
            "value equal to a bound, such as {b}, falls in the upper class; `bisect_left` would put it in the lower "
            "one. Below {a} everything is low, from {c} on everything is extreme.",
            **slots,
        ),
        "how does such a [binary search|search by halving], used here for {a}, {b} and {c}, work inside, [for "
        "instance|say] to find {w} in a long list that starts at {a}?",
        program(
            rng,
            "keep a range in which the place must lie, and halve it with each comparison:",
            _SEARCH.substitute(slots),
            f"({low}, {steps})\n{len(numbers)}",
            "for the target {w} the place is index {at}, found after {steps} steps among {size} numbers; it is the "
            "first number not below the target. For only three bounds, {a}, {b} and {c}, two steps are always enough, "
            "and doubling a long list costs only one more step.",
            **slots,
        ),
        (
            "the method is only correct for sorted data; on an unsorted list it returns nonsense without any error.",
            "inserting into a sorted list with `insort` still takes linear time, because the items behind have to "
            "move.",
            "half-open ranges, with the upper end excluded, avoid the usual errors by one.",
            "since Python 3.10, `bisect` takes a key function too.",
        ),
        **slots,
    )


_SAFE: Final = Template("""
def $name(texts):
    good, bad = [], []
    for text in texts:
        try:
            good.append(int(text))
        except ValueError:
            bad.append(text)
    return good, bad


print($name(["$a", "$x", "$b", "", "$c.5"]))
""")
_SAFE_LAZY: Final = Template("""
class BadNumber(ValueError):
    def __init__(self, line, text):
        super().__init__(f"line {line}: {text!r} is not a whole number")


def parse(texts):
    for line, text in enumerate(texts, start=1):
        try:
            yield int(text)
        except ValueError as error:
            raise BadNumber(line, text) from error


total = 0
try:
    for number in parse(["$a", "$b", "$x", "$c"]):
        total += number
except BadNumber as error:
    print(error)
print(total)
""")


@kind(18, 90, 90)
def exceptions(rng: random.Random, part: int, first: int, second: int) -> Draft:
    """Collecting bad input, then an exception of one's own."""
    x, a, b = PARTS[part], first + 10, second + 100
    c = (a * b) % 80 + 5
    name = pick(rng, ("parse_all", "to_numbers", "read_numbers", "convert"))
    slots = {"x": x, "a": str(a), "b": str(b), "c": str(c), "name": name, "sum": str(a + b)}
    return coding(
        rng,
        f"parsing numbers from {a}, {x} and {b} in Python",
        "how do I [convert|turn] a list of strings into integers in Python [without stopping at|while collecting] the "
        'bad ones? [take|Take], for example, "{a}", "{x}", "{b}", an empty string and "{c}.5".',
        program(
            rng,
            "try the conversion and catch the ValueError, which is what `int` raises for text that is no whole number:",
            _SAFE.substitute(slots),
            str(([a, b], [x, "", f"{c}.5"])),
            "so {a} and {b} are accepted, while {x}, the empty string and the text with a decimal point are kept "
            "apart. [It is important to|It pays to] catch only the expected error and to keep the try block small, "
            "[or|because otherwise] real mistakes stay hidden.",
            **slots,
        ),
        "and how can the function stop at {x} with an error that names the line, after it has handed out {a} and {b}?",
        program(
            rng,
            "define an exception of your own and raise it from the original one, so that the cause is not lost:",
            _SAFE_LAZY.substitute(slots),
            f"line 3: '{x}' is not a whole number\n{a + b}",
            "the numbers before the bad line are already processed, so the total is {a} + {b} = {sum}, and {c} is "
            "never reached. As a subclass of ValueError, the new error is also caught by code that expects only that. "
            "[The position|Naming the line] makes such a message far more useful.",
            **slots,
        ),
        (
            "asking for forgiveness rather than permission is the usual style in Python, as checks in advance can be "
            "incomplete.",
            "an else branch after except runs only if nothing was raised, and finally runs in any case.",
            "a bare except also catches a keyboard interrupt, which is hardly ever wanted.",
            "`int` accepts surrounding blanks, a sign and even underscores between digits.",
        ),
        **slots,
    )


_MATRIX: Final = Template("""
def multiply(left, right):
    columns = list(zip(*right))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in left]


a = [[$a, $b], [$c, $d]]
b = [[$e, $f], [1, 2]]
print(multiply(a, b))
""")
_DETERMINANT: Final = Template("""
from fractions import Fraction

a = [[$a, $b], [$c, $d]]
determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0]
print(determinant)
if determinant:
    inverse = [[a[1][1], -a[0][1]], [-a[1][0], a[0][0]]]
    for row in inverse:
        print(*(Fraction(value, determinant) for value in row))
else:
    print("no inverse")
""")


@kind(12, 12, 12, 12)
def matrices(rng: random.Random, a: int, b: int, c: int, d: int) -> Draft:
    """A matrix product, then an inverse."""
    a, b, c, d = a + 2, b + 1, c + 3, d + 1
    e, f = (a + c) % 7 + 2, (b + d) % 5 + 3
    result = [[a * e + b, a * f + 2 * b], [c * e + d, c * f + 2 * d]]
    det = a * d - b * c
    lines = [str(det)]
    if det:
        for pair in ((d, -b), (-c, a)):
            divisors = [math.gcd(value, det) * (1 if det > 0 else -1) for value in pair]
            lines.append(
                " ".join(
                    str(value // g) if det == g else f"{value // g}/{det // g}"
                    for value, g in zip(pair, divisors, strict=True)
                )
            )
    else:
        lines.append("no inverse")
    slots = {"a": str(a), "b": str(b), "c": str(c), "d": str(d), "e": str(e), "f": str(f), "det": str(det)}
    slots["so"] = "so there is an inverse" if det else "so there is no inverse"
    return coding(
        rng,
        f"the matrix with the rows {a}, {b} and {c}, {d} in Python",
        "how do I multiply two matrices in [plain|pure] Python, say one with the rows {a}, {b} and {c}, {d} and one "
        "with the rows {e}, {f} and 1, 2?",
        program(
            rng,
            "each entry is the sum of products of a row of the first and a column of the second matrix:",
            _MATRIX.substitute(slots),
            str(result),
            "the call of zip with a star turns rows into columns. The top left entry, for example, is {a} × {e} + {b} "
            "× 1. For square matrices of size n this takes about n cubed multiplications. [The order matters|Order "
            "matters]: swapping the two matrices usually changes the result, also for the rows {c} and {d}.",
            **slots,
        ),
        "and how do I get the determinant and the inverse of the matrix with the rows {a}, {b} and {c}, {d} exactly, "
        "without rounding?",
        program(
            rng,
            "for two rows there is a short formula, and `Fraction` keeps every entry exact:",
            _DETERMINANT.substitute(slots),
            "\n".join(lines),
            "the determinant is {a} × {d} − {b} × {c} = {det}, {so}. For the inverse, the two entries on the diagonal "
            "change places, the other two change their sign, and everything is divided by the determinant. For larger "
            "matrices one would use elimination, or numpy when rounding is acceptable.",
            **slots,
        ),
        (
            "lists of lists are fine for small examples; numerical libraries store the entries in one block and are "
            "much faster.",
            "making rows by multiplying a list repeats references to one and the same row, which is a well-known trap.",
            "the product is defined only if the first matrix has as many columns as the second has rows.",
            "multiplying a matrix by its inverse gives the identity, which makes a good test.",
        ),
        **slots,
    )


_SIEVE: Final = Template("""
def $name(limit):
    flags = [True] * (limit + 1)
    flags[0:2] = [False, False]
    for n in range(2, int(limit ** 0.5) + 1):
        if flags[n]:
            for multiple in range(n * n, limit + 1, n):
                flags[multiple] = False
    return [n for n, flag in enumerate(flags) if flag]


primes = $name($n)
print(len(primes), primes[-3:])
""")
_NEXT_PRIME: Final = Template("""
from math import isqrt


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))


n = $n + 1
while not is_prime(n):
    n += 1
print(n)
""")


def _primes_below(limit: int) -> tuple[int, ...]:
    flags = bytearray([1]) * limit
    flags[0:2] = b"\0\0"
    for n in range(2, math.isqrt(limit) + 1):
        if flags[n]:
            flags[n * n :: n] = bytes(len(range(n * n, limit, n)))
    return tuple(itertools.compress(range(limit), flags))


_PRIMES: Final = _primes_below(9300)


@kind(9000)
def prime_sieve(rng: random.Random, limit: int) -> Draft:
    """The sieve of Eratosthenes, then a test of single numbers."""
    n = limit + 30
    count = bisect.bisect_right(_PRIMES, n)
    name = pick(rng, ("primes_up_to", "sieve", "list_primes", "all_primes"))
    slots = {
        "n": str(n),
        "name": name,
        "count": str(count),
        "last": str(_PRIMES[count - 1]),
        "next": str(_PRIMES[count]),
    }
    return coding(
        rng,
        f"the primes up to {n} in Python",
        "[what is|could you show] a [fast|good] way to list all primes up to {n} in Python, [and how many are "
        "there|together with their number]?",
        program(
            rng,
            "the sieve of Eratosthenes crosses out the multiples of every prime, starting at its square:",
            _SIEVE.substitute(slots),
            f"{count} {list(_PRIMES[count - 3 : count])}",
            "there are {count} primes up to {n}, and {last} is the largest. Smaller multiples have been crossed out "
            "already, by smaller primes, so the square is a safe start. The time is nearly linear in the limit, and "
            "the memory is one flag per number.",
            **slots,
        ),
        "and what is the [first|next] prime after {n}, without sieving [everything|all numbers] again?",
        program(
            rng,
            "for single numbers, trial division up to the square root is simple and fast enough:",
            _NEXT_PRIME.substitute(slots),
            slots["next"],
            "so {next} follows {last}, with {n} as the limit from before. `all` stops at the first divisor it finds, "
            "so composite numbers are usually dismissed after a few divisions. The function `isqrt` gives an exact "
            "integer root, with none of the rounding trouble of floats. For numbers with [dozens of|many] digits, a "
            "probabilistic test such as Miller and Rabin's is the [usual|right] tool.",
            **slots,
        ),
        (
            "a bytearray instead of a list of flags needs only an eighth of the memory on most systems.",
            "leaving out the even numbers halves both the time and the memory of the sieve.",
            "by the prime number theorem, the primes up to n number roughly n divided by its natural logarithm.",
            "a segmented sieve works through the range in blocks and so copes with very large limits.",
        ),
        **slots,
    )


_COMPREHENSION: Final = Template("""
$name = {n: n * n for n in range($low, $high) if n % $k == $r}
print($name)
""")
_INVERT: Final = Template("""
squares = {n: n * n for n in range($low, $high) if n % $k == $r}
by_digit = {}
for n, square in squares.items():
    by_digit.setdefault(square % 10, []).append(n)
print(by_digit)
""")


@kind(300, 5, 3, 3)
def comprehensions(rng: random.Random, low: int, width: int, divisor: int, rest: int) -> Draft:
    """A dictionary comprehension, then a grouping."""
    low, k, r = low + 10, divisor + 3, rest
    high = low + 18 + 2 * width
    squares = {n: n * n for n in range(low, high) if n % k == r}
    digits: dict[int, list[int]] = {}
    for n, square in squares.items():
        digits.setdefault(square % 10, []).append(n)
    name = pick(rng, ("squares", "table", "result", "lookup"))
    slots = {"low": str(low), "high": str(high), "last": str(high - 1), "k": str(k), "r": str(r), "name": name}
    slots |= {"count": str(len(squares)), "keys": join(squares), "groups": times(len(digits), "group")}
    return coding(
        rng,
        f"squares of the numbers {low} to {high - 1} with remainder {r} modulo {k}",
        "[how do I build|what is the shortest way to build] a Python dictionary from numbers to their squares, for "
        "the numbers from {low} to {last} that leave the remainder {r} when divided by {k}?",
        program(
            rng,
            "a dictionary comprehension [states|says] that almost word for word:",
            _COMPREHENSION.substitute(slots),
            str(squares),
            "the keys are {keys}, so there are {count} entries. The range includes {low} but stops before {high}. The "
            "condition at the end filters the numbers, and the part before the word `for` says what to store. "
            "[Since|As] dictionaries keep the order of insertion, the keys come out in ascending order.",
            **slots,
        ),
        "how can the numbers from {low} to {last} with remainder {r} modulo {k} then be grouped by the last digit of "
        "their squares?",
        program(
            rng,
            "`setdefault` returns the list for a key and creates it first if it is missing:",
            _INVERT.substitute(slots),
            str(digits),
            "the numbers from {low} to {last} with remainder {r} modulo {k} fall into {groups}. A square never ends "
            "in 2, 3, 7 or 8, so these digits cannot show up. `collections.defaultdict` would do the same without the "
            "call of setdefault. Each number is handled once, so the time is linear.",
            **slots,
        ),
        (
            "a comprehension with more than one condition or loop quickly becomes hard to read; a plain loop is then "
            "better.",
            "with square brackets the same syntax builds a list, and with round ones a lazy generator.",
            "the loop variable of a comprehension is not visible outside of it.",
            "`itertools.groupby` groups neighbours only, so it needs sorted input for the same effect.",
        ),
        **slots,
    )


_STATS: Final = Template("""
from statistics import mean, median

readings = {"$x": [$a, $b, $c], "$y": [$c, $a, $a]}
for name, values in readings.items():
    print(name, mean(values), median(values))
""")
_MERGE: Final = Template("""
first = {"$x": $a, "$y": $b}
second = {"$y": $c, "spare": $a}
merged = first | second
print(merged)
added = {name: first.get(name, 0) + second.get(name, 0) for name in merged}
print(added)
print(sorted(first.keys() & second.keys()))
""")


@kind(18, 17, 20, 20, 20)
def dictionaries(rng: random.Random, first: int, second: int, low: int, middle: int, high: int) -> Draft:
    """Values per name, then merging two dictionaries."""
    x, y, _ = _three(PARTS, first, second, 0)
    a, b = 3 * low + 6, 3 * middle + 9
    c = 3 * high + 12
    means = [(a + b + c) // 3, (2 * a + c) // 3]
    slots = {"x": x, "y": y, "a": str(a), "b": str(b), "c": str(c), "bar": "`|`"}
    return coding(
        rng,
        f"dictionaries of {x} and {y} with {a}, {b} and {c}",
        "how do I compute the mean and the median per name in Python, when a dictionary [holds|has] lists such as "
        "{a}, {b}, {c} for {x} and {c}, {a}, {a} for {y}?",
        program(
            rng,
            "loop over the items and let the module `statistics` do the arithmetic:",
            _STATS.substitute(slots),
            f"{x} {means[0]} {statistics.median((a, b, c))}\n{y} {means[1]} {statistics.median((c, a, a))}",
            "`items` yields pairs of name and list, first {x} and then {y}, in the order of insertion. For the three "
            "values {a}, {b} and {c}, the median is the one in the middle after sorting. The function `mean` works "
            "exactly with integers and fractions, and it raises an error for an empty list.",
            **slots,
        ),
        "and how are two dictionaries merged, one with {a} for {x} and {b} for {y}, the other with {c} for {y} and "
        "{a} for a spare part?",
        program(
            rng,
            "the operator {bar} merges, where the right side wins; to add values instead, use `get` with a default:",
            _MERGE.substitute(slots),
            f"{ {x: a, y: c, 'spare': a} }\n{ {x: a, y: b + c, 'spare': a} }\n{[y]}",
            "in the merged dictionary {y} has the value {c} from the right side, whereas the added one has {b} + {c}. "
            "The value {a} for {x} is the same in both. The last line shows that key views behave like sets, so & "
            "gives the common names. Neither of the two inputs is changed.",
            **slots,
        ),
        (
            "the merge operator for dictionaries exists since Python 3.9; before that, two stars in a literal did the "
            "same.",
            "looking up a key takes constant time on average, however large the dictionary is.",
            "for plain counts, `collections.Counter` supports addition directly.",
            "keys must be hashable, so lists cannot be keys, but tuples of strings or numbers can.",
        ),
        **slots,
    )


KINDS: Final = (
    *(sum_of_multiples, while_loop, recursion, generators, itertools_module, counting_words, sorting_with_key),
    *(dataclasses_module, datetime_module, json_module, regular_expressions, string_formatting, sql_grouping),
    *(sql_joining, unit_testing, binary_search, exceptions, matrices, prime_sieve, comprehensions, dictionaries),
)
