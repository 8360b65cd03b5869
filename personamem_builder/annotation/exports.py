"""The sample for two annotation tools: Label Studio (labelstud.io) and potato (potatoannotator.com).

Both files of tasks hold the right response, as a tool has to show it: they are for whoever runs the tool. Label Studio
shows it once a response has been chosen. potato cannot show a field on a condition, so there are two tasks for it: the
first asks for the best response, the second, which raters get after it, about the right one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from personamem_builder.annotation.items import (
    BEST,
    BEST_TEXT,
    CHECKS,
    UNSURE,
    VERDICTS,
    AnnotationItem,
    HistoryLine,
    sample_digest,
)
from personamem_builder.markup import markup_environment
from personamem_builder.schema import option_letters

_NOBODY: Final = "–"
"""Who says what is no message."""


def label_studio_config(items: Sequence[AnnotationItem]) -> str:
    """Return the labelling interface of a Label Studio project."""
    return (
        markup_environment(Path(__file__).parent)
        .get_template("label_studio.xml.j2")
        .render(letters=_letters(items), best=BEST_TEXT, unsure=UNSURE, checks=CHECKS, verdicts=VERDICTS)
    )


def label_studio_tasks(items: Sequence[AnnotationItem]) -> Iterator[dict[str, object]]:
    """Yield the tasks to import into Label Studio."""
    sample = sample_digest(items)
    for item in items:
        shown = {
            "history": _dialogue(item.lines, "author"),
            "message": item.message,
            **_options(item, items),
        }
        yield {
            "data": {
                "item": item.row["question_id"],
                "sample": sample,
                **shown,
                "response": item.response,
            }
        }


def potato_files(items: Sequence[AnnotationItem]) -> Iterator[tuple[str, str]]:
    """Yield the files of the two potato tasks, each as a name and a text."""
    fields = {f"option_{letter}": f"Response ({letter})" for letter in _letters(items)}
    best = _radio(BEST, BEST_TEXT, [*_letters(items), UNSURE])
    checks = [_radio(name, text, VERDICTS) for name, text in CHECKS.items()]
    yield "best.yaml", _potato_config("best", fields, [best])
    yield "response.yaml", _potato_config("response", {"response": "The response taken to be right"}, checks)
    yield "best.jsonl", "".join(_potato_line(item, _options(item, items)) for item in items)
    yield (
        "response.jsonl",
        "".join(_potato_line(item, {"response": item.response}) for item in items),
    )


def _letters(items: Sequence[AnnotationItem]) -> list[str]:
    return option_letters(max((len(item.options) for item in items), default=0))


def _options(item: AnnotationItem, items: Sequence[AnnotationItem]) -> dict[str, str]:
    """Return the responses by field; a tool needs each field in each task."""
    texts = dict(zip(_letters(items), item.options, strict=False))
    return {f"option_{letter}": texts.get(letter, "") for letter in _letters(items)}


def _dialogue(lines: Sequence[HistoryLine], who: str) -> list[dict[str, str]]:
    turns = []
    for line in lines:
        if "text" in line:
            turns.append(
                {who: f"{line['role']} (evidence)" if line["evidence"] else line["role"], "text": line["text"]}
            )
        else:
            left_out = f"{line['gap']} messages left out" if "gap" in line else line["session"]
            turns.append({who: _NOBODY, "text": left_out})
    return turns


def _potato_line(item: AnnotationItem, shown: Mapping[str, str]) -> str:
    record = {
        "id": item.row["question_id"],
        "history": _dialogue(item.lines, "speaker"),
        "message": item.message,
        **shown,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _radio(name: str, text: str, labels: Sequence[str]) -> dict[str, object]:
    required = {"label_requirement": {"required": True}}
    return {"annotation_type": "radio", "name": name, "description": text, "labels": list(labels), **required}


def _potato_config(name: str, fields: Mapping[str, str], schemes: Sequence[Mapping[str, object]]) -> str:
    history = {"key": "history", "type": "dialogue", "label": "History", "display_options": {"max_height": 480}}
    shown = {"message": "The user now says", **fields}
    comment = {"annotation_type": "text", "name": "comment", "description": "Comment (may stay empty)"}
    config = {
        "annotation_task_name": f"PersonaMem: {name}",
        "task_dir": ".",
        "output_annotation_dir": f"annotations_{name}",
        "data_files": [f"{name}.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "message"},
        "instance_display": {
            "fields": [history, *({"key": key, "type": "text", "label": label} for key, label in shown.items())]
        },
        "annotation_schemes": [*schemes, comment],
        "assignment_strategy": "fixed_order",
        "user_config": {"allow_all_users": True, "users": []},
    }
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120)
