"""What keeps a benchmark of memories honest: checks of what a system gives back.

A system is shown `Session`s while it writes and the text of a question when it searches, never options, types, golds
or evidence. So words of the options that the history does not hold cannot come back from it, unless it has seen the
answers elsewhere; nor can the texts of earlier questions, unless it writes down what it is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from personamem_builder.memory.system import Memory
from personamem_builder.schema import QuestionRow, option_texts

NUM_WORDS: Final = 8
"""So many words of an option in a row, not said before in that order, are no chance."""

_FEWEST_WORDS: Final = 4
"""An option of fewer words may be said by chance; one of fewer than `NUM_WORDS` has to be there as a whole."""

_LEAST_CHARACTERS: Final = 20_000
"""Memories may have more text than a short history: a summary with its headings."""

_SHORTEST_ID: Final = 8
_DATE_LENGTH: Final = 10

_WORD: Final = re.compile(r"\w+")
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")

# A memory says of the user what the user said of themselves, and an option says it to them.
_PERSONS: Final = frozenset(
    _WORD.findall(
        "i me my mine myself you your yours yourself he him his himself she her hers herself they them their theirs "
        "themselves user users am are is was were be been m s re ve have has had d the a an that"
    )
)
_CONTROL: Final = re.compile(
    r"<\|[^<>|]{1,40}\|>|</?s>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]"
)
"""What chat templates and tokenizers take for their own marks, and what no text holds."""

_NAMED_LETTER: Final = re.compile(
    r"\b(?:answer|option|choice|choose|correct|gold)\w*\W{1,3}(?:(?:is|with|one|was)\W{1,3})?\(?[a-d]\)", re.IGNORECASE
)
_ONLY_LETTER: Final = re.compile(r"\W*[a-d]\W*\Z", re.IGNORECASE)


OPTIONS_SHOWN: Final = "options shown"
"""The kind of taint of a question whose options a system asked to be shown before it searched."""


class TaintedText(NamedTuple):
    """Words in a memory that the history does not hold.

    The kind is `option`, `question` (the text of an earlier one), `id` or `letter`.
    """

    kind: str
    text: str


class CheckedMemories(NamedTuple):
    """What a system gave back, made fit for a prompt, and what was wrong with it.

    Each fault is one of `surplus` (more than k), `too_long` (cut), `markup` (control tokens, taken out), `date` (no ISO
    date, left out), `places` (messages they do not hold, or not shown yet).
    """

    memories: tuple[Memory, ...]
    faults: tuple[str, ...]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case and plain letters, without those that change with who speaks."""
    plain = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).lower()
    return [word for word in _WORD.findall(plain) if word not in _PERSONS]


class VisibleText:
    """The history shown so far, as words; it starts with none of the `texts` of the whole context."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._words: list[str] = []
        self._shown = 0
        self._joined: str | None = None
        self._held: set[str] = set()  # the history only grows: what it holds once it goes on to hold

    def show(self, end: int) -> None:
        """Show the messages before `end`, in addition to those already shown."""
        for text in self._texts[self._shown : end]:
            self._words += words_of(text)
            self._joined = None
        self._shown = max(self._shown, end)

    def says(self, text: str) -> bool:
        """Say whether a message holds this text as it is."""
        return any(text in shown for shown in self._texts[: self._shown])

    def holds(self, words: Sequence[str]) -> bool:
        """Say whether these words were said in a row."""
        text = f" {' '.join(words)} "
        if text in self._held:
            return True
        if self._joined is None:
            self._joined = f" {' '.join(self._words)} "
        if text not in self._joined:
            return False
        self._held.add(text)
        return True


def find_taint(
    row: QuestionRow, memories: Sequence[Memory], visible: VisibleText, asked: Iterable[str] = ()
) -> list[TaintedText]:
    """Find what memories hold of a question's key that the history does not.

    `asked` are the texts of the questions asked before it in this history, and others that only a system which writes
    down what it is asked can know.

    Returns:
        A finding for each text that shows in the memories; its words are the first that do.
    """
    if not memories:
        return []
    texts = [memory.text for memory in memories]
    runs = _Runs([word for text in texts for word in words_of(text)])  # of all together, as some come in pieces
    message = row["user_question_or_message"]
    own = f" {' '.join(words_of(message))} "
    found = []
    for kind, sources in (("option", option_texts(row)), ("question", [text for text in asked if text != message])):
        for source in sources:
            for run in runs.shared_with(words_of(source)):
                if f" {' '.join(run)} " not in own and not visible.holds(run):
                    found.append(TaintedText(kind, " ".join(run)))
                    break
    ids = [row["question_id"], *(row.get("evidence_event_ids") or ())]
    found += [TaintedText("id", id_) for id_ in ids if len(id_) >= _SHORTEST_ID and any(id_ in text for text in texts)]
    found += [TaintedText("letter", text) for text in texts if _ONLY_LETTER.match(text)]
    named = (match[0] for text in texts for match in _NAMED_LETTER.finditer(text))
    return found + [TaintedText("letter", text) for text in named if not visible.says(text)]


class _Runs:
    """The runs of words in a text."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._known: dict[int, set[tuple[str, ...]]] = {}

    def shared_with(self, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the runs of another text, or the whole of a short one, that stand in this one too."""
        length = min(len(words), NUM_WORDS)
        if length >= _FEWEST_WORDS:
            known = self._of_length(length)
            yield from (run for i in range(len(words) - length + 1) if (run := tuple(words[i : i + length])) in known)

    def _of_length(self, length: int) -> set[tuple[str, ...]]:
        if length not in self._known:
            starts = range(len(self._words) - length + 1)
            self._known[length] = {tuple(self._words[i : i + length]) for i in starts}
        return self._known[length]


def check_memories(given: Any, k: int, texts: Sequence[str], end: int) -> CheckedMemories:
    """Make what `search` returned fit for a prompt; None stands for nothing.

    Returns:
        At most k memories, with no more text than the `texts[:end]` that were shown, and what was wrong.

    Raises:
        TypeError: They are no memories.
    """
    memories = list(given) if given is not None else []
    faults: dict[str, None] = {}
    if len(memories) > k:
        faults["surplus"] = None
    room = max(_LEAST_CHARACTERS, sum(len(text) for text in texts[:end]) + 20 * end)  # 20: the speaker's name
    kept = []
    for memory in memories[:k]:
        _check_form(memory)
        given_text = memory.text[:room]  # first, as it may be megabytes
        text = _CONTROL.sub(" ", given_text)
        if text != given_text and not any(given_text == other for other in texts[:end]):
            faults["markup"] = None
        places = tuple(i for i in memory.message_indices if 0 <= i < end and _CONTROL.sub(" ", texts[i]) in text)
        if len(given_text) < len(memory.text):
            faults["too_long"] = None
            places = ()
        elif len(places) < len(memory.message_indices):
            faults["places"] = None
        room -= len(text)
        date = memory.date[:_DATE_LENGTH] if _DATE.match(memory.date) else ""
        if memory.date and not date:
            faults["date"] = None
        if text.strip():
            kept.append(Memory(text, date, places))
    return CheckedMemories(tuple(kept), tuple(faults))


def _check_form(memory: Any) -> None:
    if not isinstance(memory, Memory):
        raise TypeError(f"search returned {type(memory).__name__} where Memory is due")
    if not isinstance(memory.text, str) or not isinstance(memory.date, str):
        raise TypeError("search returned a Memory whose text or date is no str")
    if not all(isinstance(i, int) for i in memory.message_indices):
        raise TypeError("search returned a Memory whose message_indices are no numbers")
