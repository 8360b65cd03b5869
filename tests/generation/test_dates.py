from __future__ import annotations

import datetime as dt
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.dates import DatePhrases, spoken_day, spoken_past

days = st.dates(dt.date(2010, 1, 1), dt.date(2030, 12, 31))


def every_form(days_ago: int, today: dt.date = dt.date(2023, 6, 14)) -> set[str]:  # a Wednesday
    return {spoken_past(today - dt.timedelta(days=days_ago), today, random.Random(i)) for i in range(60)}


@pytest.mark.parametrize(
    ("days_ago", "forms"),
    [
        (0, {"this morning", "earlier today", "a few hours ago"}),
        (1, {"yesterday", "yesterday afternoon"}),
        (2, {"last Monday", "on Monday"}),
        (6, {"last Thursday", "on Thursday"}),
        (7, {"on Wednesday of last week", "a week ago"}),
        (9, {"on Monday of last week", "a week ago last Monday"}),
        (14, {"two weeks ago", "towards the end of May"}),
        (30, {"four weeks ago", "in the middle of May"}),
        (44, {"six weeks ago", "at the start of May"}),
        (45, {"six weeks ago", "towards the end of April"}),
        (46, {"two months ago", "back in April", "last April"}),
        (200, {"seven months ago", "back in November", "last November"}),
        (329, {"eleven months ago", "back in July", "last July"}),
        (330, {"in July 2022", "back in 2022", "in the summer of 2022"}),
        (2000, {"in December 2017", "back in 2017", "in the winter of 2017"}),
    ],
)
def test_a_day_is_spoken_of_as_people_do_at_its_distance(days_ago: int, forms: set[str]) -> None:
    assert every_form(days_ago) == forms


@given(days, st.integers(0, 4000), st.integers())
def test_a_past_day_never_sounds_like_the_future(today: dt.date, days_ago: int, seed: int) -> None:
    said = spoken_past(today - dt.timedelta(days=days_ago), today, random.Random(seed))
    assert not re.search(r"\b(next|tomorrow|will|coming|in \w+ (days|weeks|months))\b", said)
    assert all(int(year) <= today.year for year in re.findall(r"\d+", said))


@given(days, st.integers(2, 13), st.integers())
def test_a_named_day_of_the_week_is_the_day_that_is_meant(today: dt.date, days_ago: int, seed: int) -> None:
    date = today - dt.timedelta(days=days_ago)
    named = re.findall(r"\b\w+day\b", spoken_past(date, today, random.Random(seed)))
    assert all(name == date.strftime("%A") for name in named)


@given(days, st.integers(14, 4000), st.integers())
def test_a_named_month_and_year_are_those_that_are_meant(today: dt.date, days_ago: int, seed: int) -> None:
    date = today - dt.timedelta(days=days_ago)
    said = spoken_past(date, today, random.Random(seed))
    months = re.findall(r"\b(?:January|February|March|April|May|June|July|August|\w+ember|October)\b", said)
    assert all(month == date.strftime("%B") for month in months)
    assert all(int(year) == date.year for year in re.findall(r"\d+", said))


@given(days, st.integers(14, 329), st.integers())
def test_weeks_and_months_are_counted_to_the_nearest(today: dt.date, days_ago: int, seed: int) -> None:
    numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]
    said = spoken_past(today - dt.timedelta(days=days_ago), today, random.Random(seed))
    for word, length, slack in (("weeks", 7, 3.5), ("months", 30.4, 15.5)):
        if found := re.search(rf"(\w+) {word}", said):
            assert abs((numbers.index(found[1]) + 1) * length - days_ago) <= slack


@given(days, st.integers(7, 13), st.integers())
def test_last_week_is_the_calendar_week_before_this_one(today: dt.date, days_ago: int, seed: int) -> None:
    date = today - dt.timedelta(days=days_ago)
    if spoken_past(date, today, random.Random(seed)).endswith("last week"):
        mondays = [day - dt.timedelta(days=day.weekday()) for day in (date, today)]
        assert mondays[1] - mondays[0] == dt.timedelta(days=7)


def test_nobody_looks_back_at_the_current_year() -> None:
    assert "back in 2021" not in every_form(350, dt.date(2021, 12, 28))


@given(days, st.integers(0, 4000), st.integers())
def test_the_same_seed_says_the_same(today: dt.date, days_ago: int, seed: int) -> None:
    date = today - dt.timedelta(days=days_ago)
    assert spoken_past(date, today, random.Random(seed)) == spoken_past(date, today, random.Random(seed))


@pytest.mark.parametrize(
    ("date", "said"),
    [
        (dt.date(2020, 5, 1), "the first of May"),
        (dt.date(2020, 8, 3), "the third of August"),
        (dt.date(2020, 11, 12), "the twelfth of November"),
        (dt.date(2020, 2, 29), "the twenty-ninth of February"),
        (dt.date(2020, 12, 31), "the thirty-first of December"),
    ],
)
def test_a_day_is_an_ordinal_of_its_month(date: dt.date, said: str) -> None:
    assert spoken_day(date) == said


def test_every_day_of_a_year_has_a_name_of_its_own() -> None:
    year = [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(366)]
    said = [spoken_day(day) for day in year]
    assert len(set(said)) == 366
    assert all(name.endswith(f" of {day.strftime('%B')}") for name, day in zip(said, year, strict=True))


@given(days, st.lists(st.integers(0, 700), min_size=1, max_size=30), st.integers())
def test_in_a_talk_each_day_has_one_phrase_of_its_own(today: dt.date, days_ago: list[int], seed: int) -> None:
    phrases = DatePhrases(today, random.Random(seed))
    said = [(days, phrases.phrase(today - dt.timedelta(days=days))) for days in (*days_ago, *days_ago)]
    assert len({phrase for _, phrase in said}) == len(set(days_ago)) == len(set(said))
