"""A reply in one form: typography that carries no meaning is levelled, and thinking parts are dropped."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SAME_MARK: Final = str.maketrans(
    {**dict.fromkeys("’‘‚", "'"), **dict.fromkeys("“”„«»", '"'), **dict.fromkeys("–—―−", " - ")}
    | {**dict.fromkeys("【「『〔《", "["), **dict.fromkeys("】」』〕》", "]"), **dict.fromkeys("→⇒", ":")}
    | {"。": ". ", "、": ", ", **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\xad")}
)
_SAME_FORM: Final = tuple(
    (re.compile(pattern), form)
    for pattern, form in (
        (r"<(b|i|u|em|strong|code|mark|p|span|li)>([^<>]{0,300})</\1>", r"*\2*"),
        (r"\\(?:text|math|bold|left|right|bf|rm|quad|displaystyle)[a-z]{0,10}", ""),  # \text{c} -> {c}
        (r"\\(?=[^a-z0-9\s])", ""),  # escapes: <final\_answer>, \(c\)
        # A letter set off by emphasis or quotes becomes "c" ("I" stays a pronoun), one in brackets (c).
        (r"(?<![a-z0-9])[*_`~$\"']{1,4} ?([a-hj-z])([.:]?) ?[*_`~$\"']{1,4}(?![a-z0-9])", r'"\1"\2'),
        (r"[(\[{<]{1,3}[ \"*_]{0,3}([a-z])[ \"*_]{0,3}[)\]}>]{1,3}", r"(\1)"),
        (r"[*`~]|[^\S\n]", " "),
        (r" {2,}", " "),
        (r" ?\n[ \n]*", "\n"),
    )
)
_THINKING_TAG: Final = re.compile(r"[<\[◁] ?(/?) ?(?:think(?:ing)?|thought|reasoning|reflection) ?[>\]▷]")


def normal_form(text: str) -> str:
    """Return a reply in lower case, with one form of each mark; nothing is left of one that ends while thinking."""
    text = unicodedata.normalize("NFKC", text).lower().translate(_SAME_MARK)
    for pattern, form in _SAME_FORM:
        text = pattern.sub(form, text)
    shown: list[str] = []
    start, thinking = 0, False
    for tag in _THINKING_TAG.finditer(text):
        if tag[1]:
            if not thinking:  # the chat template had opened the part: all before belongs to it
                shown.clear()
            start, thinking = tag.end(), False
        elif not thinking:
            shown.append(text[start : tag.start()])
            thinking = True
    return "" if thinking else "\n".join([*shown, text[start:]])
