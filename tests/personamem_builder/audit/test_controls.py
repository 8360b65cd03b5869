"""Controls: a benchmark without a shortcut passes the release standard; with one leak, that leak is named and no other.

`symmetric` makes the benchmark and plants the leaks. What each leak must make fail, and may, is written down here;
everything else must pass.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import symmetric as controls
from symmetric import ADVERBS, NOUNS, TYPES, Leak, symmetric

from personamem_builder.audit.audit import Audit, audit_splits
from personamem_builder.audit.cues import cue_findings
from personamem_builder.audit.gates import read_gates
from personamem_builder.audit.history.reading import CHECKS
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.records import ALL, AuditedSplit
from personamem_builder.schema import option_texts

READ_WORDS: Final = {"probe.words", "probe.cross", "probe.typed"}
READ_QUESTIONS: Final = {"probe.cross", "probe.typed"}
LENGTHS: Final = {f"surface.{rule}" for rule in ("longest", "shortest", "longest_tokens", "shortest_tokens")}
LIKENESS: Final = {"surface.central", "surface.odd_one_out"}


class Control(NamedTuple):
    """What a leak does.

    Attributes:
        leak: The leak.
        must: Checks that fail, in each of the slices that they are judged in.
        may: Checks that may fail beside them, as they see a part of the same leak.
        slices: Where any may fail.
    """

    leak: Leak
    must: set[str]
    may: set[str]
    slices: frozenset[str] = frozenset({ALL, *TYPES})


CONTROLS = {
    "right options of one type are longer": Control(
        controls.longer_in_one_type,
        must={*LENGTHS, "surface.unique_longest", "probe.lengths", *READ_WORDS},
        may=set(),
        slices=frozenset({ALL, TYPES[0]}),
    ),
    "a word tells the right option": Control(
        controls.cue_word,
        must={"cue.any_word", *READ_WORDS},
        # Right options have a word in common with some of the wrong ones, these with each other less. And that word
        # is a stop word: options with it have one word less that no message has.
        may=LIKENESS | {*CHECKS, "history.polarity"},
    ),
    "the right option is too often the first": Control(
        controls.first_too_often,
        must={"balance.letters", "surface.position_a"},
        may={f"surface.position_{letter}" for letter in "bcd"},  # which are right less often then
    ),
    "wrong options are of another topic": Control(
        controls.distractors_of_another_topic,
        # The right one is unlike the others, and alone can echo the question.
        must={*LIKENESS, "surface.overlap", "surface.least_overlap", *READ_QUESTIONS},
        may={"text.persona_overlap"},  # words that wrong options share make them tie in any comparison of words
    ),
}


def audited(split: AuditedSplit) -> Audit:
    return audit_splits([split], read_gates())


def missed(found: Audit) -> set[tuple[str, str]]:
    """Return check and slice of what misses its limit."""
    return {(one.finding.check, one.finding.slice) for one in found.failed}


def judged(found: Audit) -> set[tuple[str, str]]:
    return {(one.finding.check, one.finding.slice) for one in found.judged if one.verdict}


# --- no leak


@pytest.mark.slow
def test_a_symmetric_benchmark_passes() -> None:
    found = audited(symmetric())
    assert missed(found) == set()
    assert len(judged(found)) > 90
    assert {slice_ for check, slice_ in judged(found) if check.startswith("probe.")} == {ALL, *TYPES}
    made = {one.finding.check.partition(".")[0] for one in found.judged if one.verdict}
    assert made == {"surface", "probe", "cue", "balance", "text", "integrity", "reader", "history"}


@pytest.mark.slow
def test_a_symmetric_benchmark_passes_whatever_the_seed() -> None:
    for seed in range(1, 6):
        assert missed(audited(symmetric(seed))) == set(), seed


# --- leaks


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
def test_a_leak_is_named_and_nothing_else(name: str) -> None:
    control = CONTROLS[name]
    found = audited(symmetric(leak=control.leak))
    assert loud(control, found) == control.must
    assert {check for check, _ in missed(found)} <= control.must | control.may
    assert {slice_ for _, slice_ in missed(found)} <= control.slices


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
def test_a_leak_is_loud_whatever_the_seed(name: str) -> None:
    control = CONTROLS[name]
    for seed in (1, 2):
        assert loud(control, audited(symmetric(seed, control.leak))) == control.must, seed


def loud(control: Control, found: Audit) -> set[str]:
    """Return which of the checks that must fail do so, wherever they are judged."""
    seen = {(check, slice_) for check, slice_ in judged(found) if slice_ in control.slices}
    quiet = {check for check, _ in seen - missed(found)}
    return control.must & {check for check, _ in seen} - quiet


def test_a_cue_word_is_said() -> None:
    overall, *_ = cue_findings(symmetric(leak=controls.cue_word))
    assert overall.note.startswith(f'the right option has "{ADVERBS[0]}" in ')


@pytest.mark.slow
def test_evidence_after_the_end_is_named_and_nothing_else() -> None:
    split = controls.evidence_after_end(symmetric())
    [failed] = audited(split).failed
    assert failed.finding.check == "integrity.evidence_after_end"
    assert failed.finding.examples == (split.rows[0]["question_id"],)


def test_an_outdated_answer_is_named_and_nothing_else(generated: Path) -> None:
    """Of generated data, since it takes their states."""
    [split] = read_splits(generated)
    row = next(row for row in split.rows if "outdated" in row["option_roles"])
    outdated = row["option_roles"].index("outdated")
    changed = {**row, "answer_index": outdated, "correct_answer": f"({'abcd'[outdated]})"}
    spoiled = dataclasses.replace(split, rows=[changed if other is row else other for other in split.rows])
    before, after = audited(split), audited(spoiled)
    # Chance may miss a limit with so few questions, of which one is another now.
    new = {one for one in missed(after) - missed(before) if not one[0].startswith(("probe.", "surface."))}
    assert new == {("reader.evidence", ALL), ("reader.replay", ALL)}
    for one in after.failed:
        if one.finding.check.startswith("reader."):
            assert one.finding.examples == (row["question_id"],)


# --- what is planted is what is said


def shares(split: AuditedSplit, text: str) -> tuple[float, float]:
    """Return in which share of the right options, and of the wrong ones, a text stands."""
    right = [text in option_texts(row)[row["answer_index"]] for row in split.rows]
    all_ = [text in option for row in split.rows for option in option_texts(row)]
    return sum(right) / len(right), (sum(all_) - sum(right)) / (len(all_) - len(right))


@pytest.mark.slow
def test_leaks_are_as_large_as_they_are_said_to_be() -> None:
    sound = symmetric(personas=20)
    assert shares(sound, ADVERBS[0]) == pytest.approx((0.1, 0.1), abs=0.02)
    assert shares(symmetric(leak=controls.cue_word, personas=20), ADVERBS[0]) == pytest.approx((0.6, 0.2), abs=0.03)

    first = symmetric(leak=controls.first_too_often, personas=20)
    assert sum(row["answer_index"] == 0 for row in first.rows) / len(first.rows) == pytest.approx(0.35, abs=0.03)

    rows = symmetric(leak=controls.longer_in_one_type, personas=20).rows
    for before, after in zip(sound.rows, rows, strict=True):
        texts, longer = option_texts(before), option_texts(after)
        added = [len(new) - len(old) for old, new in zip(texts, longer, strict=True)]
        share = 0.15 if before["question_type"] == TYPES[0] else 0
        assert added.pop(before["answer_index"]) == round(share * len(texts[before["answer_index"]]))
        assert set(added) == {0}

    for row in symmetric(leak=controls.distractors_of_another_topic, personas=20).rows:
        about = [any(noun in text for noun in NOUNS[row["topic"]]) for text in option_texts(row)]
        assert about == [i == row["answer_index"] for i in range(4)]
