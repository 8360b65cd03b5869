"""Can the messages that tell what questions ask for be told from the others, whatever they name?"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from generation.seeds import rng_for
from personamem_builder.audit.history.index import USER
from personamem_builder.audit.history.words import assertions, stem
from personamem_builder.audit.records import AuditedSplit, Finding, not_made
from personamem_builder.schema import ContextRow
from personamem_builder.statistics import simultaneous_interval, standard_error

CHECKS: Final = tuple(f"history.{name}" for name in ("event_words", "event_pairs", "reply_words", "reply_pairs"))
OPENINGS: Final = "history.reply_openings"

_MOST: Final = 1200
"""Messages of a persona at most, evidence and others alike: the memory is bounded, whatever the size of a split."""
MOST_USERS: Final = 50
"""Users whose messages are read at most, for the same reason."""
_FOLDS: Final = 5
_CONFIDENCE: Final = 0.95
_WORD: Final = re.compile(r"[^\W_]+|[^\w\s]")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")

_Floats = npt.NDArray[np.float64]


class Told(NamedTuple):
    """A message of a user with the reply to it, and whether it is evidence for a question of this user."""

    text: str
    reply: str
    is_evidence: bool


class Messages:
    """The distinct messages of users, gathered context by context; of many users, those of some.

    Args:
        split: The questions, whose evidence the messages are. Stems of what the options of a user name are masked.
    """

    def __init__(self, split: AuditedSplit) -> None:
        self._split = split
        users = sorted(set(split.personas))
        self._num_users = len(users)
        if len(users) > MOST_USERS:
            users = rng_for(0, "audit messages", split.name).sample(users, MOST_USERS)
        self._named: dict[int, set[str]] = {user: set() for user in users}
        self._asked: dict[str, list[int]] = {}
        for i, user in enumerate(split.personas):
            if user in self._named:
                row = split.rows[i]
                self._asked.setdefault(row["shared_context_id"], []).append(i)
                self._named[user].update(stem for option in assertions(row) for stem in option.stems)
        self._told: dict[int, dict[bytes, Told]] = {}

    def add(self, context: ContextRow) -> None:
        """Take the messages of a context that users wrote outside of fillers, where those can be told."""
        rows = [self._split.rows[i] for i in self._asked.get(context["shared_context_id"], ())]
        if not rows:
            return
        persona, messages = rows[0]["persona_id"], context["messages"]
        evidence = {i for row in rows for i in row.get("evidence_message_indices", ())}
        end = max(row["end_index_in_shared_context"] for row in rows)
        own = self._told.setdefault(persona, {})
        for i in _outside_fillers(context):
            if i >= end or messages[i]["role"] != USER:
                continue
            # The digest draws the messages that are kept, alike in every context that has them.
            key = hashlib.blake2b(messages[i]["content"].encode(), digest_size=8).digest()
            if key in own:
                if i in evidence and not own[key].is_evidence:
                    own[key] = own[key]._replace(is_evidence=True)
                continue
            reply = messages[i + 1]["content"] if i + 1 < len(messages) else ""
            own[key] = Told(
                text=messages[i]["content"],
                reply=reply,
                is_evidence=i in evidence,
            )
        if len(own) > 2 * _MOST:
            self._told[persona] = _drawn(own)

    def findings(self) -> list[Finding]:
        """Return how well evidence is told from other messages, by a classifier that learned from other personas.

        - `history.event_words`: from the words of the message, `event_pairs` from its pairs of words too;
        - `history.reply_words`, `reply_pairs`: from the reply to it. These four are areas under the ROC curve: how
          often a message that is evidence is put before one that is not; chance is 0.5.
        - `history.reply_openings`: from the first sentence of the reply alone, by how often it followed evidence: of as
          many messages as are evidence, those put first, the share that is. Chance is the share of evidence.
        """
        told = [(persona, one) for persona, own in self._told.items() for one in _drawn(own).values()]
        personas = np.array([persona for persona, _ in told], dtype=np.int64)
        labels = np.array([one.is_evidence for _, one in told], dtype=bool)
        counts = [len(set(personas[labels == value].tolist())) for value in (True, False)]
        if min(counts) < 2:
            needs = "evidence of two personas" if counts[0] < 2 else "messages without evidence of two personas"
            return not_made(self._split, needs, *CHECKS, OPENINGS)
        named = [self._named.get(persona, ()) for persona, _ in told]
        texts = [mask(one.text, own) for own, (_, one) in zip(named, told, strict=True)]
        replies = [mask(one.reply, own) for own, (_, one) in zip(named, told, strict=True)]
        first = [_SENTENCE.split(one.reply, maxsplit=1)[0] for _, one in told]
        found = []
        drawn = (
            f", all of {len(self._named)} of the {self._num_users:,} users"
            if len(self._named) < self._num_users
            else ""
        )
        for check, own, longest in zip(CHECKS, (texts, texts, replies, replies), (1, 2, 1, 2), strict=True):
            scores = _held_out_scores(own, labels, personas, longest)
            finding = _auc_finding(check, self._split, scores, labels, personas)
            found.append(finding._replace(note=finding.note + drawn))
        openings = _opening_scores([*map(mask, first, named)], labels, personas)
        return [*found, _precision_finding(self._split, openings, labels, personas)]


def _outside_fillers(context: ContextRow) -> list[int]:
    """Return the messages that stand in no filler; where lists of a damaged context differ, those of whole sessions."""
    starts, topics = context["session_starts"], context["session_topics"]
    ends = [*starts[1:], len(context["messages"])]
    known = any(topics)  # an imported release has an empty topic for each session
    parts = zip(starts, ends, topics, strict=False)
    return [i for start, end, topic in parts if topic or not known for i in range(start, min(end, ends[-1]))]


def _drawn(own: Mapping[bytes, Told]) -> dict[bytes, Told]:
    return {key: own[key] for key in sorted(own)[:_MOST]}


def mask(text: str, named: Collection[str]) -> str:
    """Return the words of a text, with one sign each for things that options name, for numbers and for proper names.

    A capital letter tells a name where it does not begin a sentence.
    """
    words = []
    begins = True
    for token in _WORD.findall(text):
        if stem(token.lower()) in named:
            words.append("<thing>")
        elif not token.isalpha() and any(char.isdigit() for char in token):
            words.append("<number>")
        elif token[0].isupper() and not begins and token != "I":
            words.append("<name>")
        elif token[0].isalnum():
            words.append(token.lower())
        begins = token in ".!?:"
    return " ".join(words)


def _folds(personas: npt.NDArray[np.int64]) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    return list(GroupKFold(min(_FOLDS, len(np.unique(personas)))).split(personas, groups=personas))


def _held_out_scores(
    texts: Sequence[str], labels: npt.NDArray[np.bool_], personas: npt.NDArray[np.int64], longest: int
) -> _Floats:
    """Return how likely each message is evidence, by a classifier of words trained on other personas.

    Logistic regression on tf-idf of words and, if the longest is 2, of pairs of words.
    """
    vectors = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, longest), min_df=2, sublinear_tf=True)
    scores = np.zeros(len(texts))
    try:
        matrix = vectors.fit_transform(texts)  # the weights of words know all messages, but no label
    except ValueError:  # no word stands in two messages
        return scores
    for train, test in _folds(personas):
        if len(set(labels[train].tolist())) > 1:
            model = LogisticRegression(C=10.0, solver="liblinear").fit(matrix[train], labels[train])
            scores[test] = model.predict_proba(matrix[test])[:, 1]
    return np.round(scores, 9)


def _opening_scores(openings: Sequence[str], labels: npt.NDArray[np.bool_], personas: npt.NDArray[np.int64]) -> _Floats:
    """Return for each opening how often it followed evidence of other personas, drawn to the base rate by one case."""
    scores = np.zeros(len(openings))
    for train, test in _folds(personas):
        rate = float(labels[train].mean())
        seen: dict[str, list[int]] = {}
        for i in train.tolist():
            own = seen.setdefault(openings[i], [0, 0])
            own[0] += int(labels[i])
            own[1] += 1
        for i in test.tolist():
            hits, count = seen.get(openings[i], (0, 0))
            scores[i] = (hits + rate) / (count + 1)
    return np.round(scores, 9)


def area_under_curve(
    scores: _Floats, labels: npt.NDArray[np.bool_], personas: npt.NDArray[np.int64]
) -> tuple[float, float | None]:
    """Return the area under the ROC curve and its standard error, clustered by persona.

    The area A is the mean placement of positives among negatives, and that of negatives among positives. The error
    is that of the sum over clusters of (placement − A) / number, for both kinds (Obuchowski 1997, from DeLong 1988).
    """
    ranks, n = rankdata(scores), len(scores)
    placements = np.zeros(n)
    sizes = {value: int((labels == value).sum()) for value in (True, False)}
    for value, sign in ((True, 1.0), (False, -1.0)):
        own = labels == value
        below = (ranks[own] - rankdata(scores[own])) / sizes[not value]  # of the other kind; ties count half
        placements[own] = below if sign > 0 else 1 - below
    area = float(placements[labels].mean())
    weights = np.where(labels, n / sizes[True], n / sizes[False])
    return area, standard_error(weights * (placements - area), personas.tolist())


def _auc_finding(
    check: str, split: AuditedSplit, scores: _Floats, labels: npt.NDArray[np.bool_], personas: npt.NDArray[np.int64]
) -> Finding:
    area, error = area_under_curve(scores, labels, personas)
    note = f"{int(labels.sum())} of {len(labels)} messages are evidence"
    return _finding(check, split, area, error, personas, 0.5)._replace(note=note)


def _precision_finding(
    split: AuditedSplit, scores: _Floats, labels: npt.NDArray[np.bool_], personas: npt.NDArray[np.int64]
) -> Finding:
    count, rate = int(labels.sum()), float(labels.mean())
    edge = np.sort(scores)[-count]
    above, at = scores > edge, scores == edge
    # Messages that tie at the edge share the places that are left.
    chosen = above + at * ((count - above.sum()) / at.sum())
    precision = float((chosen * labels).sum() / count)
    residuals = chosen * (labels - precision) * len(labels) / count
    error = standard_error(residuals, personas.tolist())
    return _finding(OPENINGS, split, precision, error, personas, rate)


def _finding(
    check: str, split: AuditedSplit, value: float, error: float | None, personas: npt.NDArray[np.int64], chance: float
) -> Finding:
    clusters = len(np.unique(personas))
    interval = simultaneous_interval(value, error, clusters, _CONFIDENCE, 1)
    low, high = interval if interval else (None, None)
    return Finding(
        check,
        split.name,
        value=value,
        low=low,
        high=high,
        error=error,
        n=len(personas),
        clusters=clusters,
        chance=chance,
    )
