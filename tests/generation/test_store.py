from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from generation.record_files import persona_spans, read_records, record_line, writing_lines
from generation.records import Persona, Record
from generation.store import RunStore

FINGERPRINT = {"seed": 1, "topics": ["writing"], "banks": {"writing.yaml": "ab"}}


def persona(number: int) -> Persona:
    return Persona(
        persona_id=number,
        name="Zoë Ångström",
        age=30 + number,
        gender="woman",
        race="White",
        occupation="tram driver",
        motives=("calm", "thrift"),
        circle=("my cousin Ana",),
        life=("job", "under40"),
        voice="brief",
        demographics="Age: 30.",
        profile='A "profile", {with} all\nsorts of marks.',
        shown="Age: 30.",
        shown_tokens=4,
    )


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = RunStore.open(tmp_path / "run", FINGERPRINT)
    for number in range(3):
        store.append("personas", persona(number))
    return store


def test_records_come_back_as_they_were_written(store: RunStore) -> None:
    assert list(store.read("personas", Persona)) == [persona(0), persona(1), persona(2)]


def test_a_stage_file_is_plain_json_lines(store: RunStore) -> None:
    lines = [json.loads(line) for line in store.path("personas").read_text(encoding="utf-8").splitlines()]
    assert [line["persona_id"] for line in lines] == [0, 1, 2]
    assert lines[0]["name"] == "Zoë Ångström"


@pytest.mark.parametrize("cut", [1, 2, 30, 200])
def test_a_torn_last_line_is_cut_and_can_be_written_again(store: RunStore, cut: int) -> None:
    whole = store.path("personas").read_bytes()
    store.path("personas").write_bytes(whole[:-cut])
    assert list(store.resume("personas", Persona)) == [persona(0), persona(1)]
    store.append("personas", persona(2))
    assert store.path("personas").read_bytes() == whole


def test_a_file_that_is_one_torn_line_is_emptied(store: RunStore) -> None:
    store.path("personas").write_bytes(store.path("personas").read_bytes()[:50])
    assert list(store.resume("personas", Persona)) == []
    assert store.path("personas").read_bytes() == b""


def test_a_stage_that_has_not_begun_has_no_records(store: RunStore) -> None:
    assert list(store.resume("sessions", Persona)) == []


@pytest.mark.parametrize("place", range(0, 400, 13))
def test_any_damaged_byte_before_the_last_line_is_a_loud_error(store: RunStore, place: int) -> None:
    data = bytearray(store.path("personas").read_bytes())
    data[place] ^= 0x01
    store.path("personas").write_bytes(data)
    with pytest.raises(UserError, match=r"personas\.jsonl, line [12]"):
        list(store.resume("personas", Persona))


def test_damage_names_the_line_and_the_way_out(store: RunStore) -> None:
    path = store.path("personas")
    path.write_text(path.read_text(encoding="utf-8").replace('"age":31', '"age":32'), encoding="utf-8")
    with pytest.raises(UserError, match=r"line 2 is damaged: its content does not fit its digest") as caught:
        list(store.read("personas", Persona))
    assert "run again" in caught.value.hint


def test_a_record_of_another_form_is_an_error(store: RunStore) -> None:
    class Other(Record):
        number: int

    store.append("personas", Other(number=3))
    with pytest.raises(UserError, match=r"line 4: .*persona_id: Field required"):
        list(store.read("personas", Persona))


def test_the_same_run_can_be_opened_again(store: RunStore) -> None:
    RunStore.open(store.folder, FINGERPRINT)


def test_another_configuration_is_refused_with_the_keys_and_both_ways_out(store: RunStore) -> None:
    other = {**FINGERPRINT, "seed": 2, "banks": {"writing.yaml": "cd"}, "fillers": 4}
    with pytest.raises(UserError) as caught:
        RunStore.open(store.folder, other)
    message = caught.value.message
    assert "seed: 1 there, 2 now" in message
    assert "writing.yaml" in message
    assert 'fillers: "absent" there, 4 now' in message
    assert "topics" not in message
    assert "--out" in caught.value.hint
    assert "rm -r" in caught.value.hint
    assert list(store.read("personas", Persona))[2] == persona(2)


WITH_USERS = {
    **FINGERPRINT,
    "personas": 3,
    "persona_source": None,
    "persona_visible": "none",
    "periods": 4,
    "questions_per_topic": {},
    "fillers": 0,
    "backend": "offline",
    "format_version": 6,
}


def test_a_run_may_get_more_users_and_whoever_asks_is_told_before(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "run", WITH_USERS)
    store.append("personas", persona(0))
    told: list[range] = []
    more = {**WITH_USERS, "personas": 5}
    for _ in range(2):
        RunStore.open(store.folder, more, before_growing=lambda store: told.append(store.users()))
    assert told == [range(3)]
    assert store.users() == range(5)
    assert json.loads((store.folder / "config.json").read_text()) == more
    assert list(store.read("personas", Persona)) == [persona(0)]


def test_a_run_that_may_not_get_more_users_stays_as_it_is(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "run", WITH_USERS)

    def refuse(store: RunStore) -> None:
        raise UserError("not now")

    with pytest.raises(UserError, match="not now"):
        RunStore.open(store.folder, {**WITH_USERS, "personas": 5}, before_growing=refuse)
    assert store.fingerprint() == WITH_USERS


@pytest.mark.parametrize("users", [{"personas": 2}, {"first_persona": 1}, {"first_persona": 3}])
def test_users_that_are_there_are_kept(tmp_path: Path, users: dict[str, int]) -> None:
    store = RunStore.open(tmp_path / "run", WITH_USERS)
    with pytest.raises(UserError, match=r"has users 0-2, and users .* are asked for"):
        RunStore.open(store.folder, {**WITH_USERS, **users})
    assert store.fingerprint() == WITH_USERS


@pytest.mark.parametrize("personas", ["many", None, 0, True])
def test_a_damaged_number_of_users_is_named(tmp_path: Path, personas: object) -> None:
    store = RunStore.open(tmp_path / "run", WITH_USERS)
    (store.folder / "config.json").write_text(json.dumps({**WITH_USERS, "personas": personas}))
    with pytest.raises(UserError, match=r"config\.json: personas: "):
        RunStore.open(store.folder, WITH_USERS)


def test_what_a_stage_has_of_a_user_and_those_after_can_be_cut(store: RunStore) -> None:
    whole = store.path("personas").read_bytes()
    store.cut("personas", 5)
    assert store.path("personas").read_bytes() == whole
    store.cut("personas", 1)
    assert list(store.read("personas", Persona)) == [persona(0)]
    store.cut("personas", 0)
    assert store.path("personas").read_bytes() == b""
    store.cut("sessions", 0)
    assert not store.path("sessions").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("long work")
    with pytest.raises(UserError, match="exists and is not a run"):
        RunStore.open(tmp_path, FINGERPRINT)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_damaged_config_is_named(store: RunStore, content: str) -> None:
    (store.folder / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json"):
        RunStore.open(store.folder, FINGERPRINT)


def test_a_folder_without_a_run_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run") as caught:
        RunStore(tmp_path / "nothing").fingerprint()
    assert "personamem generate" in caught.value.hint


class FullDisk:
    """A file that takes a part of what is written and then finds the disk full."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        self._file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_clear_error_and_loses_nothing(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = store.path("personas").read_bytes()
    real = Path.open
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda self, mode="r", **kw: FullDisk(real(self, mode, **kw)))
        with pytest.raises(UserError, match="the disk is full") as caught:
            store.append("personas", persona(3))
    assert "rerun the command" in caught.value.hint
    assert list(store.resume("personas", Persona)) == [persona(0), persona(1), persona(2)]
    assert store.path("personas").read_bytes() == whole


def test_an_absent_stage_says_to_finish_the_run(store: RunStore) -> None:
    with pytest.raises(UserError, match=r"sessions\.jsonl: No such file") as caught:
        list(store.read("sessions", Persona))
    assert "personamem generate" in caught.value.hint


# --- the records of one persona


def two_personas(folder: Path) -> Path:
    """A file with one line of persona 4 and two of persona 7."""
    path = folder / "file.jsonl"
    with writing_lines(path) as write:
        for record in (persona(4), persona(7), persona(7)):
            write(record_line(record))
    return path


def test_the_records_of_a_persona_can_be_read_alone(tmp_path: Path) -> None:
    path = two_personas(tmp_path)
    spans = persona_spans(path)
    assert {key: list(read_records(path, Persona, span)) for key, span in spans.items()} == {
        4: [persona(4)],
        7: [persona(7), persona(7)],
    }
    assert [span.number for span in spans.values()] == [1, 2]
    (tmp_path / "empty").touch()
    assert persona_spans(tmp_path / "empty") == {}


def test_a_damaged_line_of_one_persona_is_named(tmp_path: Path) -> None:
    path = two_personas(tmp_path)
    spans = persona_spans(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"woman", b"vomin")]))
    assert list(read_records(path, Persona, spans[4])) == [persona(4)]
    with pytest.raises(UserError, match="line 3 is damaged"):
        list(read_records(path, Persona, spans[7]))


@pytest.mark.parametrize(
    ("order", "fault"),
    [((1, 0, 2), "line 3 is damaged: other lines stand between it and those of persona 7"), ((0, 9), "line 2")],
)
def test_lines_out_of_order_or_of_nobody_are_named(tmp_path: Path, order: tuple[int, ...], fault: str) -> None:
    path = two_personas(tmp_path)
    lines = dict(enumerate(path.read_bytes().splitlines(keepends=True))) | {9: b'{"name":"nobody"}\n'}
    path.write_bytes(b"".join(lines[i] for i in order))
    with pytest.raises(UserError) as raised:
        persona_spans(path)
    assert fault in raised.value.message
