from __future__ import annotations

import ast
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, fails, personamem
from small_results import make_answers, make_run

from generation.records import QUESTION_TYPES
from personamem_builder.report.groups import group_runs
from personamem_builder.report.json_form import to_json
from personamem_builder.report.render import to_latex, to_markdown, to_text
from personamem_builder.report.report import Report, Section, headline
from personamem_builder.report.rows import HardQuestions, ScoreRow
from personamem_builder.report.table import ScoreTable, build_table, published_for
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.runs import Run
from personamem_builder.results.shown import MemoryShown, Subset
from personamem_builder.schema import SHORT_TYPES, option_text

DATE = "2026-11-27T10-11-12.123456"
OFFICIAL = Path(__file__).parents[4] / "shared" / "data" / "personamem_v1" / "questions_32k.csv"


def build_tables(runs: list[Run]) -> list[ScoreTable]:
    return [build_table(group) for group in group_runs(runs)]


def as_report(tables: list[ScoreTable]) -> Report:
    return Report([Section(table, headline(table), [], frozenset()) for table in tables], [], [])


def only(tables: list[ScoreTable]) -> ScoreTable:
    (table,) = tables
    return table


def row_of(table: ScoreTable, label: str) -> ScoreRow:
    (row,) = [row for row in table.rows if row.label == label]
    return row


def test_chance_comes_first_then_floors_then_models_best_first():
    runs = [
        make_run("weak", make_answers([1, 0, 0, 0])),
        make_run("strong", make_answers([1, 1, 1, 0])),
        make_run("floor: shortest", make_answers([0, 0, 0, 0])),
        make_run("floor: longest", make_answers([1, 1, 0, 0])),
    ]
    table = only(build_tables(runs))
    assert [row.label for row in table.rows] == [
        "chance",
        "floor: longest",
        "floor: shortest",
        "strong",
        "weak",
    ]
    assert [row.is_floor for row in table.rows] == [True, True, True, False, False]
    assert table.notes == [
        "weak (acc) scores 25.0%, below the best floor (floor: longest, 50.0%), which reads no conversation."
    ]


def test_chance_follows_the_number_of_options():
    answers = make_answers([1, 1, 1, 1])
    answers |= make_answers([1, 1], n_options=2)
    chance = only(build_tables([make_run("m", answers)])).rows[0]
    assert chance.overall.value == pytest.approx((0.5 + 0.5 + 0.25 + 0.25) / 4)
    assert (chance.overall.low, chance.overall.high, chance.score) == (None, None, None)
    assert chance.types["recall_user_shared_facts"] is not None
    assert chance.types["recall_user_shared_facts"].value == 0.5
    assert chance.types["generalize_to_new_scenarios"] is None


def test_a_model_below_chance_is_named_even_without_floors():
    table = only(build_tables([make_run("m", make_answers([0, 0, 0, 0]))]))
    assert "below the best floor (chance, 25.0%)" in table.notes[0]


def test_a_row_a_score():
    answers = {
        name: ScoredAnswer(
            0,
            "suggest_new_ideas",
            4,
            {"robust": 1.0, "v1_parity": 0.0},
            frozenset({"v1_parity"}),
            False,
            i > 0,
        )
        for i, name in enumerate(["q1", "q2"])
    }
    table = only(build_tables([make_run("m", answers)]))
    rows = {row.score: row for row in table.rows}
    assert list(rows) == [None, "robust", "v1_parity"]
    assert (rows["robust"].invalid_rate, rows["v1_parity"].invalid_rate) == (0.0, 1.0)
    assert rows["robust"].truncated_rate == 0.5
    assert "truncated" in to_text([table], 200)
    assert any(note.startswith("one persona: no interval") for note in table.notes)


def test_context_gain_is_paired_by_question():
    full, bare = make_answers([1, 1, 1, 0]), make_answers([0, 0, 1, 0])
    reordered = dict(reversed(bare.items()))
    runs = [make_run("m", full), make_run("m", reordered, task="personamem_32k_nocontext")]
    table = only(build_tables(runs))
    assert [row.label for row in table.rows] == ["chance", "m", "m (no context)"]
    gain, difference = row_of(table, "m").context_gain, row_of(table, "m").paired_difference
    assert gain is not None
    assert difference is not None
    assert gain.value == pytest.approx(2 / 3)
    assert difference.value == pytest.approx(0.5)
    assert (gain.n, gain.clusters) == (4, 2)
    assert row_of(table, "m (no context)").context_gain is None
    assert not row_of(table, "m (no context)").has_context
    assert table.notes == []
    assert "context gain" in to_text([table], 120)


def test_there_is_no_gain_column_without_a_pair():
    table = only(build_tables([make_run("m", make_answers([1, 1, 1, 0]))]))
    assert "context gain" not in to_text([table], 120).lower()


def test_a_perfect_score_without_context_leaves_the_gain_undefined():
    runs = [
        make_run("m", make_answers([1, 0])),
        make_run("m", make_answers([1, 1]), task="personamem_32k_nocontext"),
    ]
    row = row_of(only(build_tables(runs)), "m")
    assert row.context_gain is None
    assert row.paired_difference is not None


def test_runs_of_other_questions_are_paired_over_what_they_share():
    full, bare = make_answers([1, 1, 1, 0]), make_answers([0, 0])
    runs = [make_run("m", full), make_run("m", bare, task="personamem_32k_nocontext", limit=2.0)]
    table, part = build_tables(runs)
    gain = row_of(table, "m").context_gain
    assert gain is not None
    assert (gain.value, gain.n) == (1.0, 2)
    assert any("over the 2 questions that both runs answered" in note for note in table.notes)
    assert [row.label for row in part.rows] == ["chance", "m (no context)"]


def test_partial_runs_have_tables_of_their_own_one_for_each_set_of_questions():
    runs = [
        make_run("whole", make_answers([1, 1, 1, 0])),
        make_run("a", make_answers([1, 1]), limit=2.0),
        make_run("b", make_answers([0, 1]), limit=0.5),
        make_run("c", make_answers([0, 1, 1]), limit=3.0),
    ]
    tables = build_tables(runs)
    assert [(table.limit, [row.label for row in table.rows[1:]]) for table in tables] == [
        (None, ["whole"]),
        (2, ["a", "b"]),
        (3, ["c"]),
    ]
    assert "Partial runs: 2 questions, not all; do not compare with whole runs." in tables[1].notes
    assert "partial: 2 questions" in to_text(tables, 120)


def test_a_partial_pair_is_preferred_to_a_whole_one():
    bare = "personamem_32k_nocontext"
    runs = [
        make_run("m", make_answers([1, 0]), limit=2.0),
        make_run("m", make_answers([0, 0, 0, 0]), task=bare),
        make_run("m", make_answers([0, 0]), task=bare, limit=2.0),
    ]
    (part,) = [table for table in build_tables(runs) if table.limit]
    assert row_of(part, "m").context_gain.value == 0.5
    assert not any("context gain over" in note for note in part.notes)


def test_chance_corrected_score_and_effective_sample_size():
    # Two personas, one right in all and one in none: as much as two questions would tell.
    table = only(build_tables([make_run("m", make_answers([1, 1, 0, 0]))]))
    chance, row = table.rows
    assert row.chance_corrected.value == pytest.approx((0.5 - 0.25) / 0.75)
    assert row.effective_n == pytest.approx(4 / 3)
    assert (chance.chance_corrected, chance.effective_n) == (None, None)


def test_hard_questions_are_scored_by_the_runs_on_them_or_by_the_answers_to_all():
    subset = Subset("hard.json", 2, "f" * 64)
    whole = [make_run("m", make_answers([1, 1, 1, 0])), make_run("n", make_answers([1, 0, 1, 1]))]
    own = make_run("m", {name: make_answers([0, 0, 0, 1])[name] for name in ("q2", "q3")}, subset=subset)
    (group,) = group_runs(whole)
    table = build_table(group, hard=HardQuestions("hard.json", frozenset({"q2", "q3"}), [own]))
    assert (row_of(table, "m").hard.value, row_of(table, "n").hard.value) == (0.5, 1.0)
    assert row_of(table, "m").hard.n == 2
    assert table.rows[0].hard is None
    assert "Hard = on the 2 questions of hard.json." in to_text([table], 200)
    unanswered = build_table(group, hard=HardQuestions("hard.json", frozenset({"q2", "q9"})))
    assert row_of(unanswered, "m").hard is None


def test_floors_computed_here_are_marked_and_count_as_floors():
    (group,) = group_runs([make_run("m", make_answers([1, 0, 0, 0]))])
    floor = make_run("floor: longest", make_answers([1, 1, 0, 0]), is_computed=True)
    table = build_table(group, [floor])
    assert [row.label for row in table.rows] == ["chance", "floor: longest (computed here)", "m"]
    assert "below the best floor (floor: longest, 50.0%)" in table.notes[0]


def test_published_scores_stand_beside_whole_runs_only():
    def quoted(**changes):
        (group,) = group_runs([make_run("m", make_answers([1, 0]), split="32k", **changes)])
        return [one.system for one in published_for(group)]

    assert "GPT-4o" in quoted()
    assert quoted(limit=2.0) == quoted(subset=Subset("hard.json", 2, "f")) == []
    (blocks,) = group_runs([make_run("m", make_answers([1, 0]), split="7blocks")])
    assert published_for(blocks) == ()
    (group,) = group_runs([make_run("m", make_answers([1, 0]), split="32k")])
    table = build_table(group, quoted=published_for(group))
    assert all("GPT-4o" not in row.label for row in table.rows)
    for text in (to_text([table], 120), to_markdown([table])):
        assert "Quoted (the author of PersonaMem" in text.replace("\n", " ")


def test_quoted_scores_are_shown_by_type_where_they_were_published_so():
    (group,) = group_runs([make_run("m", make_answers([1, 0, 1, 1]), split="32k")])
    table = build_table(group, quoted=published_for(group))
    row = "Memind", "68", "72", "39", "-", "60", "89", "80", "75"
    assert " ".join(row) in " ".join(to_text([table], 200).split())
    assert "| " + " | ".join(row) + " |" in to_markdown([table])
    assert "MIRIX 38" in to_text([table], 200)


def test_runs_without_a_common_question_are_not_paired():
    runs = [
        make_run("m", make_answers([1, 1, 1, 0])),
        make_run("m", {"other": make_answers([0])["q0"]}, task="personamem_32k_nocontext"),
    ]
    assert row_of(only(build_tables(runs)), "m").context_gain is None


def test_the_pair_with_the_same_arguments_is_preferred():
    args = [(("dtype", kind), ("pretrained", "m")) for kind in ("a", "b", "c")]
    full = [make_run("m", make_answers([1, 0]), model_args=arg) for arg in args]
    bare = [
        make_run("m", make_answers([0, credit]), model_args=arg, task="personamem_32k_nocontext")
        for arg, credit in zip(args, [0.0, 0.5], strict=False)
    ]
    table = only(build_tables([*full, *bare]))
    gains = {row.label: row.context_gain for row in table.rows if row.has_context and row.score}
    assert gains["m (dtype=a)"] is not None
    assert gains["m (dtype=b)"] is not None
    assert gains["m (dtype=a)"].value == pytest.approx(0.5)
    assert gains["m (dtype=b)"].value == pytest.approx(0.25 / 0.75)
    assert gains["m (dtype=c)"] is None
    assert any(note.startswith("m (dtype=c): no context gain") for note in table.notes)


def test_a_lone_pair_with_other_arguments_is_used_and_noted():
    other = {"model_args": (("max_length", "512"),), "task": "personamem_32k_nocontext"}
    table = only(build_tables([make_run("m", make_answers([1, 0])), make_run("m", make_answers([0, 0]), **other)]))
    assert row_of(table, "m").context_gain is not None
    assert "m: its run without context has other model arguments." in table.notes


def test_the_backend_is_named_where_the_model_name_does_not_tell():
    runs = [make_run("m", make_answers([1, 0])), make_run("m", make_answers([1, 1]), backend="hf-prefix")]
    assert [row.label for row in only(build_tables(runs)).rows] == ["chance", "m (hf-prefix)", "m (hf)"]


def test_each_data_set_has_a_table():
    runs = [
        make_run("m", make_answers([1, 0])),
        make_run("m", make_answers([1, 0]), data_digest="def", task="personamem_32k_nocontext"),
        make_run("m", make_answers([1, 0]), task="personamem_128k"),
    ]
    tables = build_tables(runs)
    assert [(t.task, t.data_digest) for t in tables] == [
        ("personamem_32k", "abc"),
        ("personamem_32k", "def"),
        ("personamem_128k", "abc"),
    ]
    for table in tables:
        assert any("different data" in note for note in table.notes) == (table.task == "personamem_32k")
        assert all(row.context_gain is None for row in table.rows)


def test_each_subset_of_a_data_set_has_a_table():
    hard, same = (Subset(file, 2, "f" * 64) for file in ("hard.json", "copy.txt"))
    runs = [
        make_run("m", make_answers([1, 0, 1, 1])),
        make_run("m", make_answers([0, 0]), subset=hard),
        make_run("n", make_answers([0, 1]), subset=same),
        make_run("m", make_answers([0, 1]), subset=Subset("hard.json", 2, "e" * 64)),
        make_run("m", make_answers([0, 1]), task="personamem_32k_nocontext"),
    ]
    tables = build_tables(runs)
    assert [[(row.label, row.n) for row in table.rows] for table in tables] == [
        [("chance", 4), ("m", 4), ("m (no context)", 2)],
        [("chance", 2), ("m", 2)],
        [("chance", 2), ("n", 2), ("m", 2)],
    ]
    assert [table.subset and table.subset.sha256[0] for table in tables] == [None, "e", "f"]
    assert [any("Only the 2 questions of hard.json (sha256 " in note for note in table.notes) for table in tables] == [
        False,
        True,
        True,
    ]
    assert not any("different data" in note for table in tables for note in table.notes)
    assert "personamem_32k (data abc, 2 questions of hard.json)" in to_text(tables, 120)
    assert "### personamem_32k (data abc, 2 questions of hard.json)" in to_markdown(tables)
    assert [table["subset"] for table in to_json(as_report(tables))["tables"]][2] == {
        "file": "hard.json",
        "size": 2,
        "sha256": "f" * 64,
    }


def test_memories_are_rows_of_one_table_with_their_gain_and_their_gap_to_the_evidence_alone():
    runs = [
        make_run("m", make_answers([0, 0, 0, 1]), shown=MemoryShown("wrong-user")),
        make_run("m", make_answers([1, 1, 1, 1]), shown=MemoryShown("oracle")),
        make_run("m", make_answers([1, 0, 1, 1]), shown=MemoryShown("bm25", (("k", "10"),))),
        make_run("m", make_answers([1, 0, 0, 1])),
        make_run("m", make_answers([0, 0, 1, 0]), shown=MemoryShown("none")),
    ]
    table = only(build_tables(runs))
    assert [(row.label, row.memory, row.overall.value) for row in table.rows[1:]] == [
        ("m [oracle]", "oracle", 1.0),
        ("m [bm25, k=10]", "bm25", 0.75),
        ("m", "full", 0.5),
        ("m (no context)", "none", 0.25),
        ("m [wrong-user]", "wrong-user", 0.25),
    ]
    assert row_of(table, "m [bm25, k=10]").context_gain.value == pytest.approx((0.75 - 0.25) / 0.75)
    assert row_of(table, "m [bm25, k=10]").oracle_gap.value == pytest.approx(0.25)
    assert row_of(table, "m").oracle_gap.value == pytest.approx(0.5)
    assert row_of(table, "m [oracle]").oracle_gap is None
    assert row_of(table, "m (no context)").context_gain is None
    assert [row["memory"] for row in to_json(as_report([table]))["tables"][0]["rows"]][1:3] == ["oracle", "bm25"]
    assert "to oracle" in to_text([table], 200)


def test_what_came_of_a_memory_does_not_tell_models_apart():
    runs = [
        make_run("m", make_answers([1, 0]), model_args=(("dtype", name),), shown=MemoryShown("bm25", failed=failed))
        for name, failed in (("float16", 0), ("float32", 1))
    ]
    labels = {row.label for row in only(build_tables(runs)).rows[1:]}
    assert labels == {"m (dtype=float16) [bm25]", "m (dtype=float32) [bm25]"}


def test_a_tainted_run_is_marked_wherever_it_is_shown():
    table = only(build_tables([make_run("m", make_answers([1, 1]), shown=MemoryShown("cheat", tainted=2))]))
    assert [row.label for row in table.rows[1:]] == ["m [cheat, TAINTED]"]
    assert any(note.startswith("TAINTED: m [cheat, TAINTED]") and "2 questions" in note for note in table.notes)


def test_what_retrieval_was_worth_is_told():
    shown = MemoryShown("bm25", measures=("evidence recall 30.0 %", "share of history 5.6 %"))
    table = only(build_tables([make_run("m", make_answers([1, 1]), shown=shown)]))
    assert "m [bm25]: evidence recall 30.0 %, share of history 5.6 %." in table.notes


def test_failures_of_a_memory_system_are_told():
    table = only(build_tables([make_run("m", make_answers([1, 1]), shown=MemoryShown("mem0", failed=1))]))
    assert any("failed for 1 question" in note for note in table.notes)


def test_below_the_floor_is_where_a_model_with_a_wrong_history_belongs():
    for memory, warned in (("full", True), ("oracle", True), ("wrong-user", False)):
        (table,) = build_tables([make_run("m", make_answers([0, 0, 0, 0]), shown=MemoryShown(memory))])
        assert any("below the best floor" in note for note in table.notes) == warned


def test_text_fits_120_columns_and_folds_below():
    answers = {f"{k}{name}": answer for k in range(9) for name, answer in make_answers([1, 0] * 14).items()}
    runs = [make_run("floor: longest", answers), make_run("some-organisation/a-model-of-7B-chat", answers)]
    runs.append(make_run("some-organisation/a-model-of-7B-chat", answers, task="personamem_32k_nocontext"))
    tables = build_tables(runs)
    for width in (60, 80, 120, 300):
        text = to_text(tables, width)
        assert max(map(len, text.splitlines())) <= width
        assert all(short in text for short in SHORT_TYPES.values()) or width < 120
        words = {word for line in to_text(tables, 300).splitlines() for word in line.split() if word.isalpha()}
        assert words <= set(text.split()), "words are whole"
    assert "[50.0, 50.0]" in to_text(tables, 120)
    assert "50.0 [50.0, 50.0]" in to_text(tables, 300)
    assert to_text(tables, 300).count("macro") == 1
    assert to_text(tables, 300).count("floor: longest") == 1


def test_names_are_printed_as_they_are():
    tables = build_tables([make_run("a|b[red]:smile:", make_answers([1, 0, 1, 0]))])
    assert "a|b[red]:smile:" in to_text(tables, 200)
    markdown = to_markdown(tables)
    assert r"a\|b[red\]:smile:" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {17}


@pytest.mark.parametrize(
    ("name", "markdown", "latex"),
    [
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;", "<img src=x onerror=alert(1)>"),
        ("[here](http://x.test)", r"[here\](http://x.test)", "[here](http://x.test)"),
        ("**bold** _it_ a_b `c`", r"\*\*bold\*\* \_it\_ a_b \`c\`", r"**bold** \_it\_ a\_b `c`"),
        (
            "50% & $x^2$ #1 {~}",
            r"50% &amp; $x^2$ \#1 {\~}",
            r"50\% \& \$x\textasciicircum{}2\$ \#1 \{\textasciitilde{}\}",
        ),
        ("\\input{/etc/passwd}", "\\\\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
    ],
)
def test_markup_in_names_does_nothing(name, markdown, latex):
    tables = build_tables([make_run(name, make_answers([1, 0, 1, 0]))])
    assert f"| {markdown} | acc |" in to_markdown(tables)
    assert f"\n{latex} & acc & 4 & " in to_latex(tables)


def test_latex_is_a_table_for_booktabs():
    lines = to_latex(build_tables([make_run("m", make_answers([1, 0, 1, 1]))])).splitlines()
    assert lines[:3] == [r"% personamem_32k (data abc)", r"\begin{tabular}{llrrrrrrrrrr}", r"\toprule"]
    assert lines[3].startswith("model & score & n & overall & macro & facts & new ideas & ")
    assert lines[4] == r"\midrule"
    assert lines[5].startswith("chance & - & 4 & 25.0 & 25.0 & ")
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert all(line.endswith(r" \\") for line in [lines[3], *lines[5:-2]])


# The command itself, on a made-up results folder.


def write_run(folder: Path, tasks: dict[str, list[float]], model: str, **config: Any) -> None:
    folder.mkdir(parents=True)
    configs = {task: {"metadata": {"data": "d", "data_digest": "abc"}} for task in tasks}
    results = {
        "results": {},
        "configs": configs,
        "config": {"model": model, "limit": None, **config},
        "model_name": "x",
        "date": 1.0,
    }
    (folder / f"results_{DATE}.json").write_text(json.dumps(results), encoding="utf-8")
    with (folder / f"predictions_{DATE}.jsonl").open("w", encoding="utf-8") as file:
        for task, credits in tasks.items():
            for i, credit in enumerate(credits):
                line = {
                    "task": task,
                    "question_id": f"q{i}",
                    "persona_id": i // 2,
                    "question_type": QUESTION_TYPES[i // 2],
                    "n_options": 4,
                    "predictions": {"acc": "a"},
                    "credits": {"acc": credit},
                    "skipped": False,
                    "truncated": False,
                }
                file.write(json.dumps(line) + "\n")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    tasks = {"personamem_32k": [1.0, 1, 1, 0, 0, 0], "personamem_32k_nocontext": [0.0, 1, 0, 0, 0, 0]}
    write_run(folder / "model", tasks, "hf", model_args={"pretrained": "org/model"})
    floor = {"personamem_32k": [0.5, 1, 0, 0, 0, 0]}
    write_run(folder / "floor", floor, "personamem-floor", model_args={"policy": "longest"})
    return folder


def invoke(*args: object) -> Outcome:
    return personamem("report", *args, COLUMNS="120")


def test_the_command_prints_a_table(results: Path) -> None:
    result = invoke(results)
    assert result.exit_code == 0, result.err
    assert "personamem_32k (data abc)" in result.out
    assert "[0.0, 100.0]" in result.out  # 0.5 ± 4.303 · 0.289, clipped
    assert "40.0" in result.out  # gain: (1/2 − 1/6) / (5/6)
    assert "org/model (no context)" in result.out
    assert result.err == ""


def test_the_command_prints_json(results):
    result = invoke(results, "--json")
    assert result.exit_code == 0, result.err
    printed = json.loads(result.out)
    assert printed["schema_version"] == 1
    (table,) = printed["tables"]
    assert table.keys() == {
        "task", "data_digest", "subset", "limit", "rows", "hard_file", "quoted", "notes", "analyses",
        "left_out",
    }  # fmt: skip
    assert (table["limit"], table["hard_file"]) == (None, None)
    for quoted in table["quoted"]:
        assert quoted.keys() == {"system", "score", "source", "types"}
    assert [analysis["name"] for analysis in table["analyses"]] == ["types"]
    for analysis in table["analyses"]:
        assert analysis.keys() == {
            "name", "title", "unit", "bins", "series", "expected", "expects", "note", "remarks",
        }  # fmt: skip
        assert len(analysis["bins"]) == len(analysis["expected"])
        for series in analysis["series"]:
            assert series.keys() == {"model", "floor", "values"}
            assert len(series["values"]) == len(analysis["bins"])
    assert [(series["model"], series["floor"]) for series in table["analyses"][0]["series"]] == [
        ("org/model", False),
        ("floor: longest", True),
    ]
    for left in table["left_out"]:
        assert left.keys() == {"name", "title", "reason"}
    assert "comparisons" not in printed
    assert (table["task"], table["data_digest"]) == ("personamem_32k", "abc")
    assert table["notes"] == ["The quoted scores are on the official release."]
    assert table["subset"] is None
    assert [(row["model"], row["floor"], row["context"], row["score"]) for row in table["rows"]] == [
        ("chance", True, True, None),
        ("floor: longest", True, True, "acc"),
        ("org/model", False, True, "acc"),
        ("org/model", False, False, "acc"),
    ]
    for row in table["rows"]:
        assert row.keys() == {
            "model", "score", "floor", "context", "computed", "n", "overall", "macro", "types", "chance_corrected",
            "context_gain", "paired_difference", "oracle_gap", "memory", "hard", "effective_n", "invalid_rate",
            "skipped_rate", "truncated_rate", "failed_rate", "cut_rate", "refused_rate", "flags", "usage",
        }  # fmt: skip
        assert tuple(row["types"]) == QUESTION_TYPES
        assert row["n"] == 6
        assert row["overall"].keys() == {"value", "low", "high", "n", "clusters"}
    chance, floor, model, bare = table["rows"]
    assert chance["overall"] == {"value": 0.25, "low": None, "high": None, "n": 6, "clusters": 3}
    assert floor["overall"]["value"] == 0.25
    assert model["overall"] == {"value": 0.5, "low": 0.0, "high": 1.0, "n": 6, "clusters": 3}
    assert model["types"]["suggest_new_ideas"] == {
        "value": 0.5,
        "low": None,
        "high": None,
        "n": 2,
        "clusters": 1,
    }
    assert model["types"]["generalize_to_new_scenarios"] is None
    assert model["context_gain"]["value"] == pytest.approx(0.4)
    assert model["paired_difference"]["value"] == pytest.approx(1 / 3)
    assert bare["context_gain"] is None


def test_the_command_prints_markdown(results):
    result = invoke(results / "model", "--markdown")
    assert result.exit_code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == "### personamem_32k (data abc)"
    heads = "| model | score | n | overall | macro | above chance | context gain | invalid | skipped | n eff. | facts |"
    assert lines[2].startswith(heads)
    assert lines[5].startswith("| org/model | acc | 6 | 50.0 [0.0, 100.0] | ")
    assert "--model personamem-floor" in result.err  # the next step: no floor ran


def test_the_next_step_is_the_run_without_context(tmp_path):
    folder = tmp_path / "results"
    write_run(folder / "model", {"personamem_32k": [1.0, 1, 0]}, "hf", model_args="pretrained=org/model")
    write_run(folder / "floor", {"personamem_32k": [1.0, 0, 0]}, "personamem-floor", model_args="policy=longest")
    result = invoke(folder, "--json")
    assert "--tasks personamem_32k_nocontext" in result.err
    json.loads(result.out)


def test_no_further_run_is_asked_for_beside_another_memory(tmp_path):
    write_run(tmp_path / "wrong", {"personamem_32k": [1.0, 0]}, "hf", model_args="pretrained=org/model")
    path = tmp_path / "wrong" / f"results_{DATE}.json"
    assert "next: " in invoke(tmp_path).err
    path.write_text(path.read_text().replace('"data":', '"memory": "wrong-user", "data":'), encoding="utf-8")
    result = invoke(tmp_path)
    assert "[wrong-user]" in result.out
    assert "nocontext" not in result.err


def test_the_default_folder_is_results(results, monkeypatch):
    monkeypatch.chdir(results.parent)
    assert invoke().out == invoke("results").out
    monkeypatch.chdir(results / "model")
    fails(invoke(), "results: no such file or folder")


def test_notes_on_what_was_left_out_go_to_stderr(results):
    write_run(results / "again", {"personamem_32k": [1.0]}, "personamem-floor", model_args="policy=longest")
    result = invoke(results, "--json")
    assert "note: left out an older run of floor: longest" in result.err
    json.loads(result.out)


def test_two_formats_at_once_are_refused(results):
    result = invoke(results, "--json", "--markdown")
    assert result.exit_code == 2
    assert "cannot be used together" in result.err


def test_help_has_an_example():
    assert "personamem report results --html report.html" in invoke("--help").out


def test_the_longest_option_scores_half_of_the_official_32k_split():
    if not OFFICIAL.exists():
        pytest.skip("the official question file is not beside the checkout (shared/data/personamem_v1)")
    answers = {}
    with OFFICIAL.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                options = json.loads(row["all_options"])
            except json.JSONDecodeError:
                options = ast.literal_eval(row["all_options"])
            lengths = [len(option_text(option)) for option in options]
            longest = [i for i, length in enumerate(lengths) if length == max(lengths)]
            answer = "abcd".index(row["correct_answer"][1])
            credit = 1 / len(longest) if answer in longest else 0.0
            answers[row["question_id"]] = make_answers([credit], persona_id=int(row["persona_id"]))["q0"]
    row = only(build_tables([make_run("floor: longest", answers)])).rows[1]
    assert (row.n, row.overall.clusters) == (589, 20)
    assert row.overall.value == pytest.approx(0.505, abs=0.0005)
    assert row.overall.low is not None
    assert row.overall.high is not None
    assert row.overall.low < 0.505 < row.overall.high


def test_json_of_no_tables_is_still_the_schema():
    assert to_json(as_report([])) == {"schema_version": 1, "tables": [], "curves": [], "settings": []}
