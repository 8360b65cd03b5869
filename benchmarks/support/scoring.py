"""What the benchmarks of `hf-prefix` share: the requests of a split as tokens, their counts, and a model's meter."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from personamem_builder.evaluation import chat
from personamem_builder.evaluation.passes import Limits, Pack, plan_passes
from personamem_builder.evaluation.token_paths import TokenPath, Tokens, common_prefix, sorted_order
from personamem_builder.evaluation.token_tree import Request, grow_tree

VOCABULARY = 200_100
"""Token ids that a workload uses: those of `o200k_base`, then two for the start and the end of a message."""
_START, _END = VOCABULARY - 2, VOCABULARY - 1

PACK = 768
"""Most tokens of a packed pass by default, on a CPU."""

OFFICIAL_SIZES = {"32k": (589, 37, 29_000), "128k": (2727, 60, 128_000), "1M": (2674, 31, 1_000_000)}
"""Questions, contexts and the tokens of the longest context of each official split."""


@dataclass(frozen=True)
class Row:
    """One question of the official 32k split; `letters` is its last user turn in the letters setting."""

    context: str
    history: list[chat.Message]
    session_starts: list[int]
    question: str
    letters: str
    options: list[str]
    labels: list[str]

    def messages(self, *, letters: bool = False) -> list[chat.Message]:
        """Return the messages that the task makes of it."""
        question = self.letters if letters else self.question
        return chat.build_messages(self.history, self.session_starts, question, roles="normalised")


@dataclass(frozen=True)
class Question:
    """One question as tokens."""

    prompt: TokenPath
    options: list[Tokens]

    def requests(self) -> list[Request]:
        """Return what is run for it: the last token of an option never is, the last of the prompt always."""
        paths = [self.prompt.then(option).without_last() for option in self.options]
        return [Request(path, self.prompt.length - 1) for path in paths]

    def alone(self) -> int:
        """Return what stock `hf` forwards: it shares a pass between options that differ in their last token only."""
        passes = {option[:-1].tobytes(): self.prompt.length + len(option) - 1 for option in self.options}
        return sum(passes.values())


@dataclass
class Count:
    """Tokens that a split takes: stock `hf`, the distinct prefixes, and `hf-prefix`.

    Attributes:
        questions: Number of questions.
        passes: Forward passes of `hf-prefix` but those that only take the cache along a history.
    """

    hf: int = 0
    bound: int = 0
    prefix: int = 0
    questions: int = 0
    passes: int = 0

    def add(self, group: Sequence[Question]) -> None:
        """Add questions that share nothing with those added before."""
        requests = [request for question in group for request in question.requests()]
        paths = [request.path for request in requests]
        root = grow_tree(requests)
        for step in plan_passes(root.path, 0, root.children, Limits(PACK)):
            packed = isinstance(step, Pack)
            self.prefix += step.size if packed else step.end - step.start
            self.passes += packed or bool(step.asks)
        self.questions += len(group)
        self.hf += sum(question.alone() for question in group)
        self.bound += distinct_prefixes(paths)


def distinct_prefixes(paths: Sequence[TokenPath]) -> int:
    """Count them without the tree that is measured: in sorted order, each path adds what the last does not start."""
    ordered = [paths[index] for index in sorted_order(paths)]
    return sum(path.length for path in paths) - sum(common_prefix(a, b) for a, b in pairwise(ordered))


def read_rows(release: Path) -> list[Row]:
    """Read the 32k split of a release; its questions come sorted by context."""
    import jinja2
    import yaml

    from generation.resources import data_dir
    from personamem_builder.build.from_official import import_release
    from personamem_builder.dataset.check import read_questions
    from personamem_builder.dataset.contexts import ContextStore
    from personamem_builder.schema import option_labels, option_texts

    class Loader(yaml.SafeLoader):
        """Takes lm-eval's `!function` for its text."""

    Loader.add_constructor("!function", lambda loader, node: str(node.value))
    text = (data_dir("lm_eval_tasks") / "_letters_yaml").read_text(encoding="utf-8")
    letters = jinja2.Template(yaml.load(text, Loader)["doc_to_text"], keep_trailing_newline=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "personamem"
        import_release(release, folder)
        store = ContextStore(folder)
        return [
            Row(
                context=row["shared_context_id"],
                history=store.messages(row["shared_context_id"], row["end_index_in_shared_context"]),
                session_starts=store.session_starts(row["shared_context_id"]),
                question=row["user_question_or_message"],
                letters=letters.render(row),
                options=option_texts(row),
                labels=option_labels(row),
            )
            for row in read_questions(folder, "32k").to_pylist()
        ]


def by_opening(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows whose histories start alike: several contexts of a persona may share their first sessions.

    `hf-prefix` makes the same groups, and starts each with an empty cache.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr(row.messages()[:2]), []).append(row)
    return list(groups.values())


class Encoder:
    """Tokenises messages with `o200k_base` in a ChatML-like template, each distinct message once."""

    def __init__(self) -> None:
        from generation.tokenizer import load_encoding

        self._encode = load_encoding()[0].encode_ordinary
        self._line_end = self._encode("\n")
        self._messages: dict[tuple[str, str], Tokens] = {}

    def question(self, row: Row, *, letters: bool, continuations: Sequence[str]) -> Question:
        """Return a row as tokens."""
        parts = [self._message(message["role"], message["content"]) for message in row.messages(letters=letters)]
        opening = np.array([_START, *self._encode("assistant\n")], np.int32)
        return Question(TokenPath.of([*parts, opening]), [self.text(text) for text in continuations])

    def text(self, text: str) -> Tokens:
        """Return the tokens of a text."""
        return np.array(self._encode(text), np.int32)

    def _message(self, role: str, content: str) -> Tokens:
        key = (role, content)
        if key not in self._messages:
            ids = [_START, *self._encode(f"{role}\n{content}"), _END, *self._line_end]
            self._messages[key] = np.array(ids, np.int32)
        return self._messages[key]


def official(rows: Sequence[Row], encoder: Encoder, setting: str) -> Iterator[list[Question]]:
    """Yield the questions of the official 32k split, those whose histories start alike together.

    Args:
        rows: All its rows.
        encoder: Tokenises them.
        setting: `options`, `labels` (the letters setting: `(a)`) or `letters` (the same, but each label is one token).
    """
    for group in by_opening(rows):
        yield [
            encoder.question(
                row,
                letters=setting != "options",
                continuations={
                    "options": row.options,
                    "labels": row.labels,
                    "letters": [label.strip("()") for label in row.labels],
                }[setting],
            )
            for row in group
        ]


def made_up(size: tuple[int, int, int], like: Sequence[list[Question]]) -> Iterator[list[Question]]:
    """Yield the questions of each context of a made-up split, always the same for the same arguments.

    Contexts are random tokens, as long as the longest or up to a tenth shorter; each question is asked at a random
    place of one of them. Its own tokens, from where the last history message ends, and its options are those of the
    official 32k questions in turn.

    Args:
        size: As in `OFFICIAL_SIZES`.
        like: Questions of the official 32k split.
    """
    questions, contexts, longest = size
    rng = random.Random(7)
    asked = [question for group in like for question in group]
    places: list[list[tuple[float, int]]] = [[] for _ in range(contexts)]
    for number in range(questions):
        places[rng.randrange(contexts)].append((rng.random(), number % len(asked)))
    for number, wanted in enumerate(places):
        length = longest - rng.randrange(longest // 10)
        tokens = np.random.default_rng(number).integers(0, VOCABULARY - 2, length, np.int32)
        yield list(_asked_at(tokens, sorted(wanted), asked))


def random_questions(length: int) -> list[Question]:
    """Return questions of random tokens, always the same: question and options have about this many tokens each."""
    random_ids = np.random.default_rng(7)

    def some(most: int) -> Tokens:
        return random_ids.integers(0, VOCABULARY - 2, random_ids.integers(most // 2, most + most // 2 + 1), np.int32)

    return [Question(TokenPath.of([some(length), some(4)]), [some(length) for _ in range(4)]) for _ in range(100)]


def _asked_at(tokens: Tokens, places: list[tuple[float, int]], asked: Sequence[Question]) -> Iterator[Question]:
    parts: list[Tokens] = []
    last = 0
    for place, number in places:
        end = max(1, int(place * len(tokens)))
        if end > last:
            parts.append(tokens[last:end])
            last = end
        *_, question, opening = asked[number].prompt.parts
        yield Question(TokenPath.of([*parts, question, opening]), asked[number].options)


@dataclass
class Meter:
    """Counts what a model is asked to do, from its forward calls.

    Attributes:
        tokens: Tokens forwarded.
        attended: Pairs of a token and one that it attends to.
        logits: Positions whose logits were computed.
        seconds: Time spent in the calls; on a GPU, which goes on by itself, it says little.
    """

    tokens: int = 0
    attended: int = 0
    logits: int = 0
    calls: int = 0
    seconds: float = 0.0
    _began: float = field(default=0.0, repr=False)

    def watch(self, model: Any) -> None:
        """Count from now on."""
        model.register_forward_pre_hook(self._before, with_kwargs=True)
        model.register_forward_hook(self._after)

    def _before(self, _model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        cache = kwargs.get("past_key_values", kwargs.get("cache"))
        past = 0 if cache is None else cache.get_seq_length()
        rows, length = ids.shape
        self.calls += 1
        self.tokens += rows * length
        self.attended += rows * (length * past + length * (length + 1) // 2)
        self._began = time.perf_counter()

    def _after(self, _model: Any, _args: tuple[Any, ...], output: Any) -> None:
        self.seconds += time.perf_counter() - self._began
        self.logits += output.logits.shape[0] * output.logits.shape[1]


CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Train a byte-level BPE tokenizer with a ChatML template; nothing is downloaded."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    marks = ["<|im_start|>", "<|im_end|>"]
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<|endoftext|>", *marks],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|endoftext|>", additional_special_tokens=marks
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
