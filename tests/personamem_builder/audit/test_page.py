"""The page of an audit: all that was found is there, where a reader looks for it, and nothing else can be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.audit.audit import Audit
from personamem_builder.audit.gates import Judged
from personamem_builder.audit.page import to_html
from personamem_builder.audit.records import AuditedSplit, Finding, Verdict

IDEAS = "suggest_new_ideas"
MARKUP = "<script>alert('&amp;')</script>"


def judged(check: str, limit: str = "", verdict: Verdict = "", split: str = "32k", **of_finding: Any) -> Judged:
    return Judged(Finding(check, split, **of_finding), limit, verdict)


def rate(value: float, low: float, high: float, n: int, slice_: str = "all") -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n, "slice": slice_, "clusters": 20, "chance": 0.25}


def audit(*findings: Judged, source: str = "personamem", digest: str = "", splits: tuple[str, ...] = ("32k",)) -> Audit:
    rows = [{"persona_id": persona, "question_type": IDEAS} for persona in (1, 1, 2)]
    return Audit(source, digest, findings, [AuditedSplit(name, rows) for name in splits], {})


LONGEST = judged(
    "surface.longest",
    "[43.8, 57.2] holds 25.0",
    "FAIL",
    examples=("id-1", "id-2"),
    **rate(0.5051, 0.4617, 0.5486, 1589),
)
LONGEST_IDEAS = judged(
    "surface.longest", "[20.0, 32.0] holds 25.0", "pass", examples=("id-3",), **rate(0.26, 0.2, 0.32, 93, IDEAS)
)
PROBE = judged("probe.lengths", **rate(0.62, 0.58, 0.66, 589))
ONE_PERSONA = judged("probe.words", value=0.4, n=10, clusters=1, chance=0.25)
CUES = judged("cue.words", "at most 0", "FAIL", value=3.0, n=450, note='"hear" tells', slice=IDEAS)
LETTERS = judged("balance.letters", "at least 0.01", "pass", value=0.01234, n=589, note=f"p value {MARKUP}")
GAIN = judged("model.context_gain", value=0.125, low=-0.031, high=0.281, n=589, clusters=20)
LACKING = (
    judged("text.gold_in_context", needs="contexts"),
    judged("reader.evidence", needs="generated data"),
    judged("text.persona_overlap", needs="contexts"),
)
AUDIT = audit(
    *(LONGEST, LONGEST_IDEAS, PROBE, ONE_PERSONA, CUES, LETTERS, GAIN, *LACKING),
    digest="d1f2",
    source=MARKUP,
)


def parse(of: Audit) -> ET.Element:
    """Parse a page as XML, which fails on anything that is not nested well."""
    return ET.fromstring(to_html(of))


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def cells(page: ET.Element) -> Iterator[tuple[str, str, ET.Element]]:
    """Yield each cell of the tables of findings with its check and its slice."""
    for table in page.iterfind(".//table[@class]"):
        heads = [abbr.get("title") if (abbr := th.find("abbr")) is not None else th.text for th in table.iter("th")]
        for body in table.iterfind("tbody"):
            check, *found = body[0]
            for slice_, cell in zip(heads[1:], found, strict=False):
                yield words(check), str(slice_), cell


def cell(check: str, slice_: str = "all", of: Audit = AUDIT) -> ET.Element:
    [found] = [element for *key, element in cells(parse(of)) if key == [check, slice_]]
    return found


# --- what was found


@pytest.mark.parametrize(
    ("one", "shown"),
    [
        (
            LONGEST,
            "50.5 % ✗ FAIL 46.2 to 54.9 % n = 1,589, 20 personas chance 25.0 % limit: [43.8, 57.2] holds 25.0",
        ),
        (
            LONGEST_IDEAS,
            "26.0 % ✓ pass 20.0 to 32.0 % n = 93, 20 personas chance 25.0 % limit: [20.0, 32.0] holds 25.0",
        ),
        (PROBE, "62.0 % 58.0 to 66.0 % n = 589, 20 personas chance 25.0 %"),
        (ONE_PERSONA, "40.0 % n = 10, 1 persona chance 25.0 %"),
        (CUES, "3 ✗ FAIL n = 450 limit: at most 0"),
        (LETTERS, "0.0123 ✓ pass n = 589 limit: at least 0.01"),
        (GAIN, "0.125 -0.031 to 0.281 n = 589, 20 personas"),
    ],
)
def test_a_finding_stands_in_the_cell_of_its_check_and_slice(one: Judged, shown: str) -> None:
    assert words(cell(one.finding.check, one.finding.slice)) == shown


def test_only_what_was_found_has_a_cell_that_says_something() -> None:
    said = {(check, slice_) for check, slice_, element in cells(parse(AUDIT)) if words(element)}
    assert said == {(one.finding.check, one.finding.slice) for one in AUDIT.judged if not one.finding.needs}


def test_a_check_that_fails_is_marked_by_a_word_and_by_its_look() -> None:
    for check, slice_, element in cells(parse(AUDIT)):
        fails = (check, slice_) in [("surface.longest", "all"), ("cue.words", IDEAS)]
        assert ("FAIL" in words(element), element.get("class") == "failed") == (fails, fails), (check, slice_)


def test_types_have_columns_only_where_a_check_looks_at_types() -> None:
    shown = [check for check, slice_, _ in cells(parse(AUDIT)) if slice_ == "track_full_preference_evolution"]
    assert shown == ["surface.longest", "cue.words"]


def test_a_rate_has_a_plot_with_its_numbers_in_words() -> None:
    svg = cell("surface.longest").find("svg")
    assert svg is not None
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == "50.5 %, 95 % interval 46.2 to 54.9 %, chance 25.0 %"
    drawn = {element.get("class"): element.get("d") or element.get("cx") for element in svg}
    assert (drawn["chance"], drawn["interval"], drawn["point"]) == ("M25.0 0V14", "M46.2 5H54.9", "50.5")


def test_a_plot_of_one_persona_has_no_interval_and_a_count_no_plot() -> None:
    svg = cell("probe.words").find("svg")
    assert svg is not None
    assert svg.get("aria-label") == "40.0 %, chance 25.0 %"
    assert "interval" not in [element.get("class") for element in svg]
    assert cell("balance.letters").find("svg") is None


def test_notes_and_folded_examples_stand_below_their_check() -> None:
    bodies = parse(AUDIT).iterfind(".//table[@class]/tbody")
    below = {words(body[0][0]): body[1] for body in bodies if len(body) == 2}
    assert list(below) == ["surface.longest", "cue.words", "balance.letters"]
    assert words(below["cue.words"]) == 'new ideas: "hear" tells'
    assert words(below["balance.letters"]) == f"p value {MARKUP}"
    examples = below["surface.longest"].find(".//details")
    assert examples is not None
    assert examples.get("open") is None
    assert words(examples) == "example ids all: id-1, id-2 new ideas: id-3"


def test_checks_that_could_not_be_made_say_what_they_need() -> None:
    [table] = [t for t in parse(AUDIT).iter("table") if "lacking" in words(t)]
    assert [[words(field) for field in row] for row in table.iterfind("tbody/tr")] == [
        ["contexts", "text.gold_in_context, text.persona_overlap"],
        ["generated data", "reader.evidence"],
    ]


def test_the_top_names_what_was_audited_and_the_verdict_of_each_split() -> None:
    passing = judged("balance.letters", "at least 0.01", "pass", "128k", value=0.2, n=3)
    page = parse(audit(LONGEST, LONGEST_IDEAS, passing, digest="d1f2", splits=("32k", "128k", "1M")))
    assert [words(element) for element in page.iterfind("body/header/*")] == [
        "Audit of personamem",
        "✗ failed: 1 of 3 limits are missed.",
        "Digest of the dataset: d1f2",
    ]
    summary = next(page.iter("table"))
    rows = [[words(field) for field in row] for row in summary.iterfind("tbody/tr")]
    assert rows == [
        ["32k", "3", "2", "✗ failed: 1 of 2 limits are missed", "✗ 1 of 2 missed", "not made"],
        ["128k", "3", "2", "✓ passed: the only limit is met", "not made", "0 of 1 missed"],
        ["1M", "3", "2", "no limit applies", "not made", "not made"],
    ]


@pytest.mark.parametrize(("findings", "title"), [((LONGEST,), "failed"), ((LONGEST_IDEAS,), "passed"), ((), "passed")])
def test_the_title_says_what_came_of_it(findings: tuple[Judged, ...], title: str) -> None:
    assert parse(audit(*findings)).findtext("head/title") == f"Audit of personamem: {title}"


# --- what else a page can hold


# Control characters have no form in HTML.
@given(st.text(st.characters(exclude_categories=("C",)), min_size=1), st.sampled_from(["<", "</td>", "&lt;", "'\""]))
def test_any_text_of_the_data_stands_there_as_it_is(text: str, mark: str) -> None:
    text = f"{text}{mark}"
    plain, odd = (
        audit(
            judged(f"cue.{some}", some, "FAIL", some, value=1.0, note=some, examples=(some,)),
            judged(f"text.{some}", split=some, needs=some),
            source=some,
            splits=(some,),
        )
        for some in ("plain", text)
    )
    page = parse(odd)
    assert [element.tag for element in page.iter()] == [element.tag for element in parse(plain).iter()]
    shown = [element.text or "" for element in page.iter()]
    assert shown.count(text) == 5  # link, heading, note, example and need
    assert {f"Audit of {text}", f"cue.{text}", f"limit: {text}", f"text.{text}"} <= set(shown)


def test_markup_of_the_data_is_text() -> None:
    page = to_html(AUDIT)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3  # title, heading and note


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = parse(AUDIT)
    policies = [meta.get("content") for meta in page.iter("meta") if meta.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    for element in page.iter():
        assert element.tag not in ("script", "link", "img", "iframe", "base")
        for name, value in element.items():
            assert name != "src"
            assert not name.startswith("on")
            assert name != "href" or value.removeprefix("#") in ids
            assert name != "aria-labelledby" or value in ids
    style = page.findtext("head/style") or ""
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_can_be_heard_printed_and_read_in_the_dark() -> None:
    page = parse(AUDIT)
    assert page.get("lang") == "en"
    levels = [int(element.tag[1]) for element in page.iter() if element.tag in ("h1", "h2", "h3", "h4")]
    assert levels[:4] == [1, 2, 2, 3]
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    assert all(table.find("caption") is not None for table in page.iter("table"))
    assert {th.get("scope") for th in page.iter("th")} == {"col", "row", "rowgroup"}
    style = page.findtext("head/style") or ""
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_each_group_says_what_it_asks() -> None:
    groups = ("surface", "probe", "cue", "balance", "text", "integrity", "reader", "model")
    page = parse(audit(*(judged(f"{group}.check", value=0.0, n=3) for group in groups)))
    captions = [words(element) for element in page.iterfind(".//section/p")][1:]
    assert [words(element) for element in page.iterfind(".//section/h3")] == list(groups)
    assert len(set(captions)) == len(groups)
    assert all("?" in caption for caption in captions)
