"""Results of wrong shapes and types: each is named with its place, and hides no other."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from small_results import DATE, first, right, write_lines, write_results

from generation.errors import UserError
from personamem_builder.results.runs import read_runs

FORMS = ((), ("--json",), ("--markdown",), ("--latex",))
ODD = (
    None, True, -1, 27, 10**18, float("nan"), float("inf"), 1e300, "", "x" * 5000, "\ud800\x1b[2J\x00", [], {}, [None],
    {"a": {"b": []}}, [[[[[1]]]]], "9" * 30, -0.5,
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny(generated: Path) -> Path:
    return generated


def put(folder: Path, results: object = None, lines: object = None) -> tuple[Path, Path]:
    """Write a small run, or in its place the bytes or values that are given; return its two files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"results_{DATE}.json", folder / f"predictions_{DATE}.jsonl"
    given = results if results is not None else plain_results(), lines if lines is not None else plain_lines()
    for path, content in zip(paths, given, strict=True):
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif path is paths[0]:
            path.write_text(json.dumps(content), encoding="utf-8")
        else:
            write_lines(path, content)
    return paths


def plain_results(**metadata: Any) -> dict[str, Any]:
    told = {
        "memory": "bm25", "k": 5, "settings": {"unit": "session"}, "memory_tainted": 0, "memory_failed": 1,
        "memory_measures": [{"measure": "evidence recall", "unit": "share", "value": 0.5}],
        "subset": "hard.json", "subset_size": 8, "subset_sha256": "ab", "roles": "normalised", "data_digest": "abc",
    }  # fmt: skip
    return {
        "config": {"model": "hf", "model_args": {"pretrained": "org/bad"}, "limit": None, "gen_kwargs": None},
        "configs": {"personamem_32k": {"test_split": "32k", "metadata": told | metadata}},
        "model_name": "org/bad",
        "chat_template_sha": "abc",
        "n-samples": {"personamem_32k": {"original": 8, "effective": 8}},
    }


def plain_lines() -> list[dict[str, Any]]:
    return [
        {
            "task": "personamem_32k", "question_id": f"q{i}", "persona_id": i % 3, "question_type": "suggest_new_ideas",
            "shared_context_id": "s", "answer": "a", "n_options": 4, "option_logprobs": [-1.0, -2.0, -3.0, -4.0],
            "option_tokens": [3, 4, 5, 6], "predictions": {"acc": "a"}, "credits": {"acc": 1.0}, "skipped": False,
            "truncated": False, "outcome": "answered", "finish_reason": "stop",
        }
        for i in range(8)
    ]  # fmt: skip


def line(**changes: Any) -> list[dict[str, Any]]:
    lines = plain_lines()
    lines[4] |= changes
    return lines


def without(key: str) -> list[dict[str, Any]]:
    lines = plain_lines()
    del lines[4][key]
    return lines


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (line(credits={"acc": float("nan")}), "line 5: credits.acc"),
        (line(credits={"acc": 1.1}), "line 5: credits.acc"),
        (line(credits={"acc": "1"}), "line 5: credits.acc"),
        (line(credits={}), "question 'q4' of personamem_32k lacks the score acc"),
        (line(credits=None), "line 5: credits"),
        (line(credits={"a\nb": 1.0}, predictions={"a\nb": "a"}), r"line 5: credits: 'a\nb' is not the name of a score"),
        (line(question_type="small talk"), "line 5: question_type: unknown question type 'small talk'"),
        (line(question_type=["suggest_new_ideas"]), "line 5: question_type"),
        (line(persona_id=2**31), "line 5: persona_id"),
        (line(persona_id=True), "line 5: persona_id"),
        (line(persona_id="1"), "line 5: persona_id"),
        (line(n_options=1), "line 5: n_options"),
        (line(n_options=27), "line 5: n_options"),
        (line(n_options=3), "line 5: option_logprobs has 4 values for 3 options"),
        (line(answer="e"), "line 5: answer: 'e' is none of the letters a to d"),
        (line(answer="A" * 10_000), "line 5: answer: 'AAA"),
        (line(option_tokens=[0, 1, 1, 1]), "line 5: option_tokens.0"),
        (line(outcome="perhaps"), "line 5: outcome"),
        (line(skipped="no"), "line 5: skipped"),
        (line(skipped=True), "line 5: a skipped question has a credit above 0"),
        (line(question_id="q3"), "line 5: question 'q3' appears twice"),
        (line(task="a/../b"), "'a/../b' is not the name of a task"),
        (line(task="a\nb"), "is not the name of a task"),
        (without("n_options"), "line 5: n_options: Field required"),
        (without("task"), "line 5: task: Field required"),
        ([*plain_lines(), [1]], "line 9: Input should be"),
        (b'{"task": 1' + b"1" * 5000 + b"}", "line 1 is not JSON: a whole number of 5,001 digits"),
        (b"[" * 100_000, "line 1: lists and mappings are nested deeper than the limit of 100"),
        (b'\n\n{"task": "\xff"}', "line 3: byte 11 (0xff) is not UTF-8"),
        (b"\x00\x01", "line 1 is not JSON"),
        (b"", "no answers to task personamem_32k beside it"),
    ],
)  # fmt: skip
def test_a_faulty_answer_is_named_with_its_line_and_the_good_results_are_shown(tmp_path, lines, said):
    put(tmp_path / "good")
    (tmp_path / "good" / f"results_{DATE}.json").write_text(
        json.dumps(plain_results() | {"config": {"model": "hf", "model_args": {"pretrained": "org/good"}}})
    )
    put(tmp_path / "bad", lines=lines)
    outcome = personamem("report", tmp_path)
    assert outcome.exit_code == 1
    assert "org/good" in outcome.out
    assert "org/bad" not in outcome.out
    assert said in outcome.err
    assert str(tmp_path / "bad") in outcome.err
    assert str(tmp_path / "good") not in outcome.err
    assert "hint: " in outcome.err


def test_answers_without_scores_are_left_out(tiny, tmp_path):
    write_results(tmp_path / "good", tiny, "org/good", right)
    put(tmp_path / "predicted", lines=[line | {"credits": {}} for line in plain_lines()])
    outcome = personamem("report", tmp_path)
    assert (outcome.exit_code, "org/good" in outcome.out) == (0, True)
    assert "personamem_32k has no scores, as after --predict_only" in outcome.err
    alone = personamem("report", tmp_path / "predicted")
    assert alone.exit_code == 1
    assert "as after --predict_only" in alone.err


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"config": ' + b"9" * 5000 + b"}", "a whole number of 5,000 digits"),
        (b"\xff\xfe{}", "is not UTF-8"),
        ([1], "is not a results file of lm-eval"),
        ({}, "config: Field required"),
        (plain_results() | {"configs": {"personamem_32k": 7}}, "configs.personamem_32k: "),
        (plain_results() | {"config": {"model": 7}}, "config.model: "),
        (
            plain_results() | {"n-samples": {"personamem_32k": {"effective": -1}}},
            "n-samples.personamem_32k.effective: ",
        ),
        (plain_results(memory_tainted="many"), "metadata.memory_tainted: "),
        (plain_results(memory_measures=[{"measure": "x"}]), "metadata.memory_measures.0.value: Field required"),
        (plain_results(settings=[1]), "metadata.settings: "),
        (plain_results(data_digest={"a": 1}), "metadata.data_digest: "),
        (plain_results(subset_size=10**18), "metadata.subset_size: "),
    ],
)
def test_a_results_file_of_another_shape_is_named_with_its_key(tmp_path, results, said):
    path, _ = put(tmp_path / "bad", results)
    with pytest.raises(UserError) as caught:
        read_runs([tmp_path])
    assert said in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "a" / f"results_{DATE}.json").mkdir(parents=True)
    _, predictions = put(tmp_path / "b")
    predictions.unlink()
    predictions.mkdir()
    with pytest.raises(UserError) as caught:
        read_runs([tmp_path])
    assert caught.value.message.count("Is a directory") == 2


@pytest.mark.parametrize("form", FORMS)
def test_the_readable_results_are_shown_in_every_form(tiny, tmp_path, form):
    write_results(tmp_path / "good", tiny, "org/good", right)
    write_results(tmp_path / "other", tiny, "org/other", first)
    alone = personamem("report", tmp_path, *form)
    put(tmp_path / "bad", b"{")
    page = tmp_path / "page.html"
    outcome = personamem("report", tmp_path, *form, "--html", page, "--compare", "org/good", "org/other")
    assert (alone.exit_code, outcome.exit_code) == (0, 1)
    assert "org/good" in outcome.out
    assert str(tmp_path / "bad") in outcome.err
    assert "org/good against org/other" in page.read_text(encoding="utf-8")
    if form == ("--json",):
        told = json.loads(outcome.out)
        assert told["tables"] == json.loads(alone.out)["tables"]
        assert len(told["unreadable"]) == 1
        assert "unreadable" not in json.loads(alone.out)


@pytest.mark.parametrize("side", ["org/bad", "FOLDER"])
def test_a_comparison_with_a_side_that_cannot_be_read_is_an_error_that_names_it(tiny, tmp_path, side):
    write_results(tmp_path / "good", tiny, "org/good", right)
    put(tmp_path / "bad", lines=[*plain_lines(), "x"])
    name = str(tmp_path / "bad") if side == "FOLDER" else side
    outcome = personamem("report", tmp_path, "--compare", "org/good", name)
    assert (outcome.exit_code, outcome.out) == (1, "")
    assert f"--compare {name}: no such model or folder" in outcome.err
    assert "line 9" in outcome.err


@pytest.mark.slow
def test_names_that_no_encoder_takes_are_shown(tiny, tmp_path):
    folder = tmp_path / "odd \udcff name"
    path = write_results(folder, tiny, "m\ud800", right)
    write_results(tmp_path / "again", tiny, "m\ud800", right)
    page = tmp_path / "page.html"
    for form in FORMS:
        outcome = personamem("report", folder, tmp_path / "again", *form, "--html", page)
        assert outcome.exit_code == 0
        outcome.out.encode()
    page.read_text(encoding="utf-8")
    assert path.exists()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*at, key)
        yield from places(item, (*at, key))


def mutated(value: Any, rng: random.Random) -> Any:
    """Change, remove or double one value somewhere within a value."""
    made = copy.deepcopy(value)
    *way, last = rng.choice(list(places(made)))
    target = made
    for key in way:
        target = target[key]
    kind = rng.randrange(4)
    if kind == 0:
        del target[last]
    elif kind == 1 and isinstance(target, dict):
        target[rng.choice(["x" * 300, "\ud800", "", str(last)])] = target.pop(last)
    else:
        target[last] = copy.deepcopy(rng.choice(ODD))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_mutated_results_are_reported_or_refused(tmp_path, seed):
    rng = random.Random(seed)
    put(tmp_path / "good")
    codes = set()
    for _ in range(40):
        results, lines = plain_results(), plain_lines()
        if rng.random() < 0.5:
            results = mutated(results, rng)
        else:
            lines = mutated(lines, rng)
        paths = put(tmp_path / "bad", results, lines)
        if rng.random() < 0.15:
            path = rng.choice(paths)
            content = bytearray(path.read_bytes())
            content[rng.randrange(len(content))] = rng.randrange(256)
            path.write_bytes(content)
        outcome = personamem("report", tmp_path, *rng.choice(FORMS), "--html", tmp_path / "page.html")
        assert outcome.exit_code in (0, 1)
        assert outcome.out
        assert ("error: " in outcome.err) == bool(outcome.exit_code)
        outcome.out.encode()
        codes.add(outcome.exit_code)
    assert codes == {0, 1}
