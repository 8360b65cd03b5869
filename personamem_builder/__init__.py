"""PersonaMem: benchmarks of dynamic user profiling.

Importing this package makes `datasets.load_dataset("personamem")` find the dataset folder from any directory and
gives each question row its `context`; `datasets` itself is not imported by it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from personamem_builder.build.materialise import materialise
    from personamem_builder.dataset.load import iter_examples, load_dataset
    from personamem_builder.evaluation.extraction import extract_choice

__all__ = ["extract_choice", "iter_examples", "load_dataset", "materialise"]

_HOMES: Final = {
    "extract_choice": "personamem_builder.evaluation.extraction",
    "iter_examples": "personamem_builder.dataset.load",
    "load_dataset": "personamem_builder.dataset.load",
    "materialise": "personamem_builder.build.materialise",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _install_hook() -> None:
    from personamem_builder.dataset import hook

    hook.install()


_install_hook()
