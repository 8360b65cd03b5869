"""`personamem eval --estimate`: what it says, the time and the memory that it takes, and how near it comes.

Near: the official 32k split, against the o200k_base tokens of the messages that the task sends, with four a message for
the chat template. Large: a dataset of the size of the official 1M split. Of that split the release beside the
repository has questions, options and who shares a context, but no contexts and no lengths. So each question is put
where one of 32k stands: at the same share of the split's nominal tokens, 150 tokens a message (as in 32k). The numbers
of requests, contexts and option tokens are those of the release; those of histories are made up.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from support.measure import Target, conclude, in_child, print_table, release_arguments

TASK: Final = "personamem_1M_generate"
MODEL: Final = "gpt-4.1-mini"
PRICE: Final = "0.4,1.6,0.1"
TOKENS_A_MESSAGE: Final = 150
NOMINAL: Final = {"32k": 32_000, "1M": 1_000_000}


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_child(import_32k, args.release, folder / "32k")
        sides = {"32k": (folder / "32k", "personamem_32k_generate")}
        if in_child(make_1m, args.release, folder).result:
            sides["1M, lengths made up"] = (folder / "1M", TASK)
        for title, (data, task) in sides.items():
            child = in_child(estimated, data, task)
            figures[title] = {**child.result, "private_mb": child.private_mb}
        sent = in_child(tokens_sent, folder / "32k").result
    print_table(
        f"{MODEL} at ${PRICE.replace(',', ', $')} a million tokens of prompts, replies, cached prompts",
        ["split", "requests", "prompt tokens", "cached", "$", "$, nothing cached", "CPU s", "private MB"],
        [
            [
                title,
                *(f"{found['tasks'][0][key]:,}" for key in ("requests", "prompt_tokens", "cached_tokens")),
                *(f"{found['dollars'][key]:,.2f}" for key in ("expected", "without_cache")),
                f"{found['seconds']:.1f}",
                f"{found['private_mb']:,.0f}",
            ]
            for title, found in figures.items()
        ],
    )
    off = 100 * (figures["32k"]["tasks"][0]["prompt_tokens"] / sent - 1)
    print(f"32k: {sent:,} tokens are sent; the estimate is {off:+.1f} % off")
    largest = list(figures.values())[-1]
    targets = [
        Target("32k: prompt tokens off", abs(off), 4, "%"),
        Target("the last: CPU time, start of lm-eval included", largest["seconds"], 15, "s"),
        Target("the last: private memory", largest["private_mb"], 600, "MB"),
    ]
    conclude(args, targets, {**figures, "sent": sent})


def estimated(data: Path, task: str) -> dict[str, Any]:
    """Return what the command says of a task, and the CPU seconds that it took."""
    import contextlib
    import io

    from personamem_builder.cli.eval import evaluate

    arguments = ["--tasks", task, "--model", "personamem-chat", "--model_args", f"model={MODEL}"]
    metadata = ["--metadata", json.dumps({"data": str(data)})]
    out = io.StringIO()
    began = time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        evaluate.main([*arguments, *metadata, "--estimate", "--json", "--price", PRICE], standalone_mode=False)
    return {**json.loads(out.getvalue()), "seconds": time.process_time() - began}


def import_32k(release: Path, folder: Path) -> None:
    """Make the dataset of the official 32k split."""
    from personamem_builder.build.from_official import import_release

    import_release(release, folder)


def tokens_sent(folder: Path) -> int:
    """Return the tokens of all messages that the task of 32k sends."""
    from functools import cache

    import jinja2
    import yaml

    from generation.resources import data_dir
    from generation.tokenizer import num_tokens
    from personamem_builder.dataset.check import read_questions
    from personamem_builder.dataset.contexts import ContextStore
    from personamem_builder.evaluation import chat

    class Loader(yaml.SafeLoader):
        """Takes lm-eval's `!function` for its text."""

    Loader.add_constructor("!function", lambda loader, node: str(node.value))
    text = (data_dir("lm_eval_tasks") / "_generate_yaml").read_text(encoding="utf-8")
    turn = jinja2.Template(yaml.load(text, Loader)["doc_to_text"], keep_trailing_newline=True)
    store, counted = ContextStore(folder), cache(num_tokens)
    total = 0
    for row in read_questions(folder, "32k").to_pylist():
        history = store.messages(row["shared_context_id"], row["end_index_in_shared_context"])
        starts = store.session_starts(row["shared_context_id"])
        messages = chat.build_messages(history, starts, turn.render(row), roles="normalised")
        total += sum(counted(message["content"]) + 4 for message in messages)
    return total


def make_1m(release: Path, folder: Path) -> bool:
    """Make a dataset of the questions of the official 1M split, if they are there; say whether they are."""
    source = release / "questions_1M_options_only.csv.gz"
    if not source.is_file():
        return False
    import pyarrow as pa

    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.schema import QUESTION_SCHEMA

    rows = sorted(
        question_rows(source, release / "questions_32k.csv"),
        key=lambda row: (row["shared_context_id"], row["end_index_in_shared_context"]),
    )
    table = pa.Table.from_pylist(rows, schema=QUESTION_SCHEMA)
    ends: dict[str, int] = {}
    owners: dict[str, int] = {}
    for row in rows:
        context = row["shared_context_id"]
        ends[context] = max(ends.get(context, 0), row["end_index_in_shared_context"])
        owners[context] = row["persona_id"]
    made = Source(name="made-up lengths", url="", license="mit", version="1.0.0", fingerprint="0" * 64)
    write_dataset(folder / "1M", {"1M": [table]}, (("1M", row) for row in context_rows(ends, owners)), made, [])
    return True


def question_rows(source: Path, like: Path) -> Iterator[dict[str, Any]]:
    """Yield the questions, each put where one of 32k stands."""
    from personamem_builder.official.faults import Faults
    from personamem_builder.official.questions_csv import OPTIONS_ONLY_COLUMNS, read_questions

    shares = [row["context_length_in_tokens"] / NOMINAL["32k"] for row in read_questions(like, Faults())]
    for number, row in enumerate(read_questions(source, Faults(), required=OPTIONS_ONLY_COLUMNS)):
        tokens = int(shares[number % len(shares)] * NOMINAL["1M"])
        yield {
            **row,
            "context_length_in_tokens": tokens,
            "context_length_in_letters": 4 * tokens,
            "end_index_in_shared_context": tokens // TOKENS_A_MESSAGE,
            "distance_to_ref_in_blocks": 1,
            "distance_to_ref_in_tokens": 1,
            "num_irrelevant_tokens": 0,
            "distance_to_ref_proportion_in_context": 0.5,
            "evidence_message_indices": [],
        }


def context_rows(ends: dict[str, int], owners: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield contexts that hold as many messages as the questions ask for, of a word each."""
    for context, end in ends.items():
        roles = [{"role": ("user", "assistant")[number % 2], "content": "word"} for number in range(end)]
        yield {
            "shared_context_id": context,
            "persona_id": owners[context],
            "messages": roles,
            "session_starts": [0],
            "session_topics": [""],
            "session_dates": [""],
            "num_tokens": end,
        }


if __name__ == "__main__":
    main()
