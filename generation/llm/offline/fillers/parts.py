"""What all kinds of fillers share: how a session is put together, padded and spelled."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from generation.grammar import expand

_T = TypeVar("_T")

_MIN_ANSWER: Final = 94
_MIN_QUESTION: Final = 17

_OPENING: Final = (
    "[[Hi|Hello|Hello there|Good day]! |Quick one: |A small [problem|exercise]: |Here is [one|something] to "
    "[work out|check]: ||||]"
)
LEAD: Final = "[Sure. |Certainly. |Of course. |Happy to help. |Here you go. |Gladly. |No problem. |||||]"

_MATHS_TAILS: Final = (
    "please [show|include|write down] the [steps|working], so that the [answer|result] can be [checked|followed] "
    "[by hand|line by line|without a calculator].",
    "[a short explanation|a brief justification] [next to|along with] the [answer|result] would be "
    "[useful|helpful|good].",
    "[could you|would you|can you] also say [briefly|in a sentence or two] why the [method|approach] works?",
    "the [reasoning|route to the answer] [matters|is of interest] [as well|too], not [only|just] the final "
    "[figure|result].",
)
_CODE_TAILS: Final = (
    "please [state|show|include] what it prints, so that the [output|result] can be compared [later|after a run].",
    "[plain|standard] Python without extra packages [is best|would be best|is enough], with a [short|brief] "
    "explanation.",
    "it should run as it stands on a [recent|current] Python 3, [without|with no] third-party [packages|libraries].",
    "[a few|two or three] sentences on [how it works|why it works] would [help|be useful] [too|as well].",
)
_MATHS_NOTES: Final = (
    "[if|should] any of the [figures|inputs] change, the same steps [still apply|carry over]; only the "
    "[values|numbers] in the middle of the [working|calculation] have to be replaced.",
    "a [rough|quick] estimate with rounded [inputs|values] is a [good|sound] way to catch slips: it should [land|come "
    "out] close to the result [given here|above].",
    "it [helps|pays] to write each step on its own line, because a [mistake|slip] is then [easy|much easier] to "
    "[spot|find] and to [correct|repair].",
)
_CODE_NOTES: Final = (
    "the [snippet|example] needs nothing beyond the standard library, so it can be [pasted|copied] into a file or an "
    "interactive session and [run|executed] [as it is|unchanged].",
    "[when|if] the inputs change, only the [values|literals] near the [call|end] need to be edited; the logic "
    "[itself|] [stays|remains] the same.",
    "descriptive names and one small task per function [keep|make] code like this [easy|simple] to [test|read] and "
    "[easy|simple] to [extend|change] later.",
)


class Filler(NamedTuple):
    """A short chat that tells nothing about its user.

    Attributes:
        kind: What the chat is about, e.g. `"unit_conversion"`.
        title: A short description, of this filler only.
        turns: Pairs of a user's message and the assistant's.
    """

    kind: str
    title: str
    turns: tuple[tuple[str, str], ...]


class Draft(NamedTuple):
    """The title and the four messages of a filler."""

    title: str
    question: str
    answer: str
    follow_up: str
    reply: str


class Kind(NamedTuple):
    """A family of fillers, one for each combination of parameters.

    Attributes:
        name: The kind's name.
        radices: How many values each parameter has.
        build: Writes the filler of one combination, given a generator for the wording and the parameters.
    """

    name: str
    radices: tuple[int, ...]
    build: Callable[..., Draft]

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(self.radices)

    def draft(self, number: int, rng: random.Random) -> Draft:
        """Return the filler of a combination, numbered from 0 to `size - 1`."""
        digits = []
        for radix in self.radices:
            number, digit = divmod(number, radix)
            digits.append(digit)
        return self.build(rng, *digits)


def kind(*radices: int) -> Callable[[Callable[..., Draft]], Kind]:
    """Make a builder into the kind that has its name."""

    def make(build: Callable[..., Draft]) -> Kind:
        return Kind(build.__name__, radices, build)

    return make


def pick(rng: random.Random, options: Sequence[_T]) -> _T:
    """Return one of the options."""
    return options[int(rng.random() * len(options))]


def words(text: str) -> int:
    """Return how many words a text has, separated by white space."""
    return len(text.split())


def _ask(rng: random.Random, template: str, slots: dict[str, str], tails: Sequence[str], *, opening: bool) -> str:
    text = expand(_OPENING + template if opening else template, rng, **slots)
    if words(text) < _MIN_QUESTION or rng.random() < 0.3:
        text += " " + expand(pick(rng, tails), rng)
    return text


def _pad(rng: random.Random, text: str, notes: list[str]) -> str:
    glue = "\n\n" if "\n" in text else " "
    while words(text) < _MIN_ANSWER and notes:
        text += glue + expand(notes.pop(), rng)
        glue = " "
    return text


def _compose(
    rng: random.Random,
    texts: tuple[str, str, str, str, str],
    slots: dict[str, str],
    notes: tuple[tuple[str, ...], tuple[str, ...]],
    tails: Sequence[str],
) -> Draft:
    title, question, answer, follow_up, reply = texts
    specific, general = list(notes[0]), list(notes[1])
    rng.shuffle(specific)
    rng.shuffle(general)
    left = general + specific
    return Draft(
        title=title,
        question=_ask(rng, question, slots, tails, opening=True),
        answer=_pad(rng, answer, left),
        follow_up=_ask(rng, follow_up, slots, tails, opening=False),
        reply=_pad(rng, reply, left),
    )


def lesson(
    rng: random.Random,
    title: str,
    question: str,
    answer: str,
    follow_up: str,
    reply: str,
    notes: tuple[str, ...],
    **slots: str,
) -> Draft:
    """Return the draft of a knowledge filler.

    Args:
        rng: Decides the wording.
        title: The title, as it stands.
        question: The template of the user's first message.
        answer: The template of the assistant's first message.
        follow_up: The template of the user's second message.
        reply: The template of the assistant's second message.
        notes: Templates of true remarks on the topic, which fill the answers up; none is used twice.
        **slots: What the four templates insert. Every message has to show all parameters.
    """
    written = expand(LEAD + answer, rng, **slots), expand(LEAD + reply, rng, **slots)
    texts = (title, question, written[0], follow_up, written[1])
    return _compose(rng, texts, slots, (notes, _MATHS_NOTES), _MATHS_TAILS)


def coding(
    rng: random.Random,
    title: str,
    question: str,
    answer: str,
    follow_up: str,
    reply: str,
    notes: tuple[str, ...],
    **slots: str,
) -> Draft:
    """Return the draft of a programming filler: as `lesson`, but answers come in final form, with their code."""
    return _compose(rng, (title, question, answer, follow_up, reply), slots, (notes, _CODE_NOTES), _CODE_TAILS)


def program(rng: random.Random, intro: str, code: str, output: str, outro: str, **slots: str) -> str:
    """Return an answer that shows a program and what it prints.

    Args:
        rng: Decides the wording.
        intro: The template of the text before the code.
        code: The code, as it stands.
        output: Exactly what the code prints, without the last newline.
        outro: The template of the text after the output.
        **slots: What the templates insert.
    """
    label = expand("[The output is|It prints|Running it prints|This prints|The result of a run is]:", rng)
    return (
        f"{expand(LEAD + intro, rng, **slots)}\n\n```python\n{code.strip()}\n```\n\n{label}\n\n"
        f"```text\n{output}\n```\n\n{expand(outro, rng, **slots)}"
    )


def comma(number: int) -> str:
    """Return a whole number with separators of thousands and a proper minus."""
    return f"{number:,}".replace("-", "−")


def decimal(number: float, places: int = 2) -> str:
    """Return a rounded number, with separators of thousands and without needless zeros."""
    text = f"{number:,.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share as a percentage with at least three significant digits."""
    value = 100 * share
    places = 2 if value >= 1 else 2 - math.floor(math.log10(value))
    return decimal(value, places) + "%"


def join(items: Iterable[object]) -> str:
    """Return things in a row, such as `3, 5 and 8`."""
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def row(items: Iterable[object]) -> str:
    """Return things separated by commas."""
    return ", ".join(map(str, items))


def times(number: int, noun: str) -> str:
    """Return a number of things, such as `1 day` or `1,024 days`."""
    return f"{comma(number)} {noun}" if number == 1 else f"{comma(number)} {noun}s"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `11th` and so on."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{comma(number)}{ending}"


def article(number: int) -> str:
    """Return `an` before 8, 11, 18, 80 and the like, else `a`."""
    return "an" if str(number)[0] == "8" or number in (11, 18) else "a"
