"""A benchmark made when it is asked for: no model can have seen data whose seed was chosen today."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from generation.banks.load import load_banks
from generation.config import load_config
from generation.errors import UserError
from generation.files import file_digest
from generation.pipeline import Work, generate
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import SIZES
from personamem_builder.dataset.build import build
from personamem_builder.dataset.folder import is_whole, read_manifest
from personamem_builder.dataset.locate import DataSource, cache_folder
from personamem_builder.schema import SCHEMA_VERSION


class Recipe(NamedTuple):
    """What fresh data are made from.

    Attributes:
        config: Path of the configuration, as it was given.
        work: What the offline pipeline is to make.
        fingerprint: sha256 of everything that shapes the run: configuration, seed, banks and templates.
    """

    config: str
    work: Work
    fingerprint: str

    @property
    def seed(self) -> int:
        """The seed: that which was given, else that of the configuration."""
        return self.work.config.seed

    @property
    def words(self) -> str:
        """The recipe in words."""
        return f"{self.config}, seed {self.seed}"


def read_recipe(config: str | os.PathLike[str], seed: int | None = None) -> Recipe:
    """Read a configuration and its banks.

    Args:
        config: The configuration, relative to the current folder.
        seed: Takes the place of the configuration's own.

    Raises:
        UserError: The configuration, one of its banks or its `persona_source` is absent or faulty.
    """
    settings = load_config(Path(config).expanduser())
    if seed is not None:
        settings = settings.model_copy(update={"seed": seed})
    work = Work(settings, load_banks(settings), "offline")
    content = json.dumps(work.fingerprint(), sort_keys=True)
    return Recipe(os.fspath(config), work, hashlib.sha256(content.encode()).hexdigest())


def fresh_dataset(config_path: str | os.PathLike[str], seed: int | None, split: str, n_variants: int = 2) -> Path:
    """Make the benchmark of a configuration in the cache, or find it there.

    Processes that ask for the same at the same time wait for the one that makes it. What an interrupted one left is
    finished; what changed since it was written is made anew.

    Args:
        config_path: The configuration, relative to the current folder.
        seed: Takes the place of the configuration's own; None to keep that.
        split: `32k`, `128k` or `1M`; only this one is made.
        n_variants: Contexts of each persona.

    Returns:
        The dataset folder, `personamem/fresh/FINGERPRINT/…` in the folder that `HF_HOME` names.

    Raises:
        UserError: The configuration is faulty, it cannot fill the split, or the cache cannot be written.
    """
    return _made(read_recipe(config_path, seed), split, n_variants)


def fresh_source(recipe: Recipe, split: str) -> DataSource:
    """Return the data of a recipe as a source, see `fresh_dataset`."""
    folder = _made(recipe, split, 2)
    origin = f"made from {recipe.words}, fingerprint {recipe.fingerprint[:16]}"
    return DataSource(folder, origin, read_manifest(folder)["digest"])


def recipe_of(metadata: dict[str, Any]) -> Recipe | None:
    """Return what the keys `config` and `seed` of a task's metadata ask for; None without `config`.

    Raises:
        UserError: `data` is there too, a value is of the wrong kind, or see `read_recipe`.
    """
    config, seed = metadata.get("config"), metadata.get("seed")
    if config is None:
        return None
    if metadata.get("data"):
        raise UserError(
            f"--metadata has both config={config} and data={metadata['data']}",
            "config makes new data, data names some that are there: leave one of them out",
        )
    if not isinstance(config, str) or not config:
        raise UserError(f"--metadata config={config!r} is no path", "give a YAML file, such as examples/full.yaml")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise UserError(
            f"--metadata seed={seed!r} is not a whole number", f'e.g. \'{{"config": "{config}", "seed": 7}}\''
        )
    return read_recipe(config, seed)


def _made(recipe: Recipe, split: str, n_variants: int) -> Path:
    if split not in SIZES:
        raise UserError(
            f"a split {split!r} is not made on demand; those that are: {', '.join(SIZES)}",
            "make it with personamem generate, assemble and build, and name the folder with --metadata data=FOLDER",
        )
    home = cache_folder() / "fresh" / recipe.fingerprint[:16]
    folder = home / f"personamem-{split}-{n_variants}x-{_code_digest()[:8]}"
    if not is_whole(folder):
        with _locked(home.with_suffix(".lock"), recipe):
            if not is_whole(folder):
                _make(recipe, home / "run", folder, split, n_variants)
    return folder


def _make(recipe: Recipe, run: Path, folder: Path, split: str, n_variants: int) -> None:
    sys.stderr.write(f"making the {split} data of {recipe.words} in {folder}\n")
    shutil.rmtree(folder, ignore_errors=True)  # damaged
    store = RunStore.open(run, recipe.work.fingerprint())
    generate(recipe.work, store)
    try:
        assemble(store, [SIZES[split]], n_variants)
    except UserError as error:
        raise UserError(f"{recipe.words}: {error.message}", error.hint) from error
    build(store, folder, [split])


def _code_digest() -> str:
    """Return a digest of the code between a run and its dataset, so that no dataset in the cache outlives it.

    The fingerprint stands for the code that makes the run (`FORMAT_VERSION`).
    """
    here = Path(__file__).parent
    files = [*sorted((here.parent / "assemble").glob("*.py")), here / "build.py"]
    return hashlib.sha256(json.dumps([SCHEMA_VERSION, *map(file_digest, files)]).encode()).hexdigest()


@contextmanager
def _locked(path: Path, recipe: Recipe) -> Iterator[None]:
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            sys.stderr.write(f"waiting for another process that makes data of {recipe.words}\n")
            lock.acquire()
    except OSError as error:
        raise UserError(
            f"{path.parent} cannot be written: {error}", "set HF_HOME to a folder that can be written"
        ) from error
    try:
        yield
    finally:
        lock.release()
