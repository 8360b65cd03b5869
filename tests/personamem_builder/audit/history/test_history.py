from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_contexts import context_row

from generation.errors import UserError
from personamem_builder.audit.audit import Audit
from personamem_builder.audit.gates import judge
from personamem_builder.audit.history.history import history_findings
from personamem_builder.audit.history.memoriser import learn
from personamem_builder.audit.history.telling import area_under_curve, mask
from personamem_builder.audit.history.words import assertions
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.page import to_html
from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings
from personamem_builder.schema import option_letter

LATEST = "acknowledge_latest_user_preferences"
IDEAS = "suggest_new_ideas"
COURSE = "track_full_preference_evolution"
RECALL = "recall_user_shared_facts"
TEAS = ("sencha tea", "darjeeling tea", "rooibos tea", "matcha tea")


def row(options: Sequence[str], answer: int = 0, question_type: str = LATEST, **columns: Any) -> Any:
    return {
        "persona_id": 0,
        "question_id": "q",
        "question_type": question_type,
        "topic": "drinks",
        "user_question_or_message": "What do I drink?",
        "correct_answer": f"({option_letter(answer)})",
        "all_options": [f"({option_letter(i)}) {text}" for i, text in enumerate(options)],
        "shared_context_id": "c",
        "end_index_in_shared_context": 100,
        "source_question_type": question_type,
        "answer_index": answer,
        "evidence_event_ids": [],
        **columns,
    }


def split_of(messages: Sequence[str], *rows: Any) -> AuditedSplit:
    """Return a split with one context; users write its messages with an even index, the assistant the others."""
    chat = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(messages)]
    return AuditedSplit("32k", rows, lambda: iter([context_row(chat, "c")]))


def found(split: AuditedSplit) -> dict[tuple[str, str], Finding]:
    return {(finding.check.removeprefix("history."), finding.slice): finding for finding in history_findings(split)}


def values(messages: Sequence[str], *rows: Any) -> dict[str, float | None]:
    return {check: one.value for (check, slice_), one in found(split_of(messages, *rows)).items() if slice_ == "all"}


def drinks(*teas: str) -> list[str]:
    return [f"By now you drink {tea} every day." for tea in teas]


# --- what options assert


def test_an_option_asserts_what_the_others_do_not() -> None:
    (first, *_) = assertions(row(drinks(*TEAS)))
    assert first.words == ("sencha",)
    assert first.segments == (("sencha",),)


def test_orders_of_the_same_things_are_told_by_their_parts() -> None:
    options = ["It was chess, later golf.", "It was golf, later chess."]
    assert [one.segments for one in assertions(row(options, question_type=COURSE))] == [
        (("chess",), ("later", "golf")),
        (("golf",), ("later", "chess")),
    ]


# --- rules of mention

CHAT = [
    "I drank sencha, and sencha again.",  # 0
    "Try darjeeling.",
    "Rooibos came next.",  # 2
    "I see.",
    "Darjeeling is for others. I had sencha.",  # 4
    "Matcha, matcha, darjeeling!",
    "Well, matcha.",  # 6
    "Sencha is fine, too.",
]
RULES = {
    # the right option is, of sencha, darjeeling, rooibos and matcha, by the user:
    "last_mentioned": (0, 0, 0, 1),
    "first_mentioned": (1, 0, 0, 0),
    "most_mentioned": (1, 0, 0, 0),
    "least_mentioned": (0, 1 / 3, 1 / 3, 1 / 3),
    "last_mentioned_by_anyone": (1, 0, 0, 0),
    "first_mentioned_by_anyone": (1, 0, 0, 0),
    "most_mentioned_by_anyone": (1 / 2, 1 / 2, 0, 0),
    "least_mentioned_by_anyone": (0, 0, 1, 0),
    "most_mentioned_by_assistant": (0, 1, 0, 0),
}


@pytest.mark.parametrize("answer", range(4))
def test_rules_of_mention(answer: int) -> None:
    measured = values(CHAT, row(drinks(*TEAS), answer))
    assert {rule: measured[rule] for rule in RULES} == {
        rule: pytest.approx(credits_[answer]) for rule, credits_ in RULES.items()
    }


def test_what_comes_after_the_end_is_not_read() -> None:
    measured = values(CHAT, row(drinks(*TEAS), 2, end_index_in_shared_context=4))
    assert (measured["last_mentioned"], measured["most_mentioned"]) == (1, 1 / 2)


def test_a_question_whose_context_is_missing_is_guessed() -> None:
    measured = values(CHAT, row(drinks(*TEAS), 0, shared_context_id="other"))
    assert {measured[rule] for rule in RULES} == {1 / 4}


def test_a_course_is_the_one_whose_last_part_was_mentioned_last() -> None:
    courses = ["First it was chess, then golf.", "First it was golf, then chess.", "First it was darts, then polo."]
    chat = ["I play chess.", "I see.", "I play golf.", "I see."]
    assert [values(chat, row(courses, i, COURSE))["last_mentioned"] for i in range(3)] == [1, 0, 0]
    assert [values(chat, row(courses, i, COURSE))["first_mentioned"] for i in range(3)] == [1, 0, 0]


# --- best match


def test_the_best_match_is_with_one_message() -> None:
    options = ["You lost a red kite in Rome.", "You lost a blue glove in Oslo."]
    chat = [
        "A red kite flew up, in Rome.",
        "I see.",
        "A blue sky.",
        "I see.",
        "A warm glove.",
        "I see.",
        "Oslo was cold.",
    ]
    for check in ("best_match", "best_match_bm25", "polarity"):
        assert [values(chat, row(options, i, RECALL))[check] for i in range(2)] == [1, 0], check


# --- the reader of polarity

STANCES = ["You love chess now.", "You love golf now.", "You hate chess now.", "You hate golf now."]


@pytest.mark.parametrize(
    ("chat", "answer"),
    [
        (["Chess is wonderful, a delight.", "I see."], 0),
        (["Chess is horrible, a disgrace.", "I see."], 2),
        (["Chess is wonderful.", "I see.", "Golf was awful.", "I see."], 3),
        (["Golf is wonderful.", "I see.", "Golf was awful.", "I see."], 3),
        (["Golf was awful.", "I see.", "I met golf again. What a delight!", "I see."], 1),
    ],
)
def test_of_a_thing_the_last_feeling_counts(chat: list[str], answer: int) -> None:
    assert [values(chat, row(STANCES, i))["polarity"] for i in range(4)] == [float(i == answer) for i in range(4)]


def test_each_type_is_read_in_its_way() -> None:
    measured = [values(CHAT, row(drinks(*TEAS), 3, kind))["polarity"] for kind in (LATEST, IDEAS)]
    assert measured == [1, pytest.approx(1 / 3)]


# --- how it is told


def two_tellings() -> list[Any]:
    return [row(drinks(*TEAS), i, question_id=f"q{i}", telling=told) for i, told in enumerate(("named", "implied"))]


def test_figures_are_given_for_each_telling() -> None:
    findings = found(split_of(CHAT, *two_tellings()))
    assert [findings["first_mentioned", slice_].value for slice_ in ("all", "named", "implied")] == [1 / 2, 1, 0]
    assert (findings["polarity_unnamed", "all"].n, findings["polarity_unnamed", "all"].value) == (1, 0)


def test_a_page_has_a_column_for_each_telling() -> None:
    split = dataclasses.replace(split_of(CHAT, *two_tellings()), contexts=None)
    findings = accuracy_findings("history.polarity", split, [1.0, 0.0], by_telling=True)
    page = to_html(Audit("", "", judge(findings, {}), [split], {}))
    for telling in ("named", "implied"):
        assert re.search(rf"<th[^>]*>\s*{telling}\s*</th>", page), telling


def test_without_contexts_only_what_needs_none_is_made() -> None:
    rows = [row(drinks(*TEAS), persona_id=persona, question_id=f"q{persona}") for persona in range(2)]
    findings = history_findings(AuditedSplit("32k", rows))
    assert {finding.check for finding in findings if not finding.needs} == {"history.pooled"}
    assert {finding.needs for finding in findings if finding.needs} == {"contexts", "data with another seed"}


# --- evidence told from other messages


def test_things_numbers_and_names_are_masked() -> None:
    assert mask("On Monday I saw 3 films. Films by Ozu!", {"film"}) == (
        "on <name> I saw <number> <thing> <thing> by <name>"
    ).replace(" I ", " i ")


def evident(personas: int, sign: str, reply: str) -> AuditedSplit:
    """Return a split in which every fourth message is evidence; it has a sign of it, or the reply to it has."""
    contexts, rows = [], []
    for persona in range(personas):
        chat, evidence = [], []
        for i in range(24):
            told = i % 4 == 0
            evidence += [2 * i] if told else []
            chat += [
                {"role": "user", "content": f"{sign if told else 'Well'} word{i} goes on."},
                {"role": "assistant", "content": f"{reply if told else 'Hm'}. That is word{i % 5}."},
            ]
        contexts.append(context_row(chat, f"c{persona}", persona))
        rows.append(
            row(
                drinks(*TEAS),
                persona_id=persona,
                question_id=f"q{persona}",
                shared_context_id=f"c{persona}",
                evidence_message_indices=evidence,
            )
        )
    return AuditedSplit("32k", rows, lambda: iter(contexts))


def test_a_sign_of_evidence_is_found() -> None:
    findings = found(evident(6, "Listen", "Hm"))
    assert findings["event_words", "all"].value == 1
    assert findings["event_words", "all"].chance == 0.5
    assert findings["reply_words", "all"].value < 0.9
    assert findings["reply_openings", "all"].value == pytest.approx(findings["reply_openings", "all"].chance)


def test_a_sign_in_the_reply_is_found() -> None:
    findings = found(evident(6, "Well", "Thanks"))
    assert (findings["reply_words", "all"].value, findings["reply_openings", "all"].value) == (1, 1)


def test_the_area_is_how_often_a_positive_is_put_before_a_negative() -> None:
    labels = np.array([True, False, True, False])
    assert area_under_curve(np.array([3.0, 2.0, 2.0, 1.0]), labels, np.array([1, 1, 2, 2]))[0] == (1 + 1 + 0.5 + 1) / 4
    area, error = area_under_curve(np.array([3.0, 2.0, 1.5, 1.0]), labels, np.array([1, 2, 2, 1]))
    # Persona 1 has placements of 1 and 1 where the mean is 0.75, persona 2 of 0.5 and 0.5; two of each kind.
    assert (area, error) == (0.75, pytest.approx((2 * (0.25**2 + 0.25**2)) ** 0.5))


# --- pooled questions


def test_a_state_that_other_questions_name_too_is_found_in_the_pool() -> None:
    rows = []
    for persona in range(12):
        for i in range(4):
            teas = [f"tea{persona}x{i}x{j}" for j in range(4)]
            more = [teas[i], *(f"{tea}y" for tea in teas[1:])]
            rows.append(row(drinks(*teas), i, persona_id=persona, question_id=f"q{persona}-{i}"))
            rows.append(row(drinks(*more), 0, RECALL, persona_id=persona, question_id=f"r{persona}-{i}"))
    findings = {(one.check, one.slice): one for one in history_findings(AuditedSplit("32k", rows))}
    assert findings["history.pooled", "all"].value == 1


# --- generated data


@pytest.fixture(scope="module")
def sound(generated: Path) -> AuditedSplit:
    (split,) = read_splits(generated)
    return split


def test_generated_data_is_read_the_same_way_again(sound: AuditedSplit) -> None:
    findings = history_findings(sound)
    assert findings == history_findings(sound)
    made = {finding.check for finding in findings if finding.value is not None}
    assert {"history.last_mentioned", "history.polarity", "history.event_words", "history.pooled"} <= made


def test_the_memoriser_knows_what_it_has_seen(sound: AuditedSplit, generated: Path) -> None:
    memory = learn([generated])
    findings = {(one.check, one.slice): one for one in history_findings(sound, memory)}
    assert (findings["history.memoriser", "all"].value or 0) > (findings["history.best_match", "all"].value or 0)
    assert findings["history.memoriser", "all"].needs == ""


def test_there_is_nothing_to_learn_from_data_without_states(release_dir: Path) -> None:
    with pytest.raises(UserError, match="evidence stands"):
        learn([release_dir])


def test_positions_of_options_do_not_matter(sound: AuditedSplit) -> None:
    def turned(one: Any) -> Any:
        options = [text[4:] for text in one["all_options"]]
        order = [1, 2, 3, 0]
        return {
            **one,
            "all_options": [f"({option_letter(i)}) {options[j]}" for i, j in enumerate(order)],
            "option_states": [one["option_states"][j] for j in order],
            "option_roles": [one["option_roles"][j] for j in order],
            "answer_index": order.index(one["answer_index"]),
        }

    other = dataclasses.replace(sound, rows=[turned(one) for one in sound.rows])
    assert [one.value for one in history_findings(other)] == pytest.approx(
        [one.value for one in history_findings(sound)], nan_ok=True
    )
