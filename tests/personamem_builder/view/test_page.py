"""The page in a browser; screenshots go to the artefacts folder."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.results.runs import read_runs
from personamem_builder.table_files import contexts_path
from personamem_builder.view.server import address, make_server
from personamem_builder.view.site import Site
from personamem_builder.view.write import write_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

Visit = Callable[..., "Page"]

DESKTOP = (1280, 800)
PHONE = (390, 844)

MOST_MESSAGES = 400
"""In the document at any time, however long the history is."""


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Open an address; at the end nothing may have gone wrong, opened a dialog, or been asked of another place."""
    wrong: list[str] = []
    pages = []

    def open_(url: str, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Page:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        pages.append(context)
        page = context.new_page()
        base = url.partition("#")[0].rpartition("/")[0]
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: wrong.extend([request.url] * (not request.url.startswith(base))))
        page.goto(url)
        page.wait_for_selector("#chat .message")
        wait_for_text(page, "#status", "")
        return page

    yield open_
    for page in pages:
        page.close()
    assert wrong == []


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[..., str]:
    """Write the page of a dataset, and return its address as a file."""

    def write(folder: Path, results: list[Path] | None = None) -> str:
        out = tmp_path / f"page-{folder.name}"
        write_site(Site(folder, runs=read_runs(results).runs if results else ()), out)
        return (out / "index.html").as_uri()

    return write


@pytest.fixture(scope="module")
def long(make_folder: Callable[..., Path]) -> Path:
    """A history of 4,000 messages of very different lengths, as long as those of the split 1M."""
    rng = random.Random(1)
    words = ["amber", "basket", "candle", "drifting", "evening", "fennel", "gravel", "harbour", "island", "jasmine"]
    messages = [
        {
            "role": "user" if i % 2 else "assistant",
            "content": f"message number {i}: " + " ".join(rng.choices(words, k=rng.choice([3, 40, 150, 600]))),
        }
        for i in range(4000)
    ]
    messages[3777]["content"] += " a needle (in the [hay)"
    messages[-1]["content"] = "the very last words"
    messages[2600]["content"] = "line\n" * 400
    sessions = [(start, "cooking", "2020-01-01") for start in range(0, 4000, 40)]
    evidence = {"evidence_message_indices": [12, 2500], "evidence_event_ids": ["e", "f"], "updates_spanned": 1}
    return make_folder(
        messages, [{"end_index_in_shared_context": end, **evidence} for end in (3000, 4000)], sessions, "1M"
    )


def wait_for_text(page: Page, selector: str, text: str) -> None:
    """Wait until an element has a text; `…` at its beginning or end stands for anything."""
    from playwright.sync_api import expect

    # Not `wait_for_function`: it evaluates strings, which the page forbids.
    pattern = ".*".join(map(re.escape, text.split("…")))
    expect(page.locator(selector)).to_have_text(re.compile(f"^{pattern}$", re.DOTALL))


def seen(page: Page, text: str) -> bool:
    """Say whether a text of the history is within its window, at least in part."""
    return bool(
        page.evaluate(
            """(text) => {
              const box = document.getElementById("chat").getBoundingClientRect();
              return [...document.querySelectorAll("#chat .text")].some((node) => {
                const { top, bottom } = node.getBoundingClientRect();
                return node.textContent.includes(text) && top < box.bottom && bottom > box.top;
              });
            }""",
            text,
        )
    )


def settle(page: Page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def listed(page: Page) -> int:
    """Return how many questions pass the filters."""
    shown = re.match(r"(?:[\d,]*\d of )?([\d,]*\d)", page.inner_text("#count"))
    assert shown
    return int(shown[1].replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("data", ["generated", "official"])
def test_it_looks_right(visit, page_of, artefacts, request, data, size, scheme):
    page = visit(page_of(request.getfixturevalue(data)), size, scheme)
    name = f"view-{data}-{'desktop' if size == DESKTOP else 'phone'}-{scheme}"
    page.screenshot(path=artefacts / f"{name}.png")
    if size == PHONE:
        for tab in ("questions", "question"):
            page.click(f"#tabs [data-to={tab}]")
            page.screenshot(path=artefacts / f"{name}-{tab}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    # Every control has a name for those who hear the page.
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select")]
          .filter((node) => !(node.labels?.length || node.getAttribute("aria-label") || node.textContent.trim()))
          .map((node) => node.outerHTML)"""
    )
    assert unnamed == []


def test_filters_and_search_of_questions(visit, page_of, official):
    rows = read_questions(official, "32k").to_pylist()
    page = visit(page_of(official))
    assert listed(page) == len(rows) == 589
    page.select_option("#type", "suggest_new_ideas")
    assert listed(page) == sum(row["question_type"] == "suggest_new_ideas" for row in rows)
    page.select_option("#persona", "3")
    mine = [row for row in rows if row["question_type"] == "suggest_new_ideas" and row["persona_id"] == 3]
    assert listed(page) == len(mine)
    topic = mine[0]["topic"]
    page.select_option("#topic", topic)
    assert listed(page) == sum(row["topic"] == topic for row in mine)
    for name in ("type", "persona", "topic"):
        page.select_option(f"#{name}", "")
    page.fill("#find-question", "KARAOKE")
    wait_for_text(page, "#count", "…in all…")
    texts = ("\n".join([row["user_question_or_message"], *row["all_options"]]).lower() for row in rows)
    assert listed(page) == sum("karaoke" in text for text in texts)
    page.fill("#find-question", rows[300]["question_id"])
    wait_for_text(page, "#count", "1 …")
    page.click("#list a")
    wait_for_text(page, "#detail .asked", rows[300]["user_question_or_message"])
    assert page.url.endswith(f"#32k/{rows[300]['question_id']}")


def test_questions_are_filtered_by_how_their_evidence_is_told(visit, page_of, generated, dataset_folder, answers):
    rows = read_questions(generated, "32k").to_pylist()
    right = {row["question_id"] for row in rows if row["telling"] == "implied"}
    chosen = {row["question_id"]: row["correct_answer"][1] if row["question_id"] in right else None for row in rows}
    page = visit(page_of(generated, [answers(generated, chosen)]))
    page.select_option("#run", "0")
    for telling in ("implied", "named"):
        page.select_option("#telling", telling)
        assert listed(page) == sum(row["telling"] == telling for row in rows)
        assert f", {100 * (telling == 'implied'):.1f} % right" in page.inner_text("#count")
    page.click("#list a >> nth=0")
    assert page.inner_text("#detail dt:text-is('telling') + dd") == "named"
    assert "(named)" in page.inner_text("#told")
    assert not visit(page_of(dataset_folder)).is_visible("#telling")


def test_a_question_stands_at_its_point_with_its_options_beside(visit, page_of, generated):
    rows = read_questions(generated, "32k").to_pylist()
    row = next(row for row in rows if row["question_type"] == "track_full_preference_evolution")
    [messages] = [
        context["messages"]
        for context in iter_contexts(generated / contexts_path("32k"))
        if context["shared_context_id"] == row["shared_context_id"]
    ]
    page = visit(f"{page_of(generated)}#32k/{row['question_id']}")
    end = row["end_index_in_shared_context"]
    order = page.evaluate(
        """() => [...document.querySelectorAll("#chat .message")].map((node) => node.dataset.message ?? "?")"""
    )
    at = order.index("?")
    assert order[at - 1] == str(end - 1)
    if end < len(messages):
        assert order[at + 1] == str(end)
        assert "not seen" in page.inner_text(f"[data-message='{end}'] .head")
    options = page.locator(".option").all_inner_texts()
    assert len(options) == 4
    for i, option in enumerate(options):
        assert row["all_options"][i][4:] in option
        assert f"asserts {', then '.join(row['option_states'][i])}" in option
        assert row["option_roles"][i] in option
        assert ("✓ right" in option) == (i == row["answer_index"])


def test_evidence_is_reached_from_buttons_keys_and_the_timeline(visit, page_of, generated, artefacts):
    rows = read_questions(generated, "32k").to_pylist()
    row = max(rows, key=lambda row: (row["updates_spanned"], len(set(row["evidence_message_indices"]))))
    evidence = sorted(set(row["evidence_message_indices"]))
    assert len(evidence) > 1
    page = visit(f"{page_of(generated)}#32k/{row['question_id']}")

    def reached() -> str:
        settle(page)
        box = page.locator(".reached .message")
        assert "★ evidence" in box.inner_text()
        assert seen(page, box.locator(".text").inner_text()[:60])
        return str(box.get_attribute("data-message"))

    found = []
    for i in range(len(evidence)):
        page.click(f"#evidence-buttons button >> nth={i}")
        found.append(reached())
    assert found == [str(message) for message in evidence]
    page.screenshot(path=artefacts / "view-evidence.png")
    marks = page.locator("#timeline .mark:not(.session)")
    assert marks.count() == len(evidence)
    marks.first.click()
    assert reached() == str(evidence[0])
    marks.nth(1).focus()
    page.keyboard.press("Enter")
    assert reached() == str(evidence[1])
    page.click("#told button >> nth=0")
    assert reached() == str(evidence[0])
    page.keyboard.press("e")
    assert reached() == str(evidence[1])
    page.keyboard.press("Shift+E")
    assert reached() == str(evidence[0])
    page.keyboard.press("q")
    settle(page)
    assert seen(page, row["user_question_or_message"])


def test_keys_and_the_address_lead_from_question_to_question(visit, page_of, generated):
    url = page_of(generated)
    page = visit(url)
    first = page.evaluate("location.hash")
    page.keyboard.press("j")
    page.keyboard.press("j")
    wait_for_text(page, "#count", "3 of…")
    third, text = page.evaluate("location.hash"), page.inner_text("#detail .asked")
    page.keyboard.press("k")
    wait_for_text(page, "#count", "2 of…")
    page.go_back()
    wait_for_text(page, "#count", "3 of…")
    assert page.evaluate("location.hash") == third != first
    page.locator("#find-question").focus()
    page.keyboard.type("jjk")  # a letter in a field is a letter
    assert page.evaluate("location.hash") == third
    again = visit(f"{url}{third}/4")
    assert again.inner_text("#detail .asked") == text
    assert again.input_value("#message") == "4"
    again.evaluate("location.hash = '#32k/nothing'")
    wait_for_text(again, "#status", "there is no question nothing in 32k")
    again.evaluate("location.hash = '#64k/%E0%A4%A'")
    wait_for_text(again, "#status", "there is no split 64k")


def test_a_long_history_is_in_the_document_in_part_only(visit, page_of, long, artefacts):
    page = visit(page_of(long))
    nodes = "document.querySelectorAll('#chat .message').length"
    whole = page.evaluate("document.getElementById('chat').scrollHeight")
    assert whole > 300_000
    for part in [*(i / 20 for i in range(21)), 0.33, 0.0, 1.0]:
        page.evaluate(
            "(part) => { const chat = document.getElementById('chat'); chat.scrollTop = part * chat.scrollHeight; }",
            part,
        )
        settle(page)
        assert 0 < page.evaluate(nodes) < MOST_MESSAGES
        # The window is filled: something stands at its top, its middle and its bottom.
        filled = page.evaluate(
            """() => {
              const { left, top, width, height } = document.getElementById("chat").getBoundingClientRect();
              return [0.02, 0.5, 0.98].map((at) => document.elementFromPoint(left + width / 2, top + at * height))
                .every((node) => node.closest(".item"));
            }"""
        )
        assert filled, part
    for _ in range(5):  # heights that were estimated become known on the way
        page.evaluate("() => { const chat = document.getElementById('chat'); chat.scrollTop = chat.scrollHeight; }")
        settle(page)
    assert seen(page, "the very last words")
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    page.screenshot(path=artefacts / "view-long-end.png")


def test_scrolling_by_hand_goes_on_without_leaps(visit, page_of, long):
    page = visit(page_of(long))
    page.fill("#message", "2500")
    page.keyboard.press("Enter")
    top = """() => {
      const top = document.getElementById("chat").getBoundingClientRect().top;
      const all = [...document.querySelectorAll("#chat .message")];
      const node = all.find((one) => one.getBoundingClientRect().bottom > top);
      return [Number(node.dataset.message ?? -1), node.getBoundingClientRect().top - top];
    }"""
    page.locator("#chat").hover()
    for step in (120, -120):
        for _ in range(40):
            message, place = page.evaluate(top)
            page.mouse.wheel(0, step)
            page.wait_for_timeout(30)
            settle(page)
            moved = page.evaluate(
                """([message]) => {
                  const top = document.getElementById("chat").getBoundingClientRect().top;
                  return document.querySelector(`[data-message="${message}"]`).getBoundingClientRect().top - top;
                }""",
                [message],
            )
            assert abs((place - moved) - step) <= 2, (message, place, moved)


def test_a_message_of_a_long_history_is_reached_by_its_number(visit, page_of, long):
    page = visit(page_of(long), PHONE)
    for message in (2500, 0, 3999, 2601, 1):
        page.fill("#message", str(message))
        page.keyboard.press("Enter")
        settle(page)
        assert page.locator(f".reached [data-message='{message}']").count() == 1
        assert seen(page, "the very last words" if message == 3999 else f"message number {message}:")
    page.select_option("#session", "1200")
    settle(page)
    assert seen(page, "message number 1200:")


def test_search_replaces_that_of_the_browser_and_sees_the_whole_history(visit, page_of, long, artefacts):
    page = visit(page_of(long))
    page.keyboard.press("Control+f")
    assert page.evaluate("document.activeElement.id") == "find-message"
    page.keyboard.type("NEEDLE (in the [hay)")
    wait_for_text(page, "#hits", "1 hit")
    page.keyboard.press("Enter")
    settle(page)
    assert page.inner_text("mark.current") == "needle (in the [hay)"
    assert seen(page, "a needle")
    page.screenshot(path=artefacts / "view-search.png")
    page.fill("#find-message", "message number 25")
    wait_for_text(page, "#hits", "111 hits")
    seen_at = []
    page.locator("#find-message").focus()
    for key in ("Enter", "Enter", "Shift+Enter"):
        page.keyboard.press(key)
        settle(page)
        seen_at.append(
            page.locator("mark.current").locator("xpath=ancestor::*[@data-message]").get_attribute("data-message")
        )
    # The question is asked after message 2,999, beyond the last hit: the search starts again from the top.
    assert seen_at == ["25", "250", "25"]
    page.fill("#find-message", "nothing like it")
    wait_for_text(page, "#hits", "no hit")


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<b class=injected>bold</b> &lt;i&gt; &amp;",
    "javascript:alert(3)",
    'a\u2028b\u2029c `${alert(4)}` \'"); alert(5); ("',
    "\u202egnp.exe \u2066hidden\u2069 \0 \x1b[31m",
    "<svg onload=alert(6)><style>*{display:none}</style></svg>",
    "__proto__",
]


def test_markup_and_script_in_data_do_nothing(visit, page_of, make_folder, answers):
    every = " ".join(HOSTILE)
    messages = [{"role": "user", "content": text} for text in HOSTILE] + [{"role": "user", "content": every}]
    odd = {
        "question_id": f"{every}/#?%".replace("\0", "").replace("\x1b", ""),  # these two are replaced in results
        "topic": every,
        "user_question_or_message": every,
        "all_options": [f"({'abcd'[i]}) {HOSTILE[i]} {every}" for i in range(4)],
        "option_states": [[every], [HOSTILE[0]], [HOSTILE[1]], ["two"]],
        "option_roles": [every] * 4,
        "source_question_type": every,
        "evidence_message_indices": [0, 8],
        "evidence_event_ids": [every, every],
        "updates_spanned": 1,
    }
    folder = make_folder(
        messages, [odd, {"question_id": "__proto__"}], [(0, every, every), (3, "", ""), (4, "<hr>", "")]
    )
    results = answers(folder, {odd["question_id"]: "b", "__proto__": "a"}, every, response=every)
    page = visit(page_of(folder, [results]))
    for key in ("j", "k"):
        page.keyboard.press(key)
        settle(page)
    wait_for_text(page, "#detail", "…bold…")
    page.select_option("#run", "0")
    page.fill("#find-question", "<img src=x")
    page.fill("#find-message", "<img src=x onerror")
    wait_for_text(page, "#hits", "2 hits")
    page.keyboard.press("Enter")
    page.locator("summary", has_text="what it wrote").click()
    settle(page)
    found: dict[str, Any] = page.evaluate(
        """() => ({
          tags: [...new Set([...document.querySelectorAll("*")].map((node) => node.localName))],
          scripts: document.scripts.length,
          handlers: [...document.querySelectorAll("*")].flatMap((node) => node.getAttributeNames())
            .filter((name) => /^on/.test(name)),
          links: [...document.links].map((link) => link.getAttribute("href")).filter((to) => !to.startsWith("#")),
          injected: document.querySelectorAll(".injected").length,
          response: document.querySelector(".response").textContent,
          turned: /[\\u202a-\\u202e\\u2066-\\u2069\\u0000]/.test(document.body.textContent),
        })"""
    )
    assert not {"img", "iframe", "object", "i", "hr", "embed"} & set(found["tags"])
    assert found | {"tags": 0, "response": 0} == {
        "tags": 0,
        "scripts": 6,
        "handlers": [],
        "links": [],
        "injected": 0,
        "response": 0,
        "turned": False,
    }
    assert HOSTILE[0] in found["response"]
    assert HOSTILE[2] in found["response"]
    for text in HOSTILE[:4]:
        assert page.locator("#chat .text", has_text=text).count()


def test_answers_of_models_stand_beside_the_options(visit, page_of, generated, answers, artefacts):
    rows = read_questions(generated, "32k").to_pylist()
    right = {row["question_id"]: "abcd"[row["answer_index"]] for row in rows}
    wrong = {key: "b" if letter == "a" else "a" for key, letter in right.items()}
    half = sorted(right)[: len(right) // 2]
    mixed = right | {key: wrong[key] for key in half[:5]} | dict.fromkeys(half[5:8])
    part = {key: wrong[key] for key in half}
    results = [answers(generated, mixed, "org/good"), answers(generated, part, "org/bad", response="It must be (a).")]
    page = visit(page_of(generated, results))
    assert "no model" in page.inner_text("#run")
    page.select_option("#run", "0")
    page.select_option("#verdict", "wrong")
    assert listed(page) == 5
    page.select_option("#verdict", "none")
    assert listed(page) == 3
    page.select_option("#run", "1")
    page.select_option("#verdict", "absent")
    assert listed(page) == len(rows) - len(half)
    page.select_option("#verdict", "wrong")
    assert listed(page) == len(half)
    assert page.locator("#list .sign.wrong").count() == page.locator("#list .row").count() > 0
    page.click("#list a >> nth=9")
    page.wait_for_selector(".answer")
    chosen = page.locator(".option", has_text="chosen by org/bad · personamem_32k_generate")
    assert chosen.count() == 1
    assert "✓ right" not in chosen.inner_text()
    bad = page.locator(".answer", has_text="org/bad")
    assert f"answers to {len(half)} of {len(rows)} questions" in bad.inner_text()
    assert "✗ wrong" in bad.inner_text()
    bad.locator("summary").click()
    assert "It must be (a)." in bad.inner_text()
    page.screenshot(path=artefacts / "view-answers.png")


def test_the_server_shows_the_same_page(visit, generated):
    site = Site(generated)
    with make_server(site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            page = visit(address(server))
            assert listed(page) == len(read_questions(generated, "32k"))
            page.keyboard.press("j")
            wait_for_text(page, "#count", "2 of…")
            assert page.locator(".option").count() == 4
        finally:
            server.shutdown()
            thread.join()


def test_on_a_phone_one_part_is_shown_at_a_time(visit, page_of, generated):
    page = visit(page_of(generated), PHONE)
    shown = lambda: [name for name in ("questions", "history", "question") if page.is_visible(f"#{name}")]  # noqa: E731
    assert shown() == ["history"]
    page.click("#tabs [data-to=questions]")
    assert shown() == ["questions"]
    page.click("#list a >> nth=2")
    assert shown() == ["history"]
    page.wait_for_selector(".asked-here .to-options")
    page.click(".asked-here .to-options")
    assert shown() == ["question"]
    page.locator("#timeline .mark:not(.session)").first.click()
    assert shown() == ["history"]
    settle(page)
    assert seen(page, page.inner_text(".reached .text")[:40])
