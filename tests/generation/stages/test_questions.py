from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from small_banks import TOPICS, FreeWriter, ScriptedBackend, even, users

from generation.banks.load import Banks, load_banks
from generation.config import Config
from generation.generic_replies import GenericReply, generic_wording_faults
from generation.grammar import mentions
from generation.llm.client import Client, ReplyError
from generation.llm.offline.backend import OfflineBackend
from generation.prompts import render
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import GENERIC_TYPES, QUESTION_TYPES, Question
from generation.stages.questions import (
    MAX_LENGTH_RATIO,
    QuestionReply,
    question_faults,
    question_request,
    read_options_request,
    wording_faults,
    write_question,
)
from generation.tokenizer import token_length

CONFIG = Config(topics=TOPICS, personas=24, seed=8)

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
        said = request.facts["meanings"]
        for option in plan.options:
            assert all(said.get(state, state) in prompt for state in option.states)
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


# --- what a language model writes

MESSAGE = "What would you say to a quiet evening?"
OPTIONS = tuple(f"I would say that {word} is the way to go." for word in ("red", "blue", "green", "white"))
STATES = (("crimson coats",), ("navy coats",), ("like: moss",), ("dislike: chalk",))


def faults(message: str = MESSAGE, options: tuple[str, ...] = OPTIONS) -> list[str]:
    return wording_faults(reply(message, options), STATES)


def test_plain_words_have_no_faults() -> None:
    assert faults() == []
    assert faults("Which coats do people like or dislike?") == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("User: hello", "the message has a speaker label (User:)"),
        ("How can I help you?", "the message speaks as the assistant ('how can i help you')"),
        ("Are Navy Coats any good?", "the message gives away 'navy coats'"),
        ("What grows near moss?", "the message gives away 'moss'"),
    ],
)
def test_each_fault_of_a_message_is_named(message: str, fault: str) -> None:
    assert faults(message) == [fault]


def test_a_message_gives_a_fact_away_with_most_of_its_own_words() -> None:
    states = [
        [f"the time you lost a {thing} {place}"] for thing, place in (("kettle", "in Bern"), ("ladder", "at sea"))
    ]
    states += [["the time your talking flowerpot insulted the jury and won"], ["the time it rained indoors"]]
    given = ["the time your talking flowerpot insulted the jury and won"]
    for message, found in {
        "My flowerpot is talking to a jury.": given,
        "A jury sits tomorrow, and I was asked to lend a flowerpot.": [],
        "Tell me about the time I lost something.": [],
        "I lost a kettle.": [],  # one word of two
        "It rained.": [],
        "It rained indoors.": ["the time it rained indoors"],
    }.items():
        assert wording_faults(reply(message, OPTIONS), states) == [f"the message gives away {s!r}" for s in found]


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        ("Assistant: I would say that.", "option 2 has a speaker label (Assistant:)"),
        ("I would say that [item] is it.", "option 2 has a placeholder ([item])"),
        ("(b) I would say that blue is it.", "option 2 begins with its number"),
        ("2. I would say that blue is it.", "option 2 begins with its number"),
        ("Option B: I would say that.", "option 2 begins with its number"),
        ("Thanks for the advice.", "option 2 speaks as the user ('thanks for the advice')"),
        ("I would say, that red really is a way to go!", "options 1 and 2 say nearly the same"),
    ],
)
def test_each_fault_of_an_option_is_named(option: str, fault: str) -> None:
    assert faults(options=(OPTIONS[0], option, *OPTIONS[2:])) == [fault]


def test_options_that_differ_in_the_order_of_steps_are_not_the_same() -> None:
    assert faults(options=("First red, then blue.", "First blue, then red.", *OPTIONS[2:])) == []


def test_what_is_asked_of_a_language_model_holds_for_the_offline_backend(written: Written, banks: Banks) -> None:
    for plan, question in written:
        states = question_request(plan, banks).facts["states"]
        texts = {o.states: o.text for o in question.options}
        words = QuestionReply(message=question.message, options=[texts[tuple(state)] for state in states])
        if plan.question_type != "revisit_reasons_behind_preference_updates":  # all four speak of what changed
            assert wording_faults(words, states) == []


# --- reading the options back


def answer(plan: QuestionPlan, banks: Banks, words: dict[str, Any], taken: tuple[int, ...] = (0, 1, 2, 3)) -> Any:
    """What a reader says who takes each option for the state of the one that is named; -1 for none."""

    def read(facts: Mapping[str, Any]) -> dict[str, Any]:
        states = question_request(plan, banks).facts["states"]
        meant = [taken[words["options"].index(option)] for option in facts["options"]]
        return {"numbers": [facts["states"].index(states[i]) + 1 if i >= 0 else 0 for i in meant]}

    return read


WORDS = {"message": MESSAGE, "options": list(OPTIONS)}


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_options_that_are_read_as_they_are_meant_are_kept(
    plans: list[QuestionPlan], banks: Banks, question_type: str
) -> None:
    plan = of(plans, question_type)[0]
    writer = FreeWriter(**{question_type: [WORDS], "read_options": [answer(plan, banks, WORDS)]})
    assert write_question(Client(writer), plan, banks) == write_question(Client(ScriptedBackend(WORDS)), plan, banks)
    assert [call.request.template for call in writer.calls] == [question_type, "read_options"]
    prompt = writer.asked("read_options")[0]
    said = question_request(plan, banks).facts["meanings"]
    for option in plan.options:
        assert ". " + ", then ".join(said.get(state, state) for state in option.states) + "\n" in prompt
    assert all(text in prompt for text in OPTIONS)
    assert MESSAGE not in prompt


def test_words_are_looked_at_before_the_options_are_read(plans: list[QuestionPlan], banks: Banks) -> None:
    plan = plans[0]
    bad = {"message": "How can I help you?", "options": list(OPTIONS)}
    writer = FreeWriter(**{plan.question_type: [bad, WORDS], "read_options": [answer(plan, banks, WORDS)]})
    assert write_question(Client(writer), plan, banks).message == MESSAGE
    assert "- the message speaks as the assistant" in writer.asked(plan.question_type)[1]
    assert len(writer.asked("read_options")) == 1


def test_options_that_are_not_read_as_they_are_meant_are_rewritten(plans: list[QuestionPlan], banks: Banks) -> None:
    for plan in plans[:30]:
        states = [", then ".join(state) for state in question_request(plan, banks).facts["states"]]
        good = {"message": MESSAGE, "options": [text.replace("way", "one") for text in OPTIONS]}
        wrong = answer(plan, banks, WORDS, (0, 2, 2, -1))
        writer = FreeWriter(
            **{plan.question_type: [WORDS], "rewrite": [good], "read_options": [wrong, answer(plan, banks, good)]}
        )
        question = write_question(Client(writer), plan, banks)
        assert {option.text for option in question.options} == set(good["options"])
        [prompt] = writer.asked("rewrite")
        assert re.findall("^- (option .*)", prompt, re.MULTILINE) == [
            f"option 2 is to assert: {states[1]}; it was taken for: {states[2]}",
            f"option 4 does not assert its own thing ({states[3]}) and no other",
        ]


def test_the_reader_sees_options_and_states_in_orders_of_their_own(plans: list[QuestionPlan], banks: Banks) -> None:
    """Which option stands for which state cannot be told from their places, and neither from a habit of the writer."""
    places: Counter[tuple[str, int, int]] = Counter()
    for i, plan in enumerate(plans[:400]):
        request = question_request(plan, banks)
        words = QuestionReply(message=MESSAGE, options=[f"{text} {i}" for text in OPTIONS])
        reading, options_order, states_order = read_options_request(request, words)
        assert reading.facts["options"] == [words.options[j] for j in options_order]
        assert reading.facts["states"] == [request.facts["states"][j] for j in states_order]
        for j in range(4):
            places["option", j, options_order.index(j)] += 1
            places["pair", options_order.index(j), states_order.index(j)] += 1
    for kind in ("option", "pair"):
        assert even(places[kind, i, j] for i in range(4) for j in range(4))


def test_the_reading_does_not_depend_on_which_option_is_right(plans: list[QuestionPlan], banks: Banks) -> None:
    for plan in plans[::20]:
        prompts = set()
        for order in permutations(plan.options):
            request = question_request(plan._replace(options=order), banks)
            prompts.add(render("read_options", read_options_request(request, QuestionReply(**WORDS))[0].facts))
        assert len(prompts) == 1


@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, 2, 3, 5], [1, 2, 3, -1], []])
def test_a_reading_that_cannot_be_is_sent_back_to_the_reader(
    plans: list[QuestionPlan], banks: Banks, numbers: list[int]
) -> None:
    plan = plans[0]
    good = answer(plan, banks, WORDS)
    writer = FreeWriter(**{plan.question_type: [WORDS], "read_options": [{"numbers": numbers}, good]})
    write_question(Client(writer), plan, banks)
    assert "there must be 4 numbers from 0 to 4" in writer.asked("read_options")[1]


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
    assert len(written) > 600
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


# --- generic distractors

GENERIC = CONFIG.model_copy(update={"generic_distractors": 2, "personas": 8})


@pytest.fixture(scope="module")
def generic_banks() -> Banks:
    return load_banks(GENERIC)


@pytest.fixture(scope="module")
def generic_plans(generic_banks: Banks) -> list[QuestionPlan]:
    return [p for user, h in users(GENERIC) for p in plan_questions(GENERIC, user, h, generic_banks)]


def test_a_question_with_generic_options_is_that_without_but_for_these(
    generic_plans: list[QuestionPlan], generic_banks: Banks
) -> None:
    client = Client(OfflineBackend(generic_banks, CONFIG.seed))
    for plan in generic_plans:
        without = write_question(client, plan._replace(generic=()), generic_banks)
        question = write_question(client, plan, generic_banks)
        assert question.message == without.message
        texts = {option.text: option for option in without.options}
        generic = [option for option in question.options if option.role == "generic"]
        assert len(generic) == len(plan.generic)
        assert all(texts[option.text] == option for option in question.options if option.role != "generic")
        assert question.options[question.answer_index] == without.options[without.answer_index]
        assert (question.question_id == without.question_id) == (not generic)
        assert {(option.states, option.stereotypical) for option in generic} <= {((), False)}
        lengths = [token_length(option.text) for option in question.options]
        assert max(lengths) <= MAX_LENGTH_RATIO * min(lengths)
        names = [state.split(": ")[-1] for option in plan.options for state in option.states]
        assert generic_wording_faults(GenericReply(replies=[option.text for option in generic]), names) == []


def test_generic_options_have_many_forms_and_no_length_of_their_own(
    generic_plans: list[QuestionPlan], generic_banks: Banks
) -> None:
    client = Client(OfflineBackend(generic_banks, CONFIG.seed))
    longer = shorter = 0
    for question_type in GENERIC_TYPES:
        plans = of(generic_plans, question_type)
        questions = [write_question(client, plan, generic_banks) for plan in plans]
        generic = [option.text for q in questions for option in q.options if option.role == "generic"]
        assert len(set(generic)) >= 0.9 * len(generic)
        assert len({text.split()[0] for text in generic}) >= 5
        for question in questions:
            kept = [token_length(o.text) for o in question.options if o.role != "generic"]
            own = [token_length(o.text) for o in question.options if o.role == "generic"]
            longer += sum(length > max(kept) for length in own)
            shorter += sum(length < min(kept) for length in own)
    asked = 2 * sum(bool(plan.generic) for plan in generic_plans)
    assert longer + shorter < 0.55 * asked  # two of four drawn alike lie outside the other two about half the time


TEXTS = (
    "Most people would begin with a short list of what matters today.",
    "There is often more than one good answer to things like that.",
)


def spoken(text: str) -> str:
    return f"I would say that {text} is a way to go on from here."


def test_a_model_is_asked_for_generic_options_and_they_are_read_back(
    generic_plans: list[QuestionPlan], generic_banks: Banks
) -> None:
    plan = next(plan for plan in generic_plans if plan.generic)
    words = {"message": MESSAGE, "options": [spoken(text) for text in ("red", "green", "blue", "grey")]}
    states = question_request(plan, generic_banks).facts["states"]

    def number(option: str, facts: Mapping[str, Any]) -> int:
        return 1 + facts["states"].index(states[words["options"].index(option)]) if option in words["options"] else 0

    seen = []

    def wary(facts: Mapping[str, Any]) -> dict[str, Any]:
        """Take the first generic options for something once."""
        seen.append(facts["options"])
        numbers = [number(option, facts) for option in facts["options"]]
        return {"numbers": [n or 1 for n in numbers] if len(seen) == 2 else numbers}

    knowing = ["As you told me, a list is what you need at first.", TEXTS[1]]
    others = [text.replace("often", "always").replace("Most", "Many") for text in TEXTS]
    writer = FreeWriter(
        **{
            plan.question_type: [words],
            "generic_replies": [{"replies": knowing}, {"replies": list(TEXTS)}],
            "rewrite": [{"replies": others}],
            "read_options": [wary],
        }
    )
    question = write_question(Client(writer), plan, generic_banks)
    assert {option.text for option in question.options if option.role == "generic"} == set(others)
    prompt, repair = writer.asked("generic_replies")
    gone = [words["options"][states.index(list(plan.options[i].states))] for i in plan.generic]
    kept = set(words["options"]) - set(gone)
    assert all(text in prompt for text in (MESSAGE, *gone))
    assert not any(text in prompt for text in kept), "who writes them does not see the right option"
    assert "reply 1 speaks as if it knew the user ('you told')" in repair
    faults = re.findall(r"^- (.*)", writer.asked("rewrite")[0], re.MULTILINE)
    assert [re.sub("for: .*", "for", fault) for fault in faults if fault.startswith("reply ")] == [
        f"reply {n} is to assert nothing of the user; it was taken for" for n in (1, 2)
    ]
