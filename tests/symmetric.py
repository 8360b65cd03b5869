"""A benchmark that no shortcut beats, for the audit's tests; and one leak of each kind to plant in it.

The four options of a question are drawn alike, word for word, and which of them is right is drawn last. So nothing but
the user's message, far up in the context, tells which it is; and that message names all four.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from small_contexts import context_row

from generation.seeds import rng_for
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.schema import ContextRow, Message, option_letter

TYPES: Final = (
    "recall_user_shared_facts",
    "acknowledge_latest_user_preferences",
    "provide_preference_aligned_recommendations",
)
NOUNS: Final = {
    "gardening": ("tulips", "hedges", "orchards", "ponds", "lawns", "herbs"),
    "cooking": ("stews", "salads", "noodles", "pies", "curries", "soups"),
    "cinema": ("westerns", "musicals", "thrillers", "cartoons", "dramas", "comedies"),
    "sailing": ("dinghies", "regattas", "harbours", "canals", "islands", "lagoons"),
    "painting": ("portraits", "murals", "sketches", "etchings", "frescoes", "collages"),
    "music": ("quartets", "ballads", "operas", "marches", "waltzes", "hymns"),
}
ADJECTIVES: Final = (
    "quiet",
    "bright",
    "modest",
    "ornate",
    "rustic",
    "modern",
    "austere",
    "playful",
    "compact",
    "grand",
)
ADVERBS: Final = ("mostly", "mainly", "partly", "rather", "simply", "freely", "firmly", "gladly", "keenly", "warmly")
"""All of six letters, so that one in the place of another changes no length."""

_ASKED: Final = {
    TYPES[0]: ("We spoke of {topic} before, {hint} among it. Which was mine?", "{topic}, {hint}: you know my story?"),
    TYPES[1]: ("About {topic}, say {hint}: what do I hold with now?", "I am back at {topic}. Is it {hint} for me?"),
    TYPES[2]: (
        "What of {topic} would you put before me, {hint} or not?",
        "Plan me some {topic}; {hint} is a word.",
    ),
}
_ANSWERED: Final = {
    TYPES[0]: "You told me {adverb} of {value} at {place}.",
    TYPES[1]: "These days you are {adverb} for {value}, as at {place}.",
    TYPES[2]: "I would {adverb} look at {value} in {place}.",
}
_TOLD: Final = "When it comes to {topic}, I have heard of {values}, and it is the {which} of these that I want."
_WHICH: Final = ("first", "second", "third", "fourth")
_SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")


@dataclass
class Choice:
    """What an option is made of: a value, and two things that say nothing."""

    value: str
    adverb: str
    place: str


@dataclass
class Draft:
    """A question before it is written down; a leak changes it."""

    question_type: str
    topic: str
    right: Choice
    wrong: list[Choice]
    position: int

    @property
    def choices(self) -> list[Choice]:
        """The options, in their order."""
        return [*self.wrong[: self.position], self.right, *self.wrong[self.position :]]


Leak = Callable[[Draft, random.Random], None]


def symmetric(seed: int = 0, leak: Leak | None = None, *, personas: int = 40, each: int = 48) -> AuditedSplit:
    """Return a benchmark; one with a leak has, but for that, the questions of the one without.

    Args:
        seed: Of all draws.
        leak: Is shown each question, and a source of randomness for it.
        personas: How many.
        each: Questions of each, a multiple of 12: so many of each type at each position.
    """
    parts = [_persona(seed, persona, each, leak) for persona in range(personas)]
    contexts = [context for context, _ in parts]
    return AuditedSplit("32k", [row for _, rows in parts for row in rows], lambda: iter(contexts))


def _persona(seed: int, persona: int, each: int, leak: Leak | None) -> tuple[ContextRow, list[dict[str, Any]]]:
    rng = rng_for(seed, "symmetric", persona)
    drafts = list(_drafts(rng, each))
    for i, draft in enumerate(drafts):
        if leak is not None:
            leak(draft, rng_for(seed, "leak", persona, i))
    named = rng_for(seed, "named", persona)
    likes = rng.sample([*ADJECTIVES, *(noun for nouns in NOUNS.values() for noun in nouns)], 12)
    contents = [("system", f"About the user. Likes {', '.join(likes)}.")]
    for draft in drafts:
        # All four are named at once: who looks for the words of the options finds them in one message.
        values = sorted((choice.value for choice in draft.choices), key=lambda _: named.random())
        which = _WHICH[values.index(draft.right.value)]
        contents.append(("user", _TOLD.format(topic=draft.topic, values=", ".join(values), which=which)))
        contents.append(("assistant", f"I see, {draft.topic}."))
    messages: list[Message] = [{"role": role, "content": content} for role, content in contents]
    context = context_row(messages, f"context {persona:02}", persona)
    asked = rng_for(seed, "places", persona)
    # A question comes at any time after the user told what it is about.
    places = [(asked.randint(at + 1, each), at) for at in range(each)]
    rows = [
        _row(drafts[at], context, 1 + 2 * at, 1 + 2 * end, asked, f"q{persona:02}-{at:03}")
        for end, at in sorted(places)
    ]
    return context, rows


def _drafts(rng: random.Random, each: int) -> Iterator[Draft]:
    # Each type has its right options as often at each position.
    kinds = [(TYPES[i % 3], i // 3 % 4) for i in range(each)]
    rng.shuffle(kinds)
    for question_type, position in kinds:
        topic = rng.choice(list(NOUNS))
        values = rng.sample([f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS[topic]], 4)
        wrong = [Choice(value, rng.choice(ADVERBS), _place(rng)) for value in values]
        right = wrong.pop(rng.randrange(4))
        yield Draft(question_type, topic, right, wrong, position)


def _place(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=rng.randint(3, 6))).capitalize()


def _tokens(contents: Iterator[str]) -> int:
    return sum(map(len, contents)) // 4


def _row(
    draft: Draft, context: ContextRow, told: int, end: int, rng: random.Random, question_id: str
) -> dict[str, Any]:
    contents = [message["content"] for message in context["messages"]]
    length, distance = _tokens(iter(contents[:end])), _tokens(iter(contents[told:end]))
    hint = rng.choice(NOUNS[draft.topic])  # options may have it, right or wrong
    texts = [
        _ANSWERED[draft.question_type].format(adverb=choice.adverb, value=choice.value, place=choice.place)
        for choice in draft.choices
    ]
    return {
        "persona_id": context["persona_id"],
        "question_id": question_id,
        "question_type": draft.question_type,
        "topic": draft.topic,
        "context_length_in_tokens": length,
        "context_length_in_letters": sum(map(len, contents[:end])),
        "distance_to_ref_in_blocks": 0,
        "distance_to_ref_in_tokens": distance,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": distance / length,
        "user_question_or_message": rng.choice(_ASKED[draft.question_type]).format(topic=draft.topic, hint=hint),
        "correct_answer": f"({option_letter(draft.position)})",
        "all_options": [f"({option_letter(i)}) {text}" for i, text in enumerate(texts)],
        "shared_context_id": context["shared_context_id"],
        "end_index_in_shared_context": end,
        "source_question_type": draft.question_type,
        "answer_index": draft.position,
        "evidence_message_indices": [told],
        "evidence_event_ids": [f"{question_id} told"],
        "option_states": [[choice.value] for choice in draft.choices],
        "option_roles": ["current" if i == draft.position else "never" for i in range(4)],
    }


# --- leaks


def longer_in_one_type(draft: Draft, rng: random.Random) -> None:
    """Right options of one type are 15 % longer: their place has a longer name."""
    if draft.question_type == TYPES[0]:
        length = len(_ANSWERED[TYPES[0]].format(**dataclasses.asdict(draft.right)))
        more = "".join(rng.choices(_SYLLABLES, k=length))[: round(0.15 * length)]
        draft.right.place += more


def cue_word(draft: Draft, rng: random.Random) -> None:
    """One adverb stands in 60 % of the right options, and in 20 % of the others."""
    cue, *others = ADVERBS
    for choice, share in [(draft.right, 0.6), *((wrong, 0.2) for wrong in draft.wrong)]:
        choice.adverb = cue if rng.random() < share else rng.choice(others)


def first_too_often(draft: Draft, rng: random.Random) -> None:
    """35 % of the right options are at position (a)."""
    draft.position = 0 if rng.random() < 0.35 else rng.choice([1, 2, 3])


def distractors_of_another_topic(draft: Draft, rng: random.Random) -> None:
    """All wrong options are about another topic than the question and its right option."""
    other = rng.choice([topic for topic in NOUNS if topic != draft.topic])
    values = rng.sample([f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS[other]], 3)
    for choice, value in zip(draft.wrong, values, strict=True):
        choice.value = value


def evidence_after_end(split: AuditedSplit) -> AuditedSplit:
    """Return a benchmark in which one question comes before what it asks about was told."""
    rows = [dict(row) for row in split.rows]
    rows[0]["evidence_message_indices"] = [rows[0]["end_index_in_shared_context"]]
    return dataclasses.replace(split, rows=rows)
