"""Faults of bank files are named with their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from small_banks import tiny_bank

from generation.banks.bank_file import read_bank
from generation.banks.topic import TopicBank
from generation.banks.topic_faults import bad_prose
from generation.errors import UserError

TEXT = yaml.safe_dump(tiny_bank(), sort_keys=False, width=1000)


def faults(text: str) -> list[str]:
    bank, found = read_bank(Path("chess.yaml"), text.encode(), TopicBank)
    assert (bank is None) == bool(found)
    return [str(fault) for fault in found]


def line_of(text: str, part: str) -> int:
    """Return the line on which something stands; it stands once."""
    (line,) = [number for number, line in enumerate(text.splitlines(), start=1) if part in line]
    return line


def test_a_good_file_has_none() -> None:
    assert faults(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("I have a free evening at the board.", "I do blitz games.", "'I do blitz games.' names 'blitz games'"),
        ("took to {item}", "took to it", "stances.likes.0: 'took to it' must have {item}"),
        ("kept a loaf as a prize for mate", "kept a baker's things", "has the words baker…"),
        ("kept a gold pen as a prize for mate", "kept her gold pen", "'kept her gold pen' says 'her'"),
        ("phrase: sharp gambits", "phrase: 7", "slots.0.values.1.phrase: Input should be a valid string (it is 7)"),
        ("label: the question of free", "labels: the question of free", "unknown key 'threads.4.labels'"),
    ],
)
def test_a_fault_is_named_with_its_line(old: str, new: str, message: str) -> None:
    text = TEXT.replace(old, new)
    assert any(fault.startswith(f"chess.yaml:{line_of(text, new)}: ") and message in fault for fault in faults(text)), (
        faults(text)
    )


def test_what_is_missing_is_named_where_it_should_be() -> None:
    text = TEXT.replace("  queries:\n  - A new round begins on Friday.\n", "")
    (fault,) = faults(text)
    assert fault == f"chess.yaml:{line_of(text, '- id: setup')}: slots.0.queries: Field required"
    (fault,) = faults(TEXT.replace("label: chess\n", ""))
    assert fault == "chess.yaml:1: label: Field required"


def test_what_is_no_yaml_is_one_error() -> None:
    with pytest.raises(UserError, match=r"chess\.yaml is not YAML: line 3"):
        faults("id: chess\nlabel: [")


def test_the_example_of_the_documentation_is_a_good_bank() -> None:
    text = (Path(__file__).parents[3] / "docs" / "banks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(id: chess.*?)```", text, re.DOTALL)
    bank, found = read_bank(Path("chess.yaml"), example.encode(), TopicBank)
    assert (bank is not None, found) == (True, [])
    assert bank is not None
    assert [*bad_prose(bank)] == []
