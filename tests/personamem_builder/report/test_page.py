"""The page of a report, and its plots as files: what is there, that it is safe, and how it looks in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from command_line import Outcome, personamem
from small_results import Row, first, right, right_half_the_time, write_results

from personamem_builder.dataset.check import read_questions
from personamem_builder.drawing.shapes import COLOURS
from personamem_builder.manifest import read_manifest
from personamem_builder.report.breakdown import Analysis
from personamem_builder.report.draw import WIDTH, draw
from personamem_builder.statistics import Estimate
from personamem_builder.subset import write_subset

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MARKUP = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
XHTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


def outdated_or_first(row: Row, number: int) -> int | None:
    """Choose an outdated option where there is one; every tenth answer has no letter."""
    if number % 10 == 9:
        return None
    return row["option_roles"].index("outdated") if "outdated" in row["option_roles"] else 0


@pytest.fixture(scope="module")
def tiny(generated: Path) -> Path:
    return generated


@pytest.fixture(scope="module")
def results(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models in two ways of asking, one of them also without context, one in part."""
    folder = tmp_path_factory.mktemp("results")
    write_results(folder / "a", tiny, "org/good-model-with-a-long-name-7B-instruct", right_half_the_time)
    write_results(folder / "a0", tiny, "org/good-model-with-a-long-name-7B-instruct", first, kind="_nocontext")
    write_results(folder / "b", tiny, MARKUP, first)
    write_results(folder / "c", tiny, "writer", outdated_or_first, kind="_generate")
    write_results(folder / "d", tiny, MARKUP, right_half_the_time, kind="_generate")
    write_results(folder / "e", tiny, "quick look", right, limit=5)
    return folder


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    outcome = invoke(results, "--html", path, "--compare", "org/good-model-with-a-long-name-7B-instruct", MARKUP)
    assert outcome.exit_code == 0, outcome.err
    assert f"wrote {path}" in outcome.err
    return path


def invoke(*args: object) -> Outcome:
    return personamem("report", *args, COLUMNS="120")


def texts(root: ET.Element) -> str:
    return " ".join("".join(root.itertext()).split())


def test_the_page_is_well_formed_and_has_all_parts(page):
    root = ET.fromstring(page.read_text(encoding="utf-8").removeprefix("<!DOCTYPE html>\n"))
    heads = [texts(head) for head in root.iter("h2")]
    assert [head.partition(" (data")[0] for head in heads[:3]] == [
        "personamem_32k",
        "personamem_32k",
        "personamem_32k_generate",
    ]
    assert "partial: 5 questions" in heads[1]
    assert heads[3].startswith(f"{MARKUP} in 2 settings on 32k")
    assert heads[4].startswith(f"org/good-model-with-a-long-name-7B-instruct against {MARKUP} on personamem_32k, acc")
    words = texts(root)
    for said in (
        "below the best floor",
        "floor: type-length (computed here)",
        "Quoted: scores that others published",
        "this table is on other questions",
        "McNemar's exact test",
        "latest: outdated",
        "expected calibration error",
        "Stuart-Maxwell",
        "the options were not shown, so that no letter could draw answers",
    ):
        assert said in words
    sections = list(root.iter("section"))
    names = [{figure.get("id", "").rpartition("-")[2] for figure in section.iter("figure")} for section in sections]
    everywhere = {
        "scores",
        "types",
        "sessions",
        "tokens",
        "position",
        "updates",
        "tellings",
        "topics",
        "errors",
        "states",
        "stereotypes",
    }
    assert names[0] == {*everywhere, "calibration"}
    assert names[2] == {*everywhere, "letters"}


def test_each_plot_has_words_and_a_table_with_the_same_numbers(page):
    root = ET.fromstring(page.read_text(encoding="utf-8").removeprefix("<!DOCTYPE html>\n"))
    figures = list(root.iter("figure"))
    assert figures
    for figure in figures:
        (picture,) = figure.iter(f"{SVG}svg")
        assert picture.get("role") == "img"
        assert "All numbers are in the table below." in picture.get("aria-label", "")
        (details,) = figure.iter("details")
        rows = list(details.iter("tr"))
        labels = [texts(text) for text in picture.iter(f"{SVG}text")]
        for row in rows[1:]:
            (name,) = row.iter("th")
            assert any(label.split("…")[0] in texts(name) for label in labels)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_the_page_is_closed_to_script_and_network(page):
    html = page.read_text(encoding="utf-8")
    assert "default-src 'none'; style-src 'unsafe-inline'" in html
    assert "<script" not in html
    assert "<img" not in html
    assert not re.search(r"(src|href)=\"(?!#)", html)
    assert "&lt;script&gt;" in html


def test_the_same_results_give_the_same_bytes(results, page, tmp_path):
    again = tmp_path / "again.html"
    invoke(results, "--html", again, "--compare", "org/good-model-with-a-long-name-7B-instruct", MARKUP)
    assert again.read_bytes() == page.read_bytes()


@pytest.fixture(scope="module")
def plots(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots") / "one"
    assert "plots to" in invoke(results / "b", "--plots", folder).err
    return folder


@pytest.mark.slow
def test_plots_have_the_same_bytes_each_time(results, plots, tmp_path):
    invoke(results / "b", "--plots", tmp_path)
    names = sorted(path.name for path in plots.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    assert all((plots / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)


def test_plots_are_files(plots):
    names = sorted(path.name for path in plots.iterdir())
    assert {"personamem_32k-types.svg", "personamem_32k-types.png", "personamem_32k-states.png"} <= set(names)
    assert len([name for name in names if name.endswith(".svg")]) == len(names) / 2
    for name in names:
        content = (plots / name).read_bytes()
        if name.endswith(".svg"):
            picture = ET.fromstring(content)
            assert picture.tag == f"{SVG}svg"
            assert texts(picture.find(f"{SVG}title"))
            assert not list(picture.iter(f"{SVG}script"))
        else:
            assert content.startswith(b"\x89PNG")
            assert b"matplotlib" not in content.lower()


def test_hard_questions_of_a_file_are_scored(tiny, results, tmp_path):
    ids = read_questions(tiny, "32k").column("question_id").to_pylist()[:4]
    file = tmp_path / "hard.json"
    write_subset(file, {"32k": ids}, method="", source="", digest=read_manifest(tiny)["digest"])
    printed = json.loads(invoke(results / "a", "--json", "--hard", file).out)
    (table,) = printed["tables"]
    rows = {(row["model"], row["score"]): row for row in table["rows"]}
    assert table["hard_file"] == "hard.json"
    assert rows["org/good-model-with-a-long-name-7B-instruct", "acc"]["hard"]["value"] == 0.5
    assert rows["floor: type-length", "acc"]["hard"]["n"] == 4
    assert rows["floor: type-length", "acc"]["computed"]
    write_subset(file, {"32k": ["elsewhere"]}, method="", source="", digest=None)
    outcome = invoke(results / "a", "--hard", file)
    assert outcome.exit_code == 1
    assert "1 of its 1 questions are not among the answers to personamem_32k" in outcome.err


def test_hard_questions_are_known_from_the_runs_on_them(tiny, results, tmp_path):
    subset = {"subset": "lists/hard.json", "subset_size": 3, "subset_sha256": "f" * 64}
    write_results(tmp_path / "hard", tiny, "org/good-model-with-a-long-name-7B-instruct", right, limit=3, **subset)
    path = next((tmp_path / "hard").glob("results_*"))
    whole = json.loads(path.read_text(encoding="utf-8")) | {"n-samples": {}}
    path.write_text(json.dumps(whole | {"config": whole["config"] | {"limit": None}}), encoding="utf-8")
    all_questions, on_subset = json.loads(invoke(results / "a", tmp_path, "--json").out)["tables"]
    (row,) = [r for r in all_questions["rows"] if r["model"].startswith("org/") and r["score"] == "acc"]
    assert (all_questions["hard_file"], row["hard"]["value"], row["hard"]["n"]) == ("hard.json", 1.0, 3)
    assert on_subset["subset"]["size"] == 3


def test_comparisons_are_printed_in_every_format(results):
    pair = ("--compare", "org/good-model-with-a-long-name-7B-instruct", "floor: longest")
    text = invoke(results / "a", *pair).out
    assert "McNemar's exact test, two-sided" in " ".join(text.split())
    assert "McNemar's exact test, two-sided" in invoke(results / "a", *pair, "--markdown").out
    assert invoke(results / "a", *pair, "--latex").out.count(r"\toprule") == 2
    (one,) = json.loads(invoke(results / "a", *pair, "--json").out)["comparisons"]
    assert one.keys() == {
        "task", "data_digest", "score", "first", "second", "difference", "wins", "losses", "ties",
        "mcnemar_p", "notes", "types",
    }  # fmt: skip
    assert one["wins"] + one["losses"] + one["ties"] == one["difference"]["n"]
    for kind in one["types"].values():
        assert kind is None or kind.keys() == {"difference", "wins", "losses", "mcnemar_p", "holm_p"}


def test_without_the_dataset_the_page_says_what_is_missing(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        source = results / folder
        target = tmp_path / "moved" / folder
        target.mkdir(parents=True)
        for path in source.iterdir():
            text = path.read_text(encoding="utf-8")
            (target / path.name).write_text(re.sub(r'"data": "[^"]*"', '"data": "/gone"', text), encoding="utf-8")
    outcome = invoke(tmp_path / "moved", "--html", tmp_path / "new" / "report.html")
    assert "note: some plots are left out" in outcome.err
    html = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert "Accuracy by topic: the dataset of digest" in html
    assert "(it was /gone) is not here; name it: --data FOLDER, or --data ORG/NAME." in html
    assert 'id="table-1-types"' in html
    assert "computed here" not in html


def test_a_page_that_cannot_be_written_is_one_error(results, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    outcome = invoke(results / "b", "--html", tmp_path / "file" / "report.html")
    assert outcome.exit_code == 1
    assert f"error: {tmp_path / 'file'}" in outcome.err


def estimates(*values: float | None, n: int = 20) -> tuple[Estimate | None, ...]:
    return tuple(None if v is None else Estimate(v, max(0, v - 0.1), min(1, v + 0.1), n, 5) for v in values)


@pytest.mark.parametrize("shape", ["line", "rows"])
@pytest.mark.parametrize("bins", [1, 10, 30])
@pytest.mark.parametrize("models", [1, 12])
def test_nothing_is_drawn_outside_the_picture(shape, bins, models):
    names = tuple(f"{'a long name of a bin ' * (i % 3)}{i}" for i in range(bins))
    series = {
        f"{'organisation/' * 8}{m}": estimates(*((0, None, 1)[i % 3] for i in range(bins))) for m in range(models)
    }
    series["floor"] = estimates(*[0.5] * bins, n=3)
    drawing = draw(
        Analysis("x", "X", "accuracy", names, series, (0.25,) * bins, shape=shape), frozenset({"floor"}), titled=True
    )
    assert drawing.width == WIDTH
    assert all(shape.look in COLOURS for shape in drawing.shapes)
    for part in drawing.shapes:
        for x, y in part.points:
            assert -1 <= x <= drawing.width
            assert 0 <= y <= drawing.height
        if part.text:
            room = {"start": WIDTH - part.points[0][0], "end": part.points[0][0], "middle": WIDTH}[part.anchor]
            assert len(part.text) * 6.5 <= room + 6


def test_models_differ_in_shape_and_colour():
    series = {f"m{i}": estimates(0.5) for i in range(7)}
    marks = [s for s in draw(Analysis("x", "X", "accuracy", ("bin",), series, (None,))).shapes if s.kind == "area"][:7]
    outlines = {tuple((round(x - m.points[0][0], 3), round(y - m.points[0][1], 3)) for x, y in m.points) for m in marks}
    assert len({mark.look for mark in marks}) == len(outlines) == 7


def test_marks_of_few_questions_are_hollow_and_explained():
    few, many, quoted = (Estimate(0.5, None, None, n, 5) for n in (9, 10, 0))
    for shape in ("line", "rows"):
        drawing = draw(
            Analysis("x", "X", "accuracy", ("a", "b", "c"), {"m": (few, many, quoted)}, (None,) * 3, shape=shape)
        )
        assert [s.hollow for s in drawing.shapes if s.kind == "area"].count(True) == 2  # the mark, and the legend
        assert any(s.text == "hollow: fewer than 10 questions" for s in drawing.shapes)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ground", [0, 1])
def test_marks_and_words_stand_out_from_the_ground(ground):
    back = luminance(COLOURS["back"][ground])
    for look, pair in COLOURS.items():
        own = luminance(pair[ground])
        contrast = (max(own, back) + 0.05) / (min(own, back) + 0.05)
        least = 4.5 if look in ("text", "dim") else 1 if look in ("back", "rule") else 3
        assert contrast >= least, look


# ---- in a browser


@pytest.fixture
def opened(chromium: Browser, page: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page, which must log nothing and ask for nothing."""
    width, scheme = getattr(request, "param", (1280, "light"))
    tab = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    logged: list[str] = []
    tab.on("console", lambda message: logged.append(message.text))
    tab.on("pageerror", lambda error: logged.append(str(error)))
    asked: list[str] = []
    tab.on("request", lambda asking: asked.append(asking.url))
    tab.goto(page.as_uri())
    yield tab
    assert logged == []
    assert asked == [page.as_uri()]
    tab.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    "opened", [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], indirect=True, ids=str
)
def test_the_page_fits_and_tables_unfold(opened: Page, artefacts: Path, request: pytest.FixtureRequest) -> None:
    width, scheme = request.node.callspec.params["opened"]
    opened.screenshot(path=artefacts / f"report-{width}-{scheme}.png", full_page=True)
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    table = opened.locator("#table-1-types-numbers")
    assert not table.is_visible()
    opened.locator("#table-1-types summary").click()
    assert table.is_visible()
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.locator("#table-1-types").screenshot(path=artefacts / f"report-table-view-{width}-{scheme}.png")
    opened.locator("#table-1-types summary").press("Enter")
    assert not table.is_visible()
    text = opened.evaluate("getComputedStyle(document.querySelector('svg text.text')).fill")
    assert text == ("rgb(26, 26, 26)" if scheme == "light" else "rgb(232, 232, 232)")
    # No letter is smaller than eleven pixels where the page is narrow.
    scale = opened.evaluate(
        "(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width)(document.querySelector('svg'))"
    )
    assert scale >= 0.8


@pytest.mark.browser
def test_markup_in_names_is_shown_as_text(opened: Page) -> None:
    assert opened.title().startswith("Report on")
    assert opened.locator("img").count() == 0
    assert opened.get_by_text(MARKUP).count() > 0


@pytest.mark.browser
def test_labels_of_plots_do_not_overlap_or_leave_their_picture(opened: Page) -> None:
    faults = opened.evaluate(
        """() => [...document.querySelectorAll('svg')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
            const out = boxes.filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1
                || b.bottom > frame.bottom + 1).map(([t]) => 'outside: ' + t);
            const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
                && a.top < b.bottom - 4 && b.top < a.bottom - 4;
            const over = boxes.flatMap(([t, a], i) => boxes.slice(i + 1).filter(([, b]) => meet(a, b))
                .map(([u]) => `overlap: ${t} and ${u}`));
            return [...out, ...over];
        })"""
    )
    assert faults == []


@pytest.mark.browser
def test_print_is_dark_on_white_and_nothing_is_cut(chromium: Browser, page: Path, artefacts: Path) -> None:
    tab = chromium.new_page(viewport={"width": 1050, "height": 700}, color_scheme="dark")
    tab.goto(page.as_uri())
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.querySelector('svg text.text')).fill") == "rgb(26, 26, 26)"
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not tab.locator("summary").first.is_visible()
    tab.pdf(path=artefacts / "report.pdf", prefer_css_page_size=True)
    assert (artefacts / "report.pdf").read_bytes().startswith(b"%PDF")
    tab.close()
