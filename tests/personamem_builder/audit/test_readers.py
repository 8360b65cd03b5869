from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from small_banks import small_banks
from small_contexts import context_row
from small_runs import make_run, work_of

from generation.config import load_config
from generation.grammar import expand, expand_phrase
from generation.history_records import Whose
from generation.records import QUESTION_TYPES
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.readers import reader_findings
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.build.from_run import build
from personamem_builder.schema import ContextRow, option_letter

CHECKS = ("reader.evidence", "reader.replay")
ACKNOWLEDGE = "acknowledge_latest_user_preferences"
TRACK = "track_full_preference_evolution"
IDEAS = "suggest_new_ideas"
MOTIVES = "generalize_to_new_scenarios"


@pytest.fixture(scope="module")
def sound(generated: Path) -> AuditedSplit:
    (split,) = read_splits(generated)
    return split


def found(split: AuditedSplit) -> dict[tuple[str, str], Finding]:
    return {(finding.check, finding.slice): finding for finding in reader_findings(split)}


def replaced(split: AuditedSplit, question_id: str, **columns: Any) -> AuditedSplit:
    """Return a split with some columns of a question replaced."""
    rows = [{**row, **columns} if row["question_id"] == question_id else row for row in split.rows]
    return dataclasses.replace(split, rows=rows)


def row_with(split: AuditedSplit, question_type: str, wanted: Callable[[Any], bool] = lambda row: True) -> Any:
    return next(row for row in split.rows if row["question_type"] == question_type and wanted(row))


def answered_by(index: int) -> dict[str, Any]:
    return {"answer_index": index, "correct_answer": f"({option_letter(index)})"}


def with_messages(split: AuditedSplit, change: Callable[[ContextRow], ContextRow]) -> AuditedSplit:
    contexts = split.contexts
    assert contexts is not None
    return dataclasses.replace(split, contexts=lambda: map(change, contexts()))


# --- a sound dataset


def test_the_evidence_of_every_type_suffices_and_nothing_contradicts_it(sound: AuditedSplit) -> None:
    findings = found(sound)
    for slice_ in ("all", *QUESTION_TYPES):
        finding = findings["reader.evidence", slice_]
        assert (finding.value, finding.examples, finding.note, finding.needs) == (1.0, (), "", "")
    assert findings["reader.evidence", "all"].n == len(sound.rows)
    replay = findings["reader.replay", "all"]
    assert (replay.value, replay.n, replay.examples, replay.note) == (0.0, len(sound.rows), (), "")


def test_findings_are_the_same_again(sound: AuditedSplit) -> None:
    assert reader_findings(sound) == reader_findings(sound)


@pytest.mark.slow
def test_the_evidence_suffices_in_the_full_example(tmp_path: Path) -> None:
    config = load_config(Path(__file__).parents[3] / "examples" / "full.yaml").model_copy(update={"personas": 4})
    store = make_run(work_of(config), tmp_path / "run", workers=2)
    assemble(store, chosen_sizes((), None, None), 2)
    build(store, tmp_path / "personamem")
    for split in read_splits(tmp_path / "personamem"):
        findings = found(split)
        assert findings["reader.evidence", "all"].examples == ()
        assert findings["reader.evidence", "all"].n == len(split.rows)
        assert findings["reader.replay", "all"].note == ""


# --- planted faults


def test_an_outdated_gold_is_found_by_the_reader_and_by_the_replay(sound: AuditedSplit) -> None:
    row = row_with(sound, ACKNOWLEDGE, lambda row: "outdated" in row["option_roles"])
    findings = found(replaced(sound, row["question_id"], **answered_by(row["option_roles"].index("outdated"))))
    for slice_ in ("all", ACKNOWLEDGE):
        assert findings["reader.evidence", slice_].value < 1
        assert findings["reader.evidence", slice_].examples == (row["question_id"],)
    assert findings["reader.evidence", TRACK].examples == ()
    assert findings["reader.replay", "all"].value == 1
    assert findings["reader.replay", "all"].examples == (row["question_id"],)
    assert "is the answer, but not by the evidence" in findings["reader.replay", "all"].note


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_a_wrong_gold_is_found_even_if_the_roles_agree_with_it(sound: AuditedSplit, question_type: str) -> None:
    row = row_with(sound, question_type)
    wrong = (row["answer_index"] + 1) % 4
    roles = list(row["option_roles"])
    roles[wrong], roles[row["answer_index"]] = roles[row["answer_index"]], roles[wrong]
    findings = found(replaced(sound, row["question_id"], option_roles=roles, **answered_by(wrong)))
    assert findings["reader.evidence", question_type].examples == (row["question_id"],)
    replay = findings["reader.replay", "all"]
    assert replay.examples == (row["question_id"],)
    assert "the roles" not in replay.note
    assert f"option {wrong}" in replay.note


def test_roles_that_name_another_option_or_two_are_a_contradiction(sound: AuditedSplit) -> None:
    row = row_with(sound, "recall_user_shared_facts")
    findings = found(replaced(sound, row["question_id"], option_roles=["current"] * 4))
    assert findings["reader.replay", "all"].examples == (row["question_id"],)
    assert "right by the roles: 0, 1, 2, 3" in findings["reader.replay", "all"].note
    assert findings["reader.evidence", "all"].value == 1


def test_an_answer_that_an_update_has_overtaken_is_found_though_its_evidence_agrees(sound: AuditedSplit) -> None:
    row = row_with(
        sound, ACKNOWLEDGE, lambda row: "outdated" in row["option_roles"] and len(row["evidence_message_indices"]) == 2
    )
    outdated = row["option_roles"].index("outdated")
    *earlier, last = row["evidence_message_indices"]
    roles = ["current" if i == outdated else "never" for i in range(4)]
    split = replaced(
        sound, row["question_id"], evidence_message_indices=earlier, option_roles=roles, **answered_by(outdated)
    )
    findings = found(split)
    assert findings["reader.evidence", "all"].value == 1
    assert findings["reader.replay", "all"].examples == (row["question_id"],)
    assert f"message {last} tells" in findings["reader.replay", "all"].note
    before = replaced(split, row["question_id"], end_index_in_shared_context=last)
    assert found(before)["reader.replay", "all"].value == 0


def test_a_course_has_its_evidence_in_order(sound: AuditedSplit) -> None:
    row = row_with(sound, TRACK)
    findings = found(
        replaced(sound, row["question_id"], evidence_message_indices=row["evidence_message_indices"][::-1])
    )
    assert "the evidence is not in order" in findings["reader.replay", "all"].note
    assert findings["reader.evidence", TRACK].examples == (row["question_id"],)


def test_where_evidence_is_a_set_its_order_is_no_fault_and_a_message_may_tell_two_events(sound: AuditedSplit) -> None:
    several = row_with(sound, MOTIVES, lambda row: len({*row["evidence_message_indices"]}) > 1)
    indices = several["evidence_message_indices"]
    for changed in (indices[::-1], [*indices, indices[0]]):
        findings = found(replaced(sound, several["question_id"], evidence_message_indices=changed))
        assert findings["reader.replay", "all"].value == 0
        assert findings["reader.evidence", "all"].value == 1


def test_evidence_is_what_the_user_said(sound: AuditedSplit) -> None:
    row = row_with(sound, "recall_user_shared_facts")
    (index,) = row["evidence_message_indices"]
    findings = found(replaced(sound, row["question_id"], evidence_message_indices=[index + 1, 10**6]))
    note = findings["reader.replay", "all"].note
    assert f"evidence {index + 1} is assistant message" in note
    assert "evidence 1000000 is no message" in note
    assert findings["reader.evidence", "all"].examples == (row["question_id"],)


def test_evidence_after_the_end_is_not_read(sound: AuditedSplit) -> None:
    row = row_with(sound, "recall_user_shared_facts")
    split = replaced(sound, row["question_id"], end_index_in_shared_context=row["evidence_message_indices"][-1])
    findings = found(split)
    assert findings["reader.evidence", "all"].examples == (row["question_id"],)
    assert findings["reader.replay", "all"].value == 0  # what it says is still right


def test_questions_without_their_context_are_not_answered(sound: AuditedSplit) -> None:
    row = row_with(sound, "recall_user_shared_facts")
    findings = found(replaced(sound, row["question_id"], shared_context_id="lost"))
    assert findings["reader.evidence", "all"].examples == (row["question_id"],)
    assert findings["reader.replay", "all"].examples == (row["question_id"],)


# --- what cannot be read


def test_other_data_needs_to_be_generated(sound: AuditedSplit) -> None:
    rows = [{k: v for k, v in row.items() if not k.startswith("option_")} for row in sound.rows]
    findings = reader_findings(dataclasses.replace(sound, rows=rows))
    assert [(finding.check, finding.needs) for finding in findings] == [(check, "generated data") for check in CHECKS]


def test_questions_alone_need_contexts(sound: AuditedSplit) -> None:
    findings = reader_findings(dataclasses.replace(sound, contexts=None))
    assert [(finding.check, finding.needs) for finding in findings] == [(check, "contexts") for check in CHECKS]


def test_text_in_other_words_is_not_read_but_what_needs_no_words_is_checked(sound: AuditedSplit) -> None:
    rows = [{**row, "user_question_or_message": f"So: {row['user_question_or_message']}"} for row in sound.rows]
    split = dataclasses.replace(sound, rows=rows)
    findings = found(split)
    assert findings["reader.evidence", "all"].needs == "text of the offline banks"
    replay = findings["reader.replay", "all"]
    assert replay.value == 0
    assert f"{len(rows)} questions are not replayed" in replay.note
    row = row_with(sound, TRACK)
    faulty = replaced(split, row["question_id"], option_roles=["never"] * 4)
    assert found(faulty)["reader.replay", "all"].examples == (row["question_id"],)


def test_questions_of_a_topic_without_a_shipped_bank_are_left_out(sound: AuditedSplit) -> None:
    rows = [{**row, "topic": "chess"} if row["topic"] == "writing" else row for row in sound.rows]
    own = dataclasses.replace(sound, rows=rows)
    split = with_messages(
        own, lambda c: {**c, "session_topics": ["chess" if t == "writing" else t for t in c["session_topics"]]}
    )
    assert split.contexts is not None
    chats = {
        (context["shared_context_id"], i)
        for context in split.contexts()
        for topic, (start, stop) in zip(
            context["session_topics"], pairwise([*context["session_starts"], len(context["messages"])]), strict=True
        )
        for i in range(start, stop)
        if topic == "chess"
    }
    about = [
        row for row in rows if any((row["shared_context_id"], i) in chats for i in row["evidence_message_indices"])
    ]
    assert {"chess"} < {row["topic"] for row in about}  # some of those that generalise draw on chats about it too
    finding = found(split)["reader.evidence", "all"]
    assert (finding.value, finding.n) == (1, len(rows) - len(about))
    assert f"{len(about)} questions of topics that no shipped bank covers" in finding.note


# --- questions written down here


WRITING = small_banks().topics["writing"]
ITEMS = [item.phrase for item in WRITING.items[:4]]


def tried(whose: Whose, *items: str) -> str:
    """Return what tells that somebody has tried some items."""
    rng, trials = random.Random(0), small_banks().phrases.trials
    told = expand_phrase(trials.tries[0], rng, items=f"{', '.join(items[:-1])} and {items[-1]}")
    mine, theirs = (told, trials.stock[0]) if whose == "user" else (trials.stock[0], told)
    return expand(trials.pairs[0], rng, mine=expand_phrase(mine, rng), theirs=theirs, person="my cousin Ana")


def asked(
    messages: Sequence[str],
    evidence: list[int],
    options: list[list[str]],
    answer: int,
    question_type: str = ACKNOWLEDGE,
    end: int | None = None,
    sessions: Sequence[tuple[int, str]] = ((0, "writing"),),
) -> AuditedSplit:
    """Return a split of one question; user and assistant speak in turn, in sessions that start somewhere."""
    row = {
        "persona_id": 0,
        "question_id": "q",
        "question_type": question_type,
        "topic": "writing",
        "user_question_or_message": expand(WRITING.idea_queries[0], random.Random(0)),
        "all_options": [f"({option_letter(i)}) So it is {states}." for i, states in enumerate(options)],
        **answered_by(answer),
        "shared_context_id": "c",
        "end_index_in_shared_context": len(messages) if end is None else end,
        "evidence_message_indices": evidence,
        "option_states": options,
        "option_roles": ["current" if i == answer else "never" for i in range(len(options))],
    }

    def contexts() -> Iterator[ContextRow]:
        chat = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(messages)]
        starts, topics = zip(*sessions, strict=True)
        yield context_row(chat, session_starts=starts, session_topics=topics)

    return AuditedSplit("32k", [row], contexts)


@pytest.mark.parametrize(
    ("place", "topic", "whose", "contradicts"),
    [
        (2, "writing", "user", True),
        (2, "writing", "other", False),
        (2, "", "user", False),  # a filler
        (2, "coding", "user", False),
        (3, "writing", "user", False),  # the assistant says it
        (4, "writing", "user", False),  # after the question
    ],
)
def test_an_idea_is_new_until_the_user_has_tried_it(place: int, topic: str, whose: Whose, contradicts: bool) -> None:
    new, *known = ITEMS
    messages = [tried("user", *known), "I see.", f"Well. {new.upper()}!", "Hm.", "Yes.", "No."]
    messages[place] += f" {tried(whose, new, *known[1:])}"
    options = [[item] for item in ITEMS]
    split = asked(messages, [0], options, 0, IDEAS, end=4, sessions=[(0, "writing"), (2, topic)])
    findings = found(split)
    told = [item for item in ITEMS if item != known[0]]
    assert findings["reader.replay", "all"].value == contradicts
    assert findings["reader.replay", "all"].note == (
        f"q: {'; '.join(f'message 2 tells {item}, but is no evidence' for item in told)}" if contradicts else ""
    )
    assert findings["reader.evidence", "all"].value == 1


def test_what_others_have_tried_is_no_evidence() -> None:
    """If the user has tried nothing, then each idea is as new as the next."""
    known, whose_is_it = ITEMS[1:], get_args(Whose)
    for whose in whose_is_it:
        answered = whose == "user"
        split = asked([tried(whose, *known), "I see."], [0], [[item] for item in ITEMS], 0, IDEAS)
        assert found(split)["reader.evidence", "all"].value == answered
        assert found(split)["reader.replay", "all"].value == 1 - answered
