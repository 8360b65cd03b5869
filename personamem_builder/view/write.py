"""The page as a folder of files, for any web server or for none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from generation.errors import UserError
from generation.files import replacing_folder
from generation.progress import track
from personamem_builder.view.site import PAGE_FILES, Site

_OURS: Final = re.compile(r"data(/index\.js|/\d+(/(questions|answers|context)-\d+\.js)?)?")
"""Files and folders of a page, besides `PAGE_FILES`."""


class SiteSize(NamedTuple):
    """The number of files of a page, and their bytes in all."""

    files: int
    size: int


def write_site(site: Site, out: Path) -> SiteSize:
    """Write all files of a page, all or nothing, to a new or empty folder or in place of such a page.

    Raises:
        UserError: `out` holds something else, or the disk refuses.
    """
    _check_out(out)
    files = size = 0
    try:
        with replacing_folder(out) as new:
            for name, content in site_files(site):
                path = new / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                files, size = files + 1, size + len(content)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error}", "free some space, or choose another --out") from error
    return SiteSize(files, size)


def site_files(site: Site) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of all files of a page; one context is in memory at a time."""
    for name in site.names():
        content = site.content(name)
        if content is not None:
            yield name, content
    yield from track(site.contexts(), "writing histories", sum(len(split.contexts) for split in site.splits))


def _check_out(out: Path) -> None:
    if not out.name:
        raise UserError(f"{out} is the current folder, which cannot be replaced", "choose another --out")
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} exists and is not a folder", "choose another --out")
    names = (path.relative_to(out).as_posix() for path in out.rglob("*"))
    if other := sorted(name for name in names if name not in PAGE_FILES and not _OURS.fullmatch(name)):
        raise UserError(f"{out} holds something other than such a page: {other[0]}", "choose another --out")
