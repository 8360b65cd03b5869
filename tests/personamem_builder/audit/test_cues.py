from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, ttest_1samp

from personamem_builder.audit.cues import Occurrence, cue_findings, p_value
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.official.faults import Faults
from personamem_builder.official.questions_csv import read_questions

Row = dict[str, Any]
RECALL, IDEAS = "recall_user_shared_facts", "suggest_new_ideas"


def row(persona: int, number: int, options: Sequence[str], answer: int, **more: object) -> Row:
    return {
        "persona_id": persona,
        "question_id": f"{persona}-{number}",
        "question_type": RECALL,
        "topic": f"topic {number % 3}",
        "user_question_or_message": f"question {number} of {persona}",
        "all_options": [f"({'abcd'[i]}) {text}" for i, text in enumerate(options)],
        "answer_index": answer,
    } | more


def symmetric(seed: int, personas: int = 10, questions: int = 30, words: int = 12) -> list[Row]:
    """Every word stands in two of the four options, and the right one is drawn after them."""
    rng = random.Random(seed)
    rows = []
    for persona, number in itertools.product(range(personas), range(questions)):
        options = [[f"own{persona}x{number}x{i}"] for i in range(4)]
        for word in range(words):
            for chosen in rng.sample(options, 2):
                chosen.append(f"word{word}")
        rows.append(row(persona, number, [" ".join(option) for option in options], rng.randrange(4)))
    return rows


def planted(rows: Sequence[Row], word: str, rate: float, right: bool = True) -> list[Row]:
    """Add a word to the right option, or else to a wrong one, of a share of the questions."""
    rng = random.Random(word)
    changed = []
    for question in rows:
        options = list(question["all_options"])
        if rng.random() < rate:
            wrong = rng.choice([i for i in range(4) if i != question["answer_index"]])
            options[question["answer_index"] if right else wrong] += f", {word}!"
        changed.append(question | {"all_options": options})
    return changed


def overall(rows: Sequence[Mapping[str, Any]]) -> Finding:
    return cue_findings(AuditedSplit("a split", rows))[0]


def test_a_word_in_most_right_options_is_found_and_nothing_else():
    finding = overall(planted(symmetric(1), "Indeed", 0.6))
    assert (finding.check, finding.split, finding.slice) == ("cue.words", "a split", "all")
    assert (finding.value, finding.n, finding.clusters) == (1, 13, 10)
    assert '"indeed" in 100 % of' in finding.note
    assert "by chance 25 %" in finding.note
    assert "word" not in finding.note


def test_the_examples_are_questions_that_the_strongest_word_answers():
    rows = planted(symmetric(1), "indeed", 0.6)
    by_id = {question["question_id"]: question for question in rows}
    examples = overall(rows).examples
    assert len(set(examples)) == 5
    for question in (by_id[example] for example in examples):
        assert "indeed" in question["all_options"][question["answer_index"]]


def words(split: AuditedSplit) -> list[Finding]:
    """Return what is found of words, without how likely any is."""
    return [finding for finding in cue_findings(split) if finding.check == "cue.words"]


def any_word(rows: list[dict[str, Any]]) -> float:
    [finding] = [one for one in cue_findings(AuditedSplit("a split", rows)) if one.check == "cue.any_word"]
    assert finding.value is not None
    return finding.value


def test_how_likely_chance_is_to_make_any_word_as_telling() -> None:
    assert any_word(planted(symmetric(2), "indeed", 0.6)) < 0.0004
    assert min(any_word(symmetric(seed)) for seed in range(20, 30)) > 0.0004
    assert any_word(symmetric(2)[:4]) == 1.0, "no word is tested"


def test_a_word_that_only_wrong_options_have_is_a_cue_too():
    rows = planted(symmetric(2), "never", 0.6, right=False)
    finding = overall(rows)
    assert finding.value == 1
    assert '"never" in 0 % of' in finding.note
    by_id = {question["question_id"]: question for question in rows}
    assert len(finding.examples) == 5
    for question in (by_id[example] for example in finding.examples):
        assert "never" not in question["all_options"][question["answer_index"]]


def test_a_cue_of_one_type_is_found_in_that_type():
    rows = [question | {"question_type": IDEAS} for question in planted(symmetric(3, questions=10), "indeed", 0.6)]
    rows += [question | {"question_id": f"r{question['question_id']}"} for question in symmetric(4)]
    found = {finding.slice: finding.value for finding in words(AuditedSplit("a split", rows))}
    assert found == {"all": 1, IDEAS: 1, RECALL: 0}


@pytest.mark.slow
def test_golds_drawn_by_lot_have_no_cue_words_more_often_than_their_level():
    """A false discovery rate of 5 % where nothing is true is a false alarm in 5 % of data sets: here 1 of 25."""
    alarms = sum(overall(symmetric(seed)).value > 0 for seed in range(20, 45))
    assert alarms <= 2


def test_words_that_stand_in_all_options_or_seldom_are_not_tested():
    rows = [row(i % 4, i, ["the red", "the blue", "the green", "the grey"], 0) for i in range(9)]
    assert overall(rows).n == 0
    rows.append(row(1, 9, ["the red", "the blue", "the green", "the pink"], 0))
    assert overall(rows).n == 3  # red, blue and green; not the, not grey


def test_contractions_are_one_word_and_case_does_not_matter():
    rows = [row(i % 5, i, ["I'M in", "in", "in", "in"], 0) for i in range(30)]
    finding = overall(rows)
    assert (finding.value, finding.n) == (1, 1)
    assert '"i\'m" in 100 % of 30' in finding.note


def test_a_word_of_one_persona_is_no_cue():
    rows = planted(symmetric(5, personas=1, questions=60), "indeed", 0.6)
    assert overall(rows).value == 0


def test_what_users_hold_is_no_cue_though_each_is_asked_about_it_again_and_again():
    """Every user holds one of four hobbies in each topic, and all questions about a topic are about that one.

    Questions are then far from independent: taken as if they were, most hobbies would be cues.
    """
    alarms = 0
    for seed in range(15):
        rng = random.Random(seed)
        rows = []
        for persona, topic in itertools.product(range(12), range(6)):
            held, *others = rng.sample([f"hobby{topic}x{i}" for i in range(20)], 4)
            for number in range(8):
                options = rng.sample([held, *others], 4)
                rows.append(row(persona, 10 * topic + number, options, options.index(held), topic=f"topic {topic}"))
        alarms += overall(rows).value > 0
    assert alarms <= 1


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
@pytest.mark.slow
def test_order_and_repetition_change_nothing(rng, seed):
    rows = planted(symmetric(seed, personas=6, questions=8, words=4), "indeed", 0.6)
    expected = overall(rows)
    again = []
    for question in rng.sample(rows, len(rows)) + rng.sample(rows, 20):
        order = rng.sample(range(4), 4)
        texts = [question["all_options"][i][len("(a) ") :] for i in order]
        labelled = [f"({'abcd'[i]}) {text}" for i, text in enumerate(texts)]
        again.append(question | {"all_options": labelled, "answer_index": order.index(question["answer_index"])})
    found = overall(again)
    assert (found.value, found.n, found.note) == (expected.value, expected.n, expected.note)


def test_an_empty_split_has_no_cues():
    assert overall([])._replace(split="") == Finding("cue.words", "", value=0, n=0)


def outcome(persona: int, chance: float, hit: bool, topic: str = "") -> Occurrence:
    return Occurrence("a question", persona, topic, chance, hit)


draws = st.lists(st.tuples(st.sampled_from([0.25, 0.5, 0.75]), st.booleans()), min_size=2, max_size=8)


@given(draws)
def test_p_is_the_largest_of_its_three_bounds(pairs):
    """Against every way that the hits could have come out, and scipy's t test; one question a persona."""
    chances, hits = [chance for chance, _ in pairs], [hit for _, hit in pairs]
    law = [0.0] * (len(pairs) + 1)
    for ways in itertools.product([False, True], repeat=len(pairs)):
        law[sum(ways)] += math.prod(c if way else 1 - c for c, way in zip(chances, ways, strict=True))
    exact = 2 * min(math.fsum(law[: sum(hits) + 1]), math.fsum(law[sum(hits) :]))
    excess = [hit - chance for chance, hit in pairs]
    clustered = 0.0 if len(set(excess)) == 1 else float(ttest_1samp(excess, 0.0).pvalue)
    mean = sum(chances) / len(chances)
    luck = 2 * (mean if sum(excess) > 0 else 1 - mean) ** len(pairs)
    found = p_value([outcome(i, chance, hit) for i, (chance, hit) in enumerate(pairs)])
    assert found == pytest.approx(min(1.0, max(exact, clustered, luck)), abs=1e-9)


def test_p_is_exact_where_personas_are_many_and_even():
    found = p_value([outcome(index // 5, 0.75, hit=index % 5 != 0) for index in range(300)])  # 4 hits of 5 in each
    assert found == pytest.approx(2 * binom.sf(239, 300, 0.75), rel=1e-6)


def test_p_does_not_fall_by_asking_again():
    """Three personas that each hit in one topic are three cases, however often they are asked."""
    asked_once = [outcome(persona, 0.25, True) for persona in range(3)]
    assert p_value(asked_once) == p_value(asked_once * 40) == 2 * 0.25**3
    more_topics = [outcome(persona, 0.25, True, topic) for persona in range(3) for topic in "abc"]
    assert p_value(more_topics) == pytest.approx(2 * 0.25**9)


def test_the_official_questions_have_cue_words(release_dir: Path) -> None:
    faults = Faults()
    findings = words(AuditedSplit("32k", read_questions(release_dir / "questions_32k.csv", faults)))
    found = {finding.slice: finding for finding in findings}
    assert found["all"].value > 10
    assert '"remember"' in found["all"].note
    assert all(finding.value > 0 for finding in findings)
    assert found["suggest_new_ideas"].value > 30  # its right options are short, and say "might"


@pytest.mark.slow
def test_official_questions_with_golds_drawn_by_lot_have_none(release_dir: Path) -> None:
    rows = read_questions(release_dir / "questions_32k.csv", Faults())
    alarms = 0
    for seed in range(20):
        rng = random.Random(seed)
        alarms += overall([question | {"answer_index": rng.randrange(4)} for question in rows]).value > 0
    assert alarms <= 1
