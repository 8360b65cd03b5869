"""A timeline shows all that happens in a topic: as text with the reasons, and as a picture."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from generation.errors import UserError
from generation.history_records import Event, History, TopicHistory
from generation.records import PERIODS, Persona
from generation.resources import install_hint
from generation.store import RunStore
from personamem_builder.evolution import draw_timeline, timeline_text, topic_history

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def user(tiny_run: Path) -> tuple[Persona, History]:
    store = RunStore(tiny_run)
    return next(store.read("personas", Persona)), next(store.read("histories", History))


@pytest.fixture(params=range(4))
def topic(user: tuple[Persona, History], request: pytest.FixtureRequest) -> TopicHistory:
    return user[1].topics[request.param]


@pytest.fixture
def first(user: tuple[Persona, History]) -> TopicHistory:
    return user[1].topics[0]


def shown(event: Event) -> str:
    return {"like": "likes it", "dislike": "dislikes it"}.get(event.state, event.state)


# --- as text


def test_the_text_names_the_user_and_the_days_of_the_sessions(
    user: tuple[Persona, History], topic: TopicHistory
) -> None:
    lines = timeline_text(user[0], topic).splitlines()
    assert lines[0] == f"{user[0].name} (persona 0), {topic.topic}"
    assert lines[1:5] == [f"  session {i + 1}: {plan.date}, {PERIODS[i]}" for i, plan in enumerate(topic.sessions)]


def test_the_text_holds_each_preference_with_its_states_in_order(
    user: tuple[Persona, History], topic: TopicHistory
) -> None:
    text = timeline_text(user[0], topic)
    blocks: dict[str, list[str]] = {}
    for line in text.splitlines()[5:]:
        if re.match(r"  \S", line):
            blocks[line.strip()] = []
        elif line.startswith("    "):
            blocks[list(blocks)[-1]].append(line)
    names = {p.preference_id: p.subject or f"of {'; '.join(p.candidates)}" for p in topic.preferences}
    assert set(blocks) == set(names.values())
    for preference in topic.preferences:
        events = [event for event in topic.events if event.preference_id == preference.preference_id]
        assert events
        lines = blocks[names[preference.preference_id]]
        assert [line.split()[0] for line in lines] == [str(event.date) for event in events]
        for line, event in zip(lines, events, strict=True):
            assert shown(event) in line
            assert ("→" in line) == (event.reason is not None)
            assert line.endswith(f", because {event.reason} ({event.motive})" if event.reason else shown(event))


def test_what_others_do_and_what_came_to_nothing_is_left_out(
    user: tuple[Persona, History], topic: TopicHistory
) -> None:
    lines = [line for line in timeline_text(user[0], topic).splitlines() if line.startswith("    ")]
    text = "\n".join(lines)  # what happened; what it is about stands above
    own = {event.state for event in topic.events} | {event.reason for event in topic.events}
    others = [mention.reason or mention.state for mention in topic.mentions]
    strange = [said for said in others if said not in own and said not in ("like", "dislike")]
    tried = [said for said in strange if "; " in said]
    assert len(strange) > len(tried) > 0
    assert not [said for said in strange if said in text]


def test_preferences_that_change_most_come_first(user: tuple[Persona, History], topic: TopicHistory) -> None:
    text = timeline_text(user[0], topic)
    for part in text.split("\n\n")[1:]:
        changes = [block.count("→") for block in re.split(r"\n  (?=\S)", part)[1:]]
        assert changes == sorted(changes, reverse=True)


def test_a_topic_that_is_not_there_is_an_error_that_names_those_that_are(user: tuple[Persona, History]) -> None:
    with pytest.raises(UserError, match="persona 0 has no topic 'chess'") as caught:
        topic_history(user[1], "chess")
    assert all(topic.topic in caught.value.hint for topic in user[1].topics)


# --- as a picture


def test_an_svg_is_well_formed_and_shows_everything(
    user: tuple[Persona, History], topic: TopicHistory, tmp_path: Path
) -> None:
    path = tmp_path / "picture.svg"
    draw_timeline(user[0], topic, path)
    text = path.read_text(encoding="utf-8")
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    text = html.unescape(text)
    assert f"{user[0].name} (persona 0): {topic.topic}" in text
    for event in topic.events:
        assert shown(event) in text
    for preference in topic.preferences:
        assert f"{preference.subject} ({preference.kind})".lstrip() in text
    for plan in topic.sessions:
        assert str(plan.date) in text


def test_a_png_is_written(user: tuple[Persona, History], first: TopicHistory, tmp_path: Path) -> None:
    draw_timeline(user[0], first, tmp_path / "picture.png")
    data = (tmp_path / "picture.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert width > 1000
    assert height > 300


def test_a_picture_takes_the_place_of_an_older_one_and_leaves_nothing_else(
    user: tuple[Persona, History], first: TopicHistory, tmp_path: Path
) -> None:
    (tmp_path / "picture.svg").write_text("older")
    draw_timeline(user[0], first, tmp_path / "picture.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.svg"]
    assert "older" not in (tmp_path / "picture.svg").read_text(encoding="utf-8")[:100]


@pytest.mark.slow
def test_the_same_history_gives_the_same_svg_in_every_process(python: Python, tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from small_runs import make_run, tiny_work
from generation.records import (Persona)
from generation.history_records import (History)
from personamem_builder.evolution import draw_timeline
store = make_run(tiny_work(), Path("run"))
persona, history = next(store.read("personas", Persona)), next(store.read("histories", History))
draw_timeline(persona, history.topics[0], Path(sys.argv[1]))
"""
    tests = Path(__file__).parents[1]
    for name in ("1.svg", "2.svg"):
        python(code, name, PYTHONHASHSEED=name[0], PYTHONPATH=f"{tests.parent}:{tests}")
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


@pytest.mark.parametrize(
    "state", ["from $5 to $10 a day", "all of $a_{b$", "100 % & more", "<b>bold</b>", "\\frac{1}{2}"]
)
def test_marks_in_a_state_are_drawn_as_they_are(
    user: tuple[Persona, History], first: TopicHistory, tmp_path: Path, state: str
) -> None:
    slot = next(preference for preference in first.preferences if preference.kind == "slot")
    events = tuple(
        event.model_copy(update={"state": state}) if event.preference_id == slot.preference_id else event
        for event in first.events
    )
    draw_timeline(user[0], first.model_copy(update={"events": events}), tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    # Text that is taken for a formula is drawn in pieces, with an italic font.
    assert "Oblique" not in text
    assert state in html.unescape(text)


@pytest.mark.parametrize("name", ["picture", "picture.jpg", "picture.pdf", "svg"])
def test_another_ending_is_an_error_that_says_which_are_possible(
    user: tuple[Persona, History], first: TopicHistory, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UserError, match=r"\.svg or \.png"):
        draw_timeline(user[0], first, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(
    user: tuple[Persona, History], first: TopicHistory, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"picture\.svg cannot be written: No such file or directory"):
        draw_timeline(user[0], first, tmp_path / "nowhere" / "picture.svg")


def test_without_matplotlib_the_error_says_how_to_install_it(
    user: tuple[Persona, History], first: TopicHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match="needs matplotlib") as caught:
        draw_timeline(user[0], first, tmp_path / "picture.svg")
    assert install_hint("plots") in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_lacks_later_periods_can_be_drawn(user: tuple[Persona, History], tmp_path: Path) -> None:
    first = user[1].topics[0]
    events = tuple(event for event in first.events if event.period == 0)
    told = {event.preference_id for event in events}
    short = first.model_copy(
        update={
            "events": events,
            "sessions": first.sessions[:1],
            "preferences": tuple(p for p in first.preferences if p.preference_id in told),
        }
    )
    draw_timeline(user[0], short, tmp_path / "picture.svg")
    assert "initial" in timeline_text(user[0], short)
