"""An audit as text and as JSON: what is in them, and in which form."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from personamem_builder.audit import render
from personamem_builder.audit.audit import Audit
from personamem_builder.audit.gates import Judged
from personamem_builder.audit.records import AuditedSplit, Finding, Verdict

IDEAS, FACTS = "suggest_new_ideas", "recall_user_shared_facts"


DETECTABLE = {("probe.words", "all"): 0.08, ("probe.words", IDEAS): 0.2, ("probe.words", FACTS): None}
DETECTABLE["surface.longest", "all"] = 0.0712


def rate(check: str, value: float, verdict: Verdict = "", slice_: str = "all", **changes: Any) -> Judged:
    """Return a judged rate of right answers."""
    finding = Finding(check, "32k", slice_, value, value - 0.05, value + 0.05, 0.025, 60, 20, 0.25)
    judged = Judged(finding._replace(**changes), "25.0 at least 30.0" if verdict else "", verdict)
    return judged._replace(is_tested=bool(verdict), detectable=DETECTABLE[check, slice_] if verdict else None)


def count(check: str, value: float, verdict: Verdict = "", **changes: Any) -> Judged:
    return Judged(Finding(check, "32k", value=value, n=60)._replace(**changes), "at most 0" if verdict else "", verdict)


def lacks(check: str, needs: str, split: str = "32k") -> Judged:
    return Judged(Finding(check, split, needs=needs), "", "")


JUDGED = (
    rate("probe.words", 2 / 3, "FAIL", examples=("q1", "q2", "q3"), note="trained"),
    rate("probe.words", 0.5, "FAIL", IDEAS, examples=("q4",)),
    rate("probe.words", 0.25, "pass", FACTS, examples=("q5",), note="quiet"),
    rate("surface.longest", 0.24, "pass", note="characters"),
    rate("text.option_in_context", 0.1, low=None, high=None, error=None, clusters=1),
    count("balance.identical_options", 1234, "FAIL", examples=("q6", "q7", "q8")),
    count("balance.letters", 0.0417, "pass"),
    count("model.context_gain", 0.125, low=-0.031, high=0.281, clusters=20),
    lacks("text.gold_in_context", "contexts"),
    lacks("reader.evidence", "generated data"),
    lacks("integrity.letters", "contexts"),
    Judged(Finding("surface.longest", "128k", value=0.26, low=0.2, high=0.3, n=9, clusters=3, chance=0.25), "", "pass"),
    lacks("reader.evidence", "generated data", "128k"),
)


def split(name: str, personas: tuple[int, ...]) -> AuditedSplit:
    return AuditedSplit(name, [{"persona_id": persona, "question_type": IDEAS} for persona in personas])


AUDIT = Audit("personamem", "d1f2", JUDGED, [split("32k", (1, 1, 2)), split("128k", (5,))], {})


# --- JSON


def test_json_has_the_form_that_the_module_defines() -> None:
    found = render.to_json(AUDIT)
    assert {name: value for name, value in found.items() if name != "splits"} == {
        "format": "personamem-audit",
        "schema_version": 1,
        "source": "personamem",
        "digest": "d1f2",
        "passed": False,
    }
    assert [{name: value for name, value in part.items() if name != "findings"} for part in found["splits"]] == [
        {
            "split": "32k",
            "questions": 3,
            "personas": 2,
            "detectable": {"probe": {"all": 0.08, IDEAS: 0.2, FACTS: None}, "surface": {"all": 0.0712}},
        },
        {"split": "128k", "questions": 1, "personas": 1, "detectable": {}},
    ]
    assert found["splits"][0]["findings"][0] == {
        "check": "probe.words",
        "slice": "all",
        "value": 0.666667,
        "low": 0.616667,
        "high": 0.716667,
        "n": 60,
        "clusters": 20,
        "chance": 0.25,
        "limit": "25.0 at least 30.0",
        "verdict": "FAIL",
        "detectable": 0.08,
        "examples": ["q1", "q2", "q3"],
        "note": "trained",
        "needs": "",
    }


def test_json_holds_every_finding_of_every_split_in_order() -> None:
    for part in render.to_json(AUDIT)["splits"]:
        expected = [(one.finding.check, one.finding.slice) for one in JUDGED if one.finding.split == part["split"]]
        assert [(finding["check"], finding["slice"]) for finding in part["findings"]] == expected


def test_json_says_what_a_check_needs_that_could_not_be_made() -> None:
    lacking = [finding for finding in render.to_json(AUDIT)["splits"][0]["findings"] if finding["needs"]]
    assert [(f["check"], f["needs"], f["value"], f["low"], f["verdict"]) for f in lacking] == [
        ("text.gold_in_context", "contexts", None, None, ""),
        ("reader.evidence", "generated data", None, None, ""),
        ("integrity.letters", "contexts", None, None, ""),
    ]


def test_json_survives_being_written_and_is_the_same_again() -> None:
    text = json.dumps(render.to_json(AUDIT), allow_nan=False)
    assert json.loads(text) == render.to_json(AUDIT)


def test_an_audit_passes_unless_a_limit_is_missed() -> None:
    sound = [one for one in JUDGED if one.verdict != "FAIL"]
    assert render.to_json(AUDIT._replace(judged=sound))["passed"] is True
    assert render.to_json(AUDIT._replace(judged=[]))["passed"] is True


def test_the_module_names_each_key_of_its_json() -> None:
    found = render.to_json(AUDIT)
    keys = {*found, *found["splits"][0], *found["splits"][0]["findings"][0]}
    assert [key for key in sorted(keys) if f'"{key}":' not in (render.__doc__ or "")] == []


# --- text


def blocks() -> list[list[str]]:
    """Return the lines of each split: its table, and what stands below it."""
    lines = [line.rstrip() for line in render.to_text(AUDIT).splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("128k: 1 "))
    return [lines[:at], lines[at:]]


def test_a_split_begins_with_its_size_and_ends_with_its_verdict() -> None:
    first, second = blocks()
    assert first[0] == "32k: 3 questions of 2 personas"
    assert [line for line in first if line][-1] == "32k: FAILED, 3 of 6 limits are missed"
    assert second[0] == "128k: 1 question of 1 persona"
    assert second[-1] == "128k: passed, all 1 limits are met"


def table() -> list[list[str]]:
    """Return the cells of the first table, head included."""
    first, _ = blocks()
    body = first[2 : next(i for i, line in enumerate(first) if line.startswith("  "))]
    starts = [body[0].index(head) for head in ("check", "of", "limit", "verdict")]
    return [
        [" ".join(line[start:end].split()) for start, end in zip(starts, [*starts[1:], None], strict=True)]
        for line in body
    ]


def test_the_table_has_all_questions_of_every_check_and_the_types_that_fail() -> None:
    assert table() == [
        ["check", "of value 95 % chance", "limit", "verdict"],
        ["probe.words", "all 66.7 61.7 to 71.7 25.0", "25.0 at least 30.0", "FAIL"],
        ["probe.words", "new ideas 50.0 45.0 to 55.0 25.0", "25.0 at least 30.0", "FAIL"],
        ["surface.longest", "all 24.0 19.0 to 29.0 25.0", "25.0 at least 30.0", "pass"],
        ["text.option_in_context", "all 10.0 25.0", "", ""],
        ["balance.identical_options", "all 1,234", "at most 0", "FAIL"],
        ["balance.letters", "all 0.0417", "at most 0", "pass"],
        ["model.context_gain", "all 0.125 -0.031 to 0.281", "", ""],
    ]


def test_notes_examples_and_what_is_lacking_stand_below_it() -> None:
    first, second = blocks()
    assert [line for line in first if line.startswith("  ")] == [
        "  probe.words: trained",
        "  probe.words: for example q1, q2",
        "  probe.words, new ideas: for example q4",
        "  surface.longest: characters",
        "  balance.identical_options: for example q6, q7",
        "  needs contexts: text.gold_in_context, integrity.letters",
        "  needs generated data: reader.evidence",
        "  points above chance from which a leak is found nine times in ten; a smaller one may be there:",
        "    probe: all 8.0, new ideas 20.0, facts none",
        "    surface: all 7.1",
    ]
    assert [line for line in second if line.startswith("  ")] == ["  needs generated data: reader.evidence"]


def test_of_a_group_the_check_that_finds_least_is_said() -> None:
    judged = [rate("probe.words", 0.25, "pass"), rate("surface.longest", 0.25, "pass")]
    judged.append(judged[0]._replace(detectable=0.11))
    assert render.detectable(judged) == {"probe": {"all": 0.11}, "surface": {"all": 0.0712}}
    judged.append(judged[0]._replace(detectable=None))
    judged.append(judged[0])
    assert render.detectable(judged)["probe"] == {"all": None}
    assert render.detectable([one._replace(is_tested=False) for one in judged]) == {}


def test_long_notes_are_not_cut_and_markup_is_text() -> None:
    note = f"[bold]{'word ' * 60}[/nothing]"
    text = render.to_text(AUDIT._replace(judged=[count("balance.letters", 0.5, note=note)]))
    assert f"  balance.letters: {note}" in text
    assert "\x1b" not in text


def test_rates_are_shown_in_per_cent_and_counts_as_they_are() -> None:
    shown = {one.finding.check: render.numbers(one.finding) for one in JUDGED}
    assert shown["surface.longest"] == ("26.0", "20.0 to 30.0", "25.0")
    assert shown["text.option_in_context"] == ("10.0", "", "25.0")
    assert shown["balance.identical_options"] == ("1,234", "", "")
    assert shown["reader.evidence"] == ("", "", "")
    assert render.numbers(Finding("balance.letters", "32k", value=4.37e-8)) == ("4.37e-08", "", "")
    assert math.isclose(float(shown["balance.letters"][0]), 0.0417)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_gets_the_tables_without_limits_and_is_told(width: int) -> None:
    wide, narrow = render.to_text(AUDIT), render.to_text(AUDIT, width)
    assert max(map(len, narrow.splitlines())) <= width
    said = re.findall(r"limits are left out: they need (\d+) columns", " ".join(narrow.split()))
    assert bool(said) == any(len(line) > width for line in wide.splitlines() if "at most" in line)
    assert all(int(needed) > width for needed in said)
    assert render.to_text(AUDIT, 1000) == wide
