"""Reading what raters said: files saved from the sheet, Label Studio's JSON export, and potato's `user_state.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from generation.errors import UserError
from personamem_builder.annotation.items import BEST, CHECKS, UNSURE, VERDICTS
from personamem_builder.annotation.sheet import ANSWERS_FORMAT, ANSWERS_VERSION
from personamem_builder.schema import option_letter

COMMENT: Final = "comment"

_SHOWN: Final = 5
_KINDS: Final = (
    "a file saved from sheet.html, a JSON export of Label Studio, or the user_state.json of a rater that potato keeps"
)

Answers = dict[str, dict[str, str]]
"""What a rater said, by item and by question: a letter or `unsure` for `best`, a verdict for the checks, a comment."""


class KeyItem(BaseModel):
    """What the key tells of an item."""

    id: str
    answer: str
    options: int = Field(ge=2)
    question_type: str
    topic: str


class Key(BaseModel):
    """The key of a sample, as `items.key_of` makes it."""

    format: Literal["personamem-annotation-key"]
    version: Literal[1]
    sample: str
    split: str
    items: list[KeyItem] = Field(min_length=1)


class _Saved(BaseModel):
    version: int
    sample: str
    rater: str
    answers: dict[str, dict[str, Any]]


class _TaskData(BaseModel):
    item: str
    sample: str


class _Result(BaseModel):
    from_name: str = ""  # a relation between results has none
    value: dict[str, Any] = {}


class _Annotation(BaseModel):
    completed_by: int | str | dict[str, Any]
    result: list[_Result]
    was_cancelled: bool = False


class _Task(BaseModel):
    data: _TaskData
    annotations: list[_Annotation]


class _PotatoState(BaseModel):
    user_id: str
    instance_id_to_label_to_value: dict[str, list[tuple[dict[str, str], Any]]]


class _Rating(NamedTuple):
    rater: str
    item: str
    answers: Mapping[str, Any]


def read_key(path: Path) -> Key:
    """Read the key of a sample.

    Raises:
        UserError: It cannot be read, or is no key.
    """
    content = _load(path)
    try:
        return Key.model_validate(content)
    except ValidationError as error:
        hint = "give --key the key.json that `personamem annotate` wrote"
        raise UserError(f"{path} is no key of a sample: {_explain(error)}", hint) from error


def read_raters(paths: Sequence[Path], key: Key) -> dict[str, Answers]:
    """Read the answers of all raters.

    Args:
        paths: Their files.
        key: The key of the sample that they rated.

    Returns:
        The answers by rater, in the order of the files. A rater may come in several files that answer different
        questions, as potato keeps them.

    Raises:
        UserError: A file cannot be read, is of another sample, or has answers that are none; or a rater answers the
            same question in two places.
    """
    items = {item.id: item for item in key.items}
    raters: dict[str, Answers] = {}
    names: dict[str, str] = {}
    origin: dict[tuple[str, str], Path] = {}
    for path in paths:
        ratings = _parse(path, key)
        _raise(path, [fault for rating in ratings for fault in _faults(rating, items, key)])
        for rating in ratings:
            rater = names.setdefault(rating.rater.casefold(), rating.rater)
            own = raters.setdefault(rater, {}).setdefault(rating.item, {})
            for name, value in rating.answers.items():
                if name in own and name != COMMENT:
                    _raise_twice(path, origin[rater, name], rater, rating.item, name)
                origin[rater, name] = path
                own[name] = value
    return raters


def _raise_twice(path: Path, earlier: Path, rater: str, item: str, name: str) -> None:
    where = "twice in it" if earlier == path else f"in {earlier} already"
    raise UserError(
        f"{path}: item {item}: the rater {rater!r} answers {name!r} {where}",
        "give one file of each rater; where two people have one name, change `rater` in one of the files",
    )


def _parse(path: Path, key: Key) -> list[_Rating]:
    content = _load(path)
    read: Callable[[Path, Any, Key], list[_Rating]]
    if isinstance(content, list):
        read = _from_label_studio
    elif isinstance(content, dict) and content.get("format") == ANSWERS_FORMAT:
        read = _from_sheet
    elif isinstance(content, dict) and "instance_id_to_label_to_value" in content:
        read = _from_potato
    else:
        raise UserError(f"{path} holds no answers of a rater", f"give {_KINDS}")
    try:
        ratings = read(path, content, key)
    except ValidationError as error:
        raise UserError(f"{path} cannot be understood: {_explain(error)}", f"give {_KINDS}") from error
    ratings = [rating._replace(rater=_printable(rating.rater).strip()) for rating in ratings]
    if not all(rating.rater for rating in ratings):
        raise UserError(f"{path} does not say who rated", "write a name into the sheet and save again")
    return ratings


def _printable(name: str) -> str:
    """Return a name that cannot steer the terminal that shows it."""
    return "".join(sign if sign.isprintable() else " " for sign in name)


def _from_sheet(path: Path, content: Any, key: Key) -> list[_Rating]:
    saved = _Saved.model_validate(content)
    if saved.version != ANSWERS_VERSION:
        raise UserError(f"{path} has version {saved.version}, version {ANSWERS_VERSION} is read", "update personamem")
    _check_sample(path, saved.sample, key)
    return [_Rating(saved.rater, item, answers) for item, answers in saved.answers.items()]


def _from_label_studio(path: Path, content: Any, key: Key) -> list[_Rating]:
    tasks = TypeAdapter(list[_Task]).validate_python(content)
    ratings = []
    for task in tasks:
        _check_sample(path, task.data.sample, key)
        for annotation in task.annotations:
            if not annotation.was_cancelled:
                answers = {result.from_name: _chosen(result.value) for result in annotation.result if result.from_name}
                ratings.append(_Rating(_user(annotation.completed_by), task.data.item, answers))
    return ratings


def _user(completed_by: int | str | Mapping[str, Any]) -> str:
    if isinstance(completed_by, Mapping):
        return str(completed_by.get("email") or completed_by.get("id") or "")
    return str(completed_by)


def _chosen(value: Mapping[str, Any]) -> Any:
    """Return the choice, or the text, of a result; a list where there are several choices."""
    if "text" in value:
        return "\n".join(value["text"]) if isinstance(value["text"], list) else value["text"]
    choices = value.get("choices")
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else choices


def _from_potato(path: Path, content: Any, key: Key) -> list[_Rating]:
    state = _PotatoState.model_validate(content)
    ratings = []
    for item, labels in state.instance_id_to_label_to_value.items():
        answers = {label.get("schema", ""): value for label, value in labels}
        ratings.append(_Rating(state.user_id, item, answers))
    return ratings


def _check_sample(path: Path, sample: str, key: Key) -> None:
    if sample != key.sample:
        raise UserError(
            f"{path} answers the sample {sample}, the key is of {key.sample}",
            "give the key.json that lay beside the sheet which was rated",
        )


def _faults(rating: _Rating, items: Mapping[str, KeyItem], key: Key) -> list[str]:
    item = items.get(rating.item)
    if item is None:
        return [f"item {rating.item!r} is not of the sample {key.sample}"]
    letters = [option_letter(index) for index in range(item.options)]
    allowed = {BEST: (*letters, UNSURE), **dict.fromkeys(CHECKS, VERDICTS)}
    faults = []
    for name, value in rating.answers.items():
        if name == COMMENT and isinstance(value, str):
            continue
        if name not in allowed:
            faults.append(f"item {rating.item}: there is no question {name!r}")
        elif value not in allowed[name]:
            faults.append(f"item {rating.item}: {name} is {value!r}, not one of {', '.join(allowed[name])}")
    return faults


def _raise(path: Path, faults: Sequence[str]) -> None:
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        hint = "use the files that the raters saved, unchanged, with the key of their sheet"
        raise UserError(f"{path}: {'; '.join(faults[:_SHOWN])}{more}", hint)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "give the path of a file") from error
    except ValueError as error:  # UnicodeDecodeError, JSONDecodeError
        raise UserError(f"{path} is not JSON: {error}", "the file was cut short or edited: ask for it again") from error


def _explain(error: ValidationError) -> str:
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    return "; ".join(faults[:_SHOWN])
