"""Failed, cut, refused and invalid answers, in every form of a report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, personamem
from small_results import DATE, first, right, right_half_the_time, write_lines, write_results

from personamem_builder import statistics
from personamem_builder.dataset.check import read_questions
from personamem_builder.results.runs import read_runs

FAILED = (0, 3, 5, 6)
FORMS = ("--json", "--markdown", "--latex")


@pytest.fixture(scope="module")
def tiny(generated: Path) -> Path:
    return generated


def invoke(*args: object) -> Outcome:
    return personamem("report", *args, COLUMNS="200")


def rewrite(folder: Path, outcomes: dict[int, str], *, letters: bool = True) -> list[dict[str, Any]]:
    """Give answers by their number another outcome, as evaluations write it; return the lines."""
    path = folder / f"predictions_{DATE}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, line in enumerate(lines):
        outcome = outcomes.get(number, "answered")
        line |= {"outcome": outcome, "finish_reason": "length" if outcome == "cut" else "stop"}
        if outcome == "failed":
            line |= {"credits": None, "predictions": None, "response": None}
        elif outcome != "answered" or not letters:
            line |= {"credits": {"robust": 0.0}, "predictions": {"robust": None}}
    write_lines(path, lines)
    return lines


def rows_of(printed: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    (table,) = json.loads(printed)["tables"]
    return {(row["model"], row["score"]): row for row in table["rows"]}


def test_failed_questions_count_nowhere(tiny, tmp_path):
    write_results(tmp_path / "m", tiny, "org/m", right_half_the_time, kind="_generate")
    lines = rewrite(tmp_path / "m", dict.fromkeys(FAILED, "failed"))
    rows = rows_of(invoke(tmp_path, "--json").out)
    row = rows["org/m", "robust"]
    kept = [line for number, line in enumerate(lines) if number not in FAILED]
    expected = statistics.overall([line["credits"]["robust"] for line in kept], [line["persona_id"] for line in kept])
    assert row["overall"] == expected._asdict()
    assert (row["n"], row["failed_rate"], row["flags"]) == (len(kept), 4 / len(lines), ["failed"])
    assert row["invalid_rate"] == 0
    # The same questions are left out of chance and of the floors.
    assert {other["n"] for other in rows.values()} == {len(kept)}
    table = json.loads(invoke(tmp_path, "--json").out)["tables"][0]
    assert table["limit"] is None
    for analysis in table["analyses"]:
        for series in analysis["series"] if analysis["name"] == "types" else ():
            assert sum(value["n"] for value in series["values"] if value) == len(kept)


def test_a_comparison_leaves_out_what_failed_for_either(tiny, tmp_path):
    write_results(tmp_path / "a", tiny, "a", right, kind="_generate")
    write_results(tmp_path / "b", tiny, "b", first, kind="_generate")
    n = len(rewrite(tmp_path / "a", {0: "failed", 1: "failed"}))
    rewrite(tmp_path / "b", {1: "failed", 2: "failed"})
    (one,) = json.loads(invoke(tmp_path, "--json", "--compare", "a", "b").out)["comparisons"]
    assert one["difference"]["n"] == n - 3
    said = f"Over the {n - 3} questions that both answered ({n - 2} and {n - 2}, 2 and 2 failed)."
    assert one["notes"] == [said]


def test_each_outcome_has_a_share_of_its_own(tiny, tmp_path):
    write_results(
        tmp_path / "m", tiny, "org/m", lambda row, number: None if number in (30, 31) else 0, kind="_generate"
    )
    outcomes = ["failed"] * 4 + ["cut"] * 12 + ["refused"] * 9
    n = len(rewrite(tmp_path / "m", dict(enumerate(outcomes))))
    row = rows_of(invoke(tmp_path, "--json").out)["org/m", "robust"]
    shares = [row[name] for name in ("failed_rate", "cut_rate", "refused_rate", "invalid_rate")]
    assert shares == [4 / n, 12 / (n - 4), 9 / (n - 4), 2 / (n - 4)]
    assert row["flags"] == ["failed", "cut", "refused", "invalid"]
    text = " ".join(invoke(tmp_path).out.split())
    assert f"(!) org/m (robust): {100 * shares[0]:.1f} % of the questions got no answer" in text
    assert f"{100 * shares[1]:.1f} % of the answers were cut at the longest reply" in text
    assert f"{100 * shares[2]:.1f} % of the answers were refusals" in text
    assert f"{100 * shares[3]:.1f} % of the answers had no letter" in text


@pytest.mark.parametrize(("failed", "flagged"), [(0, False), (1, False), (2, True)])
def test_a_run_is_flagged_above_one_in_twenty(tmp_path, failed, flagged):
    lines = [
        {
            "task": "personamem_32k_generate", "question_id": f"q{i}", "persona_id": i % 4,
            "question_type": "suggest_new_ideas", "answer": "a", "n_options": 4, "skipped": False, "truncated": False,
            "outcome": "failed" if i < failed else "answered", "finish_reason": "",
            "predictions": {} if i < failed else {"robust": "a"}, "credits": {} if i < failed else {"robust": 1.0},
        }
        for i in range(20)
    ]  # fmt: skip
    write_plain(tmp_path, lines)
    outcome = invoke(tmp_path)
    assert outcome.exit_code == 0
    assert ("(!)" in outcome.out) == flagged
    assert ("failed" in outcome.out) == (failed > 0)
    assert rows_flags(invoke(tmp_path, "--json")) == [[], ["failed"] if flagged else []]
    assert (r"m (\!)" in invoke(tmp_path, "--markdown").out) == flagged
    assert ("m (!)" in invoke(tmp_path, "--latex").out) == flagged


def rows_flags(outcome: Outcome) -> list[list[str]]:
    return [row["flags"] for table in json.loads(outcome.out)["tables"] for row in table["rows"]]


def write_plain(folder: Path, lines: Sequence[dict[str, Any]]) -> None:
    task = lines[0]["task"]
    content = {"config": {"model": "x", "model_args": {"model": "m"}}, "configs": {task: {"metadata": {}}}}
    (folder / f"results_{DATE}.json").write_text(json.dumps(content), encoding="utf-8")
    write_lines(folder / f"predictions_{DATE}.jsonl", lines)


def test_where_everything_failed_there_is_no_score(tiny, tmp_path):
    write_results(tmp_path / "good", tiny, "good", right, kind="_generate")
    write_results(tmp_path / "bad", tiny, "bad", right, kind="_generate")
    rewrite(tmp_path / "bad", dict.fromkeys(range(64), "failed"))
    rows = rows_of(invoke(tmp_path, "--json").out)
    bad = rows["bad", None]
    assert (bad["overall"], bad["macro"], bad["n"], bad["failed_rate"], bad["flags"]) == (
        None,
        None,
        0,
        1.0,
        ["failed"],
    )
    assert rows["good", "robust"]["overall"]["value"] == 1.0
    for form in ((), *((form,) for form in FORMS)):
        outcome = invoke(tmp_path, *form)
        assert outcome.exit_code == 0
        assert "bad" in outcome.out
    assert "It has no score." in " ".join(invoke(tmp_path).out.split())

    alone = invoke(tmp_path / "bad", "--html", tmp_path / "page.html")
    assert alone.exit_code == 0
    assert "bad (!)" in alone.out
    (row,) = [line for line in alone.out.splitlines() if line.startswith("bad (!)")]
    assert set(row.split()[2:]) == {"-", "0", "100.0"}
    assert "100.0 % of the questions got no answer" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_whole_run_without_a_letter_says_so_everywhere(tiny, tmp_path):
    write_results(tmp_path / "m", tiny, "mute", right, kind="_generate")
    rewrite(tmp_path / "m", {}, letters=False)
    page = tmp_path / "page.html"
    said = "100.0 % of the answers had no letter that could be read"
    assert said in " ".join(invoke(tmp_path, "--html", page).out.split())
    assert said in page.read_text(encoding="utf-8")
    assert "mute (!)" in page.read_text(encoding="utf-8")
    assert said in invoke(tmp_path, "--markdown").out
    assert said.replace("%", r"\%") in invoke(tmp_path, "--latex").out
    assert any(said in note for note in json.loads(invoke(tmp_path, "--json").out)["tables"][0]["notes"])


def test_files_that_do_not_know_outcomes_are_read_as_answered(tiny, tmp_path):
    write_results(tmp_path, tiny, "m", right, kind="_generate")
    (run,) = read_runs([tmp_path]).runs
    assert {answer.outcome for answer in run.answers.values()} == {"answered"}
    assert not run.failed
    assert "(!)" not in invoke(tmp_path).out


def test_one_persona_id_for_all_is_named_as_the_reason_for_no_intervals(tmp_path):
    lines = [
        {
            "task": "personamem_32k", "question_id": f"q{i}", "persona_id": 0, "question_type": "suggest_new_ideas",
            "answer": "a", "n_options": 4, "skipped": False, "truncated": False, "predictions": {"acc": "a"},
            "credits": {"acc": 1.0},
        }
        for i in range(6)
    ]  # fmt: skip
    write_plain(tmp_path, lines)
    assert "one persona: no interval" in " ".join(invoke(tmp_path).out.split())
    assert "all 6 questions have the same persona_id" in " ".join(invoke(tmp_path).out.split())


def test_hard_questions_that_failed_are_left_out(tiny, tmp_path):
    write_results(tmp_path / "m", tiny, "m", right, kind="_generate")
    rewrite(tmp_path / "m", {0: "failed"})
    ids = read_questions(tiny, "32k").column("question_id").to_pylist()[:4]
    hard = tmp_path / "hard.txt"
    hard.write_text("\n".join(ids), encoding="utf-8")
    row = rows_of(invoke(tmp_path / "m", "--json", "--hard", hard).out)["m", "robust"]
    assert (row["hard"]["value"], row["hard"]["n"]) == (1.0, 3)
