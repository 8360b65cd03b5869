"""Scoring questions that share a history: `hf-prefix` against lm-eval's `hf`, both in float32 on the CPU.

Run: a randomly initialised Llama (2 layers of width 384, 6 heads on 3 key-value heads, a tokenizer of 2,048 tokens
trained here) scores the full options of official 32k questions. What is real: the contexts, end indices, questions and
options, and the messages made of them. What is cut, so that stock `hf` finishes: some contexts are taken, with all
their questions (with --quick the first four), and of every text a part is kept: of history messages the first
characters, of questions and options, whose openings are often the same, the last. The table says how much.
`hf-prefix` runs with prefill_chunk=8192, which is nearer to the whole prompts that `hf` forwards than the default of
2,048; `one by one` is the same with pack=1, a pass for each option.

Letters: the same model, cut and sides but `hf`; questions that show their options, at 8 end indices of one history.

Short prompts: SmolLM2-135M-Instruct, if its wheel is installed, scores the options of whole official questions without
a history. Stock `hf` runs with the batch size at which it takes least time for the first eight of them.

Each side is a process of its own with one thread, since two of them wait for each other where other processes run;
they take turns. Times go from the messages to the scores, without loading. `CPU s` is the processor time, `in model`
the time spent in the model's forward. Ratios are of processor time: what else the machine does changes it least.

Counts, not run: the tokens of the whole 32k split, tokenised with o200k_base in a ChatML-like template (start and end
of a message are one token each), and of made-up 128k and 1M splits of the official sizes. `options` are full options,
`labels` the letters setting as the tasks have it, whose `(a)` is two o200k_base tokens, so that stock `hf` runs each;
`letters` is the same with labels of one token, which stock `hf` scores in one pass. `passes` are those for a question
of `hf-prefix`, without those that only take the cache along a history.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.measure import Child, Target, can_run_models, conclude, in_child, print_table, release_arguments
from support.prefix_questions import END_INDICES, prepare
from support.prefix_sides import SIDES, has_smollm, score, score_short

FULL_RUN = {"contexts": 2, "questions": None, "part": 4, "rounds": 1, "letters": 40, "short": 200}
QUICK_RUN = {"contexts": 1, "questions": 4, "part": 24, "rounds": 1, "letters": 40, "short": 0}
"""Contexts taken; the first so many of their questions; of every text one part in so many is kept; runs of `hf`;
questions of the letters part, and of the short prompts."""

BATCH_SIZES = (1, 4, 16)


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    targets: list[Target] = []
    figures: dict[str, Any] = {"counts": show_counts(args, targets)}
    if can_run_models():
        with tempfile.TemporaryDirectory() as name:
            folder, size = Path(name), QUICK_RUN if args.quick else FULL_RUN
            work = in_child(prepare, args.release, folder, size).result
            figures["run"] = show_run(args, folder, size, work, targets)
            figures["letters"] = show_letters(folder, size, targets)
            if size["short"] and has_smollm():
                figures["short"] = show_short(folder, size, targets)
    conclude(args, targets, figures)


# ---- counts


def show_counts(args: argparse.Namespace, targets: list[Target]) -> dict[str, Any]:
    """Count, print, and add the targets."""
    counts, found = count_splits(args.release, quick=args.quick)
    print_table(
        f"Counted, not run: million tokens; {args.release.name}, split 32k, {found['questions']:,} questions of "
        f"{found['contexts']} contexts with {found['openings']} openings, longest prompt {found['longest']:,} tokens; "
        "128k and 1M made up",
        ["split", "hf", "lower bound", "hf-prefix", "hf / hf-prefix", "hf-prefix / bound", "passes"],
        [
            [
                name,
                *(f"{c[side] / 1e6:,.3f}" for side in ("hf", "bound", "prefix")),
                f"{c['fewer']:.1f}",
                f"{c['over']:.4f}",
                f"{c['passes']:.2f}",
            ]
            for name, c in counts.items()
        ],
    )
    targets.extend(Target(f"{name}: hf-prefix / lower bound", c["over"], 1.01, "x") for name, c in counts.items())
    targets.extend(Target(f"{name}: passes a question", c["passes"], 1.2, "") for name, c in counts.items())
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
            "passes": count.passes / count.questions,
        }
    found = {
        "questions": len(rows),
        "contexts": len({row.context for row in rows}),
        "openings": len(by_opening(rows)),
        "longest": max(question.prompt.length for group in settings["options"] for question in group),
    }
    return counts, found


# ---- run


def show_run(
    args: argparse.Namespace, folder: Path, size: dict[str, Any], work: dict[str, Any], targets: list[Target]
) -> dict[str, Any]:
    """Run all sides, print, and add the targets."""
    children: dict[str, list[Child]] = {side: [] for side in SIDES}
    for side in ["hf-prefix", *(["hf", "one by one", "hf-prefix"] * size["rounds"])]:
        print(f"running {side}", file=sys.stderr)
        children[side].append(in_child(score, folder, "options.json", side))
    sides = {side: side_figures(rounds) for side, rounds in children.items()}
    show_sides(
        f"Run{' (QUICK: too small for the targets of time)' * args.quick}: {work['contexts']} of "
        f"{work['all_contexts']} contexts, {work['questions']} questions, {work['requests']} options; 1/{size['part']} "
        f"of every text: mean prompt {work['prompt']:,.0f} tokens, mean option {work['option']:.0f}, lower bound "
        f"(distinct prefixes) {work['bound']:,} tokens",
        sides,
    )
    scores = {side: rounds[0].result["scores"] for side, rounds in children.items()}
    share, changed, largest = differences(scores["hf"], scores["hf-prefix"])
    token_ratio = sides["hf"]["tokens"] / sides["hf-prefix"]["tokens"]
    time_ratio = ratio(sides, "hf", "hf-prefix", "cpu_seconds")
    print(
        f"hf / hf-prefix: {token_ratio:.1f} in tokens, {ratio(sides, 'hf', 'hf-prefix', 'seconds'):.1f} in time, "
        f"{time_ratio:.1f} in CPU time; largest difference of a log-likelihood {largest:.1e}, changed argmax {changed}"
    )
    off = (1 - time_ratio / token_ratio) * 100
    memory = ratio(sides, "hf-prefix", "one by one", "private_mb")
    passes = sides["hf-prefix"]["calls"] / work["questions"]
    targets += [
        Target("run: hf-prefix tokens / lower bound", sides["hf-prefix"]["tokens"] / work["bound"], 1.01, "x"),
        Target("run: passes a question, those of the histories included", passes, 1.2, ""),
        Target(f"run: time ratio below the token ratio{' (quick)' * args.quick}", off, 20 if args.quick else 10, "%"),
        Target("run: memory, hf-prefix / one by one", memory, 1.15, "x"),
        Target("run: difference / (1e-3 + 1e-4 relative)", share, 1, "x"),
        Target("run: changed argmax", changed, 0, "questions"),
    ]
    return {"size": size, "work": work, "sides": sides, "largest_difference": largest, "changed_argmax": changed}


def show_letters(folder: Path, size: dict[str, Any], targets: list[Target]) -> dict[str, Any]:
    """Run the letters with and without packing, print, and add the targets."""
    children: dict[str, list[Child]] = {"one by one": [], "hf-prefix": []}
    for side in list(children) * size["rounds"]:
        print(f"running letters: {side}", file=sys.stderr)
        children[side].append(in_child(score, folder, "letters.json", side))
    sides = {side: side_figures(rounds) for side, rounds in children.items()}
    title = (
        f"Letters: {size['letters']} questions at {END_INDICES} end indices of one context, 1/{size['part']} of texts"
    )
    show_sides(title, sides)
    scores = [rounds[0].result["scores"] for rounds in children.values()]
    share, changed, _ = differences(*scores)
    targets += [
        Target(
            "letters: time, hf-prefix / one by one", ratio(sides, "hf-prefix", "one by one", "cpu_seconds"), 0.5, "x"
        ),
        Target("letters: difference / (1e-3 + 1e-4 relative)", share, 1, "x"),
        Target("letters: changed argmax", changed, 0, "questions"),
    ]
    return {"sides": sides}


def show_short(folder: Path, size: dict[str, Any], targets: list[Target]) -> dict[str, Any]:
    """Run short prompts with SmolLM2, print, and add the targets."""
    trials = {}
    for batch in BATCH_SIZES:
        print(f"running short prompts: hf, batch size {batch}", file=sys.stderr)
        trials[batch] = in_child(score_short, folder, "short.json", "hf", batch, 8).result["cpu_seconds"]
    best = min(trials, key=trials.__getitem__)
    children: dict[str, list[Child]] = {}
    for side in ("hf-prefix", "hf", "one by one"):
        print(f"running short prompts: {side}", file=sys.stderr)
        children[side] = [in_child(score_short, folder, "short.json", side, best, size["short"])]
    sides = {side: side_figures(rounds) for side, rounds in children.items()}
    tried = ", ".join(f"{batch}: {seconds:.1f}" for batch, seconds in trials.items())
    title = f"Short prompts: SmolLM2-135M, {size['short']} questions; CPU s of hf for 8 by batch size: {tried}"
    show_sides(f"{title}; taken: {best}", sides)
    time = ratio(sides, "hf-prefix", "hf", "cpu_seconds")
    print(
        f"hf-prefix / hf: {sides['hf-prefix']['tokens'] / sides['hf']['tokens']:.2f} in tokens, {time:.2f} in CPU time"
    )
    share, changed, _ = differences(children["hf"][0].result["scores"], children["hf-prefix"][0].result["scores"])
    targets += [
        Target("short prompts: time, hf-prefix / hf", time, 0.35, "x"),
        Target(
            "short prompts: memory, hf-prefix / one by one",
            ratio(sides, "hf-prefix", "one by one", "private_mb"),
            1.15,
            "x",
        ),
        Target("short prompts: difference / (1e-3 + 1e-4 relative)", share, 1, "x"),
        Target("short prompts: changed argmax", changed, 0, "questions"),
    ]
    return {"batch_sizes": trials, "sides": sides}


def show_sides(title: str, sides: dict[str, dict[str, Any]]) -> None:
    """Print what each side took."""
    header = ["side", "tokens", "calls", "s", "CPU s", "in model s", "tok/CPU s", "private MB", "RSS MB"]
    print_table(title, header, [[side, *side_cells(figures)] for side, figures in sides.items()])


def ratio(sides: dict[str, dict[str, Any]], side: str, base: str, key: str) -> float:
    """Return the ratio of two sides' medians of a figure."""
    return statistics.median(sides[side][key]) / statistics.median(sides[base][key])


def side_figures(rounds: list[Child]) -> dict[str, Any]:
    """Return what the rounds of a side took; tokens and calls are the same in all."""
    results = [child.result for child in rounds]
    return {
        **{key: [result[key] for result in results] for key in ("seconds", "cpu_seconds", "model_seconds")},
        **{key: results[0][key] for key in ("tokens", "calls")},
        "private_mb": [child.private_mb for child in rounds],
        "rss_mb": [child.rss_mb for child in rounds],
    }


def side_cells(figures: dict[str, Any]) -> list[str]:
    """Return the cells of a line of a side."""
    medians = {key: statistics.median(own) for key, own in figures.items() if isinstance(own, list)}
    return [
        f"{figures['tokens']:,}",
        f"{figures['calls']:,}",
        *(f"{medians[key]:.2f}" for key in ("seconds", "cpu_seconds", "model_seconds")),
        f"{figures['tokens'] / medians['cpu_seconds']:,.0f}",
        *(f"{medians[key]:,.0f}" for key in ("private_mb", "rss_mb")),
    ]


def differences(theirs: list[list[float]], ours: list[list[float]]) -> tuple[float, int, float]:
    """Return the largest difference as a share of what is allowed, how many choices differ, and the largest one."""
    share, changed, largest = 0.0, 0, 0.0
    for a, b in zip(theirs, ours, strict=True):
        share = max(share, *(abs(x - y) / (1e-3 + 1e-4 * abs(x)) for x, y in zip(a, b, strict=True)))
        largest = max(largest, *(abs(x - y) for x, y in zip(a, b, strict=True)))
        changed += a.index(max(a)) != b.index(max(b))
    return share, changed, largest


if __name__ == "__main__":
    sys.exit(main())
