"""Who counts mentions, or looks where they stand, learns nothing: each such rule is right as often as chance."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from small_banks import even
from small_histories import told_in

from generation.banks.load import Banks
from generation.config import Config
from generation.history_records import Event, History, Mention, TopicHistory, tried_items
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import QUESTION_TYPES, Persona

User = tuple[Persona, History]
Told = Event | Mention


@pytest.fixture(scope="module")
def planned(crowd_config: Config, crowd: list[User], banks: Banks) -> list[tuple[History, QuestionPlan]]:
    return [(history, plan) for p, history in crowd for plan in plan_questions(crowd_config, p, history, banks)]


def visible(history: History, plan: QuestionPlan, at_the_end: bool) -> tuple[TopicHistory, list[Told]]:
    """Return the topic that a question is about, and what its sessions tell up to where the question may stand."""
    (topic,) = [t for t in history.topics if t.topic == (plan.about or plan.topic)]
    days = {session.session_id: session.date for session in topic.sessions}
    last = max(days[session_id] for session_id in plan.after_session_ids)
    if at_the_end:
        last = max(days.values())
        if plan.before_session_id is not None:
            last = days[plan.before_session_id] - dt.timedelta(days=1)
    return topic, [one for session in topic.sessions if session.date <= last for one in told_in(topic, session)]


def speaks_of(topic: TopicHistory, one: Told, plan: QuestionPlan, states: tuple[str, ...]) -> bool:
    """Say whether something told speaks of what an option asserts last, whoever it is of."""
    about = topic.preference(one.preference_id) if isinstance(one, Event) else one
    last = states[-1]
    if plan.kind == "scenario":
        return one.motive == last
    if plan.question_type == "revisit_reasons_behind_preference_updates":
        return one.reason == last
    if about.kind == "item":
        return last == f"{one.state}: {about.subject}"
    if about.kind == "trial":
        return last in tried_items(one.state)
    return about.subject == plan.subject and one.state == last


Rule = Callable[[Sequence[int]], float]
NEVER = -1
RULES: dict[str, Rule] = {
    "last": lambda places: max(places, default=NEVER),
    "first": lambda places: -min(places, default=10**6),
    "most": len,
    "least": lambda places: -len(places),
}


def credit(scores: Sequence[float]) -> float:
    """Return how often the first of some is chosen by the best score; ties are guessed."""
    best = max(scores)
    return (scores[0] == best) / sum(score == best for score in scores)


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_each_rule_is_right_as_often_as_chance(
    planned: list[tuple[History, QuestionPlan]], question_type: str, at_the_end: bool
) -> None:
    credits_: dict[str, list[float]] = {name: [] for name in RULES}
    for history, plan in planned:
        if plan.question_type != question_type:
            continue
        topic, told = visible(history, plan, at_the_end)
        places = [
            [i for i, one in enumerate(told) if speaks_of(topic, one, plan, option.states)] for option in plan.options
        ]
        assert all(places), "each is spoken of"
        for name, rule in RULES.items():
            credits_[name].append(credit([rule(own) for own in places]))
    for name, some in credits_.items():
        count, mean = len(some), sum(some) / len(some)
        assert count > 500
        spread = (sum((one - mean) ** 2 for one in some) / count) ** 0.5
        assert abs(mean - 0.25) <= 4 * spread / count**0.5, (name, mean)


def test_every_name_is_told_of_users_and_others_in_the_same_ways(crowd: list[User]) -> None:
    """The ways of telling are drawn for what may be asked, not for whose it is."""
    tellings = {"user": Counter(), "other": Counter()}
    for _, history in crowd:
        for topic in history.topics:
            for event in topic.events:
                tellings["user"][event.telling] += 3
                tellings["other"].update(mention.telling for mention in topic.beside(event))
    assert tellings["user"] == tellings["other"]


def test_offers_name_the_right_value_at_every_place_equally_often(
    planned: list[tuple[History, QuestionPlan]],
) -> None:
    places = Counter()
    for history, plan in planned:
        if plan.question_type == "provide_preference_aligned_recommendations":
            topic, _ = visible(history, plan, at_the_end=False)
            for session in topic.sessions:
                for offer in session.offers:
                    if offer.subject == plan.subject:
                        places[offer.names.index(plan.options[0].states[0])] += 1
    assert sum(places.values()) > 200
    assert even(places[place] for place in range(4))
