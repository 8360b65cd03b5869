"""`personamem-vllm` against lm-eval's `hf`: the same scores, each history computed once; vLLM itself is a stand-in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'personamem[hf]')")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import standin_vllm  # noqa: E402
from command_line import personamem  # noqa: E402
from short_excerpt import shorten  # noqa: E402
from tiny_models import excerpt_text, learn_tokenizer  # noqa: E402

from generation.errors import UserError  # noqa: E402
from personamem_builder.dataset.check import read_questions  # noqa: E402
from personamem_builder.dataset.contexts import ContextStore  # noqa: E402
from personamem_builder.evaluation.option_passes import Pass  # noqa: E402
from personamem_builder.evaluation.run import run_lm_eval  # noqa: E402
from personamem_builder.evaluation.vllm_engine import VLLMEngine  # noqa: E402
from personamem_builder.evaluation.vllm_lm import VLLMLM  # noqa: E402

pytestmark = pytest.mark.slow

Row = dict[str, Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, excerpt: Path) -> Path:
    """A random two-layer Llama whose labels `(a)` are three tokens."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = learn_tokenizer(excerpt_text(excerpt))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
    )
    transformers.LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def short_data(excerpt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shorten(excerpt, tmp_path_factory.mktemp("short"))


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> type[standin_vllm.LLM]:
    return standin_vllm.install(monkeypatch)


@pytest.fixture
def evaluate(
    short_data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[Row]]:
    monkeypatch.setenv("PERSONAMEM_DATA", str(short_data))
    monkeypatch.chdir(tmp_path)

    def run(backend: str, tasks: str, *arguments: str, more: str = "", out: str = "") -> list[Row]:
        fixed = ["--model", backend, "--model_args", f"pretrained={model},dtype=float32{more}", "--device", "cpu"]
        (path,) = run_lm_eval([*fixed, "--tasks", tasks, "--output_path", out or backend, *arguments])
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return run


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_scores_are_those_of_hf(
    evaluate: Callable[..., list[Row]], vllm: type[standin_vllm.LLM], templated: bool
) -> None:
    arguments = ["--limit", "3", *(["--apply_chat_template"] if templated else [])]
    tasks = "personamem_32k,personamem_32k_letters,personamem_32k_nocontext"
    expected = evaluate("hf", tasks, *arguments)
    rows = evaluate("personamem-vllm", tasks, *arguments)
    assert len(rows) == 3 * 3
    for row, other in zip(rows, expected, strict=True):
        assert row["option_logprobs"] == pytest.approx(other["option_logprobs"], abs=1e-3)
        assert row["predictions"] == other["predictions"]
        assert row["option_tokens"] == other["option_tokens"]


def test_a_history_is_computed_once(
    evaluate: Callable[..., list[Row]], vllm: type[standin_vllm.LLM], model: Path, short_data: Path
) -> None:
    evaluate("personamem-vllm", "personamem_32k", "--apply_chat_template")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    rows = read_questions(short_data, "32k").to_pylist()
    options = sum(len(tokenizer.encode(option)) for row in rows for option in row["all_options"])
    questions = sum(len(tokenizer.encode(row["user_question_or_message"])) for row in rows)
    store = ContextStore(short_data)
    ends = {row["shared_context_id"]: 0 for row in rows}
    for row in rows:
        ends[row["shared_context_id"]] = max(ends[row["shared_context_id"]], row["end_index_in_shared_context"])
    histories = sum(
        len(tokenizer.encode(message["content"])) + 6
        for context, end in ends.items()
        for message in store.messages(context, end)
    )
    # A request begins with a whole block, and its last token is never run by others.
    assert vllm.computed < histories + options + questions + (standin_vllm.BLOCK + 10) * vllm.requests


def test_generation_is_that_of_hf(evaluate: Callable[..., list[Row]], vllm: type[standin_vllm.LLM]) -> None:
    arguments = ["--gen_kwargs", "max_gen_toks=4", "--limit", "3", "--apply_chat_template"]
    expected = evaluate("hf", "personamem_32k_generate", *arguments)
    rows = evaluate("personamem-vllm", "personamem_32k_generate", *arguments)
    texts = [row["response"].replace("<|im_end|>", "").replace("<|im_start|>", "") for row in expected]
    assert [row["response"] for row in rows] == texts
    assert any(texts)
    assert all(row["outcome"] == "cut" and row["reply_tokens"] == 4 for row in rows)
    assert any(row["cached_tokens"] for row in rows)


def test_parts_of_whole_contexts_are_merged(evaluate: Callable[..., list[Row]], vllm: type[standin_vllm.LLM]) -> None:
    arguments = ("--apply_chat_template",)
    whole = evaluate("personamem-vllm", "personamem_32k_letters", *arguments)
    parts = [
        row
        for number in (1, 2)
        for row in evaluate(
            "personamem-vllm", "personamem_32k_letters", *arguments, "--shard", f"{number}/2", out="parts"
        )
    ]
    assert len({row["question_id"] for row in parts}) == len(parts) == len(whole)
    merged = personamem("merge", "parts", "--out", "merged")
    assert merged.exit_code == 0, merged.err
    (path,) = Path("merged").rglob("predictions_*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["predictions"] for row in rows] == [row["predictions"] for row in whole]


def test_labels_of_one_token_take_one_written_token(model: Path, vllm: type[standin_vllm.LLM]) -> None:
    engine = VLLMEngine(str(model))
    prompt = list(range(40, 80))
    labels = [[10], [11], [10]]
    lm = VLLMLM(engine=engine)
    [(number, scores)] = lm._scored([(0, prompt, labels)])
    assert vllm.requests == 1
    network = transformers.AutoModelForCausalLM.from_pretrained(model).eval()
    with torch.inference_mode():
        table = network(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    assert number == 0
    assert [own[0] for own in scores] == pytest.approx([float(table[token]) for [token] in labels], abs=1e-4)


def test_what_the_cache_held_is_asked_anew(model: Path, vllm: type[standin_vllm.LLM]) -> None:
    engine = VLLMEngine(str(model))
    one = Pass(list(range(30, 80)), 10, [[token] for token in range(41, 80)])
    first = engine.score([one])
    assert vllm.requests == 1
    again = engine.score([one])
    assert vllm.requests == 3  # of the second request nothing came
    assert [score for [score] in again[0]] == pytest.approx([score for [score] in first[0]], abs=1e-5)


def test_a_prompt_that_does_not_fit_is_refused_or_cut(
    evaluate: Callable[..., list[Row]], vllm: type[standin_vllm.LLM]
) -> None:
    with pytest.raises(UserError, match="too long for the model"):
        evaluate("personamem-vllm", "personamem_32k", "--apply_chat_template", more=",max_length=1024")
    left = ["--metadata", "overlength=left", "--limit", "3", "--apply_chat_template"]
    expected = evaluate("hf", "personamem_32k", *left, more=",max_length=1024")
    rows = evaluate("personamem-vllm", "personamem_32k", *left, more=",max_length=1024")
    assert len(rows) == len(expected) == 3


def test_what_vllm_refuses_is_an_error_for_people(model: Path, vllm: type[standin_vllm.LLM]) -> None:
    engine = VLLMEngine(str(model), max_length=32)
    with pytest.raises(UserError, match="vLLM refuses a request: the prompt has 50 tokens") as caught:
        engine.score([Pass(list(range(30, 80)), 48, [[1]])])
    assert "hf-prefix" in caught.value.hint


def test_without_vllm_the_error_says_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="personamem-vllm needs vLLM") as caught:
        VLLMLM(str(model))
    assert "[vllm]" in caught.value.hint


def test_other_tasks_and_replicas_in_one_process_are_refused(model: Path, vllm: type[standin_vllm.LLM]) -> None:
    from lm_eval.api.instance import Instance

    lm = VLLMLM(str(model))
    request = Instance("loglikelihood", {}, ("a question", " an answer"), 0, ("toy", 0, 1))
    with pytest.raises(UserError, match="scores personamem tasks only"):
        lm.loglikelihood([request])
    with pytest.raises(UserError, match="data_parallel_size=2") as caught:
        VLLMLM(str(model), data_parallel_size=2)
    assert "--shard 1/2" in caught.value.hint
