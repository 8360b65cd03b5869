"""The hard subset: which questions are in it, that their own answers play no part, and what a guess scores there."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder import policies
from personamem_builder.audit.audit import Audit
from personamem_builder.audit.hard import METHOD, hard_ids, write_hard
from personamem_builder.audit.probes import PROBES, probe_credits
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.subset import read_subset

TYPES = ("suggest_new_ideas", "recall_user_shared_facts")


def question(name: str, persona: int, texts: list[str], answer: int, kind: str = TYPES[0]) -> dict[str, Any]:
    return {
        "question_id": name,
        "persona_id": persona,
        "question_type": kind,
        "user_question_or_message": "And now?",
        "all_options": [f"({letter}) {text}" for letter, text in zip("abcd", texts, strict=True)],
        "answer_index": answer,
    }


def same_lengths(count: int) -> AuditedSplit:
    """Return questions on which the rule about lengths can only guess."""
    rows = [question(f"q{i}", i % 2, ["one", "two", "six", "ten"], i % 4) for i in range(count)]
    return AuditedSplit("32k", rows)


def credits_of(*cases: dict[str, float]) -> dict[str, list[float]]:
    return {name: [case.get(name, 0.0) for case in cases] for name in PROBES}


def test_a_question_is_hard_if_no_probe_does_better_than_a_guess() -> None:
    cases = [{}, {"typed": 1.0}, {"words": 0.25, "cross": 0.25}, {"lengths": 0.5}, {"cross": 1 / 3}, {"words": 0.25}]
    assert hard_ids(same_lengths(6), credits_of(*cases)) == ["q0", "q2", "q5"]


def test_a_question_is_not_hard_if_the_length_that_suits_its_type_answers_it() -> None:
    texts = ["a long option", "an option", "the option", "option"]
    longest, shortest = TYPES
    rows = [
        *(question(f"long{i}", i, texts, 0, longest) for i in range(4)),
        *(question(f"short{i}", i, texts, 3, shortest) for i in range(4)),
        question("odd", 2, texts, 3, longest),
        question("other", 3, texts, 0, shortest),
    ]
    assert hard_ids(AuditedSplit("32k", rows), credits_of(*[{}] * 10)) == ["odd", "other"]


def test_the_answers_of_a_persona_do_not_decide_how_its_own_questions_are_answered() -> None:
    """Persona 1 has its shortest options right, many times; by the other persona's answers it must be the longest."""
    texts = ["a long option", "an option", "the option", "option"]
    rows = [question(f"own{i}", 1, texts, 3) for i in range(9)] + [question("other", 2, texts, 0)]
    assert hard_ids(AuditedSplit("32k", rows), credits_of(*[{}] * 10)) == [row["question_id"] for row in rows]


@pytest.mark.slow
def test_an_independent_guess_scores_chance_on_the_hard_subset_and_the_shortcuts_less() -> None:
    guessed, shortcut = [], []
    for seed in range(2):
        rng = random.Random(seed)
        rows = []
        for i in range(400):
            texts = [" ".join(rng.choices(["plum", "pear", "fig", "nut"], k=rng.randint(2, 6))) for _ in range(4)]
            answer = max(range(4), key=lambda j: len(texts[j])) if rng.random() < 0.3 else rng.randrange(4)
            rows.append(question(f"q{i}", i % 8, texts, answer, TYPES[i % 3 == 0]))
        split = AuditedSplit("32k", rows)
        hard = set(hard_ids(split, probe_credits(split)))
        assert 40 < len(hard) < 250
        for row in rows:
            if row["question_id"] in hard:
                guessed.append(policies.best_credit(policies.at_random(1)(row), row["answer_index"]))
                shortcut.append(policies.best_credit(policies.longest(row), row["answer_index"]))
    assert sum(guessed) / len(guessed) == pytest.approx(0.25, abs=0.06)
    assert sum(shortcut) / len(shortcut) < 0.1


def test_one_persona_has_no_hard_questions_to_tell() -> None:
    split = AuditedSplit("32k", [{**row, "persona_id": 1} for row in same_lengths(4).rows])
    with pytest.raises(UserError, match=r"split 32k: .* learned on other personas"):
        hard_ids(split, probe_credits(split))


def test_the_file_says_how_the_questions_were_chosen_and_a_task_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "hard.json"
    one, two = same_lengths(4), dataclasses.replace(same_lengths(2), name="1M")
    credits_ = {"32k": credits_of({}, {}, {"lengths": 1.0}, {}), "1M": credits_of({}, {})}
    ids = write_hard(path, Audit("personamem", "abc", [], [one, two], credits_))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["method"], content["source"], content["digest"]) == (METHOD, "personamem", "abc")
    assert [len(own) for own in ids.values()] == [3, 2]
    assert {name: list(read_subset(path, name).ids) for name in ids} == {name: sorted(own) for name, own in ids.items()}


@pytest.mark.slow
def test_the_official_release_has_few_hard_questions(official_audit: Audit) -> None:
    [split] = official_audit.splits
    credits_ = official_audit.probes["32k"]
    hard = hard_ids(split, credits_)
    assert 10 < len(hard) < 60
    index = {row["question_id"]: i for i, row in enumerate(split.rows)}
    assert max(credits_[name][index[question_id]] for name in PROBES for question_id in hard) <= 0.25
