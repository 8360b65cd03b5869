"""Scoring questions that share a history on one GPU: `hf-prefix` against lm-eval's `hf`, in bfloat16.

A randomly initialised Llama of 1.2 billion parameters (the shape of Llama 3.2 1B, sdpa attention) scores options given
as token ids; nothing is downloaded and nothing is tokenised by the model.
  32k   the official split at full length where the release is there (o200k_base ids modulo the vocabulary, ChatML-like
        template, full options), else made up of the same size; as many contexts as fit into 150 s
  128k  made-up contexts of up to 128,000 tokens, with 45 questions each; 3 contexts, or as many as fit into 110 s
`hf-prefix` runs all of these; stock `hf` runs a few requests spread over them, and its time for all is extrapolated
by tokens. `of matmul` is the rate of the floating-point operations needed for the tokens forwarded (causal attention,
logits where computed) as a share of what a bf16 product of 8,192 x 8,192 matrices reaches on the card just before.
Ends within 8 minutes. Without CUDA, and with --quick, the same code runs at toy size in float32 on the CPU, as a check
that it works and that both sides agree: its figures mean nothing.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from support.measure import Target, can_run_models, conclude, print_table, release_arguments


@dataclass(frozen=True)
class Part:
    """What is run of one length.

    Attributes:
        name: `32k` or `128k`.
        size: Questions, contexts, and tokens of the longest context, as far as they are made up.
        contexts: The most contexts that are run.
        seconds: When to start no further context.
        subset: Questions that stock `hf` runs.
    """

    name: str
    size: tuple[int, int, int]
    contexts: int
    seconds: float
    subset: int


GPU_PARTS = [Part("32k", (589, 37, 29_000), 37, 150, 4), Part("128k", (135, 3, 128_000), 3, 110, 1)]
TOY_PARTS = [Part("32k", (20, 3, 500), 3, 60, 4), Part("128k", (9, 2, 1_500), 2, 60, 2)]

LLAMA_1B = {
    "vocab_size": 128_256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
}
LLAMA_TOY = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    if not can_run_models():
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch

    gpu = torch.cuda.is_available() and not args.quick
    if not gpu:
        why = "--quick" if args.quick else "no CUDA here"
        print(f"{why}: a check at toy size on the CPU, whose figures mean nothing")
    run(args, Bench(gpu), gpu=gpu)


def run(args: argparse.Namespace, bench: Bench, *, gpu: bool) -> None:
    """Run all parts and print."""
    peak = bench.matmul_rate()
    print(f"{bench.device_name}; bf16 matrix product {peak / 1e12:,.1f} TFLOP/s" if gpu else bench.device_name)
    targets: list[Target] = []
    figures: dict[str, Any] = {"device": bench.device_name, "matmul_flops": peak, "parts": {}}
    for part in GPU_PARTS if gpu else TOY_PARTS:
        title, groups = workload(args, part, official=gpu and part.name == "32k")
        found = figures["parts"][part.name] = measure(bench, part, groups)
        show(part, title, found, peak)
        targets.append(Target(f"{part.name}: hf-prefix tokens / lower bound", found["over"], 1.01, "x"))
        if not gpu and found["subset"]:
            targets.append(Target(f"{part.name}: difference from hf", found["subset"]["difference"], 1e-3, ""))
            targets.append(Target(f"{part.name}: changed argmax", found["subset"]["changed"], 0, "questions"))
    conclude(args, targets, figures)


def workload(args: argparse.Namespace, part: Part, *, official: bool) -> tuple[str, Any]:
    """Return what the questions are, and an iterator over those of each context."""
    from support.scoring import Encoder, made_up, random_questions, read_rows
    from support.scoring import official as official_split

    if official:
        rows = read_rows(args.release)
        if len(rows) > 500:
            return f"{args.release.name}, split 32k, contexts with one opening together", official_split(
                rows, Encoder(), "options"
            )
    # Toy histories are short, so the questions have to be, too.
    like = random_questions(12) if part in TOY_PARTS else random_questions(73)
    return "made up", made_up(part.size, [like])


def measure(bench: Bench, part: Part, groups: Any) -> dict[str, Any]:
    """Run `hf-prefix` on all that fits into the time, then stock `hf` on a few requests of it."""
    from support.scoring import Count

    bench.warm_up()
    count, taken, scores = Count(), [], []
    figures: dict[str, Any] = {}
    start = time.perf_counter()
    bench.start()
    for group in islice(groups, part.contexts):
        count.add(group)
        taken += group
        scores += bench.score("hf-prefix", group)
        if time.perf_counter() - start > part.seconds:
            break
    figures["prefix"] = bench.stop()
    figures["over"] = figures["prefix"]["tokens"] / count.bound
    figures |= {"questions": len(taken), "bound": count.bound, "hf_tokens": count.hf}
    figures["longest"] = max(question.prompt.length for question in taken)

    step = max(1, len(taken) // part.subset)
    subset = list(range(step // 2, len(taken), step))[: part.subset]
    figures["subset"] = None
    try:
        bench.start()
        theirs = bench.score("hf", [taken[i] for i in subset])
        found = bench.stop()
    except bench.out_of_memory:
        bench.stop()
        return figures
    ours = [scores[i] for i in subset]
    pairs = [(x, y) for a, b in zip(ours, theirs, strict=True) for x, y in zip(a, b, strict=True)]
    found["difference"] = max(abs(x - y) for x, y in pairs)
    found["changed"] = sum(a.index(max(a)) != b.index(max(b)) for a, b in zip(ours, theirs, strict=True))
    found["questions"] = len(subset)
    found["extrapolated_s"] = found["seconds"] / found["tokens"] * count.hf
    figures["subset"] = found
    return figures


def show(part: Part, title: str, found: dict[str, Any], peak: float) -> None:
    """Print one part's table."""
    ours, stock = found["prefix"], found["subset"]
    rows = [["hf-prefix, all", *cells(ours, peak), f"{ours['seconds']:,.1f}", f"{found['over']:.4f}"]]
    if stock is None:
        over = f"{found['hf_tokens'] / found['bound']:.1f}"
        rows.append([f"hf, {part.subset} question(s)", *["out of memory"] * 5, "?", over])
    else:
        rows.append(
            [
                f"hf, {stock['questions']} question(s)",
                *cells(stock, peak),
                f"{stock['extrapolated_s']:,.1f} (extrapolated)",
                f"{found['hf_tokens'] / found['bound']:.1f}",
            ]
        )
    print_table(
        f"{part.name}: {title}; {found['questions']} questions with their options, longest prompt "
        f"{found['longest']:,} tokens, lower bound {found['bound']:,} tokens",
        ["side", "tokens run", "tok/s", "TFLOP/s", "of matmul", "GiB", "s for all", "tokens for all / bound"],
        rows,
    )
    if stock is not None:
        print(
            f"hf / hf-prefix: {found['hf_tokens'] / ours['tokens']:.1f} in tokens, "
            f"{stock['extrapolated_s'] / ours['seconds']:.1f} in time (hf extrapolated by tokens from "
            f"{stock['questions']} question(s)); largest difference of a log-likelihood {stock['difference']:.2g}, "
            f"changed argmax {stock['changed']}"
        )


def cells(run: dict[str, Any], peak: float) -> list[str]:
    """Return the figures of one side that both rows show."""
    rate = run["flops"] / run["seconds"]
    return [
        f"{run['tokens']:,}",
        f"{run['tokens'] / run['seconds']:,.0f}",
        f"{rate / 1e12:,.3g}",
        f"{100 * rate / peak:.1f} %",
        f"{run['peak_gib']:.1f}",
    ]


class Bench:
    """The model, both sides on it, and what they do.

    Args:
        gpu: The 1B model in bfloat16 on the GPU; else the toy in float32 on the CPU.
    """

    def __init__(self, gpu: bool) -> None:
        import torch
        import transformers
        from lm_eval.models.huggingface import HFLM
        from support.scoring import Meter, train_tokenizer

        from personamem_builder.evaluation.prefix_lm import PrefixLM

        logging.disable(logging.WARNING)
        self._torch = torch
        self.out_of_memory = torch.OutOfMemoryError
        self.gpu = gpu
        self.device_name = torch.cuda.get_device_name() if gpu else "CPU"
        torch.manual_seed(0)
        if not gpu:
            torch.set_num_threads(1)
        self.config = transformers.LlamaConfig(
            **(LLAMA_1B if gpu else LLAMA_TOY), max_position_embeddings=2**18, attn_implementation="sdpa"
        )
        dtype = torch.bfloat16 if gpu else torch.float32
        with torch.device("cuda" if gpu else "cpu"):
            self.model = transformers.AutoModelForCausalLM.from_config(self.config, dtype=dtype).eval()
        tokenizer = train_tokenizer(["nothing is tokenised with it"], 300)
        self._sides = {
            "hf": HFLM(pretrained=self.model, tokenizer=tokenizer, batch_size=1),
            "hf-prefix": PrefixLM(pretrained=self.model, tokenizer=tokenizer, batch_size=1),
        }
        self._meter = Meter()
        self._meter.watch(self.model)
        self._began = 0.0

    def matmul_rate(self) -> float:
        """Return the floating-point operations per second of a large matrix product in the model's precision."""
        torch = self._torch
        size, repeats = (8192, 30) if self.gpu else (512, 5)
        a, b = (torch.randn(size, size, device=self.model.device, dtype=self.model.dtype) for _ in range(2))
        for _ in range(3):
            a @ b
        self._wait()
        start = time.perf_counter()
        for _ in range(repeats):
            a @ b
        self._wait()
        return float(2 * size**3 * repeats / (time.perf_counter() - start))

    def warm_up(self) -> None:
        """Run a few tokens through both sides, and give back the memory of what was before."""
        for side in self._sides.values():
            side._loglikelihood_tokens([(None, [1] * 600, [2] * 40), (None, [1] * 600, [3] * 40)], disable_tqdm=True)
        if self.gpu:
            self._torch.cuda.empty_cache()

    def score(self, side: str, questions: Sequence[Any]) -> list[list[float]]:
        """Score all options of some questions."""
        vocabulary = self.config.vocab_size
        requests = []
        for question in questions:
            context: Any = question.prompt.slice(0, question.prompt.length) % vocabulary
            if side == "hf":  # it joins lists; made into arrays again, they would cost `hf-prefix` seconds
                context = context.tolist()
            requests += [(None, context, (option % vocabulary).tolist()) for option in question.options]
        answers = iter(self._sides[side]._loglikelihood_tokens(requests, disable_tqdm=True))
        return [[next(answers)[0] for _ in question.options] for question in questions]

    def start(self) -> None:
        """Count from zero."""
        from support.scoring import Meter

        self._meter.__dict__.update(Meter().__dict__)
        if self.gpu:
            self._torch.cuda.empty_cache()
            self._torch.cuda.reset_peak_memory_stats()
        self._wait()
        self._began = time.perf_counter()

    def stop(self) -> dict[str, Any]:
        """Return what was done since `start`."""
        self._wait()
        seconds = time.perf_counter() - self._began
        meter, config = self._meter, self.config
        linear = sum(p.numel() for layer in self.model.model.layers for p in layer.parameters() if p.dim() == 2)
        flops = 2 * linear * meter.tokens + 2 * config.hidden_size * config.vocab_size * meter.logits
        flops += 4 * config.hidden_size * config.num_hidden_layers * meter.attended
        memory = self._torch.cuda.max_memory_allocated() / 2**30 if self.gpu else 0.0
        return {
            "seconds": seconds,
            "tokens": meter.tokens,
            "calls": meter.calls,
            "flops": flops,
            "peak_gib": memory,
        }

    def _wait(self) -> None:
        if self.gpu:
            self._torch.cuda.synchronize()


if __name__ == "__main__":
    main()
