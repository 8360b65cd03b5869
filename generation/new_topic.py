"""A topic bank that a language model writes: part by part, each checked and mended, for a person to review."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import yaml
from pydantic import BaseModel

from generation.banks.load import faults_beside_shipped
from generation.banks.topic import TopicBank
from generation.banks.topic_faults import Fault, Place, bad_prose, frame_faults, person_faults, topic_faults
from generation.llm.client import Client, ReplyError
from generation.new_topic_parts import OutlineReply, Part, outline_part, parts_of
from generation.parallel import calls_under_way, ordered_results
from generation.revision import rewrite_request

ROUNDS: Final = 3
"""How often parts are written anew with what is wrong with them beside the others."""


class Written(NamedTuple):
    """A bank as far as it came.

    Attributes:
        content: The keys of the file.
        faults: What is still wrong with it.
        missing: The parts for which there is no usable reply, each with the reason.
    """

    content: dict[str, Any]
    faults: list[Fault]
    missing: list[str]


def write_topic(
    client: Client, name: str, tell: Callable[[str], None] = lambda _: None, concurrency: int = 1
) -> Written:
    """Have a topic bank written.

    Args:
        client: Asks the model; replies that it keeps are not asked for again.
        name: Of the topic, such as `pet care`.
        tell: Is called with the name of each part once it is written.
        concurrency: Most calls under way at a time.

    Raises:
        ReplyError: There is no usable outline.
    """
    topic_id = camel_case(name)
    outline = outline_part(name)
    said = _ask(client, outline)
    assert isinstance(said, OutlineReply)
    replies: dict[str, BaseModel] = {outline.name: said}
    tell(outline.name)
    parts = [outline, *parts_of(name, said)]

    def attempt(ask: Callable[[Part], BaseModel], part: Part) -> BaseModel | ReplyError:
        try:
            return ask(part)
        except ReplyError as error:
            return error

    def write(asked: Sequence[Part], ask: Callable[[Part], BaseModel], done: str) -> Iterator[tuple[Part, ReplyError]]:
        """Take the replies to some parts; yield those for which there is none."""
        with calls_under_way(concurrency) as pool:
            for part, reply in zip(asked, ordered_results(pool, len(asked), partial(attempt, ask), asked), strict=True):
                if isinstance(reply, ReplyError):
                    yield part, reply
                else:
                    replies[part.name] = reply
                    tell(f"{part.name}{done}")

    missing = [f"{part.name}: {error.message}" for part, error in write(parts[1:], partial(_ask, client), "")]
    content = _content(topic_id, parts, replies)
    if missing:
        return Written(content, [], missing)
    for number in range(ROUNDS):
        faults = _faults(content)
        wrong = {part.name: found for part in parts if (found := _of_part(part, parts, faults))}
        if not wrong:
            break

        def mended(part: Part, wrong: dict[str, list[str]] = wrong, number: int = number) -> BaseModel:
            return _mend(client, part, replies[part.name], wrong[part.name], number)

        # A part that is not mended stays as it is, with its faults.
        list(write([part for part in parts if part.name in wrong], mended, ", mended"))
        content = _content(topic_id, parts, replies)
    return Written(content, _faults(content), [])


def camel_case(name: str) -> str:
    """Return the id of a topic: `petCare` for `pet care`."""
    first, *rest = re.findall(r"[A-Za-z0-9]+", name) or ["topic"]
    joined = "".join([first.lower(), *(word.capitalize() for word in rest)])
    return joined if joined[0].isalpha() else f"topic{joined}"


def as_yaml(content: Mapping[str, Any], head: str) -> str:
    """Return a bank as the text of a file, under a comment."""
    comment = "".join(f"# {line}\n" for line in head.splitlines())
    return comment + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=120)


# --- the parts


def _ask(client: Client, part: Part) -> BaseModel:
    return client.ask(part.request, part.schema, partial(_part_faults, part))


def _mend(client: Client, part: Part, reply: BaseModel, faults: list[str], number: int) -> BaseModel:
    request = rewrite_request(part.request, reply, faults, (0, number))
    return client.ask(request, part.schema, partial(_part_faults, part))


def _part_faults(part: Part, reply: BaseModel) -> list[str]:
    """Return what is wrong with a part, whatever the others are."""
    faults = [
        f"there are {has} {key} and not {count}"
        for key, count in part.counts.items()
        if (has := len(getattr(reply, key))) != count
    ]
    found = [*frame_faults(reply), *person_faults(reply), *bad_prose(reply)]
    return faults + [f"{_shown(fault.place)}: {fault.message}" for fault in found]


def _shown(place: Place) -> str:
    return ".".join(map(str, place))


# --- the whole


def _content(topic_id: str, parts: Sequence[Part], replies: Mapping[str, BaseModel]) -> dict[str, Any]:
    """Return the keys of the bank's file, as far as there are replies."""
    outline = replies["outline"]
    assert isinstance(outline, OutlineReply)
    content: dict[str, Any] = {"id": topic_id, **_plain(outline)}
    content |= {"item_reasons": {}, "threads": []}
    for part in parts[1:]:
        if part.name not in replies:
            continue
        found = _plain(replies[part.name])
        match part.place:
            case ("stances",):
                content |= found
            case ("slots" | "facts" as key, int(i)):
                content[key][i] |= found
            case ("slots", int(i), "reasons"):
                content["slots"][i]["reasons"] = found
            case ("item_reasons", str(way)):
                content["item_reasons"][way] = found
            case ("threads", _):
                about = part.request.facts["about"]
                content["threads"] += [{"about": about, **thread} for thread in found["threads"]]
    return content


def _plain(reply: BaseModel) -> dict[str, Any]:
    return _without_empty(reply.model_dump(mode="json"))  # type: ignore[no-any-return]


def _without_empty(node: Any) -> Any:
    """Return data without its empty `needs`, `against` and the like."""
    if isinstance(node, dict):
        return {key: _without_empty(value) for key, value in node.items() if value not in ([], ())}
    return [_without_empty(value) for value in node] if isinstance(node, list) else node


def _faults(content: Mapping[str, Any]) -> list[Fault]:
    bank = TopicBank.model_validate(content)
    return [*topic_faults(bank), *faults_beside_shipped(bank), *bad_prose(bank)]


def _of_part(part: Part, parts: Sequence[Part], faults: Sequence[Fault]) -> list[str]:
    """Return the faults of the bank that a part can mend."""
    own = [fault for fault in faults if _owner(fault.place, parts) == part]
    return [f"{_shown(fault.place)}: {fault.message}" for fault in own]


def _owner(place: Place, parts: Sequence[Part]) -> Part:
    """Return the part in which something stands; what stands nowhere in particular is for the outline."""
    outline, stances = parts[0], parts[1]
    if place[:1] in (("stances",), ("item_queries",), ("idea_queries",)):
        return stances
    if place[:1] == ("threads",):
        if len(place) == 1:
            return outline
        left = place[1]
        assert isinstance(left, int)
        for part in parts:
            if part.place[:1] == ("threads",):
                if left < part.counts["threads"]:
                    return part
                left -= part.counts["threads"]
    # The longest place that begins it: reasons of a slot are a part of their own.
    fitting = [part for part in parts if part.place and place[: len(part.place)] == part.place]
    return max(fitting, key=lambda part: len(part.place), default=outline)
