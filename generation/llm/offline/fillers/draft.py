"""How a filler is put together from the texts of its kind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from string import Template as CodeTemplate
from typing import Final, NamedTuple

from generation.grammar import expand, expand_phrase
from generation.llm.offline.fillers.bank import FillerKind, Program, phrases

# In words, as in sessions: questions from short to long, with what leads up to them, and answers.
_QUESTIONS: Final = (17, 30, 50, 60, 68, 74, 80, 88, 98, 115)
_ANSWERS: Final = (60, 96)


class Draft(NamedTuple):
    """The title and the four messages of a filler."""

    title: str
    question: str
    answer: str
    follow_up: str
    reply: str


def draft(kind: FillerKind, number: int, rng: random.Random) -> Draft:
    """Return the filler of one combination of parameters, numbered from 0 to `kind.size - 1`."""
    texts = kind.texts
    around = phrases().programming if isinstance(texts.answer, Program) else phrases().knowledge
    slots = _slots(kind, number, rng)
    answer, reply = (_answer(text, slots, rng) for text in (texts.answer, texts.reply))
    own, general = list(texts.notes), list(around.notes)
    rng.shuffle(own)
    rng.shuffle(general)
    notes = general + own  # taken from the end
    return Draft(
        title=expand_phrase(texts.title, rng, **slots),
        question=_question(phrases().opening, texts.question, slots, around.contexts, around.tails, rng),
        answer=_padded(answer, notes, rng),
        follow_up=_question("", texts.follow_up, slots, around.follow_contexts, around.tails, rng),
        reply=_padded(reply, notes, rng),
    )


def _slots(kind: FillerKind, number: int, rng: random.Random) -> dict[str, str]:
    slots = {name: str(value) for name, value in kind.slots(number).items()}
    if kind.texts.names:
        slots["name"] = _pick(kind.texts.names, rng)
    for name, texts in kind.texts.cases.items():
        slots[name] = expand_phrase(texts[slots[name]], rng, **slots)
    return slots


def _answer(text: str | Program, slots: dict[str, str], rng: random.Random) -> str:
    lead = phrases().lead
    if isinstance(text, str):
        return expand(lead + text, rng, **slots)
    label = expand(phrases().output_label, rng)
    code, output = (CodeTemplate(template).substitute(slots) for template in (text.code, text.output))
    return (
        f"{expand(lead + text.intro, rng, **slots)}\n\n```python\n{code}\n```\n\n{label}\n\n"
        f"```text\n{output}\n```\n\n{expand(text.outro, rng, **slots)}"
    )


def _question(
    opening: str,
    template: str,
    slots: dict[str, str],
    contexts: Sequence[str],
    tails: Sequence[str],
    rng: random.Random,
) -> str:
    """Return a question with what leads up to it, until it has about as many words as a message of a session."""
    text = expand(template, rng, **slots)
    wanted = _QUESTIONS[int(rng.random() * len(_QUESTIONS))]
    if len(text.split()) < _QUESTIONS[0] or rng.random() < 0.3:
        text += " " + expand(_pick(tails, rng), rng)
    left = rng.sample(contexts, len(contexts))
    before: list[str] = []
    while left and len(text.split()) + sum(len(one.split()) for one in before) < wanted - _CONTEXT // 2:
        before.append(expand(left.pop(), rng))
    first = expand(opening, rng) if opening else ""
    # What announces a question stands right before it.
    return " ".join(filter(None, ["" if before and first.endswith(":") else first, *before, text]))


_CONTEXT: Final = 28  # words of one of the texts that lead up to a question, about


def _padded(text: str, notes: list[str], rng: random.Random) -> str:
    glue = "\n\n" if "\n" in text else " "
    wanted = rng.randint(*_ANSWERS)
    while len(text.split()) < wanted and notes:
        text += glue + expand(notes.pop(), rng)
        glue = " "
    return text


def _pick(options: Sequence[str], rng: random.Random) -> str:
    return options[int(rng.random() * len(options))]
