"""`personamem refine`."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, fails, personamem
from loopback_llm import LoopbackLLM, Reply
from small_leaks import plant, questions_of
from small_runs import CLI, TINY, contents, make_run, tiny_work

from generation.config import load_config
from generation.store import RunStore

LENIENT = "probe.*: {all: {not_above_chance: 0.9}}\n"
"""Limits for few questions: only a score that is shown to be above chance misses them."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose right options are the longest; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("made")
    plant(make_run(tiny_work(personas=4, fillers=4), folder / "run"))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem` in a folder with the run `run` and gates `lenient.yaml`."""
    shutil.copytree(made, tmp_path / "current")
    monkeypatch.chdir(tmp_path / "current")
    Path("lenient.yaml").write_text(LENIENT, encoding="utf-8")

    return personamem


@pytest.mark.slow
def test_it_says_what_it_did_and_what_to_type_next(run: Run, python: Callable[..., Any], tmp_path: Path) -> None:
    shutil.copytree("run", "other")
    outcome = run("refine", "run", "--gates", "lenient.yaml", "--rounds", "1")
    assert outcome.exit_code == 0
    count = len(questions_of(RunStore(Path("run"))))
    assert re.search(r"^probes: 4 limits missed at first, 0 now$", outcome.out, re.MULTILINE)
    assert re.search(rf"^all +{count} +{count} +0 +0 +{count}$", outcome.out, re.MULTILINE)
    assert outcome.err.endswith("next: personamem assemble run\n")

    again = run("refine", "run", "--gates", "lenient.yaml", "--rounds", "1")
    assert again.out == f"run: was refined like this before; nothing was done\n{outcome.out}"
    # In another process, with another salt for hashes, the same bytes.
    python(CLI, "refine", "other", "--gates", "lenient.yaml", "--rounds", "1", cwd=Path().resolve(), PYTHONHASHSEED="5")
    assert contents(Path("other")) == contents(Path("run"))

    assembled = run("assemble", "run", "--n-blocks", "5", "--n-variants", "1")
    assert assembled.exit_code == 0
    assert run("build", "run", "--out", "built").exit_code == 0
    manifest = json.loads(Path("built/manifest.json").read_text(encoding="utf-8"))
    assert manifest["funnel"]["all"] == {
        "made": count,
        "rewritten": count,
        "dropped": {"probe": 0, "no_context": 0},
        "kept": count,
    }
    assert f"Of {count} questions made, {count} were reworded and 0 left out" in Path("built/README.md").read_text()


def test_where_there_is_nothing_to_do_it_says_so(run: Run) -> None:
    Path("none.yaml").write_text("{}", encoding="utf-8")
    before = contents(Path("run"))
    assert run("refine", "run", "--gates", "none.yaml").out == "run: probes meet all limits; nothing was done\n"
    told = run("refine", "run", "--gates", "none.yaml", "--json")
    assert json.loads(told.out) == {"missed_at_first": [], "missed_at_last": []}
    assert contents(Path("run")) == before


@pytest.mark.slow
def test_what_is_dropped_and_what_is_still_missed(run: Run) -> None:
    outcome = run("refine", "run", "--gates", "lenient.yaml", "--rounds", "0", "--json")
    assert outcome.exit_code == 0
    told = json.loads(outcome.out)
    assert told["all"]["made"] == told["all"]["dropped"]["probe"] + told["all"]["kept"]
    assert told["all"]["dropped"]["probe"] > 5
    assert (
        told["missed_at_first"]
        == told["missed_at_last"]
        == [f"probe.{name}, all" for name in ("lengths", "words", "cross", "typed")]
    )
    assert "note: probes still miss 4 limits" in outcome.err
    assert "personamem audit run\n" in outcome.err
    audited = run("audit", "run", "--gates", "lenient.yaml")
    assert audited.exit_code == 1
    assert f"run: {told['all']['kept']} questions of 4 personas" in audited.out


def test_the_no_context_filter(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes the longest reply, where that is the right one."""

    def longest(body: dict[str, Any]) -> Reply:
        options = re.findall(r"^\(([abcd])\) (.*)$", body["messages"][0]["content"], re.MULTILINE)
        return Reply(json.dumps({"choice": max(options, key=lambda option: len(option[1]))[0]}))

    Path("none.yaml").write_text("{}", encoding="utf-8")
    with LoopbackLLM(longest) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        arguments = ("--no-context", "openai:reader", "--votes", "2", "--at-least", "2", "--gates", "none.yaml")
        outcome = run("refine", "run", *arguments)
    count = len(questions_of(RunStore(Path("run"))))
    assert "openai:reader without the history: dropped where 2 of 2 answers are right\n" in outcome.out
    assert re.search(rf"^all +{count} +{count} +{count / 16:.1f} +0\.0$", outcome.out, re.MULTILINE)
    assert re.search(rf"^all +{count} +0 +0 +{count} +0$", outcome.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["absent"], "absent is not a run", "make one: personamem generate"),
        (["run", "--gates", "absent.yaml"], "absent.yaml: No such file", "see "),
        (["run", "--backend", "parrot"], "there is no backend 'parrot'", "give one of openai:MODEL"),
        (["run", "--backend", "sessions=offline"], "--backend sessions=offline: only questions are rewritten", "leave"),
        (["run", "--no-context", "parrot"], "there is no backend 'parrot'", "give one of openai:MODEL"),
        (["run", "--no-context", "openai:x", "--votes", "3"], "--at-least must be from 1 to --votes, 3", "so many"),
        (["run", "--no-context", "openai:x", "--votes", "0"], "--votes must be from 1 to 24", None),
        (["run", "--no-context", "openai:x"], "OPENAI_API_KEY", None),
        (["run", "--backend", "questions=openai:x"], "OPENAI_API_KEY", None),
        (["run", "--no-context", "openai:x", "--budget", "0"], "--budget must be above 0", None),
        (["run", "--no-context", "openai:x", "--budget", "5"], "--budget needs the price of x", "add it to llm.prices"),
        (["run", "--config", "absent.yaml"], "absent.yaml: No such file", None),
    ],
)
def test_what_cannot_be_done_is_said_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str, hint: str | None
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    before = contents(Path("run"))
    fails(run("refine", *arguments), message, hint)
    assert {n: b for n, b in contents(Path("run")).items() if "ledger" not in n} == before


@pytest.mark.slow
def test_a_run_of_another_configuration_or_with_banks_of_its_own(run: Run, tmp_path: Path) -> None:
    fails(
        run("refine", "run", "--config", TINY),
        f"run was not made from {TINY}: fillers differ",
        "give the configuration of the run with --config",
    )
    bank = Path(sys.modules["generation.banks.load"].__file__ or "").parent / "files/topics/foodRecommendation.yaml"
    text = bank.read_text(encoding="utf-8")
    Path("food.yaml").write_text(text.replace("id: foodRecommendation", "id: myFood", 1), encoding="utf-8")
    config = TINY.read_text().replace("[foodRecommendation", "[food.yaml").replace("fillers: 60", "fillers: 2")
    Path("mine.yaml").write_text(config, encoding="utf-8")
    assert load_config(Path("mine.yaml")).topics[0] == "food.yaml"
    assert run("generate", "mine.yaml", "--out", "mine").exit_code == 0
    fails(run("refine", "mine"), "mine has topic banks of its own: myFood", "give its configuration with --config")
    Path("none.yaml").write_text("{}", encoding="utf-8")
    assert run("refine", "mine", "--config", "mine.yaml", "--gates", "none.yaml").exit_code == 0
    Path("food.yaml").write_text(text.replace("id: foodRecommendation", "id: myFood", 1) + "\n# edited\n")
    fails(run("refine", "mine", "--config", "mine.yaml"), "mine was not made from mine.yaml: banks differ")
