"""`personamem memory`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import small_memories
from command_line import Outcome, personamem

from personamem_builder.dataset.load import iter_examples
from personamem_builder.memory.controls import CONTROLS


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:
    small_memories.CALLS.clear()
    small_memories.KEY.clear()
    small_memories.BROKEN.clear()


def run(data: Path, system: str, *more: str | Path) -> Outcome:
    return personamem("memory", "run", "--system", system, "--data", data, *more)


def measures(outcome: Outcome) -> dict[str, float]:
    assert outcome.exit_code == 0, outcome.err
    lines: list[dict[str, Any]] = json.loads(outcome.out)["measures"]
    return {line["measure"]: line["value"] for line in lines if line["slice"] == "all"}


@pytest.mark.slow
def test_a_run_prints_its_measures_and_the_next_command(generated: Path, tmp_path: Path) -> None:
    outcome = run(generated, "bm25", "--k", "5", "--out", tmp_path / "out", "--answer", "rules")
    assert outcome.exit_code == 0, outcome.err
    for name in ("evidence recall", "evidence precision", "outdated only", "share of history", "answers by rules"):
        assert re.search(rf"^{name} +\d+\.\d % +\d+\.\d % to \d+\.\d % +\d+$", outcome.out, re.MULTILINE), name
    assert re.search(r"^track_full_preference_evolution +\d", outcome.out, re.MULTILINE)
    assert re.search(r"^0-1 sessions back +\d", outcome.out, re.MULTILINE)
    assert "sessions taken in" in outcome.out
    assert "TAINTED" not in outcome.out
    assert f"the results are in {tmp_path / 'out'}" in outcome.err
    metadata = json.loads(re.search(r"--metadata '(.*)' --model", outcome.err)[1])  # type: ignore[index]
    assert metadata == {"data": str(generated), "memory": "bm25", "store": str(tmp_path / "out")}


@pytest.mark.slow
def test_rules_read_what_was_found_and_fall_between_the_oracle_and_another_user(generated: Path) -> None:
    found = {
        system: measures(run(generated, system, "--answer", "rules", "--json"))
        for system in ("oracle", "bm25", "wrong-user", "none", "full")
    }
    read = {system: values["answers by rules"] for system, values in found.items()}
    assert read["oracle"] == 1.0
    assert read["none"] == 0.25
    assert abs(read["wrong-user"] - 0.25) < 0.06
    assert read["wrong-user"] < read["bm25"] < read["full"] <= 1.0
    assert found["oracle"]["evidence recall"] == found["full"]["evidence recall"] == 1.0
    assert found["full"]["share of history"] == 1.0
    assert 0.1 < found["bm25"]["evidence recall"] < 1.0


def test_the_help_names_the_controls_that_are_measured() -> None:
    told = " ".join(personamem("memory", "run", "--help").out.split())
    named = re.search(r"or a control: ([a-z, -]+)\.", told)
    assert named
    assert {*named[1].split(", ")} == {name for name, control in CONTROLS.items() if control.is_measured}


@pytest.mark.slow
def test_a_system_that_returns_everything_is_told_so(generated: Path) -> None:
    outcome = run(generated, "bm25", "--k", "1000", "--set", "unit=session")
    assert "It returns nearly all of the history" in outcome.out
    assert "It returns nearly all" not in run(generated, "bm25", "--k", "3").out


def test_the_same_command_goes_on_and_asks_nothing_twice(generated: Path, tmp_path: Path) -> None:
    first = run(generated, "small_memories:Last", "--out", tmp_path / "out", "--json")
    assert small_memories.CALLS
    small_memories.CALLS.clear()
    assert run(generated, "small_memories:Last", "--out", tmp_path / "out", "--json").out == first.out
    assert small_memories.CALLS == []


def test_a_system_that_is_one_says_so_and_is_walked_in_turn(generated: Path, tmp_path: Path) -> None:
    outcome = run(generated, "small_memories:Single", "--workers", "2", "--out", tmp_path / "out")
    assert outcome.exit_code == 0, outcome.err
    assert "note: small_memories:Single keeps one user at a time" in outcome.err
    assert small_memories.CALLS, "in this process"
    assert "note" not in run(generated, "none", "--workers", "2").err


def test_recent_shows_as_much_as_it_is_told(generated: Path) -> None:
    few = measures(run(generated, "recent", "--set", "tokens=500", "--json"))
    many = measures(run(generated, "recent", "--set", "sessions=2", "--json"))
    assert 0 < few["tokens per query"] <= 500 < many["tokens per query"]
    assert few["evidence recall"] < many["evidence recall"] < 1


def test_a_cheat_is_called_one(generated: Path, tmp_path: Path) -> None:
    for row in iter_examples("32k", data=generated):
        small_memories.KEY[row["user_question_or_message"]] = row["all_options"][row["answer_index"]]
    outcome = run(generated, "small_memories:Cheats", "--out", tmp_path / "cheat")
    assert re.search(
        r"^TAINTED: the memories of \d+ questions hold what the history does not", outcome.out, re.MULTILINE
    )
    run(generated, "small_memories:Last", "--out", tmp_path / "last")
    compared = personamem("memory", "compare", tmp_path / "last", tmp_path / "cheat", "--data", generated)
    assert f"TAINTED: {tmp_path / 'cheat'}" in compared.out
    assert f"TAINTED: {tmp_path / 'last'}" not in compared.out


@pytest.mark.slow
def test_two_systems_are_compared_in_pairs(generated: Path, tmp_path: Path) -> None:
    run(generated, "bm25", "--k", "2", "--out", tmp_path / "a")
    run(generated, "bm25", "--k", "8", "--set", "unit=message", "--out", tmp_path / "b")
    outcome = personamem("memory", "compare", tmp_path / "a", tmp_path / "b", "--data", generated)
    assert outcome.exit_code == 0, outcome.err
    assert outcome.out.startswith(f"A: bm25 k=2 ({tmp_path / 'a'})\nB: bm25 unit=message k=8 ({tmp_path / 'b'})\n")
    assert re.search(r"^evidence recall( +\d+\.\d %){2} +\+\d+\.\d % +[+-]\d+\.\d % to \+\d+\.\d % +\d+$", outcome.out,
                     re.MULTILINE)  # fmt: skip
    shown = json.loads(
        personamem("memory", "compare", tmp_path / "a", tmp_path / "b", "--data", generated, "--json").out
    )
    lines = {line["name"]: line for line in shown["measures"]}
    assert lines["evidence recall"]["difference"] > 0
    assert (
        lines["tokens per query"]["low"] < lines["tokens per query"]["difference"] < lines["tokens per query"]["high"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--system", "bm52"), "there is no memory system 'bm52'"),
        (("--system", "small_memories:WithoutSearch"), "has no method search"),
        (("--k", "0"), "k=0: a memory system is asked for one memory or more"),
        (("--set", "unit"), "--set unit is not a setting"),
        (("--set", "unit=word"), "unit=word: there is no such unit"),
        (("--set", "size=3"), "bm25 has no setting size"),
        (("--k", "-3"), "k=-3: a memory system is asked for one memory or more"),
        (("--k", "99999999999"), "k=99999999999: a memory system is asked for 1,000,000 memories at most"),
        (("--timeout", "0"), "a system needs time"),
        (("--timeout", "nan"), "a system needs time"),
        (("--timeout", "1e300"), "not more than 1e+06 seconds"),
        (("--set", "unit=" + "9" * 5000), "--set unit is not YAML: line 1, column 1: "),
        (("--set", "unit=2021-13-45"), "'2021-13-45' is no timestamp"),
        (("--set", "unit=" + "[" * 3000), "--set unit"),
        (("--system", "full", "--out", "out"), "full is a control whose results cannot be kept"),
        (("--system", "wrong-user", "--out", "out"), "wrong-user is a control whose results cannot be kept"),
        (("--split", "64k"), "has no split '64k'"),
        (("--system", "recent"), "memory=recent takes tokens or sessions"),
        (("--system", "recent", "--set", "tokens=0"), "tokens=0 is no positive whole number"),
        (("--system", "none", "--set", "tokens=5"), "none is a control"),
    ],
)
def test_bad_input_is_an_error(
    arguments: tuple[str, ...], message: str, generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = personamem("memory", "run", "--data", generated, *arguments)
    assert outcome.exit_code == 1
    assert message in outcome.err
    assert outcome.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "broken",
    ["search", *(pytest.param(broken, marks=pytest.mark.slow) for broken in ("add_session", "2"))],
    ids=["queries", "sessions", "one session"],
)
def test_a_run_with_failures_fails_and_the_same_command_mends_it(generated: Path, tmp_path: Path, broken: str) -> None:
    expected = run(generated, "small_memories:Flaky", "--out", tmp_path / "sound", "--json")
    assert expected.exit_code == 0
    small_memories.BROKEN.add(broken)
    for _ in range(2):  # a failure is kept, and stays one
        outcome = run(generated, "small_memories:Flaky", "--out", tmp_path / "out", "--json")
        assert outcome.exit_code == 1
        found = json.loads(outcome.out)
        asked = len(list(iter_examples("32k", data=generated)))
        assert found["failed_queries"] == (asked if broken == "search" else 0)
        assert (found["failed_sessions"] > 0) == (broken != "search")
        assert f"failed at {found['failed_queries']} queries and {found['failed_sessions']} sessions" in outcome.err
        assert "the server is down" in outcome.err
        assert "rerun the command to resume" in outcome.err
    small_memories.BROKEN.clear()
    outcome = run(generated, "small_memories:Flaky", "--out", tmp_path / "out", "--json")
    assert outcome.exit_code == 0, outcome.err
    mended, sound = json.loads(outcome.out), json.loads(expected.out)
    assert mended["digest"] == sound["digest"]
    assert [mended["costs"][key] for key in ("sessions", "tokens")] == [
        sound["costs"][key] for key in ("sessions", "tokens")
    ]
    small_memories.CALLS.clear()
    assert run(generated, "small_memories:Flaky", "--out", tmp_path / "out").exit_code == 0
    assert small_memories.CALLS == []


@pytest.mark.parametrize("control", [["none"], ["oracle"], ["recent", "--set", "tokens=500"]], ids=lambda c: c[0])
def test_what_a_control_shows_can_be_kept_and_compared(generated: Path, tmp_path: Path, control: list[str]) -> None:
    name, *settings = control
    alone = measures(run(generated, name, *settings, "--json"))
    outcome = run(generated, name, *settings, "--out", tmp_path / name)
    assert outcome.exit_code == 0, outcome.err
    assert f'"memory": "{name}"' in outcome.err
    assert '"store"' not in outcome.err
    assert run(generated, "bm25", "--out", tmp_path / "bm25").exit_code == 0
    compared = personamem("memory", "compare", tmp_path / "bm25", tmp_path / name, "--data", generated, "--json")
    assert compared.exit_code == 0, compared.err
    lines = {line["name"]: line["second"] for line in json.loads(compared.out)["measures"]}
    assert lines["evidence recall"] == pytest.approx(alone["evidence recall"])
    assert lines["tokens per query"] == pytest.approx(alone["tokens per query"])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("store.json", lambda text: "{", "store.json is not JSON"),
        ("store.json", lambda text: text.replace('"k": 5', '"k": "5"'), "store.json: k: "),
        ("store.json", lambda text: text.replace('"split": "32k"', '"split": 3'), "store.json: split: "),
        ("store.json", lambda text: "[" * 100_000, "store.json: lists and mappings are nested deeper"),
        ("questions.jsonl", lambda text: "[1]\n" + text, "questions.jsonl, line 1"),
        ("questions.jsonl", lambda text: text.replace('"memories":[[', '"memories":[[3,', 1), "line 1: memories.0"),
        ("questions.jsonl", lambda text: text.replace('"error":""', '"error":null', 1), "line 1: error: "),
        ("questions.jsonl", lambda text: text.replace('"tokens":', '"tokens":-', 1), "line 1: tokens: "),
        ("sessions.jsonl", lambda text: text.replace('"seconds":', '"second":', 1), "line 1: seconds: "),
        ("sessions.jsonl", lambda text: '{"usage": ' + "9" * 5000 + "}\n", "line 1 is not JSON"),
    ],
)  # fmt: skip
def test_damaged_results_are_named_by_file_line_and_key(
    generated: Path, tmp_path: Path, name: str, change: Any, message: str
) -> None:
    assert run(generated, "small_memories:Last", "--k", "5", "--out", tmp_path / "a").exit_code == 0
    path = tmp_path / "a" / name
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    for outcome in (
        run(generated, "small_memories:Last", "--k", "5", "--out", tmp_path / "a"),
        personamem("memory", "compare", tmp_path / "a", tmp_path / "a", "--data", generated),
    ):
        assert outcome.exit_code == 1
        assert message in outcome.err
        assert "hint: " in outcome.err


def test_the_official_release_has_no_oracle_and_no_rules_but_can_be_searched(dataset_folder: Path) -> None:
    for arguments in (("oracle",), ("bm25", "--answer", "rules")):
        outcome = run(dataset_folder, *arguments)
        assert outcome.exit_code == 1
        assert "evidence stands" in outcome.err or "words of the banks" in outcome.err
    found = measures(run(dataset_folder, "bm25", "--json"))
    assert set(found) == {"share of history", "tokens per query", "seconds per query"}


def test_what_holds_no_results_cannot_be_compared(generated: Path, dataset_folder: Path, tmp_path: Path) -> None:
    run(generated, "bm25", "--out", tmp_path / "a")
    run(dataset_folder, "bm25", "--out", tmp_path / "b")
    for other, message in ((tmp_path, "holds no results"), (tmp_path / "b", "their data_digest differs")):
        outcome = personamem("memory", "compare", tmp_path / "a", other, "--data", generated)
        assert (outcome.exit_code, outcome.out) == (1, "")
        assert message in outcome.err
    outcome = personamem("memory", "compare", tmp_path / "a", tmp_path / "a", "--data", dataset_folder)
    assert "were run on other data" in outcome.err
