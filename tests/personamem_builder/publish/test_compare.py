from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from generation.errors import UserError
from personamem_builder.build.write import Source, write_dataset
from personamem_builder.publish.compare import (
    Comparison,
    RowChanges,
    SplitChanges,
    changes,
    compare,
    next_version,
    required_bump,
    to_json,
    version_numbers,
)
from personamem_builder.schema import QUESTION_SCHEMA

BUMPS = ("none", "patch", "minor", "major")
Rows = list[dict[str, Any]]
Data = dict[str, tuple[Rows, Rows]]
"""The questions and the contexts of each split."""


def question(key: str, **changed: Any) -> dict[str, Any]:
    return {
        "persona_id": 0,
        "question_id": key,
        "question_type": "suggest_new_ideas",
        "topic": "music",
        "distance_to_ref_proportion_in_context": float("nan"),
        "context_length_in_tokens": 10,
        "user_question_or_message": "What now?",
        "correct_answer": "(b)",
        "all_options": ["(a) w", "(b) x", "(c) y", "(d) z"],
        "shared_context_id": "c1",
        "end_index_in_shared_context": 2,
        "answer_index": 1,
        "evidence_message_indices": [1],
    } | changed


def context(key: str, **changed: Any) -> dict[str, Any]:
    return {
        "shared_context_id": key,
        "persona_id": 0,
        "messages": [{"role": "system", "content": f"about {key}"}, {"role": "user", "content": "hello"}],
        "session_starts": [0],
        "session_topics": ["music"],
        "session_dates": [""],
        "num_tokens": 30,
    } | changed


def data() -> Data:
    return {"32k": ([question("q1"), question("q2"), question("q3")], [context("c1"), context("c2")])}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    numbers = itertools.count()

    def write(content: Data, license: str = "mit", version: str = "1.2.3") -> Path:
        folder = tmp_path / str(next(numbers))
        questions = {s: [pa.Table.from_pylist(rows, schema=QUESTION_SCHEMA)] for s, (rows, _) in content.items()}
        contexts = ((split, row) for split, (_, rows) in content.items() for row in rows)
        write_dataset(folder, questions, contexts, Source("a test", "", license, version, f"{next(numbers)}"))
        return folder

    return write


def test_equal_data_are_equal_whatever_they_were_made_from(written: Callable[..., Path]) -> None:
    shuffled = {"32k": tuple(list(reversed(rows)) for rows in data()["32k"])}
    for other in (data(), shuffled):
        found = compare(written(data()), written(other, version="1.2.4"))
        assert required_bump(found) == "none"
        assert changes(found) == []


ADDED = question("q4")
CASES: dict[str, tuple[Callable[[Rows, Rows], object], str, str]] = {
    "message": (lambda q, c: q[1].update(user_question_or_message="And?"), "major", "changed in what is asked"),
    "options": (
        lambda q, c: q[1]["all_options"].reverse(),
        "major",
        "1 question changed in what is asked (all_options",
    ),
    "answer": (lambda q, c: q[1].update(correct_answer="(a)", answer_index=0), "major", "correct_answer of 1"),
    "type": (lambda q, c: q[1].update(question_type="recall_user_shared_facts"), "major", "question_type of 1"),
    "place": (lambda q, c: q[1].update(end_index_in_shared_context=1), "major", "end_index_in_shared_context"),
    "context": (lambda q, c: q[1].update(shared_context_id="c2"), "major", "shared_context_id"),
    "removed": (lambda q, c: q.pop(), "major", "32k: 1 question removed"),
    "replaced": (lambda q, c: q.__setitem__(0, ADDED), "major", "32k: 1 question removed"),
    "a message of the history": (lambda q, c: c[0]["messages"][1].update(content="bye"), "major", "(messages of 1)"),
    "where sessions start": (lambda q, c: c[0].update(session_starts=[0, 1]), "major", "(session_starts of 1)"),
    "added": (lambda q, c: q.append(ADDED), "minor", "32k: 1 question added"),
    "a context added": (lambda q, c: c.append(context("c3")), "minor", "32k: 1 context added"),
    "evidence": (
        lambda q, c: [row.update(evidence_message_indices=[0]) for row in q],
        "patch",
        "32k: 3 questions changed without effect on scores (evidence_message_indices of 3)",
    ),
    "topic": (lambda q, c: q[0].update(topic="food"), "patch", "(topic of 1)"),
    "dates": (lambda q, c: c[0].update(session_dates=["2024-01-01"]), "patch", "1 context changed without effect"),
    "an idle context removed": (lambda q, c: c.pop(), "patch", "1 context removed"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_change_asks_for(written: Callable[..., Path], case: str) -> None:
    change, bump, line = CASES[case]
    new = data()
    change(*new["32k"])
    found = compare(written(data()), written(new))
    assert required_bump(found) == bump
    assert any(line in said for said in changes(found)), changes(found)


def test_splits_and_the_manifest(written: Callable[..., Path]) -> None:
    more = data() | {"128k": ([question("p1"), question("p2")], [context("d1")])}
    old, new = written(data()), written(more)
    found = compare(old, new)
    assert (found.splits_added, required_bump(found)) == (("128k",), "minor")
    assert changes(found) == ["128k: a new split, 2 questions about 1 context"]
    back = compare(new, old)
    assert (back.splits_removed, required_bump(back)) == (("128k",), "major")
    assert changes(back) == ["128k: the split is gone"]
    licensed = compare(old, written(data(), license="cc-by-4.0"))
    assert (licensed.description, required_bump(licensed)) == (("license",), "patch")
    as_json = to_json(found)
    assert as_json["splits"]["128k"]["questions"]["added"] == ("p1", "p2")
    assert (as_json["bump"], as_json["next_version"]) == ("minor", "1.3.0")


def test_a_damaged_folder_is_not_compared(written: Callable[..., Path]) -> None:
    folder = written(data())
    (folder / "data" / "questions_32k.parquet").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"questions_32k\.parquet is not what the manifest says"):
        compare(written(data()), folder)


def test_ids_that_are_not_unique_are_an_error(written: Callable[..., Path]) -> None:
    twice = {"32k": ([question("q1"), question("q1")], [context("c1")])}
    with pytest.raises(UserError, match="two rows with the question_id q1"):
        compare(written(twice), written(data()))


# What holds for all versions.

KEYS = st.sets(st.sampled_from("abcde"))
VALUES = {"user_question_or_message": st.sampled_from(["x", "y"]), "topic": st.sampled_from(["m", "n"])}


@st.composite
def versions(draw: st.DrawFn) -> Data:
    questions = [question(key, **{name: draw(v) for name, v in VALUES.items()}) for key in sorted(draw(KEYS) | {"a"})]
    contexts = [
        context(key, session_topics=[draw(VALUES["topic"])], session_starts=draw(st.sampled_from([[0], [0, 1]])))
        for key in sorted(draw(KEYS) | {"a"})
    ]
    return {"32k": (questions, contexts)}


@settings(max_examples=15)
@given(old=versions(), new=versions())
@pytest.mark.slow
def test_swapped_versions_swap_what_is_added_and_removed(
    old: Data, new: Data, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("versions")
    for name, content in (("old", old), ("new", new)):
        questions = {s: [pa.Table.from_pylist(rows, schema=QUESTION_SCHEMA)] for s, (rows, _) in content.items()}
        contexts = ((split, row) for split, (_, rows) in content.items() for row in rows)
        write_dataset(folder / name, questions, contexts, Source("a test", "", "mit", "1.0.0", "f"))
    there, back = compare(folder / "old", folder / "new"), compare(folder / "new", folder / "old")
    for one, other in ((there, back), (back, there)):
        for rows, swapped in zip(tables(one), tables(other), strict=True):
            assert rows.added == swapped.removed
            assert dict(rows.changed) == dict(swapped.changed)
    assert (required_bump(there) == "none") == (required_bump(back) == "none") == (repr(old) == repr(new))
    same = compare(folder / "old", folder / "old")
    assert required_bump(same) == "none"


def tables(comparison: Comparison) -> list[RowChanges]:
    return [rows for split in comparison.splits.values() for rows in (split.questions, split.contexts)]


IDS = st.sets(st.sampled_from("abc")).map(lambda ids: tuple(sorted(ids)))
COLUMNS = ["user_question_or_message", "topic", "messages", "session_dates"]
CHANGED = st.dictionaries(st.sampled_from("abc"), st.sets(st.sampled_from(COLUMNS), min_size=1).map(tuple))
ROWS = st.builds(RowChanges, IDS, IDS, CHANGED)
SPLITS = st.dictionaries(st.sampled_from(["32k", "128k"]), st.builds(SplitChanges, ROWS, ROWS), min_size=1)
DESCRIPTION = st.sets(st.sampled_from(["license", "notes"])).map(tuple)
COMPARISONS = st.builds(Comparison, st.just("1.0.0"), st.just("1.0.1"), IDS, IDS, SPLITS, DESCRIPTION)


def both(one: Comparison, other: Comparison) -> Comparison:
    """What differs in either."""

    def joined(a: RowChanges, b: RowChanges) -> RowChanges:
        changed = {k: (*a.changed.get(k, ()), *b.changed.get(k, ())) for k in {*a.changed, *b.changed}}
        return RowChanges(a.added + b.added, a.removed + b.removed, changed)

    none = SplitChanges(RowChanges((), (), {}), RowChanges((), (), {}))
    splits = {}
    for name in {*one.splits, *other.splits}:
        a, b = one.splits.get(name, none), other.splits.get(name, none)
        splits[name] = SplitChanges(joined(a.questions, b.questions), joined(a.contexts, b.contexts))
    return Comparison(
        "1.0.0",
        "1.0.1",
        one.splits_added + other.splits_added,
        one.splits_removed + other.splits_removed,
        splits,
        one.description + other.description,
    )


@given(one=COMPARISONS, other=COMPARISONS)
def test_more_changes_never_ask_for_less(one: Comparison, other: Comparison) -> None:
    bumps = [BUMPS.index(required_bump(comparison)) for comparison in (one, other, both(one, other))]
    assert bumps[2] == max(bumps)
    versions_ = [version_numbers(next_version("1.2.3", b)) for b in BUMPS]
    assert versions_ == sorted(versions_)


@pytest.mark.parametrize(
    ("bump", "version"), [("major", "2.0.0"), ("minor", "1.3.0"), ("patch", "1.2.4"), ("none", "1.2.3")]
)
def test_next_version(bump: Any, version: str) -> None:
    assert next_version("1.2.3", bump) == version


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3-rc1", "01.2.3", "", "1.2.3\n"])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(UserError, match="is not a version"):
        next_version(version, "patch")
