"""Trained probes: what each can learn and what it cannot, that nothing leaks into it, and the official release."""

from __future__ import annotations

import json
import math
import random
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import symmetric as controls
from hypothesis import given, settings
from hypothesis import strategies as st
from official_splits import official_questions

from personamem_builder.audit.audit import Audit
from personamem_builder.audit.probes import PROBES, probe_credits, probe_findings
from personamem_builder.audit.records import ALL, AuditedSplit, Finding, accuracy_findings

TYPES = ("suggest_new_ideas", "recall_user_shared_facts")
VOCABULARY = ["".join(pair) for pair in zip(string.ascii_lowercase * 3, string.ascii_lowercase[5:] * 4, strict=False)]


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(VOCABULARY, k=count))


def question(name: str, persona: int, texts: Sequence[str], answer: int, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": name,
        "persona_id": persona,
        "question_type": TYPES[0],
        "user_question_or_message": "And now?",
        "all_options": [f"({letter}) {text}" for letter, text in zip(string.ascii_lowercase, texts, strict=False)],
        "answer_index": answer,
        **changes,
    }


def benchmark(
    text: Callable[[random.Random, bool, dict[str, Any]], str],
    changes: Callable[[random.Random], dict[str, Any]] = lambda rng: {},
    *,
    options: int = 4,
    personas: int = 10,
    each: int = 30,
    seed: int = 0,
) -> AuditedSplit:
    """Return questions whose options are made by `text`, which is told whether they are right."""
    rng = random.Random(seed)
    rows = []
    for i in range(personas * each):
        changed, answer = changes(rng), rng.randrange(options)
        texts = [text(rng, j == answer, changed) for j in range(options)]
        rows.append(question(f"q{i}", i % personas, texts, answer, **changed))
    return AuditedSplit("small", rows)


def scores(split: AuditedSplit) -> dict[str, float]:
    return means(probe_credits(split))


def means(credits_: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: sum(of_probe) / len(of_probe) for name, of_probe in credits_.items()}


def of_type(rng: random.Random) -> dict[str, Any]:
    return {"question_type": rng.choice(TYPES)}


def briefly_or_fully(rng: random.Random) -> dict[str, Any]:
    return {"user_question_or_message": f"Tell me {words(rng, 2)} {rng.choice(['briefly', 'fully'])}"}


LEAKS = {
    "lengths": benchmark(lambda rng, right, _: words(rng, rng.choice([9, 10] if right else [6, 7, 8])), options=2),
    "words": benchmark(
        lambda rng, right, _: f"{words(rng, 5)} {'later' if right and rng.random() < 0.95 else 'maybe'}", options=2
    ),
    "cross": benchmark(
        lambda rng, right, row: words(rng, 8 if right == ("fully" in row["user_question_or_message"]) else 4),
        briefly_or_fully,
        options=2,
    ),
    "typed": benchmark(
        lambda rng, right, row: words(rng, 8 if right == (row["question_type"] == TYPES[0]) else 4), of_type, options=2
    ),
}
"""For each probe a shortcut that it finds, and that those before it cannot see."""


@pytest.mark.parametrize("leak", PROBES)
def test_a_probe_finds_what_it_can_see_and_only_that(leak: str) -> None:
    for name, score in scores(LEAKS[leak]).items():
        if PROBES.index(name) < PROBES.index(leak):
            assert score < 0.6, name
        else:
            assert score > 0.85, name


def test_an_echo_of_the_question_is_seen_by_the_probes_that_read_it() -> None:
    def text(rng: random.Random, right: bool, row: dict[str, Any]) -> str:
        return f"{words(rng, 4)} {row['user_question_or_message'].split()[-1] if right else words(rng, 1)}"

    found = scores(benchmark(text, lambda rng: {"user_question_or_message": f"What about {words(rng, 1)}"}))
    assert found["lengths"] < 0.35
    assert found["words"] < 0.35
    assert found["cross"] > 0.75
    assert found["typed"] > 0.75


def symmetric(seed: int, each: int = 70) -> AuditedSplit:
    """Return questions whose right option was drawn last, from options that are all made alike."""
    return benchmark(lambda rng, _, __: words(rng, rng.randint(2, 5)), of_type, personas=20, each=each, seed=seed)


@pytest.mark.slow
def test_with_shuffled_golds_no_probe_exceeds_its_limit_more_often_than_its_level_says() -> None:
    """A score at chance has an interval above chance in 1 of 40 cases."""
    findings = [finding for seed in range(20) for finding in overall(symmetric(seed))]
    for name in PROBES:
        own = [finding for finding in findings if finding.check == f"probe.{name}"]
        # Of 20 cases with a probability of 0.025, more than 2 are met once in 70.
        assert sum(finding.low > finding.chance for finding in own) <= 2, name
        assert sum(finding.value for finding in own) / 20 == pytest.approx(0.25, abs=0.01), name


def overall(split: AuditedSplit) -> list[Finding]:
    return [finding for finding in probe_findings(split, probe_credits(split)) if finding.slice == ALL]


@pytest.mark.slow
def test_without_a_shortcut_all_probes_are_near_chance() -> None:
    for finding in overall(symmetric(1, each=30)):
        assert finding.value == pytest.approx(0.25, abs=0.05), finding.check


def test_a_question_that_one_persona_asks_many_times_is_not_learned_from_itself() -> None:
    rng = random.Random(0)
    rows = []
    for persona in range(20):
        texts, answer = [words(rng, 4) for _ in range(4)], rng.randrange(4)
        rows += [question(f"q{persona}-{i}", persona, texts, answer) for i in range(15)]
    assert max(scores(AuditedSplit("small", rows)).values()) < 0.6  # 20 independent questions
    shared = [{**row, "persona_id": i % 2} for i, row in enumerate(rows)]
    found = scores(AuditedSplit("small", shared))
    assert found["words"] > 0.95
    assert found["typed"] > 0.95


@st.composite
def small_benchmarks(draw: st.DrawFn) -> AuditedSplit:
    text = st.lists(st.sampled_from(["plum", "pear", "Pear", "fig", "?"]), max_size=3).map(" ".join)
    rows = []
    for i in range(draw(st.integers(3, 9))):
        texts = draw(st.lists(text, min_size=1, max_size=5))
        answer = draw(st.integers(0, len(texts) - 1))
        persona = i if i < 2 else draw(st.integers(0, 3))
        kind = draw(st.sampled_from(TYPES))
        rows.append(question(f"q{i}", persona, texts, answer, question_type=kind, user_question_or_message=draw(text)))
    return AuditedSplit("small", rows)


@settings(max_examples=25)
@given(small_benchmarks(), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_any_number_of_options_and_their_order_tells_nothing(split: AuditedSplit, rng: random.Random) -> None:
    moved = []
    for row in split.rows:
        texts = [option[4:] for option in row["all_options"]]
        order = rng.sample(range(len(texts)), len(texts))
        answer = order.index(row["answer_index"])
        moved.append({**row, **question("", 0, [texts[i] for i in order], answer), **identity(row)})
    found = probe_credits(split)
    assert probe_credits(AuditedSplit("moved", moved)) == found
    for credits_ in found.values():
        for row, credit in zip(split.rows, credits_, strict=True):
            texts = [option[4:] for option in row["all_options"]]
            same = texts.count(texts[row["answer_index"]])
            assert credit in [0.0, *(1 / ties for ties in range(same, len(texts) + 1))]


def identity(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("all_options", "answer_index")}


def test_identical_options_share_the_credit() -> None:
    leak = LEAKS["lengths"]
    twins = [
        {**row, "all_options": [*row["all_options"], f"(c) {row['all_options'][row['answer_index']][4:]}"]}
        for row in leak.rows
    ]
    assert set(probe_credits(AuditedSplit("twins", twins))["lengths"]) == {0.5}
    same = [{**row, "all_options": [f"({letter}) x" for letter in "abcd"]} for row in leak.rows]
    assert {credit for credits_ in probe_credits(AuditedSplit("same", same)).values() for credit in credits_} == {0.25}


def test_one_persona_teaches_nothing_about_itself() -> None:
    split = AuditedSplit("one", [{**row, "persona_id": 3} for row in LEAKS["lengths"].rows])
    credits_ = probe_credits(split)
    findings = probe_findings(split, credits_)
    assert [(finding.check, finding.value, finding.needs) for finding in findings] == [
        (f"probe.{name}", None, "two personas") for name in PROBES
    ]


def test_two_personas_suffice() -> None:
    split = AuditedSplit("two", [{**row, "persona_id": row["persona_id"] % 2} for row in LEAKS["words"].rows])
    assert scores(split)["words"] > 0.75


def test_findings_are_overall_and_for_each_type() -> None:
    split = LEAKS["typed"]
    credits_ = probe_credits(split)
    findings = probe_findings(split, credits_)
    assert [finding.check for finding in findings if finding.slice == ALL] == [f"probe.{name}" for name in PROBES]
    assert {finding.slice for finding in findings if finding.check == "probe.typed"} == {ALL, *TYPES}
    for finding in findings:
        own = [
            credit
            for row, credit in zip(split.rows, credits_[finding.check.removeprefix("probe.")], strict=True)
            if finding.slice in (ALL, row["question_type"])
        ]
        assert finding.value == pytest.approx(sum(own) / len(own))
        assert (finding.n, finding.clusters, finding.chance) == (len(own), 10, 0.5)


@pytest.mark.slow
def test_another_process_finds_the_same(python: Callable[..., Any]) -> None:
    split = symmetric(5, each=10)
    code = (
        "import json, sys; from personamem_builder.audit.probes import probe_credits; "
        "from personamem_builder.audit.records import AuditedSplit; "
        "print(json.dumps(probe_credits(AuditedSplit('x', json.load(open('rows.json'))))))"
    )
    for seed in ("1", "2"):
        prepared = f"import json; json.dump({list(split.rows)!r}, open('rows.json', 'w'))\n{code}"
        assert json.loads(python(prepared, PYTHONHASHSEED=seed).stdout) == probe_credits(split)


@pytest.mark.parametrize(
    "name", ["32k", pytest.param("128k", marks=pytest.mark.slow), pytest.param("1M", marks=pytest.mark.slow)]
)
def test_the_official_release_is_answered_without_reading_it(name: str, official_audit: Audit) -> None:
    credits_ = official_audit.probes["32k"] if name == "32k" else probe_credits(official_questions(name))
    found = means(credits_)
    assert found["typed"] > 0.8
    assert found["lengths"] > 0.5
    assert found["lengths"] < found["words"] < found["cross"] < found["typed"] + 0.02


def test_errors_and_intervals_know_that_folds_learn_from_each_other() -> None:
    """Of 12 personas in ten folds by sqrt(1 + 10 / 9), of two in two by sqrt(3)."""
    for personas, wider in ((12, math.sqrt(19 / 9)), (2, math.sqrt(3))):
        split = controls.symmetric(personas=personas, each=48)
        credits_ = probe_credits(split)
        for finding in probe_findings(split, credits_):
            if finding.slice == ALL:
                [plain, *_] = accuracy_findings(finding.check, split, credits_[finding.check.removeprefix("probe.")])
                assert finding.error == pytest.approx(wider * plain.error)
                assert finding.low == pytest.approx(max(0.0, plain.value - wider * (plain.value - plain.low)))
                assert finding.high == pytest.approx(min(1.0, plain.value + wider * (plain.high - plain.value)))


def test_an_exact_interval_is_not_widened() -> None:
    split = controls.symmetric(personas=4, each=12)
    right = {name: [1.0] * len(split.rows) for name in PROBES}
    plain = accuracy_findings("probe.words", split, right["words"])[0]
    assert next(one for one in probe_findings(split, right) if one.check == "probe.words") == plain
