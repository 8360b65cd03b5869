"""lm-eval's stock `hf` backend on a small random model: our scores against a computation of our own.

Needs torch and transformers, which neither `make demo` nor `make test` installs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'personamem[hf]')")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import NO_SYSTEM, excerpt_text, learn_tokenizer  # noqa: E402

from personamem_builder.dataset.load import iter_examples  # noqa: E402
from personamem_builder.evaluation import chat  # noqa: E402
from personamem_builder.evaluation.run import run_lm_eval  # noqa: E402
from personamem_builder.schema import option_texts  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["byte level", "word starts"])
def model(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, excerpt: Path) -> Path:
    """A random two-layer Llama over a byte-pair vocabulary learnt from the excerpt.

    Its tokens are bytes and their merges, as in most models, or start words with a mark, as in Llama 2 and Mistral.
    """
    folder = tmp_path_factory.mktemp("model")
    fast = learn_tokenizer(excerpt_text(excerpt), request.param)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        eos_token_id=fast.eos_token_id,
    )
    transformers.LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def workplace(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.chdir(tmp_path)


def evaluate(model: Path, *arguments: str) -> list[dict[str, Any]]:
    fixed = ["--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu"]
    (path,) = run_lm_eval([*fixed, *arguments])
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_options_are_scored_as_rendered(model: Path, templated: bool) -> None:
    flag = ["--apply_chat_template"] if templated else []
    rows = evaluate(model, "--tasks", "personamem_32k_nocontext", "--limit", "4", *flag)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForCausalLM.from_pretrained(model).eval()
    for row, example in zip(rows, iter_examples("32k"), strict=False):
        messages = [{"role": "user", "content": example["user_question_or_message"]}]
        prompt = (
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            if templated
            else chat.to_text(messages)
        )
        for option, logprob, count in zip(
            option_texts(example), row["option_logprobs"], row["option_tokens"], strict=True
        ):
            context = tokenizer(prompt, add_special_tokens=False).input_ids
            whole = tokenizer(prompt + (option if templated else f" {option}"), add_special_tokens=False).input_ids
            scored = whole[len(context) :]
            with torch.no_grad():
                logits = network(torch.tensor([context + scored])).logits[0].log_softmax(-1)
            expected = sum(float(logits[len(context) - 1 + i, token]) for i, token in enumerate(scored))
            assert count == len(scored)
            assert logprob == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_histories_too_long_for_the_model_are_found_before_the_first_request(model: Path, templated: bool) -> None:
    from generation.errors import UserError

    flag = ["--apply_chat_template"] if templated else []
    with pytest.raises(UserError, match="17 of 17 questions are too long for the model: its window is 4096 tokens"):
        evaluate(model, "--tasks", "personamem_32k", *flag)


def test_a_template_without_a_system_role_is_an_error_and_no_system_the_way_out(model: Path, tmp_path: Path) -> None:
    from generation.errors import UserError

    strict = tmp_path / "strict"
    strict.mkdir()
    for path in model.iterdir():
        (strict / path.name).write_bytes(path.read_bytes())
    (strict / "chat_template.jinja").write_text(NO_SYSTEM, encoding="utf-8")
    arguments = ["--tasks", "personamem_32k", "--apply_chat_template", "--limit", "1"]
    with pytest.raises(UserError, match=r"drops a message of the role 'system'|System role not supported") as caught:
        evaluate(strict, *arguments)
    assert "roles=no_system" in caught.value.hint
    with pytest.raises(UserError, match="too long"):  # past the template
        evaluate(strict, *arguments, "--metadata", "roles=no_system")


def test_generation_runs(model: Path) -> None:
    rows = evaluate(
        model,
        "--tasks",
        "personamem_32k_generate_nocontext",
        "--apply_chat_template",
        "--limit",
        "2",
        "--gen_kwargs",
        "max_gen_toks=8",
    )
    assert all(isinstance(row["response"], str) for row in rows)
