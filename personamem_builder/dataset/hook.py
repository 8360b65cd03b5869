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
        if folder is None:
            module = original(path, *args, **kwargs)
            if _is_ours(module):
                _warn_if_superseded(path, module, kwargs)
                return dataclasses.replace(module, module_path=_BUILDER)
            if str(module.builder_kwargs.get("base_path")).startswith("hf://"):
                return module
            folder = _cached(path, kwargs)  # the Hub is out of reach, or `datasets` offline
            if folder is None:
                return module
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
    from personamem_builder.dataset.folder import check_parts
    from personamem_builder.dataset.locate import ENVIRONMENT, find_folder, resolve_data
    from personamem_builder.manifest import is_dataset_folder
    from personamem_builder.schema import SPLITS

    if path in SPLITS and not Path(path).exists():
        raise UserError(f"load_dataset({path!r}): {path} is a split", f'load_dataset("{_NAME}", split="{path}")')
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
    if folder is not None:
        check_parts(folder)
    return folder


def _is_ours(module: Any) -> bool:
    """Say whether what `datasets` read of a repository on the Hub is the card of a dataset of ours.

    So nothing is asked of the Hub to find out: `datasets` reads the card of any dataset.
    """
    from personamem_builder.table_files import CONFIGS, is_table_pattern

    if not str(module.builder_kwargs.get("base_path")).startswith("hf://"):
        return False
    configs = getattr(module.builder_configs_parameters, "metadata_configs", None) or {}
    for name, place in CONFIGS.items():
        files = configs.get(name, {}).get("data_files")
        if not isinstance(files, list) or not files:
            return False
        for file in files:
            if not isinstance(file, dict) or not is_table_pattern(str(file.get("path")), place(str(file.get("split")))):
                return False
    return True


def _warn_if_superseded(path: str, module: Any, kwargs: dict[str, Any]) -> None:
    """Warn if a dataset of ours on the Hub says that another version has taken its place."""
    from pathlib import Path

    from huggingface_hub import hf_hub_download

    from personamem_builder.dataset.folder import warn_if_superseded
    from personamem_builder.hub.failures import hub_failures
    from personamem_builder.manifest import MANIFEST, read_manifest

    commit = str(module.builder_kwargs["base_path"]).removeprefix("hf://").partition("@")[2].strip("/")
    token = getattr(kwargs.get("download_config"), "token", None)
    try:
        manifest = hf_hub_download(path, MANIFEST, repo_type="dataset", revision=commit or None, token=token)
    except hub_failures():
        return  # what cannot be had is said when its contexts are read
    revision = kwargs.get("revision") or "main"
    warn_if_superseded(read_manifest(Path(manifest).parent), f"{path}@{revision} on the Hub")


def _cached(path: str, kwargs: dict[str, Any]) -> Path | None:
    """Return the folder of a dataset of ours in the Hub's cache, if all its questions are there; nothing is asked."""
    from pathlib import Path

    from huggingface_hub import try_to_load_from_cache

    from personamem_builder.dataset.folder import question_files
    from personamem_builder.hub.failures import hub_failures
    from personamem_builder.manifest import MANIFEST, is_dataset_folder, read_manifest

    if path.count("/") != 1 or kwargs.get("data_dir") or kwargs.get("data_files") or Path(path).exists():
        return None
    revision = kwargs.get("revision")
    try:
        manifest = try_to_load_from_cache(
            path, MANIFEST, repo_type="dataset", revision=None if revision is None else str(revision)
        )
    except hub_failures():  # a name that none can have
        return None
    if not isinstance(manifest, str) or not is_dataset_folder(Path(manifest).parent):
        return None
    folder = Path(manifest).parent
    splits = read_manifest(folder)["splits"]
    files = (path for split in splits for path in question_files(folder, split))
    return folder if all(path.exists() for path in files) else None


def _files_digest(folder: Path) -> str:
    """Return a digest of the data's bytes: it becomes part of the cache key, so a changed folder is never stale."""
    import hashlib

    from generation.files import file_digest

    digests = "".join(file_digest(path) for path in sorted((folder / "data").iterdir()))
    return hashlib.sha256(digests.encode()).hexdigest()
