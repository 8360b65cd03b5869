"""How varied the text of the offline backend is, beside that of the official release.

    python benchmarks/text_quality.py                      # generates examples/full.yaml twice and measures it
    python benchmarks/text_quality.py --run runs/full      # measures a run that is there

Distinct sessions are drawn until they hold 500,000 words; the official 32k split holds about as many. The xz ratio is
the size of the text over its size after `xz -9e`. A sentence of four words or more recurs if it stands verbatim in a
run of another seed.
"""

from __future__ import annotations

import argparse
import lzma
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from support.measure import FULL_CONFIG, Target, add_release, argument_parser, conclude, print_table
from support.runs import generate_run

from generation.prose import prose_faults
from generation.records import Session
from generation.seeds import rng_for
from generation.store import RunStore
from personamem_builder.official.contexts_jsonl import read_contexts
from personamem_builder.official.faults import Faults

WORDS = 500_000
SHORTEST = 4  # words of a sentence that is looked for in another run
OTHER_SEED = 1
WORD = re.compile(r"[\w'’-]+")
SENTENCE = re.compile(r"(?<=[.!?…])\s+")
LABEL = re.compile(r"^(?:User|Assistant): ")  # before each message of the official release

Conversation = Sequence[tuple[str, str]]  # (role, text)


class Quality(NamedTuple):
    """The figures of a corpus; lengths of messages are in words, from the first decile to the ninth."""

    sessions: int
    words: int
    distinct_words: int
    distinct_3grams: float
    xz_ratio: float
    repeated_user_messages: int
    user_message_deciles: str
    assistant_message_deciles: str
    sentences: int
    faults_of_english: int


def quality(conversations: Iterable[Conversation]) -> Quality:
    """Measure conversations."""
    texts: list[str] = []
    said: Counter[str] = Counter()
    grams: set[tuple[str, ...]] = set()
    vocabulary: set[str] = set()
    lengths: dict[str, list[int]] = {"user": [], "assistant": []}
    words = sessions = 0
    for conversation in conversations:
        sessions += 1
        for role, text in conversation:
            texts.append(text)
            found = WORD.findall(text.lower())
            words += len(found)
            vocabulary.update(found)
            grams.update(zip(found, islice(found, 1, None), islice(found, 2, None), strict=False))
            lengths.setdefault(role, []).append(len(found))
            said.update([text] if role == "user" else [])
    raw = "\n".join(texts).encode()
    return Quality(
        sessions=sessions,
        words=words,
        distinct_words=len(vocabulary),
        distinct_3grams=len(grams) / words,
        xz_ratio=len(raw) / len(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)),
        repeated_user_messages=sum(count - 1 for count in said.values()),
        user_message_deciles=deciles(lengths["user"]),
        assistant_message_deciles=deciles(lengths["assistant"]),
        sentences=sum(len(SENTENCE.split(text)) for text in texts),
        faults_of_english=sum(1 for text in texts for _ in prose_faults(text)),
    )


def deciles(lengths: Sequence[int]) -> str:
    """Return the first to the ninth decile."""
    ordered = sorted(lengths)
    return " ".join(str(ordered[len(ordered) * tenth // 10]) for tenth in range(1, 10))


def generated(sessions: Sequence[Session], words: int) -> list[Conversation]:
    """Draw sessions until they hold so many words."""
    drawn: list[Conversation] = []
    for session in rng_for(0, "text quality").sample(sessions, len(sessions)):
        drawn.append([(message.role, message.content) for message in session.messages])
        words -= sum(len(WORD.findall(text)) for _, text in drawn[-1])
        if words <= 0:
            break
    return drawn


def official(release: Path) -> list[Conversation] | None:
    """Return the distinct sessions of the official 32k split, without persona texts; None if it is not there."""
    path = release / "shared_contexts_32k.jsonl"
    if not path.exists():
        return None
    sessions: dict[tuple[tuple[str, str], ...], None] = {}
    for messages in read_contexts(path, Faults()).values():
        session: list[tuple[str, str]] = []
        for message in [*messages, {"role": "system", "content": ""}]:
            if message["role"] == "system":
                if session:
                    sessions[tuple(session)] = None
                session = []
            else:
                session.append((message["role"], LABEL.sub("", message["content"])))
    return list(sessions)


def sentences(sessions: Iterable[Session], role: str) -> Iterator[str]:
    """Yield the sentences of a speaker that have four words or more."""
    for session in sessions:
        for message in session.messages:
            if message.role == role:
                yield from (text for text in SENTENCE.split(message.content) if len(text.split()) >= SHORTEST)


def recurring(sessions: Sequence[Session], others: Sequence[Session], role: str) -> float:
    """Return the share of a speaker's sentences that stand verbatim in other sessions."""
    known = set(sentences(others, role))
    own = [text in known for text in sentences(sessions, role)]
    return sum(own) / len(own)


def run_of(arguments: argparse.Namespace, folder: str, **changes: object) -> RunStore:
    """Return a run, made if there is none."""
    smaller = {"personas": 3, "fillers": 0} if arguments.quick else {"fillers": 0}
    where = Path(folder) / f"run{len(changes)}" if changes or arguments.run is None else arguments.run
    return generate_run(where, 2, arguments.config, **smaller, **changes)[0]


def main() -> None:
    """Run the script."""
    parser = argument_parser(__doc__)
    add_release(parser)
    parser.add_argument("--config", type=Path, default=FULL_CONFIG)
    parser.add_argument("--run", type=Path, help="a run of that configuration; by default one is made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sessions = list(run_of(arguments, folder).read("sessions", Session))
        others = list(run_of(arguments, folder, seed=OTHER_SEED).read("sessions", Session))
    everything = Counter(m.content for session in sessions for m in session.messages if m.role == "user")
    ours = quality(generated(sessions, WORDS))
    columns = {"offline backend": ours}
    if (found := official(arguments.release)) is not None:
        columns["official 32k"] = quality(found)
    rows = [
        [name.replace("_", " "), *(_shown(getattr(column, name)) for column in columns.values())]
        for name in Quality._fields
    ]
    shares = {role: recurring(sessions, others, role) for role in ("user", "assistant")}
    rows += [
        [f"{role} sentences that recur in another seed", f"{share:.3f}", *["-"] * (len(columns) - 1)]
        for role, share in shares.items()
    ]
    print_table("text", ["", *columns], rows)
    conclude(
        arguments,
        [
            Target("14,000 over distinct words", 14_000 / ours.distinct_words, 1.0, ""),
            Target("0.50 over distinct 3-grams per word", 0.50 / ours.distinct_3grams, 1.0, ""),
            Target("xz ratio", ours.xz_ratio, 5.2, ""),
            Target("user sentences that recur in another seed", shares["user"], 0.4, ""),
            Target("assistant sentences that recur in another seed", shares["assistant"], 0.5, ""),
            Target("user messages that repeat, of those drawn", ours.repeated_user_messages, 0, ""),
            Target("user messages that repeat, of the whole run", sum(n - 1 for n in everything.values()), 0, ""),
        ],
        {**{name: column._asdict() for name, column in columns.items()}, "recurring": shares},
    )


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if value < 1 else f"{value:,.1f}"


if __name__ == "__main__":
    main()
