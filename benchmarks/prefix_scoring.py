"""Scoring questions that share a history: `hf-prefix` against lm-eval's `hf`, both in float32 on the CPU.

Run: a randomly initialised Llama (2 layers of width 384, 6 heads on 3 key-value heads, a tokenizer of 2,048 tokens
trained here) scores the full options of official 32k questions through both. What is real: the contexts, end indices,
questions and options, and the messages made of them. What is cut, so that stock `hf` finishes: some contexts are
taken, with all their questions (with --quick the first four), and of every text a part is kept: of history messages
the first characters, of questions and options, whose openings are often the same, the last. The table says how much.
Each side is a process of its own with one thread, since two of them wait for each other where other processes run;
they take turns, and `hf-prefix` is first and last. Its time goes from the messages to the scores, without loading;
`CPU s` is the processor time of it, `in model` the part spent in the model's forward. `hf-prefix` runs with
prefill_chunk=8192, which is nearer to the whole prompts that `hf` forwards than the default of 2,048.

Counts, not run: the tokens of the whole 32k split, tokenised with o200k_base in a ChatML-like template (start and end
of a message are one token each), and of made-up 128k and 1M splits of the official sizes. `options` are full options,
`labels` the letters setting as the tasks have it, whose `(a)` is two o200k_base tokens, so that stock `hf` runs each;
`letters` is the same with labels of one token, which stock `hf` scores in one pass.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from support.measure import Child, Target, can_run_models, conclude, in_child, print_table, release_arguments

FULL_RUN = {"contexts": 2, "questions": None, "part": 4, "rounds": 1}
QUICK_RUN = {"contexts": 1, "questions": 4, "part": 24, "rounds": 1}
"""Contexts taken; the first so many of their questions; of every text one part in so many is kept; runs of `hf`."""

VOCABULARY = 2048
WINDOW = 65_536
PREFILL_CHUNK = 8192
SIDES = {"hf": "lm_eval.models.huggingface:HFLM", "hf-prefix": "personamem_builder.evaluation.prefix_lm:PrefixLM"}


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    targets: list[Target] = []
    figures: dict[str, Any] = {"counts": show_counts(args, targets)}
    if can_run_models():
        figures["run"] = show_run(args, targets)
    conclude(args, targets, figures)


# ---- counts


def show_counts(args: argparse.Namespace, targets: list[Target]) -> dict[str, Any]:
    """Count, print, and add the targets."""
    counts, found = count_splits(args.release, quick=args.quick)
    print_table(
        f"Counted, not run: million tokens; {args.release.name}, split 32k, {found['questions']:,} questions of "
        f"{found['contexts']} contexts with {found['openings']} openings, longest prompt {found['longest']:,} tokens; "
        "128k and 1M made up",
        ["split", "hf", "lower bound", "hf-prefix", "hf / hf-prefix", "hf-prefix / bound"],
        [
            [
                name,
                *(f"{c[side] / 1e6:,.3f}" for side in ("hf", "bound", "prefix")),
                f"{c['fewer']:.1f}",
                f"{c['over']:.4f}",
            ]
            for name, c in counts.items()
        ],
    )
    targets.extend(Target(f"{name}: hf-prefix / lower bound", c["over"], 1.03, "x") for name, c in counts.items())
    # Of few questions, as in the excerpt, there is little to share.
    whole = found["questions"] > 500
    for name, fewer in (("32k options", 49), ("32k letters", 12)):
        what = f"{name}: hf-prefix / hf (1 / {fewer})" + ("" if whole else " (target is for the whole split)")
        targets.append(Target(what, 100 / counts[name]["fewer"], round(100 / fewer, 2), "%"))
    return {"splits": counts, "release": found}


def count_splits(release: Path, *, quick: bool) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return the counts of each split and setting, and what the release holds."""
    from support.scoring import OFFICIAL_SIZES, Count, Encoder, by_opening, made_up, official, read_rows

    rows, encoder = read_rows(release), Encoder()
    settings = {setting: list(official(rows, encoder, setting)) for setting in ("options", "labels", "letters")}
    splits = {f"32k {setting}": iter(groups) for setting, groups in settings.items()} | {
        f"{split} {setting}": made_up(OFFICIAL_SIZES[split], groups)
        for split in ("128k", "1M")
        for setting, groups in settings.items()
        if not quick or setting == "options"
    }
    counts: dict[str, dict[str, float]] = {}
    for name, groups in splits.items():
        count = Count()
        for group in groups:
            count.add(group)
        counts[name] = {
            "hf": count.hf,
            "bound": count.bound,
            "prefix": count.prefix,
            "fewer": count.hf / count.prefix,
            "over": count.prefix / count.bound,
        }
    found = {
        "questions": len(rows),
        "contexts": len({row.context for row in rows}),
        "openings": len(by_opening(rows)),
        "longest": max(question.prompt.length for group in settings["options"] for question in group),
    }
    return counts, found


# ---- run


def show_run(args: argparse.Namespace, targets: list[Target]) -> dict[str, Any]:
    """Run both sides, print, and add the targets."""
    size = QUICK_RUN if args.quick else FULL_RUN
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = in_child(prepare, args.release, folder, size).result
        children: dict[str, list[Child]] = {side: [] for side in SIDES}
        for side in ["hf-prefix", *(["hf", "hf-prefix"] * size["rounds"])]:
            print(f"running {side}", file=sys.stderr)
            children[side].append(in_child(score, folder, side))
    sides = {side: side_figures(rounds) for side, rounds in children.items()}
    label = "QUICK: too small for the targets of time; " if args.quick else ""
    print_table(
        f"Run ({label}hf {size['rounds']} time(s), hf-prefix {size['rounds'] + 1}): "
        f"{work['contexts']} of {work['all_contexts']} contexts, "
        f"{work['questions']} questions, {work['requests']} options; 1/{size['part']} of every text: mean prompt "
        f"{work['prompt']:,.0f} tokens, mean option {work['option']:.0f}",
        ["side", "tokens", "/ bound", "calls", "s", "CPU s", "in model s", "tok/s", "private MB", "RSS MB"],
        [[side, *side_cells(figures, work["bound"])] for side, figures in sides.items()],
    )
    scores = [children[side][0].result["scores"] for side in ("hf", "hf-prefix")]
    share, changed = differences(*scores)
    pairs = [pair for options in zip(*scores, strict=True) for pair in zip(*options, strict=True)]
    largest = max(abs(a - b) for a, b in pairs)
    token_ratio = sides["hf"]["tokens"] / sides["hf-prefix"]["tokens"]
    wall_ratio, cpu_ratio = (
        statistics.median(sides["hf"][key]) / statistics.median(sides["hf-prefix"][key])
        for key in ("seconds", "cpu_seconds")
    )
    print(
        f"lower bound (distinct prefixes) {work['bound']:,}; hf / hf-prefix: {token_ratio:.1f} in tokens, "
        f"{wall_ratio:.1f} in time, {cpu_ratio:.1f} in CPU time; largest difference of a log-likelihood "
        f"{largest:.1e}, changed argmax {changed}"
    )
    off = abs(wall_ratio / token_ratio - 1) * 100
    targets += [
        Target("run: hf-prefix tokens / lower bound", sides["hf-prefix"]["tokens"] / work["bound"], 1.03, "x"),
        Target(f"run: time ratio off the token ratio{' (quick size)' * args.quick}", off, 25, "%"),
        Target("run: difference / (1e-3 + 1e-4 relative)", share, 1, "x"),
        Target("run: changed argmax", changed, 0, "questions"),
    ]
    return {"size": size, "work": work, "sides": sides, "largest_difference": largest, "changed_argmax": changed}


def side_figures(rounds: list[Child]) -> dict[str, Any]:
    """Return what the rounds of a side took; tokens and calls are the same in all."""
    results = [child.result for child in rounds]
    return {
        **{key: [result[key] for result in results] for key in ("seconds", "cpu_seconds", "model_seconds")},
        **{key: results[0][key] for key in ("tokens", "calls")},
        "private_mb": [child.private_mb for child in rounds],
        "rss_mb": [child.rss_mb for child in rounds],
    }


def side_cells(figures: dict[str, Any], bound: int) -> list[str]:
    """Return the cells of a line of a side."""
    medians = {key: statistics.median(own) for key, own in figures.items() if isinstance(own, list)}
    return [
        f"{figures['tokens']:,}",
        f"{figures['tokens'] / bound:.3f}",
        f"{figures['calls']:,}",
        *(f"{medians[key]:.2f}" for key in ("seconds", "cpu_seconds", "model_seconds")),
        f"{figures['tokens'] / medians['seconds']:,.0f}",
        *(f"{medians[key]:,.0f}" for key in ("private_mb", "rss_mb")),
    ]


def differences(ours: list[list[float]], theirs: list[list[float]]) -> tuple[float, int]:
    """Return the largest difference as a share of what is allowed, and how many questions choose another option."""
    share, changed = 0.0, 0
    for a, b in zip(ours, theirs, strict=True):
        share = max(share, *(abs(x - y) / (1e-3 + 1e-4 * abs(x)) for x, y in zip(a, b, strict=True)))
        changed += a.index(max(a)) != b.index(max(b))
    return share, changed


def prepare(release: Path, folder: Path, size: dict[str, Any]) -> dict[str, float]:
    """Write the shortened questions and a tokenizer; return what they are."""
    from support.scoring import by_opening, read_rows, train_tokenizer

    rows = read_rows(release)
    all_contexts = list(dict.fromkeys(row.context for row in rows))
    # Spread over the split; they have openings of their own in it.
    openings = [group[0].context for group in by_opening(rows)]
    taken = openings[:: math.ceil(len(openings) / size["contexts"])]
    questions: list[dict[str, Any]] = []
    for context in taken:
        for row in [row for row in rows if row.context == context][: size["questions"]]:
            short = shorten(row, size["part"])
            questions.append({"group": row.context, "messages": short.messages(), "options": short.options})
    texts = list(dict.fromkeys(m["content"] for question in questions for m in question["messages"]))
    tokenizer = train_tokenizer(texts, VOCABULARY)
    tokenizer.save_pretrained(folder)
    (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    prompt_lengths, option_lengths, paths = [], [], []
    for question in questions:
        prompt = tokenizer.apply_chat_template(question["messages"], add_generation_prompt=True, tokenize=False)
        prompt_lengths.append(len(tokenizer.encode(prompt, add_special_tokens=False)))
        for option in question["options"]:
            path = tokenizer.encode(prompt + option, add_special_tokens=False)
            option_lengths.append(len(path) - prompt_lengths[-1])
            paths.append(path[:-1])
    return {
        "contexts": len(taken),
        "all_contexts": len(all_contexts),
        "questions": len(questions),
        "requests": len(paths),
        "bound": count_distinct_prefixes(paths),
        "prompt": statistics.mean(prompt_lengths),
        "option": statistics.mean(option_lengths),
    }


def shorten(row: Any, part: int) -> Any:
    """Return a row with the first part of every history message, and the last part of its question and options."""
    from dataclasses import replace

    def kept(text: str) -> int:
        return math.ceil(len(text) / part)

    return replace(
        row,
        history=[{**message, "content": message["content"][: kept(message["content"])]} for message in row.history],
        question=row.question[-kept(row.question) :],
        options=[option[-kept(option) :] for option in row.options],
    )


def count_distinct_prefixes(paths: list[list[int]]) -> int:
    """Count them without the code that is measured: in sorted order, each path adds what the last does not start."""
    total = 0
    last: list[int] = []
    for path in sorted(paths):
        total += len(path) - shared_start(last, path)
        last = path
    return total


def shared_start(a: list[int], b: list[int]) -> int:
    """Return how many elements two lists have in common at their start."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def score(folder: Path, side: str) -> dict[str, Any]:
    """Score all options with one of the sides."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import importlib

    import torch
    import transformers
    from lm_eval.api.instance import Instance
    from support.scoring import Meter

    from personamem_builder.evaluation import chat

    logging.disable(logging.WARNING)
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1152,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        max_position_embeddings=WINDOW,
    )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    meter = Meter()
    meter.watch(model)
    module, name = SIDES[side].split(":")
    lm = getattr(importlib.import_module(module), name)(
        pretrained=model,
        tokenizer=transformers.AutoTokenizer.from_pretrained(folder),
        batch_size=1,
        **({"prefill_chunk": PREFILL_CHUNK} if side == "hf-prefix" else {}),
    )

    start, cpu_start = time.perf_counter(), time.process_time()
    instances = []
    for number, question in enumerate(questions):
        if side == "hf":
            context = chat.render(lm.apply_chat_template, question["messages"])
        else:
            context = chat.PromptRef(str(number), question["group"], partial(list, question["messages"]))
        instances += [
            Instance("loglikelihood", {}, (context, option), i, ("benchmark", number, 1))
            for i, option in enumerate(question["options"])
        ]
    answers = iter(lm.loglikelihood(instances, disable_tqdm=True))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "scores": [[next(answers)[0] for _ in question["options"]] for question in questions],
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "tokens": meter.tokens,
        "calls": meter.calls,
        "model_seconds": meter.seconds,
    }


if __name__ == "__main__":
    sys.exit(main())
