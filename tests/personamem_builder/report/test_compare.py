"""Two models, question by question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.errors import UserError
from generation.records import QUESTION_TYPES
from personamem_builder.report.compare import compare, holm, in_words
from personamem_builder.report.groups import group_runs
from personamem_builder.report.numbers import p_text
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.runs import Run
from personamem_builder.results.shown import MemoryShown, Subset


def run(model: str, credits: list[float], **changes: Any) -> Run:
    """Two questions a persona; the first half is of one type, the rest of another."""
    answers = {
        f"q{i}": ScoredAnswer(
            i // 2, QUESTION_TYPES[2 * i // len(credits)], 4, {"acc": credit}, frozenset(), False, False
        )
        for i, credit in enumerate(credits)
    }
    fields: dict[str, Any] = {
        "model": model,
        "backend": "hf",
        "model_args": (("pretrained", model),),
        "task": "personamem_32k",
        "data_digest": "abc",
        "limit": None,
        "date": "2026-11-27T10-11-12",
        "path": Path(model) / "results.json",
        "answers": answers,
    }
    return Run(**(fields | changes))


A = run("a", [1, 1, 1, 1, 1, 0, 1, 0])
B = run("b", [0, 0, 0, 1, 1, 1, 1, 0])


def test_wins_losses_ties_and_the_exact_test():
    (one,) = compare(group_runs([A, B]), "a", "b")
    assert (one.first, one.second, one.score) == ("a", "b", "acc")
    assert (one.mcnemar.better, one.mcnemar.worse, one.ties) == (3, 1, 4)
    assert one.mcnemar.p == pytest.approx(2 * (1 + 4) / 16)
    assert one.difference.value == 0.25
    assert (one.difference.n, one.difference.clusters) == (8, 4)
    first, second = (one.types[kind] for kind in QUESTION_TYPES[:2])
    assert first is not None
    assert second is not None
    assert (first.mcnemar.better, first.mcnemar.worse, first.mcnemar.p) == (3, 0, 0.25)
    assert (second.mcnemar.better, second.mcnemar.worse, second.mcnemar.p) == (0, 1, 1.0)
    assert (first.holm_p, second.holm_p) == (0.5, 1.0)
    assert one.types[QUESTION_TYPES[2]] is None


def test_the_order_of_the_models_turns_the_signs():
    groups = group_runs([A, B])
    (one,), (other,) = compare(groups, "a", "b"), compare(groups, "b", "a")
    assert one.difference.value == -other.difference.value
    assert (one.difference.low, one.difference.high) == pytest.approx((-other.difference.high, -other.difference.low))
    assert one.mcnemar == (other.mcnemar.worse, other.mcnemar.better, other.mcnemar.p)
    assert one.ties == other.ties


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0])), min_size=2, max_size=20))
def test_wins_losses_and_ties_are_all_questions(pairs):
    runs = [run(name, list(credits)) for name, credits in zip("ab", zip(*pairs, strict=True), strict=True)]
    (one,) = compare(group_runs(runs), "a", "b")
    assert one.mcnemar.better + one.mcnemar.worse + one.ties == len(pairs)
    assert one.difference.value == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))


def test_in_words():
    words = in_words(compare(group_runs([A, B]), "a", "b")[0])
    assert words[0].startswith("a minus b (acc): +25.0 points [")
    assert words[0].endswith("over 8 shared questions of 4 personas.")
    assert words[1] == "The interval holds 0: no difference is shown."
    assert "a has more credit on 3 questions, b on 1, both the same on 4; p = 0.625." in words[2]
    better = in_words(compare(group_runs([run("a", [1] * 20), run("b", [0] * 20)]), "a", "b")[0])
    assert better[1] == "The interval leaves out 0: a scores higher."
    assert "p < 0.001" in better[2]
    lone = in_words(compare(group_runs([run("a", [1, 1]), run("b", [0, 1])]), "a", "b")[0])
    assert "There is one persona" in lone[1]


def test_where_interval_and_test_disagree_it_is_said():
    # All that the models differ in is one persona's questions.
    answers = {
        f"q{i}": ScoredAnswer(int(i >= 10), QUESTION_TYPES[0], 4, {"acc": 1.0}, frozenset(), False, False)
        for i in range(20)
    }
    worse = {
        name: ScoredAnswer(a.persona_id, a.question_type, 4, {"acc": float(a.persona_id)}, frozenset(), False, False)
        for name, a in answers.items()
    }
    (one,) = compare(group_runs([run("a", [], answers=answers), run("b", [], answers=worse)]), "a", "b")
    words = in_words(one)
    assert words[1] == "The interval holds 0: no difference is shown."
    assert words[3].startswith("The two disagree: go by the interval")


def test_a_model_may_be_named_by_its_folder(tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    runs = [
        run("same", [1, 1, 0, 0], model_args=(("seed", str(i)),), path=f / "results.json")
        for i, f in enumerate(folders)
    ]
    (one,) = compare(group_runs(runs), str(folders[0]), str(folders[1]))
    assert (one.first, one.second) == ("same (seed=0)", "same (seed=1)")
    (named,) = compare(group_runs(runs), "same (seed=0)", "same (seed=1)")
    assert named.first == "same (seed=0)"


def test_each_task_and_score_is_compared_with_its_own():
    runs = [
        A,
        B,
        *(run(m, [1, 0], task="personamem_128k") for m in "ab"),
        run("a", [0, 0], task="personamem_32k_nocontext"),
    ]
    assert [one.task for one in compare(group_runs(runs), "a", "b")] == ["personamem_32k", "personamem_128k"]


def test_whole_runs_go_with_whole_ones_and_a_partial_one_with_what_it_shares():
    part = run("b", [1, 0, 0, 0], limit=4.0)
    (both,) = compare(group_runs([A, B, run("a", [1, 1], limit=2.0)]), "a", "b")
    assert both.difference.n == 8
    assert not both.notes
    (mixed,) = compare(group_runs([A, part]), "a", "b")
    assert mixed.difference.n == 4
    assert mixed.notes == ["Over the 4 questions that both answered (8 and 4)."]


def test_subsets_are_compared_by_themselves():
    hard = Subset("hard.json", 2, "f" * 64)
    runs = [A, B, run("a", [1, 0], subset=hard), run("b", [0, 1], subset=hard)]
    assert [(one.difference.n, one.notes) for one in compare(group_runs(runs), "a", "b")] == [
        (8, []),
        (2, ["Only questions of hard.json."]),
    ]


def test_what_cannot_be_compared_is_refused():
    runs = [A, B, run("other data", [1, 0], data_digest="def"), run("other split", [1, 0], task="personamem_128k")]
    groups = group_runs(runs)
    with pytest.raises(UserError, match="--compare x: no such model") as caught:
        compare(groups, "a", "x")
    assert "there are a, b, other data, other split" in (caught.value.hint or "")
    for name in ("other data", "other split"):
        with pytest.raises(UserError, match="they answered no question of the same task"):
            compare(groups, "a", name)
    with pytest.raises(UserError, match="they answered no question of the same task"):
        compare(groups, "a", "a")


def test_a_name_of_several_runs_asks_for_a_folder():
    runs = [run("m", [1, 0], model_args=(("seed", str(i)),), path=Path(f"m{i}/results.json")) for i in range(2)]
    with pytest.raises(UserError, match=r"--compare m: several runs of personamem_32k \(m0/results.json, m1") as caught:
        compare(group_runs([*runs, run("b", [0, 1])]), "m", "b")
    assert caught.value.hint == "name the folder of one"


def test_a_plain_name_means_the_whole_history_and_a_memory_is_named_by_its_mark():
    shown = MemoryShown("bm25", (("k", "10"),), measures=("evidence recall 30.0 %",))
    groups = group_runs(
        [run("m", [1, 0, 0]), run("m", [1, 1, 0], shown=shown), run("m", [0, 0, 0], shown=MemoryShown("none"))]
    )
    (comparison,) = compare(groups, "m", "m [bm25, k=10]")
    assert comparison.difference.value == pytest.approx(-1 / 3)
    (comparison,) = compare(groups, "m", "m (no context)")
    assert comparison.difference.value == pytest.approx(1 / 3)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_between_the_p_value_and_that_of_bonferroni(ps):
    for p, corrected in zip(ps, holm(ps), strict=True):
        assert p <= corrected <= min(1.0, len(ps) * p) + 1e-12


def test_small_p_values():
    assert (p_text(0.0004), p_text(0.0123), p_text(0.0123, "= ")) == ("< 0.001", "0.012", "= 0.012")
