"""How often the audit's tests against chance fail a fair benchmark, and how often they find a leak.

    python benchmarks/gate_power.py                        # generates and assembles examples/full.yaml first
    python benchmarks/gate_power.py --data personamem      # takes a dataset folder that is there

A control has the questions of a split, and which of their options is right is drawn anew: as generation does it, once
for all questions that choose between the same things. So nothing tells what is right, and whatever fails is a false
alarm. A leak is planted in some questions of a control, so many that the rule that knows it is right 5 points above
chance (10 in one type), or as much above chance as the audit says that it finds nine times in ten.

All checks that are told by the right options are made: rules, probes, cue words, letters, the persona's description.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from support.measure import Target, argument_parser, conclude, print_table
from support.runs import generate_run

from generation.seeds import rng_for
from personamem_builder.audit.balance import balance_findings
from personamem_builder.audit.cues import cue_findings
from personamem_builder.audit.gates import Judged, failed, judge, read_gates
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.probes import probe_credits, probe_findings
from personamem_builder.audit.records import ALL, AuditedSplit
from personamem_builder.audit.surface import surface_findings
from personamem_builder.audit.texts import text_findings
from personamem_builder.policies import longest, word_list
from personamem_builder.schema import QuestionRow, option_letter, option_texts

SPLITS = ("32k", "128k", "1M")
CUE = "indubitably"
GAIN = 0.75
"""What each question that is given away adds to one that is guessed among four."""


def control(split: AuditedSplit, seed: int) -> AuditedSplit:
    """Return the split with right options drawn anew, once for the questions of a persona on the same things."""
    drawn: dict[tuple[Any, ...], list[int]] = {}
    rows = []
    for row in split.rows:
        states = ["; ".join(map(str, states)) for states in row.get("option_states") or []]
        things = states if len(set(states)) == len(row["all_options"]) else option_texts(row)
        order = sorted(things)
        key = (row["persona_id"], row.get("topic"), *order)
        if key not in drawn:
            rng = rng_for(seed, "control", *map(str, key))
            drawn[key] = rng.sample(range(len(order)), len(order))
        right = order[drawn[key][order.index(things[row["answer_index"]])]]
        rows.append(answered(row, things.index(right)))
    return dataclasses.replace(split, rows=rows)


def answered(row: QuestionRow, index: int) -> QuestionRow:
    """Return a question with another right option."""
    return {**row, "answer_index": index, "correct_answer": f"({option_letter(index)})"}


# ---- leaks: each changes a question so that one rule answers it


def reworded(row: QuestionRow, change: Callable[[str], str]) -> QuestionRow:
    """Return a question whose right option is put otherwise."""
    right = row["answer_index"]
    texts = [change(text) if i == right else text for i, text in enumerate(option_texts(row))]
    return {**row, "all_options": [f"({option_letter(i)}) {text}" for i, text in enumerate(texts)]}


def the_longest(row: QuestionRow) -> QuestionRow:
    """The right option becomes the longest, by words that it has."""
    most = max(longest(row))

    def longer(text: str) -> str:
        words = text.split()
        while len(text) <= most:
            text += " " + words[len(text) % len(words)]
        return text

    return reworded(row, longer)


def has_cue_word(row: QuestionRow) -> QuestionRow:
    """The right option alone has a certain word."""
    return reworded(row, lambda text: f"{text} {CUE}")


def likest_the_question(row: QuestionRow) -> QuestionRow:
    """The right option takes up the words of the question."""
    return reworded(row, lambda text: f"{text} {' '.join(word_list(row['user_question_or_message']))}")


def stands_first(row: QuestionRow) -> QuestionRow:
    """The right option stands first."""
    texts = option_texts(row)
    texts.insert(0, texts.pop(row["answer_index"]))
    return answered({**row, "all_options": [f"({option_letter(i)}) {text}" for i, text in enumerate(texts)]}, 0)


LEAKS: Mapping[str, tuple[str, Callable[[QuestionRow], QuestionRow]]] = {
    "is longest": ("surface", the_longest),
    "is likest the question": ("surface", likest_the_question),
    "stands first": ("surface", stands_first),
    "has a cue word": ("probe", has_cue_word),
}
"""What the right option does, and the group of checks that is to find it."""


def planted(split: AuditedSplit, leak: str, slice_: str, excess: float, seed: int) -> AuditedSplit:
    """Return a control in which a leak adds `excess` to what its rule has right by chance, in all or in one type."""
    own = split.slices[slice_]
    rng = random.Random(f"{seed} {leak} {slice_}")
    chosen = set(rng.sample(own, min(len(own), round(len(own) * excess / GAIN))))
    change = LEAKS[leak][1]
    return dataclasses.replace(split, rows=[change(row) if i in chosen else row for i, row in enumerate(split.rows)])


# ---- trials


class Task(NamedTuple):
    """A trial: a control of a split, with a leak (none where it has no name) of some size in a slice."""

    data: str
    split: str
    seed: int
    leak: str = ""
    slice: str = ALL
    excess: float = 0.0


class Outcome(NamedTuple):
    """What failed, and for each group of checks and slice the least excess that its limits find."""

    failed: list[tuple[str, str]]
    detectable: dict[tuple[str, str], float]


@cache
def read(data: str, name: str) -> AuditedSplit:
    """Return a split, of whose contexts nothing but system messages is left."""
    [split] = read_splits(Path(data), [name])
    contexts = []
    for context in split.contexts() if split.contexts else ():
        messages = [m if m["role"] == "system" else {**m, "content": ""} for m in context["messages"]]
        contexts.append({**context, "messages": messages})
    return dataclasses.replace(split, contexts=lambda: iter(contexts))


def trial(task: Task) -> Outcome:
    """Make a control, plant its leak, and hold it against the release standard.

    Of a leak that a rule is to find, no probe is trained: other checks could only find it more often.
    """
    split = control(read(task.data, task.split), task.seed)
    group = "probe"
    if task.leak:
        group = LEAKS[task.leak][0]
        split = planted(split, task.leak, task.slice, task.excess, task.seed)
    findings = [*surface_findings(split), *cue_findings(split), *balance_findings(split)]
    findings += text_findings(split)
    if group == "probe":
        findings += probe_findings(split, probe_credits(split))
    told = ("surface.", "probe.", "cue.", "balance.letters", "text.persona_overlap")
    judged = judge([finding for finding in findings if finding.check.startswith(told)], read_gates())
    return Outcome([(one.finding.check, one.finding.slice) for one in failed(judged)], detectable(judged))


def detectable(judged: Iterable[Judged]) -> dict[tuple[str, str], float]:
    """Return for each group and slice the excess that each of its checks finds."""
    least: dict[tuple[str, str], float] = {}
    for one in judged:
        if one.detectable is not None:
            key = (one.finding.check.partition(".")[0], one.finding.slice)
            least[key] = max(least.get(key, 0.0), one.detectable)
    return least


def found(leak: str, slice_: str, outcome: Outcome) -> bool:
    """Return whether a leak was found: by a rule, or where probes are to find it, by them or as a cue word."""
    groups = ("surface",) if LEAKS[leak][0] == "surface" else ("probe", "cue")
    return any(check.startswith(groups) and at in (slice_, ALL) for check, at in outcome.failed)


def largest_type(split: AuditedSplit) -> str:
    """Return the type with most questions."""
    return max((name for name in split.slices if name != ALL), key=lambda name: (len(split.slices[name]), name))


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, help="a dataset folder with generated questions")
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), help="of these splits")
    parser.add_argument("--seeds", type=int, default=100, help="controls, and leaks of each kind")
    parser.add_argument("--leaks", nargs="*", default=list(LEAKS), choices=list(LEAKS), help="which leaks")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    args = parser.parse_args()
    if args.quick:
        args.splits, args.seeds, args.leaks = args.splits[:1], 1, args.leaks[:1]
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(args.workers) as pool:
        data = args.data or made(Path(folder), 3 if args.quick else 20, args.workers)
        figures = {name: measure(str(data), name, args, partial(pool.map, trial)) for name in args.splits}
    report(args, figures)


def made(folder: Path, personas: int, workers: int) -> Path:
    """Generate and build the example, and return the dataset folder."""
    from personamem_builder.assemble.assemble import assemble
    from personamem_builder.assemble.sizes import chosen_sizes
    from personamem_builder.build.from_run import build

    store, _ = generate_run(folder / "run", workers, personas=personas)
    assemble(store, chosen_sizes(SPLITS, None, None), n_variants=2, workers=workers)
    build(store, folder / "personamem", workers=workers)
    return folder / "personamem"


def measure(
    data: str, name: str, args: argparse.Namespace, run: Callable[[Sequence[Task]], Iterable[Outcome]]
) -> dict[str, Any]:
    """Return what failed in the controls of a split, and how often each leak was found."""
    controls = list(run([Task(data, name, seed) for seed in range(args.seeds)]))
    said: dict[tuple[str, str], list[float]] = {}
    for outcome in controls:
        for key, excess in outcome.detectable.items():
            said.setdefault(key, []).append(excess)
    middle = {key: sorted(values)[len(values) // 2] for key, values in said.items()}
    kind = largest_type(read(data, name))
    leaks = []
    for leak in args.leaks:
        for slice_, wanted in ((ALL, 0.05), (kind, 0.10)):
            largest = middle.get((LEAKS[leak][0], slice_))
            for excess, is_said in ((wanted, False), *([(largest, True)] if largest else [])):
                outcomes = run([Task(data, name, seed, leak, slice_, excess) for seed in range(args.seeds)])
                hits = sum(found(leak, slice_, outcome) for outcome in outcomes)
                leaks.append({"leak": leak, "of": slice_, "points": 100 * excess, "is_said": is_said, "found": hits})
    return {
        "questions": len(read(data, name).rows),
        "controls": args.seeds,
        "failed": sum(bool(outcome.failed) for outcome in controls),
        "failures": Counter(f"{check}, {at}" for outcome in controls for check, at in outcome.failed),
        "detectable": {f"{group}, {at}": 100 * excess for (group, at), excess in middle.items()},
        "leaks": leaks,
    }


def report(args: argparse.Namespace, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the tables and the targets."""
    print_table(
        "Controls without a leak",
        ["", "questions", "controls", "failed"],
        [[name, f"{f['questions']:,}", str(f["controls"]), str(f["failed"])] for name, f in figures.items()],
    )
    print_table(
        "Points above chance that the audit says it finds nine times in ten (median of the controls)",
        ["", "points"],
        [[f"{name}, {what}", f"{size:.1f}"] for name, f in figures.items() for what, size in f["detectable"].items()],
    )
    print_table(
        f"Leaks planted in {args.seeds} controls; * as large as the audit says that it finds",
        ["the right option ...", "of", "points", "found"],
        [
            [f"{name}: {leak['leak']}", leak["of"], f"{leak['points']:.1f}{'*' * leak['is_said']}", str(leak["found"])]
            for name, f in figures.items()
            for leak in f["leaks"]
        ],
    )
    said = [leak["found"] / args.seeds for f in figures.values() for leak in f["leaks"] if leak["is_said"]]
    targets = [Target("controls that fail", 100 * f["failed"] / f["controls"], 1, "%") for f in figures.values()]
    if said:
        targets.append(Target("leaks missed that were said to be found", 100 * (1 - min(said)), 10, "%"))
    conclude(args, targets, figures)


if __name__ == "__main__":
    main()
