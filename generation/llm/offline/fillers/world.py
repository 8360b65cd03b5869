"""The slots of fillers about units, the calendar, clocks, elements, planets, countries and physics."""

from __future__ import annotations

import calendar
import datetime as dt
import math
from fractions import Fraction
from typing import Final

from generation.llm.offline.fillers.formats import comma, decimal, how_many, ordinal, times
from generation.llm.offline.fillers.tables import Evaluator, Slots, distinct, tables


def date_text(day: dt.date) -> str:
    """Return a date such as `4 March 1987`."""
    return f"{day.day} {tables().months[day.month - 1]} {day.year}"


def weekday(day: dt.date) -> str:
    """Return the name of a date's weekday."""
    return tables().weekdays[day.weekday()]


def unit_conversion(unit: int, value: int) -> Slots:
    """From one unit to another and back."""
    entry = tables().units[unit]
    factor = entry.factor
    result, back = value * factor, value / factor
    near = round(value, -1 if value < 100 else -2) or 10
    return (
        {"v": comma(value), "s": entry.source, "t": entry.target, "why": entry.reason}
        | {"f": decimal(float(factor), 6), "inverse": decimal(float(1 / factor), 6)}
        | {"result": decimal(float(result), 3), "back": decimal(float(back), 3), "round": comma(near)}
        | {"rough": decimal(float(near * factor), 1)}
    )


_SCALES: Final = (("Celsius", "Fahrenheit"), ("Fahrenheit", "Celsius"), ("Celsius", "kelvin"), ("Fahrenheit", "kelvin"))


def temperature_conversion(scale: int, value: int) -> Slots:
    """Celsius, Fahrenheit and kelvin."""
    source, target = _SCALES[scale]
    value += value > 0  # one degree would be a singular
    exact = Fraction(value) if source == "Celsius" else Fraction(value - 32) * 5 / 9
    celsius, fahrenheit, kelvin = float(exact), float(exact * 9 / 5 + 32), float(exact + Fraction(27315, 100))
    water = "liquid" if 0 < celsius < 100 else "frozen" if celsius < 0 else "steam"
    return (
        {"v": comma(value), "s": source, "t": target, "c": decimal(celsius), "f": decimal(fahrenheit)}
        | {"k": decimal(kelvin), "steps": f"{source} to {target}", "result": target}
        | {"water": "changing" if celsius in (0, 100) else water}
    )


def weekday_of_date(day: int) -> Slots:
    """The weekday of a date by the doomsday rule, and its place in the year."""
    date = dt.date(1820, 1, 1) + dt.timedelta(day)
    leap = calendar.isleap(date.year)
    anchors = (4 if leap else 3, 29 if leap else 28, 14, 4, 9, 6, 11, 8, 5, 10, 7, 12)
    anchor = dt.date(date.year, date.month, anchors[date.month - 1])
    gap = (date - anchor).days
    number = date.timetuple().tm_yday
    iso = date.isocalendar()
    length = 365 + leap
    return (
        {"date": date_text(date), "weekday": weekday(date), "year": date.year, "dooms": weekday(anchor)}
        | {"month": tables().months[date.month - 1], "anchor": date_text(anchor).rpartition(" ")[0]}
        | {"move": "later" if gap > 0 else "earlier" if gap < 0 else "same", "gap": times(abs(gap), "day")}
        | {"is_leap": "leap" if leap else "common", "length": length, "nth": ordinal(number)}
        | {"left": how_many(length - number), "days_left": length - number, "week": iso.week, "iso_year": iso.year}
        | {"iso_day": iso.weekday}
    )


def days_between(day: int, gap: int) -> Slots:
    """The number of days between two dates."""
    first = dt.date(1910, 1, 1) + dt.timedelta(day)
    second = first + dt.timedelta(gap)
    years = second.year - first.year - ((second.month, second.day) < (first.month, first.day))
    leap_days = sum(
        first < dt.date(year, 2, 29) <= second for year in range(first.year, second.year + 1) if calendar.isleap(year)
    )
    third = second + dt.timedelta(gap)
    return (
        {"a": date_text(first), "b": date_text(second), "c": date_text(third), "n": times(gap, "day")}
        | {"weeks": times(gap // 7, "full week"), "rest": times(gap % 7, "day"), "r": gap % 7}
        | {"years": "some" if years else "none", "full": times(years, "complete year"), "leap": how_many(leap_days)}
        | {"leap_days": leap_days, "wa": weekday(first), "wb": weekday(second), "wc": weekday(third)}
        | {"more": comma(gap + 1)}
    )


def leap_years(start: int, span: int) -> Slots:
    """How many leap years there are in a range."""
    end = start + span
    fours, hundreds, four_hundreds = (end // n - (start - 1) // n for n in (4, 100, 400))
    count = fours - hundreds + four_hundreds
    following = next(year for year in range(end + 1, end + 9) if calendar.isleap(year))
    years = end - start + 1
    days = years * 365 + count
    return (
        {"b": end, "f": fours, "h": hundreds, "q": four_hundreds, "n": count}
        | {"share": decimal(100 * count / years, 1), "years": years, "next": following, "common": years - count}
        | {"days": comma(days), "weeks": comma(days // 7), "r": times(days % 7, "day")}
        | {"mean": decimal(days / years, 4)}
    )


def clock(minutes: int) -> str:
    """Return a time such as `07:45`, given the minutes since midnight."""
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def length_text(minutes: int) -> str:
    """Return a length of time such as `2 hours and 5 minutes`."""
    hours, rest = divmod(minutes, 60)
    parts = [times(number, unit) for number, unit in ((hours, "hour"), (rest, "minute")) if number]
    return " and ".join(parts) or "0 minutes"


def clock_arithmetic(start: int, span: int) -> Slots:
    """Adding a length of time to a clock time, and taking it away."""
    end, back = start + span, start - span
    days, days_back = end // 1440, -(back // 1440)
    half = "morning" if end % 1440 < 720 else "afternoon" if end % 1440 < 1080 else "evening"
    return (
        {"d": length_text(span), "m": comma(span), "a": clock(start), "am": comma(start), "sum": comma(end)}
        | {"after": times(start, "minute"), "rest": comma(end % 1440), "b": clock(end), "days": days}
        | {"when": "later" if days > 1 else "next" if days else "same", "half": half, "diff": comma(back)}
        | {"twelve": f"{(end // 60 - 1) % 12 + 1}:{end % 60:02}", "brest": times(back % 1440, "minute")}
        | {"c": clock(back), "bwhen": "earlier" if days_back > 1 else "before" if days_back else "same"}
        | {"bdays": days_back, "double": length_text(2 * span)}
    )


def _element(number: int, which: str) -> Slots:
    """Return the slots of one of the two elements; their names end in `which`."""
    elements = tables().elements
    symbol, name, period, group = elements[number - 1]
    place = "hydrogen" if number == 1 else "main" if group else "lanthanide" if period == 6 else "actinide"
    gas = max((gas for gas in tables().noble_gases if gas < number), default=0)
    slots = (
        {"": number, "s": symbol, "n": name, "place_": place, "period_": period, "group_": group}
        | {"family_": tables().families[(group or 1) - 1], "g": "some" if gas else "none"}
        | {"gas_": elements[gas - 1].name, "gas_number_": gas, "extra_": times(number - gas, "electron")}
    )
    return {key + which: value for key, value in slots.items()}


def chemical_elements(x: int, y: int) -> Slots:
    """Symbols and places of two elements."""
    y += y >= x
    between = abs(x - y) - 1
    px, py = (tables().elements[number - 1] for number in (x, y))
    column = "different" if px.group != py.group else "same" if px.group else "separate"
    return (
        {**_element(x, "x"), **_element(y, "y")}
        | {"row": "same" if px.period == py.period else "different", "column": column}
        | {"apart": between + 1, "between": how_many(between), "number_between": between}
    )


def planet_weight(planet: int, mass: int) -> Slots:
    """What a mass weighs on another planet, and the planet's figures."""
    entry = tables().planets[planet]
    gravity, scale = entry.gravity, entry.gravity / 9.81
    return (
        {"m": comma(mass), "p": entry.name, "g": decimal(gravity), "acceleration": "solid" if entry.solid else "gas"}
        | {"there": decimal(mass * gravity, 1), "here": decimal(mass * 9.81, 1), "ratio": decimal(scale)}
        | {"shown": decimal(mass * scale, 1), "fall": decimal(math.sqrt(20 / gravity))}
        | {"home": decimal(math.sqrt(20 / 9.81)), "order": entry.order, "year": entry.year, "width": entry.width}
        | {"light": entry.light}
    )


def capitals(first: int, second: int) -> Slots:
    """The capitals and continents of two countries."""
    x, y = distinct(tables().countries, first, second)
    order = sorted((x.capital, y.capital))
    landlocked = x.landlocked + y.landlocked
    return (
        {"x": x.name, "y": y.name, "cx": x.capital, "cy": y.capital, "kx": x.continent, "ky": y.continent}
        | {"same": "same" if x.continent == y.continent else "different", "o1": order[0], "o2": order[1]}
        | {"coast_x": "landlocked" if x.landlocked else "coastal"}
        | {"coast_y": "landlocked" if y.landlocked else "coastal", "summary": ("neither", "one", "both")[landlocked]}
    )


def uniform_acceleration(speed: int, rate: int, span: int) -> Slots:
    """Speed and distance under a constant acceleration."""
    a = rate / 2
    end = speed + a * span
    far = speed * span + a * span * span / 2
    return (
        {"start": "moving" if speed else "rest", "metres": times(speed, "metre"), "a": decimal(a), "v": decimal(end)}
        | {"kmh": decimal(end * 3.6, 1), "mean": decimal((speed + end) / 2), "s": decimal(far)}
        | {"ut": decimal(speed * span), "att": decimal(a * span * span / 2), "bt": decimal(end / 4)}
        | {"bs": decimal(end * end / 8), "all": decimal(far + end * end / 8)}
    )


def heating_water(mass: int, cold: int, rise: int) -> Slots:
    """The energy that warms water, and the time it takes."""
    joules = 4.19 * mass * rise
    power = 2 if mass < 60 else 6
    minutes = joules / power / 60
    slots = {"h": cold + rise, "p": power, "kj": comma(round(joules)), "kwh": decimal(joules / 3600, 2)}
    return slots | {"sec": comma(round(joules / power)), "min": decimal(minutes, 1), "half": decimal(minutes / 2, 1)}


def electric_circuit(volts: int, ohms: int) -> Slots:
    """Ohm's law, and two resistors in series or in parallel."""
    amps = volts / ohms
    return (
        {"i": decimal(amps, 4), "ma": decimal(amps * 1000, 1), "p": decimal(volts * amps, 3)}
        | {"series": comma(2 * ohms), "i_s": decimal(amps / 2, 4), "half": decimal(volts / 2, 1)}
        | {"par": decimal(ohms / 2, 1), "i_p": decimal(2 * amps, 4), "p_s": decimal(volts * amps / 2, 3)}
        | {"p_p": decimal(2 * volts * amps, 3)}
    )


EVALUATORS: Final[tuple[Evaluator, ...]] = (
    *(unit_conversion, temperature_conversion, weekday_of_date, days_between, leap_years, clock_arithmetic),
    *(chemical_elements, planet_weight, capitals, uniform_acceleration, heating_water, electric_circuit),
)
