"""Prompts tokenised piece by piece: the tokens are those of the whole prompts, and lm-eval's for continuations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personamem_builder.evaluation.chat import PromptRef
from personamem_builder.evaluation.prompt_tokens import PromptTokenizer
from personamem_builder.schema import Message

Template = Callable[[Sequence[Message]], str]

START, END, BOS, EOS = "<|start|>", "<|end|>", "<|bos|>", "<|eos|>"


class ToyTokenizer:
    """Takes the longest of its words at each place, after cutting the text at special tokens, as fast tokenizers do.

    Args:
        words: Words beside single characters; some hold line breaks and blanks, so that boundaries can merge.
        special: Special tokens.
        prefix: Tokens put in front where special tokens are to be added.
        suffix: Tokens put at the end likewise.
        space_first: Put a blank in front of the first ordinary text, as SentencePiece does.
        swallow_before: Special tokens that take the white space before them (`AddedToken(lstrip=True)`).
    """

    def __init__(
        self,
        words: Sequence[str] = ("\n\n", "\nI", " a", " an", "and", "é!", "user", "assistant\n"),
        special: Sequence[str] = (START, END, BOS, EOS),
        prefix: Sequence[str] = (),
        suffix: Sequence[str] = (),
        space_first: bool = False,
        swallow_before: Sequence[str] = (),
    ) -> None:
        self.all_special_tokens = list(special)
        self.prefix, self.suffix, self.space_first = prefix, suffix, space_first
        self.swallow_before = swallow_before
        self.added_tokens_decoder = {
            index: SimpleNamespace(content=token, lstrip=token in swallow_before) for index, token in enumerate(special)
        }
        self.ids = {token: index for index, token in enumerate([*special, *words])}
        self.words = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) + "|.", re.DOTALL)
        self.cut = re.compile(f"({'|'.join(map(re.escape, special))})") if special else None
        self.calls: Counter[str] = Counter()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        self.calls[text] += 1
        sections = self.cut.split(text) if self.cut else [text]
        tokens: list[str] = []
        spaced = not self.space_first
        for index, section in enumerate(sections):
            if self.cut and index % 2:
                tokens.append(section)
                continue
            if index + 1 < len(sections) and sections[index + 1] in self.swallow_before:
                section = section.rstrip()
            if section and not spaced:
                section, spaced = " " + section, True
            tokens += self.words.findall(section)
        if add_special_tokens:
            tokens = [*self.prefix, *tokens, *self.suffix]
        return [self.ids.get(token, 1000 + ord(token[0])) for token in tokens]


def chatml(messages: Sequence[Message]) -> str:
    return "".join(f"{START}{m['role']}\n{m['content']}{END}\n" for m in messages) + f"{START}assistant\n"


def spaced(messages: Sequence[Message]) -> str:
    """A line break, not a special token, comes after a message."""
    return "".join(f"{START}{m['role']}\n{m['content']}\n{END}" for m in messages) + f"{START}assistant\n"


def plain(messages: Sequence[Message]) -> str:
    return "".join(f"{m['role']}: {m['content']}\n\n" for m in messages) + "assistant:"


def bos_in_template(messages: Sequence[Message]) -> str:
    return BOS + chatml(messages)


def not_prefix_stable(messages: Sequence[Message]) -> str:
    """The system message goes into the last turn, earlier assistant turns are cut, and the length stands in front."""
    system, *turns = messages
    text = "".join(f"{START}{m['role']}\n{m['content'][:3]}{END}" for m in turns[:-1])
    return f"{len(turns)} turns{text}{START}user\n{system['content']}\n\n{turns[-1]['content']}{END}{START}assistant\n"


TEMPLATES = [chatml, spaced, plain, bos_in_template, not_prefix_stable]

TOKENIZERS: dict[str, Callable[[], ToyTokenizer]] = {
    "special tokens": ToyTokenizer,
    "no special tokens": lambda: ToyTokenizer(special=()),
    "BOS added": lambda: ToyTokenizer(prefix=[BOS]),
    "EOS added": lambda: ToyTokenizer(suffix=[EOS]),
    "BOS and EOS added": lambda: ToyTokenizer(prefix=[BOS], suffix=[EOS]),
    "blank in front of the first text": lambda: ToyTokenizer(space_first=True),
    "a special token that takes white space": lambda: ToyTokenizer(swallow_before=[START, END]),
}

TEXTS = st.lists(st.sampled_from([*"Ia n\né!🙂", "user", END, START, "\n\n"]), max_size=6).map("".join)
HISTORY = [
    {"role": "system", "content": "I like Ian and an é!"},
    *({"role": role, "content": f"and {i} I\n\n"} for i in range(12) for role in ("user", "assistant")),
]


def refs_of(group: str, prompts: Sequence[Sequence[Message]]) -> list[PromptRef]:
    return [
        PromptRef(f"{group}-{i}", group, lambda messages=prompt: list(messages)) for i, prompt in enumerate(prompts)
    ]


def questions(history: Sequence[Message], ends: Sequence[int], texts: Sequence[str]) -> list[list[Message]]:
    return [[*history[:end], {"role": "user", "content": text}] for end in ends for text in texts]


def check(tokenizer: Any, template: Template, refs: Sequence[PromptRef], continuations: Sequence[str]) -> None:
    prompts = PromptTokenizer(tokenizer, tokenizer.encode, lambda ref: template(ref.messages()))
    for ref in refs:
        text = template(ref.messages())
        whole = tokenizer.encode(text)
        path = prompts.encode(ref)
        assert path.slice(0, path.length).tolist() == whole
        for continuation in continuations:
            path, added = prompts.encode_pair(ref, continuation)
            assert path.slice(0, path.length).tolist() == whole
            # lm-eval's rule. What it appends of the continuation is what the model scores, even where tokens merge.
            assert added.tolist() == tokenizer.encode(text + continuation)[len(whole) :]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_tokens_are_those_of_the_whole_prompts(kind: str, template: Template) -> None:
    refs = refs_of("one", questions(HISTORY, (1, 5, 13, 25, 3), ["Ian?", "user and"]))
    check(TOKENIZERS[kind](), template, refs, ["I am", " an end", "\nI", "", "é!", f"and{END}\n", "n" * 5])


@given(
    st.sampled_from(sorted(TOKENIZERS)),
    st.sampled_from(TEMPLATES),
    st.lists(TEXTS, min_size=1, max_size=6),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(TEXTS, max_size=2),
)
@example("no special tokens", not_prefix_stable, ["I", "\nI"], [1], [])  # three line breaks, and the last one merges
def test_tokens_are_those_of_the_whole_prompts_for_any_text(
    kind: str, template: Template, texts: list[str], ends: list[int], continuations: list[str]
) -> None:
    history = [{"role": "system", "content": texts[0]}, *({"role": "user", "content": text} for text in texts[1:])]
    check(TOKENIZERS[kind](), template, refs_of("one", questions(history, ends, texts[:2])), continuations)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_two_histories_in_turn(kind: str) -> None:
    other = [{"role": "system", "content": "and I"}, *HISTORY[:4:-1]]
    first = refs_of("one", questions(HISTORY, (5, 9), ["Ian?"]))
    second = refs_of("two", questions(other, (5, 9), ["Ian?"]))
    mixed = [ref for pair in zip(first, second, strict=True) for ref in pair]
    check(TOKENIZERS[kind](), chatml, mixed, ["an end"])


def test_each_piece_is_tokenised_once() -> None:
    tokenizer = ToyTokenizer()
    refs = refs_of("one", questions(HISTORY, (25, 13, 9), ["Ian?", "and?"]))
    prompts = PromptTokenizer(tokenizer, tokenizer.encode, lambda ref: chatml(ref.messages()))
    for ref in refs:
        for option in ("I am", "an end"):
            prompts.encode_pair(ref, option)
    wholes = {chatml(ref.messages()) for ref in refs}
    tail = f"{START}assistant\n"
    pieces = {text: count for text, count in tokenizer.calls.items() if text not in wholes and tail not in text}
    assert set(pieces.values()) == {1}
    # A whole prompt only to check the pieces: the first one, which is the longest.
    assert sum(tokenizer.calls[whole] for whole in wholes) == 1
    # A message of the history is one piece, its end another.
    assert len(pieces) == len({m["content"] for m in HISTORY}) + 2 + 1


def test_a_tokenizer_whose_pieces_do_not_concatenate_gets_whole_prompts() -> None:
    tokenizer = ToyTokenizer(suffix=[EOS])
    refs = refs_of("one", questions(HISTORY, (9, 13), ["Ian?"]))
    prompts = PromptTokenizer(tokenizer, tokenizer.encode, lambda ref: chatml(ref.messages()))
    prompts.encode(refs[0])
    before = set(tokenizer.calls)
    prompts.encode(refs[1])
    assert set(tokenizer.calls) - before == {chatml(refs[1].messages())}


def test_a_tokenizer_whose_pieces_concatenate_in_the_first_prompt_only() -> None:
    """The second prompt is shorter, and has white space that its special token takes."""
    refs = refs_of("one", questions(HISTORY[:1], (1,), ["Ian? and I", "Ian? \n"]))
    check(ToyTokenizer(swallow_before=[END]), chatml, refs, ["I am"])


def test_a_prompt_is_rendered_once_for_all_its_options() -> None:
    rendered: list[str] = []

    def render(ref: PromptRef) -> str:
        rendered.append(str(ref))
        return chatml(ref.messages())

    tokenizer = ToyTokenizer()
    prompts = PromptTokenizer(tokenizer, tokenizer.encode, render)
    refs = refs_of("one", questions(HISTORY, (9, 13), ["Ian?"]))
    for ref in refs:
        for option in "abcd":
            prompts.encode_pair(ref, option)
    assert rendered == ["one-0", "one-1"]


def test_paths_of_one_history_share_their_parts() -> None:
    tokenizer = ToyTokenizer()
    prompts = PromptTokenizer(tokenizer, tokenizer.encode, lambda ref: chatml(ref.messages()))
    short, long = map(prompts.encode, refs_of("one", questions(HISTORY, (9, 25), ["Ian?"])))
    same = sum(a is b for a, b in zip(short.parts, long.parts, strict=False))
    assert same >= 2 * 9


# ---- with a tokenizer of Hugging Face


@pytest.fixture(scope="module", params=["plain", "BOS added", "Metaspace"])
def fast(request: pytest.FixtureRequest, excerpt: Path) -> Any:
    """A byte-pair tokenizer learnt from the excerpt."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    if request.param == "Metaspace":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=[BOS, EOS, START, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    text = (excerpt / "shared_contexts_32k.jsonl").read_text("utf-8")
    tokenizer.train_from_iterator(text[:40_000].split("\\n"), trainer)
    if request.param == "BOS added":
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, additional_special_tokens=[START, END]
    )


@pytest.mark.parametrize("template", TEMPLATES)
def test_tokens_are_those_of_the_whole_prompts_for_a_real_tokenizer(fast: Any, template: Template) -> None:
    prompts = questions(HISTORY, (1, 5, 13, 25, 3), ["Where is Ian? 🙂", "user and"])
    check(fast, template, refs_of("one", prompts), ["I am", " an end", "\nI", "🙂 é!", "́", f"and{END}\n"])
