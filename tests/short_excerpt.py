"""The official excerpt, with short messages, for small models."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from generation.tokenizer import load_encoding
from personamem_builder.build.from_official import import_release
from personamem_builder.official.contexts_jsonl import context_id


def shorten(excerpt: Path, folder: Path) -> Path:
    """Make a dataset of the excerpt, whose messages keep a few words: as many of them, and the same questions.

    Args:
        excerpt: Its release files.
        folder: Where the release and the dataset go.

    Returns:
        The dataset folder.
    """
    release = folder / "release"
    release.mkdir()
    ids: dict[str, str] = {}
    contexts: dict[str, list[dict[str, str]]] = {}
    for line in (excerpt / "shared_contexts_32k.jsonl").read_text("utf-8").splitlines():
        for old, messages in json.loads(line).items():
            short = [{**message, "content": message["content"][:32]} for message in messages]
            ids[old] = context_id(short)
            contexts[ids[old]] = short
    lines = [json.dumps({key: value}) for key, value in contexts.items()]
    (release / "shared_contexts_32k.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    encoding = load_encoding()[0]
    with (excerpt / "questions_32k.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["shared_context_id"] = ids[row["shared_context_id"]]
        texts = [m["content"] for m in contexts[row["shared_context_id"]][: int(row["end_index_in_shared_context"])]]
        counted = [*texts, row["user_question_or_message"]]
        row["context_length_in_tokens"] = str(sum(len(encoding.encode_ordinary(text)) for text in counted))
        row["context_length_in_letters"] = str(sum(map(len, texts)))
    with (release / "questions_32k.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    import_release(release, folder / "personamem")
    return folder / "personamem"
