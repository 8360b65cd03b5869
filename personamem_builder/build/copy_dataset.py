"""A dataset folder, copied out of the Hub's cache."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from generation.errors import UserError
from personamem_builder.build.card import CARD, write_pictures
from personamem_builder.dataset.folder import AUDIT
from personamem_builder.manifest import MANIFEST, read_manifest
from personamem_builder.table_files import data_files


def copy_dataset(folder: Path, out: Path, splits: Sequence[str] = ()) -> Path:
    """Copy a dataset folder, or some splits of it, out of the Hub's cache; `out` is then either whole or absent.

    Raises:
        UserError: There is something else already, or it cannot be written.
    """
    manifest = read_manifest(folder)
    names = data_files(manifest["files"], splits) if splits else list(manifest["files"])
    names += [name for name in (CARD, MANIFEST, AUDIT) if (folder / name).is_file()]
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not empty", "choose another --out, or delete it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as parts:
            part = Path(parts) / "dataset"
            for name in names:
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, part / name)  # what the links of the cache point to
            write_pictures(part, manifest)
            part.replace(out)
    except OSError as error:
        raise UserError(
            f"{out} cannot be written: {error}", "free some space there, or choose another --out"
        ) from error
    return out
