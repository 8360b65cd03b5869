"""The sheet in a browser, as raters use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import personamem

from personamem_builder.annotation.items import AnnotationItem
from personamem_builder.annotation.write import write_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MakeItem = Callable[..., AnnotationItem]

pytestmark = pytest.mark.browser

HOSTILE = (
    """<img src=x onerror="document.title='owned'"><script>document.title = 'owned'</script></script><b>bold</b>"""
)
HOSTILE_NAME = "<img src=x onerror=\"document.title='owned'\"><b>Ann</b>"


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that reaches no network, and on which nothing may go wrong unseen."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
    yield page
    context.close()
    assert [fault for fault in wrong if not fault.startswith("blob:")] == []


def study_of(folder: Path, items: list[AnnotationItem]) -> Path:
    write_study(folder, items, source="tiny 32k", split="32k", data_digest="d", seed=0)
    return folder


def open_sheet(page: Page, study: Path) -> None:
    page.goto((study / "sheet.html").as_uri())


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def reload(page: Page) -> None:
    """Load the page anew, in what may be another process: what was stored gets there in its own time."""
    page.wait_for_timeout(500)
    page.reload()


def save(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.click("#save")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def answers_in(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())["answers"]
    return content


def test_raters_work_by_keyboard_go_on_after_a_reload_and_agree(
    page: Page, chromium: Browser, tmp_path: Path, make_item: MakeItem
) -> None:
    study = study_of(tmp_path / "study", [make_item(number) for number in range(3)])
    open_sheet(page, study)
    page.fill("#rater", "Ann Ø/1")
    page.click("#title")

    # The key is a, b, c for the three items.
    press(page, "a Enter y y y Enter")
    press(page, "b Enter y n")
    assert page.inner_text("#title") == "Item 2 of 3"
    page.wait_for_timeout(200)  # the browser stores in another process, which an instant reload might overtake
    reload(page)

    assert page.inner_text("#title") == "Item 2 of 3"
    assert page.inner_text("#count") == "1 of 3 complete"
    assert page.input_value("#rater") == "Ann Ø/1"
    press(page, "u e")
    page.keyboard.type("Odd: b c d /")
    press(page, "Escape Enter d Enter u y y")
    assert page.inner_text("#count") == "3 of 3 complete"
    ann = save(page, tmp_path)

    assert ann.name == "annotations_Ann_Ø_1.json"
    assert answers_in(ann) == {
        "question-0": {"best": "a", "appropriate": "yes", "relevant": "yes", "correct": "yes"},
        "question-1": {
            "best": "b",
            "appropriate": "yes",
            "relevant": "no",
            "correct": "unsure",
            "comment": "Odd: b c d /",
        },
        "question-2": {"best": "d", "appropriate": "unsure", "relevant": "yes", "correct": "yes"},
    }

    other = chromium.new_context(accept_downloads=True).new_page()
    open_sheet(other, study)
    other.fill("#rater", "Bob")
    other.click("#title")
    press(other, "a Enter y y y Enter u Enter y y y")
    bob = save(other, tmp_path)
    other.context.close()

    result = personamem("agreement", ann, bob, "--key", study / "key.json", "--json")
    assert result.exit_code == 0, result.err
    best = json.loads(result.out)["questions"]["best"]
    assert [best[name] for name in ("yes", "no", "unsure", "missing")] == [3, 1, 1, 1]


def test_the_right_response_shows_only_after_a_choice_is_kept_and_it_then_stays(
    page: Page, tmp_path: Path, make_item: MakeItem
) -> None:
    open_sheet(page, study_of(tmp_path / "study", [make_item(2)]))
    assert page.is_hidden("#reference")
    assert page.is_disabled("#keep")

    page.click("text=(a) Tea.")
    page.click("text=(b) Coffee.")
    assert page.is_hidden("#reference")
    page.click("#keep")

    assert page.inner_text("#reference-title") == "The response taken to be right is (c)"
    assert page.inner_text("#response") == "Water."
    assert page.inner_text("#verdict") == "You chose (b)."
    press(page, "d")
    reload(page)
    assert page.is_checked("#best input[value=b]")
    assert page.is_disabled("#best input[value=d]")


def test_every_seal_opens(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    items = [make_item(number, question_id=f"ïd-{number}") for number in range(9)]
    open_sheet(page, study_of(tmp_path / "study", items))

    for item in items:
        press(page, "u Enter")
        assert page.inner_text("#response") == item.response
        press(page, "j")


def test_keys_can_be_switched_off(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    open_sheet(page, study_of(tmp_path / "study", [make_item()]))

    page.uncheck("#keys")
    press(page, "a")

    assert page.locator("#best input:checked").count() == 0


def test_a_whole_history_is_loaded_when_needed_and_searched(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    items = [make_item(0), make_item(1, whole=True, text="Green tea, then black TEA (a+b)? tea")]
    study = study_of(tmp_path / "study", items)
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url.rsplit("/", 1)[-1]))
    open_sheet(page, study)
    assert loaded == ["sheet.html"]

    press(page, "j")
    page.wait_for_selector("#history .message")
    assert loaded == ["sheet.html", "1.js"]
    page.fill("#term", "tea")
    assert page.inner_text("#hits") == "1 of 3"
    press(page, "Enter Enter")
    assert page.inner_text("#hits") == "3 of 3"
    assert page.locator("mark").all_inner_texts() == ["tea", "TEA", "tea"]
    page.fill("#term", "(a+b)?")
    assert page.inner_text("#hits") == "1 of 1"
    page.fill("#term", "coffee")
    assert page.inner_text("#hits") == "not found"
    page.fill("#term", "")
    assert page.locator("#history .text").all_inner_texts()[1] == "Green tea, then black TEA (a+b)? tea"


def test_two_questions_of_one_history_see_what_is_before_them(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    early, late = (make_item(number, whole=True, shared_context_id="one") for number in range(2))
    early = early._replace(lines=early.lines[:-1])
    open_sheet(page, study_of(tmp_path / "study", [early, late]))

    counts = []
    for _ in range(2):
        page.wait_for_selector("#history .message")
        counts.append(page.locator("#history .message").count())
        press(page, "j")

    assert counts == [2, 3]


def test_a_history_that_was_left_behind_is_named(chromium: Browser, tmp_path: Path, make_item: MakeItem) -> None:
    study = study_of(tmp_path / "study", [make_item(1, whole=True)])
    (study / "histories" / "1.js").unlink()
    page = chromium.new_page()

    open_sheet(page, study)
    page.wait_for_selector("#history .warning")

    assert "histories/1.js cannot be loaded" in page.inner_text("#history")
    page.close()


def test_saved_answers_can_be_loaded_and_others_are_refused(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    study = study_of(tmp_path / "study", [make_item(number) for number in range(2)])
    other = study_of(tmp_path / "other", [make_item(number) for number in range(3)])
    open_sheet(page, study)
    page.fill("#rater", "Ann")
    page.click("#title")
    press(page, "a Enter y n u")
    saved = save(page, tmp_path)
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#clear")
    assert page.inner_text("#count") == "0 of 2 complete"

    page.set_input_files("#file", saved)
    page.wait_for_selector("text=Loaded annotations_Ann.json")
    assert page.inner_text("#count") == "1 of 2 complete"
    assert answers_in(save(page, tmp_path / "again")) == answers_in(saved)

    open_sheet(page, other)
    page.set_input_files("#file", saved)
    page.wait_for_selector("#notice.warning")
    assert "its answers are to sample" in page.inner_text("#notice")
    (tmp_path / "broken.json").write_text("{")
    page.set_input_files("#file", tmp_path / "broken.json")
    page.wait_for_selector("text=broken.json cannot be read: it is not JSON.")
    assert page.inner_text("#count") == "0 of 3 complete"


def test_nothing_is_saved_without_a_name(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    open_sheet(page, study_of(tmp_path / "study", [make_item()]))

    page.click("#save")

    assert page.inner_text("#notice").startswith("Write your name first")
    assert page.evaluate("document.activeElement.id") == "rater"


def test_markup_in_the_data_and_in_the_name_is_shown_as_text(page: Page, tmp_path: Path, make_item: MakeItem) -> None:
    options = [f"({letter}) {HOSTILE}" for letter in "abcd"]
    hostile = {"text": HOSTILE, "user_question_or_message": HOSTILE, "all_options": options}
    items = [make_item(number, whole=number == 1, topic=HOSTILE, **hostile) for number in range(2)]
    open_sheet(page, study_of(tmp_path / "study", items))
    page.fill("#rater", HOSTILE_NAME)
    page.fill("#comment", HOSTILE)
    page.click("#title")

    for _ in items:
        page.wait_for_selector("#history .message")
        page.fill("#term", "<b>bold")
        assert page.inner_text("#hits") == "1 of 1"
        press(page, "Escape")
        page.click("#title")
        press(page, "a Enter y y y")
        shown = [page.inner_text("#message"), page.inner_text("#response")]
        assert shown == [HOSTILE, HOSTILE]
        assert HOSTILE in page.locator("#history .text").all_inner_texts()
        press(page, "j")
    saved = save(page, tmp_path)

    assert json.loads(saved.read_text())["rater"] == HOSTILE_NAME
    assert page.title() == "Rating sheet: tiny 32k"
    assert page.locator("img, b").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "width"), [("desktop", 1280), ("phone", 390)])
def test_pictures(
    chromium: Browser, tmp_path: Path, artefacts: Path, make_item: MakeItem, scheme: Any, name: str, width: int
) -> None:
    options = [
        f"({letter}) {sort} tea, as you like it now. " + "Take your time over it. " * 4
        for letter, sort in zip("abcd", ("Green", "Black", "White", "No"), strict=True)
    ]
    study = study_of(tmp_path / "study", [make_item(number, all_options=options) for number in range(3)])
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    open_sheet(page, study)
    page.screenshot(path=artefacts / f"sheet-start-{name}-{scheme}.png", full_page=True)
    page.click("summary")
    page.click("#title")
    press(page, "b Enter y")
    page.fill("#term", "tea")
    page.screenshot(path=artefacts / f"sheet-rated-{name}-{scheme}.png", full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()
