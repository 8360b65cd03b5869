"""What a finished run was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from generation.banks.load import load_banks, shipped_topics
from generation.config import Config, load_config
from generation.errors import UserError
from generation.llm.backends import OFFLINE
from generation.reading import describe
from generation.run_inputs import RunInputs
from generation.store import RunStore


def work_of_run(store: RunStore, config: Path | None = None) -> RunInputs:
    """Return what a run was made from, with its own backends.

    Args:
        store: The run.
        config: Its configuration. A run keeps what shapes its records, but neither prices nor the paths of topic banks
            that are not shipped.

    Raises:
        UserError: There is no run, it was made from something else than what is here, or the configuration is faulty.
    """
    found = store.fingerprint()
    if config:
        users = store.users()  # generate may have been given others with --personas
        settings = load_config(config).model_copy(update={"first_persona": users.start, "personas": len(users)})
    else:
        settings = _settings(store, found)
    backend = found.get("backend", OFFLINE)
    name, stages = (backend, {}) if isinstance(backend, str) else (OFFLINE, backend)
    work = RunInputs(settings, load_banks(settings), name, stages, found.get("reader", ""))
    now = json.loads(json.dumps(work.fingerprint()))
    if config is None:
        now["persona_source"] = found.get("persona_source")
    differ = [key for key in {**found, **now} if found.get(key) != now.get(key)]
    if differ:
        raise UserError(
            f"{store.folder} was not made from {config or 'the banks and templates that are here'}: "
            f"{', '.join(differ)} differ",
            "give the configuration of the run with --config, and use the personamem that made it",
        )
    return work


def _settings(store: RunStore, found: dict[str, Any]) -> Config:
    """Read the configuration back from what a run keeps of it."""
    kept = {key: found[key] for key in Config.model_fields if key in found and key != "persona_source"}
    try:
        settings = Config.model_validate(kept)
    except ValidationError as error:
        raise UserError(
            f"{store.folder / 'config.json'}: {describe(error)}", "use the personamem that made the run"
        ) from error
    if own := [topic for topic in settings.topics if topic not in shipped_topics()]:
        raise UserError(
            f"{store.folder} has topic banks of its own: {', '.join(own)}", "give its configuration with --config"
        )
    return settings
