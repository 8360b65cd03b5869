from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_banks import count_expansions

from generation.grammar import (
    TemplateError,
    expand,
    expand_phrase,
    mentions,
    parse,
    pattern,
    slot_names,
)

words = st.text("abcdefg ", min_size=1, max_size=8)
templates = st.recursive(
    words | st.just("{item}"),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.lists(inner, min_size=1, max_size=3).map(lambda branches: f"[{'|'.join(branches)}]")
    ),
    max_leaves=8,
)


def every_expansion(template: str, tries: int = 400) -> set[str]:
    return {expand_phrase(template, random.Random(i), item="tea", when="today") for i in range(tries)}


def test_choices_are_made_inside_brackets_and_slots_are_filled() -> None:
    assert every_expansion("I [drank|made [too much|a little]] {item}") == {
        "I drank tea",
        "I made too much tea",
        "I made a little tea",
    }


def test_an_empty_choice_leaves_no_double_blank() -> None:
    assert every_expansion("it was [really |]good") == {"it was really good", "it was good"}


def test_sentences_begin_with_capitals_and_phrases_do_not() -> None:
    rng = random.Random(0)
    assert (
        expand("it rained. then it stopped! was it {item}?", rng, item="tea")
        == "It rained. Then it stopped! Was it tea?"
    )
    assert expand_phrase("the rain", rng) == "the rain"


def test_expansion_depends_on_the_generator_alone() -> None:
    template = "[a|b|c] [d|e|f] [g|h|i]"
    assert expand(template, random.Random(5)) == expand(template, random.Random(5))
    assert len({expand(template, random.Random(i)) for i in range(300)}) == count_expansions(template) == 27


@pytest.mark.parametrize("template", ["[a|b", "a|b", "a]", "{", "a } b", "{Big}", "{}"])
def test_templates_that_cannot_be_read_are_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        parse(template)


def test_a_slot_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="when"):
        expand("{item} {when}", random.Random(0), item="tea")


@given(templates)
def test_a_pattern_finds_every_expansion_in_a_longer_text(template: str) -> None:
    for text in every_expansion(template, tries=20):
        if text:
            assert pattern(template).search(f"And then: {text}. So it was.")


@given(templates)
def test_expansions_are_at_most_as_many_as_counted(template: str) -> None:
    assert len(every_expansion(template, tries=60)) <= count_expansions(template)


def test_slot_names_are_found_at_any_depth() -> None:
    assert slot_names("{a} [b|[{c}|{d}]]") == {"a", "c", "d"}


def test_a_pattern_tells_two_templates_apart() -> None:
    likes, dislikes = pattern("I [really |]enjoyed it"), pattern("I was [bored|tired] by it")
    assert likes.search("Yesterday I enjoyed it.")
    assert not dislikes.search("Yesterday I enjoyed it.")


@pytest.mark.parametrize(
    ("text", "phrase", "found"),
    [
        ("we took night trains home", "night trains", True),
        ("Night trains".lower(), "night trains", True),
        ("fortnight trains", "night trains", False),
        ("night trainspotting", "night trains", False),
        ("fortnight trains, then night trains.", "night trains", True),
    ],
)
def test_a_phrase_is_mentioned_as_whole_words_only(text: str, phrase: str, found: bool) -> None:
    assert mentions(text, phrase) is found
