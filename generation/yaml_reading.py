"""The one way in for YAML that others wrote: plain values, bounded, and every fault named with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from generation.errors import UserError
from generation.reading import MAX_DEPTH, TOO_DEEP, clean, read_text

MAX_NODES: Final = 100_000
"""Values of a YAML file, with those that an alias repeats counted each time."""

# libyaml is some ten times faster than the loader in Python; a few platforms lack it.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What PyYAML's constructors raise on scalars that look like a date or a number and are none.
_NOT_CONSTRUCTED: Final = (ValueError, TypeError, AttributeError, LookupError, OverflowError)


def read_yaml(path: Path, hint: str = "") -> Any:
    """Read a YAML file.

    Raises:
        UserError: As `read_text` and `parse_yaml`.
    """
    return parse_yaml(read_text(path, hint), str(path), hint)


def parse_yaml(text: str, where: str, hint: str = "") -> Any:
    """Parse one YAML document with plain values only.

    Raises:
        UserError: It is no YAML; a key stands twice in a mapping; a scalar is no value of its type, such as a date that
            does not exist; a whole number does not fit into 64 bits; or it is nested deeper than `MAX_DEPTH` or has
            more than `MAX_NODES` values.
    """
    try:
        if len(text) > 2 * MAX_NODES:  # a value takes two characters at least
            _check_events(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_size(node)
            value = loader.construct_document(node)
            return clean(value) if "\\" in text else value  # as they are, control characters are no YAML
        finally:
            loader.dispose()
    except RecursionError as error:
        raise UserError(f"{where}: {TOO_DEEP}", hint) from error
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not YAML: {_in_words(error)}", hint) from error


def _in_words(error: yaml.YAMLError) -> str:
    """Return what a YAML error says on one line, the place first."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    return " ".join(str(error).split())


class _Loader(_SafeLoader):  # type: ignore[misc]
    """Refuses a key that stands twice in a mapping, which YAML lets pass, and names the place of a faulty scalar."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if isinstance(node, yaml.MappingNode):
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        raise _fault(f"the key {key.value!r} stands twice", key)
                    seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except _NOT_CONSTRUCTED as error:
            kind = node.tag.rpartition(":")[2]
            shown = repr(node.value)[:60] if isinstance(node, yaml.ScalarNode) else "this"
            raise _fault(f"{shown} is no {kind}", node) from error
        if isinstance(value, int) and abs(value) >= 2**63:
            raise _fault("a whole number is beyond 64 bits", node)
        return value


def _check_events(text: str) -> None:
    """Raise where a document has too many values; none of them is kept in memory."""
    count = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.NodeEvent):
            count += 1
            if count > MAX_NODES:
                raise _fault(f"more than {MAX_NODES:,} values", event)


def _check_size(root: Any) -> None:
    """Raise where a document is too deep or, with its aliases written out, too large; nothing is written out."""
    measured: dict[int, tuple[int, int]] = {}
    under_way: set[int] = set()

    def measure(node: Any, depth: int) -> tuple[int, int]:
        """Return how many values a node holds, and how deep they are nested."""
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        key = id(node)
        if key in under_way:
            raise _fault("a value holds itself, by an alias", node)
        if key not in measured:
            if depth > MAX_DEPTH:
                raise _fault(TOO_DEEP, node)
            under_way.add(key)
            inner = (part for pair in node.value for part in pair) if isinstance(node, yaml.MappingNode) else node.value
            sizes = [measure(part, depth + 1) for part in inner]
            under_way.remove(key)
            measured[key] = 1 + sum(size for size, _ in sizes), 1 + max((height for _, height in sizes), default=0)
        size, height = measured[key]
        if height > MAX_DEPTH:
            raise _fault(TOO_DEEP, node)
        if size > MAX_NODES:
            raise _fault(f"more than {MAX_NODES:,} values, as its aliases repeat them", node)
        return size, height

    measure(root, 1)


def _fault(problem: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
