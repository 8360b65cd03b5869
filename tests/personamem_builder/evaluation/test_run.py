"""`personamem eval`: lm-eval's command line with our tasks, models and predictions."""

from __future__ import annotations

import json
import logging
import shutil
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from answering_lm import AnsweringChat, right
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from loopback_chat import LoopbackChat

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.dataset.load import iter_examples
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.evaluation.task_names import choose_tasks
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


def test_the_folder_of_a_local_model_has_the_last_part_of_its_path_and_the_results_the_whole() -> None:
    (path,) = run_lm_eval(
        ["--tasks", "personamem_32k", "--model", "dummy", "--model_args", "pretrained=/home/me/models/mine"]
    )
    assert path.parent == Path("results/mine")
    (results,) = path.parent.glob("results_*.json")
    assert json.loads(results.read_text(encoding="utf-8"))["model_name"] == "/home/me/models/mine"


def test_lm_eval_says_what_it_has_to_say_of_the_arguments_once(caplog: pytest.LogCaptureFixture) -> None:
    floor("personamem_32k", "longest", "--limit", "2")
    assert sum("--limit" in record.getMessage() for record in caplog.records) == 1


def test_git_says_nothing_where_there_is_no_repository(capfd: pytest.CaptureFixture[str]) -> None:
    floor("personamem_32k", "longest")
    assert "fatal" not in capfd.readouterr().err


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


@pytest.mark.slow
def test_the_longest_option_scores_what_the_issue_of_this_benchmark_says(
    official: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the official 32k questions are answered by taking the longest option."""
    monkeypatch.setenv("PERSONAMEM_DATA", str(official))
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


def test_use_cache_is_refused_with_where_answers_are_kept() -> None:
    """It knows an answer by the prompt alone, and keeps failures."""
    with pytest.raises(UserError, match=r"answers are kept in out/answers\.sqlite") as caught:
        floor("personamem_32k", "first", "--use_cache", "cache", "--output_path", "out")
    assert caught.value.hint == "leave it out; to ask anew, remove out/answers.sqlite"
    assert not Path("out").exists()
    Path("config.yaml").write_text("model: dummy\ntasks: [personamem_32k]\nuse_cache: cache\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"answers are kept in results/answers\.sqlite"):
        run_lm_eval(["--config", "config.yaml"])


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


# ---- names of tasks


def tasks_run(*tasks: str, more: tuple[str, ...] = ()) -> set[str]:
    (path,) = run_lm_eval(["--model", "dummy", "--limit", "1", "--tasks", *tasks, *more])
    return {json.loads(line)["task"] for line in path.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["personamem_32k, personamem_32k_letters"], {"personamem_32k", "personamem_32k_letters"}),
        ([" personamem_32k ,", ","], {"personamem_32k"}),
        (["personamem_32k", "personamem_32k"], {"personamem_32k"}),
        (["personamem_32k_gen*"], {"personamem_32k_generate", "personamem_32k_generate_nocontext"}),
        (["personamem_32k*s", "personamem_32k_l*"], {"personamem_32k_letters", "personamem_32k_letters_nocontext"}),
    ],
)
def test_names_of_tasks_are_trimmed_and_expanded(names: list[str], expected: set[str]) -> None:
    assert tasks_run(*names) == expected


def test_a_config_file_may_list_patterns() -> None:
    Path("config.yaml").write_text("model: dummy\ntasks: ['personamem_32k_l* ', 'personamem_32k,']\n", encoding="utf-8")
    (path,) = run_lm_eval(["--config", "config.yaml", "--limit", "1"])
    found = {json.loads(line)["task"] for line in path.read_text(encoding="utf-8").splitlines()}
    assert found == {"personamem_32k", "personamem_32k_letters", "personamem_32k_letters_nocontext"}


@pytest.mark.parametrize(
    ("given", "chosen", "single"),
    [
        ("personamem", ["personamem"], ["personamem_32k", "personamem_128k", "personamem_1M"]),
        ("personamem, personamem_32k", ["personamem"], ["personamem_32k", "personamem_128k", "personamem_1M"]),
        ("personamem_32k,personamem", ["personamem"], ["personamem_32k", "personamem_128k", "personamem_1M"]),
        (
            "personamem_letters",
            ["personamem_128k_letters", "personamem_1M_letters", "personamem_32k_letters"],
            ["personamem_128k_letters", "personamem_1M_letters", "personamem_32k_letters"],
        ),
    ],
)
def test_groups_and_tags_name_their_tasks_once(given: str, chosen: list[str], single: list[str]) -> None:
    found = choose_tasks(given, [str(data_dir("lm_eval_tasks"))])
    assert (found.names, sorted(found.output_types), found.built_in) == (chosen, sorted(single), False)
    assert set(found.output_types.values()) == {"multiple_choice"}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("PersonaMem_32k", "personamem_32k"),
        ("personamem_32k_generated", "personamem_32k_generate"),
        ("personamem-32k", "personamem_32k"),
        ("personamem_letter", "personamem_letters"),
    ],
)
def test_a_misspelt_task_is_an_error_that_names_those_like_it(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"no task {name} \\(near: .*{near}") as caught:
        run_lm_eval(["--model", "dummy", "--tasks", f"personamem_32k,{name},personamem_x_y"])
    assert "personamem_x_y" in caught.value.message


@pytest.mark.parametrize("tasks", ["[1]", "[[personamem_32k]]", "{a: b}", "3"])
def test_tasks_of_another_type_are_an_error(tasks: str) -> None:
    Path("config.yaml").write_text(f"model: dummy\ntasks: {tasks}\n", encoding="utf-8")
    with pytest.raises(UserError, match="is not the name of a task"):
        run_lm_eval(["--config", "config.yaml"])


@pytest.mark.parametrize("tasks", [",", " ", "", " , ,"])
def test_names_that_are_blank_name_no_task(tasks: str) -> None:
    with pytest.raises(UserError, match="no task is named"):
        run_lm_eval(["--model", "dummy", "--tasks", tasks])


def test_a_task_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UserError, match=r"no task nowhere\.yaml"):
        run_lm_eval(["--model", "dummy", "--tasks", "nowhere.yaml"])


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ("personamem_32k_generate, personamem_32k_l*", "personamem_32k_letters"),
        ("personamem", "personamem_32k"),
        ("personamem_nocontext", "personamem_128k_nocontext"),
    ],
)
def test_a_chat_model_is_refused_by_what_the_names_stand_for(given: str, refused: str) -> None:
    with pytest.raises(UserError, match=f"{refused} needs log-likelihoods"):
        run_lm_eval(["--model", "chat-for-tests", "--tasks", given])


def test_a_chat_model_runs_the_generate_tasks_that_a_pattern_names() -> None:
    AnsweringChat.answer = right
    (path,) = run_lm_eval(["--model", "chat-for-tests", "--tasks", "personamem_32k_gen*", "--limit", "1"])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


# ---- flags


@pytest.mark.parametrize("task", ["personamem_32k", "personamem_32k_generate"])
def test_predict_only_gives_no_score(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows, results = floor(task, "longest", "--predict_only")
    assert len(rows) == 17
    assert [row["credits"] for row in rows] == [{}] * 17
    assert all(letter for row in rows for letter in row["predictions"].values())
    assert not [name for name in results["results"][task] if name.startswith(("acc", "bypass", "invalid"))]
    assert "acc" not in capsys.readouterr().out


@pytest.mark.parametrize("given", ["1", "2"])
def test_few_shot_examples_are_refused(given: str) -> None:
    with pytest.raises(UserError, match=f"--num_fewshot {given}: personamem_32k has no few-shot examples"):
        floor("personamem_32k", "first", "--num_fewshot", given)


def test_no_few_shot_examples_may_be_asked_for() -> None:
    assert floor("personamem_32k", "first", "--num_fewshot", "0")[1]["n-shot"] == {"personamem_32k": 0}


@pytest.mark.parametrize("text", ["tasks: 2021-13-45", "- a", "tasks: [personamem_32k]\ntasks: [x]", "a: &a [*a]"])
def test_a_damaged_config_file_is_an_error_that_names_it(text: str) -> None:
    Path("config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.yaml"):
        run_lm_eval(["--config", "config.yaml"])


# ---- keys

KEY = "sk-2f7a9c0e4b6d8f1a3c5e"


def everything_written() -> str:
    return "".join(
        path.read_bytes().decode("utf-8", "replace") + str(path)
        for path in Path("results").rglob("*")
        if path.is_file()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"api_key": KEY},
        {"auth_token": KEY},
        {"header": {"Authorization": f"Bearer {KEY}"}},
        {"header": {"X-Company-Token": KEY}},
        {"base_url": f"http://someone:{KEY}@127.0.0.1/v1"},
    ],
    ids=str,
)
def test_keys_among_the_arguments_of_a_model_are_shown_nowhere(
    arguments: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    AnsweringChat.answer = right
    config = {
        "model": "chat-for-tests",
        "model_args": {"model": "m", **arguments},
        "tasks": ["personamem_32k_generate_nocontext"],
        "output_path": "results",
    }
    Path("config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    run_lm_eval(["--config", "config.yaml", "--limit", "1", "--log_samples"])
    printed = capfd.readouterr()
    assert KEY not in everything_written()
    assert KEY not in printed.out + printed.err
    assert "model" in everything_written()


def test_keys_are_in_no_traceback_of_a_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def answer(doc: dict[str, Any]) -> Any:
        try:
            raise RuntimeError(f"asked with {KEY}")
        except RuntimeError:
            logging.getLogger("lm_eval").exception("it failed")
        return right(doc)

    AnsweringChat.answer = answer
    arguments = ["--model", "chat-for-tests", "--tasks", "personamem_32k_generate_nocontext", "--limit", "1"]
    run_lm_eval([*arguments, "--output_path", "results"])
    assert "RuntimeError: asked with [redacted]" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("concurrent", [1, 3])
@pytest.mark.parametrize("status", [HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY])
def test_keys_are_in_no_error_or_log_of_lm_evals_backends(
    concurrent: int,
    status: HTTPStatus,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with LoopbackChat(status) as chat:
        model = f"model=m,base_url={chat.url}/v1/chat/completions,max_retries=1,num_concurrent={concurrent}"
        tasks = ["--tasks", "personamem_32k_generate_nocontext", "--limit", "2"]
        with pytest.raises(UserError, match=f"the endpoint failed: .*{status.value}") as caught:
            run_lm_eval(["--model", "local-chat-completions", "--model_args", model, *tasks])
    printed = capfd.readouterr()
    assert KEY not in str(caught.value) + printed.out + printed.err
    assert KEY not in everything_written()
