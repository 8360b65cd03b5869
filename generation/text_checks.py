"""What can be seen of a text at a glance: labels, placeholders, another language, lengths, repeats.

A language model may write anything; these checks find what no reader is needed for. Each is narrow: it would rather
let a bad text through than refuse a good one. What a text says is read back by a model afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Final, Literal

Speaker = Literal["user", "assistant"]

AIMS: Final[dict[Speaker, int]] = {"user": 90, "assistant": 140}
"""Words of a session's message, by who speaks; the prompts ask for so many."""

# Times the aim: what the messages of a speaker have on average, and what one of them has at most.
_SHORTEST_MEAN: Final = 0.5
_LONGEST_MEAN: Final = 2.0
_LONGEST: Final = 4.0

_ALIKE: Final = 0.5  # of the three-word shingles of two texts: those that both have, above which one repeats the other
_SHINGLE: Final = 3

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_ROLES: Final = ("user", "assistant", "human", "ai", "chatbot", "patient", "therapist", "side_note")
_PLACEHOLDER: Final = re.compile(
    r"\[(?:[A-Z][A-Z _'-]+|[^\[\]\n]{0,40}\b(?:name|insert|your|placeholder|item|date|city|place|company|topic|reason"
    r"|event|value|title|number|details?)\b[^\[\]\n]{0,40})\](?!\()"  # not the text of a link
    r"|\{\{?[^{}\n]{0,60}\}?\}"
    r"|<(?:your|insert)?[ _]?[a-z_ ]*\b(?:name|item|city|place|date|topic|value)>"
    r"|\bTODO\b(?![ -]lists?\b)|\bTBD\b|\blorem ipsum\b|\bplaceholder (?:text|for)\b"
)
# Not "I am an AI researcher".
_AN_AI: Final = (
    r"an? (?:virtual assistant|(?:large )?language model"
    r"|(?:ai|artificial intelligence)(?: (?:assistant|(?:language )?model|chatbot)\b|(?=[,.;:!]| and | so | that |$)))"
)
_AS_ASSISTANT: Final = re.compile(
    rf"\bas {_AN_AI}"
    rf"|\bi(?:'m| am) (?:just |only )?{_AN_AI}"
    r"|\bhow (?:can|may) i (?:help|assist) you\b"
    r"|\bi(?:'m| am) here to (?:help|assist) you\b"
    r"|\bfeel free to ask\b"
    r"|\blet me know if you (?:have any|need any|need more|need further|would like (?:me|more))\b"
    r"|\bis there anything else i can (?:help|do for you)\b"
)
_AS_USER: Final = re.compile(
    r"\bas a user\b"
    r"|^(?:thanks|thank you)(?: so much| very much)? for (?:the|your|this|that|all) (?:advice|help|suggestions?|tips?"
    r"|recommendations?|answer|reply)\b"
    r"|^(?:hi|hello|hey)?[,! ]*(?:can|could|would) you (?:please )?(?:help me|recommend|suggest|tell me|give me)\b"
)
_TALK_OF_THE_TASK: Final = re.compile(
    r"^(?:sure|certainly|of course|okay|ok)?[,.! ]*here(?:'s| is| are) (?:the|a|your) (?:\w+ )?(?:conversation|session"
    r"|dialogue|json|profile|text|turns?|messages?)\b"
)

# A tenth of the words of English prose are among these, and next to none of other languages: "i" and "of", which are
# words of Polish and of Dutch as well, are left out on purpose.
_ENGLISH_WORDS: Final = """
the and to it it's i'm i've my you your this that these those they them our their there then than what which who when
where why how with from have has would could should can about into because before after while until since still been
being were are not don't didn't any every just like one out up some more only very now through each again if or be by
other she his does did said went got make made want know think people years today something anything nothing much many
too really never always between own same off down around back first last
"""
_ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())
_ENGLISH_SHARE: Final = 0.08
_ENOUGH_WORDS: Final = 20
_ENOUGH_LETTERS: Final = 10


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower().replace("’", "'"))


def text_faults(text: str, names: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with a text outside its code, as predicates; no speaker label may be one of the names."""
    prose = _CODE.sub(" ", text)
    if not words_of(text):
        return ["says nothing"]
    faults = []
    if label := _label(names).search(prose):
        faults.append(f"has a speaker label ({label[1]}:)")
    if placeholder := _PLACEHOLDER.search(prose):
        faults.append(f"has a placeholder ({placeholder[0]})")
    if _TALK_OF_THE_TASK.search(_plain(prose)):
        faults.append("speaks of the task")
    if not is_english(prose):
        faults.append("is not in English")
    return faults


def _label(names: Sequence[str]) -> re.Pattern[str]:
    labels = "|".join(re.escape(label) for label in (*_ROLES, *names))
    # At the start of a line or after a sentence, perhaps emphasised or in brackets.
    start = r"(?:^|(?<=[.!?] ))[\s*_>\[(\"“]*"
    return re.compile(rf"{start}({labels})(?: \d+)?[*_\])]*\s*:", re.IGNORECASE | re.MULTILINE)


def _plain(text: str) -> str:
    return text.strip().lower().replace("’", "'")


def role_faults(text: str, role: Speaker) -> list[str]:
    """Return how a message falls out of its role: a user who answers like an assistant, or the other way round."""
    plain = _plain(_CODE.sub(" ", text))
    if role == "user" and (said := _AS_ASSISTANT.search(plain)):
        return [f"speaks as the assistant ({said[0]!r})"]
    if role == "assistant" and (said := _AS_USER.search(plain)):
        return [f"speaks as the user ({said[0]!r})"]
    return []


def is_english(text: str) -> bool:
    """Say whether a text may be English: a longer one has common English words, and no text is of other letters."""
    letters = [character for character in text if character.isalpha()]
    if len(letters) >= _ENOUGH_LETTERS and sum(letter.isascii() for letter in letters) < len(letters) / 2:
        return False
    words = words_of(text)
    common = sum(word in _ENGLISH for word in words)
    return len(words) < _ENOUGH_WORDS or common >= _ENGLISH_SHARE * len(words)


def num_words(text: str) -> int:
    """Return the number of words, as writers are asked for them."""
    return len(text.split())


def conversation_faults(turns: Sequence[tuple[str, str]], names: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with the messages of some turns, labels with names of people included, and repeats."""
    messages: list[tuple[str, Speaker, str]] = []
    for number, (user, assistant) in enumerate(turns, start=1):
        messages.append((f"turn {number}: the user's message", "user", user))
        messages.append((f"turn {number}: the assistant's message", "assistant", assistant))
    faults: list[str] = []
    for where, role, text in messages:
        faults += [f"{where} {fault}" for fault in (*text_faults(text, names), *role_faults(text, role))]
        if num_words(text) > _LONGEST * AIMS[role]:
            faults.append(f"{where} has {num_words(text)} words; about {AIMS[role]} are wanted")
    pairs = near_duplicates([text for _, _, text in messages])
    return faults + [f"{messages[later][0]} repeats {messages[earlier][0]}" for earlier, later in pairs]


def too_long(texts: Sequence[str], role: Speaker) -> list[str]:
    """Return whether the messages of a speaker are too long on average."""
    words = sum(map(num_words, texts))
    return [_mean_fault(texts, role, words)] if words > _LONGEST_MEAN * AIMS[role] * len(texts) else []


def too_short(texts: Sequence[str], role: Speaker) -> list[str]:
    """Return whether the messages of a speaker are too short on average."""
    words = sum(map(num_words, texts))
    return [_mean_fault(texts, role, words)] if words < _SHORTEST_MEAN * AIMS[role] * len(texts) else []


def _mean_fault(texts: Sequence[str], role: Speaker, words: int) -> str:
    return f"the {role}'s messages have {words / len(texts):.0f} words on average; about {AIMS[role]} are wanted"


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of texts that say nearly the same in the same words, as indices; texts of a few words apart."""
    shingles = [_shingles(text) for text in texts]
    return [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(shingles), 2)
        if a and b and len(a & b) > _ALIKE * len(a | b)
    ]


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = words_of(text)
    return set(zip(*(words[i:] for i in range(_SHINGLE)), strict=False))
