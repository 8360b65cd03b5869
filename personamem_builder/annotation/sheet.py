"""The page on which people rate questions: one file for a browser, with whole histories in files beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from personamem_builder.annotation.items import (
    BEST_TEXT,
    CHECKS,
    UNSURE,
    VERDICTS,
    AnnotationItem,
    HistoryLine,
    sample_digest,
)
from personamem_builder.markup import markup_environment

ANSWERS_FORMAT: Final = "personamem-annotations"
ANSWERS_VERSION: Final = 1

_HERE: Final = Path(__file__).parent
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def sheet_files(items: Sequence[AnnotationItem], source: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the files of a sheet.

    They are `sheet.html`, whose head names the `source` of the questions, and a script for each history that is shown
    whole, which the page loads when it needs it.
    """
    sample = sample_digest(items)
    longest: dict[str, Sequence[HistoryLine]] = {}
    for item in items:
        if item.whole:
            context = item.row["shared_context_id"]
            longest[context] = max(longest.get(context, ()), item.lines, key=len)
    names = {context: f"histories/{number}.js" for number, context in enumerate(longest, 1)}
    data = {
        "format": ANSWERS_FORMAT,
        "version": ANSWERS_VERSION,
        "sample": sample,
        "best": BEST_TEXT,
        "checks": CHECKS,
        "verdicts": VERDICTS,
        "unsure": UNSURE,
        "items": [_entry(item, sample, names) for item in items],
    }
    yield "sheet.html", _page(data, source)
    for context, name in names.items():
        yield name, f"personamemHistory({_script_json(name)}, {_script_json(longest[context])});\n"


def seal(sample: str, item_id: str, answer: int, options: int) -> int:
    """Hide the index of the right response, of so many, from the eye.

    The page has to show the right response once the rater has chosen, so it must be able to find it. The index is
    moved by a number that follows from the ids: a rater who reads the source of the page sees 0 to 3 at random, one who
    runs its code can know more.
    """
    digest = _FNV_OFFSET
    for byte in f"{sample}:{item_id}".encode():
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF  # FNV-1a, which is a line of JavaScript too
    return (answer + (digest >> 16)) % options


def _entry(item: AnnotationItem, sample: str, names: Mapping[str, str]) -> dict[str, object]:
    shown: dict[str, object] = {"lines": item.lines}
    if item.whole:
        shown = {"file": names[item.row["shared_context_id"]], "end": len(item.lines)}
    return {
        "id": item.row["question_id"],
        "message": item.message,
        "options": item.options,
        "seal": seal(sample, item.row["question_id"], item.row["answer_index"], len(item.options)),
        **shown,
    }


def _page(data: Mapping[str, Any], source: str) -> str:
    script, style = ((_HERE / name).read_text(encoding="utf-8") for name in ("sheet.js", "sheet.css"))
    return (
        markup_environment(_HERE)
        .get_template("sheet.html.j2")
        .render(
            source=source,
            sample=data["sample"],
            count=len(data["items"]),
            checks=CHECKS,
            data=Markup(_script_json(data)),
            script=Markup(script),
            style=Markup(style),
            script_hash=_csp_hash(script),
            style_hash=_csp_hash(style),
        )
    )


def _script_json(value: object) -> str:
    """Return JSON that can stand in a script: nothing in it closes the element or opens a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
