from __future__ import annotations

import json
from collections import Counter
from itertools import permutations

import pytest
from small_banks import TOPICS, ScriptedBackend, even, users

from generation.banks.load import Banks
from generation.config import Config
from generation.grammar import mentions
from generation.llm.client import Client, ReplyError
from generation.llm.offline.backend import OfflineBackend
from generation.prompts import render
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import QUESTION_TYPES, Question
from generation.stages.questions import (
    MAX_LENGTH_RATIO,
    QuestionReply,
    question_faults,
    question_request,
    write_question,
)
from generation.tokenizer import token_length

CONFIG = Config(topics=TOPICS, personas=40, seed=8)

Written = list[tuple[QuestionPlan, Question]]


@pytest.fixture(scope="module")
def plans(banks: Banks) -> list[QuestionPlan]:
    return [plan for persona, history in users(CONFIG) for plan in plan_questions(CONFIG, persona, history, banks)]


@pytest.fixture(scope="module")
def written(plans: list[QuestionPlan], banks: Banks) -> Written:
    client = Client(OfflineBackend(banks, CONFIG.seed))
    return [(plan, write_question(client, plan, banks)) for plan in plans]


def of(plans: list[QuestionPlan], question_type: str, kind: str | None = None) -> list[QuestionPlan]:
    some = [p for p in plans if p.question_type == question_type and kind in (None, p.kind)]
    assert some
    return some


# --- the request


def test_the_request_is_the_same_whichever_option_is_right(plans: list[QuestionPlan], banks: Banks) -> None:
    for plan in plans[::7]:
        requests = {
            json.dumps(dict(question_request(plan._replace(options=order), banks).facts))
            for order in permutations(plan.options)
        }
        assert len(requests) == 1


def test_the_request_does_not_depend_on_roles_or_evidence(plans: list[QuestionPlan], banks: Banks) -> None:
    for plan in plans[::7]:
        facts = json.dumps(dict(question_request(plan, banks).facts))
        assert not any(f'"{role}"' in facts for role in ("current", "outdated", "never", "other", "new", "mentioned"))
        assert not any(event.event_id in facts for event in plan.evidence)
        assert "stereotyp" not in facts


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_the_prompt_asserts_every_state_and_names_none_elsewhere(
    plans: list[QuestionPlan], banks: Banks, question_type: str
) -> None:
    for plan in of(plans, question_type)[:10]:
        request = question_request(plan, banks)
        prompt = render(request.template, request.facts)
        for option in plan.options:
            assert all(state in prompt for state in option.states)
        assert str(MAX_LENGTH_RATIO) in prompt


@pytest.mark.parametrize("question_type", ["acknowledge_latest_user_preferences", "track_full_preference_evolution"])
def test_nothing_but_the_states_names_an_item_that_could_be_the_right_one(
    plans: list[QuestionPlan], banks: Banks, question_type: str
) -> None:
    for plan in of(plans, question_type, kind="item"):
        facts = dict(question_request(plan, banks).facts)
        del facts["states"]
        items = {state.split(": ")[1] for option in plan.options for state in option.states}
        assert not [item for item in items if item in facts.values()]


# --- what is wrong with a reply


def reply(message: str = "Hello?", options: tuple[str, ...] = ("aa", "bb", "cc", "dd")) -> QuestionReply:
    return QuestionReply(message=message, options=list(options))


def test_a_reply_of_four_different_texts_of_one_length_has_no_faults() -> None:
    assert question_faults(reply(), 4) == []


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (reply(options=("aa", "bb", "cc")), "there are 3 options for 4 states"),
        (reply(options=("aa", "bb", "cc", "dd", "ee")), "there are 5 options for 4 states"),
        (reply(message=" \n"), "the message is empty"),
        (reply(options=("yes", "one", "two", "Yes")), "two options are the same"),
        (
            reply(options=("one two three", "one two four", "one two five", "one two three four")),
            "the options have 3, 3, 3, 4 tokens; the longest may have 10 % more than the shortest",
        ),
    ],
)
def test_each_kind_of_fault_is_named(bad: QuestionReply, fault: str) -> None:
    assert question_faults(bad, 4) == [fault]


def test_ten_per_cent_more_are_allowed_and_eleven_are_not() -> None:
    ten, eleven, twelve = (" ".join(["word"] * n) for n in (10, 11, 12))
    assert token_length(eleven) == 11
    assert question_faults(reply(options=(ten, f"{ten[:-4]}lord", f"{ten[:-4]}bird", eleven)), 4) == []
    assert len(question_faults(reply(options=(ten, f"{ten[:-4]}lord", f"{ten[:-4]}bird", twelve)), 4)) == 1


def test_an_uneven_reply_is_sent_back(plans: list[QuestionPlan], banks: Banks) -> None:
    bad = {"message": "Hm?", "options": ["a", "b", "c", "a much longer text"]}
    good = {"message": "Hm?", "options": ["one", "two", "six", "ten"]}
    backend = ScriptedBackend(bad, good)
    assert write_question(Client(backend), plans[0], banks).message == "Hm?"
    assert "the options have 1, 1, 1, 4 tokens" in backend.calls[1][-1].content
    with pytest.raises(ReplyError, match=f"{plans[0].question_type} for question .*tokens"):
        write_question(Client(ScriptedBackend(bad)), plans[0], banks)


# --- the question


def test_each_text_goes_with_its_state(plans: list[QuestionPlan], banks: Banks) -> None:
    for plan in plans[:60]:
        states = question_request(plan, banks).facts["states"]
        words = ["one", "two", "six", "ten"]
        question = write_question(Client(ScriptedBackend({"message": "Hm?", "options": words})), plan, banks)
        assert {o.text: list(o.states) for o in question.options} == dict(zip(words, states, strict=True))
        assert question.options[question.answer_index].states == plan.options[0].states


def test_a_question_keeps_what_was_planned(written: Written) -> None:
    for plan, question in written:
        assert question.persona_id == plan.persona_id
        assert (question.question_type, question.topic, question.subject) == (
            plan.question_type,
            plan.topic,
            plan.subject,
        )
        assert {(o.states, o.role, o.stereotypical) for o in question.options} == set(plan.options)
        assert question.evidence_event_ids == tuple(event.event_id for event in plan.evidence)
        assert (question.after_session_ids, question.before_session_id) == (
            plan.after_session_ids,
            plan.before_session_id,
        )
        assert question.updates_spanned == plan.updates_spanned


def test_ids_are_of_the_content_and_never_shared(written: Written, banks: Banks) -> None:
    assert len({question.question_id for _, question in written}) == len(written)
    plan, question = written[0]
    assert write_question(Client(OfflineBackend(banks, CONFIG.seed)), plan, banks) == question
    other = {"message": "Hm?", "options": ["one", "two", "six", "ten"]}
    assert write_question(Client(ScriptedBackend(other)), plan, banks).question_id != question.question_id


def test_the_order_of_the_options_follows_from_the_id(plans: list[QuestionPlan], banks: Banks) -> None:
    """The same words give the same id and the same place of the answer, whatever else is planned."""
    words = {"message": "Hm?", "options": ["one", "two", "six", "ten"]}
    for plan in plans[:40]:
        a = write_question(Client(ScriptedBackend(words)), plan, banks)
        b = write_question(Client(ScriptedBackend(words)), plan._replace(before_session_id="another"), banks)
        assert (a.question_id, a.options, a.answer_index) == (b.question_id, b.options, b.answer_index)


def test_each_letter_is_right_equally_often(written: Written) -> None:
    places = Counter(question.answer_index for _, question in written)
    assert even(places[place] for place in range(4))


def test_each_rank_by_length_is_right_equally_often(written: Written) -> None:
    ranks = Counter()
    for _, question in written:
        lengths = [(token_length(option.text), option.text) for option in question.options]
        ranks[sorted(lengths).index(lengths[question.answer_index])] += 1
    assert even(ranks[rank] for rank in range(4))


def test_the_options_of_a_question_are_equally_long(written: Written) -> None:
    assert len(written) > 1000
    for _, question in written:
        lengths = [token_length(option.text) for option in question.options]
        assert max(lengths) <= MAX_LENGTH_RATIO * min(lengths)


def stripped(question: Question, banks: Banks) -> set[str]:
    """Return the option texts without what they assert."""
    recommend: dict[str, list[str]] = {}
    if question.topic in banks.topics:
        recommend = {v.phrase: v.recommend for slot in banks.topics[question.topic].slots for v in slot.values}
    scenarios = {s.id: s.options for s in banks.scenarios.scenarios}
    texts = set()
    for option in question.options:
        text = option.text.lower()
        asserted = [state.split(": ")[-1] for state in option.states]
        if question.question_type == "provide_preference_aligned_recommendations":
            asserted = recommend[option.states[0]]
        elif question.question_type == "generalize_to_new_scenarios":
            asserted = [scenarios[question.subject][option.states[0]]]  # type: ignore[index]
        for words in sorted(asserted, key=len, reverse=True):
            text = text.replace(words.lower(), "…")
        texts.add(text)
    return texts


def test_the_options_of_a_question_share_one_form(written: Written, banks: Banks) -> None:
    for plan, question in written:
        if plan.kind != "item" or plan.question_type == "revisit_reasons_behind_preference_updates":
            assert len(stripped(question, banks)) == 1, [option.text for option in question.options]


def test_options_about_an_item_differ_in_the_item_and_in_words_of_liking_only(written: Written, banks: Banks) -> None:
    """Two options each way: without the item, the two that like are the same, and the two that dislike."""
    for plan, question in written:
        if plan.kind == "item" and plan.question_type != "revisit_reasons_behind_preference_updates":
            assert len(stripped(question, banks)) == 2


def test_a_message_names_nothing_that_an_option_asserts(written: Written, banks: Banks) -> None:
    for _, question in written:
        message = question.message.lower()
        names = [state.split(": ")[-1].lower() for option in question.options for state in option.states]
        if question.topic in banks.topics:
            names += [name.lower() for name in banks.topics[question.topic].names() if name != question.subject]
            assert not [name for name in names if mentions(message, name)]


def test_texts_are_free_of_templates_and_double_blanks(written: Written) -> None:
    for _, question in written:
        for text in (question.message, *(option.text for option in question.options)):
            assert text == text.strip()
            assert not any(mark in text for mark in ("{", "}", "[", "]", "|", "  "))


def test_users_do_not_all_ask_with_the_same_words(written: Written) -> None:
    for question_type in QUESTION_TYPES:
        messages = [q.message for _, q in written if q.question_type == question_type]
        assert len(set(messages)) > len(messages) / 3


def test_recommendations_do_not_name_the_value_that_they_fit(written: Written) -> None:
    for _, question in written:
        if question.question_type == "provide_preference_aligned_recommendations":
            for option in question.options:
                assert not any(mentions(option.text.lower(), o.states[0].lower()) for o in question.options)
