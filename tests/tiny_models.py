"""What tests with small random models share: chat templates and a tokenizer learnt on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)


def excerpt_text(excerpt: Path) -> str:
    """Return some text of the official excerpt, to learn a vocabulary from."""
    return (excerpt / "shared_contexts_32k.jsonl").read_text("utf-8")[:60_000].replace("\\n", "\n")


def learn_tokenizer(text: str, kind: str = "byte level") -> Any:
    """Learn a byte-pair tokenizer with ChatML's special tokens and template.

    Args:
        text: What to learn from.
        kind: `byte level`, as in most models, or `word starts`, with a mark before each word, as in Llama 2.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    pairs = Tokenizer(models.BPE())
    if kind == "byte level":
        pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pairs.decoder = decoders.ByteLevel()
    else:
        pairs.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        pairs.decoder = decoders.Metaspace()
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=special, initial_alphabet=alphabet)
    pairs.train_from_iterator(text.split("\n"), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=pairs, eos_token="<|endoftext|>", additional_special_tokens=special[:2]
    )
    fast.chat_template = CHATML
    return fast
