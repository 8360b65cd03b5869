"""The configuration of a run: a YAML file, checked whole before anything starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from generation.errors import UserError
from generation.reading import describe
from generation.records import PERIODS, QUESTION_TYPES, TELLINGS, QuestionType, Telling, Visible
from generation.resources import example_names, find_example
from generation.yaml_reading import read_yaml

MAX_UPDATES: Final = 3
"""How often one preference changes at most (the paper's limit)."""

LIFE_EVENTS: Final = 1
"""Events of the general history that a session speaks of at most."""

MAX_TOLD: Final = 4
"""Events and mentions that one message tells at most: all that options of one question assert."""

FREE_SHARE: Final = 0.1
"""Of the exchanges of a session, those that tell nothing, of the user or of others."""

OPTIONS: Final = 4
"""Of a question. Where the user tells one of the things that they assert, the others are told too."""

MAX_GENERIC: Final = OPTIONS - 2
"""Generic distractors of a question at most: with one more, the right option would be the only one that asserts
anything of the user."""

TRIED: Final = OPTIONS - 1
"""Items that the user has tried, of those that the options of a question about new ideas name."""

MAX_USERS: Final = 1_000_000
"""Users of all runs with one seed: they are numbered from 0."""

_MOST: Final = 10_000  # of what a bank holds, or a session: far more than anybody writes

# Strict: YAML's `yes`, `2.0` and `"2"` are no numbers of users.
_Whole = Annotated[int, Field(strict=True)]
_Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Turns(BaseModel):
    """How many exchanges (a user message and its reply) a session has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min: _Whole = Field(default=20, ge=1, le=_MOST)
    max: _Whole = Field(default=24, ge=1, le=_MOST)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens.

    Attributes:
        input: Of prompts.
        output: Of replies.
        cached_input: Of tokens of prompts that the endpoint reads from its cache; by default as much as all others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Real = Field(ge=0, le=1_000_000)
    output: _Real = Field(ge=0, le=1_000_000)
    cached_input: _Real | None = Field(default=None, ge=0, le=1_000_000)


_OWN_FIELDS: Final = frozenset(
    {
        "model",
        "messages",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        "response_format",
        "stream",
        "n",
    }
)


class LLMConfig(BaseModel):
    """How language models are asked; the offline backend has no use for it.

    Attributes:
        temperature: Null for models that take none: they then sample as they do by themselves.
        max_tokens: Longest reply; one that is cut there is a failure.
        reasoning_effort: How much a model that reasons should do so, in the endpoint's words (`low`, `medium`, `high`);
            by default as much as it does by itself.
        reasoning_tokens: Tokens that a reply may have for reasoning beside `max_tokens`: endpoints count both together.
        extra_body: Further fields of requests, as an endpoint knows them: `{provider: {order: [...]}}`.
        concurrency: Most calls under way at a time.
        requests_per_minute: Most calls begun in a minute; no limit by default.
        tokens_per_minute: Most tokens of prompts and replies in a minute; no limit by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: _Real | None = Field(default=0.8, ge=0, le=2)
    max_tokens: _Whole = Field(default=8192, ge=1, le=10_000_000)
    reasoning_effort: str | None = Field(default=None, min_length=1, max_length=100)
    reasoning_tokens: _Whole = Field(default=0, ge=0, le=10_000_000)
    extra_body: dict[str, JsonValue] = {}
    concurrency: _Whole = Field(default=8, ge=1, le=256)
    requests_per_minute: _Whole | None = Field(default=None, ge=1, le=1_000_000_000)
    tokens_per_minute: _Whole | None = Field(default=None, ge=1, le=1_000_000_000_000)
    timeout: _Real = Field(default=600.0, gt=0, le=86_400)
    prices: dict[str, Price] = {}

    @property
    def reply_tokens(self) -> int:
        """The tokens that a reply may have, reasoning included."""
        return self.max_tokens + self.reasoning_tokens

    def identity(self) -> dict[str, object]:
        """Return what shapes whole replies.

        Rate limits, timeout and prices do not, and limits of tokens only decide which replies are cut and not kept.
        """
        return {"temperature": self.temperature, **self.sampling()}

    def sampling(self) -> dict[str, JsonValue]:
        """Return the fields of requests that are sent because they were given."""
        effort: dict[str, JsonValue] = {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {**effort, **self.extra_body}

    @field_validator("extra_body")
    @classmethod
    def _of_others(cls, fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted(_OWN_FIELDS & fields.keys()):
            raise ValueError(f"{', '.join(taken)}: these fields are not for extra_body")
        return fields


def _number_of_periods(given: Any) -> Any:
    """Return how many periods a list of their names gives, which must be the first few; other values as they are."""
    if not isinstance(given, list):
        return given
    if given != list(PERIODS[: len(given)]):
        raise ValueError(
            f"{given} are not the first of {', '.join(PERIODS)}; name them in this order, or give a number"
        )
    return len(given)


class Config(BaseModel):
    """What to generate.

    Attributes:
        language: Of the text; only `en` for now.
        personas: How many users.
        first_persona: Number of the first of them. Users with the same number and seed are the same in every run.
        persona_source: A JSONL file with a short description a line (`{"persona": "…"}`, as PersonaHub has it) to
            start the profiles from, relative to the configuration file; by default they come from the shipped bank.
        persona_visible: What the model is shown of the user: `demographics` (name, age, gender, race and occupation, as
            in the paper), `no_occupation` (the others of these), the `full` profile, or `none`.
        topics: Ids of shipped topic banks, or paths of bank files (ending in `.yaml`), relative to the configuration.
        periods: Which of the periods initial, next week, next month and next year a topic runs through: how many of
            the first, or their names in this order.
        items_per_topic: Things that a user has tried in a topic, with liking or dislike; three of them for each
            question about new ideas.
        facts_per_topic: Facts of different kinds that a user tells in a topic.
        updates_per_topic: Changes of items and slots, at most three each.
        tellings: How often events are told by name, in other words, and by what the user does, as weights.
        turns_per_thread: Exchanges for each stretch of chat in which something is told: with more of them a session
            tells less of others, and there is more room between what is told.
        questions_per_topic: Questions of each type for each persona and topic, or as many as its history gives; 1 for
            types that are not named.
        generic_distractors: How many of the three wrong options suit anybody and show no knowledge of the user, in
            questions of all types but suggest_new_ideas. They can be told from the others without the history.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: _Whole = Field(default=0, ge=-(2**63), lt=2**63)
    language: Literal["en"] = "en"
    personas: _Whole = Field(default=20, ge=1, le=MAX_USERS)
    first_persona: _Whole = Field(default=0, ge=0, lt=MAX_USERS)
    persona_source: str | None = None
    persona_visible: Visible = "no_occupation"
    topics: tuple[str, ...] = Field(min_length=1, max_length=1_000)
    periods: Annotated[_Whole, BeforeValidator(_number_of_periods)] = Field(default=len(PERIODS), ge=1, le=len(PERIODS))
    items_per_topic: _Whole = Field(default=12, ge=3, le=_MOST)
    slots_per_topic: _Whole = Field(default=4, ge=1, le=_MOST)
    facts_per_topic: _Whole = Field(default=3, ge=1, le=_MOST)
    updates_per_topic: _Whole = Field(default=5, ge=0, le=_MOST)
    tellings: dict[Telling, Annotated[_Real, Field(ge=0, le=1_000_000)]] = Field(default={}, validate_default=True)
    turns_per_session: Turns = Turns()
    turns_per_thread: _Whole = Field(default=2, ge=1, le=100)
    questions_per_topic: dict[QuestionType, Annotated[_Whole, Field(le=_MOST)]] = Field(
        default={}, validate_default=True
    )
    generic_distractors: _Whole = Field(default=0, ge=0, le=MAX_GENERIC)
    fillers: _Whole = Field(default=0, ge=0, le=1_000_000)
    llm: LLMConfig = LLMConfig()

    @field_validator("questions_per_topic")
    @classmethod
    def _not_negative(cls, counts: dict[QuestionType, int]) -> dict[QuestionType, int]:
        for name, count in counts.items():
            if count < 0:
                raise ValueError(f"{name}: {count} is below 0")
        return {name: counts.get(name, 1) for name in QUESTION_TYPES}

    @field_validator("tellings")
    @classmethod
    def _some_telling(cls, weights: dict[Telling, float]) -> dict[Telling, float]:
        if weights and not any(weights.values()):
            raise ValueError("one of the weights must be above 0")
        return {name: weights.get(name, 0.0 if weights else 1.0) for name in TELLINGS}

    @property
    def users(self) -> range:
        """The numbers of the users."""
        return range(self.first_persona, self.first_persona + self.personas)

    @property
    def trial_groups(self) -> int:
        """Questions about new ideas in a topic, each of which has items of its own."""
        return self.questions_per_topic["suggest_new_ideas"]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if faults := list(self._impossible()):
            raise ValueError("; ".join(faults))
        return self

    def _impossible(self) -> Iterator[str]:
        for topic, count in Counter(self.topics).items():
            if count > 1:
                yield f"topics: {topic} is listed {count} times"
        if self.users.stop > MAX_USERS:
            yield f"personas: {self.personas} from number {self.first_persona} on go beyond number {MAX_USERS - 1}"
        if self.persona_visible == "demographics" and self.persona_source is not None:
            yield (
                "persona_visible: demographics show the occupation, which a persona_source does not give; "
                "choose no_occupation, full or none"
            )
        tried = TRIED * self.trial_groups
        if self.items_per_topic < tried:
            yield (
                f"items_per_topic: {self.trial_groups} questions of suggest_new_ideas need {tried} items that were "
                f"tried, and not {self.items_per_topic}"
            )
        stances = max(0, self.items_per_topic - tried)
        most = min(MAX_UPDATES, self.periods - 1) * (stances + self.slots_per_topic)
        if self.updates_per_topic > most:
            yield (
                f"updates_per_topic: {self.updates_per_topic} are too many; {stances} items and "
                f"{self.slots_per_topic} slots over {self.periods} periods change at most {most} times"
            )
        groups = stances + self.trial_groups + self.slots_per_topic + self.facts_per_topic + self.updates_per_topic
        fullest = -(-groups // self.periods)
        if OPTIONS * fullest > MAX_TOLD * self.turns_per_session.min:
            yield (
                f"turns_per_session: {OPTIONS * groups} events and mentions of a topic do not fit into {self.periods} "
                f"sessions of {self.turns_per_session.min} turns"
            )
        wanted = self.questions_per_topic
        if wanted["revisit_reasons_behind_preference_updates"] > self.updates_per_topic:
            yield "questions_per_topic: more questions about reasons than updates_per_topic"
        if wanted["generalize_to_new_scenarios"] and self.updates_per_topic < 2:
            yield (
                "questions_per_topic: generalize_to_new_scenarios needs at least 2 updates_per_topic, since it asks "
                "for what moved the user to them; set it to 0 or raise updates_per_topic"
            )


def load_config(path: Path) -> Config:
    """Read a configuration from a YAML file or, by its name, from a shipped example (see `find_example`).

    Raises:
        UserError: The file is absent or no YAML mapping, has unknown keys, or asks for something impossible; all
            faults are named.
    """
    path = find_example(path)
    data = read_yaml(path, f"give the path of a YAML file, or the name of an example: {', '.join(example_names())}")
    if not isinstance(data, dict):
        raise UserError(f"{path} is not a mapping of keys to values", "see examples/tiny.yaml")
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        known = ", ".join(Config.model_fields)
        raise UserError(f"{path}: {describe(error)}", f"the keys are {known}") from error
    return config.model_copy(
        update={
            "topics": tuple(_beside(path, topic) if topic.endswith(".yaml") else topic for topic in config.topics),
            "persona_source": config.persona_source and _beside(path, config.persona_source),
        }
    )


def _beside(path: Path, name: str) -> str:
    return str(path.parent / name)
