"""Loading banks: the shipped files, and topic banks that a user gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from generation.banks.bank_file import HINT, read_bank
from generation.banks.life import LifeBank
from generation.banks.model import BankModel
from generation.banks.people import PeopleBank
from generation.banks.phrases import GenericPhrases, OptionPhrases, Phrases
from generation.banks.scenarios import ScenarioBank
from generation.banks.topic import TopicBank
from generation.banks.topic_faults import Fault, bank_texts, name_places
from generation.banks.voices import Voices
from generation.config import OPTIONS, TRIED, Config
from generation.errors import UserError
from generation.grammar import may_mention

B = TypeVar("B", bound=BankModel)

_FILES: Final = Path(__file__).parent / "files"


class Banks(NamedTuple):
    """The banks of a run.

    Attributes:
        topics: By id, in the order of the configuration.
        voices: How users write.
        answers: Words of the options.
        digests: For each file, by the id of the topic or the file's name, the sha256 of its content (16 digits).
        generic: Words of generic distractors; None where the configuration asks for none.
    """

    topics: dict[str, TopicBank]
    people: PeopleBank
    life: LifeBank
    scenarios: ScenarioBank
    phrases: Phrases
    voices: Voices
    answers: OptionPhrases
    digests: dict[str, str]
    generic: GenericPhrases | None = None


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
    if config.generic_distractors:  # else their digest is none of the run's
        banks = banks._replace(generic=_load(_FILES / "generic.yaml", GenericPhrases, digests))
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
        voices=_load(_FILES / "voices.yaml", Voices, digests),
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
        raise UserError(f"{path}: {error.strerror}", HINT) from error
    digests[path.name] = hashlib.sha256(content).hexdigest()[:16]
    bank: B = _parse(path, content, kind)
    return bank


@cache
def _parse(path: Path, content: bytes, kind: type[Any]) -> Any:
    bank, faults = read_bank(path, content, kind)
    if bank is None:
        more = f"; and {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
        raise UserError(f"{'; '.join(map(str, faults[:_FAULTS_SHOWN]))}{more}", HINT)
    return bank


_FAULTS_SHOWN: Final = 20


def _check_names(name: str, bank: TopicBank, banks: Banks) -> None:
    if found := list(_named_elsewhere(bank, banks)):
        raise UserError(f"{name}: {'; '.join(fault.message for fault in found)}", HINT)


def faults_beside_shipped(bank: TopicBank) -> list[Fault]:
    """Return the names of a bank that the shipped banks use too, or the other way round, each where it stands in it."""
    banks = load_shipped_banks()
    others = {id_: other for id_, other in banks.topics.items() if id_ != bank.id}
    return list(_named_elsewhere(bank, banks._replace(topics=others)))


def _named_elsewhere(bank: TopicBank, banks: Banks) -> Iterator[Fault]:
    """Find names that users would mention without meaning them: in what all topics share, or in another topic."""
    places = dict(zip(map(str.lower, bank.names()), name_places(bank), strict=True))
    shared = [text for one in (banks.phrases, banks.voices, banks.life) for _, text in bank_texts(one)]
    for name in _named(bank.names(), shared):
        use_another = "use a longer name, which nobody mentions but a user with a view on it"
        yield Fault(places[name], f"chats of all topics speak of {name!r}; {use_another}")
    for other in banks.topics.values():
        if other is bank:
            continue
        for name in _named(bank.names(), [*other.names(), *(text for _, text in bank_texts(other))]):
            yield Fault(places[name], f"{name!r} occurs in the texts of {other.id} too; use other words")
        own = [*zip(name_places(bank), bank.names(), strict=True), *bank_texts(bank)]
        for name in _named(other.names(), [text for _, text in own]):
            place = next(place for place, text in own if may_mention(text.lower(), name))
            yield Fault(place, f"{name!r} is a name of {other.id}; use other words")


def _named(names: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return the names that some text may mention, in lower case."""
    words = [(text.lower(), set(_WORD.findall(text.lower()))) for text in texts]
    return [
        phrase
        for phrase in map(str.lower, names)
        if any(set(_WORD.findall(phrase)) <= there and may_mention(text, phrase) for text, there in words)
    ]


_WORD: Final = re.compile(r"[^\W_]+")


def _check_size(name: str, bank: TopicBank, config: Config) -> None:
    # Of the items of a trial the user has tried all but one; every other item has a partner of which only others speak.
    items = OPTIONS * config.trial_groups + 2 * (config.items_per_topic - TRIED * config.trial_groups)
    has_and_needs = (
        ("items", len(bank.items), items),
        ("slots", len(bank.slots), config.slots_per_topic),
        ("facts", len(bank.facts), config.facts_per_topic),
    )
    lacks = [f"{what}: {has} of the {needs} needed" for what, has, needs in has_and_needs if has < needs]
    if lacks:
        raise UserError(
            f"{name}: the bank is too small for the configuration: {'; '.join(lacks)}",
            "add to the bank, or lower items_per_topic, slots_per_topic or facts_per_topic",
        )
