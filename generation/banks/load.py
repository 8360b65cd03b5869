"""Loading banks: the shipped files, and topic banks that a user gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from generation.banks.attributions import Attributions
from generation.banks.life import LifeBank
from generation.banks.model import BankModel
from generation.banks.people import PeopleBank
from generation.banks.phrases import OptionPhrases, Phrases
from generation.banks.scenarios import ScenarioBank
from generation.banks.topic import TopicBank
from generation.config import OPTIONS, TRIED, Config
from generation.errors import UserError
from generation.grammar import may_mention
from generation.reading import as_model, decode
from generation.yaml_reading import parse_yaml

B = TypeVar("B", bound=BankModel)

_FILES: Final = Path(__file__).parent / "files"


class Banks(NamedTuple):
    """The banks of a run.

    Attributes:
        topics: By id, in the order of the configuration.
        attributions: Words that say whose something told is.
        answers: Words of the options.
        digests: For each file, by the id of the topic or the file's name, the sha256 of its content (16 digits).
    """

    topics: dict[str, TopicBank]
    people: PeopleBank
    life: LifeBank
    scenarios: ScenarioBank
    phrases: Phrases
    attributions: Attributions
    answers: OptionPhrases
    digests: dict[str, str]


def shipped_topics() -> list[str]:
    """Return the ids of the topic banks that come with the distribution."""
    return sorted(path.stem for path in (_FILES / "topics").glob("*.yaml"))


def load_banks(config: Config) -> Banks:
    """Load the banks that a configuration needs, and check that they can give what it asks for.

    Raises:
        UserError: A topic is unknown, a bank file is absent or faulty, two banks have one id, a bank is too small
            for the configuration, or it names something that chats of all topics speak of.
    """
    digests: dict[str, str] = {}
    topics: dict[str, TopicBank] = {}
    for name in config.topics:
        bank = _load_topic(name, digests)
        if bank.id in topics:
            raise UserError(f"{name}: a bank with the id {bank.id!r} is among the topics already", "change its id")
        _check_size(name, bank, config)
        topics[bank.id] = bank
    banks = _with_shared(topics, digests)
    for name, bank in zip(config.topics, topics.values(), strict=True):
        if name.endswith(".yaml"):  # the shipped ones are tested
            _check_names(name, bank, banks)
    return banks


def load_shipped_banks() -> Banks:
    """Load every bank that comes with the distribution."""
    digests: dict[str, str] = {}
    return _with_shared({name: _load_topic(name, digests) for name in shipped_topics()}, digests)


def _load_topic(name: str, digests: dict[str, str]) -> TopicBank:
    path = _topic_path(name)
    bank = _load(path, TopicBank, digests)
    digests[f"topics/{bank.id}.yaml"] = digests.pop(path.name)
    return bank


def _with_shared(topics: dict[str, TopicBank], digests: dict[str, str]) -> Banks:
    """Return the banks of some topics, with those that all topics share."""
    return Banks(
        topics=topics,
        people=_load(_FILES / "people.yaml", PeopleBank, digests),
        life=_load(_FILES / "life.yaml", LifeBank, digests),
        scenarios=_load(_FILES / "scenarios.yaml", ScenarioBank, digests),
        phrases=_load(_FILES / "phrases.yaml", Phrases, digests),
        attributions=_load(_FILES / "attributions.yaml", Attributions, digests),
        answers=_load(_FILES / "answers.yaml", OptionPhrases, digests),
        digests=digests,
    )


def _topic_path(name: str) -> Path:
    if name.endswith(".yaml"):
        return Path(name)
    path = _FILES / "topics" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(shipped_topics())
        raise UserError(
            f"topics: there is no bank {name!r}; the shipped ones are {known}",
            "to add a topic, give the path of a bank file that ends in .yaml",
        )
    return path


def _load(path: Path, kind: type[B], digests: dict[str, str]) -> B:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "give the path of a bank file, see docs/banks.md") from error
    digests[path.name] = hashlib.sha256(content).hexdigest()[:16]
    bank: B = _parse(path, content, kind)
    return bank


@cache
def _parse(path: Path, content: bytes, kind: type[Any]) -> Any:
    hint = "the form of a bank file is in docs/banks.md"
    return as_model(parse_yaml(decode(content, str(path)), str(path), hint), kind, str(path), hint)


def _check_names(name: str, bank: TopicBank, banks: Banks) -> None:
    """Refuse items and values that users would mention without meaning them, in this topic's bank or by it."""
    shared = [text for field in type(banks.phrases).model_fields for text in getattr(banks.phrases, field)]
    shared += [text for event in banks.life.events for text in (*event.told, *event.asks, *event.replies)]
    shared += [text for entry in banks.attributions.attributions for text in (*entry.texts, *entry.tags)]
    shared += [text for talk in banks.life.small_talk for text in (talk.say, talk.reply)]
    if found := _named(bank.names(), shared):
        raise UserError(
            f"{name}: chats of all topics speak of {', '.join(map(repr, found))}",
            "use longer names, which nobody mentions but a user with a view on them",
        )
    for other in banks.topics.values():
        if other is bank:
            continue
        for names, texts, where in ((bank, other, other.id), (other, bank, bank.id)):
            if found := _named(names.names(), [*texts.names(), *(text for _, text, _ in texts.templates())]):
                raise UserError(
                    f"{name}: {', '.join(map(repr, found))} of {names.id} occurs in the texts of {where} too",
                    "use another name, or another text",
                )


def _named(names: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return the names that some text may mention."""
    words = [(text.lower(), set(_WORD.findall(text.lower()))) for text in texts]
    return [
        phrase
        for phrase in map(str.lower, names)
        if any(set(_WORD.findall(phrase)) <= there and may_mention(text, phrase) for text, there in words)
    ]


_WORD: Final = re.compile(r"[^\W_]+")


def _check_size(name: str, bank: TopicBank, config: Config) -> None:
    reasons = 4 * min(len(reasons) for reasons in bank.reasons.values())
    # Of the items of a trial the user has tried all but one; every other item has a partner of which only others speak.
    items = OPTIONS * config.trial_groups + 2 * (config.items_per_topic - TRIED * config.trial_groups)
    has_and_needs = (
        ("items", len(bank.items), items),
        ("slots", len(bank.slots), config.slots_per_topic),
        ("facts", len(bank.facts), config.facts_per_topic),
        ("reasons of four motives", reasons, config.updates_per_topic),
    )
    lacks = [f"{what}: {has} of the {needs} needed" for what, has, needs in has_and_needs if has < needs]
    if lacks:
        raise UserError(
            f"{name}: the bank is too small for the configuration: {'; '.join(lacks)}",
            "add to the bank, or lower items_per_topic, slots_per_topic, facts_per_topic or updates_per_topic",
        )
