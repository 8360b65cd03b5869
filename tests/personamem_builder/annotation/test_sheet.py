from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.annotation.items import AnnotationItem
from personamem_builder.annotation.sheet import seal, sheet_files

MakeItem = Callable[..., AnnotationItem]

HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \u2028 ${x} {{ 7*7 }}"


class Page(HTMLParser):
    """The elements of a page, and the text of its scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, str] = {}
        self.open = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = dict(attrs).get("type") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open:
            self.raw[self.open] = self.raw.get(self.open, "") + data


def data_of(html: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Page(html).raw["application/json"])
    return content


def test_a_sheet_with_evidence_is_one_file_and_has_what_is_to_be_rated(make_item: MakeItem) -> None:
    items = [make_item(number) for number in range(2)]

    files = dict(sheet_files(items, "tiny 32k"))

    assert list(files) == ["sheet.html"]
    entries = data_of(files["sheet.html"])["items"]
    assert [entry["id"] for entry in entries] == ["question-0", "question-1"]
    assert entries[0]["options"] == ["Tea.", "Coffee.", "Water.", "Juice."]
    assert [line["text"] for line in entries[0]["lines"] if line.get("evidence")] == ["I like tea now."]


def test_whole_histories_lie_beside_the_sheet_once_for_a_context(make_item: MakeItem) -> None:
    long, short = (make_item(number, whole=True, shared_context_id="one", text="only here") for number in range(2))
    short = short._replace(lines=short.lines[:-1])

    files = dict(sheet_files([short, long], "tiny 32k"))

    assert list(files) == ["sheet.html", "histories/1.js"]
    assert "only here" not in files["sheet.html"]
    entries = data_of(files["sheet.html"])["items"]
    assert [(entry["file"], entry["end"]) for entry in entries] == [("histories/1.js", 3), ("histories/1.js", 4)]
    call = re.fullmatch(
        r'personamemHistory\("histories/1\.js",(.*)\);\n', files["histories/1.js"].replace(", ", ",", 1)
    )
    assert call is not None
    assert len(json.loads(call[1])) == 4


def test_nothing_of_the_data_becomes_markup_or_script(make_item: MakeItem) -> None:
    options = [f"({letter}) {HOSTILE}" for letter in "abcd"]
    plain = [make_item(0), make_item(1, whole=True)]
    hostile = [
        make_item(number, whole=whole, text=HOSTILE, user_question_or_message=HOSTILE, all_options=options)
        for number, whole in enumerate((False, True))
    ]

    files = dict(sheet_files(hostile, HOSTILE))

    page = Page(files["sheet.html"])
    assert page.elements == Page(dict(sheet_files(plain, "x"))["sheet.html"]).elements
    assert data_of(files["sheet.html"])["items"][0]["message"] == HOSTILE
    assert "<" not in files["histories/1.js"]


def test_the_policy_of_the_page_allows_its_own_script_and_style_and_no_others(make_item: MakeItem) -> None:
    page = Page(dict(sheet_files([make_item()], "x"))["sheet.html"])
    policy = next(attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes)

    def digest(tag: str) -> str:
        return base64.b64encode(hashlib.sha256(page.raw[tag].encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest('script')}' 'strict-dynamic'; "
        f"style-src 'sha256-{digest('style')}'; base-uri 'none'; form-action 'none'"
    )
    addresses = [
        attributes for _, attributes in page.elements if attributes.keys() & {"src", "href", "style", "onclick"}
    ]
    assert addresses == []


@given(st.text(), st.text(), st.integers(2, 6), st.data())
def test_a_seal_moves_all_answers_of_an_item_alike(sample: str, item: str, options: int, data: st.DataObject) -> None:
    sealed = [seal(sample, item, answer, options) for answer in range(options)]

    assert sorted(sealed) == list(range(options))
    assert {(moved - answer) % options for answer, moved in enumerate(sealed)} == {sealed[0]}


def test_seals_do_not_show_the_answers() -> None:
    moves = Counter(seal("3d0ef938f370d71d", f"{number:016x}", 0, 4) for number in range(4000))

    assert max(moves.values()) < 1150
    assert min(moves.values()) > 850


def test_no_text_of_the_sheet_singles_out_the_right_response(make_item: MakeItem) -> None:
    """With the seal aside, sheets that differ in their answers alone are equal."""
    sheets = [dict(sheet_files([make_item(7, answer_index=index)], "x"))["sheet.html"] for index in range(4)]

    assert len({re.sub(r'"seal":\d', "", sheet) for sheet in sheets}) == 1


def test_the_same_items_give_the_same_bytes(make_item: MakeItem) -> None:
    first, second = ([make_item(number, whole=number == 1) for number in range(3)] for _ in range(2))

    assert dict(sheet_files(first, "x")) == dict(sheet_files(second, "x"))
