"""Knowledge fillers about numbers: arithmetic, geometry, probability, logic and ciphers."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from generation.llm.offline.fillers.parts import (
    Draft,
    article,
    comma,
    decimal,
    join,
    kind,
    lesson,
    ordinal,
    percent,
    row,
    times,
)
from generation.llm.offline.fillers.tables import WORDS


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


@kind(1960, 91)
def percentages(rng: random.Random, number: int, rate: int) -> Draft:
    """A share of a number, and the way back."""
    number, rate = number + 40, rate + 5
    part = number * rate / 100
    left = number - part
    return lesson(
        rng,
        f"taking {rate}% of {comma(number)} away",
        "[what|how much] is {p}% of {n}, and [what|how much] [is left of|remains from] {n} [once|after] [that "
        "share|it] is [taken away|subtracted]?",
        "{p}% means {p} out of every hundred, so the share is {n} × {p} ÷ 100 = {part}. [Taking|Subtracting] that "
        "from {n} [leaves|gives] {n} − {part} = {left}. [The same result comes|You get the same result] in one step "
        "by [multiplying|scaling] {n} by {keep} ÷ 100, because {keep}% [remains|is left] [when|after] {p}% [is "
        "removed|goes].",
        "[suppose|say] only {left} is [known|given], [the rest of|what remains of] a number after {p}% was [taken "
        "off|removed]. [how|in what way] [can|does] one get back to {n}, and by [what|which] percentage does {left} "
        "have to grow?",
        "since {left} is {keep}% of the original, [divide|you divide] by {keep} and multiply by 100: {left} ÷ {keep} "
        "× 100 = {n}. The [growth|increase] needed is {part} measured against {left}, which is {part} ÷ {left} = "
        "{back}. It is [larger|bigger] than {p}% [because|since] the same [amount|difference] is now compared with a "
        "smaller [base|starting value].",
        (
            "[one|a] [common|frequent] [mistake|trap] is to add the same percentage back: a fall and a rise by equal "
            "percentages never cancel [exactly|out], because they refer to different [bases|starting values].",
            "[percentages|percent changes] that follow [one another|each other] are multiplied, not added; a factor "
            "of 0.9 twice gives 0.81, which is a fall of 19%, not 20%.",
            "[for mental arithmetic|to do it in your head], ten percent comes from moving the decimal point one "
            "place, and other shares can be [built|put together] from [that|it].",
        ),
        n=comma(number),
        p=str(rate),
        part=decimal(part),
        left=decimal(left),
        keep=str(100 - rate),
        back=percent(part / left),
    )


@kind(190, 24, 28)
def compound_interest(rng: random.Random, principal: int, rate: int, years: int) -> Draft:
    """Interest on interest."""
    principal, rate, years = 500 + 50 * principal, rate + 2, years + 3
    percentage = rate / 2
    end = principal * (1 + percentage / 100) ** years
    simple = principal * (1 + percentage / 100 * years)
    return lesson(
        rng,
        f"compound interest on {comma(principal)} at {decimal(percentage)}% over {years} years",
        "[to what does|to how much does] a [principal|sum|starting amount] of {n} grow in {y} years at {r}% [a "
        "year|per year|annually] with [yearly compounding|interest compounded once a year]?",
        "with yearly compounding the [balance|amount] is multiplied by 1 + {r} ÷ 100 = {factor} [each|every] year. "
        "After {y} years the [factor|multiplier] is {factor} to the power {y}, about {power}. The [final|closing] "
        "amount is therefore {n} × {power} ≈ {end} ([calculated|worked out] with the unrounded factor), of which "
        "about {gain} is interest. [The growth speeds up with time|The yearly gain rises], because [each|every] "
        "year's interest is [itself|] part of the next year's [base|starting amount].",
        "how does that compare with simple interest on {n} at {r}% over {y} years, and [roughly|about] how long "
        "[does|would] doubling take at that rate?",
        "simple interest pays {r}% of the original {n} every year, and nothing on [earlier interest|the interest "
        "itself]. Over {y} years that [comes to|makes] {simple_gain}, so the total is {simple} [rather than|instead "
        "of] {end}; compounding [adds|brings] about {extra} more. For doubling, the rule of 72 [estimates|suggests] "
        "72 ÷ {r} ≈ {rule} years; the exact [value|figure], from logarithms, is about {double} years.",
        (
            "[monthly|more frequent] compounding at the same nominal rate gives [slightly|a little] more, with the "
            "continuous case, the exponential function, as the [upper limit|ceiling].",
            "the rule of 72 is only [a shortcut|an approximation]; it is most accurate for rates [near|around] eight "
            "percent and [drifts|goes off] for very low or very high ones.",
            "inflation and taxes are left out here; both would [lower|reduce] what the final [sum|amount] is "
            "[really|actually] worth.",
            "the general formula is the principal times one plus the rate, raised to the number of periods, with the "
            "rate written as a [fraction|decimal].",
        ),
        n=comma(principal),
        r=decimal(percentage),
        y=str(years),
        factor=decimal(1 + percentage / 100, 4),
        power=decimal((1 + percentage / 100) ** years, 4),
        end=decimal(end),
        gain=decimal(end - principal),
        simple=decimal(simple),
        simple_gain=decimal(simple - principal),
        extra=decimal(end - simple),
        rule=decimal(72 / percentage, 1),
        double=decimal(math.log(2) / math.log(1 + percentage / 100), 1),
    )


@kind(190, 20, 28)
def loan_payment(rng: random.Random, principal: int, rate: int, years: int) -> Draft:
    """The level payment of an annuity loan."""
    principal, rate, years = 5000 + 500 * principal, rate + 4, years + 3
    monthly, months = rate / 2 / 1200, years * 12
    payment = principal * monthly / (1 - (1 + monthly) ** -months)
    first = principal * monthly
    return lesson(
        rng,
        f"the monthly payment for {comma(principal)} at {decimal(rate / 2)}% over {years} years",
        "[what|how large] is the [level|constant] monthly payment [for|on] a loan of {n} at [a nominal|a yearly] rate "
        "of {r}%, [repaid|paid back] over {y} years?",
        "the monthly rate is {r}% ÷ 12, or {i} as a decimal, and {y} years [have|hold] {m} payments. The annuity "
        "formula says: payment = loan × i ÷ (1 − (1 + i) to the power −{m}). [Putting in|Inserting] {n} gives about "
        "{pay} [a month|per month]. [Altogether|In total] {total} is paid, so the [interest|cost of borrowing] comes "
        "to about {interest}, [before|leaving out] any [fees|charges].",
        "for that loan of {n} at {r}% over {y} years, how is the [first|very first] payment split [between|into] "
        "interest and [repayment|principal], and how does that change [later|over time]?",
        "interest for the first month is {n} × {i} ≈ {first}. The payment is {pay}, so about {repaid} [goes|is left] "
        "to reduce the [debt|balance], which then stands at roughly {balance}. The next month's interest is "
        "[computed|charged] on that smaller [sum|balance], so [its share|the interest part] shrinks and the repayment "
        "part grows by the same amount. After {m} payments, at the end of {y} years, the [debt|balance] of the {r}% "
        "loan reaches zero.",
        (
            "[a|any] longer term lowers the [single|monthly] payment but raises the total interest, since the "
            "[debt|balance] stays high for [more time|longer].",
            "early extra payments [work|count] most: they cut the balance on which all later interest is "
            "[computed|charged].",
            "lenders may quote an effective annual rate as well; it is [slightly|a little] higher than the nominal "
            "one because of the monthly compounding.",
            "the results are rounded to two decimals, so a real schedule often has a last payment that differs by a "
            "few cents.",
        ),
        n=comma(principal),
        r=decimal(rate / 2),
        y=str(years),
        m=str(months),
        i=f"{monthly:.6f}",
        pay=decimal(payment),
        total=decimal(payment * months),
        interest=decimal(payment * months - principal),
        first=decimal(first),
        repaid=decimal(payment - first),
        balance=decimal(principal - payment + first),
    )


@kind(120, 120)
def right_triangle(rng: random.Random, a: int, b: int) -> Draft:
    """Pythagoras, then area and angles."""
    a, b = a + 3, b + 3
    c = math.hypot(a, b)
    alpha = math.degrees(math.atan2(a, b))
    exact = "exactly" if math.isqrt(a * a + b * b) ** 2 == a * a + b * b else "about"
    return lesson(
        rng,
        f"the hypotenuse of a right triangle with legs {a} and {b}",
        "[how long|what length] is the hypotenuse of a right[-angled|] triangle whose [legs|shorter sides] "
        "[measure|are] {a} cm and {b} cm?",
        "by the theorem of Pythagoras, the square [on|of] the hypotenuse equals the sum of the squares [on|of] the "
        "two legs. Here that is {a}² + {b}² = {aa} + {bb} = {cc}. [Taking the square root|The square root] gives "
        "{exact} {c} cm for the hypotenuse. [As it should be|As expected], [it|the result] is longer than either leg "
        "and shorter than {sum} cm, [the sum of the two legs|which is both legs laid end to end].",
        "what are the area and the [two acute|other two] angles of [that|this] triangle with legs of {a} cm and {b} "
        "cm?",
        "the legs meet at the right angle, so one serves as base and the other as height: the area is {a} × {b} ÷ 2 = "
        "{area} square centimetres. For the angles, the tangent of the angle opposite the {a} cm leg is {a} ÷ {b} = "
        "{tan}, so that angle is about {alpha}°, and the other one is 90° − {alpha}° = {beta}°. [With|Together with] "
        "the right angle they [make|add up to] 180°. The perimeter, [for completeness|as an extra], is about "
        "{perimeter} cm.",
        (
            "[whole-number|integer] solutions such as 3, 4 and 5 are called Pythagorean triples; most pairs of legs "
            "give an irrational hypotenuse, [so|and therefore] a rounded value.",
            "the longest side always lies opposite the largest angle, which in a right triangle is the right angle[ "
            "itself|].",
            "[the theorem|it] also works backwards: when the squares of two sides add up to the square of the third, "
            "the triangle has a right angle.",
            "the inverse tangent on a calculator should be [set to|in] degrees; in radians the [same|] angles would "
            "be a fraction of pi.",
        ),
        a=str(a),
        b=str(b),
        aa=comma(a * a),
        bb=comma(b * b),
        cc=comma(a * a + b * b),
        c=decimal(c),
        exact=exact,
        sum=str(a + b),
        area=decimal(a * b / 2, 1),
        tan=decimal(a / b, 4),
        alpha=f"{alpha:.1f}",
        beta=f"{90 - round(alpha, 1):.1f}",
        perimeter=decimal(a + b + c),
    )


@kind(98, 140)
def cylinder(rng: random.Random, radius: int, height: int) -> Draft:
    """Volume and surface of a cylinder."""
    r, h = radius + 2, height + 3
    base = math.pi * r * r
    return lesson(
        rng,
        f"the volume of a cylinder of radius {r} and height {h}",
        "what is the volume of a [closed|solid] cylinder with a radius of {r} cm and a height of {h} cm, and how many "
        "litres [is that|does that make]?",
        "the volume of a cylinder is the area of its circular base times its height. The base [measures|has] π × {r}² "
        "= π × {rr} ≈ {base} square centimetres. [Multiplying|Multiplied] by the height of {h} cm [gives|makes] {rr} "
        "× {h} × π = {k}π, about {v} cubic centimetres. A litre is 1,000 cubic centimetres, so that [is|equals] about "
        "{litres} litres.",
        "and how large is the whole surface of that cylinder, radius {r} cm and height {h} cm, with [both ends|top "
        "and bottom] included?",
        "unrolled, the [side|curved side] is a rectangle as wide as the circumference, 2 × π × {r} ≈ {round} cm, and "
        "{h} cm high; that makes about {side} square centimetres. The two ends [add|contribute] 2 × {base} ≈ {ends} "
        "square centimetres. [Together|In all] the surface is 2 × π × {r} × ({r} + {h}) ≈ {surface} square "
        "centimetres, [where|with] the last formula [simply|] [collects|combines] both parts.",
        (
            "doubling the radius makes the volume four times as large, while doubling the height only doubles it, "
            "since the radius enters as a square.",
            "a cone with the same base and height holds exactly one third of [what the cylinder does|the cylinder's "
            "volume].",
            "all lengths must be in the same unit before [they are multiplied|multiplying]; the volume is then in "
            "that unit cubed.",
            "for a given volume, the closed cylinder with the smallest surface has a height equal to its diameter.",
        ),
        r=str(r),
        h=str(h),
        rr=comma(r * r),
        k=comma(r * r * h),
        base=decimal(base, 1),
        v=decimal(base * h, 1),
        litres=decimal(base * h / 1000, 3),
        round=decimal(2 * math.pi * r, 1),
        side=decimal(2 * math.pi * r * h, 1),
        ends=decimal(2 * base, 1),
        surface=decimal(2 * math.pi * r * (r + h), 1),
    )


@kind(30000)
def factorisation(rng: random.Random, number: int) -> Draft:
    """Prime factors, divisors and their sum."""
    number += 1000
    factors = prime_factors(number)
    powers = {factor: factors.count(factor) for factor in factors}
    count = math.prod(power + 1 for power in powers.values())
    total = math.prod((f ** (p + 1) - 1) // (f - 1) for f, p in powers.items())
    root = math.isqrt(number)
    if len(factors) == 1:
        result = (
            f"none of the primes up to {root} divides {comma(number)} without a remainder, so {comma(number)} is "
            f"itself a prime number, and its factorisation is just {comma(number)}"
        )
        how = "The only exponent is 1"
    else:
        steps, rest = [], number
        for factor in factors[:-1]:
            steps.append(f"{comma(rest)} ÷ {comma(factor)} = {comma(rest // factor)}")
            rest //= factor
        result = (
            f"dividing by the smallest prime that fits, again and again, gives {join(steps)}; the last quotient is "
            f"prime. So {comma(number)} = {' × '.join(map(comma, factors))}"
        )
        how = f"The distinct primes {join(map(comma, powers))} have the exponents {join(powers.values())}"
        if len(powers) == 1:
            how = f"The only prime is {comma(factors[0])}, with the exponent {len(factors)}"
    return lesson(
        rng,
        f"the prime factorisation of {comma(number)}",
        "[what is the prime factorisation of|which prime factors does one find in|how does one split into primes] the "
        "number {n}[, and how is it found|, step by step]?",
        "trial division [does the job|is enough here]: only primes up to the square root, about {root}, [have|need] "
        "to be [tried|tested], because a larger factor would come with a smaller partner. In this case {result}. "
        "[That|This] [decomposition|list of primes] is unique apart from the order of the factors.",
        "how many divisors does {n} have [altogether|in all], counting 1 and {n}[ itself|], and what do they add up "
        "to?",
        "[both|both numbers] follow from the prime factorisation of {n}. {how}. The number of divisors is the product "
        "of all exponents, each raised by one: {count} in this case. For the sum, every prime contributes the sum of "
        "its powers from 1 up to the highest one [present|that occurs], and the contributions are multiplied, which "
        "gives {total}. [Leaving out|Without] {n} itself, the proper divisors [add up to|sum to] {proper}, so the "
        "number is {word}.",
        (
            "[quick|simple] divisibility rules [save|spare] work: even numbers divide by 2, a digit sum divisible by "
            "3 points to 3, and a final 0 or 5 points to 5.",
            "a number is called perfect when its proper divisors add up to exactly the number; 6, 28 and 496 are the "
            "smallest [cases|examples].",
            "the number of divisors is odd only for perfect squares, since all other divisors come in pairs.",
            "every whole number above 1 has [exactly|] one prime factorisation, a fact known as the fundamental "
            "theorem of arithmetic.",
        ),
        n=comma(number),
        root=str(root),
        result=result,
        how=how,
        count=str(count),
        total=comma(total),
        proper=comma(total - number),
        word="abundant" if total > 2 * number else "deficient" if total < 2 * number else "perfect",
    )


@kind(400, 401)
def common_divisor(rng: random.Random, a: int, b: int) -> Draft:
    """Euclid's algorithm, the least common multiple and a reduced fraction."""
    b, a = b + 31, a + b + 60
    steps, x, y = [], a, b
    while y:
        steps.append(f"{x} = {x // y} × {y} + {x % y}")
        x, y = y, x % y
    return lesson(
        rng,
        f"the greatest common divisor of {a} and {b}",
        "what is the greatest common divisor of {a} and {b}, and [can|could] the steps of Euclid's algorithm be "
        "[shown|written out]?",
        "Euclid's algorithm replaces the larger number by the remainder of a division until nothing [remains|is left "
        "over]. For {a} and {b} the divisions are: {steps}. The last remainder [other than|that is not] zero is the "
        "[answer|greatest common divisor], or the smaller number if the first division leaves nothing. [Here|So] it "
        "is {g}. The method works because every common divisor of two numbers also divides their "
        "[remainder|difference].",
        "how do I get the least common multiple of {a} and {b} from that, and what does the fraction {b}/{a} look like "
        "[in lowest terms|when fully reduced]?",
        "the product of the two numbers equals the product of their greatest common divisor and their least common "
        "multiple. So the least common multiple is {a} × {b} ÷ {g} = {lcm}. The fraction {b}/{a} is reduced by "
        "dividing both parts by {g}, which gives {small}/{large}. {remark}. As a decimal it is [about|roughly] "
        "{value}.",
        (
            "two numbers whose greatest common divisor is 1 are called coprime; [their|the] least common multiple is "
            "[simply|then] their product.",
            "the number of division steps stays small: it is at most five times the number of decimal digits of the "
            "smaller number.",
            "for three numbers the method is applied twice, [first|] to two of them and then to the result and the "
            "third.",
            "[comparing|listing] prime factors gives the same answer, but for large numbers Euclid's algorithm is "
            "much faster.",
        ),
        a=str(a),
        b=str(b),
        g=str(x),
        steps="; ".join(steps),
        lcm=comma(a * b // x),
        small=str(b // x),
        large=str(a // x),
        value=decimal(b / a, 4),
        remark="Since the two are coprime, nothing cancels" if x == 1 else "Nothing more cancels",
    )


@kind(65000)
def number_bases(rng: random.Random, number: int) -> Draft:
    """Binary, hexadecimal and octal."""
    number += 300
    digits, rest = [], number
    while rest:
        digits.append(f"{rest} ÷ 16 = {rest // 16} remainder {rest % 16}")
        rest //= 16
    return lesson(
        rng,
        f"the number {number} in binary and hexadecimal",
        "how is the decimal number {n} written in hexadecimal and in binary, and how [do|can] I [convert it|do the "
        "conversion] by hand?",
        "for hexadecimal, divide by 16 [repeatedly|over and over] and read the remainders from the last to the first: "
        "{steps}. With the letters A to F standing for 10 to 15, the result is {hex}. Each hexadecimal digit [stands "
        "for|is] exactly four binary digits, so the binary form [follows|can be written down] at once: {bin}, "
        "[without leading zeros|where leading zeros are dropped]. That is {bits} bits.",
        "what is {n} in octal, and how many of [its|the] binary digits are ones? [also, is {n} a power of two|is {n} "
        "perhaps a power of two]?",
        "octal digits [correspond to|are] groups of three bits, counted from the right, so {bin} [turns into|becomes] "
        "{oct} in base 8. The binary form of {n} has {ones} [ones|digits equal to 1] [among|in] its {bits} digits. A "
        "power of two has a single one followed by zeros, so the answer to the last question is {power}. The nearest "
        "powers of two around it are {low} and {high}.",
        (
            "[in many programming languages|in code], hexadecimal literals start with 0x, binary ones with 0b and "
            "octal ones with 0o, so they cannot be [mixed up|confused].",
            "to check [a conversion|the result], multiply every digit by the power of its base and add [everything|it "
            "all] up; the decimal number must come back.",
            "hexadecimal is popular [with|among] programmers because two digits describe exactly one byte.",
            "a number with n bits can take two to the power n different values, starting at zero.",
        ),
        n=str(number),
        hex=f"{number:X}",
        bin=f"{number:b}",
        oct=f"{number:o}",
        bits=str(number.bit_length()),
        ones=str(number.bit_count()),
        power="yes" if number.bit_count() == 1 else "no",
        low=str(1 << (number.bit_length() - 1 - (number.bit_count() == 1))),
        high=str(1 << number.bit_length()),
        steps=row(digits),
    )


@kind(1900, 1900)
def roman_numerals(rng: random.Random, first: int, second: int) -> Draft:
    """Two numbers and their sum in Roman numerals."""
    first, second = first + 40, second + 40
    pieces = [roman(int(d) * 10 ** (len(str(first)) - i - 1)) for i, d in enumerate(str(first)) if d != "0"]
    return lesson(
        rng,
        f"{first} and {second} in Roman numerals",
        "how are the numbers {a} and {b} written in Roman numerals, and [which|what] rules [decide|determine] the "
        "order of the letters?",
        "{a} is {ra} and {b} is {rb}. The [symbols|letters] are I = 1, V = 5, X = 10, L = 50, C = 100, D = 500 and M "
        "= 1,000. They are [normally|usually] written from large to small and added up; a smaller one "
        "[right|directly] before a larger one is subtracted, as in IV, IX, XL, XC, CD and CM. [For|Taking] {a}, each "
        "decimal digit is written [separately|on its own]: {pieces}, [and|where] zeros [leave no trace|are simply "
        "skipped].",
        "and what is the sum of {a} and {b} in Roman numerals, and what would their difference be?",
        "in decimal the sum is {a} + {b} = {sum}, which is {rsum}. The difference {big} − {small} = {diff} {rdiff}. "
        "[Adding|Sums] directly in Roman numerals [works|can be done] too: unfold the subtractive pairs, throw all "
        "letters of {ra} and {rb} together, sort them by value and then replace groups, such as five I by one V, "
        "[until nothing can be replaced|as long as possible].",
        (
            "no letter is written more than three times in a row in the standard form, and V, L and D are never "
            "doubled.",
            "the standard letters reach 3,999; for larger numbers a bar above a letter multiplies its value by a "
            "thousand.",
            "the Romans had no symbol for zero, [and the system has no place values|which a place-value system "
            "needs], so written multiplication is clumsy.",
            "the numerals [survive|are still used] on clock faces, in the names of monarchs and in the numbering of "
            "chapters.",
        ),
        a=str(first),
        b=str(second),
        ra=roman(first),
        rb=roman(second),
        pieces=row(pieces),
        sum=comma(first + second),
        rsum=roman(first + second),
        big=str(max(first, second)),
        small=str(min(first, second)),
        diff=str(abs(first - second)),
        rdiff=f"is {roman(abs(first - second))}" if first != second else "has no Roman numeral at all",
    )


@kind(60, 60, 60, 60, 60, 60, 60)
def list_statistics(rng: random.Random, *values: int) -> Draft:
    """Mean, median and spread of seven numbers."""
    numbers = [value + 10 for value in values]
    ordered = sorted(numbers)
    mean = statistics.fmean(numbers)
    squares = sum((number - mean) ** 2 for number in numbers)
    return lesson(
        rng,
        f"mean and median of {row(numbers)}",
        "what are the mean, the median and the range of the [seven|] [numbers|values|measurements] {list}?",
        "[sorted|in ascending order], the values of {list} are {ordered}. The mean is their sum divided by their "
        "number: {sum} ÷ 7 ≈ {mean}. The median is the middle value, the fourth of seven, so it is {median}. The "
        "range is the largest minus the smallest value: {max} − {min} = {range}. {compare}",
        "how large is the standard deviation of {list}, [both|first] as a population and [then|] as a sample?",
        "take the deviation of each of {list} from the mean {mean}, square it and add [everything|it all] up; the "
        "total is about {squares}. Divided by 7, that is a population variance of {pvar} and, after the square root, "
        "a standard deviation of about {psd}. For a sample one divides by 6 instead, which gives a variance of {svar} "
        "and a standard deviation of about {ssd}. [Dividing by one less|The smaller divisor] [makes up|corrects] for "
        "the fact that the mean was estimated from the same data.",
        (
            "the median is hardly [moved|affected] by a single extreme value, whereas the mean [follows|reacts to] "
            "every one of them.",
            "with an even number of values, the median is [usually|] taken halfway between the two in the middle.",
            "the standard deviation has the same unit as the data, which makes it easier to [read|interpret] than the "
            "variance.",
        ),
        list=join(numbers),
        ordered=row(ordered),
        sum=str(sum(numbers)),
        mean=decimal(mean),
        median=str(ordered[3]),
        max=str(ordered[-1]),
        min=str(ordered[0]),
        range=str(ordered[-1] - ordered[0]),
        compare=(
            "The mean equals the median here."
            if mean == ordered[3]
            else f"The mean lies {'above' if mean > ordered[3] else 'below'} the median, which hints at some skew."
        ),
        squares=decimal(squares),
        pvar=decimal(squares / 7),
        psd=decimal(math.sqrt(squares / 7)),
        svar=decimal(squares / 6),
        ssd=decimal(math.sqrt(squares / 6)),
    )


_DICE: Final = (4, 6, 8, 10, 12, 20, 30)


@kind(7, 10, 120)
def dice_probability(rng: random.Random, die: int, hits: int, misses: int) -> Draft:
    """The binomial distribution with dice."""
    sides, hits = _DICE[die], hits + 1
    rolls = hits + misses + 1
    chance = math.comb(rolls, hits) * (1 / sides) ** hits * (1 - 1 / sides) ** (rolls - hits)
    never = (1 - 1 / sides) ** rolls
    return lesson(
        rng,
        f"the chance of exactly {times(hits, 'top face')} in {rolls} rolls of {article(sides)} {sides}-sided die",
        "[how likely is it|what is the probability] that {an} fair {s}-sided die, rolled {n} times, shows its highest "
        "face exactly {k}?",
        "the rolls are independent, and [each|every one] shows the highest face with probability 1/{s}. This is a "
        "binomial [distribution|experiment]: there are {ways} ways to choose the successful rolls, {kk} out of {n}, "
        "and each such pattern has the probability (1/{s}) to the power {kk} times ({rest}/{s}) to the power "
        "{misses}. [Multiplied|Multiplying] [together|out], that gives about {p}, or roughly one [case|chance] in "
        "{odds}.",
        "still with {n} rolls of the {s}-sided die: what is the probability of at least one highest face, and how "
        "many are expected on average, compared with the {kk} [from before|asked about]?",
        "for at least one, the complement is simpler. All {n} rolls miss with probability ({rest}/{s}) to the power "
        "{n}, about {never}, so at least one highest face appears with probability {some}. The expected number is {n} "
        "× 1/{s} ≈ {mean}, with a standard deviation of about {sd}. The count of {kk} is [therefore|thus] {verdict} "
        "the average, which [helps to explain|is part of the reason for] the probability found [before|above].",
        (
            "dice have no memory: after a long run of misses, the next roll [still|] has the same chance as [ever|any "
            "other].",
            "the average is a long-run [figure|value]; a single series of rolls may well [differ from it|lie on "
            "either side].",
            "adding the probabilities for all possible counts, from zero to the number of rolls, gives exactly one.",
            "the factor in front counts arrangements only; it is the binomial coefficient, found in Pascal's triangle.",
        ),
        an=article(sides),
        s=str(sides),
        n=str(rolls),
        k=times(hits, "time"),
        kk=str(hits),
        ways=comma(math.comb(rolls, hits)),
        rest=str(sides - 1),
        misses=str(rolls - hits),
        p=percent(chance),
        odds=decimal(1 / chance, 1 if chance > 0.1 else 0),
        never=percent(never),
        some=percent(1 - never),
        mean=decimal(rolls / sides),
        sd=decimal(math.sqrt(rolls * (1 / sides) * (1 - 1 / sides))),
        verdict="exactly" if hits * sides == rolls else "above" if hits * sides > rolls else "below",
    )


@kind(30, 30, 3, 3)
def urn_probability(rng: random.Random, red: int, blue: int, draws: int, hits: int) -> Draft:
    """Draws without replacement."""
    red, blue, draws, hits = red + 6, blue + 6, draws + 3, hits + 1
    good = math.comb(red, hits) * math.comb(blue, draws - hits)
    every = math.comb(red + blue, draws)
    share = red / (red + blue)
    replaced = math.comb(draws, hits) * share**hits * (1 - share) ** (draws - hits)
    return lesson(
        rng,
        f"drawing {hits} red among {draws} from {red} red and {blue} blue cards",
        "[a pile|a shuffled pile|a deck] has {r} red and {b} blue cards. [if|suppose] {d} cards are drawn without "
        "[replacement|putting any back]. [What is the chance|How likely is it] that exactly {h} of them {be} red?",
        "all [sets|selections] of {d} cards out of {total} are equally likely, and there are {every} of them. The "
        "[favourable|matching] ones combine {h} of the {r} red cards, in {ways_r}, with {m} of the {b} blue cards, in "
        "{ways_b}; that makes {good}. The probability is {good} ÷ {every}, which [is|equals] {fraction} in lowest "
        "terms, [or about|about] {p}.",
        "how would that change with replacement, so that each of the {d} cards goes back [to|into] the {r} red and "
        "{b} blue ones before the next [draw|one], [still|again] with {h} red?",
        "with replacement every draw has the same chance of red, {r} ÷ {total} ≈ {share}. The [number|count] of red "
        "cards in {d} draws is then binomial: {arr} times the chance of {h} red and {m} blue in "
        "a fixed order. The result is about {q}, compared with {p} without replacement. The [two|] values differ "
        "[because|since] taking a card away changes the mix of the {b} blue and the remaining red ones for the next "
        "draw.",
        (
            "the larger the pile in comparison with the number of draws, the smaller the difference between the two "
            "[models|cases].",
            "[counts|numbers] drawn without replacement follow the hypergeometric distribution, which is the tool "
            "behind quality sampling.",
            "the order of drawing [plays no role|does not matter] here; counting ordered draws gives the same "
            "probability, as long as both counts are ordered.",
            "the expected number of red cards is the same in both cases: the number of draws times the share of red "
            "cards.",
        ),
        r=str(red),
        b=str(blue),
        d=str(draws),
        h=str(hits),
        m=str(draws - hits),
        be="is" if hits == 1 else "are",
        total=str(red + blue),
        every=comma(every),
        ways_r=times(math.comb(red, hits), "way"),
        ways_b=times(math.comb(blue, draws - hits), "way"),
        good=comma(good),
        fraction=str(Fraction(good, every)),
        p=percent(good / every),
        share=decimal(share, 4),
        arr=times(math.comb(draws, hits), "arrangement"),
        q=percent(replaced),
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
_LETTERS: Final = tuple(
    [
        "PQR",
        "XYZ",
        "KLM",
        "STU",
        "BCD",
        "EFG",
        "FGH",
        "LMN",
        "UVW",
        "QRS",
        "RST",
        "CDE",
        "GHJ",
        "HJK",
        "TUV",
        "JKL",
        "DEF",
        "VWX",
    ]
)


@kind(18, 7, 7, 8)
def truth_table(rng: random.Random, letters: int, inner: int, outer: int, negated: int) -> Draft:
    """The truth table of an expression with three variables."""
    (first, one), (second, two) = _OPERATORS[inner], _OPERATORS[outer]
    names = _LETTERS[letters]
    flips = [bool(negated >> place & 1) for place in range(3)]
    p, q, r = (("not " if flip else "") + name for flip, name in zip(flips, names, strict=True))
    expression = f"({p} {first} {q}) {second} {r}"
    lines, true = [" ".join(names) + " value"], []
    for number in range(7, -1, -1):
        inputs = [bool(number >> place & 1) for place in (2, 1, 0)]
        x, y, z = (value != flip for value, flip in zip(inputs, flips, strict=True))
        value = two(one(x, y), z)
        bits = " ".join(str(int(v)) for v in inputs)
        lines.append(f"{bits} {int(value)}")
        if value:
            true.append(bits.replace(" ", ""))
    verdict = "neither a tautology nor a contradiction"
    return lesson(
        rng,
        f"the truth table of {expression}",
        "what does the truth table of the [Boolean|logical] expression {e} look like, [written with 1 for true and 0 "
        "for false|with ones and zeros for true and false]?",
        "with three variables there are eight [rows|combinations]. [Working|Going] from the inside out, first "
        "evaluate the part in parentheses, then combine it with the last [part|operand]. For {e} [this|that] "
        "gives:\n\n```text\n{table}\n```\n\nThe expression is true in {count} of the eight rows, so it is {verdict}. "
        "[Remember that|Here] implies is false only [when|if] a true premise meets a false conclusion, and equals is "
        "true when both sides agree.",
        "in which [rows|cases] is {e} true, and what would a formula in disjunctive normal form be built from?",
        "[reading|writing] the three variables as a [string|group] of bits in the order {names}, {e} is true for "
        "{rows}. For the disjunctive normal form, every such row becomes one conjunction: a variable [appears|is "
        "written] plainly where the row has a 1 and negated where it has a 0. Joining the {count} {conj} with or "
        "gives a formula with the same truth table; [neighbouring|similar] rows that differ in one bit can then be "
        "merged to [shorten|simplify] it.",
        (
            "De Morgan's laws are [handy|useful] here: the negation of a conjunction is the disjunction of the "
            "negations, and the other way round.",
            "with n variables a table has two to the power n rows, so it doubles with [each|every] further variable.",
            "nand alone is enough to build every Boolean function, and so is nor, which is why [chips|circuits] rely "
            "on them.",
            "xor is true exactly when its two sides differ, [so|which means that] it is the opposite of equals.",
        ),
        e=expression,
        names=row(names),
        table="\n".join(lines),
        count=str(len(true)),
        conj="conjunctions" if len(true) != 1 else "conjunction",
        verdict=verdict,
        rows=join(true),
    )


@kind(60, 59, 25)
def caesar_cipher(rng: random.Random, first: int, second: int, shift: int) -> Draft:
    """A shift cipher, encrypted and decrypted."""
    text = f"{WORDS[first]} {WORDS[second + (second >= first)]}"
    shift += 1
    secret = shift_text(text, shift)
    atbash = "".join(chr(219 - ord(c)) if c != " " else c for c in text)
    return lesson(
        rng,
        f"the Caesar cipher of '{text}' with shift {shift}",
        'what does the [phrase|text] "{text}" [become|turn into] under a Caesar cipher with [a shift of|a key of] '
        "{k}, and how "
        "is it [worked out|done]?",
        "every letter moves {k} {places} forward in the alphabet, and after z it continues with a. The first letter "
        'of "{text}", {a}, [thus|therefore] becomes {b}. [Doing|Repeating] this for all letters [gives|turns the '
        'phrase into] "{secret}"; the '
        "[blank|space] stays where it is. [To read|To decrypt] the message, the receiver moves every letter {k} back, "
        "which is the same as moving it {rest} forward, [because|since] the alphabet has 26 letters.",
        'how [safe|secure] is that, and what would "{text}" be with the Atbash cipher instead of the shift of {k}?',
        "a Caesar cipher is not [safe|secure] at all: there are only 25 useful shifts, so anybody can try them all on "
        '"{secret}" and see that a shift of {k} fits; in longer texts the most [frequent|common] letters give the key '
        "away "
        "too. Atbash [mirrors|reverses] the alphabet, so a becomes z, b becomes y and so on. [With it|Under Atbash], "
        '"{text}" turns into "{atbash}". It has no key at all, and applying it twice returns the original.',
        (
            "with a shift of 13 encryption and decryption are the same operation, which is why it is popular for "
            "hiding answers.",
            "the method is named after Julius Caesar, who [is said to have used|according to Suetonius used] a shift "
            "of three.",
            "a [Vigenère cipher|repeating keyword] changes the shift from letter to letter, which resists simple "
            "frequency counts but is still easy to break today.",
            "numbering the letters from 0 to 25 turns the cipher into addition modulo 26.",
        ),
        text=text,
        k=str(shift),
        rest=str(26 - shift),
        places="place" if shift == 1 else "places",
        a=text[0],
        b=secret[0],
        secret=secret,
        atbash=atbash,
    )


@kind(200, 39, 70)
def arithmetic_sequence(rng: random.Random, start: int, step: int, terms: int) -> Draft:
    """The nth term and the sum of an arithmetic sequence."""
    start, step, terms = start + 3, step + 2, terms + 10
    last = start + (terms - 1) * step
    limit = 2 * last
    rank = (limit - start) // step + 2
    return lesson(
        rng,
        f"{terms} terms of the sequence from {start} in steps of {step}",
        "an arithmetic sequence [starts with|begins at] {a} and [goes up|rises] by {d} [each time|from term to term]. "
        "[What are|How large are] its {nth} term and the sum of its first {n} terms?",
        "from the first to the {nth} term there are {m} steps of {d}, so the {nth} term is {a} + {m} × {d} = {last}. "
        "For the sum, pair the first term with the last, the second with the last but one, and so on: every pair "
        "[adds up to|makes] {pair}. The sum of the {n} terms is therefore {n} × {pair} ÷ 2 = {sum}. [The average "
        "term|Their average] is {mean}, halfway between {a} and {last}.",
        "which is the first term of that sequence ({a}, then {d} more each time) to [exceed|go above] {limit}, twice "
        "the value of the {nth} term?",
        "we need the smallest number k for which {a} + (k − 1) × {d} is greater than {limit}. Subtracting {a} and "
        "dividing by {d} gives k − 1 > {ratio}, so k − 1 must be at least {m2}, and the answer is the {kth} term. Its "
        "value is {a} + {m2} × {d} = {value}, while the term before it is {before}, which does not [exceed|go above] "
        "the limit. [In comparison|Compared] with the {nth} term, that is {more} further {steps}.",
        (
            "the pairing trick is often told with the young Gauss, who is said to have added 1 to 100 that way.",
            "plotted against their position, the terms lie on a straight line whose slope is the common difference.",
            "in a geometric sequence, by contrast, each term is multiplied by a fixed factor, so it grows much faster "
            "in the end.",
            "the sum grows roughly with the square of the number of terms, because the terms [themselves|] grow "
            "steadily.",
        ),
        a=str(start),
        d=str(step),
        n=str(terms),
        nth=ordinal(terms),
        m=str(terms - 1),
        last=comma(last),
        pair=comma(start + last),
        sum=comma(terms * (start + last) // 2),
        mean=decimal((start + last) / 2, 1),
        limit=comma(limit),
        ratio=decimal((limit - start) / step),
        m2=comma(rank - 1),
        kth=ordinal(rank),
        value=comma(start + (rank - 1) * step),
        before=comma(start + (rank - 2) * step),
        more=str(rank - terms),
        steps="step" if rank - terms == 1 else "steps",
    )


def _signed(number: int, unit: str) -> str:
    sign = "−" if number < 0 else "+"
    size = "" if unit and abs(number) == 1 else comma(abs(number))
    return f"{sign} {size}{unit}" if number else ""


def quadratic_text(a: int, b: int, c: int) -> str:
    """Return `ax² + bx + c`, without terms that are zero."""
    terms = ["x²" if a == 1 else f"{a}x²", _signed(b, "x"), _signed(c, "")]
    return " ".join(term for term in terms if term)


@kind(40, 30, 9)
def quadratic_equation(rng: random.Random, low: int, gap: int, lead: int) -> Draft:
    """A quadratic equation with whole roots."""
    low, lead = low - 20, lead + 1
    high = low + gap + 1
    b, c = -lead * (low + high), lead * low * high
    disc = b * b - 4 * lead * c
    vertex = Fraction(low + high, 2)
    least = lead * (vertex - low) * (vertex - high)
    return lesson(
        rng,
        f"the equation {quadratic_text(lead, b, c)} = 0",
        "[how do I solve|how does one solve|what are the solutions of] the quadratic equation {q} = 0 [by hand|with "
        "the usual formula|step by step]?",
        "in {q} = 0 the coefficients are a = {a}, b = {b} and c = {c}. The discriminant is b² − 4ac = {disc}, whose "
        "square root is {root}. As it is positive, there are two real solutions, x = (−b ± {root}) ÷ {aa}. They are x "
        "= {low} and x = {high}. [As a check|To check], their sum is {sum}, which equals −b ÷ a, and their product is "
        "{product}, which equals c ÷ a, as Vieta's formulas [demand|require].",
        "what does the parabola y = {q} look like: [where is its vertex|where does its vertex lie], and how is the "
        "expression factorised?",
        "the vertex lies halfway between the zeros, at x = ({low} + {high_in}) ÷ 2 = {vx}. There y = {q} has the "
        "value {vy}, the minimum, since the leading coefficient {a} is positive and the parabola opens upwards. The "
        "factorised form is {factors}, from which both zeros can be read directly. The [curve|parabola] crosses the "
        "vertical axis at y = {c}.",
        (
            "a discriminant of zero would mean one double solution, and a negative one no real solution at all.",
            "completing the square leads to the same formula; [in fact|indeed] that is how the formula is derived.",
            "dividing the whole equation by the leading coefficient [keeps|does not change] the solutions and often "
            "makes the numbers smaller.",
            "every parabola is symmetric about the vertical line through its vertex.",
        ),
        q=quadratic_text(lead, b, c),
        a=str(lead),
        b=comma(b),
        c=comma(c),
        disc=comma(disc),
        root=comma(math.isqrt(disc)),
        aa=str(2 * lead),
        low=comma(low),
        high=comma(high),
        high_in=f"({comma(high)})" if high < 0 else comma(high),
        sum=comma(low + high),
        product=comma(low * high),
        vx=decimal(float(vertex), 1),
        vy=decimal(float(least), 2),
        factors=("" if lead == 1 else str(lead)) + "".join(map(_factor, sorted((low, high), key=bool))),
    )


def _factor(zero: int) -> str:
    return f"(x {_signed(-zero, '')})" if zero else "x"


def _reduced(fraction: Fraction, numerator: int) -> str:
    same = fraction.numerator == numerator
    return "which is in lowest terms already" if same else f"which in lowest terms is {fraction}"


@kind(20, 20, 20, 20)
def adding_fractions(rng: random.Random, a: int, b: int, c: int, d: int) -> Draft:
    """Sum and product of two fractions."""
    a, b, c, d = a + 1, b + 21, c + 1, d + 21
    common = math.lcm(b, d)
    top = a * common // b + c * common // d
    total, product = Fraction(a, b) + Fraction(c, d), Fraction(a, b) * Fraction(c, d)
    return lesson(
        rng,
        f"the sum of {a}/{b} and {c}/{d}",
        "how do I add the fractions {x} and {y} [by hand|on paper], and what is the [result|sum] in lowest terms?",
        "fractions can be added once they have the same denominator. The least common multiple of {b} and {d} is {m}. "
        "[Expanded|Written] with that denominator, {x} becomes {x2}/{m} and {y} becomes {y2}/{m}. The numerators are "
        "added, the denominator stays: {top}/{m}. {reduce} As a decimal, the sum is about {value}.",
        "and what do I get when {x} and {y} are multiplied, or when {x} is divided by {y}?",
        "multiplication needs no common denominator: multiply the numerators and the denominators, so {x} × {y} = "
        "{pt}/{pb}, {product}. Division by {y} means multiplication by its reciprocal "
        "{d}/{c}: {x} × {d}/{c} = {qt}/{qb}, {quotient}. The product is smaller than either "
        "factor, because both lie below 1, and the quotient is {size}.",
        (
            "cancelling common factors before multiplying keeps the numbers small and [saves|spares] the reduction at "
            "the end.",
            "adding numerators and denominators separately is a common mistake; it gives a value between the two "
            "fractions, not their sum.",
            "any common denominator will do, for instance the product of both; the least one merely keeps the numbers "
            "small.",
            "a fraction is in lowest terms when the greatest common divisor of its two parts is 1.",
        ),
        x=f"{a}/{b}",
        y=f"{c}/{d}",
        b=str(b),
        c=str(c),
        d=str(d),
        m=str(common),
        x2=str(a * common // b),
        y2=str(c * common // d),
        top=str(top),
        reduce=(
            "Nothing cancels, so this is already in lowest terms."
            if total.denominator == common
            else f"Dividing both parts by {math.gcd(top, common)} gives {total} in lowest terms."
        ),
        value=decimal(float(total), 4),
        pt=str(a * c),
        pb=str(b * d),
        product=_reduced(product, a * c),
        qt=str(a * d),
        qb=str(b * c),
        quotient=_reduced(Fraction(a * d, b * c), a * d),
        size="exactly 1" if a * d == b * c else "above 1" if a * d > b * c else "below 1",
    )


@kind(90, 90, 90, 90, 90, 90)
def insertion_sort(rng: random.Random, *values: int) -> Draft:
    """The trace of insertion sort on six numbers."""
    start = [value + 10 for value in values]
    now, shifts, lines = list(start), 0, []
    for at in range(1, len(now)):
        place = at
        while place and now[place - 1] > now[place]:
            now[place - 1], now[place] = now[place], now[place - 1]
            place -= 1
            shifts += 1
        lines.append(f"after inserting {start[at]}: {row(now)}")
    return lesson(
        rng,
        f"insertion sort on {row(start)}",
        "[can|could] you [trace|go through] insertion sort on the [list|sequence] {list}, [showing|with] the "
        "[order|state] after [every|each] [insertion|step]?",
        "insertion sort keeps a sorted part at the left, at first just the number {first}, and moves each new number "
        "to the left past all larger ones. Starting from {list}, the states are:\n\n```text\n{lines}\n```\n\nThe "
        "numbers were moved past a larger one {shifts} in all. [That count is|This is exactly] the number of "
        "inversions, the pairs that stand in the wrong order at the start.",
        "how many [exchanges|swaps of neighbours] would the worst order of the six numbers {list} need, and how does "
        "the cost grow for long lists?",
        "the worst case is the reverse order {reverse}, where {worst} numbers have to pass each other; with six "
        "different numbers that would be 6 × 5 ÷ 2 = 15 pairs. The order {list} needed {count}. In general the work "
        "grows with the square of the length in the average and worst cases, while a sorted list needs only one pass. "
        "[That is why|Hence] library sorts use insertion sort at most for short pieces and merge [sort|] or a similar "
        "method for the rest.",
        (
            "the method is stable: equal numbers never pass each other, so they keep their [original|] order.",
            "it works in place, so apart from the list itself only a constant amount of memory is needed.",
            "on nearly sorted data it is very fast, because hardly any number has to move far.",
            "card players often sort a hand in just this way, taking up one card after another.",
        ),
        list=row(start),
        first=str(start[0]),
        lines="\n".join(lines),
        shifts=times(shifts, "time"),
        reverse=row(sorted(start, reverse=True)),
        worst=f"{sum(x != y for i, x in enumerate(start) for y in start[:i])} pairs of",
        count=times(shifts, "exchange"),
    )


KINDS: Final = (
    *(percentages, compound_interest, loan_payment, right_triangle, cylinder, factorisation, common_divisor),
    *(number_bases, roman_numerals, list_statistics, dice_probability, urn_probability, truth_table),
    *(caesar_cipher, arithmetic_sequence, quadratic_equation, adding_fractions, insertion_sort),
)
