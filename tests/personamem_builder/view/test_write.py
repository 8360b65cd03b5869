from __future__ import annotations

import stat
from pathlib import Path

import pytest
from small_runs import contents

from generation.errors import UserError
from personamem_builder.view.site import Site
from personamem_builder.view.write import write_site


def test_the_files_are_those_of_the_site_and_always_the_same(generated, tmp_path):
    site = Site(generated)
    written = write_site(site, tmp_path / "a")
    write_site(Site(generated), tmp_path / "b")
    files = contents(tmp_path / "a")
    assert files == contents(tmp_path / "b")
    assert (written.files, written.size) == (len(files), sum(map(len, files.values())))
    assert files == {name: site.content(name) for name in files}
    assert {"index.html", "app.js", "data/index.js", "data/0/questions-0.js", "data/0/context-0.js"} <= set(files)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) & 0o500 == 0o500


def test_an_older_page_is_replaced_whole(generated, make_folder, tmp_path):
    out = tmp_path / "page"
    write_site(Site(generated), out)
    site = Site(make_folder([{"role": "user", "content": "x"}], [{}]))
    write_site(site, out)
    assert set(contents(out)) == {*site.names(), "data/0/context-0.js"}
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


@pytest.mark.parametrize("name", ["notes.txt", "data/0/notes.txt", "index.html.bak", "other/index.html"])
def test_a_folder_that_holds_something_else_is_left_as_it_is(generated, tmp_path, name):
    out = tmp_path / "page"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine")
    with pytest.raises(UserError, match="holds something other"):
        write_site(Site(generated), out)
    assert contents(out) == {name: b"mine"}


def test_a_file_in_the_place_of_the_folder_is_left(generated, tmp_path):
    out = tmp_path / "page"
    out.write_text("mine")
    with pytest.raises(UserError, match="is not a folder"):
        write_site(Site(generated), out)
    assert out.read_text() == "mine"


def test_where_it_fails_nothing_is_left_and_the_older_page_stays(generated, tmp_path, monkeypatch):
    out = tmp_path / "page"
    site = Site(generated)
    write_site(site, out)
    before = contents(out)
    real = Path.mkdir

    def full(self: Path, *args: object, **more: object) -> None:
        if self.name == "0":
            raise OSError(28, "No space left on device")
        real(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(UserError, match="No space left"):
        write_site(site, out)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


@pytest.mark.slow
def test_the_official_32k_split_takes_less_than_10_mb(official, tmp_path):
    assert write_site(Site(official), tmp_path / "page").size < 10_000_000
