"""An evaluation in parts: whole contexts balanced by tokens against single questions in turn, as stock lm-eval deals.

    python benchmarks/eval_parts.py

Nothing is run; tokens are counted (o200k_base, without the marks of a chat template) for a model that computes each
prefix once a process, as `hf-prefix` and servers with a prefix cache do. A part computes the messages of its histories,
those that two histories begin with once, and its questions with their options. The official release has 37 contexts of
20 personas, and those of one persona begin alike, so parts together compute more than one process does. `greatest /
mean` is by what the parts compute, and in the column before by the tokens that the plan is made with (`context_costs`).
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.measure import Target, add_release, argument_parser, conclude, print_table


def main() -> None:
    """Count and print."""
    parser = argument_parser(__doc__)
    add_release(parser)
    parser.add_argument("--parts", type=int, default=8, metavar="N", help="number of parts (8)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = count(args, Path(folder) / "personamem")
    show(args, figures)


def count(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return for each way to deal what its parts compute."""
    from personamem_builder.build.from_official import import_release
    from personamem_builder.dataset.check import read_questions
    from personamem_builder.dataset.contexts import open_contexts
    from personamem_builder.evaluation.shards import context_costs, deal_contexts

    import_release(args.release, folder)
    docs: Any = list(enumerate(read_questions(folder, "32k").to_pylist()))
    costs = context_costs(docs, context_of, shares_history=True)
    parts = min(args.parts, len(costs))
    dealt = {
        "one process": [docs],
        "single questions in turn": [docs[rank::parts] for rank in range(parts)],
        "whole contexts by tokens": deal_contexts(docs, parts, context_of, shares_history=True),
    }
    histories = open_contexts(folder)
    return {
        "questions": len(docs),
        "parts": parts,
        "costs": sorted(costs.values()),
        "ways": {
            name: {
                "computed": [computed(part, histories) for part in way],
                "planned": [sum(context_costs(part, context_of, shares_history=True).values()) for part in way],
            }
            for name, way in dealt.items()
        },
    }


def context_of(doc: Any) -> str:
    """Return the id of a question's context."""
    return str(doc["shared_context_id"])


def computed(part: Sequence[tuple[int, Any]], histories: Any) -> tuple[int, int]:
    """Return the tokens of histories, and of questions with their options, that a process computes for its part."""
    from generation.tokenizer import num_tokens

    longest: dict[str, int] = {}
    for _, doc in part:
        context = context_of(doc)
        longest[context] = max(longest.get(context, 0), doc["end_index_in_shared_context"])
    begun: set[int] = set()
    history = 0
    for context, end in longest.items():
        before = 0
        for message in histories.messages(context, end):
            before = hash((before, message["role"], message["content"]))
            if before not in begun:
                begun.add(before)
                history += num_tokens(message["content"])
    asked = sum(num_tokens(text) for _, doc in part for text in (doc["user_question_or_message"], *doc["all_options"]))
    return history, asked


def show(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Print the table and the target."""
    parts, costs = figures["parts"], figures["costs"]
    loads = {name: [sum(one) for one in way["computed"]] for name, way in figures["ways"].items()}
    alone = loads["one process"][0]
    rows = []
    for name, way in figures["ways"].items():
        planned, own = way["planned"], loads[name]
        rows.append(
            [
                name,
                f"{max(planned) * len(planned) / sum(planned):.3f}",
                f"{max(own) * len(own) / sum(own):.3f}",
                f"{sum(history for history, _ in way['computed']):,}",
                f"{max(own):,}",
                f"{alone / max(own):.2f}",
            ]
        )
    print(f"release: {args.release.name}, split 32k: {figures['questions']} questions about {len(costs)} contexts")
    print_table(
        f"{parts} parts",
        ["", "plan: greatest / mean", "greatest / mean", "history tokens in all", "greatest part", "times as fast"],
        rows,
    )
    fewest = sum(costs[: math.ceil(len(costs) / parts)])  # some part has so many contexts
    least = max(1.0, costs[-1] * parts / sum(costs), fewest * parts / sum(costs))
    print(f"no plan of whole contexts has less than {least:.3f} as the greatest part of the mean")
    planned = figures["ways"]["whole contexts by tokens"]["planned"]
    ratio = max(planned) * parts / sum(planned)
    conclude(args, [Target("greatest part / mean, in the tokens of the plan", ratio, 1.1, "x")], figures)


if __name__ == "__main__":
    main()
