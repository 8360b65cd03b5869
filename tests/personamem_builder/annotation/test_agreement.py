from __future__ import annotations

from collections.abc import Mapping

from personamem_builder.annotation.agreement import make_study
from personamem_builder.annotation.ratings import Key, RaterAnswers
from personamem_builder.rater_agreement import wilson


def key(*answers: str, types: Mapping[int, str] | None = None) -> Key:
    items = [
        {
            "id": f"q{number}",
            "answer": answer,
            "options": 4,
            "question_type": (types or {}).get(number, "one"),
            "topic": "tea",
        }
        for number, answer in enumerate(answers)
    ]
    return Key.model_validate(
        {"format": "personamem-annotation-key", "version": 1, "sample": "s", "split": "32k", "items": items}
    )


def said(**answers: str) -> RaterAnswers:
    """Make answers to `best` by item."""
    return {item: {"best": letter} for item, letter in answers.items()}


def test_a_choice_is_yes_where_it_is_the_keys_and_unsure_is_not_a_yes() -> None:
    raters = {"ann": said(q0="a", q1="b", q2="unsure"), "bob": said(q0="a", q1="c")}

    best = make_study(key("a", "b", "c"), raters).questions["best"]

    assert (best.yes, best.no, best.unsure, best.missing) == (3, 1, 1, 1)
    assert best.share is not None
    assert best.share == wilson(3 / 5, 3)  # as many observations as items
    assert best.agreement is not None
    assert (best.agreement.items, best.agreement.percent) == (2, 0.5)


def test_raters_who_choose_the_same_wrong_response_agree() -> None:
    raters = {name: said(q0="d", q1="d", q2="a") for name in ("ann", "bob")}

    study = make_study(key("a", "b", "a"), raters)

    assert study.choice is not None
    assert study.choice.percent == 1
    assert [(one.item, one.question, one.yes, one.answers) for one in study.disputed] == [
        ("q0", "best", 0, 2),
        ("q1", "best", 0, 2),
    ]


def test_checks_are_counted_as_they_are() -> None:
    raters = {
        "ann": {"q0": {"correct": "yes", "relevant": "unsure"}, "q1": {"correct": "yes"}},
        "bob": {"q0": {"correct": "no", "comment": " odd "}},
    }

    study = make_study(key("a", "b"), raters)

    correct, relevant = study.questions["correct"], study.questions["relevant"]
    assert (correct.yes, correct.no, correct.missing) == (2, 1, 1)
    assert (relevant.unsure, relevant.missing) == (1, 3)
    assert study.questions["appropriate"].share is None
    assert [(comment.rater, comment.text) for comment in study.comments] == [("bob", "odd")]


def test_types_have_tables_of_their_own() -> None:
    raters = {"ann": said(q0="a", q1="a", q2="a"), "bob": said(q0="a", q1="a", q2="b")}

    types = make_study(key("a", "b", "a", types={2: "two"}), raters).types

    assert {name: items for name, (items, _) in types.items()} == {"one": 2, "two": 1}
    assert {name: outcomes["best"].yes for name, (_, outcomes) in types.items()} == {"one": 2, "two": 1}
