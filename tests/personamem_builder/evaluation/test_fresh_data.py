"""Evaluation on data made on demand, through every way to start lm-eval."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from small_runs import TINY

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.build.on_demand import fresh_source, read_recipe
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.results.runs import read_runs

Python = Callable[..., Any]

FLOOR = ("--model", "personamem-floor", "--model_args", "policy=random,seed=3")
SETTINGS = [f"{setting}{context}" for setting in ("", "_letters", "_generate") for context in ("", "_nocontext")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data are made, once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def workplace(cache: Path, tmp_path: Path, dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a configuration; the environment names other data, which are not meant."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(cache))
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    monkeypatch.chdir(tmp_path)
    shutil.copy(TINY, "mine.yaml")


def results(path: Path) -> dict[str, Any]:
    name = path.name.replace("predictions", "results").replace(".jsonl", ".json")
    return json.loads(path.with_name(name).read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def metadata_of(path: Path, task: str = "personamem_32k") -> dict[str, Any]:
    return results(path)["configs"][task]["metadata"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("metadata", ['{"config": "mine.yaml", "seed": 7}', "config=mine.yaml,seed=7"])
def test_results_name_configuration_seed_fingerprint_and_digest(metadata: str) -> None:
    (path,) = run_lm_eval(["--tasks", "personamem_32k", *FLOOR, "--metadata", metadata])
    named = metadata_of(path)
    digest = fresh_source(read_recipe("mine.yaml", 7), "32k").digest
    assert (named["config"], named["seed"], named["data_digest"]) == ("mine.yaml", 7, digest)
    assert named["config_fingerprint"] == read_recipe("mine.yaml", 7).fingerprint
    assert named["data"].startswith("made from mine.yaml, seed 7, fingerprint ")
    assert len(path.read_text(encoding="utf-8").splitlines()) > 30
    (run,) = read_runs([Path("results")]).runs
    assert run.data_digest == digest


def test_every_setting_runs_on_the_same_data() -> None:
    tasks = [f"personamem_32k{setting}" for setting in SETTINGS]
    (path,) = run_lm_eval(
        ["--tasks", ",".join(tasks), "--model", "dummy", "--limit", "2", "--metadata", '{"config": "mine.yaml"}']
    )
    assert len({metadata_of(path, task)["data_digest"] for task in tasks}) == 1
    assert {metadata_of(path, task)["seed"] for task in tasks} == {7}


def test_the_models_own_seed_does_not_choose_the_data() -> None:
    (path,) = run_lm_eval(["--tasks", "personamem_32k", *FLOOR, "--metadata", '{"config": "mine.yaml"}'])
    assert metadata_of(path)["seed"] == 7
    assert results(path)["config"]["model_args"]["seed"] == 3


def test_the_models_own_seed_is_no_error_without_a_configuration(dataset_folder: Path) -> None:
    (path,) = run_lm_eval(["--tasks", "personamem_32k", *FLOOR])
    assert metadata_of(path)["data"] == str(dataset_folder)


@pytest.mark.parametrize("metadata", ["{config: mine.yaml}", "config=mine.yaml", "{config: mine.yaml, seed: 7}"])
def test_a_config_file_of_lm_eval_may_hold_the_metadata(metadata: str) -> None:
    Path("eval.yaml").write_text(
        "model: personamem-floor\nmodel_args: {policy: random, seed: 3}\ntasks: [personamem_32k]\n"
        f"metadata: {metadata}\n",
        encoding="utf-8",
    )
    (path,) = run_lm_eval(["--config", "eval.yaml"])
    assert metadata_of(path)["config"] == "mine.yaml"
    assert metadata_of(path)["seed"] == 7


def test_the_task_manager_of_lm_eval_takes_them_too() -> None:
    manager = TaskManager(
        include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata={"config": str(TINY), "seed": 7}
    )
    got = simple_evaluate(model="dummy", tasks=["personamem_32k"], task_manager=manager, limit=1, bootstrap_iters=1)
    named = got["configs"]["personamem_32k"]["metadata"]
    assert (named["config"], named["seed"]) == (str(TINY), 7)


@pytest.mark.slow
def test_the_plain_command_gives_the_same_data_with_another_cache(python: Python) -> None:
    command = "from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
    python(
        command,
        *("--model", "dummy", "--tasks", "personamem_32k_letters", "--limit", "2", "--output_path", "plain"),
        *("--include_path", str(data_dir("lm_eval_tasks")), "--metadata", '{"config": "mine.yaml", "seed": 7}'),
    )
    (path,) = Path("plain").rglob("results_*.json")
    named = json.loads(path.read_text(encoding="utf-8"))["configs"]["personamem_32k_letters"]["metadata"]
    assert named["data_digest"] == fresh_source(read_recipe("mine.yaml", 7), "32k").digest


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ('{"seed": 7}', "seed=7 without config"),
        ('{"config": "mine.yaml", "data": "personamem"}', "has both config=mine.yaml and data=personamem"),
        ('{"config": "mine.yaml", "seed": "seven"}', "seed='seven' is not a whole number"),
        ('{"config": "yours.yaml"}', "yours.yaml: No such file"),
    ],
)
def test_a_faulty_recipe_is_an_error_before_the_model_is_loaded(metadata: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        # Loading would notice that there is no such policy.
        run_lm_eval(["--tasks", "personamem_32k", *FLOOR[:3], "policy=none", "--metadata", metadata])


def test_a_split_that_cannot_be_filled_is_an_error_of_the_command() -> None:
    ended = personamem("eval", "--tasks", "personamem_1M", *FLOOR, "--metadata", "config=mine.yaml")
    assert ended.exit_code == 1
    assert "error: mine.yaml, seed 7: persona 0 cannot fill the split 1M" in ended.err
    assert "hint: raise `fillers`" in ended.err
    assert "Traceback" not in ended.err
