"""The tables of a leaderboard: who is ranked, who stands beside or apart, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_results import first, write_results

from personamem_builder.dataset.check import read_questions
from personamem_builder.results.runs import read_runs
from personamem_builder.space.boards import Leaderboard, make_leaderboard
from personamem_builder.space.page import lines


@pytest.fixture
def made(generated: Path, tmp_path: Path):
    rows = {row["question_id"]: row for row in read_questions(generated, "32k").to_pylist()}

    def make() -> Leaderboard:
        return make_leaderboard(read_runs([tmp_path / "results"]).runs, {"32k": rows})

    return make


def labels(entries) -> list[str]:
    return [entry.row.label for entry in entries]


def test_models_are_in_groups_beside_chance_and_the_best_floor(results, made, generated):
    results("good", 0.9)
    results("poor", 0.1)
    results("good", 0.0, kind="_nocontext")
    [board] = made().boards
    assert board.title == "32k, full options"
    assert board.score == "acc_per_token"
    assert board.questions == len(read_questions(generated, "32k"))
    assert labels(board.entries) == ["good", "poor"]
    good, poor = board.entries
    assert good.row.context_gain is not None
    assert poor.row.context_gain is None
    assert good.behind is None
    pair = board.ranking.pairs[0, 1].difference
    assert poor.behind is not None
    assert (poor.behind.value, poor.behind.low) == (-pair.value, -pair.high)
    assert [row.model for row in board.floors].count("floor: longest") == 1
    assert board.floors[0].overall.value == max(row.overall.value for row in board.floors)
    assert good.over_floor is not None
    assert good.over_floor.difference.value == pytest.approx(
        good.row.overall.value - board.floors[0].overall.value, abs=1e-12
    )
    assert {line.kind for line in lines(board)} == {"model", "floor", "chance"}
    values = [line.row.overall.value for line in lines(board)]
    assert values == sorted(values, reverse=True)
    for kind, own in good.row.types.items():
        assert (kind in good.type_spans) == (own is not None)


def test_what_is_on_other_questions_stands_apart_with_the_reason(results, made, generated):
    rows = read_questions(generated, "32k").to_pylist()
    results("whole", 0.5)
    results("quick", 1.0, limit=5)
    results("hard", 1.0, subset="hard.json", subset_size=7, subset_sha256="0" * 64)
    results("part", 1.0, limit=9, shard="1/3")
    folder = results("down", 1.0)
    last = max(folder.iterdir(), key=lambda path: int(path.name))
    [predictions] = last.glob("predictions_*.jsonl")
    lines_ = predictions.read_text().splitlines()
    lost = json.loads(lines_[0]) | {"outcome": "failed", "predictions": {}, "credits": {}}
    predictions.write_text("\n".join([json.dumps(lost), *lines_[1:]]) + "\n")
    [board] = made().boards
    assert labels(board.entries) == ["whole"]
    assert board.ranking.pairs == {}
    count = f"{len(rows)}"
    assert {one.label: one.reason for one in board.apart} == {
        "quick": f"partial: 5 of {count} questions",
        "hard": "asked only the questions of hard.json",
        "part": f"partial: part 1/3 of a run, 9 of {count} questions",
        "down": f"1 of {count} questions failed; rerun the command to ask only these",
    }


def test_memory_systems_have_a_table_of_their_own_and_tainted_ones_no_score(results, made):
    results("m", 0.7)
    results("m", 0.6, memory="bm25", k=10)
    results("m", 0.5, memory="recent", settings={"tokens": 1100})
    results("m", 0.9, memory="oracle")
    results("m", 0.1, memory="wrong-user")
    results("m", 1.0, memory="leaky", memory_tainted=3)
    results("other", 0.8, memory="oracle")
    history, memory = made().boards
    assert (history.has_memory, memory.has_memory) == (False, True)
    assert labels(history.entries) == ["m"]
    assert sorted(labels(memory.entries)) == ["m [bm25, k=10]", "m [recent, tokens=1100]"]
    assert {row.label for row in memory.beside} == {"m [oracle]", "m [wrong-user]", "m [whole history]"}
    [apart] = memory.apart
    assert apart.label == "m [leaky, TAINTED]"
    assert apart.reason.startswith("tainted: for 3 questions")
    assert apart.overall is None
    assert history.apart == []


def test_tasks_that_no_model_answered_whole_are_listed_without_a_table(results, made):
    results("whole", 0.5)
    results("quick", 0.5, kind="_generate", limit=4)
    results("bare", 0.5, kind="_letters_nocontext")
    found = made()
    assert [board.task for board in found.boards] == ["personamem_32k"]
    assert {task: [one.reason for one in own] for task, own in found.apart.items()} == {
        "personamem_32k_generate": [f"partial: 4 of {found.boards[0].questions} questions"],
        "personamem_32k_letters": ["asked without the history only"],
    }


def test_each_way_of_asking_has_a_table_and_floors_of_the_results_count_once(results, made, generated):
    folder = results("m", 0.5)
    results("m", 0.6, kind="_generate")
    write_results(folder / "floor", generated, "floor: longest", first)
    boards = made().boards
    assert [board.setting for board in boards] == ["full options", "generate"]
    assert [row.model for row in boards[0].floors].count("floor: longest") == 1


def test_where_nothing_is_between_them_models_are_alike_whatever_their_number(results, made):
    for number in range(8):
        results(f"same {number}", 0.0 if number % 2 else 1.0)
    [board] = made().boards
    personas = board.entries[0].row.overall.clusters
    assert personas == 2, "with two personas next to nothing can be shown"
    assert [*board.ranking.groups] == [(0, 7)]
    assert all(len(line.bars) == 1 for line in lines(board) if line.entry)


def test_notes_say_what_a_reader_should_know(results, made, generated, tmp_path):
    write_results(tmp_path / "results" / "n", generated, "mute", lambda row, number: None, kind="_generate")
    [board] = made().boards
    assert any("(!) mute (robust): 100.0 %" in note for note in board.notes)
    assert board.entries[0].row.flags == ["invalid"]
