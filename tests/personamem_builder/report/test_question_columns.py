"""The dataset behind results is found, or it is said why not; another one is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_results import DATE, first, right, write_lines, write_results

from generation.errors import UserError
from personamem_builder.dataset.locate import cache_folder
from personamem_builder.manifest import read_manifest
from personamem_builder.report.floors import compute_floors
from personamem_builder.report.question_columns import find_questions
from personamem_builder.results.runs import Run, read_runs
from personamem_builder.table_files import questions_path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def other(tmp_path, dataset_folder) -> Path:
    """The same questions under another digest."""
    folder = tmp_path / "other"
    shutil.copytree(dataset_folder, folder)
    manifest = read_manifest(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest | {"digest": "f" * 64}), encoding="utf-8")
    return folder


def runs_on(dataset: Path, tmp_path: Path, **metadata: str) -> list[Run]:
    write_results(tmp_path / "results" / "m", dataset, "m", right, **metadata)
    return read_runs([tmp_path / "results"]).runs


def test_the_questions_are_found_where_the_results_say(dataset_folder, tmp_path):
    (run,) = runs_on(dataset_folder, tmp_path)
    found = find_questions([run])
    assert found.of(run).keys() == run.answers.keys()
    assert found.lacking == {}
    source = found.sources[run.data_digest]
    assert (source.folder, source.is_official) == (dataset_folder, True)


@pytest.mark.parametrize("place", ["named", "environment", "beside", "cache"])
def test_or_at_the_usual_places(dataset_folder, tmp_path, monkeypatch, place):
    (run,) = runs_on(dataset_folder, tmp_path, data="/absent")
    assert "(it was /absent) is not here; name it: --data FOLDER" in find_questions([run]).lacking[run.data_digest]
    named = None
    if place == "named":
        named = str(dataset_folder)
    elif place == "environment":
        monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    elif place == "beside":
        Path("personamem").symlink_to(dataset_folder)
    else:
        monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "home"))
        shutil.copytree(dataset_folder, cache_folder() / "official-abc")
    assert find_questions([run], named).of(run) is not None


def test_another_dataset_is_refused_with_both_digests(dataset_folder, other, tmp_path):
    runs = runs_on(dataset_folder, tmp_path)
    with pytest.raises(UserError) as caught:
        find_questions(runs, str(other))
    assert "f" * 64 in caught.value.message
    assert str(read_manifest(dataset_folder)["digest"]) in caught.value.message


def test_of_several_datasets_the_one_that_fits_is_used(dataset_folder, other, tmp_path):
    write_results(tmp_path / "results" / "a", dataset_folder, "a", right, data="/absent")
    write_results(tmp_path / "results" / "b", other, "b", right, data="/absent")
    a, b = read_runs([tmp_path / "results"]).runs
    found = find_questions([a, b], str(other))
    assert found.of(a) is None
    assert found.of(b) is not None
    assert list(found.lacking) == [a.data_digest]


def test_a_dataset_that_was_built_anew_is_not_used_and_named(dataset_folder, other, tmp_path):
    (run,) = runs_on(dataset_folder, tmp_path, data=str(other))
    found = find_questions([run])
    assert found.of(run) is None
    assert f"{other} has the digest ffffffffffff" in found.lacking[run.data_digest]


def test_answers_to_other_questions_are_left_out_with_the_reason(dataset_folder, tmp_path):
    runs = runs_on(dataset_folder, tmp_path)
    path = tmp_path / "results" / "m" / f"predictions_{DATE}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    changed = lines[0].replace(json.loads(lines[0])["question_id"], "from another split")
    path.write_text("\n".join([changed, *lines[1:]]), encoding="utf-8")
    (run,) = read_runs([tmp_path / "results"]).runs
    reason = find_questions([run]).misfits[run].message
    assert "1 of the 17 questions of personamem_32k are not in the split 32k" in reason
    assert "'from another split'" in reason
    assert str(runs[0].path) in reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"persona_id": 99}, "persona_id of the question"),
        ({"n_options": 5, "option_logprobs": None, "option_tokens": None}, "n_options of the question"),
        ({"answer": "a"}, "answer of the question"),
        ({"question_type": "suggest_new_ideas"}, "question_type of the question"),
    ],
)
def test_answers_that_contradict_the_dataset_are_left_out(dataset_folder, tmp_path, change, said):
    runs_on(dataset_folder, tmp_path)
    path = tmp_path / "results" / "m" / f"predictions_{DATE}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    place = next(i for i, line in enumerate(lines) if any(line[key] != value for key, value in change.items()))
    lines[place] |= change
    write_lines(path, lines)
    (run,) = read_runs([tmp_path / "results"]).runs
    reason = find_questions([run]).misfits[run].message
    assert said in reason
    assert lines[place]["question_id"] in reason


def test_damaged_questions_are_told_and_hide_no_results(dataset_folder, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(dataset_folder, folder)
    runs = runs_on(folder, tmp_path)
    path = folder / questions_path("32k")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    found = find_questions(runs)
    assert found.of(runs[0]) is None
    assert "is not what the manifest says" in found.damaged[0].message
    assert found.lacking == {runs[0].data_digest: found.damaged[0].message}


def test_results_that_do_not_name_their_data(dataset_folder, tmp_path):
    path = write_results(tmp_path / "results", dataset_folder, "m", right)
    results = json.loads(path.read_text(encoding="utf-8"))
    results["configs"]["personamem_32k"]["metadata"] = {}
    path.write_text(json.dumps(results), encoding="utf-8")
    runs = read_runs([path]).runs
    assert find_questions(runs).lacking == {"": "the results do not say which dataset they are on"}
    with pytest.raises(UserError, match="but the results are on no known dataset"):
        find_questions(runs, str(dataset_folder))


def test_floors_that_ran_are_not_computed_again(dataset_folder, tmp_path):
    write_results(tmp_path / "results" / "m", dataset_folder, "m", right)
    write_results(tmp_path / "results" / "f", dataset_folder, "floor: first", first)
    runs = read_runs([tmp_path / "results"]).runs
    questions = find_questions(runs).of(runs[0])
    floors = compute_floors(runs, questions)
    assert "floor: first" not in {run.model for run in floors}
    assert {"floor: longest", "floor: type-length", "floor: random"} <= {run.model for run in floors}
    (ran,) = [run for run in runs if run.is_floor]
    (computed,) = [
        run
        for run in compute_floors([runs[0] if runs[0] is not ran else runs[1]], questions)
        if run.model == "floor: first"
    ]
    assert computed.is_computed
    assert {i: a.credits["acc"] for i, a in computed.answers.items()} == {
        i: a.credits["acc"] for i, a in ran.answers.items()
    }


def test_floors_answer_the_questions_that_were_asked(dataset_folder, tmp_path):
    write_results(tmp_path / "results", dataset_folder, "m", right, limit=5)
    (run,) = read_runs([tmp_path / "results"]).runs
    for floor in compute_floors([run], find_questions([run]).of(run)):
        assert floor.answers.keys() == run.answers.keys()
        assert floor.limit == run.limit
