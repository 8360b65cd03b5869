from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import pairwise, permutations

import pytest
from scipy.stats import binomtest
from small_banks import TOPICS, even, users

from generation.banks.load import Banks
from generation.config import Config
from generation.history_records import Event, History, Preference, SessionPlan, TopicHistory, tried_items
from generation.option_plans import PreferenceState, course_options
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import GENERIC_TYPES, QUESTION_TYPES, Persona
from generation.tokenizer import token_length

User = tuple[Persona, History]
Planned = tuple[Persona, History, QuestionPlan]

OF_STATES = (
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "provide_preference_aligned_recommendations",
)
OF_ONE_PREFERENCE = (*OF_STATES, "revisit_reasons_behind_preference_updates")


MANY = Config(
    topics=TOPICS,
    personas=40,
    seed=5,
    updates_per_topic=9,
    questions_per_topic=dict.fromkeys(QUESTION_TYPES, 6) | {"suggest_new_ideas": 2},
)


@pytest.fixture(scope="session")
def planned(crowd_config: Config, crowd: list[User], banks: Banks) -> list[Planned]:
    """One question of each type for each user and topic."""
    return [(p, h, plan) for p, h in crowd for plan in plan_questions(crowd_config, p, h, banks)]


@pytest.fixture(scope="session")
def many_planned(banks: Banks) -> list[Planned]:
    """Several questions of each type, of users whose preferences change often."""
    return [(p, h, plan) for p, h in users(MANY) for plan in plan_questions(MANY, p, h, banks)]


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
        kinds = {p.preference_id: p.kind for p in self._history[self._topic].preferences}
        trials = [e for e in self.topics[self._topic] if kinds[e.preference_id] == "trial"]
        return not any(states[0] in tried_items(event.state) for event in trials)

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
        counts = Counter(event.motive for event in self.topics[plan.about] if event.motive is not None)
        return all(counts[states[0]] > count for motive, count in counts.items() if motive != states[0])


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
    for _, _, plan in of(many_planned, "recall_user_shared_facts", "suggest_new_ideas"):
        assert plan.before_session_id is None


def test_advice_by_a_motive_is_asked_for_only_as_long_as_it_leads(many_planned: list[Planned]) -> None:
    bounded = [plan for _, _, plan in of(many_planned, "generalize_to_new_scenarios") if plan.before_session_id]
    assert bounded  # that it leads until then, the replay above shows


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


def test_stances_are_both_stances_on_two_items(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, "acknowledge_latest_user_preferences", kind="item"):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (items,) = [p.candidates for p in topic.preferences if p.subject == plan.subject and p.kind == "item"]
        assert {option.states[0] for option in plan.options} == {
            f"{stance}: {item}" for stance in ("like", "dislike") for item in items
        }
        (other,) = [o for o in plan.options[1:] if o.states[0].endswith(f": {plan.subject}")]
        assert other.role == ("outdated" if len(plan.evidence) > 1 else "never")


def test_wrong_facts_are_of_the_same_kind_and_told_of_others_alone(many_planned: list[Planned], banks: Banks) -> None:
    for _, history, plan in of(many_planned, "recall_user_shared_facts"):
        (kind,) = [kind for kind in banks.topics[plan.topic].facts if kind.id == plan.subject]
        assert {option.states[0] for option in plan.options} <= {fact.recalled for fact in kind.facts}
        own = {event.state for topic in history.topics for event in topic.events}
        others = {mention.state for topic in history.topics for mention in topic.mentions}
        assert [option.states[0] in own for option in plan.options] == [True, False, False, False]
        assert [option.states[0] in others for option in plan.options] == [False, True, True, True]


def test_an_idea_that_is_new_is_spoken_of_like_those_that_are_not(many_planned: list[Planned]) -> None:
    for _, history, plan in of(many_planned, "suggest_new_ideas"):
        assert [option.role for option in plan.options] == ["new", "tried", "tried", "tried"]
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (event,) = plan.evidence
        lists = [tried_items(one.state) for one in (event, *topic.beside(event))]
        assert [sum(option.states[0] in items for items in lists) for option in plan.options] == [3, 3, 3, 3]


def test_two_questions_about_ideas_have_no_item_in_common(many_planned: list[Planned]) -> None:
    items = Counter(
        (persona.persona_id, plan.topic, option.states[0])
        for persona, _, plan in of(many_planned, "suggest_new_ideas")
        for option in plan.options
    )
    assert set(items.values()) == {1}


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


def test_courses_stand_in_a_latin_square(many_planned: list[Planned]) -> None:
    """At every step each candidate stands in one course: no step tells which of them is true."""
    for _, history, plan in of(many_planned, "track_full_preference_evolution", kind="slot"):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (candidates,) = [p.candidates for p in topic.preferences if (p.kind, p.subject) == ("slot", plan.subject)]
        for step in zip(*(option.states for option in plan.options), strict=True):
            assert sorted(step) == list(candidates)


def test_the_four_courses_are_the_same_whichever_of_them_is_true() -> None:
    preference = Preference(preference_id="p", kind="slot", subject="s", candidates=("a", "b", "c", "d"))
    for pattern in ("ab", "abc", "aba", "abca", "abac", "abcb"):
        true = [tuple(dict(zip("abc", order, strict=False))[x] for x in pattern) for order in permutations("abcd", 3)]
        squares = {course: frozenset(o.states for o in course_options(state_of(preference, course))) for course in true}
        for square in squares.values():
            assert all(squares[course] == square for course in square)


def state_of(preference: Preference, course: tuple[str, ...]) -> PreferenceState:
    day = dt.date(2020, 1, 1)
    events = [
        Event(event_id=str(i), period=i, date=day, preference_id="p", state=state, telling="named")
        for i, state in enumerate(course)
    ]
    return PreferenceState(preference, events)


def test_reasons_are_those_of_the_four_motives_of_the_user_told_side_by_side(
    many_planned: list[Planned], banks: Banks
) -> None:
    for persona, history, plan in of(many_planned, "revisit_reasons_behind_preference_updates"):
        bank = banks.topics[plan.topic]
        motive_of = {reason.told: motive for motive, reason in bank.all_reasons()}
        assert sorted(motive_of[option.states[0]] for option in plan.options) == sorted(persona.motives)
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (event,) = plan.evidence
        assert [option.states[0] for option in plan.options] == [
            event.reason,
            *(mention.reason for mention in topic.beside(event)),
        ]


def test_a_wrong_reason_is_that_of_another_change_if_the_user_has_given_it(many_planned: list[Planned]) -> None:
    roles = Counter()
    for _, history, plan in of(many_planned, "revisit_reasons_behind_preference_updates"):
        (topic,) = [t for t in history.topics if t.topic == plan.topic]
        (event,) = plan.evidence
        given = {e.reason for e in topic.events if e.reason and e.period <= event.period}
        for option in plan.options[1:]:
            assert option.role == ("other" if option.states[0] in given else "never")
            roles[option.role] += 1
    assert roles["never"] > 20


def test_reasons_are_asked_of_slots_alone(many_planned: list[Planned]) -> None:
    """Why somebody likes a thing is no reason to dislike it, so of an item not all four would fit."""
    assert {plan.kind for _, _, plan in of(many_planned, "revisit_reasons_behind_preference_updates")} == {"slot"}


# --- motives


def test_advice_goes_by_what_leads_in_a_topic_and_the_options_are_all_that_moves_the_user(
    planned: list[Planned],
) -> None:
    for persona, history, plan in of(planned, "generalize_to_new_scenarios"):
        (topic,) = [t for t in history.topics if t.topic == plan.about]
        assert plan.options[0].states == (topic.motive,)
        assert sorted(option.states[0] for option in plan.options) == sorted(persona.motives)
        assert [option.role for option in plan.options] == ["current", "never", "never", "never"]


def test_the_evidence_of_a_motive_is_all_changes_that_show_it_up_to_a_session(planned: list[Planned]) -> None:
    for _, history, plan in of(planned, "generalize_to_new_scenarios"):
        (topic,) = [t for t in history.topics if t.topic == plan.about]
        last = plan.evidence[-1].period
        assert len(plan.evidence) == plan.updates_spanned >= 2
        assert list(plan.evidence) == [e for e in topic.events if e.motive == topic.motive and e.period <= last]


def test_scenarios_lie_outside_all_topics_and_none_is_asked_twice(planned: list[Planned]) -> None:
    scenarios = Counter(
        (persona.persona_id, plan.subject) for persona, _, plan in of(planned, "generalize_to_new_scenarios")
    )
    assert set(scenarios.values()) == {1}
    assert not {plan.topic for _, _, plan in of(planned, "generalize_to_new_scenarios")} & set(TOPICS)


def test_each_motive_of_a_user_is_the_right_advice_equally_often(planned: list[Planned]) -> None:
    ranks = Counter(
        persona.motives.index(plan.options[0].states[0])  # type: ignore[arg-type]
        for persona, _, plan in of(planned, "generalize_to_new_scenarios")
    )
    assert even(ranks[rank] for rank in range(4))
    of_one: dict[int, Counter[str]] = {}
    for persona, _, plan in of(planned, "generalize_to_new_scenarios"):
        of_one.setdefault(persona.persona_id, Counter())[plan.options[0].states[0]] += 1
    assert all(max(counts.values()) - min(counts.values()) <= 1 for counts in of_one.values())
    assert {len(counts) for counts in of_one.values()} == {4}


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
        lacking = sum(counts[p.persona_id, topic, question_type] != 1 for p, _ in crowd for topic in TOPICS)
        # Of reasons only where a slot changes, as nearly always some do.
        assert lacking <= (5 if question_type.startswith("revisit") else 0)


def test_each_user_has_a_question_about_motives_for_each_topic(planned: list[Planned], crowd: list[User]) -> None:
    asked = Counter((persona.persona_id, plan.about) for persona, _, plan in of(planned, "generalize_to_new_scenarios"))
    assert asked == {(persona.persona_id, topic): 1 for persona, _ in crowd for topic in TOPICS}


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
        items_per_topic=5,
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


def test_what_is_asked_of_changes_has_a_change(planned: list[Planned]) -> None:
    for _, _, plan in of(planned, *OF_ONE_PREFERENCE):
        if plan.question_type != "provide_preference_aligned_recommendations":
            assert plan.updates_spanned > 0
    aligned = of(planned, "provide_preference_aligned_recommendations")
    assert sum(plan.updates_spanned > 0 for _, _, plan in aligned) / len(aligned) >= 0.8


def test_states_are_asked_for_before_later_updates_too(planned: list[Planned]) -> None:
    """Whoever always takes the last state of all must be wrong often."""
    asked = of(planned, "acknowledge_latest_user_preferences")
    assert sum(plan.before_session_id is not None for _, _, plan in asked) / len(asked) > 0.2


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_most_sets_of_options_are_of_one_question(planned: list[Planned], question_type: str) -> None:
    """Of twenty users, as many as a split has; with the subject, which the message puts into words."""
    asked = [p for p in of(planned, question_type) if p[0].persona_id < 20]
    if question_type == "recall_user_shared_facts":  # four users share four facts, and each of them has another
        rights = Counter((plan.subject, plan.options[0].states) for _, _, plan in asked)
        assert max(rights.values()) <= 2
        return
    sets = {(plan.subject, plan.about, frozenset(option.states for option in plan.options)) for _, _, plan in asked}
    assert len(sets) >= 0.8 * len(asked)


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
        ("suggest_new_ideas", "trial"),
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


def test_each_rank_of_the_motives_is_the_reason_equally_often(planned: list[Planned], banks: Banks) -> None:
    counts = Counter()
    for persona, _, plan in first_of_each_user(of(planned, "revisit_reasons_behind_preference_updates")):
        motives = {reason.told: motive for motive, reason in banks.topics[plan.topic].all_reasons()}
        counts[persona.motives.index(motives[plan.options[0].states[0]])] += 1
    assert even(counts[rank] for rank in range(4))


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


# --- generic distractors


def with_generic(planned: list[Planned], count: int, banks: Banks) -> list[Planned]:
    """Plan the questions of the same users, where some wrong options give way to generic ones."""
    config = MANY.model_copy(update={"generic_distractors": count})
    histories = {p.persona_id: (p, h) for p, h, _ in planned}.values()
    return [(p, h, plan) for p, h in histories for plan in plan_questions(config, p, h, banks)]


@pytest.fixture(scope="module", params=[1, 2])
def generic_planned(request: pytest.FixtureRequest, many_planned: list[Planned], banks: Banks) -> list[Planned]:
    return with_generic(many_planned, request.param, banks)


def test_generic_options_take_the_places_of_wrong_ones_and_change_nothing_else(
    many_planned: list[Planned], banks: Banks
) -> None:
    assert not any(plan.generic for _, _, plan in many_planned)
    for count in (1, 2):
        plans = [plan for _, _, plan in with_generic(many_planned, count, banks)]
        assert [plan._replace(generic=()) for plan in plans] == [plan for _, _, plan in many_planned]
        for plan in plans:
            wanted = 0 if plan.question_type == "suggest_new_ideas" else count
            roles = [option.role for option in plan.shown]
            assert (roles.count("generic"), roles[0] == "generic") == (wanted, False)
            assert {option.states for option in plan.shown if option.role == "generic"} <= {()}


@pytest.mark.parametrize("question_type", GENERIC_TYPES)
def test_each_of_the_sorted_options_that_are_left_is_right_equally_often(
    generic_planned: list[Planned], question_type: str
) -> None:
    counts: Counter[int] = Counter()
    asked = first_of_each_user_and_topic(of(generic_planned, question_type))
    for plan in asked:
        left = sorted(option.states for option in plan.shown if option.states)
        counts[left.index(plan.options[0].states)] += 1
    assert even(counts[rank] for rank in range(4 - len(asked[0].generic)))


def first_of_each_user_and_topic(planned: list[Planned]) -> list[QuestionPlan]:
    return list({(p.persona_id, plan.about or plan.topic): plan for p, _, plan in reversed(planned)}.values())


@pytest.mark.parametrize("question_type", ["acknowledge_latest_user_preferences", "generalize_to_new_scenarios"])
def test_what_gives_way_in_one_question_tells_nothing_about_another(
    generic_planned: list[Planned], question_type: str
) -> None:
    """A reader who sees a user's other questions with the same options: what they lack most, and least, is no sign."""
    same: dict[object, list[QuestionPlan]] = {}
    for persona, _, plan in of(generic_planned, question_type):
        states = frozenset(option.states for option in plan.options)
        same.setdefault((persona.persona_id, plan.about and "scenarios", states), []).append(plan)
    groups = [plans for plans in same.values() if len(plans) > 1]
    assert len(groups) >= 30
    for extreme in (max, min):
        credits_, chances = [], []
        for plans in groups:
            for plan in plans:
                left = [option.states for option in plan.shown if option.states]
                seen = Counter(o.states for other in plans if other is not plan for o in other.shown)
                counts = [seen[states] for states in left]
                best = extreme(counts)
                credits_.append((counts[left.index(plan.options[0].states)] == best) / counts.count(best))
                chances.append(1 / len(left))
        assert abs(sum(credits_) - sum(chances)) < 4 * (0.25 * len(credits_)) ** 0.5


def test_questions_about_one_thing_lose_the_same_account(generic_planned: list[Planned]) -> None:
    """What gives way for a right option, has that option give way where it is itself right, so accounts stay whole."""
    partners: dict[object, dict[tuple[str, ...], set[tuple[str, ...]]]] = {}
    for persona, _, plan in generic_planned:
        if plan.generic:
            about = "" if plan.kind == "scenario" else plan.subject
            key = (persona.persona_id, about, frozenset(option.states for option in plan.options))
            gone = {plan.options[i].states for i in plan.generic}
            assert partners.setdefault(key, {}).setdefault(plan.options[0].states, gone) == gone
    met = 0
    for of_right in partners.values():
        for right, gone in of_right.items():
            for other in gone & of_right.keys():
                assert right in of_right[other]
                met += 1
    assert met >= 20
