from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import pairwise

import pytest
from scipy.stats import binomtest
from small_banks import TOPICS, even, users

from generation.banks.load import Banks
from generation.config import Config
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import MOTIVES, QUESTION_TYPES, Event, History, Persona, SessionPlan, TopicHistory
from generation.tokenizer import token_length

User = tuple[Persona, History]
Planned = tuple[Persona, History, QuestionPlan]

OF_STATES = (
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "provide_preference_aligned_recommendations",
)
OF_ONE_PREFERENCE = (*OF_STATES, "revisit_reasons_behind_preference_updates")


@pytest.fixture(scope="session")
def planned(crowd_config: Config, crowd: list[User], banks: Banks) -> list[Planned]:
    """One question of each type for each user and topic."""
    return [(p, h, plan) for p, h in crowd for plan in plan_questions(crowd_config, p, h, banks)]


@pytest.fixture(scope="session")
def many_planned(banks: Banks) -> list[Planned]:
    """Several questions of each type, of users whose preferences change often."""
    config = Config(
        topics=TOPICS,
        personas=40,
        seed=5,
        updates_per_topic=12,
        questions_per_topic=dict.fromkeys(QUESTION_TYPES, 6),
    )
    return [(p, h, plan) for p, h in users(config) for plan in plan_questions(config, p, h, banks)]


def of(planned: list[Planned], *types: str, kind: str | None = None) -> list[Planned]:
    """Return the questions of some types; a test of none would say nothing, so there must be some."""
    some = [p for p in planned if p[2].question_type in types and kind in (None, p[2].kind)]
    assert len(some) >= 40
    return some


# --- an independent reader, who knows the history up to a day and nothing else


class Reader:
    """Replays what a user told until a day, and says whether an option holds."""

    def __init__(self, history: History, topic: str, until: dt.date) -> None:
        self.topics = {
            t.topic: [e for s in t.sessions if s.date <= until for e in told_in(t, s)] for t in history.topics
        }
        self._history = {t.topic: t for t in history.topics}
        self._topic = topic

    def course(self, kind: str, subject: str) -> list[Event]:
        """Return what the user told about a subject of the topic, in order."""
        topic = self._history[self._topic]
        (preference_id,) = [p.preference_id for p in topic.preferences if (p.kind, p.subject) == (kind, subject)] or [
            ""
        ]
        return sorted((e for e in self.topics[self._topic] if e.preference_id == preference_id), key=lambda e: e.date)

    def holds(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        """Say whether an option is the right answer to a question asked on this day."""
        return {
            "recall_user_shared_facts": self._recalls,
            "suggest_new_ideas": self._is_new,
            "acknowledge_latest_user_preferences": self._is_current,
            "provide_preference_aligned_recommendations": self._is_current,
            "track_full_preference_evolution": self._is_whole_course,
            "revisit_reasons_behind_preference_updates": self._is_last_reason,
            "generalize_to_new_scenarios": self._moves,
        }[plan.question_type](plan, states)

    def _recalls(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        return [e.state for e in self.course("fact", plan.subject)] == list(states)

    def _is_new(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        return not self.course("item", states[0])

    def _is_current(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        if plan.kind == "slot":
            return self.course("slot", plan.subject)[-1].state == states[0]
        stance, item = states[0].split(": ")
        course = self.course("item", item)
        return bool(course) and course[-1].state == stance

    def _is_whole_course(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        if plan.kind == "slot":
            return tuple(e.state for e in self.course("slot", plan.subject)) == states
        item = states[0].split(": ")[1]
        return tuple(f"{e.state}: {item}" for e in self.course("item", item)) == states

    def _is_last_reason(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        return self.course(plan.kind, plan.subject)[-1].reason == states[0]

    def _moves(self, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
        return sum(e.motive == states[0] for events in self.topics.values() for e in events) > 0


def told_in(topic: TopicHistory, session: SessionPlan) -> list[Event]:
    return [event for event in topic.events if event.event_id in session.event_ids]


def sessions(history: History) -> dict[str, SessionPlan]:
    return {session.session_id: session for topic in history.topics for session in topic.sessions}


def asked_between(history: History, plan: QuestionPlan) -> tuple[dt.date, dt.date]:
    """Return the first and the last day on which a question may be asked, after the sessions of that day."""
    days = {session_id: session.date for session_id, session in sessions(history).items()}
    first = max(days[session_id] for session_id in plan.after_session_ids)
    if plan.before_session_id is None:
        return first, max(days.values())
    return first, days[plan.before_session_id] - dt.timedelta(days=1)


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_the_first_option_holds_and_no_other_wherever_the_question_is_asked(
    planned: list[Planned], many_planned: list[Planned], question_type: str
) -> None:
    for _, history, plan in of([*planned[::4], *many_planned], question_type):
        for day in asked_between(history, plan):
            reader = Reader(history, plan.topic, day)
            assert [reader.holds(plan, option.states) for option in plan.options] == [True, False, False, False]


# --- where it may be asked


def test_a_question_comes_after_the_sessions_that_tell_its_evidence_and_after_no_others(
    many_planned: list[Planned],
) -> None:
    for _, history, plan in many_planned:
        where = {event_id: s.session_id for s in sessions(history).values() for event_id in s.event_ids}
        assert {where[event.event_id] for event in plan.evidence} == set(plan.after_session_ids)
        days = [sessions(history)[session_id].date for session_id in plan.after_session_ids]
        assert days == sorted(days)
        assert len(set(plan.after_session_ids)) == len(plan.after_session_ids) > 0


def test_a_question_comes_before_the_session_of_the_next_change_of_the_same_preference(
    many_planned: list[Planned],
) -> None:
    bounded = 0
    for _, history, plan in of(many_planned, *OF_ONE_PREFERENCE):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        last = plan.evidence[-1]
        later = [e for e in topic.events if e.preference_id == last.preference_id and e.date > last.date]
        if later:
            following = min(later, key=lambda e: e.date)
            (session,) = [s for s in topic.sessions if following.event_id in s.event_ids]
            assert plan.before_session_id == session.session_id
            bounded += 1
        else:
            assert plan.before_session_id is None
    assert bounded > 50


def test_what_never_changes_may_be_asked_at_any_later_time(many_planned: list[Planned]) -> None:
    for _, _, plan in of(many_planned, *(set(QUESTION_TYPES) - set(OF_ONE_PREFERENCE))):
        assert plan.before_session_id is None


def test_evidence_is_in_the_order_of_time_and_its_updates_are_counted(many_planned: list[Planned]) -> None:
    for _, _, plan in many_planned:
        assert all(before.date <= after.date for before, after in pairwise(plan.evidence))
        assert len({event.event_id for event in plan.evidence}) == len(plan.evidence) > 0
        assert plan.updates_spanned == sum(event.reason is not None for event in plan.evidence)


def test_questions_about_states_have_the_whole_course_as_evidence(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, *OF_STATES):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        last = plan.evidence[-1]
        assert list(plan.evidence) == [
            e for e in topic.events if e.preference_id == last.preference_id and e.date <= last.date
        ]


# --- what the options assert


def test_the_four_options_assert_four_things_in_one_form(many_planned: list[Planned]) -> None:
    for _, _, plan in many_planned:
        assert len({option.states for option in plan.options}) == 4
        assert len({len(option.states) for option in plan.options}) == 1


def test_roles_say_how_an_option_stands_to_the_history(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, *OF_STATES[::2], kind="slot"):
        held = [
            e.state for e in Reader(history, plan.topic, asked_between(history, plan)[0]).course("slot", plan.subject)
        ]
        for option in plan.options:
            (value,) = option.states
            assert option.role == ("current" if value == held[-1] else "outdated" if value in held else "never")


def test_stances_are_both_stances_on_a_known_and_on_an_unknown_item(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, "acknowledge_latest_user_preferences", kind="item"):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (unknown,) = {option.states[0].split(": ")[1] for option in plan.options} - {plan.subject}
        assert unknown in topic.never
        assert {option.states[0] for option in plan.options} == {
            f"{stance}: {item}" for stance in ("like", "dislike") for item in (plan.subject, unknown)
        }
        (other,) = [o for o in plan.options[1:] if o.states[0].endswith(f": {plan.subject}")]
        assert other.role == ("outdated" if len(plan.evidence) > 1 else "never")


def test_wrong_facts_are_of_the_same_kind_and_told_by_nobody(many_planned: list[Planned], banks: Banks) -> None:
    for _, history, plan in of(many_planned, "recall_user_shared_facts"):
        (kind,) = [kind for kind in banks.topics[plan.topic].facts if kind.id == plan.subject]
        assert {option.states[0] for option in plan.options} <= {fact.recalled for fact in kind.facts}
        told = {event.state for topic in history.topics for event in topic.events}
        assert [option.states[0] in told for option in plan.options] == [True, False, False, False]


def test_an_idea_stands_beside_three_items_mentioned_before_the_question(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, "suggest_new_ideas"):
        assert [option.role for option in plan.options] == ["new", "mentioned", "mentioned", "mentioned"]
        reader = Reader(history, plan.topic, asked_between(history, plan)[0])
        assert all(reader.course("item", option.states[0]) for option in plan.options[1:])
        subjects = {p.subject for topic in history.topics for p in topic.preferences}
        assert plan.options[0].states[0] not in subjects


def test_accounts_have_as_many_steps_as_the_preference_had_states(many_planned: list[Planned]) -> None:
    steps = Counter()
    for _, _, plan in of(many_planned, "track_full_preference_evolution"):
        assert {len(option.states) for option in plan.options} == {len(plan.evidence)}
        assert [option.role for option in plan.options] == ["current", "never", "never", "never"]
        for option in plan.options:
            assert all(before != after for before, after in pairwise(option.states))
        steps[len(plan.evidence)] += 1
    assert set(steps) == {2, 3, 4}


def test_accounts_hold_the_same_pattern_of_changes(many_planned: list[Planned]) -> None:
    """So the pattern (`A, B, A` against `A, B, C`) does not tell which of them is true."""
    for _, _, plan in of(many_planned, "track_full_preference_evolution"):
        patterns = {tuple(option.states.index(state) for state in option.states) for option in plan.options}
        assert len(patterns) == 1


def test_reasons_are_of_four_motives_and_one_bank(many_planned: list[Planned], banks: Banks) -> None:
    for _, _, plan in of(many_planned, "revisit_reasons_behind_preference_updates"):
        bank = banks.topics[plan.topic]
        motive_of = {reason.recalled: motive for motive, reasons in bank.reasons.items() for reason in reasons}
        assert len({motive_of[option.states[0]] for option in plan.options}) == 4


def test_one_wrong_reason_belongs_to_another_change_if_there_is_one(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, "revisit_reasons_behind_preference_updates"):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (event,) = plan.evidence
        told = {e.reason for e in topic.events if e.reason and e.period <= event.period and e.motive != event.motive}
        given = {e.reason for e in topic.events}
        others = [option.states[0] for option in plan.options if option.role == "other"]
        assert len(others) == bool(told)
        assert set(others) <= told
        assert not any(option.states[0] in given for option in plan.options if option.role == "never")


def test_wrong_motives_are_shown_by_no_reason_of_the_user(many_planned: list[Planned]) -> None:
    for persona, history, plan in of(many_planned, "generalize_to_new_scenarios"):
        shown = {event.motive for topic in history.topics for event in topic.events}
        assert [option.states[0] in shown for option in plan.options] == [True, False, False, False]
        assert plan.options[0].states == (persona.motive,)


def test_a_motive_is_shown_thrice_in_at_least_two_topics_none_of_them_the_one_asked_about(
    planned: list[Planned],
) -> None:
    for persona, history, plan in of(planned, "generalize_to_new_scenarios"):
        topic_of = {event.event_id: topic.topic for topic in history.topics for event in topic.events}
        topics = {topic_of[event.event_id] for event in plan.evidence}
        assert len(topics) >= 2
        assert plan.topic not in TOPICS
        assert all(event.motive == persona.motive for event in plan.evidence)
        shown = [e for t in history.topics if t.topic in topics for e in t.events if e.motive == persona.motive]
        assert len(plan.evidence) == min(3, len(shown))


def test_an_option_is_marked_if_and_only_if_a_stereotype_is_about_the_user(
    planned: list[Planned], banks: Banks
) -> None:
    for persona, _, plan in of(planned, "provide_preference_aligned_recommendations"):
        groups = {persona.gender, "younger" if persona.age < 40 else "older"}
        (slot,) = [slot for slot in banks.topics[plan.topic].slots if slot.id == plan.subject]
        marked = {value.phrase for value in slot.values if groups & set(value.stereotype)}
        assert [option.stereotypical for option in plan.options] == [o.states[0] in marked for o in plan.options]


def test_exactly_one_recommendation_follows_a_stereotype(planned: list[Planned]) -> None:
    for _, _, plan in of(planned, "provide_preference_aligned_recommendations"):
        assert sum(option.stereotypical for option in plan.options) == 1


# --- how many


def test_each_topic_has_a_question_of_each_type(planned: list[Planned], crowd: list[User]) -> None:
    counts = Counter((persona.persona_id, plan.topic, plan.question_type) for persona, _, plan in planned)
    for question_type in set(QUESTION_TYPES) - {"generalize_to_new_scenarios"}:
        for persona, _ in crowd:
            assert all(counts[persona.persona_id, topic, question_type] == 1 for topic in TOPICS)


def test_each_user_has_a_question_about_motives_for_each_topic_told(planned: list[Planned], crowd: list[User]) -> None:
    counts = Counter(p.persona_id for p, _, plan in planned if plan.question_type == "generalize_to_new_scenarios")
    told_in_two = [
        persona.persona_id
        for persona, history in crowd
        if sum(any(e.motive == persona.motive for e in topic.events) for topic in history.topics) >= 2
    ]
    assert counts == {persona_id: len(TOPICS) for persona_id in told_in_two}


def test_no_question_of_a_user_is_planned_twice(many_planned: list[Planned]) -> None:
    keys = Counter(
        (persona.persona_id, plan.question_type, plan.topic, plan.subject, plan.options, plan.after_session_ids)
        for persona, _, plan in many_planned
    )
    assert keys.most_common(1)[0][1] == 1


def test_types_that_are_not_wanted_are_not_asked(banks: Banks) -> None:
    counts = dict.fromkeys(QUESTION_TYPES, 0) | {"suggest_new_ideas": 2}
    config = Config(topics=TOPICS, personas=3, questions_per_topic=counts)
    for persona, history in users(config):
        plans = plan_questions(config, persona, history, banks)
        assert [plan.question_type for plan in plans] == ["suggest_new_ideas"] * 2 * len(TOPICS)


def test_a_history_gives_no_more_questions_than_it_has_subjects(banks: Banks) -> None:
    counts = dict.fromkeys(QUESTION_TYPES, 0) | {"recall_user_shared_facts": 9}
    config = Config(topics=TOPICS, personas=2, facts_per_topic=2, questions_per_topic=counts)
    for persona, history in users(config):
        assert len(plan_questions(config, persona, history, banks)) == 2 * len(TOPICS)


def test_short_and_sparse_histories_can_be_asked_about(banks: Banks) -> None:
    config = Config(
        topics=TOPICS,
        personas=30,
        periods=2,
        items_per_topic=3,
        slots_per_topic=1,
        facts_per_topic=1,
        updates_per_topic=2,
        questions_per_topic={"acknowledge_latest_user_preferences": 20},
    )
    for persona, history in users(config):
        for plan in plan_questions(config, persona, history, banks):
            reader = Reader(history, plan.topic, asked_between(history, plan)[1])
            assert [reader.holds(plan, option.states) for option in plan.options] == [True, False, False, False]


def test_plans_depend_on_the_seed_alone(crowd: list[User], crowd_config: Config, banks: Banks) -> None:
    persona, history = crowd[0]
    plans = plan_questions(crowd_config, persona, history, banks)
    assert plans == plan_questions(crowd_config, persona, history, banks)
    assert plans != plan_questions(crowd_config.model_copy(update={"seed": 12}), persona, history, banks)


def test_states_are_asked_for_after_updates_and_before_them(planned: list[Planned]) -> None:
    """Whoever always takes the first state, or always the last one of all, must be wrong often."""
    asked = of(planned, "acknowledge_latest_user_preferences")
    updated = sum(plan.updates_spanned > 0 for _, _, plan in asked)
    bounded = sum(plan.before_session_id is not None for _, _, plan in asked)
    assert 0.6 < updated / len(asked) < 0.9
    assert bounded / len(asked) > 0.2


# --- given the options alone, each is right equally often


def ranks(planned: list[Planned], n: int = 4) -> list[int]:
    """Count at which rank of the sorted options the right one stands."""
    counts = Counter(sorted(o.states for o in plan.options).index(plan.options[0].states) for _, _, plan in planned)
    return [counts[rank] for rank in range(n)]


def first_of_each_user(planned: list[Planned]) -> list[Planned]:
    """Return a question a user, where the questions of one user go together."""
    return list({persona.persona_id: (persona, history, plan) for persona, history, plan in reversed(planned)}.values())


@pytest.mark.parametrize(
    ("question_type", "kind"),
    [
        ("recall_user_shared_facts", "fact"),
        ("suggest_new_ideas", "idea"),
        ("acknowledge_latest_user_preferences", "slot"),
        ("acknowledge_latest_user_preferences", "item"),
        ("provide_preference_aligned_recommendations", "slot"),
        ("track_full_preference_evolution", "slot"),
        ("track_full_preference_evolution", "item"),
    ],
)
def test_each_of_the_sorted_options_is_right_equally_often(
    planned: list[Planned], question_type: str, kind: str
) -> None:
    assert even(ranks(of(planned, question_type, kind=kind)))


@pytest.mark.parametrize("values", [2, 3])
def test_each_of_the_sorted_accounts_is_true_equally_often_whatever_the_number_of_values(
    planned: list[Planned], values: int
) -> None:
    asked = of(planned, "track_full_preference_evolution", kind="slot")
    assert even(ranks([p for p in asked if len(set(p[2].options[0].states)) == values]))


def test_all_four_candidates_occur_alike_in_accounts_of_two_values(planned: list[Planned]) -> None:
    """Or these questions would tell, to those about the same slot, which values were held."""
    two = [
        p for p in of(planned, "track_full_preference_evolution", kind="slot") if len(set(p[2].options[0].states)) == 2
    ]
    assert two
    for _, _, plan in two:
        counts = Counter(value for option in plan.options for value in set(option.states))
        assert sorted(counts.values()) == [2, 2, 2, 2]


def test_how_often_a_motive_occurs_among_reasons_or_advice_does_not_tell_which_is_right(
    planned: list[Planned], banks: Banks
) -> None:
    """Neither to a reader of all questions of a user: each motive of advice is in all, and of reasons about in half."""
    advice: dict[int, set[frozenset[str]]] = {}
    reasons = Counter()
    users = {}
    for persona, _, plan in planned:
        users[persona.persona_id] = persona
        if plan.question_type == "generalize_to_new_scenarios":
            advice.setdefault(persona.persona_id, set()).add(frozenset(o.states[0] for o in plan.options))
        elif plan.question_type == "revisit_reasons_behind_preference_updates":
            motives = {r.recalled: m for m, rs in banks.topics[plan.topic].reasons.items() for r in rs}
            shown = {motives[option.states[0]] for option in plan.options}
            reasons.update({"main": persona.motive in shown, "absent": persona.absent_motives()[0] in shown, "all": 1})
    assert all(len(sets) == 1 for sets in advice.values())
    assert abs(reasons["main"] / reasons["all"] - 0.5) < 0.12
    assert abs(reasons["absent"] / reasons["all"] - 0.5) < 0.12


@pytest.mark.parametrize("question_type", ["revisit_reasons_behind_preference_updates", "generalize_to_new_scenarios"])
def test_each_rank_of_the_motives_is_right_equally_often(
    planned: list[Planned], banks: Banks, question_type: str
) -> None:
    counts = Counter()
    for _, _, plan in first_of_each_user(of(planned, question_type)):
        motives = {m: m for m in MOTIVES}
        if plan.topic in banks.topics:
            motives = {r.recalled: m for m, reasons in banks.topics[plan.topic].reasons.items() for r in reasons}
        order = [MOTIVES.index(motives[option.states[0]]) for option in plan.options]
        counts[sorted(order).index(order[0])] += 1
    assert even(counts[rank] for rank in range(4))


def test_no_motive_is_a_reason_more_often_than_another(planned: list[Planned], banks: Banks) -> None:
    right, wrong = Counter(), Counter()
    for _, _, plan in first_of_each_user(of(planned, "revisit_reasons_behind_preference_updates")):
        motives = {r.recalled: m for m, reasons in banks.topics[plan.topic].reasons.items() for r in reasons}
        right[motives[plan.options[0].states[0]]] += 1
        wrong.update(motives[option.states[0]] for option in plan.options[1:])
    assert even(right[motive] for motive in MOTIVES)
    assert even(wrong[motive] for motive in MOTIVES)


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_the_right_state_is_neither_the_longest_nor_the_shortest_too_often(
    planned: list[Planned], question_type: str
) -> None:
    counts = Counter()
    for _, _, plan in first_of_each_user(of(planned, question_type)):
        lengths = [(sum(map(token_length, option.states)), option.states) for option in plan.options]
        counts[sorted(lengths).index(lengths[0])] += 1
    assert even(counts[rank] for rank in range(4))


def test_what_follows_a_stereotype_is_right_as_often_as_anything_else(planned: list[Planned]) -> None:
    asked = of(planned, "provide_preference_aligned_recommendations")
    right = sum(plan.options[0].stereotypical for _, _, plan in asked)
    assert binomtest(right, len(asked), 1 / 4).pvalue > 1e-4
