"""What lm-eval's results file says of a run: the model, its arguments, and what else shapes its prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, field_validator

from personamem_builder.memory.controls import Full

FLOOR_BACKEND: Final = "personamem-floor"
"""lm-eval's name of the model that answers by shortcut policies."""

_LONGEST_NAME: Final = 500

Count = Annotated[int, Field(ge=0, lt=2**31)]


class RunConfig(BaseModel):
    """How lm-eval was called."""

    model: str
    model_args: dict[str, Any] | str | None = None
    limit: float | None = Field(default=None, allow_inf_nan=False)
    gen_kwargs: dict[str, Any] | str | None = None


class SampleCount(BaseModel):
    """How many samples a task has, and how many of them were asked."""

    original: Count = 0
    effective: Count


class Measure(BaseModel):
    """What a memory was worth, by one measure."""

    measure: str
    value: float = Field(allow_inf_nan=False)
    unit: str


class TaskMetadata(BaseModel):
    """What our tasks say of themselves, and of the memory that was shown."""

    data: str | None = None
    data_digest: str | None = None
    repo: str | None = None
    commit: str | None = None
    roles: str | None = None
    overlength: str | None = None
    split: str | None = None
    instruction_sha256: str | None = None
    explain: bool = False
    shard: str | None = None
    subset: str = ""
    subset_size: Count = 0
    subset_sha256: str | None = None
    memory: str = Full.name
    settings: dict[str, Any] | None = None
    k: int | None = None
    budget_tokens: int | None = None
    memory_tainted: Count = 0
    memory_failed: Count = 0
    memory_measures: list[Measure] = []


class TaskConfig(BaseModel):
    """The parts of a task's configuration that reports need."""

    metadata: TaskMetadata = TaskMetadata()
    test_split: str | None = None

    @field_validator("metadata", mode="before")
    @classmethod
    def _is_there(cls, value: Any) -> Any:
        return TaskMetadata() if value is None else value


class LmEvalResults(BaseModel):
    """The parts of `results_<date>.json` that reports need."""

    config: RunConfig
    configs: dict[str, dict[str, Any]]
    model_name: str | None = None
    chat_template_sha: str | None = None
    system_instruction_sha: str | None = None
    n_samples: dict[str, SampleCount] = Field(default={}, alias="n-samples")

    @property
    def model_args(self) -> dict[str, str]:
        """The arguments of the model by name, however they were given."""
        args = self.config.model_args
        if isinstance(args, str):
            pairs = [pair.partition("=") for pair in args.split(",") if pair]
            return {name.strip(): value.strip() for name, _, value in pairs}
        return {name: str(value) for name, value in (args or {}).items()}

    @property
    def model(self) -> str | None:
        """What people call the model: `floor: POLICY`, or its name or path with those of its adapters."""
        args = self.model_args
        if self.config.model == FLOOR_BACKEND:
            return f"floor: {args.get('policy', 'longest')}"
        # An adapter makes another model of its base.
        adapters = [args[name] for name in ("peft", "delta") if name in args]
        name = args.get("pretrained") or args.get("model") or self.model_name
        return " + ".join([name, *adapters]) if name else None

    def settings(self, **more: Any) -> tuple[tuple[str, str], ...]:
        """Return all that tells runs of one model apart, sorted by name: its arguments, and what shapes prompts.

        Args:
            **more: Settings of the task; those that are None or empty are left out.
        """
        given = self.config.gen_kwargs
        shaping = {
            "chat_template": self.chat_template_sha and self.chat_template_sha[:8],
            "system_instruction": self.system_instruction_sha and self.system_instruction_sha[:8],
            "gen_kwargs": json.dumps(given, sort_keys=True) if given else None,
            **more,
        }
        return printable_pairs(self.model_args | {name: value for name, value in shaping.items() if value})


def printable(name: str) -> str:
    """Return a name without control characters: it must not steer the terminal that shows it, or break a line."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    if len(shown) <= _LONGEST_NAME:
        return shown
    # What tells two names apart may come late.
    return f"{shown[:_LONGEST_NAME]}… ({hashlib.sha256(shown.encode()).hexdigest()[:8]})"


def printable_pairs(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return settings as sorted pairs of printable texts."""
    return tuple(sorted((printable(name), printable(str(value))) for name, value in settings.items()))
