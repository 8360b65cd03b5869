"""What a run will take, said before it: held against what a server gets when the same command is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, personamem
from loopback_chat import LoopbackChat, Message

from generation.tokenizer import num_tokens
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.evaluation.kv_memory import kv_cache
from personamem_builder.schema import option_texts

PER_MESSAGE = 4
OTHER = "persona_bench_impact_npconv"
TASKS = "personamem_32k_generate,personamem_32k_generate_nocontext"


@pytest.fixture(autouse=True)
def workplace(generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(generated))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[LoopbackChat]:
    with LoopbackChat("<final_answer>(a)") as server:
        yield server


def estimated(*arguments: object, tasks: str = TASKS, model: str = "personamem-chat", args: str = "model=m") -> Any:
    outcome = personamem("eval", "--tasks", tasks, "--model", model, "--model_args", args, "--estimate", *arguments)
    assert outcome.exit_code == 0, outcome.err
    return json.loads(outcome.out) if "--json" in arguments else outcome


def run(server: LoopbackChat, *arguments: object, tasks: str = TASKS) -> list[list[Message]]:
    """Run the same command; return the messages of each request, in the order in which they came."""
    model = f"model=m,base_url={server.url}/v1/chat/completions"
    outcome = personamem("eval", "--tasks", tasks, "--model", "personamem-chat", "--model_args", model, *arguments)
    assert outcome.exit_code == 0, outcome.err
    return [request.messages for request in server.requests]


def tokens(messages: list[Message]) -> int:
    return sum(num_tokens(message["content"]) + PER_MESSAGE for message in messages)


def shared(requests: list[list[Message]]) -> int:
    """Tokens of whole messages that each request has in common with the one before."""
    return sum(
        tokens([message for message, _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, before, strict=False))])
        for before, own in pairwise(requests)
    )


SELECTIONS: list[tuple[object, ...]] = [(), ("--limit", 3), ("--shard", "2/2", "--limit", 0.5)]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_requests_and_tokens_are_those_of_the_run(server: LoopbackChat, selection: tuple[object, ...]) -> None:
    whole, alone = estimated("--json", *selection)["tasks"]
    assert server.requests == []
    sent = run(server, *selection)
    with_history = [messages for messages in sent if len(messages) > 1]
    without = [messages for messages in sent if len(messages) == 1]
    assert (whole["requests"], alone["requests"]) == (len(with_history), len(without))
    assert whole["prompt_tokens"] == pytest.approx(sum(map(tokens, with_history)), rel=0.03)
    assert alone["prompt_tokens"] == pytest.approx(sum(map(tokens, without)), rel=0.03)
    assert whole["cached_tokens"] == pytest.approx(shared(with_history), rel=0.03)
    assert alone["cached_tokens"] == 0


@pytest.mark.parametrize("memory", ["oracle", "recent", "wrong-user"])
def test_conditions_are_counted_as_they_are_shown(server: LoopbackChat, memory: str) -> None:
    metadata = {"memory": memory, **({"settings": {"tokens": 500}} if memory == "recent" else {})}
    given, task = ("--metadata", json.dumps(metadata)), "personamem_32k_generate"
    (entry,) = estimated("--json", *given, tasks=task)["tasks"]
    sent = run(server, *given, tasks=task)
    tolerance = 0.1 if memory == "wrong-user" else 0.03  # another's history is as long as one's own only about
    assert entry["prompt_tokens"] == pytest.approx(sum(map(tokens, sent)), rel=tolerance)


def test_what_a_memory_system_shows_is_known_only_from_its_run(generated: Path, tmp_path: Path) -> None:
    arguments = ("eval", "--tasks", "personamem_32k_generate", "--model", "personamem-chat", "--model_args", "model=m")
    outcome = personamem(*arguments, "--estimate", "--metadata", '{"memory": "bm25"}')
    fails(outcome, "--estimate: what memory=bm25 shows is known only once it was run", "personamem memory run")
    pytest.importorskip("bm25s", reason="pip install '.[memory]'")
    store = tmp_path / "store"
    walked = personamem("memory", "run", "--system", "bm25", "--data", generated, "--split", "32k", "--out", store)
    assert walked.exit_code == 0
    from_store = ("--metadata", json.dumps({"store": str(store)}))
    (entry,) = estimated("--json", *from_store, tasks="personamem_32k_generate")["tasks"]
    (whole,) = estimated("--json", tasks="personamem_32k_generate")["tasks"]
    assert 0 < entry["prompt_tokens"] < whole["prompt_tokens"] / 3


# ---- dollars and hours


def test_a_price_and_limits_give_dollars_and_hours() -> None:
    limits = ("--price", "2,10,0.5", "--requests-per-minute", 4, "--tokens-per-minute", 1_000)
    found = estimated("--json", *limits)
    prompts, cached, replies, most = (
        sum(task[name] for task in found["tasks"])
        for name in ("prompt_tokens", "cached_tokens", "reply_tokens", "most_reply_tokens")
    )
    without = (2 * prompts + 10 * replies) / 1e6
    assert found["dollars"]["without_cache"] == pytest.approx(without)
    assert found["dollars"]["expected"] == pytest.approx(without - 1.5 * cached / 1e6)
    assert found["dollars"]["most"] == pytest.approx((2 * prompts + 10 * most) / 1e6)
    assert found["prices"] == [{"input": 2, "output": 10, "cached_input": 0.5, "source": "--price"}]
    assert found["hours"] == pytest.approx((prompts + replies) / 1_000 / 60)
    few = estimated("--json", "--requests-per-minute", 4)
    assert few["hours"] == pytest.approx(sum(task["requests"] for task in few["tasks"]) / 4 / 60)
    assert few["dollars"] is None


def test_a_configuration_of_generate_gives_prices_and_limits(tmp_path: Path) -> None:
    llm = "{prices: {m: {input: 3, output: 15}}, requests_per_minute: 2}"
    (tmp_path / "own.yaml").write_text(f"topics: [foodRecommendation]\nllm: {llm}\n")
    outcome = estimated("--llm-config", "own.yaml")
    assert (
        "price: m: $3 a million prompt tokens, $15 a million reply tokens, from llm.prices of own.yaml" in outcome.err
    )
    assert "no price of cached tokens is known" in outcome.err
    assert " hours at the limits" in outcome.out


def test_published_prices_are_for_prompts_of_this_length(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("genai_prices")
    args = "model=gpt-4o-mini"
    (price,) = estimated("--json", args=args)["prices"]
    assert 0 < price["cached_input"] < price["input"] < price["output"]
    assert price["source"].startswith("genai-prices ")
    elsewhere = f"{args},base_url=http://127.0.0.1:1/v1/chat/completions"
    assert estimated("--json", args=elsewhere)["prices"] == []
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert "no price of gpt-4o-mini is known: give --price" in estimated(args=args).err


def test_replies_are_letters_or_up_to_what_they_may_be() -> None:
    letters, writing = estimated("--json", tasks="personamem_32k_letters,personamem_32k_generate")["tasks"]
    assert letters["reply_tokens"] == letters["most_reply_tokens"] == 3 * letters["requests"]
    assert writing["most_reply_tokens"] == 2048 * writing["requests"]
    (short,) = estimated("--json", "--gen_kwargs", "max_gen_toks=100", tasks="personamem_32k_generate")["tasks"]
    assert short["most_reply_tokens"] == 100 * short["requests"]
    explained = ("--metadata", '{"explain": true}')
    (long,) = estimated("--json", *explained, tasks="personamem_32k_generate")["tasks"]
    assert long["reply_tokens"] > 5 * writing["reply_tokens"]


def test_questions_that_do_not_fit_are_told_or_left_out() -> None:
    (all_,) = estimated("--json", tasks="personamem_32k_generate")["tasks"]
    middle = all_["longest"] - 1_000
    args, task = f"model=m,max_length={middle}", "personamem_32k_generate"
    (told,) = estimated("--json", args=args, tasks=task)["tasks"]
    assert 0 < told["too_long"] < told["questions"] == all_["questions"]
    (skipped,) = estimated("--json", "--metadata", "overlength=skip", args=args, tasks=task)["tasks"]
    assert skipped["questions"] == all_["questions"] - told["too_long"]
    assert skipped["longest"] <= middle


def test_anthropic_s_endpoint_caches_nothing_that_is_not_marked() -> None:
    found = estimated("--json", model="personamem-anthropic", args="model=claude-sonnet-4-5")
    assert all(task["cached_tokens"] == 0 for task in found["tasks"])
    assert "this endpoint caches only what requests mark, and ours mark nothing" in found["notes"]


def test_a_file_of_arguments_is_taken_too(tmp_path: Path) -> None:
    Path("run.yaml").write_text(
        f"model: personamem-chat\nmodel_args: {{model: m}}\ntasks: [{TASKS.replace(',', ', ')}]\n"
    )
    outcome = personamem("eval", "--config", "run.yaml", "--estimate", "--json")
    assert json.loads(outcome.out) == estimated("--json")


# ---- local models


def config(folder: Path, **changes: object) -> Path:
    values = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64}
    (folder / "config.json").write_text(json.dumps({**values, "torch_dtype": "bfloat16", **changes}))
    return folder


def test_a_local_model_takes_tokens_and_memory(generated: Path, tmp_path: Path) -> None:
    args = f"pretrained={config(tmp_path)}"
    (hf,) = estimated("--json", tasks="personamem_32k", model="hf", args=args)["tasks"]
    prefix = estimated("--json", tasks="personamem_32k", model="hf-prefix", args=args)
    (entry,) = prefix["tasks"]
    rows = read_questions(generated, "32k").to_pylist()
    assert hf["requests"] == 4 * len(rows)
    assert hf["prompt_tokens"] == hf["computed_tokens"] == entry["prompt_tokens"]
    assert entry["computed_tokens"] == entry["distinct_tokens"] == hf["distinct_tokens"]
    store = ContextStore(generated)
    histories: dict[tuple[str, ...], int] = {}  # by all messages up to one, its tokens
    own = 0
    for row in rows:
        messages = store.messages(row["shared_context_id"], row["end_index_in_shared_context"])
        texts = [message["content"] for message in messages]
        histories |= {tuple(texts[: n + 1]): num_tokens(text) + PER_MESSAGE for n, text in enumerate(texts)}
        own += num_tokens(row["user_question_or_message"]) + sum(num_tokens(text) for text in option_texts(row))
    assert entry["distinct_tokens"] == pytest.approx(sum(histories.values()) + own, rel=0.03)
    assert hf["computed_tokens"] > 10 * entry["computed_tokens"]
    of_token = 2 * 4 * 2 * (64 // 8) * 2  # key and value, layers, key-value heads, width of a head, bytes
    assert prefix["kv_cache"] == {"bytes": of_token * entry["longest"], "tokens": entry["longest"], "dtype": "bfloat16"}


def test_contexts_that_begin_alike_are_computed_once(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = read_questions(dataset_folder, "32k").to_pylist()
    (entry,) = estimated("--json", "--metadata", f"data={dataset_folder}", tasks="personamem_32k", model="hf")["tasks"]
    monkeypatch.setattr("personamem_builder.evaluation.prompt_costs._MOST_COMPARED", 1)
    each = estimated("--json", "--metadata", f"data={dataset_folder}", tasks="personamem_32k", model="hf")
    assert any(note.startswith("histories that begin alike count each by itself") for note in each["notes"])
    store = ContextStore(dataset_folder)
    ends: dict[str, int] = {}
    for row in rows:
        ends[row["shared_context_id"]] = max(ends.get(row["shared_context_id"], 0), row["end_index_in_shared_context"])
    seen: set[tuple[str, ...]] = set()
    common = 0
    for context, end in ends.items():
        texts = [message["content"] for message in store.messages(context, end)]
        prefixes = [tuple(texts[: n + 1]) for n in range(len(texts))]
        common += sum(num_tokens(prefix[-1]) for prefix in prefixes if prefix in seen)
        seen |= set(prefixes)
    assert common > 1_000
    assert each["tasks"][0]["distinct_tokens"] - entry["distinct_tokens"] == pytest.approx(common, rel=0.1)


def test_a_model_that_is_not_here_has_no_memory_that_is_known() -> None:
    outcome = estimated(tasks="personamem_32k", model="hf-prefix", args="pretrained=ORG/NOT-HERE")
    assert "the configuration of ORG/NOT-HERE is not on this machine" in outcome.err
    assert "key-value cache" not in outcome.out


@pytest.mark.parametrize(
    ("changes", "dtype", "expected"),
    [
        ({}, "auto", 1000 * 4 * 64),
        ({}, "float32", 2 * 1000 * 4 * 64),
        ({"num_key_value_heads": None}, "auto", 4 * 1000 * 4 * 64),
        ({"head_dim": 16}, "auto", 2 * 1000 * 4 * 64),
        ({"sliding_window": 100}, "auto", 100 * 4 * 64),
        ({"sliding_window": 100, "use_sliding_window": False}, "auto", 1000 * 4 * 64),
        (
            {"sliding_window": 100, "layer_types": [*["sliding_attention"] * 3, "full_attention"]},
            "auto",
            (1000 + 3 * 100) * 64,
        ),
        ({"layer_types": [*["linear_attention"] * 3, "full_attention"]}, "auto", 1000 * 64),
    ],
)
def test_the_cache_is_that_of_the_layers(changes: dict[str, Any], dtype: str, expected: int) -> None:
    given = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64}
    found = kv_cache({**given, "dtype": "bfloat16", **changes}, dtype)
    assert found is not None
    assert found.bytes_of(1000) == expected


@pytest.mark.parametrize("changes", [{"kv_lora_rank": 512}, {"dtype": "int4"}, {"num_hidden_layers": None}])
def test_a_configuration_that_does_not_tell(changes: dict[str, Any]) -> None:
    given = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "dtype": "bfloat16"}
    assert kv_cache({**given, **changes}) is None


# ---- refused


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("--price", "2.5"), "--price '2.5' is not a price", "give dollars for a million tokens"),
        (("--price", "1,-2"), "--price '1,-2' is not a price", None),
        (("--tasks", "personamem_32k"), "personamem_32k needs log-likelihoods", "use --tasks personamem_32k_generate"),
        (("--tasks", f"{TASKS},{OTHER}"), f"--estimate is for personamem tasks, not for {OTHER}", None),
        (("--model", "personamem-floor"), "--estimate: personamem-floor asks no model", None),
        (("--model", "local-completions"), "--estimate knows chat endpoints and local models", None),
        (("--shard", "9/9"), "personamem_32k_generate: 9 parts are too many", None),
    ],
)
def test_what_cannot_be_estimated(arguments: tuple[str, ...], message: str, hint: str | None) -> None:
    given = ("--tasks", "personamem_32k_generate", "--model", "personamem-chat", "--model_args", "model=m")
    fails(personamem("eval", *given, "--estimate", *arguments), message, hint)


def test_what_belongs_to_estimates_is_refused_without_one() -> None:
    outcome = personamem("eval", "--tasks", TASKS, "--model", "personamem-chat", "--json")
    fails(outcome, "--json belongs to --estimate")
    assert not Path("results").exists()
