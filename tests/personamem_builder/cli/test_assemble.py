from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from command_line import Run, fails, personamem, typed
from small_runs import contents


@pytest.fixture(scope="module")
def tiny(tiny_run: Path) -> Path:
    return tiny_run


@pytest.fixture
def run(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem` in a folder that holds the run `tiny`."""
    shutil.copytree(tiny, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)

    return personamem


def test_it_says_what_it_made_and_what_to_type_next(run: Run) -> None:
    outcome = run("assemble", "tiny", "--split", "32k")
    assert outcome.exit_code == 0
    rows = Path("tiny/splits/32k/questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert outcome.out == f"32k: 4 contexts, {len(rows)} questions\n"
    assert len(rows) > 30
    assert outcome.err == "next: personamem build tiny --out personamem\n"
    assert sorted(path.name for path in Path("tiny/splits/32k").iterdir()) == [
        "assembly.json",
        "contexts.jsonl",
        "questions.jsonl",
    ]


def test_what_it_says_to_type_next_can_be_typed(run: Run) -> None:
    outcome = typed(run("assemble", "tiny", "--split", "32k").err)
    assert outcome.exit_code == 0
    assert Path("personamem/manifest.json").is_file()


def test_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run("assemble", "tiny", "--n-blocks", "4", "--json")
    found = json.loads(outcome.out)
    assert found.keys() == {"4blocks"}
    assert found["4blocks"]["contexts"] == 4
    monkeypatch.setenv("PERSONAMEM_ASSEMBLE_JSON", "1")
    assert json.loads(run("assemble", "tiny", "--n-blocks", "4").out) == found


def test_flags_from_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_ASSEMBLE_N_VARIANTS", "1")
    monkeypatch.setenv("PERSONAMEM_ASSEMBLE_N_BLOCKS", "5")
    assert run("assemble", "tiny").out.startswith("5blocks: 2 contexts, ")


def test_a_range_of_sizes(run: Run) -> None:
    outcome = run("assemble", "tiny", "--n-blocks", "1-10")
    assert outcome.exit_code == 0, outcome.err
    assert [line.split(":")[0] for line in outcome.out.splitlines()] == [f"{n}blocks" for n in range(1, 11)]
    assert outcome.out.splitlines()[-1].startswith("10blocks: 4 contexts, ")


def test_a_split_named_twice_is_made_once(run: Run) -> None:
    once = run("assemble", "tiny", "--split", "32k")
    before = contents(Path("tiny"))
    assert run("assemble", "tiny", "--split", "32k", "--split", "32k") == once
    assert contents(Path("tiny")) == before


def test_more_sessions_than_there_are(run: Run) -> None:
    """A split must hold what its name says, so that accuracy can be plotted against it."""
    outcome = run("assemble", "tiny", "--n-blocks", "15-18")
    fails(outcome, "persona 0 cannot fill the split 18blocks: it has 16 sessions; 2 are missing", "")
    assert not Path("tiny/splits").exists()


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (["--split", "64k"], "there is no split '64k'; the splits are 32k, 128k, 1M", "or give --n-blocks"),
        (["--n-blocks", "0"], "--n-blocks '0' is not a number of sessions", "write 15, or a range such as 1-10"),
        (["--n-blocks", "9-2"], "--n-blocks '9-2' is not a number of sessions", "write 15, or a range such as 1-10"),
        (["--n-blocks", "many"], "--n-blocks 'many' is not a number of sessions", "write 15, or a range"),
        (["--n-blocks", "4", "--max-tokens", "900"], "the split 4blocks has no room for one session", "raise --max"),
        (["--max-tokens", "9000"], "--max-tokens goes with --n-blocks", "give both, or a --split"),
        (["--n-blocks", "1-3", "--max-tokens", "9000"], "--max-tokens cannot go with a range", "give one number"),
        (["--n-blocks", "3", "--split", "32k"], "--split and --n-blocks cannot be used together", "leave one"),
        (["--split", "128k"], "persona 0 cannot fill the split 128k: its 16 sessions (of at most 20)", "raise `fi"),
        ([], "persona 0 cannot fill the split 1M", "raise `fillers`"),
    ],
)
def test_what_cannot_be_assembled(run: Run, flags: list[str], message: str, hint: str) -> None:
    before = contents(Path("tiny"))
    fails(run("assemble", "tiny", *flags), message, hint)
    assert contents(Path("tiny")) == before
    assert not Path("tiny/splits").exists(), "not even an empty folder"


def test_the_message_says_how_many_fillers_are_missing(run: Run) -> None:
    message = run("assemble", "tiny", "--split", "128k").err
    found = re.search(r"all 60 fillers have (\S+) tokens of at least 102,400; about (\d+) fillers are missing", message)
    assert found is not None
    missing = 102_400 - int(found[1].replace(",", ""))
    assert missing / 500 < int(found[2]) < missing / 300, "a filler of the run has about 400 tokens"


@pytest.mark.parametrize("flag", ["--n-variants", "--workers", "--max-tokens"])
@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_what_is_no_number(run: Run, flag: str, value: str) -> None:
    outcome = run("assemble", "tiny", "--n-blocks", "3", flag, value)
    assert outcome.exit_code == 2
    assert flag in outcome.err


def test_what_is_no_run(run: Run) -> None:
    Path("empty").mkdir()
    for name in ("empty", "absent"):
        fails(run("assemble", name, "--split", "32k"), f"{name} is not a run", "make one: personamem generate")
    assert list(Path("empty").iterdir()) == []


@pytest.mark.parametrize("stage", ["questions", "fillers"])
def test_a_run_that_is_not_finished(run: Run, stage: str) -> None:
    Path(f"tiny/stages/{stage}.jsonl").unlink()
    fails(
        run("assemble", "tiny", "--split", "32k"), f"tiny/stages/{stage}.jsonl", "finish the run: the same personamem"
    )
