"""Parts of an evaluation, put together, are the run of one process."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answering_lm import AnsweringChat, AnsweringScorer, right
from command_line import fails, personamem, typed
from conftest import MadeOnce
from loopback_chat import LoopbackChat, Message, Raw

from generation.errors import UserError
from generation.resources import data_dir
from generation.shards import Shard
from personamem_builder.evaluation.merge import Merged, merge_parts
from personamem_builder.evaluation.responses import LogLikelihood, Reply
from personamem_builder.evaluation.run import Unanswered, run_lm_eval
from personamem_builder.evaluation.shards import part_folder
from personamem_builder.results.runs import read_runs

TASKS = "personamem_32k,personamem_32k_generate"
FLOOR = ("--tasks", TASKS, "--model", "personamem-floor", "--model_args", "policy=type-length")
PARTS, WHOLE, MERGED = Path("results/parts"), Path("results/one"), Path("results/whole")


@pytest.fixture(autouse=True)
def workplace(generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", str(generated))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)


def evaluate(*arguments: str, of: int = 3) -> None:
    """Evaluate in parts."""
    for number in range(1, of + 1):
        run_lm_eval([*arguments, "--output_path", str(PARTS), "--shard", f"{number}/{of}"])


@pytest.fixture(scope="module")
def three(made_once: MadeOnce, generated: Path) -> Path:
    """Three parts of a floor; tests change a copy."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PERSONAMEM_DATA", str(generated))
            for number in (1, 2, 3):
                run_lm_eval([*FLOOR, "--output_path", str(folder), "--shard", f"{number}/3"])

    return made_once("three_parts", make)


@pytest.fixture
def parts(three: Path) -> None:
    shutil.copytree(three, PARTS)


def merge(*places: Path | str) -> Merged:
    return merge_parts([Path(place) for place in places or (PARTS,)], MERGED)


def results_in(folder: Path) -> dict[str, Any]:
    """Return the results in a folder without what is told of the process, in the form of JSON."""
    (path,) = folder.rglob("results_*.json")
    found = json.loads(re.sub(r" at 0x[0-9a-f]+", "", path.read_text("utf-8")))
    for name in ("date", "total_evaluation_time_seconds", "parts", "git_hash", "task_hashes"):
        found.pop(name, None)
    return dict(found)


def answers_in(folder: Path) -> str:
    (path,) = folder.rglob("predictions_*.jsonl")
    return path.read_text("utf-8")


def part(number: int, of: int = 3) -> Path:
    """Return the results file of a part."""
    (path,) = (PARTS / part_folder(Shard(number, of))).rglob("results_*.json")
    return path


def rewrite(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def is_the_whole_run(*arguments: str) -> None:
    """Check that the parts, merged, are the run that was not divided, which is made now."""
    run_lm_eval([*arguments, "--output_path", str(WHOLE)])
    merged = merge()
    assert not merged.failed
    assert results_in(MERGED) == results_in(WHOLE)
    assert answers_in(MERGED) == answers_in(WHOLE)
    assert merged.questions == answers_in(WHOLE).count("\n")


# ---- the whole run


@pytest.mark.parametrize(
    "more",
    [
        ("--limit", "30"),
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("--limit", "0.7"), marks=pytest.mark.slow),
        pytest.param(("--predict_only",), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_floors(more: tuple[str, ...]) -> None:
    evaluate(*FLOOR, *more, of=2)
    is_the_whole_run(*FLOOR, *more)


@pytest.mark.slow
def test_a_floor_that_learns_from_other_users_learns_from_all_parts() -> None:
    evaluate(*FLOOR, of=4)
    is_the_whole_run(*FLOOR)


@pytest.mark.slow
def test_the_group_of_the_splits() -> None:
    mine = Path("mine")
    mine.mkdir()
    for task in ("personamem_128k", "personamem_1M"):  # the generated dataset has one split
        template = data_dir("lm_eval_tasks").resolve() / "_default_yaml"
        (mine / f"{task}.yaml").write_text(f"include: {template}\ntask: {task}\ntest_split: 32k\n", encoding="utf-8")
    arguments = ("--tasks", "personamem", *FLOOR[2:], "--include_path", "mine")
    evaluate(*arguments)
    is_the_whole_run(*arguments)
    assert results_in(MERGED)["groups"]["personamem"]["acc,none"] > 0


@pytest.mark.slow
def test_a_model_that_scores_options() -> None:
    def likelihood(request: Any) -> LogLikelihood:
        return LogLikelihood([-1 / (3 + len(request.args[1])), -request.idx / 7, -1 / 3], is_greedy=request.idx == 1)

    AnsweringScorer.answer = staticmethod(likelihood)
    arguments = ("--tasks", "personamem_32k,personamem_32k_letters_nocontext", "--model", "scorer-for-tests")
    evaluate(*arguments)
    is_the_whole_run(*arguments)
    assert results_in(MERGED)["results"]["personamem_32k"]["acc_per_token,none"] > 0


@pytest.mark.slow
def test_a_chat_endpoint_with_refusals_and_answers_without_a_letter() -> None:
    def answer(messages: list[Message]) -> Raw:
        text = ["<final_answer>(a)", "I cannot say.", "<final_answer>(c)"][len(messages[-1]["content"]) % 3]
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(messages[-1]["content"]), "completion_tokens": 7}
        return Raw({"object": "chat.completion", "choices": [choice], "usage": usage})

    with LoopbackChat(answer) as chat:
        url = f"model=m,base_url={chat.url}/v1/chat/completions"
        arguments = ("--tasks", "personamem_32k_generate", "--model", "personamem-chat", "--model_args", url)
        evaluate(*arguments)
        run_lm_eval([*arguments, "--output_path", str(WHOLE)])
    merge()
    whole, merged = results_in(WHOLE), results_in(MERGED)
    assert 0 < merged["results"]["personamem_32k_generate"]["invalid_rate,robust"] < 1
    assert merged["results"] == whole["results"]
    usage, of_whole = (one.pop("usage")["personamem_32k_generate"] for one in (merged, whole))
    assert {key: usage[key] for key in usage if key != "seconds"} == {
        key: of_whole[key] for key in usage if key != "seconds"
    }
    assert usage["seconds"]["n"] == 41
    assert merged == whole


@pytest.mark.slow
def test_what_plain_lm_eval_left(python: Any) -> None:
    """Its results have samples, with the prompts, in place of predictions."""
    code = "import sys, personamem_builder.evaluation.floors; from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
    fixed = ["--tasks", "personamem_32k_nocontext,personamem_32k_generate_nocontext", *FLOOR[2:]]
    fixed += ["--include_path", str(data_dir("lm_eval_tasks")), "--log_samples", "--output_path"]
    metadata = {"overlength": "left"}
    env = {"PERSONAMEM_DATA": str(Path.cwd() / "data")}
    shutil.copytree(Path(os.environ["PERSONAMEM_DATA"]), "data")
    for number in (1, 2):
        told = json.dumps({**metadata, "shard": f"{number}/2"})
        python(code, *fixed, f"{PARTS}/{number}", "--metadata", told, cwd=Path.cwd(), **env)
    python(code, *fixed, str(WHOLE), "--metadata", json.dumps(metadata), cwd=Path.cwd(), **env)
    merge()
    assert results_in(MERGED)["results"] == results_in(WHOLE)["results"]
    one, other = ({run.task: run.answers for run in read_runs([folder]).runs} for folder in (WHOLE, MERGED))
    assert one == other
    assert len(one) == 2
    assert "arguments" not in answers_in(MERGED)


@pytest.mark.slow
def test_memories_are_worth_what_they_are_over_all_parts() -> None:
    pytest.importorskip("bm25s", reason="bm25s is not installed")
    arguments = ("--tasks", "personamem_32k", *FLOOR[2:], "--metadata", '{"memory": "bm25", "k": 5}')
    evaluate(*arguments)
    run_lm_eval([*arguments, "--output_path", str(WHOLE)])
    merge()
    assert results_in(MERGED)["results"] == results_in(WHOLE)["results"]
    merged, whole = (results_in(f)["configs"]["personamem_32k"]["metadata"] for f in (MERGED, WHOLE))
    told = {line["measure"]: line for line in merged["memory_measures"]}
    for line in whole["memory_measures"]:
        if line["unit"] != "seconds":
            assert told[line["measure"]]["value"] == pytest.approx(line["value"])
            assert told[line["measure"]]["n"] == line["n"]
    assert (merged["memory_tainted"], merged["memory_failed"]) == (whole["memory_tainted"], whole["memory_failed"])


# ---- parts that stopped, or failed


def test_a_part_that_was_interrupted_goes_on() -> None:
    calls = iter(range(5))

    def interrupted(doc: Any) -> str:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return right(doc)

    arguments = ("--tasks", "personamem_32k_generate", "--model", "chat-for-tests", "--model_args", "model=m")
    AnsweringChat.answer, AnsweringChat.asked = staticmethod(interrupted), []
    with pytest.raises(KeyboardInterrupt):
        evaluate(*arguments, of=2)
    AnsweringChat.answer = staticmethod(right)
    evaluate(*arguments, of=2)
    assert len(AnsweringChat.asked) == 41  # none twice
    is_the_whole_run(*arguments)


def test_a_part_with_failed_questions_stays_one_until_they_are_asked_again() -> None:
    failing: list[str] = []

    def answer(doc: Any) -> str:
        if doc["question_id"] in failing:
            return Reply("", "failed", "the endpoint was busy")
        return right(doc)

    arguments = ("--tasks", "personamem_32k_generate", "--model", "chat-for-tests", "--model_args", "model=m")
    AnsweringChat.answer, AnsweringChat.asked = staticmethod(answer), []
    for shard in ("1/2", "2/2"):
        if shard == "2/2":
            run_lm_eval([*arguments, "--output_path", "look", "--shard", shard])
            failing += AnsweringChat.asked[-2:]
            with pytest.raises(Unanswered, match=r"2 of 2\d questions got no answer"):
                run_lm_eval([*arguments, "--output_path", str(PARTS), "--shard", shard])
        else:
            run_lm_eval([*arguments, "--output_path", str(PARTS), "--shard", shard])
    with pytest.raises(Unanswered):
        run_lm_eval([*arguments, "--output_path", str(WHOLE)])
    ended = personamem("merge", PARTS, "--out", MERGED)
    assert ended.exit_code == 1
    assert "error: 2 of 41 questions got no answer and count towards no score: part 2/2\n" in ended.err
    assert results_in(MERGED)["results"] == results_in(WHOLE)["results"]
    assert answers_in(MERGED) == answers_in(WHOLE)
    # The same command asks just these again; its newer results count.
    failing.clear()
    shutil.rmtree(WHOLE)
    shutil.rmtree(MERGED)
    run_lm_eval([*arguments, "--output_path", str(PARTS), "--shard", "2/2"])
    is_the_whole_run(*arguments)
    assert [note for note in merge().notes if "is an older run of part 2/2" in note]


# ---- what is refused


def test_missing_parts_are_named() -> None:
    evaluate(*FLOOR, of=4)
    shutil.rmtree(PARTS / "part-2-of-4")
    shutil.rmtree(PARTS / "part-4-of-4")
    with pytest.raises(UserError, match=r"^parts are missing: 2/4, 4/4; there are 2 of 4") as caught:
        merge()
    assert "--shard 2/4" in caught.value.hint
    assert not MERGED.exists()


def test_a_part_that_is_there_twice_is_an_overlap(parts: None) -> None:
    shutil.copytree(PARTS / "part-2-of-3", PARTS / "again")
    with pytest.raises(UserError, match=r"^some parts appear more than once: 2/3 in \S*again\S+ and \S*part-2-of-3"):
        merge()


def test_parts_of_other_divisions_are_an_overlap(parts: None) -> None:
    run_lm_eval([*FLOOR, "--output_path", str(PARTS), "--shard", "1/2"])
    with pytest.raises(UserError, match=r"^these are parts of different divisions: 1/2 in .*, 3/3 in .*") as caught:
        merge()
    assert "differ in nothing but --shard" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (("--seed", "3", "--metadata", "overlength=skip"), "config.random_seed is 0 in"),
        (("--gen_kwargs", "max_gen_toks=5"), "config.gen_kwargs.max_gen_toks is absent in"),
        (("--tasks", "personamem_32k"), 'tasks is "personamem_32k, personamem_32k_generate" in'),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_other_arguments_are_refused(parts: None, change: tuple[str, ...], name: str) -> None:
    given = dict(zip(FLOOR[::2], FLOOR[1::2], strict=True)) | dict(zip(change[::2], change[1::2], strict=True))
    shutil.rmtree(PARTS / "part-2-of-3")
    run_lm_eval([word for pair in given.items() for word in pair] + ["--output_path", str(PARTS), "--shard", "2/3"])
    with pytest.raises(UserError, match="the parts are not of one run:") as caught:
        merge()
    assert name.replace('"', "") in str(caught.value).replace('"', "")
    assert re.search(r"part-1-of-3/\S+\.json and 1 more", str(caught.value))
    assert re.search(r"part-2-of-3/\S+\.json", str(caught.value))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("versions.personamem_32k", lambda content: content["versions"].update(personamem_32k=2.0)),
        ("lm_eval_version", lambda content: content.update(lm_eval_version="0.4.99")),
        ("model_name", lambda content: content.update(model_name="other")),
        ("config.model", lambda content: content["config"].update(model="hf")),
        ("config.model_args.policy", lambda content: content["config"]["model_args"].update(policy="first")),
        ("config.limit", lambda content: content["config"].update(limit=39)),
        ("system_instruction", lambda content: content.update(system_instruction="Be brief.")),
        ("chat_template_sha", lambda content: content.update(chat_template_sha="0" * 64)),
        (
            "configs.personamem_32k.metadata.roles",
            lambda content: content["configs"]["personamem_32k"]["metadata"].update(roles="no_system"),
        ),
        (
            "configs.personamem_32k.metadata.data_digest",
            lambda content: content["configs"]["personamem_32k"]["metadata"].update(data_digest="0" * 64),
        ),
        (
            "configs.personamem_32k.metadata.shard_plan",
            lambda content: content["configs"]["personamem_32k"]["metadata"].update(shard_plan="0" * 64),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_models_settings_versions_and_data_are_refused(
    name: str, change: Callable[[Any], None], parts: None
) -> None:
    rewrite(part(2), change)
    with pytest.raises(UserError, match=f"not of one run:\n{re.escape(name)} is .* and 1 more, .* in .*part-2-of-3"):
        merge()


def test_what_shapes_no_answer_may_differ(parts: None) -> None:

    def elsewhere(content: Any) -> None:
        content["config"]["model_args"]["num_concurrent"] = 7
        content["config"].update(batch_size=4, batch_sizes=[4], device="cuda:5")
        content["configs"]["personamem_32k"]["metadata"].update(data="/mnt/other", num_concurrent=7)
        content["pretty_env_info"] = "another machine"

    rewrite(part(2), elsewhere)
    assert merge().questions == 82


@pytest.mark.parametrize("lines", ["lost", "of another part", "twice"])
def test_answers_that_are_not_those_of_the_part_are_refused(lines: str, parts: None) -> None:
    paths = [path.with_name(path.name.replace("results", "predictions") + "l") for path in (part(2), part(3))]
    texts = [path.read_text("utf-8").splitlines(keepends=True) for path in paths]
    other = [line for line in texts[1] if '"task":"personamem_32k"' in line]
    changed = {
        "lost": texts[0][1:],
        "of another part": [other[0], *texts[0][1:]],
        "twice": [texts[0][1], *texts[0][1:]],
    }
    paths[0].write_text("".join(changed[lines]), encoding="utf-8")
    expected = {
        "lost": r"results_\S+: \d+ answers to \d+ questions of personamem_32k",
        "of another part": "as part 2/3 does",
        "twice": "appears twice",
    }
    with pytest.raises(UserError, match=expected[lines]) as caught:
        merge()
    assert "part-" in str(caught.value)
    assert not MERGED.exists()


def test_a_damaged_file_is_named(parts: None) -> None:
    part(2).write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"part-2-of-3/\S+\.json"):
        merge()


def test_answers_of_earlier_versions_have_no_order(parts: None) -> None:
    path = part(1).with_name(part(1).name.replace("results", "predictions") + "l")
    path.write_text(re.sub(r'"doc_id":\d+,', "", path.read_text("utf-8")), encoding="utf-8")
    with pytest.raises(UserError, match="line 1: no doc_id"):
        merge()


def test_whole_runs_are_no_parts() -> None:
    run_lm_eval([*FLOOR, "--output_path", str(WHOLE)])
    fails(personamem("merge", WHOLE), f"{WHOLE}: no parts of a run")
    (path,) = WHOLE.rglob("results_*.json")
    fails(personamem("merge", path), f"{path} is not part of a run", "leave it out")


def test_a_folder_that_cannot_be_written_to_is_an_error(parts: None) -> None:
    MERGED.write_text("in the way", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written") as caught:
        merge()
    assert "--out" in caught.value.hint


# ---- the commands


def test_parts_have_folders_of_their_own_and_say_what_comes_next() -> None:
    first = personamem("eval", *FLOOR, "--output_path", "out", "--shard", "1/2")
    assert first.exit_code == 0
    assert first.err.splitlines()[-1] == "next: personamem merge out"
    assert personamem("eval", *FLOOR, "--output_path", "out", "--shard=2/2").exit_code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["part-1-of-2", "part-2-of-2"]
    merged = typed(first.err.splitlines()[-1])
    assert merged.exit_code == 0
    assert merged.err.splitlines()[-1].startswith("next: personamem report results/whole/")
    assert "partial" not in typed(merged.err.splitlines()[-1]).out


def test_the_same_parts_give_the_same_bytes_and_merge_again_beside_their_whole(parts: None) -> None:
    written = [path.read_bytes() for path in merge_parts([PARTS], PARTS / "whole").written]
    again = merge_parts([PARTS], PARTS / "whole")
    assert [path.read_bytes() for path in again.written] == written
    assert [note for note in again.notes if "is not part of a run" in note]


def test_an_output_file_of_a_part_lies_in_the_folder_of_the_part() -> None:
    run_lm_eval([*FLOOR, "--output_path", "out/run.json", "--shard", "1/2"])
    assert list(Path("out/part-1-of-2").glob("run_*.json"))


def test_the_setting_of_plain_lm_eval_does_the_same() -> None:
    run_lm_eval([*FLOOR, "--output_path", str(PARTS), "--metadata", '{"shard": "2/3"}'])
    assert part(2).is_file()
    with pytest.raises(UserError, match="--shard 1/3 and --metadata shard=2/3 are two parts"):
        run_lm_eval([*FLOOR, "--metadata", "shard=2/3", "--shard", "1/3"])
    with pytest.raises(UserError, match="--shard '4/3' names no shard"):
        run_lm_eval([*FLOOR, "--shard", "4/3"])


def test_tasks_of_others_are_not_asked_whole_in_every_part() -> None:
    with pytest.raises(UserError, match="--shard: persona_bench_sentiment_npconv would be asked whole in every part"):
        run_lm_eval(["--tasks", "personamem_32k,persona_bench_sentiment_npconv", "--model", "dummy", "--shard", "1/2"])


def test_a_report_says_which_part_it_shows_and_shows_none_beside_the_whole(parts: None) -> None:
    shown = personamem("report", part(2))
    assert "partial: " in shown.out
    assert "Part 2/3 of a run, not all of it: floor: type-length. `personamem merge` makes" in " ".join(
        shown.out.split()
    )
    assert {run.shard for run in read_runs([PARTS]).runs} == {"1/3", "2/3", "3/3"}
    merge()
    both = personamem("report", "results")
    assert "left out 3 parts of floor: type-length on personamem_32k (results/whole/" in both.out + both.err
    assert "Part " not in both.out
    (found,) = (run for run in read_runs([Path("results")]).runs if run.task == "personamem_32k")
    assert found.is_whole


def test_the_help_names_the_option() -> None:
    assert "--shard I/N" in personamem("eval", "--help").out
