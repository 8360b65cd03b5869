"""Pictures and pages of a benchmark's figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from generation.errors import UserError
from personamem_builder.audit.inputs import read_splits
from personamem_builder.stats.draw import draw_figures
from personamem_builder.stats.figures import SplitFigures, describe_split
from personamem_builder.stats.write import svg_of, write_page, write_pictures

EXCERPT = Path(__file__).parents[3] / "examples" / "official_excerpt"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def excerpt() -> SplitFigures:
    [split] = read_splits(EXCERPT)
    return describe_split(split.name, split.rows)


def test_a_picture_has_a_bar_for_each_count_and_says_the_same_in_words(excerpt: SplitFigures) -> None:
    root = ET.fromstring(svg_of(excerpt))
    assert len(list(root.iter(f"{SVG}polygon"))) == sum(len(counts) for counts in excerpt.counts.values())
    words = root.get("aria-label", "")
    assert "32k: 17 questions of 1 personas, 2 contexts" in words
    assert "new ideas 5" in words


def test_nothing_of_a_picture_lies_outside_of_it(excerpt: SplitFigures) -> None:
    topics = {"a topic with a very long name indeed, and more of it": 10**6, "b": 1}
    drawing = draw_figures(excerpt._replace(topics=topics))
    points = [point for shape in drawing.shapes for point in shape.points]
    assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in points)


def test_pictures_are_drawn_alike_each_time(excerpt: SplitFigures, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, second = (write_pictures([excerpt], tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["32k.svg", "32k.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_page_is_well_formed_and_has_all_numbers(excerpt: SplitFigures, tmp_path: Path) -> None:
    empty = describe_split("<none>", [])
    write_page([excerpt, empty], "mine & <yours>", tmp_path / "new" / "stats.html")
    text = (tmp_path / "new" / "stats.html").read_text(encoding="utf-8")
    root = ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    words = " ".join("".join(root.itertext()).split())
    for said in ("Statistics of mine & <yours>", "<none>: 0 questions", "questions by type", "5 (29.4%)"):
        assert said in words


def test_what_cannot_be_written_is_one_clear_error(excerpt: SplitFigures, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be written"):
        write_page([excerpt], "x", tmp_path / "file" / "page.html")
    pytest.importorskip("matplotlib")
    with pytest.raises(UserError, match="cannot be written"):
        write_pictures([excerpt], tmp_path / "file" / "figures")
