"""The card of a PERSONA-Bench dataset folder: YAML for `datasets`, and what people must know before they use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from personamem_builder.build.front_matter import to_yaml
from personamem_builder.persona_bench.published import compare_counts
from personamem_builder.persona_bench.records import SPLITS, TASKS

TERMS: Final = (
    "Research only. The texts were written by users of Reddit and stay under Reddit's terms of service; PERSONA-Bench "
    "(arXiv 2505.14106) gives them for research. Do not publish this folder, do not try to find out who the authors "
    "are, and remove what its author has removed. personamem ships none of these data."
)

_TABLES: Final = ("posts", "messages", "users")


def table_path(name: str) -> str:
    """Return where a table lies, relative to the dataset folder."""
    return f"data/{name}.parquet"


def items_path(task: str, split: str) -> str:
    """Return where the items of a task and a split lie, relative to the dataset folder."""
    return f"data/items_{task}_{split}.parquet"


def render_card(manifest: Mapping[str, Any]) -> str:
    """Render the `README.md` of a folder from its manifest."""
    counts = manifest["counts"]
    return f"""---
{to_yaml(_front_matter(manifest))}---

# PERSONA-Bench, imported by `personamem`

**{TERMS}**

{counts["posts"]:,} posts, {counts["messages"]:,} comments, {counts["users"]:,} authors, imported from a file of \
sha256 `{manifest["source"]["sha256"]}` with seed {manifest["seed"]}.
{_published(manifest)}
```python
from datasets import load_dataset

items = load_dataset("PATH", "items_sentiment", split="test")
posts = load_dataset("PATH", "posts", split="train")  # all of them: this table has no splits
```

| items | {" | ".join(SPLITS)} | positive, of all |
|---|{"---:|" * len(SPLITS)}---:|
{chr(10).join(_line(task, manifest["items"][task]) for task in TASKS)}

- Each author is in one split. `history` and `other_history` are texts of the author and of another one, from other
  posts.
- All that an item shows was written before its target; no score is shown. Edited comments are shown only above the
  target; posts may have been edited later, without a mark.
- `sentiment` asks whether the score of a reply is above 0 (a sign of votes, not a sentiment), `impact` for the score,
  `next_text` for what the author writes next.
- The rules are told in `personamem_builder/persona_bench/items.py`; what they left out, and why, is in `manifest.json`.
"""


def _published(manifest: Mapping[str, Any]) -> str:
    table = compare_counts(manifest)
    return f"\n```\n{table}\n```\n" if table else ""


def _line(task: str, splits: Mapping[str, Mapping[str, int]]) -> str:
    total = sum(splits[split]["items"] for split in SPLITS)
    positive = sum(splits[split].get("positive", 0) for split in SPLITS)
    share = f"{100 * positive / total:.1f} %" if total and task != "next_text" else ""
    return f"| {task} | {' | '.join(format(splits[split]['items'], ',') for split in SPLITS)} | {share} |"


def _front_matter(manifest: Mapping[str, Any]) -> dict[str, Any]:
    def config(name: str, files: Mapping[str, str]) -> dict[str, Any]:
        digests = " ".join(f"{split}:{manifest['files'][path]['sha256']}" for split, path in files.items())
        return {
            "config_name": name,
            # `datasets` keys its cache by this text, not by the data: without the digests it would serve old rows.
            "description": f"sha256 {digests}",
            "data_files": [{"split": split, "path": path} for split, path in files.items()],
        }

    return {
        "pretty_name": "PERSONA-Bench",
        "license": "other",
        "license_name": "research-only",
        "tags": ["personalization", "reddit", "lm-eval"],
        "configs": [
            *(config(f"items_{task}", {split: items_path(task, split) for split in SPLITS}) for task in TASKS),
            *(config(name, {"train": table_path(name)}) for name in _TABLES),
        ],
    }
