"""Several processes that share a run, as `accelerate launch` and torchrun start them, give the results of one.

Needs torch and transformers, which neither `make demo` nor `make test` installs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'personamem[hf]')")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import excerpt_text, learn_tokenizer  # noqa: E402

from personamem_builder.evaluation.run import run_lm_eval  # noqa: E402

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
COMMAND = """
import sys, torch
# lm-eval divides a run among processes only where it sees several GPUs.
seen = lambda: 2 * sys._getframe(1).f_code.co_filename.endswith("huggingface.py")
torch.cuda.device_count = seen
from personamem_builder.cli import main
main()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, excerpt: Path) -> Path:
    folder = tmp_path_factory.mktemp("model")
    fast = learn_tokenizer(excerpt_text(excerpt))
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=fast.eos_token_id,
    )
    transformers.LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


def answers(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.rglob("predictions_*.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def metrics(folder: Path) -> Any:
    (path,) = folder.rglob("results_*.json")
    return json.loads(path.read_text("utf-8"))["results"]


@pytest.mark.parametrize("backend", ["hf", "hf-prefix"])
def test_two_processes_give_the_results_of_one(
    backend: str, model: Path, dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.chdir(tmp_path)
    short = json.dumps({"memory": "recent", "settings": {"tokens": 300}})
    arguments = ["--tasks", "personamem_32k,personamem_32k_letters", "--model", backend, "--apply_chat_template"]
    arguments += ["--model_args", f"pretrained={model},dtype=float32", "--metadata", short]
    run_lm_eval([*arguments, "--device", "cpu", "--output_path", "one"])
    script = tmp_path / "command.py"
    script.write_text(COMMAND, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    done = subprocess.run(
        [*launcher, str(script), "eval", *arguments, "--output_path", "two"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "on rank 1" in done.stderr
    one, two = answers(Path("one")), answers(Path("two"))
    assert [row["question_id"] for row in two] == [row["question_id"] for row in one]
    for row, other in zip(one, two, strict=True):
        assert other["option_logprobs"] == pytest.approx(row["option_logprobs"], abs=1e-3)
    if backend == "hf":  # the same passes of the model, so nothing differs
        assert metrics(Path("two")) == metrics(Path("one"))
