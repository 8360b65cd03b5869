"""Limits: what each says of a finding, what is not judged, and that wider ones never fail more."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from symmetric import TYPES, symmetric

from generation.errors import UserError
from personamem_builder.audit.audit import audit_splits
from personamem_builder.audit.gates import Gate, Judged, Limit, failed, judge, read_gates
from personamem_builder.audit.records import AuditedSplit, Finding, Verdict
from personamem_builder.statistics import simultaneous_interval


def rate(value: float = 0.27, error: float = 0.02, n: int = 200, **changes: Any) -> Finding:
    """Return a rate of right answers with an interval of two errors to either side."""
    finding = Finding(
        "surface.longest", "32k", "all", value, value - 2 * error, value + 2 * error, error, n, clusters=20, chance=0.25
    )
    return finding._replace(**changes)


def count(value: float, check: str = "integrity.letters") -> Finding:
    return Finding(check, "32k", value=value, n=200)


def under(finding: Finding, **limit: Any) -> Judged:
    [judged] = judge([finding], {"*": Gate(all=Limit(**limit), types=Limit(**limit))})
    return judged


ONE_PERSONA = rate()._replace(low=None, high=None, error=None, clusters=1)


# --- one limit, one finding


@pytest.mark.parametrize(
    ("finding", "limit", "said", "verdict"),
    [
        (count(0), {"max": 0}, "at most 0", "pass"),
        (count(1), {"max": 0}, "at most 0", "FAIL"),
        (count(0.1 + 0.2), {"max": 0.3}, "at most 0.3", "pass"),  # what rounding adds is no fault
        (count(0.01), {"min": 0.01}, "at least 0.01", "pass"),
        (count(0.009), {"min": 0.01}, "at least 0.01", "FAIL"),
        (rate(0.35), {"max_above_chance": 0.10}, "at most 35.0", "pass"),
        (rate(0.36), {"max_above_chance": 0.10}, "at most 35.0", "FAIL"),
        (rate(0.40, chance=0.5), {"max_above_chance": 0.0}, "at most 50.0", "pass"),
        (rate(0.28), {"not_above_chance": 0.95}, "25.0 at least 24.5", "pass"),
        (rate(0.29), {"not_above_chance": 0.95}, "25.0 at least 25.5", "FAIL"),
        (rate(0.10), {"not_above_chance": 0.95}, "25.0 at least 6.8", "pass"),
        (rate(0.28), {"holds_chance": 0.95}, "25.0 within 23.9 to 32.4", "pass"),
        (rate(0.32), {"holds_chance": 0.95}, "25.0 within 27.8 to 36.4", "FAIL"),
        (rate(0.18), {"holds_chance": 0.95}, "25.0 within 14.0 to 22.6", "FAIL"),
    ],
)
def test_a_limit(finding: Finding, limit: dict[str, float], said: str, verdict: Verdict) -> None:
    judged = under(finding, **limit)
    assert (judged.finding, judged.limit, judged.verdict) == (finding, said, verdict)


def test_of_several_limits_each_has_to_be_met() -> None:
    judged = under(rate(0.27), min=0.1, max=0.26)
    assert (judged.limit, judged.verdict) == ("at most 0.26; at least 0.1", "FAIL")
    assert under(rate(0.26), min=0.1, max=0.26).verdict == "pass"


@pytest.mark.parametrize(
    ("finding", "limit"),
    [
        (Finding("text.gold_in_context", "32k", needs="contexts"), {"max": 0, "min": 0, "holds_chance": 0.95}),
        (rate(n=99), {"max": 0.0, "min_n": 100}),
        (rate(), {}),
        (rate(), {"min_n": 10}),
        # One persona has no interval, and a count has no chance.
        (
            rate()._replace(low=None, high=None, error=None, clusters=1),
            {"not_above_chance": 0.95, "holds_chance": 0.95},
        ),
        (count(7), {"max_above_chance": 0.0, "not_above_chance": 0.95, "holds_chance": 0.95}),
    ],
)
def test_what_cannot_be_judged_neither_passes_nor_fails(finding: Finding, limit: dict[str, float]) -> None:
    assert under(finding, **limit) == Judged(finding, "", "")


def test_enough_questions_are_judged() -> None:
    assert under(rate(n=100), max=0.0, min_n=100).verdict == "FAIL"


def test_all_questions_and_types_have_limits_of_their_own() -> None:
    gates = {"*": Gate(all=Limit(max=0.2), types=Limit(max=0.3))}
    verdicts = [one.verdict for one in judge([rate(), rate(slice=TYPES[0]), rate(slice=TYPES[1])], gates)]
    assert verdicts == ["FAIL", "pass", "pass"]


def test_the_first_pattern_that_fits_decides() -> None:
    strict, lenient, none = (Gate(all=Limit(max=most)) for most in (0.2, 0.3, None))
    findings = [rate(check=check) for check in ("surface.longest", "surface.central", "probe.words", "cue.words")]
    gates = {"surface.longest": lenient, "surface.*": strict, "probe.*": none, "*.words": strict}
    assert [one.verdict for one in judge(findings, gates)] == ["pass", "FAIL", "", "FAIL"]
    reordered = {pattern: gates[pattern] for pattern in ("surface.*", "surface.longest", "*.words", "probe.*")}
    assert [one.verdict for one in judge(findings, reordered)] == ["FAIL", "FAIL", "FAIL", "FAIL"]
    assert [one.verdict for one in judge(findings, {"model.*": strict})] == [""] * 4


def test_findings_come_back_in_their_order() -> None:
    findings = [rate(0.5), count(0), rate(0.25), Finding("text.persona_overlap", "32k", needs="contexts")]
    judged = judge(findings, {"*": Gate(all=Limit(max=0.3))})
    assert [one.finding for one in judged] == findings
    assert failed(judged) == judged[:1]


# --- many intervals at once


def widths(findings: list[Finding], gates: dict[str, Gate]) -> list[str]:
    return [one.limit for one in judge(findings, gates)]


def test_intervals_of_a_gate_and_a_split_are_as_wide_as_their_number_asks_for() -> None:
    holds = Gate(all=Limit(holds_chance=0.95), types=Limit(holds_chance=0.95, min_n=30))
    gates = {"surface.*": holds, "text.*": holds}
    findings = [
        *(rate(check=f"surface.{name}") for name in "abc"),
        *(rate(check=f"surface.{name}", slice=slice_) for name in "abc" for slice_ in TYPES[:2]),
        *(rate(check=f"surface.{name}", split="128k") for name in "ab"),
        rate(check="text.persona_overlap"),
        rate(check="surface.a", slice=TYPES[2], n=29),  # is not judged, and so misses nothing
        Finding("surface.d", "32k", needs="contexts"),
    ]
    *said, too_few, not_made = widths(findings, gates)
    for limit, number in zip(said, (3,) * 3 + (6,) * 6 + (2,) * 2 + (1,), strict=True):
        low, high = simultaneous_interval(0.27, 0.02, 20, 0.95, number) or (0, 0)
        assert limit == f"25.0 within {100 * low:.1f} to {100 * high:.1f}"
    assert (too_few, not_made) == ("", "")


def test_one_sided_tests_have_the_whole_tail() -> None:
    gates = {"probe.*": Gate(all=Limit(not_above_chance=0.95))}
    low, _ = simultaneous_interval(0.27, 0.02, 20, 0.95, 2, sides=1) or (0, 0)
    assert widths([rate(check="probe.a"), rate(check="probe.b")], gates) == [f"25.0 at least {100 * low:.1f}"] * 2
    assert low == pytest.approx((simultaneous_interval(0.27, 0.02, 20, 0.95, 1) or (0, 0))[0])


def test_tests_count_pairs_of_persona_and_topic_where_there_are_any() -> None:
    many = rate(0.35, 0.03)
    gates = {"*": Gate(all=Limit(not_above_chance=0.9996))}
    assert [one.verdict for one in judge([many], gates)] == ["pass"]
    assert [one.verdict for one in judge([many._replace(error=0.025, units=300)], gates)] == ["FAIL"]


def test_what_fails_alone_may_be_luck_among_many() -> None:
    gates = {"surface.*": Gate(all=Limit(holds_chance=0.95))}
    odd = rate(0.30)
    assert [one.verdict for one in judge([odd], gates)] == ["FAIL"]
    assert {one.verdict for one in judge([odd, *[rate(0.25)] * 49], gates)} == {"pass"}


# --- what could have been found


def detectable(finding: Finding, gates: dict[str, Gate] | None = None) -> float | None:
    [judged] = judge([finding], gates or {"*": Gate(all=Limit(not_above_chance=0.99))})
    return judged.detectable


def test_a_leak_of_the_size_that_is_said_is_found_nine_times_in_ten() -> None:
    """Answers of 40 personas, 25 each, that are independent: how often is that many right above chance?"""
    rng = np.random.default_rng(3)
    gates = {"*": Gate(all=Limit(not_above_chance=0.99))}
    # Each table says another size, as its error is an estimate.
    size = float(np.mean([detectable(answers(rng.random((40, 25)) < 0.25)) or 0.0 for _ in range(100)]))
    for excess, least, most in ((size, 0.86, 0.95), (0.0, 0.0, 0.03), (size / 2, 0.1, 0.5)):
        tries = [answers(rng.random((40, 25)) < 0.25 + excess) for _ in range(400)]
        assert least <= sum(judge([one], gates)[0].verdict == "FAIL" for one in tries) / 400 <= most


def answers(right: Any) -> Finding:
    """Return what is found of a table of answers, a row for each persona."""
    means = right.mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means))
    return rate(float(means.mean()), float(error), right.size, clusters=len(means))


def test_more_questions_find_smaller_leaks() -> None:
    sizes = [detectable(rate(0.25, error)) or 0.0 for error in (0.005, 0.01, 0.02, 0.04)]
    assert sizes == sorted(sizes)
    assert sizes[0] > 0


def test_a_leak_makes_credits_whole_where_options_tied() -> None:
    whole = math.sqrt(0.25 * 0.75 / 200)
    assert detectable(rate(0.25, whole / 5)) == detectable(rate(0.25, whole))


def test_a_cap_finds_what_is_too_large_to_be_luck() -> None:
    few = rate(0.25, 0.08)
    tested, capped = (
        detectable(few, {"*": Gate(all=Limit(not_above_chance=0.9996, max_above_chance=most))}) for most in (None, 0.1)
    )
    assert tested is not None
    assert capped is not None
    assert 0.1 < capped < tested


def test_what_is_not_tested_finds_nothing() -> None:
    assert detectable(ONE_PERSONA) is None
    assert detectable(count(3)) is None
    assert detectable(rate(), {"*": Gate(all=Limit(max=0.3))}) is None
    assert detectable(rate(0.25, 0.25, n=4, clusters=2)) is None, "all right may be luck"


FRACTION = st.floats(0, 1)
FINDINGS = st.lists(
    st.builds(
        lambda value, error, n, name, chance: rate(value, error, n, check=f"surface.{name}", chance=chance),
        FRACTION,
        st.floats(0, 0.3),
        st.integers(1, 300),
        st.sampled_from("abc"),
        st.sampled_from([0.25, 0.5, None]),
    ),
    min_size=1,
    max_size=6,
)
LIMITS = st.fixed_dictionaries(
    {
        "max": st.none() | FRACTION,
        "min": st.none() | FRACTION,
        "max_above_chance": st.none() | st.floats(-0.5, 0.5),
        "not_above_chance": st.none() | st.floats(0.01, 0.99),
        "holds_chance": st.none() | st.floats(0.01, 0.99),
    }
)


@given(FINDINGS, LIMITS, st.lists(st.floats(0, 0.5), min_size=5, max_size=5))
def test_a_wider_limit_never_fails_what_passed(
    findings: list[Finding], limits: dict[str, float | None], by: list[float]
) -> None:
    wider = {
        name: None if value is None else value - more if name == "min" else value + more
        for (name, value), more in zip(limits.items(), by, strict=True)
    }
    for (name, value), more in zip(limits.items(), by, strict=True):
        if value is not None and name in ("not_above_chance", "holds_chance"):
            wider[name] = value + more * (1 - value)
    before = judge(findings, {"*": Gate(all=Limit(**limits))})
    after = judge(findings, {"*": Gate(all=Limit(**wider))})
    for one, other in zip(before, after, strict=True):
        assert (one.verdict, other.verdict) != ("pass", "FAIL"), (one, other)
        assert bool(one.verdict) == bool(other.verdict)


# --- the file


def written(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    text = "surface.longest: {}\nsurface.*:\n  all: {max: 0.3}\n  types: {holds_chance: 0.9, min_n: 5}\n"
    assert list(read_gates(written(tmp_path, text)).items()) == [
        ("surface.longest", Gate()),
        ("surface.*", Gate(all=Limit(max=0.3), types=Limit(holds_chance=0.9, min_n=5))),
    ]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("probe.*: {al: {max: 1}}", ["unknown key 'probe.*.al'"]),
        ("probe.*: {all: {maximum: 1}}", ["unknown key 'probe.*.all.maximum'"]),
        ("probe.*: {all: {max: much}}", ["probe.*.all.max: ", "(it is 'much')"]),
        ("probe.*: {types: {holds_chance: 95}}", ["probe.*.types.holds_chance: ", "less than 1", "(it is 95)"]),
        ("probe.*: 3\ncue.*: {all: 4}", ["probe.*: ", "(it is 3)", "cue.*.all: ", "(it is 4)"]),  # all at once
        ("probe.*: {all: {max: 1", ["is not YAML: line 2"]),
        ("probe.*: {all: {max: .nan}}", ["probe.*.all.max: ", "finite"]),
        ("probe.*: {all: {max: true}}", ["probe.*.all.max: ", "(it is True)"]),
        ("probe.*: {all: {min_n: -1}}", ["probe.*.all.min_n: ", "(it is -1)"]),
        ("probe.*: {all: {max: 2021-13-45}}", ["is not YAML: line 1", "'2021-13-45'"]),
        ("probe.*: {all: {max: 1}}\nprobe.*: {}", ["'probe.*' stands twice"]),
        ("- probe.*", ["valid dictionary"]),
        ("", ["valid dictionary"]),
    ],
)
def test_a_file_that_says_something_else_is_an_error_that_names_it(
    tmp_path: Path, text: str, faults: list[str]
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as raised:
        read_gates(path)
    assert raised.value.message.startswith(f"{path}")
    assert all(fault in raised.value.message for fault in faults), raised.value.message
    assert "gates.yaml" in raised.value.hint


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.yaml", tmp_path, binary):
        with pytest.raises(UserError, match=re.escape(str(path))):
            read_gates(path)


# --- the release standard

UNJUDGED = {
    "cue.words",
    "balance.merged_labels",
    "text.option_in_context",
    "integrity.repeated_questions",
    "integrity.across_personas",
    "model.oracle",
    "model.full",
    "model.context_gain",
    "model.full_minus_wrong_user",
}
"""Checks without a limit, on purpose: they describe a benchmark, or a model."""


@pytest.fixture(scope="module")
def checks() -> set[str]:
    """The names of all checks."""
    split = symmetric(personas=4, each=12)
    arms = {arm: dict.fromkeys([row["question_id"] for row in split.rows], 0.5) for arm in ("no_context", "wrong_user")}
    findings = audit_splits([split], {}, {split.name: arms}).judged
    return {one.finding.check for one in findings}


def test_every_check_has_a_limit_or_is_known_to_have_none(checks: set[str]) -> None:
    gates = read_gates()
    limited = {
        check
        for check in checks
        if judge([rate(check=check, n=2000), rate(check=check, n=2000, slice=TYPES[0])], gates)[0].verdict
    }
    assert checks - limited == UNJUDGED
    groups = {check.partition(".")[0] for check in checks}
    assert groups == {"surface", "probe", "cue", "balance", "text", "integrity", "reader", "history", "model"}


def test_no_pattern_of_the_standard_is_idle_or_hidden(checks: set[str]) -> None:
    """A pattern that comes after a wider one, or fits no check, would say something that is not done."""
    seen: set[str] = set()
    for pattern in read_gates():
        own = {check for check in checks if judge([rate(check=check)], {pattern: Gate(all=Limit(max=1))})[0].verdict}
        assert own - seen, pattern
        seen |= own


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (rate(0.28, 0.01, check="probe.words"), "pass"),
        (rate(0.32, 0.01, check="probe.words"), "FAIL"),
        (rate(0.1, 0.01, check="probe.words"), "pass"),
        (rate(0.1, 0.01, check="surface.longest"), "FAIL"),
        (rate(0.41, 0.1, n=40, check="probe.words"), "FAIL"),  # whatever the error
        (rate(0.41, 0.1, n=40, slice=TYPES[0], check="probe.words"), "pass"),
        (rate(0.61, 0.1, n=40, slice=TYPES[0], check="probe.words"), "FAIL"),
        (rate(0.61, 0.1, n=29, slice=TYPES[0], check="probe.typed"), ""),
        (count(1.0, "reader.evidence"), "pass"),
        (count(0.999, "reader.evidence"), "FAIL"),
        (count(1, "integrity.orphan_contexts"), "FAIL"),
        (count(1, "reader.replay"), "FAIL"),
        (count(0.001, "balance.letters"), "pass"),
        (count(0.0003, "balance.letters"), "FAIL"),
        (count(17, "balance.identical_options"), "FAIL"),
        (rate(0.27, 0.02, check="model.no_context"), "pass"),
        (rate(0.36, 0.02, check="model.no_context"), "FAIL"),
    ],
)
def test_the_standard(finding: Finding, verdict: Verdict) -> None:
    assert judge([finding], read_gates())[0].verdict == verdict


def test_the_standard_judges_no_split_by_what_it_lacks() -> None:
    split = symmetric(personas=4, each=12)
    alone = AuditedSplit("alone", [{k: v for k, v in row.items() if k not in LACKING} for row in split.rows])
    judged = audit_splits([alone], read_gates()).judged
    lacking = [one for one in judged if one.finding.needs]
    assert {one.finding.needs for one in lacking} >= {"contexts", "generated data"}
    assert {one.verdict for one in lacking} == {""}


LACKING = {"shared_context_id", "end_index_in_shared_context", "option_states", "evidence_message_indices"}
