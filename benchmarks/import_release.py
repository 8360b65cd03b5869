"""Import of the official 32k release against the time tiktoken needs for its texts.

Both sides run in this process with the vocabulary and all libraries loaded:
  import    `import_release`: read, check, count tokens, write the dataset folder (with fsync)
  tiktoken  `encode_ordinary` of each distinct message text, once, in one thread
The peak memory is that of one import in a process of its own, libraries included.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from support.measure import Target, conclude, in_child, interleave, median_ratio, print_table, release_arguments, spread


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    texts = distinct_texts(args.release)
    rounds = 5 if args.quick else 25
    time_import(args.release)  # loads what is loaded on first use
    time_tiktoken(texts)
    seconds = interleave(
        {"import": lambda: time_import(args.release), "tiktoken": lambda: time_tiktoken(texts)}, rounds
    )
    child = in_child(time_import, args.release)

    base = seconds["tiktoken"]
    print(
        f"release: {args.release.name}, split 32k: {len(texts):,} distinct texts, {sum(map(len, texts)):,} characters"
    )
    print_table(
        f"{rounds} rounds, interleaved",
        ["side", "median s", "min s", "max s", "ratio"],
        [[name, *spread(v, ".3f"), f"{median_ratio(v, base):.2f}"] for name, v in seconds.items()],
    )
    print(f"\npeak memory of an import in its own process: {child.rss_mb:.0f} MB, {child.private_mb:.0f} MB private")
    memory = {"rss_mb": child.rss_mb, "private_mb": child.private_mb}
    # Of a few texts, as in the excerpt, fixed costs such as the fsyncs make most of the time.
    what = "import / tiktoken" if len(texts) > 1000 else "import / tiktoken (target is for the whole split)"
    ratio = median_ratio(seconds["import"], base)
    conclude(args, [Target(what, ratio, 3, "x")], {"seconds": seconds, "memory": memory})


def distinct_texts(release: Path) -> list[str]:
    """Return the message texts of the shared contexts, each once."""
    with (release / "shared_contexts_32k.jsonl").open(encoding="utf-8") as file:
        contexts = [messages for line in file for messages in json.loads(line).values()]
    return list(dict.fromkeys(message["content"] for messages in contexts for message in messages))


def time_import(release: Path) -> float:
    """Import into a new folder; removing it again is not counted."""
    from personamem_builder.build.from_official import import_release

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        import_release(release, Path(folder) / "personamem")
        return time.perf_counter() - start


def time_tiktoken(texts: list[str]) -> float:
    """Encode each text."""
    from generation.tokenizer import load_encoding

    encoding, _ = load_encoding()
    start = time.perf_counter()
    for text in texts:
        encoding.encode_ordinary(text)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
