"""Makes `datasets.load_dataset("personamem")` find our folder, and adds `context` to the rows of all our datasets.

All that rests on private names of `datasets` is here and in `builder.py`. `datasets` has no plugin mechanism for
names, and its rows cannot otherwise be resolved lazily and stay so through `select`, `shuffle`, `filter` and `map`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

# This module is part of `import personamem_builder`: what is heavy is imported where it is used.
if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = "personamem"
_TARGET: Final = "datasets"
_BUILDER: Final = "personamem_builder.dataset.builder"


def install() -> None:
    """Patch `datasets`, now if it is imported, else when it will be."""
    if _TARGET in sys.modules:
        _patch()
    elif not any(isinstance(finder, _PatchOnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PatchOnImport())


class _PatchOnImport:
    """Leaves the import of `datasets` to the usual finders and patches it right after.

    It has no base class: on Python 3.11 importing `importlib.abc` for one takes a tenth of the command line's start.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TARGET:
            return None
        # Out of the way for the real search only: others look for `datasets` without importing it.
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                _patch()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _patch() -> None:
    try:
        from datasets import load

        # Registers the row format, which pickled and saved datasets name.
        importlib.import_module(_BUILDER)
        original: Callable[..., Any] = load.dataset_module_factory
    except (ImportError, AttributeError) as error:
        # Whoever imports `datasets` must get it, whatever became of its private names.
        warnings.warn(
            f'load_dataset("{_NAME}") will not add `context`: this version of datasets is unknown to personamem '
            f"({error}); use personamem_builder.iter_examples",
            stacklevel=2,
        )
        return
    if getattr(original, "_personamem", False):
        return

    import dataclasses

    def dataset_module_factory(path: str, *args: Any, **kwargs: Any) -> Any:
        folder = _folder(path, kwargs.get("data_dir"), kwargs.get("revision"))
        if folder is None and (snapshot := _snapshot(path, kwargs)):
            module = original(path, *args, **kwargs)
            if str(module.builder_kwargs.get("base_path")).startswith("hf://"):
                return dataclasses.replace(module, module_path=_BUILDER)
            folder = _with_questions(snapshot)  # the Hub is out of reach, or `datasets` offline
        if folder is None:
            return original(path, *args, **kwargs)
        module = original(str(folder), *args, **{**kwargs, "data_dir": None})
        return dataclasses.replace(
            module,
            module_path=_BUILDER,
            hash=_files_digest(folder),
            # `data_dir` has done its work; left in place it would become part of the cache key.
            builder_kwargs={**module.builder_kwargs, "dataset_name": _NAME, "data_dir": None},
        )

    dataset_module_factory._personamem = True  # type: ignore[attr-defined]
    load.dataset_module_factory = dataset_module_factory


def _folder(path: str, data_dir: str | None, revision: str | None) -> Path | None:
    from pathlib import Path

    from generation.errors import UserError
    from personamem_builder.dataset.folder import is_dataset_folder
    from personamem_builder.dataset.locate import ENVIRONMENT, find_folder, resolve_data

    if path != _NAME:
        return resolve_data(path).folder if data_dir is None and is_dataset_folder(Path(path)) else None
    if named := data_dir or os.environ.get(ENVIRONMENT):
        return resolve_data(named, revision).folder
    folder = find_folder()
    if folder is None and not Path(path).is_dir():
        raise UserError(
            f"load_dataset({path!r}): found no dataset folder in data_dir, in {ENVIRONMENT} or at ./{path}",
            "make one: personamem import-official FOLDER --out personamem; or name one: data_dir=FOLDER",
        )
    return folder


def _snapshot(path: str, kwargs: dict[str, Any]) -> Path | None:
    """Return the folder in the Hub's cache of a dataset of ours on the Hub; None for any other dataset.

    This takes a request for the manifest, which other repositories lack, and none where `datasets` is offline.
    """
    from pathlib import Path

    if path.count("/") != 1 or kwargs.get("data_dir") or kwargs.get("data_files") or Path(path).exists():
        return None

    import datasets
    from huggingface_hub import hf_hub_download

    from personamem_builder.dataset.folder import MANIFEST, is_dataset_folder, read_manifest, warn_if_superseded
    from personamem_builder.official.hub import hub_failures

    revision = kwargs.get("revision")
    try:
        manifest = hf_hub_download(
            path,
            MANIFEST,
            repo_type="dataset",
            revision=None if revision is None else str(revision),
            token=getattr(kwargs.get("download_config"), "token", None),
            local_files_only=datasets.config.HF_HUB_OFFLINE,
        )
    except hub_failures():
        return None  # `datasets` will say what is wrong
    folder = Path(manifest).parent
    if not is_dataset_folder(folder):
        return None
    warn_if_superseded(read_manifest(folder), f"{path}@{revision or 'main'} on the Hub")
    return folder


def _with_questions(folder: Path) -> Path | None:
    """Return a folder in the Hub's cache if all questions are there."""
    from personamem_builder.dataset.folder import questions_path, read_manifest

    return (
        folder if all((folder / questions_path(split)).exists() for split in read_manifest(folder)["splits"]) else None
    )


def _files_digest(folder: Path) -> str:
    """Return a digest of the data's bytes: it becomes part of the cache key, so a changed folder is never stale."""
    import hashlib

    from generation.files import file_digest

    digests = "".join(file_digest(path) for path in sorted((folder / "data").iterdir()))
    return hashlib.sha256(digests.encode()).hexdigest()
