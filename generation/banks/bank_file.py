"""Reading a bank file: its faults are named with the line on which they stand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import yaml
from pydantic import ValidationError

from generation.banks.model import BankModel
from generation.banks.topic import TopicBank
from generation.banks.topic_faults import Fault, Place, topic_faults
from generation.reading import decode, describe_fault
from generation.yaml_reading import parse_yaml

B = TypeVar("B", bound=BankModel)

HINT: Final = "the form of a bank file is in docs/banks.md"


class BankFault(NamedTuple):
    """Something wrong with a bank file; the line is 1 for the first."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def read_bank(path: Path, content: bytes, kind: type[B]) -> tuple[B | None, list[BankFault]]:
    """Read a bank from the bytes of a file.

    Returns:
        The bank, or None if it cannot be used, and what is wrong with it.

    Raises:
        UserError: It is no YAML.
    """
    value = parse_yaml(decode(content, str(path)), str(path), HINT)
    try:
        bank = kind.model_validate(value)
    except ValidationError as error:
        return None, placed(path, content, [Fault(fault["loc"], describe_fault(fault)) for fault in error.errors()])
    faults = placed(path, content, topic_faults(bank)) if isinstance(bank, TopicBank) else []
    return (None if faults else bank), faults


def placed(path: Path, content: bytes, faults: Iterable[Fault]) -> list[BankFault]:
    """Return faults of a bank with their lines in the file."""
    found = list(faults)
    if not found:
        return []
    root = yaml.compose(decode(content, str(path)), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [BankFault(path, _line(root, fault.place), fault.message) for fault in found]


def _line(node: Any, place: Place) -> int:
    """Return the line of a place, or of the innermost part of it that is there."""
    for part in place:
        inner = None
        if isinstance(node, yaml.MappingNode):
            inner = next((value for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            inner = node.value[part]
        if inner is None:
            break
        node = inner
    return int(node.start_mark.line) + 1 if node is not None else 1
