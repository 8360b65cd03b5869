"""Knowledge fillers about the world: units, the calendar, clocks, elements, planets, countries and physics."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import random
from fractions import Fraction
from typing import Final

from generation.llm.offline.fillers.parts import Draft, comma, decimal, kind, lesson, ordinal, times
from generation.llm.offline.fillers.tables import (
    COUNTRIES,
    ELEMENTS,
    MONTHS,
    NOBLE_GASES,
    PLANETS,
    UNITS,
    WEEKDAYS,
    Country,
    place_of,
)


def date_text(day: dt.date) -> str:
    """Return a date such as `4 March 1987`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


@kind(len(UNITS), 900)
def unit_conversion(rng: random.Random, unit: int, value: int) -> Draft:
    """From one unit to another and back."""
    source, target, factor, reason = UNITS[unit]
    value += 3
    result, back = value * factor, value / factor
    return lesson(
        rng,
        f"how much {value} {source} is in {target}",
        "[how much are|what are|what do I get for] {v} {s} [in|when expressed in|when converted to] {t}, and "
        "[what|which] [conversion factor|factor] [is used|do I need]?",
        "the factor [rests on a definition|follows from a definition]: {why}. The factor from {s} to {t} is therefore "
        "{f}, [rounded to six decimals where needed|to at most six decimals]. [Multiplying|Scaling] by {v} gives {v} "
        "× {f} ≈ {result}, so {v} {s} are about {result} {t}. [For an estimate|As a rough check], {round} times {f} "
        "is {rough}, [which is close|so the size is right].",
        "and the other way round: how many {s} [are|make] {v} {t}?",
        "for the other direction, divide by the same factor [instead of multiplying|rather than multiply]: {v} ÷ {f} "
        "≈ {back}. So {v} {t} are about {back} {s}. [Equivalently|Put differently], the reciprocal factor is 1 ÷ {f} "
        "≈ {inverse}, which may be [handier|easier] [for|with] a whole column of {t}. [As a check|To be sure], "
        "converting {back} {s} with the first factor returns {v} {t}, up to rounding.",
        (
            "[it is best to|one should] round only at the end; rounding the factor early can [spoil|affect] the last "
            "digits of a large [result|value].",
            "[writing|carrying] the units along in each step shows at once whether to multiply or to divide: the "
            "unwanted unit must cancel.",
            "[how many digits to keep|the sensible number of digits] depends on how [exactly|precisely] the original "
            "value is known.",
            "a table of conversions is always proportional, so twice the value gives twice the result.",
        ),
        v=comma(value),
        s=source,
        t=target,
        why=reason,
        f=decimal(float(factor), 6),
        inverse=decimal(float(1 / factor), 6),
        result=decimal(float(result), 3),
        back=decimal(float(back), 3),
        round=comma(round(value, -1 if value < 100 else -2) or 10),
        rough=decimal(float((round(value, -1 if value < 100 else -2) or 10) * factor), 1),
    )


_SCALES: Final = (("Celsius", "Fahrenheit"), ("Fahrenheit", "Celsius"), ("Celsius", "kelvin"), ("Fahrenheit", "kelvin"))


@kind(4, 1600)
def temperature_conversion(rng: random.Random, scale: int, value: int) -> Draft:
    """Celsius, Fahrenheit and kelvin."""
    source, target = _SCALES[scale]
    value -= 100 if value <= 100 else 99
    exact = Fraction(value) if source == "Celsius" else Fraction(value - 32) * 5 / 9
    celsius, fahrenheit, kelvin = float(exact), float(exact * 9 / 5 + 32), float(exact + Fraction(27315, 100))
    v = comma(value)
    c, f, k = decimal(celsius), decimal(fahrenheit), decimal(kelvin)
    to_celsius = f"({v} − 32) × 5 ÷ 9 ≈ {c}"
    steps = {
        ("Celsius", "Fahrenheit"): f"multiply by 9, divide by 5 and add 32: {v} × 9 ÷ 5 + 32 = {f}",
        ("Fahrenheit", "Celsius"): f"subtract 32, multiply by 5 and divide by 9: {to_celsius}",
        ("Celsius", "kelvin"): f"add 273.15, as both scales have steps of the same size: {v} + 273.15 = {k}",
        ("Fahrenheit", "kelvin"): f"go through Celsius, {to_celsius}, and then add 273.15, which gives about {k}",
    }[source, target]
    result = {"Fahrenheit": f"{f} °F", "Celsius": f"{c} °C", "kelvin": f"{k} K"}[target]
    water = "liquid" if 0 < celsius < 100 else "frozen" if celsius < 0 else "steam"
    if celsius in (0, 100):
        water = "just at the point where it changes its state"
    return lesson(
        rng,
        f"{v} degrees {source} in {target}",
        "[what is|how much is] a temperature of {v} degrees {s} [in|when converted to|on the scale of] {t}, and "
        "[which|what] formula [is behind it|does one use]?",
        "to get from {s} to {t}, {steps}. So {v} degrees {s} are {result}[, to two decimals|, rounded to two decimals "
        "where needed]. The scales differ in their zero and, with Fahrenheit, in the size of a step as well: between "
        "the freezing and the boiling point of water [lie|there are] 100 steps in Celsius and kelvin but 180 in "
        "Fahrenheit, [hence the fraction|which explains the fraction] of 9 to 5.",
        "at {v} degrees {s}, or {result}, would water [at sea level|under normal pressure] be ice, liquid or steam, "
        "and how far is that from absolute zero?",
        "at normal pressure water freezes at 0 °C, or 32 °F, and boils at about 100 °C, or 212 °F. At {v} degrees "
        "{s}, which is {result}, water is therefore {water}. Absolute zero is −273.15 °C, so the distance from it is, "
        "in degrees Celsius, {c} + 273.15, or {k} kelvins. [Note that|By convention,] the kelvin is written without a "
        "degree sign. Nothing can be colder than zero kelvin.",
        (
            "the two scales [show|read] the same number at minus forty: −40 °C and −40 °F are one and the same "
            "temperature.",
            "for a rough conversion from Celsius to Fahrenheit, double the value and add thirty.",
            "a temperature difference of ten degrees Celsius is a difference of ten kelvins but of eighteen degrees "
            "Fahrenheit.",
            "the boiling point falls with the air pressure, so water boils below 100 °C high up in the mountains.",
        ),
        v=v,
        s=source,
        t=target,
        steps=steps,
        result=result,
        c=c,
        k=k,
        water=water,
    )


@kind(120000)
def weekday_of_date(rng: random.Random, day: int) -> Draft:
    """The weekday of a date by the doomsday rule, and its place in the year."""
    date = dt.date(1820, 1, 1) + dt.timedelta(day)
    leap = calendar.isleap(date.year)
    anchors = (4 if leap else 3, 29 if leap else 28, 14, 4, 9, 6, 11, 8, 5, 10, 7, 12)
    anchor = dt.date(date.year, date.month, anchors[date.month - 1])
    gap = (date - anchor).days
    number = date.timetuple().tm_yday
    iso = date.isocalendar()
    move = "is that very day" if not gap else f"comes {times(abs(gap), 'day')} {'later' if gap > 0 else 'earlier'}"
    return lesson(
        rng,
        f"the weekday of {date_text(date)}",
        "on [which|what] day of the week does {date} fall [in the Gregorian calendar|by today's calendar], and how "
        "can that be [found|worked out] [without a computer|by hand|in the head]?",
        "{date} is a {weekday}. One way to see it is the doomsday rule: in any year, certain easy dates share one "
        "weekday, for instance 4 April, 6 June, 8 August, 10 October and 12 December. In {year} that weekday is "
        "{dooms}. The anchor [in the same month|for {month}] is {anchor}, and {date} {move}. [Counting|Taking the "
        "count] modulo seven, that leads from {dooms} to {weekday}.",
        "how many days into the year is {date}, [and how many are left|how many remain], and what is its ISO week?",
        "{year} {is_leap} a leap year, so it has {length} days. Adding up the months before and the days of the "
        "current one, {date} is the {nth} day of {year}, and {left} after it. By the ISO standard, where weeks start "
        "on Monday and week 1 holds the first Thursday of the year, the date lies in week {week} of {iso_year}. "
        "[Being|Since it is] a {weekday}, it is day number {iso_day} of that week.",
        (
            "a common year moves every date forward by one weekday, and the day after a leap day adds [a second "
            "step|one more].",
            "the Gregorian calendar repeats exactly after 400 years, as these have 146,097 days, a multiple of seven.",
            "the weekday of the last day of February is an anchor too, which makes the rule easy to carry over to "
            "March.",
            "years divisible by 100 are leap years only when they are divisible by 400 as well.",
        ),
        date=date_text(date),
        weekday=WEEKDAYS[date.weekday()],
        year=str(date.year),
        dooms=WEEKDAYS[anchor.weekday()],
        month=MONTHS[date.month - 1],
        anchor=f"{anchor.day} {MONTHS[anchor.month - 1]}",
        move=move,
        is_leap="is" if leap else "is not",
        length="366" if leap else "365",
        nth=ordinal(number),
        left="no day is left" if number == 365 + leap else _left(365 + leap - number),
        week=str(iso.week),
        iso_year=str(iso.year),
        iso_day=str(iso.weekday),
    )


def _left(days: int) -> str:
    return "1 day is left" if days == 1 else f"{days} days are left"


@kind(40000, 2500)
def days_between(rng: random.Random, day: int, gap: int) -> Draft:
    """The number of days between two dates."""
    first = dt.date(1910, 1, 1) + dt.timedelta(day)
    gap += 20
    second = first + dt.timedelta(gap)
    years = second.year - first.year
    if (second.month, second.day) < (first.month, first.day):
        years -= 1
    leap_days = sum(
        first < dt.date(year, 2, 29) <= second for year in range(first.year, second.year + 1) if calendar.isleap(year)
    )
    third = second + dt.timedelta(gap)
    return lesson(
        rng,
        f"the days from {date_text(first)} to {date_text(second)}",
        "how many days [lie|pass|are there] from {a} to {b}, and [how many full weeks is that|what does that make in "
        "weeks]?",
        "from {a} to {b} [there are|one counts] {n}, [not counting|leaving out] the first day but counting the last. "
        "That is {weeks} and {rest}. It [spans|includes] {years}, and {leap}. The first date is a {wa} and the second "
        "a {wb}, which [agrees|fits] with the remainder after division by seven. [Counting both ends|With both ends "
        "counted], the figure would be one higher: {more} days.",
        "and which date lies just as far beyond {b} as {b} lies after {a}, [and on what weekday|and which weekday is "
        "it]?",
        "adding another {n} to {b} leads to {c}, a {wc}. [So|Thus] {b} is exactly halfway between {a} and {c}. A way "
        "to do this by hand is to [turn|convert] both dates into running day numbers, add the difference of {n} to "
        "the later number, and turn the result back into a date. For the weekday only the remainder {r} modulo seven "
        "[matters|counts]: it moves {wb} on to {wc}.",
        (
            "month lengths alternate irregularly, so going month by month is error-prone; day numbers avoid that.",
            "astronomers use a continuous count, the Julian day number, for exactly this purpose.",
            "contracts may count the first day, the last day, both or neither, [so it is worth checking|so the "
            "wording matters].",
            "spreadsheets store dates as day numbers as well, which is why subtracting two cells gives days.",
        ),
        a=date_text(first),
        b=date_text(second),
        c=date_text(third),
        n=f"{comma(gap)} days",
        weeks=times(gap // 7, "full week"),
        rest=times(gap % 7, "day"),
        r=str(gap % 7),
        years=times(years, "complete year") if years else "less than a complete year",
        leap=(
            "no 29 February lies in between"
            if not leap_days
            else f"29 February occurs {'once' if leap_days == 1 else f'{leap_days} times'} on the way"
        ),
        wa=WEEKDAYS[first.weekday()],
        wb=WEEKDAYS[second.weekday()],
        wc=WEEKDAYS[third.weekday()],
        more=comma(gap + 1),
    )


@kind(300, 350)
def leap_years(rng: random.Random, start: int, span: int) -> Draft:
    """How many leap years there are in a range."""
    start += 1601
    end = start + span + 20
    fours, hundreds, four_hundreds = (end // n - (start - 1) // n for n in (4, 100, 400))
    count = fours - hundreds + four_hundreds
    following = next(year for year in range(end + 1, end + 9) if calendar.isleap(year))
    years = end - start + 1
    return lesson(
        rng,
        f"the leap years from {start} to {end}",
        "how many leap years [are there|does one count|does the Gregorian calendar have] from {a} to {b}, both years "
        "included, and [what|which] rule decides?",
        "a year is a leap year when it is divisible by 4, [except for|but not] full centuries, which must be "
        "divisible by 400. From {a} to {b} there are {f} multiples of 4. The number of [years|those] divisible by "
        "100, which [must be taken away|do not count], is {h}, and the number of those divisible by 400, which [must "
        "be added back|count again], is {q}. The result is {f} − {h} + {q} = {n} leap years. [That is|This makes] "
        "{share}% of the {years} years in the range.",
        "which leap year comes [first|next] after {b}, and how many days do the years from {a} to {b} have "
        "[altogether|in all]?",
        "the next leap year after {b} is {next}. The range from {a} to {b} has {years} years, {n} of them with 366 "
        "days and the [other|remaining] {common} with 365. That makes {years} × 365 + {n} = {days} days, or {weeks} "
        "weeks with a remainder of {r}. [The average|On average a] year [length in the range is|of the range has] "
        "{mean} days, close to the 365.2425 days of a full Gregorian cycle.",
        (
            "the year 2000 was a leap year, but 1900 was not, and 2100 will not be one either.",
            "the rule keeps the calendar in step with the seasons: a tropical year lasts about 365.2422 days.",
            "the older Julian calendar had a leap year every four years [without exception|throughout], which is "
            "slightly too many.",
            "in a cycle of 400 years there are always exactly 97 leap years.",
        ),
        a=str(start),
        b=str(end),
        f=str(fours),
        h=str(hundreds),
        q=str(four_hundreds),
        n=str(count),
        share=decimal(100 * count / years, 1),
        years=str(years),
        next=str(following),
        common=str(years - count),
        days=comma(years * 365 + count),
        weeks=comma((years * 365 + count) // 7),
        r=times((years * 365 + count) % 7, "day"),
        mean=decimal((years * 365 + count) / years, 4),
    )


def clock(minutes: int) -> str:
    """Return a time such as `07:45`, given the minutes since midnight."""
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def length_text(minutes: int) -> str:
    """Return a length of time such as `2 hours and 5 minutes`."""
    hours, rest = divmod(minutes, 60)
    parts = [times(number, unit) for number, unit in ((hours, "hour"), (rest, "minute")) if number]
    return " and ".join(parts) or "0 minutes"


def _when(minutes: int) -> str:
    days = minutes // 1440
    return {0: "the same day", 1: "the next day", -1: "the day before"}.get(
        days, f"{abs(days)} days {'later' if days > 0 else 'earlier'}"
    )


@kind(1440, 2800)
def clock_arithmetic(rng: random.Random, start: int, span: int) -> Draft:
    """Adding a length of time to a clock time, and taking it away."""
    span += 75
    end, back = start + span, start - span
    return lesson(
        rng,
        f"the time {length_text(span)} after {clock(start)}",
        "[what|which] time is it {d} after {a} on a 24-hour clock, and is that still the same day?",
        "{d} are {m} minutes in all, and {a} is {am} minutes after midnight. The sum is {am} + {m} = {sum} minutes. A "
        "day has 1,440 minutes, so divide by that: the quotient says how many days have passed, and the remainder is "
        "the time. Here the remainder is {rest}, which is {b}. So {d} after {a} the clock shows {b}, {when}. On a "
        "12-hour clock that [reads|would be] {twelve}.",
        "and what time was it {d} before {a}?",
        "now {m} minutes are subtracted: {am} − {m} = {diff}. [When|If] the result is negative, whole days of 1,440 "
        "minutes are added until it lies between 0 and 1,439, [and|where] each added day means one day back on the "
        "calendar. That leaves {brest} minutes after midnight. So {d} before {a} it was {c}, {bwhen}. The two "
        "results, {b} and {c}, lie {double} apart.",
        (
            "this is arithmetic modulo 1,440, in the same way as weekdays are arithmetic modulo seven.",
            "the clock is assumed to run evenly: a change to or from daylight saving time would shift the result by "
            "an hour.",
            "[doing|handling] hours and minutes separately works as well, but every overflow of 60 minutes has to be "
            "carried to the hours.",
            "noon is 12:00 and midnight is 00:00 on the 24-hour clock, which avoids the usual confusion about 12 a.m. "
            "and 12 p.m.",
        ),
        d=length_text(span),
        m=comma(span),
        a=clock(start),
        am=comma(start),
        sum=comma(end),
        rest=comma(end % 1440),
        b=clock(end),
        when=_when(end),
        twelve=_twelve(end),
        diff=comma(start - span),
        brest=comma(back % 1440),
        c=clock(back),
        bwhen=_when(back),
        double=length_text(2 * span),
    )


def _twelve(minutes: int) -> str:
    hour = minutes // 60 % 24
    return f"{(hour - 1) % 12 + 1}:{minutes % 60:02} in the {'morning' if hour < 12 else 'afternoon or evening'}"


_FAMILIES: Final = {
    1: "the alkali metals",
    2: "the alkaline earth metals",
    13: "the boron group",
    14: "the carbon group",
    15: "the nitrogen group",
    16: "the oxygen group",
    17: "the halogen column",
    18: "the noble gas column",
}


def _position(number: int) -> str:
    period, group = place_of(number)
    if number == 1:
        return "period 1 and group 1, above the alkali metals without being one"
    if group is None:
        series = "lanthanides" if period == 6 else "actinides"
        return f"period {period}, in the row of the {series} that is usually drawn below the main table"
    return f"period {period} and group {group}, which belongs to {_FAMILIES.get(group, 'the d-block')}"


def _gas_before(number: int) -> str:
    gas = max((z for z in NOBLE_GASES if z < number), default=0)
    if not gas:
        return f"For {ELEMENTS[number - 1][1]} there is none, since its only shell is the first one"
    extra = number - gas
    return (
        f"For {ELEMENTS[number - 1][1]} it is {ELEMENTS[gas - 1][1]} with number {gas}, which leaves "
        f"{times(extra, 'electron')} beyond that core"
    )


@kind(118, 117)
def chemical_elements(rng: random.Random, first: int, second: int) -> Draft:
    """Symbols and places of two elements."""
    x, y = first + 1, second + 1 + (second >= first)
    (sx, nx), (sy, ny) = ELEMENTS[x - 1], ELEMENTS[y - 1]
    between = abs(x - y) - 1
    px, py = place_of(x), place_of(y)
    column = "the same group" if px.group == py.group and px.group else "different columns"
    if px.group is None and py.group is None:
        column = "the separate rows below the table, without a group number"
    return lesson(
        rng,
        f"the elements {nx} and {ny} in the periodic table",
        "what are the symbols and atomic numbers of {nx} and {ny}, and where do [they|these two elements] stand in "
        "the periodic table?",
        "{nx} has the symbol {sx} and the atomic number {x}; it stands in period {px_text}. {ny} has the symbol {sy} "
        "and the atomic number {y}; it stands in period {py_text}. The atomic number is the number of protons in the "
        "nucleus and, in a neutral atom, also the number of electrons. The two are in {row}, and in {column}. "
        "[Elements in one column|Members of a group] [tend to|usually] [behave|react] alike, as their outer shells "
        "have the same structure.",
        "how many elements lie between {nx} and {ny}, and which noble gas precedes each of them?",
        "[by|in order of] atomic number, {nx} ({x}) and {ny} ({y}) are {apart} apart, so {between} between them. The "
        "noble gases are helium, neon, argon, krypton, xenon, radon and, formally, oganesson. [Electron "
        "configurations|Configurations] are often [abbreviated|shortened] with the last noble gas before the element. "
        "{gx}. {gy}. [The remaining electrons|Those extra electrons] [largely|mostly] decide the chemistry.",
        (
            "the modern table is ordered by atomic number, not by mass, which settled some odd places in Mendeleev's "
            "version.",
            "118 elements have been named so far; the latest four names were approved in 2016.",
            "isotopes of an element share the atomic number but differ in the number of neutrons.",
            "several symbols come from Latin names, such as Fe from ferrum and Pb from plumbum.",
        ),
        nx=nx,
        ny=ny,
        sx=sx,
        sy=sy,
        x=str(x),
        y=str(y),
        px_text=_position(x).removeprefix("period "),
        py_text=_position(y).removeprefix("period "),
        row="the same period" if px.period == py.period else "different periods",
        column=column,
        apart=str(between + 1),
        between="no other element lies"
        if not between
        else "1 element lies"
        if between == 1
        else f"{between} elements lie",
        gx=_gas_before(x),
        gy=_gas_before(y),
    )


@kind(len(PLANETS), 1200)
def planet_weight(rng: random.Random, planet: int, mass: int) -> Draft:
    """What a mass weighs on another planet, and the planet's figures."""
    name, order, gravity, year, width, light = PLANETS[planet]
    mass += 2
    fall, home = math.sqrt(20 / gravity), math.sqrt(20 / 9.81)
    scale = gravity / 9.81
    return lesson(
        rng,
        f"the weight of {comma(mass)} kg on {name}",
        "what [would|does] an object with a mass of {m} kg weigh on {p}, [compared with|in comparison with] its "
        "weight on Earth?",
        "weight is mass times the acceleration of gravity. On {p} that acceleration{cloud} is about {g} metres per "
        "second squared, against 9.81 on Earth. So the weight on {p} is {m} × {g} ≈ {there} newtons, whereas it is "
        "{m} × 9.81 ≈ {here} newtons on Earth. The ratio is about {ratio}. A spring scale made for Earth would "
        "[show|read] about {shown} kg, although the mass is {m} kg [everywhere|in both places].",
        "how long would [that|the] {m} kg object take to fall 10 metres on {p} without air, and what are the planet's "
        "year, size and distance in light travel time?",
        "without air, the time is the square root of 2 × 10 ÷ {g}, about {fall} seconds, compared with {home} seconds "
        "on Earth; the mass of {m} kg does not matter. {p} is the {order} planet from the Sun. It needs about {year} "
        "for one orbit, has a diameter of about {width} km at the equator, and sunlight takes roughly {light} minutes "
        "to reach it. For Earth these figures are 365.25 days, 12,756 km and 8.3 minutes.",
        (
            "mass measures how much matter there is, and it is the same anywhere; weight is a force and depends on "
            "the place.",
            "surface gravity depends on both the mass and the radius of a planet, which is why a huge planet need not "
            "have a huge pull.",
            "the figures are rounded, since gravity varies a little with latitude and height.",
            "a beam balance compares masses, so it would give the same reading on every planet.",
        ),
        m=comma(mass),
        p=name,
        g=decimal(gravity),
        cloud=", taken at the cloud tops because there is no solid surface," if planet >= 3 else "",
        there=decimal(mass * gravity, 1),
        here=decimal(mass * 9.81, 1),
        ratio=decimal(scale),
        shown=decimal(mass * scale, 1),
        fall=decimal(fall),
        home=decimal(home),
        order=order,
        year=year,
        width=width,
        light=light,
    )


def _coast(country: Country) -> str:
    return f"{country.name} is landlocked" if country.landlocked else f"{country.name} has a coast"


@kind(len(COUNTRIES), len(COUNTRIES) - 1)
def capitals(rng: random.Random, first: int, second: int) -> Draft:
    """The capitals and continents of two countries."""
    x, y = COUNTRIES[first], COUNTRIES[second + (second >= first)]
    same = x.continent == y.continent
    order = sorted((x, y), key=lambda country: country.capital)
    return lesson(
        rng,
        f"the capitals of {x.name} and {y.name}",
        "[what|which cities] are the capitals of {x} and {y}, and on which [continent does each of the two "
        "countries|continents do these two countries] lie?",
        "the capital of {x} is {cx}, and the capital of {y} is {cy}. {x} lies in {kx} and {y} lies in {ky}, so the "
        "two countries are on {same}. [In alphabetical order|Sorted by name], {o1} comes before {o2} among the two "
        "cities. [Note that|Keep in mind that] a capital is the seat of [the|a] state by law or custom, and that it "
        "is not always the largest city: Canberra, Ottawa and Ankara are [well-known|familiar] [examples|cases] of "
        "smaller capitals.",
        "are {x} and {y} landlocked, or do they have a coast on the open sea?",
        "{coast_x}, and {coast_y}. A country counts as landlocked when it has no coast on a sea that is part of the "
        "world ocean; the shore of an inland sea or lake does not [change that|count]. {summary} The capitals, {cx} "
        "in {x} and {cy} in {y}, need not lie near the border or the shore in either case. Some states even "
        "[moved|shifted] the capital inland on purpose, as Brazil and Nigeria did.",
        (
            "there are more than forty landlocked countries, and most of them are in Africa, Europe and Asia.",
            "Liechtenstein and Uzbekistan are doubly landlocked: every one of their neighbours is landlocked too.",
            "capitals do change: Brasília replaced Rio de Janeiro in 1960, and Abuja replaced Lagos in 1991.",
            "borders between continents are conventions, so lists may differ for countries that lie on two of them.",
        ),
        x=x.name,
        y=y.name,
        cx=x.capital,
        cy=y.capital,
        kx=x.continent,
        ky=y.continent,
        same="the same continent" if same else "different continents",
        o1=order[0].capital,
        o2=order[1].capital,
        coast_x=_coast(x),
        coast_y=_coast(y),
        summary=(
            "So both are landlocked."
            if x.landlocked and y.landlocked
            else "So neither of them is landlocked."
            if not x.landlocked and not y.landlocked
            else "So the two differ in this respect."
        ),
    )


@kind(40, 16, 60)
def uniform_acceleration(rng: random.Random, speed: int, rate: int, span: int) -> Draft:
    """Speed and distance under a constant acceleration."""
    rate, span = rate + 2, span + 2
    a = rate / 2
    end = speed + a * span
    far = speed * span + a * span * span / 2
    start = f"at {speed} metres per second" if speed else "from rest"
    return lesson(
        rng,
        f"a start {start} with {decimal(a)} m/s² for {span} seconds",
        "[a body|an object] starts {start} and [accelerates|speeds up] [evenly|constantly] at {a} m/s² for {t} "
        "seconds. [How fast is it then|What speed does it reach], and how far has it [come|moved]?",
        "with a constant acceleration the speed grows linearly: v = {u} + {a} × {t} = {v} metres per second, which is "
        "{kmh} kilometres per hour. The distance is the average speed times the time. The average of {u} and {v} is "
        "{mean} metres per second, and over {t} seconds that makes {s} metres. The [usual|textbook] formula, s = ut + "
        "at²/2, gives the same: {ut} + {att} = {s}. In a diagram of speed against time, this is the area under the "
        "line.",
        "if that object (a start {start}, then {a} m/s² for {t} seconds) brakes afterwards with 4 m/s², [how long and "
        "how far does it take to stop|what time and distance does it need to stop]?",
        "the braking begins at {v} metres per second, the speed after a start {start} and {t} seconds at {a} m/s². "
        "Braking with 4 m/s² takes {v} ÷ 4 = {bt} seconds. The average speed during that time is half of {v}, so the "
        "stopping distance is v² ÷ (2 × 4) ≈ {bs} metres. [Together with|Adding] the {s} metres from before, the "
        "object has moved about {all} metres in all. Twice the speed would mean four times the braking distance.",
        (
            "air resistance and friction are neglected here; in practice they make the gain in speed smaller.",
            "metres per second become kilometres per hour when multiplied by 3.6.",
            "the acceleration of a freely falling body near the ground is about 9.81 m/s², for comparison.",
            "the formulas hold only as long as the acceleration stays constant; otherwise one has to integrate.",
        ),
        start=start,
        u=str(speed),
        a=decimal(a),
        t=str(span),
        v=decimal(end),
        kmh=decimal(end * 3.6, 1),
        mean=decimal((speed + end) / 2),
        s=decimal(far),
        ut=decimal(speed * span),
        att=decimal(a * span * span / 2),
        bt=decimal(end / 4),
        bs=decimal(end * end / 8),
        all=decimal(far + end * end / 8),
    )


@kind(120, 30, 40)
def heating_water(rng: random.Random, mass: int, cold: int, rise: int) -> Draft:
    """The energy that warms water, and the time it takes."""
    mass, cold, rise = mass + 2, cold + 5, rise + 15
    joules = 4.19 * mass * rise
    power = 2 if mass < 60 else 6
    minutes = joules / power / 60
    return lesson(
        rng,
        f"the energy to heat {mass} kg of water from {cold} to {cold + rise} °C",
        "how much energy does it take to [heat|warm] {m} kg of water from {c} °C to {h} °C, in kilojoules and in "
        "kilowatt hours?",
        "the energy is mass times specific heat times the rise in temperature. Water needs about 4.19 kilojoules per "
        "kilogram and degree, and the rise from {c} °C to {h} °C is {d} degrees. So the energy is {m} × 4.19 × {d} ≈ "
        "{kj} kilojoules. A kilowatt hour is 3,600 kilojoules, which makes about {kwh} kilowatt hours. [Losses|Heat "
        "lost] to the vessel and the air [come|would come] on top of that.",
        "how long would a {p} kW heater [need|take] for those {m} kg from {c} to {h} °C, and what would happen with "
        "[double|twice] the power?",
        "a heater of {p} kW delivers {p} kilojoules every second. For {m} kg of water from {c} to {h} °C it therefore "
        "needs {kj} ÷ {p} ≈ {sec} seconds, [or|which is] about {min} minutes, if no heat is lost. With twice the "
        "power the time would be halved, about {half} minutes, while the energy of about {kwh} kilowatt hours would "
        "stay the same. In practice a faster heater even [loses|wastes] [a little|slightly] less, because there is "
        "less time for heat to escape.",
        (
            "water has an unusually high specific heat; iron, for instance, needs only about 0.45 kilojoules per "
            "kilogram and degree.",
            "the specific heat of water changes slightly with temperature, but by less than one percent between 0 and "
            "100 °C.",
            "evaporating water takes far more energy: about 2,260 kilojoules per kilogram at the boiling point.",
            "one litre of water has a mass of about one kilogram, so litres can be used in place of kilograms.",
        ),
        m=str(mass),
        c=str(cold),
        h=str(cold + rise),
        d=str(rise),
        p=str(power),
        kj=comma(round(joules)),
        kwh=decimal(joules / 3600, 2),
        sec=comma(round(joules / power)),
        min=decimal(minutes, 1),
        half=decimal(minutes / 2, 1),
    )


@kind(390, 490)
def electric_circuit(rng: random.Random, volts: int, ohms: int) -> Draft:
    """Ohm's law, and two resistors in series or in parallel."""
    volts, ohms = volts + 3, ohms + 10
    amps = volts / ohms
    return lesson(
        rng,
        f"{volts} volts across {ohms} ohms",
        "what current flows when a voltage of {v} volts is applied to a resistor of {r} ohms, and how much power [is "
        "turned into heat|does the resistor take]?",
        "Ohm's law says that the current is the voltage divided by the resistance: {v} ÷ {r} ≈ {i} amperes, or {ma} "
        "milliamperes. The power is voltage times current, {v} × {v} ÷ {r} ≈ {p} watts, all of which becomes heat in "
        "the resistor. [Running|Left on] for an hour, it would turn about {wh} watt hours into heat. A real part must "
        "be rated for [at least|more than] that power, or it overheats.",
        "and what changes if a second resistor of {r} ohms is connected, once in series and once in parallel, still "
        "with {v} volts?",
        "in series the resistances add up to {series} ohms, so the current falls to {i_s} amperes, and each resistor "
        "gets half of the {v} volts, which is {half} volts. In parallel both resistors of {r} ohms get the full {v} "
        "volts; together they act like {par} ohms, and the total current doubles to {i_p} amperes. The total power is "
        "about {p_s} watts in series and {p_p} watts in parallel, a ratio of one to four.",
        (
            "currents through the body are dangerous well below one ampere, so mains voltages are not for experiments.",
            "Ohm's law holds for ordinary resistors at a constant temperature; lamps and diodes behave differently.",
            "resistors in parallel always have a smaller resistance together than the smallest one alone.",
            "in a series circuit the current is the same everywhere, while in a parallel circuit the voltage is.",
        ),
        v=str(volts),
        r=str(ohms),
        i=decimal(amps, 4),
        ma=decimal(amps * 1000, 1),
        p=decimal(volts * amps, 3),
        wh=decimal(volts * amps, 3),
        series=comma(2 * ohms),
        i_s=decimal(amps / 2, 4),
        half=decimal(volts / 2, 1),
        par=decimal(ohms / 2, 1),
        i_p=decimal(2 * amps, 4),
        p_s=decimal(volts * amps / 2, 3),
        p_p=decimal(2 * volts * amps, 3),
    )


KINDS: Final = (
    *(unit_conversion, temperature_conversion, weekday_of_date, days_between, leap_years, clock_arithmetic),
    *(chemical_elements, planet_weight, capitals, uniform_acceleration, heating_water, electric_circuit),
)
