"""`personamem eval`: lm-eval's command line with our tasks, models and predictions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from generation.errors import UserError
from personamem_builder.dataset.load import iter_examples
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.policies import POLICIES


@pytest.fixture(autouse=True)
def workplace(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.chdir(tmp_path)


def floor(tasks: str, policy: str, *more: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run a floor; return its predictions and its results."""
    (path,) = run_lm_eval(["--tasks", tasks, "--model", "personamem-floor", "--model_args", f"policy={policy}", *more])
    results = path.with_name(path.name.replace("predictions", "results").replace(".jsonl", ".json"))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return rows, json.loads(results.read_text(encoding="utf-8"))


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_scores_the_same_in_all_settings_but_for_ties(policy: str) -> None:
    rows, results = floor("personamem_32k,personamem_32k_letters,personamem_32k_generate", policy)
    scores = results["results"]
    assert scores["personamem_32k"]["acc,none"] == scores["personamem_32k_letters"]["acc,none"]
    by_question = {row["question_id"]: row["credits"]["acc"] for row in rows if row["task"] == "personamem_32k"}
    for row in rows:
        if row["task"] == "personamem_32k_generate":
            shared = by_question[row["question_id"]]
            assert row["credits"]["robust"] == row["credits"]["v1_parity"]
            assert row["credits"]["robust"] == shared or 0 < shared < 1


def test_results_and_predictions_lie_side_by_side_in_a_folder_named_after_the_model() -> None:
    floor("personamem_32k", "longest")
    names = sorted(path.name for path in Path("results/personamem-floor-longest").iterdir())
    assert [name.partition("_")[0] for name in names] == ["predictions", "results"]
    assert len({name.partition("_")[2].rpartition(".")[0] for name in names}) == 1


def test_a_prediction_row_holds_what_a_report_needs_and_no_prompt() -> None:
    rows, results = floor("personamem_32k", "longest")
    examples = {row["question_id"]: row for row in iter_examples("32k")}
    assert {row["question_id"] for row in rows} == set(examples)
    for row in rows:
        example = examples[row["question_id"]]
        assert row["answer"] == example["correct_answer"].strip("()")
        assert row["option_logprobs"] == POLICIES["longest"]([example], 0)(example)
        assert row["option_tokens"] is None
        assert row["credits"].keys() == row["predictions"].keys() == {"acc"}
        assert len(json.dumps(row)) < 2_000_000 / 589
    mean = sum(row["credits"]["acc"] for row in rows) / len(rows)
    assert results["results"]["personamem_32k"]["acc,none"] == pytest.approx(mean)


def test_prompts_are_logged_only_if_asked_for() -> None:
    floor("personamem_32k", "longest", "--log_samples", "--output_path", "logged")
    assert list(Path("logged").rglob("samples_personamem_32k_*.jsonl"))
    floor("personamem_32k", "longest", "--output_path", "plain")
    assert not list(Path("plain").rglob("samples_*"))


def test_the_output_path_may_name_a_file_as_lm_eval_allows() -> None:
    run_lm_eval(["--tasks", "personamem_32k", "--model", "personamem-floor", "--output_path", "out/run.json"])
    assert len(list(Path("out").glob("run_*.json"))) == len(list(Path("out").glob("predictions_*.jsonl"))) == 1


def test_a_config_file_works_as_in_lm_eval() -> None:
    config = "model: personamem-floor\nmodel_args: {policy: first}\ntasks: [personamem_32k]\noutput_path: from_config\n"
    Path("config.yaml").write_text(config, encoding="utf-8")
    (path,) = run_lm_eval(["--config", "config.yaml"])
    assert path.parts[0] == "from_config"


def test_tasks_of_the_user_are_found_beside_ours() -> None:
    Path("mine").mkdir()
    task = Path("mine/mine.yaml")
    template = (Path(__file__).parents[3] / "lm_eval_tasks" / "_default_yaml").resolve()
    task.write_text(f"include: {template}\ntask: personamem_mine\ntest_split: 32k\n", encoding="utf-8")
    rows, _ = floor("personamem_32k,personamem_mine", "longest", "--include_path", "mine")
    assert {row["task"] for row in rows} == {"personamem_32k", "personamem_mine"}


def test_the_dummy_model_runs() -> None:
    (path,) = run_lm_eval(["--tasks", "personamem_32k,personamem_32k_generate_nocontext", "--model", "dummy"])
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 34
    assert {row["predictions"].get("robust", "") for row in rows} == {"", None}


def test_an_unknown_policy_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="no policy 'widest'") as caught:
        floor("personamem_32k", "widest")
    assert "longest, shortest" in caught.value.hint


def test_an_unknown_task_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="no task personamem_64k") as caught:
        floor("personamem_64k", "longest")
    assert "personamem_32k_letters" in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--model", "dumy", "--tasks", "personamem_32k"], "dumy"), (["--model", "dummy"], "no task is named")],
)
def test_arguments_that_lm_eval_refuses_are_an_error_without_a_traceback(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_lm_eval(arguments)


def test_a_missing_split_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(UserError, match="no split '128k', it has 32k"):
        floor("personamem_128k", "longest")


def test_the_longest_option_scores_what_the_issue_of_this_benchmark_says(
    release_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the official 32k questions are answered by taking the longest option."""
    from personamem_builder.dataset.official import import_release

    import_release(release_dir, tmp_path / "official")
    monkeypatch.setenv("PERSONAMEM_DATA", str(tmp_path / "official"))
    rows, results = floor("personamem_32k", "longest")
    assert results["results"]["personamem_32k"]["acc,none"] == pytest.approx(0.505, abs=5e-4)
    assert len(rows) == 589
    assert sum(path.stat().st_size for path in Path("results").rglob("predictions_*")) < 2_000_000


@pytest.mark.parametrize(
    ("model_args", "message"),
    [("polcy=shortest", "no argument polcy"), ("policy=random,seed=abc", "seed=abc is not a whole number")],
)
def test_a_misspelt_floor_argument_is_an_error(model_args: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_lm_eval(["--tasks", "personamem_32k", "--model", "personamem-floor", "--model_args", model_args])


def test_a_result_cache_does_not_go_with_a_floor() -> None:
    with pytest.raises(UserError, match="--use_cache does not go with personamem-floor"):
        floor("personamem_32k", "first", "--use_cache", "cache")


def test_a_dataset_that_differs_from_its_manifest_is_not_scored(dataset_folder: Path) -> None:
    shutil.copytree(dataset_folder, "changed")
    with Path("changed/data/questions_32k.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=r"questions_32k\.parquet is not what the manifest says"):
        floor("personamem_32k", "first", "--metadata", "data=changed")


def test_an_output_path_that_cannot_be_written_is_an_error_before_the_run() -> None:
    Path("file").touch()
    with pytest.raises(UserError, match="cannot be written to"):
        floor("personamem_32k", "first", "--output_path", "file/results")


@register_model("narrow-for-tests")
class NarrowLM(LM):
    """A model with a small window, whose tokens are words."""

    max_length = 2047

    def __init__(self, **_: Any) -> None:
        super().__init__()

    def tok_encode(self, text: str, **_: Any) -> list[str]:
        return text.split()

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        raise AssertionError("nothing should be asked of it")

    loglikelihood_rolling = generate_until = loglikelihood


def test_the_model_is_known_to_the_task_without_a_chat_template() -> None:
    """Else lm-eval's API backends would cut to 2,047 tokens in silence."""
    with pytest.raises(UserError, match="17 of 17 questions are too long for the model: its window is 2047"):
        run_lm_eval(["--tasks", "personamem_32k", "--model", "narrow-for-tests"])
