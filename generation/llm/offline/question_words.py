"""Words for questions: one message, one form for all four options; and generic replies for some of their places."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Final

from generation.banks.load import Banks
from generation.grammar import expand
from generation.request_facts import GenericFacts, QuestionFacts
from generation.tokenizer import token_length

_STEPS: Final = {
    2: "at first {0}, and by now {1}",
    3: "at first {0}, after that {1}, and by now {2}",
    4: "at first {0}, after that {1}, later on {2}, and by now {3}",
}
_TRIES: Final = 300  # combinations of sentences, of which the one of the best length is taken
_STANCE_WORDS: Final = {"like": "a pleasure", "dislike": "a burden"}


def _forms(templates: Sequence[str], fillings: Sequence[Mapping[str, str]], rng: random.Random) -> list[str]:
    """Expand the same choices of a template once for each filling."""
    seed = rng.getrandbits(32)
    return [expand(t, random.Random(seed), **slots) for t, slots in zip(templates, fillings, strict=True)]


def _one_form(template: str, slot: str, values: Sequence[str], rng: random.Random, **others: str) -> list[str]:
    return _forms([template] * len(values), [{slot: value, **others} for value in values], rng)


def _split(state: str) -> tuple[str, str]:
    stance, _, item = state.partition(": ")
    return stance, item


def _recall(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    kind = banks.topics[facts["topic"]].fact_kind(facts["subject"])
    states = [state for (state,) in facts["states"]]
    return expand(rng.choice(kind.queries), rng), _one_form(rng.choice(banks.answers.facts), "fact", states, rng)


def _ideas(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    bank = banks.topics[facts["topic"]]
    items = [item for (item,) in facts["states"]]
    return expand(rng.choice(bank.idea_queries), rng), _one_form(rng.choice(banks.answers.ideas), "item", items, rng)


def _acknowledge(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    bank = banks.topics[facts["topic"]]
    states = [state for (state,) in facts["states"]]
    if facts["kind"] == "slot":
        slot = bank.slot(facts["subject"])
        return expand(rng.choice(slot.queries), rng), _one_form(rng.choice(slot.recall), "value", states, rng)
    pair = rng.choice(banks.answers.stances)
    stances = [_split(state) for state in states]
    templates = [pair.like if stance == "like" else pair.dislike for stance, _ in stances]
    return expand(rng.choice(bank.item_queries), rng), _forms(templates, [{"item": item} for _, item in stances], rng)


def _evolution(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    bank, answers = banks.topics[facts["topic"]], banks.answers
    if facts["kind"] == "slot":
        slot = bank.slot(facts["subject"])
        message = f"{expand(rng.choice(slot.again), rng)} {expand(rng.choice(answers.evolution_queries), rng)}"
        courses = [_STEPS[len(course)].format(*course) for course in facts["states"]]
        return message, _one_form(rng.choice(answers.evolutions), "steps", courses, rng, name=slot.name)
    message = expand(rng.choice(answers.item_evolution_queries), rng, label=facts["topic_label"])
    fillings = []
    for course in facts["states"]:
        steps = [_split(state) for state in course]
        words = _STEPS[len(steps)].format(*(_STANCE_WORDS[stance] for stance, _ in steps))
        fillings.append({"item": steps[0][1], "steps": words})
    return message, _forms([rng.choice(answers.item_evolutions)] * len(fillings), fillings, rng)


def _reasons(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    bank, answers = banks.topics[facts["topic"]], banks.answers
    reasons = [reason for (reason,) in facts["states"]]
    message = expand(rng.choice(bank.slot(facts["subject"]).again), rng)
    return message, _one_form(rng.choice(answers.reasons), "reason", reasons, rng)


def _recommend(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    slot = banks.topics[facts["topic"]].slot(facts["subject"])
    recommend = {value.phrase: value.recommend for value in slot.values}
    # The most even choice of one recommendation a value: a function of the four values together.
    choices = list(product(*(recommend[value] for (value,) in facts["states"])))
    rng.shuffle(choices)
    chosen = min(choices, key=lambda texts: max(map(token_length, texts)) - min(map(token_length, texts)))
    message = expand(rng.choice(slot.recommend_queries), rng)
    return message, _one_form(rng.choice(banks.answers.recommendations), "recommendation", chosen, rng)


def _generalize(facts: QuestionFacts, banks: Banks, rng: random.Random) -> tuple[str, list[str]]:
    scenario = next(s for s in banks.scenarios.scenarios if s.id == facts["subject"])
    options = dict[str, str](scenario.options.items())
    advice = [options[motive] for (motive,) in facts["states"]]
    go_by = expand(rng.choice(banks.answers.go_by), rng, label=facts["about"])
    message = f"{expand(rng.choice(scenario.messages), rng)} {go_by}"
    return message, _one_form(rng.choice(scenario.replies), "advice", advice, rng)


def _even(options: list[str], ratio: float, tails: Sequence[str], rng: random.Random) -> list[str]:
    """Add the same neutral sentences to all options until the longest is near enough to the shortest."""
    for tail in rng.sample(list(tails), len(tails)):
        lengths = [token_length(option) for option in options]
        if max(lengths) <= ratio * min(lengths):
            break
        words = expand(tail, rng)
        options = [f"{option} {words}" for option in options]
    return options


_Words = Callable[[QuestionFacts, Banks, random.Random], tuple[str, list[str]]]


def _writer(words: _Words) -> Callable[[QuestionFacts, Banks, random.Random, int], dict[str, object]]:
    def write(facts: QuestionFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
        message, options = words(facts, banks, rng)
        return {"message": message, "options": _even(options, facts["max_length_ratio"], banks.answers.tails, rng)}

    return write


QUESTION_WRITERS: Final = {
    "recall_user_shared_facts": _writer(_recall),
    "suggest_new_ideas": _writer(_ideas),
    "acknowledge_latest_user_preferences": _writer(_acknowledge),
    "track_full_preference_evolution": _writer(_evolution),
    "revisit_reasons_behind_preference_updates": _writer(_reasons),
    "provide_preference_aligned_recommendations": _writer(_recommend),
    "generalize_to_new_scenarios": _writer(_generalize),
}
"""For each question type, what writes its words from the facts of a request."""


def generic_replies(facts: GenericFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    """Write generic replies, each as long as the one whose place it takes, of sentences of their own."""
    phrases = banks.generic
    assert phrases is not None, "the configuration asks for no generic distractors"
    kind = facts["question_type"]
    openings, bodies = phrases.openings[kind], phrases.own_bodies.get(kind, phrases.bodies)
    shuffled = [rng.sample(part, len(part)) for part in (openings, bodies)]
    count = len(facts["replies"])
    written: list[str] = []
    for number, replaced in enumerate(facts["replies"]):
        # Two replies to a message differ in their opening and their body.
        parts = [*(part[number::count] for part in shuffled), phrases.endings]
        written.append(_as_long_as(replaced, parts, banks.answers.tails, facts["topic_label"], rng, written))
    return {"replies": written}


def _as_long_as(
    text: str,
    parts: Sequence[Sequence[str]],
    tails: Sequence[str],
    label: str,
    rng: random.Random,
    taken: Collection[str],
) -> str:
    """Return sentences, at best one of each part, and perhaps tails, with as many tokens as a text, or nearly.

    What is `taken` is not said again.
    """
    length = token_length(text)
    best, least = "", length
    for _ in range(_TRIES):
        opening, body, ending = map(rng.choice, parts)
        whole = (opening, body, ending, *rng.sample(list(tails), min(2, len(tails))))
        short = ((opening, ending), tuple(rng.sample(parts[-1], 2)), (opening,), (ending,))
        for chosen in (*(whole[:end] for end in range(2, 1 + len(whole))), *short):
            candidate = expand(" ".join(chosen), rng, label=label)
            distance = abs(token_length(candidate) - length)
            if candidate not in taken and (distance < least or not best):
                best, least = candidate, distance
        if least == 0:
            break
    return best
