from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.annotation.ratings import Key, read_key, read_raters

YES = {"best": "a", "appropriate": "yes", "relevant": "yes", "correct": "yes"}


@pytest.fixture
def key() -> Key:
    items = [
        {"id": f"q{number}", "answer": "a", "options": 4, "question_type": "one", "topic": "tea"} for number in (0, 1)
    ]
    return Key.model_validate(
        {"format": "personamem-annotation-key", "version": 1, "sample": "s1", "split": "32k", "items": items}
    )


def saved(path: Path, rater: str = "Ann", sample: str = "s1", **answers: Any) -> Path:
    content = {
        "format": "personamem-annotations",
        "version": 1,
        "sample": sample,
        "rater": rater,
        "answers": answers,
    }
    path.write_text(json.dumps(content))
    return path


def label_studio_task(item: str, *annotations: tuple[object, dict[str, str]], sample: str = "s1") -> dict[str, Any]:
    """A task as Label Studio exports it, with what it adds of its own."""
    return {
        "id": 7,
        "data": {"item": item, "sample": sample, "message": "Hello."},
        "annotations": [
            {
                "id": 1,
                "completed_by": user,
                "was_cancelled": False,
                "lead_time": 3.2,
                "result": [
                    {
                        "id": "x",
                        "from_name": name,
                        "to_name": "message",
                        "type": "choices",
                        "value": {"choices": [value]},
                    }
                    for name, value in answers.items()
                ],
            }
            for user, answers in annotations
        ],
        "predictions": [],
    }


def test_saved_answers_are_read_by_rater(tmp_path: Path, key: Key) -> None:
    files = [saved(tmp_path / "1.json", "Ann", q0=YES), saved(tmp_path / "2.json", " Bob ", q1={"comment": "odd"})]

    assert read_raters(files, key) == {"Ann": {"q0": YES}, "Bob": {"q1": {"comment": "odd"}}}


def test_an_export_of_label_studio_holds_several_raters(tmp_path: Path, key: Key) -> None:
    tasks = [
        label_studio_task("q0", (1, YES), ({"id": 2, "email": "bob@example.org"}, {"best": "b"})),
        label_studio_task("q1", (1, {"best": "unsure"})),
    ]
    text = {"id": "y", "from_name": "comment", "to_name": "message", "type": "textarea", "value": {"text": ["odd"]}}
    tasks[1]["annotations"][0]["result"].append(text)
    tasks[1]["annotations"].append({**tasks[0]["annotations"][1], "was_cancelled": True})
    (tmp_path / "export.json").write_text(json.dumps(tasks))

    assert read_raters([tmp_path / "export.json"], key) == {
        "1": {"q0": YES, "q1": {"best": "unsure", "comment": "odd"}},
        "bob@example.org": {"q0": {"best": "b"}},
    }


def test_the_two_files_that_potato_keeps_of_a_rater_are_put_together(tmp_path: Path, key: Key) -> None:
    for task, answers in {"best": {"best": "c"}, "response": {"correct": "no", "comment": "odd"}}.items():
        labels = [[{"schema": name, "name": value}, value] for name, value in answers.items()]
        state = {"user_id": "ann", "instance_id_to_label_to_value": {"q0": labels}, "instance_id_ordering": ["q0"]}
        (tmp_path / f"{task}.json").write_text(json.dumps(state))

    raters = read_raters([tmp_path / "best.json", tmp_path / "response.json"], key)

    assert raters == {"ann": {"q0": {"best": "c", "correct": "no", "comment": "odd"}}}


def test_a_name_cannot_steer_the_terminal(tmp_path: Path, key: Key) -> None:
    assert list(read_raters([saved(tmp_path / "1.json", "A\x1b[2Jnn", q0=YES)], key)) == ["A [2Jnn"]


def test_the_same_rater_twice_is_refused(tmp_path: Path, key: Key) -> None:
    files = [saved(tmp_path / "1.json", "Ann", q0=YES), saved(tmp_path / "2.json", "ann ", q0=YES)]

    with pytest.raises(UserError, match=r"2\.json: item q0: the rater 'Ann' answers 'best' in .*1\.json already"):
        read_raters(files, key)


def test_a_task_that_a_rater_did_twice_is_refused(tmp_path: Path, key: Key) -> None:
    (tmp_path / "1.json").write_text(json.dumps([label_studio_task("q0", (1, YES), (1, YES))]))

    with pytest.raises(UserError, match=r"1\.json: item q0: the rater '1' answers 'best' twice"):
        read_raters([tmp_path / "1.json"], key)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"q9": YES}, "item 'q9' is not of the sample s1"),
        ({"q0": {"best": "e"}}, "item q0: best is 'e', not one of a, b, c, d, unsure"),
        ({"q1": {"correct": "maybe"}}, "item q1: correct is 'maybe', not one of yes, no, unsure"),
        ({"q0": {"correct": 1}}, "item q0: correct is 1, not one of yes, no, unsure"),
        ({"q0": {"fluent": "yes"}}, "item q0: there is no question 'fluent'"),
    ],
)
def test_answers_that_are_none_name_file_and_item(
    tmp_path: Path, key: Key, answers: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        read_raters([saved(tmp_path / "ann.json", **answers)], key)

    assert caught.value.message == f"{tmp_path}/ann.json: {message}"
    assert caught.value.hint


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path, key: Key) -> None:
    with pytest.raises(UserError, match=r"q0: best is 'x'.*; item q1: correct is 'y'"):
        read_raters([saved(tmp_path / "ann.json", q0={"best": "x"}, q1={"correct": "y"})], key)


def test_another_sample_is_refused(tmp_path: Path, key: Key) -> None:
    with pytest.raises(UserError, match=r"ann\.json answers the sample s2, the key is of s1"):
        read_raters([saved(tmp_path / "ann.json", sample="s2", q0=YES)], key)
    (tmp_path / "export.json").write_text(json.dumps([label_studio_task("q0", (1, YES), sample="s2")]))
    with pytest.raises(UserError, match=r"export\.json answers the sample s2, the key is of s1"):
        read_raters([tmp_path / "export.json"], key)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "personamem-ann', "is not JSON: Unterminated string"),
        ("{}", "holds no answers of a rater"),
        ('[{"best": "a"}]', r"cannot be understood: 0\.data: Field required"),
        ('{"format": "personamem-annotations", "version": 1}', "cannot be understood: sample: Field required"),
        (
            '{"format": "personamem-annotations", "version": 9, "sample": "s1", "rater": "a", "answers": {}}',
            "has version 9, version 1 is read",
        ),
        (
            '{"format": "personamem-annotations", "version": 1, "sample": "s1", "rater": " ", "answers": {"q0": {}}}',
            "does not say who rated",
        ),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, key: Key, content: str, message: str) -> None:
    (tmp_path / "ann.json").write_text(content)

    with pytest.raises(UserError, match=rf"ann\.json {message}"):
        read_raters([tmp_path / "ann.json"], key)


def test_a_key_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ann\.json is not a key of a sample: format: "):
        read_key(saved(tmp_path / "ann.json"))
    with pytest.raises(UserError, match=r"none\.json: No such file"):
        read_key(tmp_path / "none.json")
