"""The slots of fillers about numbers: arithmetic, geometry, probability, logic and ciphers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from generation.llm.offline.fillers.formats import article, comma, decimal, join, ordinal, percent, row, times
from generation.llm.offline.fillers.tables import Evaluator, Slots, distinct, tables


def prime_factors(number: int) -> list[int]:
    """Return the prime factors of a number, with repetitions, from small to large."""
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return [*factors, number] if number > 1 else factors


def roman(number: int) -> str:
    """Return a number from 1 to 3,999 in Roman numerals."""
    text = ""
    for value, letters in _ROMAN:
        text += letters * (number // value)
        number %= value
    return text


_ROMAN: Final = (
    *((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L")),
    *((40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")),
)


def shift_text(text: str, shift: int) -> str:
    """Return a text of small letters and blanks with each letter moved on in the alphabet."""
    return "".join(chr((ord(c) - 97 + shift) % 26 + 97) if c != " " else c for c in text)


def percentages(number: int, rate: int) -> Slots:
    """A share of a number, and the way back."""
    part = number * rate / 100
    left = number - part
    slots = {"n": comma(number), "part": decimal(part), "left": decimal(left), "keep": 100 - rate}
    return slots | {"back": percent(part / left)}


def compound_interest(principal: int, rate: int, years: int) -> Slots:
    """Interest on interest."""
    principal = 50 * principal
    percentage = rate / 2
    end = principal * (1 + percentage / 100) ** years
    simple = principal * (1 + percentage / 100 * years)
    return (
        {"n": comma(principal), "r": decimal(percentage), "factor": decimal(1 + percentage / 100, 4)}
        | {"power": decimal((1 + percentage / 100) ** years, 4), "end": decimal(end), "gain": decimal(end - principal)}
        | {"simple": decimal(simple), "simple_gain": decimal(simple - principal), "extra": decimal(end - simple)}
        | {"rule": decimal(72 / percentage, 1), "double": decimal(math.log(2) / math.log(1 + percentage / 100), 1)}
    )


def loan_payment(principal: int, rate: int, years: int) -> Slots:
    """The level payment of an annuity loan."""
    principal = 500 * principal
    monthly, months = rate / 2 / 1200, years * 12
    payment = principal * monthly / (1 - (1 + monthly) ** -months)
    first = principal * monthly
    return (
        {"n": comma(principal), "r": decimal(rate / 2), "m": months, "i": f"{monthly:.6f}", "pay": decimal(payment)}
        | {"total": decimal(payment * months), "interest": decimal(payment * months - principal)}
        | {"first": decimal(first), "repaid": decimal(payment - first)}
        | {"balance": decimal(principal - payment + first)}
    )


def right_triangle(a: int, b: int) -> Slots:
    """Pythagoras, then area and angles."""
    c = math.hypot(a, b)
    alpha = math.degrees(math.atan2(a, b))
    exact = "exactly" if math.isqrt(a * a + b * b) ** 2 == a * a + b * b else "about"
    return (
        {"aa": comma(a * a), "bb": comma(b * b), "cc": comma(a * a + b * b), "c": decimal(c), "exact": exact}
        | {"sum": a + b, "area": decimal(a * b / 2, 1), "tan": decimal(a / b, 4), "alpha": f"{alpha:.1f}"}
        | {"beta": f"{90 - round(alpha, 1):.1f}", "perimeter": decimal(a + b + c)}
    )


def cylinder(r: int, h: int) -> Slots:
    """Volume and surface of a cylinder."""
    base = math.pi * r * r
    return (
        {"rr": comma(r * r), "k": comma(r * r * h), "base": decimal(base, 1), "v": decimal(base * h, 1)}
        | {"litres": decimal(base * h / 1000, 3), "round": decimal(2 * math.pi * r, 1)}
        | {"side": decimal(2 * math.pi * r * h, 1), "ends": decimal(2 * base, 1)}
        | {"surface": decimal(2 * math.pi * r * (r + h), 1)}
    )


def factorisation(number: int) -> Slots:
    """Prime factors, divisors and their sum."""
    factors = prime_factors(number)
    powers = {factor: factors.count(factor) for factor in factors}
    count = math.prod(power + 1 for power in powers.values())
    total = math.prod((f ** (p + 1) - 1) // (f - 1) for f, p in powers.items())
    steps, rest = [], number
    for factor in factors[:-1]:
        steps.append(f"{comma(rest)} ÷ {comma(factor)} = {comma(rest // factor)}")
        rest //= factor
    is_prime = len(factors) == 1
    return (
        {"n": comma(number), "root": math.isqrt(number), "result": "prime" if is_prime else "composite"}
        | {"how": "prime" if is_prime else "power" if len(powers) == 1 else "composite", "steps": join(steps)}
        | {"factors": " × ".join(map(comma, factors)), "primes": join(map(comma, powers))}
        | {"exponents": join(powers.values()), "count": count, "total": comma(total), "proper": comma(total - number)}
        | {"word": "abundant" if total > 2 * number else "deficient" if total < 2 * number else "perfect"}
    )


def common_divisor(a: int, b: int) -> Slots:
    """Euclid's algorithm, the least common multiple and a reduced fraction."""
    a += b
    steps, x, y = [], a, b
    while y:
        steps.append(f"{x} = {x // y} × {y} + {x % y}")
        x, y = y, x % y
    slots = {"a": a, "g": x, "steps": "; ".join(steps), "lcm": comma(a * b // x), "small": b // x}
    return slots | {"large": a // x, "value": decimal(b / a, 4), "remark": "coprime" if x == 1 else "reduced"}


def number_bases(number: int) -> Slots:
    """Binary, hexadecimal and octal."""
    rests = [number >> 4 * place for place in range(len(f"{number:X}"))]
    digits = [f"{rest} ÷ 16 = {rest // 16} remainder {rest % 16}" for rest in rests]
    return (
        {"hex": f"{number:X}", "bin": f"{number:b}", "oct": f"{number:o}", "bits": number.bit_length()}
        | {"ones": number.bit_count(), "power": "yes" if number.bit_count() == 1 else "no"}
        | {"low": 1 << number.bit_length() - 1 - (number.bit_count() == 1), "high": 1 << number.bit_length()}
        | {"steps": row(digits)}
    )


def roman_numerals(a: int, b: int) -> Slots:
    """Two numbers and their sum in Roman numerals."""
    pieces = [roman(int(d) * 10 ** (len(str(a)) - i - 1)) for i, d in enumerate(str(a)) if d != "0"]
    return (
        {"ra": roman(a), "rb": roman(b), "pieces": row(pieces), "sum": comma(a + b), "rsum": roman(a + b)}
        | {"big": max(a, b), "small": min(a, b), "diff": abs(a - b), "rdiff": roman(abs(a - b))}
        | {"shown": "positive" if a != b else "zero"}
    )


def list_statistics(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> Slots:
    """Mean, median and spread of seven numbers."""
    numbers = [a, b, c, d, e, f, g]
    ordered = sorted(numbers)
    mean = statistics.fmean(numbers)
    squares = sum((number - mean) ** 2 for number in numbers)
    return (
        {"list": join(numbers), "ordered": row(ordered), "sum": sum(numbers), "mean": decimal(mean)}
        | {"median": ordered[3], "max": ordered[-1], "min": ordered[0], "range": ordered[-1] - ordered[0]}
        | {"compare": "equal" if mean == ordered[3] else "above" if mean > ordered[3] else "below"}
        | {"squares": decimal(squares), "pvar": decimal(squares / 7), "psd": decimal(math.sqrt(squares / 7))}
        | {"svar": decimal(squares / 6), "ssd": decimal(math.sqrt(squares / 6)), "values": row(numbers)}
    )


_DICE: Final = (4, 6, 8, 10, 12, 20, 30)


def dice_probability(die: int, hits: int, misses: int) -> Slots:
    """The binomial distribution with dice."""
    sides, rolls = _DICE[die], hits + misses
    chance = math.comb(rolls, hits) * (1 / sides) ** hits * (1 - 1 / sides) ** (rolls - hits)
    never = (1 - 1 / sides) ** rolls
    return (
        {"an": article(sides), "s": sides, "n": rolls, "k": times(hits, "time")}
        | {"ways": comma(math.comb(rolls, hits)), "rest": sides - 1, "misses": rolls - hits, "p": percent(chance)}
        | {"odds": decimal(1 / chance, 1 if chance > 0.1 else 0), "never": percent(never), "some": percent(1 - never)}
        | {"mean": decimal(rolls / sides), "sd": decimal(math.sqrt(rolls * (1 / sides) * (1 - 1 / sides)))}
        | {"verdict": "exactly" if hits * sides == rolls else "above" if hits * sides > rolls else "below"}
        | {"top_faces": times(hits, "top face")}
    )


def urn_probability(red: int, blue: int, draws: int, hits: int) -> Slots:
    """Draws without replacement."""
    good = math.comb(red, hits) * math.comb(blue, draws - hits)
    every = math.comb(red + blue, draws)
    share = red / (red + blue)
    replaced = math.comb(draws, hits) * share**hits * (1 - share) ** (draws - hits)
    return (
        {"m": draws - hits, "be": "is" if hits == 1 else "are", "total": red + blue, "every": comma(every)}
        | {"ways_r": times(math.comb(red, hits), "way"), "ways_b": times(math.comb(blue, draws - hits), "way")}
        | {"good": comma(good), "fraction": Fraction(good, every), "p": percent(good / every)}
        | {"share": decimal(share, 4), "arr": times(math.comb(draws, hits), "arrangement"), "q": percent(replaced)}
    )


_OPERATORS: Final[tuple[tuple[str, Callable[[bool, bool], bool]], ...]] = (
    ("and", lambda x, y: x and y),
    ("or", lambda x, y: x or y),
    ("xor", lambda x, y: x != y),
    ("nand", lambda x, y: not (x and y)),
    ("nor", lambda x, y: not (x or y)),
    ("implies", lambda x, y: not x or y),
    ("equals", lambda x, y: x == y),
)


def truth_table(letters: int, inner: int, outer: int, negated: int) -> Slots:
    """The truth table of an expression with three variables."""
    (first, one), (second, two) = _OPERATORS[inner], _OPERATORS[outer]
    names = tables().variables[letters]
    flips = [bool(negated >> place & 1) for place in range(3)]
    p, q, r = (("not " if flip else "") + name for flip, name in zip(flips, names, strict=True))
    expression = f"({p} {first} {q}) {second} {r}"
    lines, true = [" ".join(names) + " value"], []
    for inputs in itertools.product((True, False), repeat=3):
        x, y, z = (value != flip for value, flip in zip(inputs, flips, strict=True))
        value = two(one(x, y), z)
        bits = "".join(str(int(v)) for v in inputs)
        lines.append(f"{' '.join(bits)} {int(value)}")
        if value:
            true.append(bits)
    slots = {"e": expression, "names": row(names), "table": "\n".join(lines), "count": len(true)}
    return slots | {"conj": "conjunctions" if len(true) != 1 else "conjunction", "rows": join(true)}


def caesar_cipher(first: int, second: int, shift: int) -> Slots:
    """A shift cipher, encrypted and decrypted."""
    text = " ".join(distinct(tables().words, first, second))
    secret = shift_text(text, shift)
    atbash = "".join(chr(219 - ord(c)) if c != " " else c for c in text)
    slots = {"text": text, "rest": 26 - shift, "places": "place" if shift == 1 else "places", "a": text[0]}
    return slots | {"b": secret[0], "secret": secret, "atbash": atbash}


def arithmetic_sequence(start: int, step: int, terms: int) -> Slots:
    """The nth term and the sum of an arithmetic sequence."""
    last = start + (terms - 1) * step
    limit = 2 * last
    rank = (limit - start) // step + 2
    return (
        {"nth": ordinal(terms), "m": terms - 1, "last": comma(last), "pair": comma(start + last)}
        | {"sum": comma(terms * (start + last) // 2), "mean": decimal((start + last) / 2, 1), "limit": comma(limit)}
        | {"ratio": decimal((limit - start) / step), "m2": comma(rank - 1), "kth": ordinal(rank)}
        | {"value": comma(start + (rank - 1) * step), "before": comma(start + (rank - 2) * step), "more": rank - terms}
        | {"steps": "step" if rank - terms == 1 else "steps"}
    )


def _signed(number: int, unit: str) -> str:
    sign = "−" if number < 0 else "+"
    size = "" if unit and abs(number) == 1 else comma(abs(number))
    return f"{sign} {size}{unit}" if number else ""


def quadratic_text(a: int, b: int, c: int) -> str:
    """Return `ax² + bx + c`, without terms that are zero."""
    terms = ["x²" if a == 1 else f"{a}x²", _signed(b, "x"), _signed(c, "")]
    return " ".join(term for term in terms if term)


def quadratic_equation(low: int, gap: int, lead: int) -> Slots:
    """A quadratic equation with whole roots."""
    high = low + gap
    b, c = -lead * (low + high), lead * low * high
    disc = b * b - 4 * lead * c
    vertex = Fraction(low + high, 2)
    least = lead * (vertex - low) * (vertex - high)
    return (
        {"q": quadratic_text(lead, b, c), "b": comma(b), "c": comma(c), "disc": comma(disc)}
        | {"root": comma(math.isqrt(disc)), "aa": 2 * lead, "low": comma(low), "high": comma(high)}
        | {"high_in": f"({comma(high)})" if high < 0 else comma(high), "sum": comma(low + high)}
        | {"product": comma(low * high), "vx": decimal(float(vertex), 1), "vy": decimal(float(least), 2)}
        | {"factors": ("" if lead == 1 else str(lead)) + "".join(map(_factor, sorted((low, high), key=bool)))}
    )


def _factor(zero: int) -> str:
    return f"(x {_signed(-zero, '')})" if zero else "x"


def adding_fractions(a: int, b: int, c: int, d: int) -> Slots:
    """Sum and product of two fractions."""
    common = math.lcm(b, d)
    top = a * common // b + c * common // d
    x, y = Fraction(a, b), Fraction(c, d)
    total, product, quotient = x + y, x * y, x / y
    return (
        {"x": f"{a}/{b}", "y": f"{c}/{d}", "m": common, "x2": a * common // b, "y2": c * common // d, "top": top}
        | {"reduce": "lowest" if total.denominator == common else "reduced", "divisor": math.gcd(top, common)}
        | {"total": total, "value": decimal(float(total), 4), "pt": a * c, "pb": b * d}
        | {"product": "lowest" if product.numerator == a * c else "reduced", "xy": product, "qt": a * d, "qb": b * c}
        | {"quotient": "lowest" if quotient.numerator == a * d else "reduced", "x_by_y": quotient}
        | {"size": "exactly" if x == y else "above" if x > y else "below"}
    )


def insertion_sort(a: int, b: int, c: int, d: int, e: int, f: int) -> Slots:
    """The trace of insertion sort on six numbers."""
    start = [a, b, c, d, e, f]
    states = [(start[at], sorted(start[: at + 1]) + start[at + 1 :]) for at in range(1, 6)]
    lines = [f"after inserting {number}: {row(state)}" for number, state in states]
    pairs = list(itertools.combinations(start, 2))
    shifts = sum(x > y for x, y in pairs)
    return (
        {"list": row(start), "first": start[0], "lines": "\n".join(lines), "shifts": times(shifts, "time")}
        | {"reverse": row(sorted(start, reverse=True))}
        | {"worst": sum(x != y for x, y in pairs), "count": times(shifts, "exchange")}
    )


EVALUATORS: Final[tuple[Evaluator, ...]] = (
    *(percentages, compound_interest, loan_payment, right_triangle, cylinder, factorisation, common_divisor),
    *(number_bases, roman_numerals, list_statistics, dice_probability, urn_probability, truth_table),
    *(caesar_cipher, arithmetic_sequence, quadratic_equation, adding_fractions, insertion_sort),
)
