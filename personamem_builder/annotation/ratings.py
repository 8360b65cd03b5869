"""Reading what raters said: files saved from the sheet, Label Studio's JSON export, and potato's `user_state.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field, RootModel, model_validator

from generation.errors import UserError
from generation.reading import as_model, read_json
from personamem_builder.annotation.items import BEST, CHECKS, UNSURE, VERDICTS
from personamem_builder.annotation.sheet import ANSWERS_FORMAT, ANSWERS_VERSION
from personamem_builder.results.answers import MAX_OPTIONS
from personamem_builder.schema import option_letters

COMMENT: Final = "comment"
_LONGEST_NAME: Final = 200

_SHOWN: Final = 5
_AGAIN: Final = "the file was cut short or edited: ask for it again"
_KINDS: Final = (
    "a file saved from sheet.html, a JSON export of Label Studio, or the user_state.json of a rater that potato keeps"
)

RaterAnswers = dict[str, dict[str, str]]
"""What a rater said, by item and by question: a letter or `unsure` for `best`, a verdict for the checks, a comment."""


class KeyItem(BaseModel):
    """What the key tells of an item."""

    id: str
    answer: str
    options: int = Field(ge=2, le=MAX_OPTIONS)
    question_type: str
    topic: str

    @model_validator(mode="after")
    def _consistent(self) -> KeyItem:
        if self.answer not in option_letters(self.options):
            raise ValueError(f"answer: {self.answer[:_LONGEST_NAME]!r} is the letter of none of {self.options} options")
        return self


class Key(BaseModel):
    """The key of a sample, as `items.key_of` makes it."""

    format: Literal["personamem-annotation-key"]
    version: Literal[1]
    sample: str
    split: str
    items: list[KeyItem] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Key:
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                raise ValueError(f"items: {item.id[:_LONGEST_NAME]!r} appears twice")
            seen.add(item.id)
        return self


_Name = Annotated[str, Field(max_length=_LONGEST_NAME)]


class _SheetAnswers(BaseModel):
    version: int
    sample: str
    rater: _Name
    answers: dict[str, dict[str, Any]]


class _LabelStudioData(BaseModel):
    item: str
    sample: str


class _LabelStudioValue(BaseModel):
    text: str | list[str] | None = None
    choices: list[str] | None = None

    @property
    def chosen(self) -> str | list[str] | None:
        """The choice, or the text; a list where there are several choices."""
        if self.text is not None:
            return "\n".join(self.text) if isinstance(self.text, list) else self.text
        return self.choices[0] if self.choices and len(self.choices) == 1 else self.choices


class _LabelStudioResult(BaseModel):
    from_name: str = ""  # a relation between results has none
    value: _LabelStudioValue = _LabelStudioValue()


class _LabelStudioUser(BaseModel):
    email: _Name | None = None
    id: int | _Name | None = None


class _LabelStudioAnnotation(BaseModel):
    completed_by: int | _Name | _LabelStudioUser
    result: list[_LabelStudioResult]
    was_cancelled: bool = False


class _LabelStudioTask(BaseModel):
    data: _LabelStudioData
    annotations: list[_LabelStudioAnnotation]


class _LabelStudioExport(RootModel[list[_LabelStudioTask]]):
    """Label Studio's JSON export."""


class _PotatoState(BaseModel):
    user_id: _Name
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
    hint = "give --key the key.json that `personamem annotate` wrote"
    return as_model(read_json(path, hint), Key, f"{path} is not a key of a sample", hint)


def read_raters(paths: Sequence[Path], key: Key) -> dict[str, RaterAnswers]:
    """Read the answers by rater, in the order of the files.

    A rater may come in several files that answer different questions, as potato keeps them.

    Raises:
        UserError: A file cannot be read, is of another sample, or has answers that are none; or a rater answers the
            same question in two places.
    """
    items = {item.id: item for item in key.items}
    raters: dict[str, RaterAnswers] = {}
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
    content = read_json(path, _AGAIN)
    read: Callable[[Path, Any, Key], list[_Rating]]
    if isinstance(content, list):
        read = _from_label_studio
    elif isinstance(content, dict) and content.get("format") == ANSWERS_FORMAT:
        read = _from_sheet
    elif isinstance(content, dict) and "instance_id_to_label_to_value" in content:
        read = _from_potato
    else:
        raise UserError(f"{path} holds no answers of a rater", f"give {_KINDS}")
    ratings = read(path, content, key)
    ratings = [rating._replace(rater=_printable(rating.rater).strip()) for rating in ratings]
    if not all(rating.rater for rating in ratings):
        raise UserError(f"{path} does not say who rated", "write a name into the sheet and save again")
    return ratings


def _printable(name: str) -> str:
    """Return a name that cannot steer the terminal that shows it."""
    return "".join(sign if sign.isprintable() and sign != "\N{REPLACEMENT CHARACTER}" else " " for sign in name)


def _from_sheet(path: Path, content: Any, key: Key) -> list[_Rating]:
    saved = as_model(content, _SheetAnswers, f"{path} cannot be understood", f"give {_KINDS}")
    if saved.version != ANSWERS_VERSION:
        raise UserError(f"{path} has version {saved.version}, version {ANSWERS_VERSION} is read", "update personamem")
    _check_sample(path, saved.sample, key)
    return [_Rating(saved.rater, item, answers) for item, answers in saved.answers.items()]


def _from_label_studio(path: Path, content: Any, key: Key) -> list[_Rating]:
    tasks = as_model(content, _LabelStudioExport, f"{path} cannot be understood", f"give {_KINDS}")
    ratings = []
    for task in tasks.root:
        _check_sample(path, task.data.sample, key)
        for annotation in task.annotations:
            if not annotation.was_cancelled:
                answers = {result.from_name: result.value.chosen for result in annotation.result if result.from_name}
                ratings.append(_Rating(_user(annotation.completed_by), task.data.item, answers))
    return ratings


def _user(completed_by: int | str | _LabelStudioUser) -> str:
    if isinstance(completed_by, _LabelStudioUser):
        return completed_by.email or str(completed_by.id or "")
    return str(completed_by)


def _from_potato(path: Path, content: Any, key: Key) -> list[_Rating]:
    state = as_model(content, _PotatoState, f"{path} cannot be understood", f"give {_KINDS}")
    ratings = []
    for item, labels in state.instance_id_to_label_to_value.items():
        answers = {label.get("schema", ""): value for label, value in labels}
        ratings.append(_Rating(state.user_id, item, answers))
    return ratings


def _check_sample(path: Path, sample: str, key: Key) -> None:
    if sample != key.sample:
        raise UserError(
            f"{path} answers the sample {_printable(sample)[:_LONGEST_NAME]}, the key is of {key.sample}",
            "give the key.json that lay beside the sheet which was rated",
        )


def _faults(rating: _Rating, items: Mapping[str, KeyItem], key: Key) -> list[str]:
    item = items.get(rating.item)
    if item is None:
        return [f"item {_short(rating.item)} is not of the sample {key.sample}"]
    letters = option_letters(item.options)
    allowed = {BEST: (*letters, UNSURE), **dict.fromkeys(CHECKS, VERDICTS)}
    faults = []
    for name, value in rating.answers.items():
        if name == COMMENT and isinstance(value, str):
            continue
        if name not in allowed:
            faults.append(f"item {rating.item}: there is no question {_short(name)}")
        elif value not in allowed[name]:
            faults.append(f"item {rating.item}: {name} is {_short(value)}, not one of {', '.join(allowed[name])}")
    return faults


def _raise(path: Path, faults: Sequence[str]) -> None:
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        hint = "use the files that the raters saved, unchanged, with the key of their sheet"
        raise UserError(f"{path}: {'; '.join(faults[:_SHOWN])}{more}", hint)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
