"""Datasets made in the cache when they are asked for: fresh ones, and the official release.

No model can have seen data whose seed was chosen today.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from filelock import FileLock, Timeout

from generation.banks.load import load_banks
from generation.config import load_config
from generation.errors import UserError
from generation.files import file_digest, json_digest
from generation.pipeline import generate
from generation.run_inputs import RunInputs
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import SIZES
from personamem_builder.build.from_official import import_from_hub
from personamem_builder.build.from_run import build
from personamem_builder.dataset.folder import is_whole
from personamem_builder.dataset.locate import DataSource, cache_folder, find_data, source_of
from personamem_builder.manifest import read_manifest
from personamem_builder.official.download import OFFICIAL_REVISION
from personamem_builder.schema import SCHEMA_VERSION

_VARIANTS: Final = 2
"""Contexts of each persona, as `personamem assemble` makes by default."""


class Recipe(NamedTuple):
    """What fresh data are made from: a configuration, named as it was given, and what the offline pipeline makes of it.

    `fingerprint` is the sha256 of everything that shapes the run: configuration, seed, banks and templates.
    """

    config: str
    work: RunInputs
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
    """Read a configuration and its banks; a `seed` takes the place of the configuration's own.

    Raises:
        UserError: The configuration, one of its banks or its `persona_source` is absent or faulty.
    """
    settings = load_config(Path(config).expanduser())
    if seed is not None:
        settings = settings.model_copy(update={"seed": seed})
    work = RunInputs(settings, load_banks(settings), "offline")
    return Recipe(os.fspath(config), work, json_digest(work.fingerprint()))


def fresh_source(recipe: Recipe, split: str) -> DataSource:
    """Make a split of the data of a recipe in the cache, or find it there.

    Processes that ask for the same at the same time wait for the one that makes it. What an interrupted one left is
    finished; what changed since it was written is made anew. The folder lies in `HF_HOME/personamem/fresh/FINGERPRINT`.

    Raises:
        UserError: The split is none of the paper's, the configuration cannot fill it, or the cache cannot be written.
    """
    if split not in SIZES:
        raise UserError(
            f"a split {split!r} is not made on demand; those that are: {', '.join(SIZES)}",
            "make it with personamem generate, assemble and build, and name the folder with --metadata data=FOLDER",
        )
    home = cache_folder() / "fresh" / recipe.fingerprint[:16]
    folder = home / f"personamem-{split}-{_code_digest()[:8]}"
    if not is_whole(folder):
        with _locked(home.with_suffix(".lock"), recipe):
            if not is_whole(folder):
                _make(recipe, home / "run", folder, split)
    origin = f"made from {recipe.words}, fingerprint {recipe.fingerprint[:16]}"
    return DataSource(folder, origin, read_manifest(folder)["digest"])


def data_or_official(data: str | None, revision: str | None, split: str) -> DataSource:
    """Find a dataset that holds a split, as `resolve_data`; else fetch the official release at the pinned revision.

    The release is converted once, into the cache, as far as the split goes. Of a dataset on the Hub the shared contexts
    are not fetched.

    Raises:
        UserError: What is named is no dataset of ours, or the release cannot be had.
    """
    return find_data(data, revision, splits=[split], contexts=False) or _official(split)


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
        raise UserError(f"--metadata config={config!r} is not a path", "give a YAML file, such as examples/full.yaml")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise UserError(
            f"--metadata seed={seed!r} is not a whole number", f'e.g. \'{{"config": "{config}", "seed": 7}}\''
        )
    return read_recipe(config, seed)


def _make(recipe: Recipe, run: Path, folder: Path, split: str) -> None:
    sys.stderr.write(f"making the {split} data of {recipe.words} in {folder}\n")
    shutil.rmtree(folder, ignore_errors=True)  # damaged
    store = RunStore.open(run, recipe.work.fingerprint())
    generate(recipe.work, store)
    try:
        assemble(store, [SIZES[split]], _VARIANTS)
    except UserError as error:
        raise UserError(f"{recipe.words}: {error.message}", error.hint) from error
    build(store, folder, [split])


def _code_digest() -> str:
    """Return a digest of the code between a run and its dataset, so that no dataset in the cache outlives it.

    The fingerprint stands for the code that makes the run (`FORMAT_VERSION`).
    """
    here = Path(__file__).parent
    files = sorted([*(here.parent / "assemble").glob("*.py"), *here.glob("*.py")])
    return json_digest([SCHEMA_VERSION, *map(file_digest, files)])


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
        raise UserError(f"{path.parent} cannot be written: {error}", "set HF_HOME to a writable folder") from error
    try:
        yield
    finally:
        lock.release()


def _official(split: str) -> DataSource:
    folder = cache_folder() / f"official-{OFFICIAL_REVISION[:12]}-{split}-v{SCHEMA_VERSION}"
    with FileLock(folder.with_suffix(".lock")):  # the ranks of one run start together
        if not is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            import_from_hub(folder, [split])
    return source_of(folder, f"the official release on the Hub at revision {OFFICIAL_REVISION}, split {split}")
