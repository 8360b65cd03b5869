from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.results.files import ReadRuns
from personamem_builder.results.runs import Run, read_runs
from personamem_builder.results.shown import Subset

DATE = "2026-11-27T10-11-12.123456"
LATER = "2026-11-28T10-11-12.123456"


def prediction(task: str, question: str, **changes: Any) -> dict[str, Any]:
    line = {
        "task": task,
        "question_id": question,
        "persona_id": 3,
        "question_type": "recall_user_shared_facts",
        "shared_context_id": "s",
        "answer": "c",
        "n_options": 4,
        "option_logprobs": [-1.0, -2.0, -0.5, -3.0],
        "option_tokens": None,
        "predictions": {"acc": "c"},
        "credits": {"acc": 1.0},
        "skipped": False,
        "truncated": False,
    }
    return line | changes


def sample(question: str, **changes: Any) -> dict[str, Any]:
    row = {
        "doc_id": 0,
        "doc": {
            "question_id": question,
            "persona_id": 3,
            "question_type": "recall_user_shared_facts",
            "all_options": ["(a) A", "(b) B", "(c) C", "(d) D"],
            "answer_index": 2,
        },
        "filter": "none",
        "filtered_resps": [["-1.0", "False"]] * 4,
        "metrics": ["acc", "acc_per_token", "skipped", "truncated"],
        "acc": 1.0,
        "acc_per_token": 0.5,
        "skipped": False,
        "truncated": False,
    }
    return row | changes


def write_results(folder: Path, tasks: list[str], date: str = DATE, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "results": {task: {"acc,none": 1.0} for task in tasks},
        "configs": {task: {"task": task, "metadata": {"data_digest": "abc"}} for task in tasks},
        "config": {"model": "hf", "model_args": {"pretrained": "org/model"}, "limit": None},
        "model_name": "org/model",
        "date": 1.5,
    }
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(results | changes), encoding="utf-8")
    return path


def write_lines(path: Path, lines: list[Any]) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def write_run(folder: Path, lines: list[Any], date: str = DATE, **changes: Any) -> Path:
    tasks = sorted({line["task"] for line in lines if isinstance(line, dict)})
    path = write_results(folder, tasks, date, **changes)
    write_lines(folder / f"predictions_{date}.jsonl", lines)
    return path


def error_of(*paths: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        read_runs(paths)
    return caught.value


def only(reading: ReadRuns[Run]) -> Any:
    (run,) = reading.runs
    return run


def test_a_run_is_read_with_its_answers(tmp_path):
    lines = [
        prediction("personamem_32k", "q1"),
        prediction("personamem_32k", "q2", credits={"acc": 0.5}, question_type="generalizing_to_new_scenarios"),
        prediction("personamem_32k", "q3", credits={"acc": 0.0}, predictions={"acc": None}),
        prediction("personamem_32k", "q4", credits={"acc": 0.0}, predictions={"acc": None}, skipped=True),
    ]
    path = write_run(tmp_path / "org__model", lines)
    run = only(read_runs([tmp_path]))
    assert (run.model, run.backend, run.task, run.data_digest) == ("org/model", "hf", "personamem_32k", "abc")
    assert (run.limit, run.date, run.path, run.is_floor) == (None, DATE, path, False)
    assert run.model_args == (("pretrained", "org/model"),)
    assert [answer.credits["acc"] for answer in run.answers.values()] == [1.0, 0.5, 0.0, 0.0]
    assert [set(answer.invalid) for answer in run.answers.values()] == [set(), set(), {"acc"}, set()]
    assert run.answers["q4"].skipped
    assert run.answers["q2"].question_type == "generalize_to_new_scenarios"


def test_a_file_named_twice_and_in_its_folder_is_read_once(tmp_path):
    path = write_run(tmp_path, [prediction("personamem_32k", "q1")])
    assert len(read_runs([path, tmp_path, path]).runs) == 1


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model": "personamem-floor", "model_args": {"policy": "longest"}}, "floor: longest"),
        ({"model": "personamem-floor", "model_args": "policy=shortest,seed=1"}, "floor: shortest"),
        ({"model": "hf", "model_args": "pretrained=a/b,dtype=float16"}, "a/b"),
        ({"model": "hf", "model_args": {"pretrained": "a/b", "peft": "c"}}, "a/b + c"),
        ({"model": "local-chat-completions", "model_args": {"model": "gpt"}}, "gpt"),
        ({"model": "dummy", "model_args": None}, "named"),
    ],
)
def test_models_are_named_by_what_answered(tmp_path, config, name):
    write_run(tmp_path, [prediction("personamem_32k", "q1")], config=config, model_name="named")
    run = only(read_runs([tmp_path]))
    assert run.model == name
    assert run.is_floor == name.startswith("floor")


def test_the_newest_of_two_runs_counts_and_the_note_names_the_other(tmp_path):
    old = write_run(tmp_path, [prediction("personamem_32k", "old")])
    new = write_run(tmp_path, [prediction("personamem_32k", "new")], LATER)
    reading = read_runs([tmp_path])
    assert list(only(reading).answers) == ["new"]
    (note,) = reading.notes
    assert str(old) in note
    assert str(new) in note


def test_a_newer_partial_run_does_not_hide_a_whole_one(tmp_path):
    config = {"model": "hf", "model_args": {"pretrained": "org/model"}, "limit": 1.0}
    write_run(tmp_path, [prediction("personamem_32k", "whole")])
    write_run(tmp_path, [prediction("personamem_32k", "partial")], LATER, config=config)
    reading = read_runs([tmp_path])
    assert list(only(reading).answers) == ["whole"]
    assert "partial run" in reading.notes[0]


def test_runs_with_other_arguments_or_data_all_count(tmp_path):
    lines = [prediction("personamem_32k", "q1")]
    write_run(tmp_path / "a", lines)
    write_run(tmp_path / "b", lines, config={"model": "hf", "model_args": "pretrained=org/model,dtype=float16"})
    write_run(tmp_path / "c", lines, configs={"personamem_32k": {"metadata": {"data_digest": "other"}}})
    reading = read_runs([tmp_path])
    assert len(reading.runs) == 3
    assert reading.notes == []


def test_a_run_on_a_subset_hides_no_whole_run_and_files_with_the_same_questions_are_one(tmp_path):
    lines = [prediction("personamem_32k", "q1")]

    def configs(file, sha256):
        subset = {"subset": f"lists/{file}", "subset_size": 24, "subset_sha256": sha256}
        return {"personamem_32k": {"metadata": {"data_digest": "abc", **subset}}}

    write_run(tmp_path / "whole", lines)
    write_run(tmp_path / "hard", lines, LATER, configs=configs("hard.json", "aa"))
    write_run(tmp_path / "easy", lines, LATER, configs=configs("hard.json", "bb"))
    older = write_run(tmp_path / "older", lines, configs=configs("copy.txt", "aa"))
    reading = read_runs([tmp_path])
    assert {run.subset for run in reading.runs} == {
        None,
        Subset("hard.json", 24, "aa"),
        Subset("hard.json", 24, "bb"),
    }
    (note,) = reading.notes
    assert str(older) in note


def test_a_run_with_another_history_hides_none_with_the_users_own(tmp_path):
    lines = [prediction("personamem_32k", "q1")]

    def write(folder, date, **metadata):
        configs = {"personamem_32k": {"metadata": {"data_digest": "abc", **metadata}}}
        return write_run(tmp_path / folder, lines, date, configs=configs)

    older = write("before_there_were_others", DATE)
    write("full", LATER, memory="full")
    write("wrong", LATER, memory="wrong-user")
    write("oracle", LATER, memory="oracle")
    reading = read_runs([tmp_path])
    assert sorted(run.shown.memory for run in reading.runs) == ["full", "oracle", "wrong-user"]
    (note,) = reading.notes
    assert str(older) in note


def test_samples_of_plain_lm_eval_are_read(tmp_path):
    write_results(tmp_path, ["personamem_32k", "personamem_32k_generate"])
    too_long = {"acc": 0.0, "acc_per_token": 0.0, "skipped": True}
    write_lines(tmp_path / f"samples_personamem_32k_{DATE}.jsonl", [sample("q1"), sample("q2", **too_long)])
    generated = [
        sample("q1", filter="robust", filtered_resps=["c"], acc_per_token=None),
        sample("q2", filter="robust", filtered_resps=["None"], acc=0.0, acc_per_token=None),
        sample("q1", filter="v1_parity", filtered_resps=["ac"], acc_per_token=None),
        sample("q2", filter="v1_parity", filtered_resps=["e"], acc=0.0, acc_per_token=None),
    ]
    write_lines(tmp_path / f"samples_personamem_32k_generate_{DATE}.jsonl", generated)
    likelihood, generate = read_runs([tmp_path]).runs
    assert likelihood.scores == ["acc", "acc_per_token"]
    assert likelihood.answers["q1"].credits == {"acc": 1.0, "acc_per_token": 0.5}
    assert likelihood.answers["q2"].skipped
    assert generate.scores == ["robust", "v1_parity"]
    assert generate.answers["q1"].invalid == set()
    assert generate.answers["q2"].invalid == {"robust", "v1_parity"}
    assert generate.answers["q1"].n_options == 4


def test_numbers_that_lm_eval_writes_its_own_way_are_read(tmp_path):
    # json.dumps writes NaN for an unknown standard error, and metrics may be floats.
    write_results(tmp_path, ["personamem_32k"], results={"personamem_32k": {"acc_stderr,none": float("nan")}})
    too_long = sample("q1", acc=0.0, acc_per_token=0.0, skipped=1.0, truncated=0.0)
    write_lines(tmp_path / f"samples_personamem_32k_{DATE}.jsonl", [too_long])
    answer = only(read_runs([tmp_path])).answers["q1"]
    assert (answer.skipped, answer.truncated) == (True, False)


def test_results_without_answers_say_how_to_get_them(tmp_path):
    path = write_results(tmp_path, ["personamem_32k"])
    error = error_of(tmp_path)
    assert str(path) in error.message
    assert f"samples_personamem_32k_{DATE}.jsonl" in error.message
    assert "personamem eval" in error.hint
    assert "--log_samples" in error.hint


def test_all_faults_of_all_files_are_collected(tmp_path):
    bad = [
        prediction("personamem_32k", "q1"),
        '{"task": "personamem_32k", "question_id": "q2", "per',
        prediction("personamem_32k", "q1"),
        {"task": "personamem_32k", "question_id": "q3"},
        prediction("personamem_32k", "q4", credits={"acc": 1.5}),
        prediction("personamem_32k", "q5", credits={"acc": float("nan")}),
        prediction("personamem_32k", "q6", question_type="small talk"),
        prediction("personamem_32k", "q7", predictions={}),
        prediction("personamem_32k", "q8", skipped=True),
    ]
    write_run(tmp_path / "a", bad)
    (tmp_path / "b").mkdir()
    broken = tmp_path / "b" / f"results_{DATE}.json"
    broken.write_text('{"results": {}}', encoding="utf-8")
    error = error_of(tmp_path, tmp_path / "absent")
    predictions = tmp_path / "a" / f"predictions_{DATE}.jsonl"
    for line, what in [
        (2, "is not JSON"),
        (3, "'q1' appears twice"),
        (4, "persona_id: Field required"),
        (5, "credits.acc"),
        (6, "credits.acc"),
        (7, "unknown question type 'small talk'"),
        (8, "no prediction for acc"),
        (9, "skipped"),
    ]:
        place = f"{predictions}, line {line}"
        assert any(text.startswith(place) and what in text for text in error.message.splitlines())
    assert f"{broken} is not a results file of lm-eval: config: Field required" in error.message
    assert f"{tmp_path / 'absent'}: no such file or folder" in error.message
    assert error.hint.count("run `personamem eval` again") == 1


def test_many_faults_are_cut_short(tmp_path):
    write_run(tmp_path, [prediction("personamem_32k", "q1"), *["{"] * 50])
    assert error_of(tmp_path).message.endswith("and 30 more")


def test_a_score_that_some_questions_lack_is_a_fault_unless_they_were_skipped(tmp_path):
    both = {"credits": {"acc": 1.0, "x": 1.0}, "predictions": {"acc": "a", "x": "a"}}
    none = {"credits": {"acc": 0.0}, "predictions": {"acc": None}, "skipped": True}
    write_run(tmp_path, [prediction("t", "q1", **both), prediction("t", "q2", **none)])
    assert only(read_runs([tmp_path])).answers["q2"].credits == {"acc": 0.0, "x": 0.0}
    write_run(tmp_path, [prediction("t", "q1", **both), prediction("t", "q2")])
    assert "'q2' of t lacks the score x" in error_of(tmp_path).message


def test_a_task_without_answers_is_a_fault_and_hides_no_other(tmp_path):
    configs = {"personamem_32k": {}, "personamem_32k_nocontext": {}}
    write_run(tmp_path, [prediction("personamem_32k", "q1")], configs=configs)
    reading = read_runs([tmp_path])
    assert only(reading).task == "personamem_32k"
    assert "no answers to task personamem_32k_nocontext" in reading.unreadable[0].message


def test_missing_answers_are_noted(tmp_path):
    samples = {"personamem_32k": {"original": 589, "effective": 2}}
    write_run(tmp_path, [prediction("personamem_32k", "q1")], **{"n-samples": samples})
    assert "1 of 2 questions" in read_runs([tmp_path]).notes[0]


def test_a_run_that_lacks_answers_is_a_partial_one(tmp_path):
    lines = [prediction("personamem_32k", "q1"), prediction("personamem_32k", "q2")]
    samples = {"personamem_32k": {"original": 589, "effective": 589}}
    write_run(tmp_path, lines, **{"n-samples": samples})
    assert only(read_runs([tmp_path])).limit == 2


def test_a_limit_beyond_the_last_question_leaves_none_out(tmp_path):
    config = {"model": "hf", "model_args": {"pretrained": "org/model"}, "limit": 1000}
    samples = {"personamem_32k": {"original": 1, "effective": 1}}
    write_run(tmp_path, [prediction("personamem_32k", "q1")], config=config, **{"n-samples": samples})
    assert only(read_runs([tmp_path])).limit is None


def test_what_analyses_need_is_read(tmp_path):
    path = write_run(tmp_path / "ours", [prediction("personamem_32k", "q1", option_tokens=[3, 4, 1, 2])])
    answer = only(read_runs([path])).answers["q1"]
    assert (answer.answer, answer.predictions) == ("c", {"acc": "c"})
    assert (answer.option_logprobs, answer.option_tokens) == ((-1.0, -2.0, -0.5, -3.0), (3, 4, 1, 2))
    write_results(tmp_path / "theirs", ["personamem_32k"])
    scores = [["-1.5", "False", "3"], ["-2.5", "False", "10"], ["-9", "False", "3"], ["-9", "False", "3"]]
    write_lines(tmp_path / "theirs" / f"samples_personamem_32k_{DATE}.jsonl", [sample("q1", filtered_resps=scores)])
    answer = only(read_runs([tmp_path / "theirs"])).answers["q1"]
    assert (answer.answer, answer.predictions) == ("c", {"acc": "a", "acc_per_token": "b"})
    assert (answer.option_logprobs, answer.option_tokens) == ((-1.5, -2.5, -9.0, -9.0), (3, 10, 3, 3))


def test_samples_without_option_scores_keep_their_credits(tmp_path):
    write_results(tmp_path, ["personamem_32k"])
    write_lines(tmp_path / f"samples_personamem_32k_{DATE}.jsonl", [sample("q1", filtered_resps=["?"] * 4)])
    answer = only(read_runs([tmp_path])).answers["q1"]
    assert (answer.credits["acc"], answer.predictions, answer.option_logprobs) == (1.0, {}, None)


def test_option_scores_for_another_number_of_options_are_a_fault(tmp_path):
    write_run(tmp_path, [prediction("personamem_32k", "q1", option_logprobs=[-1.0])])
    assert "option_logprobs has 1 values for 4 options" in error_of(tmp_path).message


def test_a_name_cannot_steer_the_terminal(tmp_path):
    config = {"model": "hf", "model_args": {"pretrained": "a\x1b[2Jb\nc", "dtype": "x\x07"}}
    write_run(tmp_path, [prediction("personamem_32k", "q1")], config=config)
    run = only(read_runs([tmp_path]))
    assert run.model == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c"
    assert ("dtype", "x\N{REPLACEMENT CHARACTER}") in run.model_args


def test_other_benchmarks_are_left_out_of_a_folder_but_not_taken_by_name(tmp_path):
    other = write_results(tmp_path / "mmlu", ["mmlu"], configs={"mmlu": {"metadata": {"version": 1.0}}})
    assert "no results of a personamem task" in error_of(tmp_path).message
    assert "no personamem task, only mmlu" in error_of(other).message
    write_run(tmp_path / "ours", [prediction("personamem_32k", "q1")])
    reading = read_runs([tmp_path])
    assert only(reading).task == "personamem_32k"
    assert str(other) in reading.notes[0]


def test_nothing_to_read_names_the_command_to_start_with(tmp_path):
    (tmp_path / "results_summary.json").write_text("{}", encoding="utf-8")
    error = error_of(tmp_path)
    assert "no results_<date>.json in this folder" in error.message
    assert "personamem eval" in error.hint
    assert "not a results file" in error_of(tmp_path / "results_summary.json").message


def test_logs_of_inspect_say_what_reads_them_and_hide_no_other(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "one.eval").write_bytes(b"")
    fault = error_of(tmp_path)
    assert fault.message == f"{tmp_path / 'one.eval'}: reading logs of Inspect needs inspect-ai"
    assert "[inspect]" in fault.hint
    write_run(tmp_path, [prediction("personamem_32k", "q")])
    reading = read_runs([tmp_path])
    assert len(reading.runs) == len(reading.unreadable) == 1
