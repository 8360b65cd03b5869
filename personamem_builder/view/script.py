"""Data as JavaScript: a page that is opened from a file may load scripts, and nothing else."""

from __future__ import annotations

import json
from typing import Final

_ESCAPES: Final = str.maketrans({"<": r"\u003c", "\u2028": r"\u2028", "\u2029": r"\u2029"})
"""What must not stand in a script as it is: `</script>`, `<!--`, and two characters that end a line."""


def data_script(name: str, value: object) -> bytes:
    """Return a script that hands a value to the page, by the name of the file that it asked for.

    The keys of the value's objects must be ours, not taken from data.
    """
    text = json.dumps([name, value], ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone half of a character pair is no UTF-8; no file of ours has one, a results file may.
    return f"personamem(...{text.translate(_ESCAPES)});\n".encode("utf-8", "replace")
