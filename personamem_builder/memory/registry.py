"""Memory systems by name: the built-in ones, those of installed packages, and classes of the user's own."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.memory.isolated.environments import isolated_systems
from personamem_builder.memory.isolated.system import isolated_class
from personamem_builder.memory.system import MemorySystem

ENTRY_POINTS: Final = "personamem.memory"
"""The group in which a package names its systems: `NAME = "MODULE:CLASS"`."""

_BUILT_IN: Final = {
    "arena": "personamem_builder.memory.arena:ArenaMemory",
    "bm25": "personamem_builder.memory.bm25:Bm25",
    "dense": "personamem_builder.memory.dense:Dense",
    "hybrid": "personamem_builder.memory.hybrid:Hybrid",
    "http": "personamem_builder.memory.http:HttpMemory",
    "mem0": "personamem_builder.memory.mem0:Mem0",
    "summaries": "personamem_builder.memory.summaries:Summaries",
}

_AT_URL: Final = ("arena:http://", "arena:https://")
"""How a name begins that is a system and the address of its server."""

_METHODS: Final = {"reset": 0, "add_session": 1, "search": 2}
"""What a system must have, and with how many arguments each is called."""


_PARALLEL: Final = "give its class parallel = True or False, or use one worker"


class SystemSpec(NamedTuple):
    """A memory system by its class, its name as the user gave it, and its settings: made anew where a run needs one."""

    name: str
    settings: Mapping[str, Any]
    cls: type[Any]

    def make(self) -> MemorySystem:
        """Make the system.

        Raises:
            UserError: Its class refuses the settings, or lacks something.
        """
        try:
            system: MemorySystem = self.cls(**self.settings)
        except UserError:
            raise
        except ModuleNotFoundError as error:
            raise UserError(
                f"the memory system {self.name} needs {error.name}, which is not installed", _install_line(error.name)
            ) from error
        except Exception as error:
            raise UserError(
                f"the memory system {self.name} cannot be made: {type(error).__name__}: {error}",
                "see its own documentation for its settings",
            ) from error
        return system

    @property
    def is_parallel(self) -> bool:
        """Whether several users' histories may be walked at a time, each by a system of its own in its own process.

        What its class says: `parallel`, a bool, or a function of the settings. Most keep what they know in themselves.

        Raises:
            UserError: It says neither, or cannot say now.
        """
        said = getattr(self.cls, "parallel", True)
        try:
            answer = said(**self.settings) if callable(said) else said
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"the memory system {self.name} cannot say whether it is parallel: {type(error).__name__}: {error}",
                _PARALLEL,
            ) from error
        if not isinstance(answer, bool):
            raise UserError(f"the memory system {self.name}: parallel is {answer!r}", _PARALLEL)
        return answer

    @property
    def version(self) -> int | str:
        """What its class says, else the digest of its source: results of another version are others."""
        version = getattr(self.cls, "version", None)
        return version if isinstance(version, int | str) else _source_digest(self.cls)


def known_systems() -> list[str]:
    """Return the names of the built-in systems and of those that installed packages name."""
    return sorted({*_BUILT_IN, *isolated_systems(), *entry_points(group=ENTRY_POINTS).names})


def without_url(name: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and settings of a system that may be named with its address: `arena:http://…`."""
    if not name.startswith(_AT_URL):
        return name, dict(settings)
    system, _, url = name.partition(":")
    return system, {"url": url, **settings}


def find_system(name: str, settings: Mapping[str, Any] | None = None) -> SystemSpec:
    """Find a memory system by one of `known_systems()` or as `module:Class`, with arguments of its class as settings.

    A server may be named with its address, as `arena:http://127.0.0.1:8000`, in place of a setting `url`.

    Raises:
        UserError: There is no such system, it lacks a method, or has no such setting.
    """
    name, given = without_url(name, settings or {})
    cls = _find_class(name)
    if not isinstance(cls, type):
        raise UserError(f"the memory system {name} is not a class", "name a class with reset, add_session and search")
    for method, arguments in _METHODS.items():
        _check_method(name, cls, method, arguments)
    _check_settings(name, cls, given)
    return SystemSpec(name, given, cls)


def _find_class(name: str) -> Any:
    if (isolated := isolated_class(name)) is not None:
        return isolated
    target = _BUILT_IN.get(name)
    if target is None:
        found = [entry.value for entry in entry_points(group=ENTRY_POINTS) if entry.name == name]
        target = found[0] if found else name
    module, colon, attribute = target.partition(":")
    if not colon or not module or not attribute:
        raise UserError(
            f"there is no memory system {name!r}",
            f"use one of {', '.join(known_systems())}, or give a class of your own as module:Class",
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):  # the module itself, or its package
            raise UserError(
                f"the memory system {name}: there is no module {module}",
                "name one that can be imported: put its folder on PYTHONPATH, or install its package",
            ) from error
        raise UserError(
            f"the memory system {name} needs {error.name}, which is not installed", _install_line(error.name)
        ) from error
    except AttributeError as error:
        raise UserError(
            f"the memory system {name}: {module} has no {attribute}", "check the name of the class"
        ) from error


def _install_line(module: str | None) -> str:
    extra = {"bm25s": "memory", "sentence_transformers": "dense", "mem0": "mem0"}.get(module or "")
    return install_hint(extra) if extra else "install what the system asks for"


def _check_method(name: str, cls: type[Any], method: str, arguments: int) -> None:
    found = getattr(cls, method, None)
    if not callable(found):
        raise UserError(
            f"the memory system {name} has no method {method}",
            "a system needs reset(), add_session(session) and search(query, k): see personamem_builder.memory.system",
        )
    try:
        inspect.signature(found).bind(*[None] * (arguments + 1))  # and itself
    except TypeError as error:
        raise UserError(
            f"the memory system {name}: its method {method} takes other arguments: {error}",
            "a system needs reset(), add_session(session) and search(query, k): see personamem_builder.memory.system",
        ) from error
    except ValueError:  # a method of C has no signature
        return


def _check_settings(name: str, cls: type[Any], settings: Mapping[str, Any]) -> None:
    try:
        json.dumps(settings)
    except TypeError as error:
        raise UserError(f"the settings of {name} are not JSON: {error}", "give numbers, texts and lists") from error
    try:
        parameters = inspect.signature(cls).parameters
    except ValueError:
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    named = [name for name, p in parameters.items() if p.kind is not p.VAR_POSITIONAL]
    if unknown := sorted(settings.keys() - set(named)):
        raise UserError(
            f"the memory system {name} has no setting {', '.join(unknown)}",
            f"it takes {', '.join(named)}" if named else "it takes none",
        )
    required = [name for name, p in parameters.items() if p.default is p.empty and name in named]
    if lacking := sorted(set(required) - settings.keys()):
        raise UserError(f"the memory system {name} needs the setting {', '.join(lacking)}", f"--set {lacking[0]}=…")


def _source_digest(cls: type[Any]) -> str:
    """Return the digest of the file that defines a class: an edited system is another one."""
    try:
        source = Path(inspect.getfile(cls)).read_bytes()
    except (OSError, TypeError):
        return f"{cls.__module__}:{cls.__qualname__}"
    return hashlib.sha256(source).hexdigest()[:16]
