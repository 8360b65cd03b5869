"""`personamem audit`, and what `personamem build` does with it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, Run, fails, personamem
from small_leaks import plant
from small_runs import contents

from generation.resources import install_hint
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.audit import gates
from personamem_builder.audit.audit import audit
from personamem_builder.audit.gates import Gate, Limit, read_gates
from personamem_builder.audit.render import to_json
from personamem_builder.build.from_run import build
from personamem_builder.dataset.check import read_questions
from personamem_builder.subset import read_subset

ROOT = Path(__file__).parents[3]
LENIENT = "integrity.*: {all: {max: 1000}}\nreader.evidence: {all: {min: 0.5}}\n"
"""Limits that a small dataset meets, whatever chance does to its few questions."""
STRICT = "integrity.*: {all: {max: 1000}}\nreader.evidence: {all: {max: 0.5}}\n"
"""Limits that it misses."""


@pytest.fixture(scope="module")
def made(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, assembled, and the dataset that was built from it; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("made")
    store = RunStore(Path(shutil.copytree(tiny_run, folder / "run")))
    assemble(store, chosen_sizes(("32k",), None, None), 2)
    assemble(store, chosen_sizes((), "12", None), 1)
    build(store, folder / "personamem")
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem` in a folder with the dataset `personamem`, the run `run`, and gates of both kinds."""
    shutil.copytree(made, tmp_path / "current")
    monkeypatch.chdir(tmp_path / "current")
    Path("lenient.yaml").write_text(LENIENT, encoding="utf-8")
    Path("strict.yaml").write_text(STRICT, encoding="utf-8")

    return personamem


def splits_of(outcome: Outcome) -> list[str]:
    return re.findall(r"^(\w+): \d+ questions of ", outcome.out, re.MULTILINE)


# --- the verdict


def test_a_limit_that_is_missed_makes_it_fail(run: Run) -> None:
    assemble(plant(RunStore(Path("run"))), chosen_sizes(("32k",), None, None), 2)
    build(RunStore(Path("run")), Path("leaky"), ["32k"])
    outcome = run("audit", "leaky")
    assert outcome.exit_code == 1
    assert re.search(r"^surface\.longest +all +100\.0 .* FAIL *$", outcome.out, re.MULTILINE)
    assert re.search(r"^32k: FAILED, \d+ of \d+ limits are missed$", outcome.out, re.MULTILINE)
    assert outcome.err.endswith("next: personamem audit leaky --html audit.html  (every finding, on a page)\n")


def test_with_limits_of_ones_own_it_may_pass_and_the_folder_is_left_alone(run: Run) -> None:
    before = contents(Path())
    outcome = run("audit", "personamem", "--gates", "lenient.yaml")
    assert outcome.exit_code == 0
    assert splits_of(outcome) == ["32k", "12blocks"]
    assert "FAIL" not in outcome.out
    assert re.search(r"^reader\.evidence +all +100\.0 .* at least 0\.5 +pass *$", outcome.out, re.MULTILINE)
    assert contents(Path()) == before


def test_splits_come_in_the_order_in_which_they_are_named(run: Run) -> None:
    outcome = run("audit", "personamem", "--gates", "lenient.yaml", "--split", "12blocks", "--split", "32k")
    assert splits_of(outcome) == ["12blocks", "32k"]


# --- what can be audited


def test_a_run_before_it_is_assembled(run: Run) -> None:
    outcome = run("audit", "run", "--gates", "lenient.yaml")
    assert outcome.exit_code == 0
    assert re.search(r"^run: \d+ questions of 2 personas$", outcome.out, re.MULTILINE)


def test_questions_alone(run: Run, excerpt: Path) -> None:
    outcome = run("audit", excerpt / "questions_32k.csv", "--gates", "lenient.yaml")
    assert outcome.exit_code == 0
    assert "  needs contexts: text.gold_in_context, text.option_in_context, text.persona_overlap" in outcome.out
    assert "  needs two personas: probe.lengths, probe.words, probe.cross, probe.typed, history.pooled\n" in outcome.out


def test_a_memoriser_learns_from_other_data(run: Run) -> None:
    arguments = ("audit", "personamem", "--split", "32k", "--gates", "lenient.yaml")
    assert "needs data with another seed: history.memoriser" in run(*arguments).out
    outcome = run(*arguments, "--other-seed", "run", "--other-seed", "personamem")
    assert outcome.exit_code == 0
    assert re.search(r"^history\.memoriser +all +\d+\.\d ", outcome.out, re.MULTILINE)


def test_files_of_a_release(run: Run, excerpt: Path) -> None:
    outcome = run("audit", excerpt, "--gates", "lenient.yaml")
    assert outcome.exit_code == 0
    assert "needs contexts" not in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["absent"], "absent does not exist", "give a dataset folder, a run, "),
        (["."], ". is nothing that can be audited", "give a dataset folder, a run, "),
        (["personamem", "--split", "64k"], "personamem has no split '64k', it has 32k, 12blocks", "choose one of"),
        (["personamem", "--gates", "absent.yaml"], "absent.yaml: No such file", "see "),
        (["personamem", "--gates", "broken.yaml"], "broken.yaml: unknown key 'probe.*.every'", "see "),
        (["personamem", "--other-seed", "absent"], "absent does not exist", "give a dataset folder, a run, "),
        (["personamem", "--out", "no/where.json"], "no/where.json cannot be written: there is no folder no", "make"),
        (["personamem", "--html", "no/where.html"], "no/where.html cannot be written: there is no folder no", "make"),
        (["personamem", "--export-hard", "no/hard.json"], "no/hard.json cannot be written: there is no folder", "make"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(run: Run, arguments: list[str], message: str, hint: str) -> None:
    Path("broken.yaml").write_text("probe.*: {every: {max: 1}}", encoding="utf-8")
    outcome = run("audit", *arguments)
    fails(outcome, message, hint)
    assert outcome.out == ""


# --- files


@pytest.mark.parametrize(("gates", "code"), [("strict.yaml", 1), ("lenient.yaml", 0)])
def test_json_and_html_hold_every_finding_whether_or_not_limits_are_met(run: Run, gates: str, code: int) -> None:
    files = ("--out", "audit.json", "--html", "audit.html")
    outcome = run("audit", "personamem", "--split", "12blocks", *files, "--gates", gates)
    assert outcome.exit_code == code
    assert outcome.err.startswith("wrote audit.json\nwrote audit.html\n")
    text = Path("audit.json").read_text(encoding="utf-8")
    assert json.loads(text)["passed"] == (code == 0)
    assert json.loads(text) == to_json(audit(Path("personamem"), ["12blocks"], read_gates(Path(gates))))
    assert text.endswith("}\n")
    page = Path("audit.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert {f["check"] for f in json.loads(text)["splits"][0]["findings"]} <= set(
        re.findall(r"[a-z]+\.[a-z0-9_]+", page)
    )
    assert not list(Path().glob(".*"))


def test_json_is_printed_in_place_of_the_text(run: Run) -> None:
    outcome = run(
        "audit", "personamem", "--split", "12blocks", "--gates", "lenient.yaml", "--json", "--out", "same.json"
    )
    assert json.loads(outcome.out) == json.loads(Path("same.json").read_text(encoding="utf-8"))
    assert "next: personamem audit personamem --html audit.html" in outcome.err


@pytest.mark.parametrize("flag", ["--out", "--html"])
def test_a_file_that_cannot_be_written_whole_is_left_as_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    def full(path: Path, *_: Any, **__: Any) -> int:
        with path.open("w", encoding="utf-8") as file:
            file.write("half of it")
        raise OSError(28, "No space left on device")

    Path("audit.out").write_text("from before", encoding="utf-8")
    monkeypatch.setattr(Path, "write_text", full)
    outcome = run("audit", "personamem", "--split", "12blocks", "--gates", "lenient.yaml", flag, "audit.out")
    fails(outcome._replace(out=""), "audit.out cannot be written: No space left on device")
    assert Path("audit.out").read_text(encoding="utf-8") == "from before"
    assert not list(Path().glob(".*"))


def test_hard_questions_are_a_subset_that_tasks_read(run: Run) -> None:
    outcome = run("audit", "personamem", "--gates", "lenient.yaml", "--export-hard", "hard.json")
    assert outcome.exit_code == 0
    for split in ("32k", "12blocks"):
        ids = read_subset("hard.json", split).ids
        all_ids = read_questions(Path("personamem"), split)["question_id"].to_pylist()
        assert 0 < len(ids) < len(all_ids)
        assert set(ids) < set(all_ids)
        assert f"{split}: {len(ids)} questions that no shortcut answers, in hard.json\n" in outcome.err
    written = json.loads(Path("hard.json").read_text(encoding="utf-8"))
    assert written["source"] == "personamem"
    assert written["digest"] == json.loads(Path("personamem/manifest.json").read_text(encoding="utf-8"))["digest"]


def test_of_one_persona_there_are_no_hard_questions(run: Run, excerpt: Path) -> None:
    outcome = run("audit", excerpt, "--gates", "lenient.yaml", "--export-hard", "hard.json")
    fails(
        outcome._replace(out=""),
        "split 32k: hard questions are found with shortcuts learned on other personas",
        "leave out",
    )
    assert not Path("hard.json").exists()


def test_every_flag_can_be_set_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("SPLIT", "12blocks"),
        ("GATES", "lenient.yaml"),
        ("OUT", "audit.json"),
        ("HTML", "audit.html"),
    ):
        monkeypatch.setenv(f"PERSONAMEM_AUDIT_{name}", value)
    assert run("audit", "personamem").exit_code == 0
    [split] = json.loads(Path("audit.json").read_text(encoding="utf-8"))["splits"]
    assert split["split"] == "12blocks"
    assert Path("audit.html").exists()


# --- without scikit-learn

WITHOUT_SKLEARN = """
import json, sys
sys.modules["sklearn"] = None
from command_line import personamem
for words in json.loads(sys.argv[1]):
    print(json.dumps(personamem(*words)))
"""


@pytest.mark.slow
def test_without_scikit_learn_it_says_what_to_install_and_build_goes_without_an_audit(
    run: Run, python: Callable[..., Any]
) -> None:
    commands = [["audit", "personamem"], ["refine", "run"], ["build", "run", "--split", "12blocks", "--out", "built"]]
    done = python(
        WITHOUT_SKLEARN,
        json.dumps(commands),
        cwd=Path().resolve(),
        PYTHONPATH=os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
    )
    *refused, (_, out, err) = map(json.loads, done.stdout.splitlines())
    message = f"error: an audit needs sklearn, which is not installed\nhint: {install_hint('audit')}\n"
    assert refused == [[1, "", message]] * 2
    assert "note: the folder gets no audit: an audit needs sklearn, which is not installed (pip " in err
    assert "audit" not in out
    assert not Path("built/audit.json").exists()
    assert "This dataset was not audited." in Path("built/README.md").read_text(encoding="utf-8")


# --- build


@pytest.mark.slow
def test_build_stores_the_audit_and_the_card_shows_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = {**read_gates(), "reader.evidence": Gate(all=Limit(max=0))}
    monkeypatch.setattr(gates, "read_gates", lambda: strict)
    outcome = run("build", "run", "--out", "built")
    assert outcome.exit_code == 0, "a dataset that misses a limit is built, and says so"
    stored = json.loads(Path("built/audit.json").read_text(encoding="utf-8"))
    assert stored == to_json(audit(Path("built"), (), strict))
    verdicts = [finding["verdict"] for split in stored["splits"] for finding in split["findings"]]
    missed, held = verdicts.count("FAIL"), sum(bool(verdict) for verdict in verdicts)
    assert missed
    assert f"audit: {missed} of {held} limits are missed\n" in outcome.out
    assert "personamem audit built\n" in outcome.err

    card = Path("built/README.md").read_text(encoding="utf-8")
    _, _, section = card.partition("\n## Audit\n")
    section = section.partition("\n## ")[0]
    assert "\n| check | 32k | 12blocks |\n|---|---|---|\n" in section
    values = {
        split["split"]: {f["check"]: f for f in split["findings"] if f["slice"] == "all"} for split in stored["splits"]
    }
    for check in ("surface.longest", "probe.typed", "reader.evidence", "text.persona_overlap"):
        cells = [
            f"{100 * f['value']:.1f} [{100 * f['low']:.1f}, {100 * f['high']:.1f}]"
            for f in (values[split][check] for split in ("32k", "12blocks"))
        ]
        assert f"\n| `{check}` | {cells[0]} | {cells[1]} |\n" in section, check
    assert f"**{missed} of {held} limits of the release standard are missed:**" in section
    assert section.count("\n- ") == missed
