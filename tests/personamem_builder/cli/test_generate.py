from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, fails, personamem, typed
from small_runs import TINY, contents

from generation.files import file_digest
from generation.records import QUESTION_TYPES
from personamem_builder.assemble.refined import Count, Funnel, Refined

Python = Callable[..., Any]

COUNTS = {"personas": 2, "histories": 2, "sessions": 32, "questions": 56, "fillers": 60}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem generate` in a folder of its own."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)

    return partial(personamem, "generate")


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Write `examples/tiny.yaml` with some lines more."""

    def write(*lines: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text("\n".join([TINY.read_text(), *lines]))
        return path

    return write


def test_it_says_what_it_made_and_what_to_type_next(run: Run, tiny_run: Path) -> None:
    outcome = run(TINY, "--out", "mine")
    assert outcome.exit_code == 0
    # Data goes to stdout, talk to stderr.
    assert outcome.out == "mine: 2 personas, 2 histories, 32 sessions, 56 questions, 60 fillers\n"
    assert outcome.err == "next: personamem timeline mine --persona 0 --topic foodRecommendation\n"
    assert contents(Path("mine")) == contents(tiny_run)


def test_what_it_says_to_type_next_can_be_typed(run: Run) -> None:
    following = typed(run(TINY, "--out", "mine").err)
    assert following.exit_code == 0
    assert "foodRecommendation" in following.out


def test_the_folder_is_named_after_the_configuration_unless_told_otherwise(run: Run) -> None:
    outcome = run(TINY)
    assert outcome.out.startswith("runs/tiny: ")
    assert Path("runs/tiny/config.json").is_file()


def test_running_again_goes_on_and_changes_nothing(run: Run) -> None:
    first = run(TINY, "--out", "mine")
    before = contents(Path("mine"))
    assert run(TINY, "--out", "mine") == first
    Path("mine/stages/questions.jsonl").unlink()
    assert run(TINY, "--out", "mine") == first
    assert contents(Path("mine")) == before


def test_the_counts_can_be_read_by_a_machine(run: Run) -> None:
    outcome = run(TINY, "--out", "mine", "--json")
    assert json.loads(outcome.out) == {"run": "mine", **COUNTS, "failed": 0}


def test_a_preview_writes_nothing(run: Run) -> None:
    outcome = run(TINY, "--preview")
    assert outcome.exit_code == 0
    assert all(name in outcome.out for name in QUESTION_TYPES)
    assert outcome.out.count("*(") == 7
    assert list(Path().iterdir()) == []


def test_an_estimate_writes_nothing_and_adds_up(run: Run) -> None:
    outcome = run(TINY, "--estimate")
    assert outcome.exit_code == 0
    header, below, *rows, total = outcome.out.splitlines()
    assert header.split() == ["call", "calls", "prompt", "reply", "$"]
    assert below.split() == ["tokens", "tokens"]
    numbers = [[int(number.replace(",", "")) for number in row.split()[1:4]] for row in rows]
    assert {row.split()[4] for row in (*rows, total)} == {"0.00"}
    assert [row.split()[0] for row in rows] == ["persona", "general_history", "session", *QUESTION_TYPES, "filler"]
    assert total.split()[0] == "all"
    assert [int(number.replace(",", "")) for number in total.split()[1:4]] == [
        sum(column) for column in zip(*numbers, strict=True)
    ]
    assert sum(row[0] for row in numbers) == sum(COUNTS.values())
    assert re.fullmatch(r"the offline backend needs about \d+ s in one process and costs nothing\n", outcome.err)
    assert list(Path().iterdir()) == []


def test_an_estimate_can_be_read_by_a_machine(run: Run) -> None:
    entries = json.loads(run(TINY, "--estimate", "--json").out)
    assert {entry["template"] for entry in entries} >= {"session", "filler", *QUESTION_TYPES}
    assert sum(entry["calls"] for entry in entries) == sum(COUNTS.values())
    assert set(entries[0]) == {
        *("stage", "template", "calls", "prompt_tokens", "reply_tokens", "seconds", "model", "cost"),
        *("if_needed", "most_calls"),
    }


def test_an_estimate_says_what_a_model_costs_as_far_as_prices_are_known(run: Run, tmp_path: Path) -> None:
    priced = tmp_path / "priced.yaml"
    prices = "llm: {prices: {parrot: {input: 2.0, output: 8.0}}}"
    priced.write_text(f"{Path(TINY).read_text()}\n{prices}\n")
    backends = ["--backend", "openai:parrot", "--backend", "fillers=openai:jay"]
    entries = {e["template"]: e for e in json.loads(run(str(priced), *backends, "--estimate", "--json").out)}
    session = entries["session"]
    assert session["model"] == "parrot"
    assert session["cost"] == pytest.approx((session["prompt_tokens"] * 2 + session["reply_tokens"] * 8) / 1e6)
    assert (entries["filler"]["model"], entries["filler"]["cost"]) == ("jay", None)
    outcome = run(str(priced), *backends, "--estimate")
    *_, total = outcome.out.splitlines()
    assert total.endswith("and more")
    assert "no price is known of jay: set llm.prices in the configuration" in outcome.err


def test_an_estimate_of_a_model_sums_what_is_sure_and_says_how_many_calls_there_may_be(run: Run) -> None:
    outcome = run(TINY, "--backend", "sessions=openai:parrot", "--estimate")
    _, _, *rows, total = outcome.out.splitlines()
    sure = [row for row in rows if not row.startswith("(")]
    assert [row.split("  ")[0] for row in rows if row not in sure] == [
        "(expand of sessions)",
        "(rewrite_turns of sessions)",
    ]
    assert total.startswith("all but those in ( )  ")
    calls = sum(int(row.split()[1].replace(",", "")) for row in sure)
    assert (
        int(total.removeprefix("all but those in ( )").split()[0].replace(",", ""))
        == calls
        == sum(COUNTS.values()) + COUNTS["sessions"]
    )
    assert "note: repairs cannot be known; " in outcome.err
    assert f"it is {162 * COUNTS['sessions']:,} calls at most\n" in outcome.err


def test_users_can_be_added_by_a_flag_or_by_the_configuration(run: Run, config: Callable[..., Path]) -> None:
    path = config()
    path.write_text(path.read_text().replace("personas: 2", "personas: 1"))
    assert run(path, "--out", "one").out.startswith("one: 1 personas, ")
    assert run(path, "--out", "one", "--personas", "0-1").out == run(TINY, "--out", "two").out.replace("two", "one")
    assert contents(Path("one")) == contents(Path("two"))
    outcome = run(path, "--out", "one")
    fails(outcome, "one has users 0-1, and users 0-0 are asked for", "ask for users 0-1 (--personas), or give another")
    assert run(TINY, "--out", "one").exit_code == 0
    assert contents(Path("one")) == contents(Path("two"))


def test_a_refined_run_that_gets_users_says_what_becomes_of_its_questions(run: Run, tiny_run: Path) -> None:
    shutil.copytree(tiny_run, "mine")
    digest = file_digest(Path("mine/stages/questions.jsonl"))
    count = Count(made=56, rewritten=0, dropped={"probe": 1, "no_context": 0}, kept=55)
    refined = Refined(
        made=digest,
        result=digest,
        settings={},
        missed_at_first=(),
        missed_at_last=(),
        unwritten=0,
        funnel=Funnel(all=count, types={}),
        no_context=None,
        questions={},
    )
    Path("mine/refined.json").write_text(refined.model_dump_json())
    assert "note:" not in run(TINY, "--out", "mine").err
    assert Path("mine/refined.json").exists()
    outcome = run(TINY, "--out", "mine", "--personas", "0-2")
    assert outcome.err.startswith("note: the questions of mine are again as they were made; ")
    assert "personamem refine mine\n" in outcome.err
    assert not Path("mine/refined.json").exists()


def test_a_run_may_have_some_users_only(run: Run, tiny_run: Path) -> None:
    outcome = run(TINY, "--out", "second", "--personas", "1-1")
    assert outcome.out == "second: 1 personas, 1 histories, 16 sessions, 28 questions, 60 fillers\n"
    assert outcome.err == "next: personamem timeline second --persona 1 --topic foodRecommendation\n"
    assert typed(outcome.err).exit_code == 0
    lines = (tiny_run / "stages" / "sessions.jsonl").read_bytes().splitlines()
    assert Path("second/stages/sessions.jsonl").read_bytes().splitlines() == lines[16:]
    assert json.loads(Path("second/config.json").read_text())["first_persona"] == 1
    assembled = personamem("assemble", "second", "--n-blocks", "3", "--n-variants", "1")
    assert assembled.out.startswith("3blocks: 1 contexts")


@pytest.mark.parametrize(
    "users", ["5", "1-0", "-1", "0-", "a-b", "0-1000000", "0–4", "0-1,3-4", "٠-٤", "", "1" * 5000 + "-" + "2" * 5000]
)
@pytest.mark.parametrize("flags", [[], ["--preview"], ["--estimate"]])
def test_what_is_no_range_of_users_is_an_error(run: Run, users: str, flags: list[str]) -> None:
    outcome = run(TINY, f"--personas={users}", *flags)
    fails(outcome, "--personas '", "give the first and the last, numbered from 0 to 999999: --personas 0-9")
    assert len(outcome.err) < 300
    assert list(Path().iterdir()) == []


def test_a_preview_shows_the_first_of_the_users(run: Run, tiny_run: Path) -> None:
    second = (tiny_run / "stages" / "personas.jsonl").read_text(encoding="utf-8").splitlines()[1]
    outcome = run(TINY, "--preview", "--personas", "1-4")
    assert outcome.out.startswith(json.loads(second)["demographics"])
    assert re.search(r"^\w+, initial, \d{4}-\d\d-\d\d, \d+ messages", outcome.out, re.MULTILINE)


def test_an_estimate_is_of_the_users_who_are_not_there_yet(run: Run) -> None:
    def calls(*arguments: str) -> dict[str, int]:
        entries = json.loads(run(TINY, "--estimate", "--json", *arguments).out)
        return {entry["template"]: entry["calls"] for entry in entries}

    alone = calls("--personas", "0-2")
    assert alone["session"] == 3 * 16
    run(TINY, "--out", "mine")
    before = contents(Path("mine"))
    assert calls("--out", "mine", "--personas", "0-2") == {
        name: count // 3 for name, count in alone.items() if name != "filler"
    }
    told = run(TINY, "--estimate", "--out", "mine", "--personas", "0-2")
    assert told.err.startswith("note: mine has users 0-1; this is for users 2-2\n")
    assert calls("--out", "mine") == calls()
    assert contents(Path("mine")) == before


@pytest.mark.parametrize("flags", [[], ["--preview"], ["--estimate"]])
def test_an_unknown_key_is_an_error(run: Run, config: Callable[..., Path], flags: list[str]) -> None:
    path = config("sead: 7", "colour: blue")
    outcome = run(path, *flags)
    fails(outcome, f"{path}: unknown key 'sead'; unknown key 'colour'", "the keys are seed, language, personas")
    assert list(Path().iterdir()) == []


def test_a_topic_without_a_bank_is_an_error_that_lists_those_that_have_one(
    run: Run, config: Callable[..., Path]
) -> None:
    path = config()
    path.write_text(path.read_text().replace("writing]", "chess]"))
    outcome = run(path)
    fails(outcome, "topics: there is no bank 'chess'; the shipped ones are ", "to add a topic")
    assert "travelPlanning" in outcome.err
    assert list(Path().iterdir()) == []


def test_impossible_counts_are_an_error(run: Run, config: Callable[..., Path]) -> None:
    path = config()
    path.write_text(path.read_text().replace("updates_per_topic: 5", "updates_per_topic: 50"))
    fails(run(path), f"{path}: updates_per_topic: 50 are too many", "")
    path.write_text(TINY.read_text().replace("facts_per_topic: 2", "facts_per_topic: 9"))
    fails(run(path), "foodRecommendation: the bank is too small for the configuration: facts: ", "add to the bank")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("content", ["- a list", "topics: [", ""])
def test_a_file_that_is_no_configuration_is_an_error(run: Run, tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    outcome = run(path)
    assert outcome.exit_code == 1
    assert f"error: {path} " in outcome.err
    assert "Traceback" not in outcome.err


def test_a_configuration_that_is_not_there_is_an_error(run: Run) -> None:
    fails(run("nowhere.yaml"), "nowhere.yaml: No such file or directory", "give the path of a YAML file")


def test_the_folder_of_another_configuration_is_an_error_with_both_ways_out(
    run: Run, config: Callable[..., Path]
) -> None:
    run(TINY, "--out", "mine")
    path = config()
    path.write_text(path.read_text().replace("seed: 7", "seed: 8"))
    outcome = run(path, "--out", "mine")
    fails(outcome, "mine holds a run of another configuration: seed: 7 there, 8 now", "give another --out, or remove")
    assert "rm -r mine" in outcome.err


def test_a_folder_of_something_else_is_left_alone(run: Run) -> None:
    Path("mine").mkdir()
    Path("mine", "thesis.tex").touch()
    fails(run(TINY, "--out", "mine"), "mine exists and is not a run of personamem", "give another --out")
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("flags", [[], ["--preview"], ["--estimate"]])
def test_a_file_of_personas_that_is_not_there_is_an_error(
    run: Run, config: Callable[..., Path], flags: list[str]
) -> None:
    path = config("persona_source: nobody.jsonl")
    outcome = run(path, *flags)
    fails(outcome, f"persona_source: {path.parent / 'nobody.jsonl'}: No such file", "give a JSONL file")


def test_a_file_of_personas_can_be_mended_and_the_command_typed_again(run: Run, config: Callable[..., Path]) -> None:
    path = config("persona_source: people.jsonl")
    source = path.parent / "people.jsonl"
    source.write_text('{"persona": "a beekeeper"}\nno JSON\n')
    fails(run(path), f"persona_source: {source}: line 2 is not JSON", "each line must be a JSON object")
    source.write_text('{"persona": "a beekeeper who plays chess"}\n{"persona": "a diver"}\n')
    outcome = run(path)
    assert outcome.err.startswith("next: ")
    assert "2 personas" in outcome.out


def test_every_flag_can_be_set_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_GENERATE_OUT", "from-environment")
    assert run(TINY).out.startswith("from-environment: ")
    assert Path("from-environment/config.json").is_file()
    assert not Path("runs").exists()
    assert run(TINY, "--out", "from-flag").out.startswith("from-flag: ")
    monkeypatch.setenv("PERSONAMEM_GENERATE_JSON", "1")
    assert json.loads(run(TINY).out)["run"] == "from-environment"


@pytest.mark.parametrize(
    ("backend", "complaint"),
    [
        ("psychic", "there is no backend 'psychic'"),
        ("openai:", "there is no backend 'openai:'"),
        ("sessions=psychic", "there is no backend 'psychic'"),
        ("chapters=offline", "--backend chapters=offline: there is no stage 'chapters'"),
    ],
)
def test_an_unknown_backend_or_stage_is_named(run: Run, backend: str, complaint: str) -> None:
    outcome = run(TINY, "--backend", backend)
    assert outcome.exit_code == 1
    assert outcome.err.startswith(f"error: {complaint}")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--workers", "0"], "0 is not in the range 1<=x<=256"),
        (["--output", "mine"], "No such option"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(run: Run, arguments: list[str], complaint: str) -> None:
    outcome = run(TINY, *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.err
    assert list(Path().iterdir()) == []


def test_the_help_names_the_defaults_and_shows_examples() -> None:
    result = personamem("generate", "--help")
    assert result.exit_code == 0
    lines = [line.strip() for line in result.out.splitlines()]
    assert "personamem generate tiny --preview" in lines
    assert "personamem generate examples/full.yaml --out runs/full --workers 2" in lines
    assert "[default: runs/NAME of CONFIG]" in re.sub(r"\s+", " ", result.out)
    assert "[default: offline]" in re.sub(r"\s+", " ", result.out)
