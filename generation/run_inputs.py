"""What a run is made from, and the fingerprint of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.banks.load import Banks
from generation.config import Config, Price
from generation.generic_replies import GENERIC_TEMPLATE
from generation.llm.backends import OFFLINE, BackendName, parse_backend
from generation.llm.client import Client
from generation.llm.offline.backend import OfflineBackend
from generation.llm.offline.fillers.tables import digests as filler_digests
from generation.llm.prices import known_prices
from generation.prompts import template_digests
from generation.run_config import FORMAT_VERSION
from generation.run_stages import STAGES
from generation.stages.personas import draw_personas

_OTHER_TEMPLATES: Final = (
    "judge_error",
    "no_context",
    "new_topic",
    "_new_topic",
)  # they shape none of the records of a run


class RunInputs(NamedTuple):
    """What a run is made from.

    Attributes:
        backend: Name of the backend, see `parse_backend`.
        stage_backends: Names of other backends, by stage.
        reader: Name of the backend that reads back what others wrote; empty for the writer itself.
    """

    config: Config
    banks: Banks
    backend: str = OFFLINE
    stage_backends: Mapping[str, str] = {}
    reader: str = ""

    def backend_of(self, stage: str) -> BackendName:
        """Return the backend of a stage."""
        return parse_backend(self.stage_backends.get(stage, self.backend))

    def models(self) -> tuple[BackendName, ...]:
        """Return the language models that are asked, the reader among them."""
        names = [*map(self.backend_of, STAGES), *([parse_backend(self.reader)] if self.reader else [])]
        return tuple(name for name in dict.fromkeys(names) if not name.is_offline)

    def client(self) -> Client:
        """Return a client of the offline backend."""
        return Client(OfflineBackend(self.banks, self.config.seed))

    def prices(self, models: Iterable[str]) -> dict[str, Price]:
        """Return the prices of models, as far as they are known (see `known_prices`)."""
        return {model: known.price for model, known in known_prices(models, self.config.llm.prices).items()}

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that shapes the records, by key."""
        draw_personas(self.config, self.banks)  # a faulty persona_source is refused before there is a folder
        config = self.config.model_dump(mode="json", exclude={"llm"})
        others: tuple[str, ...] = _OTHER_TEMPLATES
        if not self.config.generic_distractors:  # as in runs from before there were any
            del config["generic_distractors"]
            others = (*others, GENERIC_TEMPLATE)
        names = {stage: self.stage_backends.get(stage, self.backend) for stage in STAGES}
        if any(not self.backend_of(stage).is_offline for stage in STAGES):
            config["llm"] = self.config.llm.identity()
        if not config["first_persona"]:
            del config["first_persona"]
        source = self.config.persona_source
        return {
            **config,
            "topics": list(self.banks.topics),
            "persona_source": source and hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16],
            "backend": self.backend if len(set(names.values())) == 1 else names,
            **({"reader": self.reader} if self.reader else {}),
            "banks": {**self.banks.digests, **(filler_digests() if config["fillers"] else {})},
            "templates": {n: digest for n, digest in template_digests().items() if not n.startswith(others)},
            "format_version": FORMAT_VERSION,
        }
