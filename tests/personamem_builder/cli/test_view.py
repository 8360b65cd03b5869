from __future__ import annotations

import http.client
import signal
from functools import partial
from pathlib import Path

import pytest
from command_line import Run, fails, personamem, started
from small_results import DATE, right, write_results

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return partial(personamem, "view")


def test_it_writes_the_page_and_says_what_to_open(run, generated, tmp_path):
    done = run(generated, "--split", "32k", "--out", "page")
    assert done.exit_code == 0
    assert done.out == f"{Path('page/index.html')}\n"
    assert "next: open" in done.err
    assert (tmp_path / "page" / "data" / "0" / "questions-0.js").is_file()


def test_the_folder_is_found_in_the_environment_and_beside(run, generated, tmp_path):
    assert run("--out", "a", PERSONAMEM_DATA=str(generated)).exit_code == 0
    (tmp_path / "personamem").symlink_to(generated)
    assert run("--out", "b").exit_code == 0
    assert (tmp_path / "a" / "data" / "index.js").is_file()


def test_bad_input_is_one_error_for_people(run, generated, tmp_path):
    fails(run("--out", "page"), "no data")
    fails(run(generated, "--split", "1M", "--out", "page"), f"{generated} has no split '1M'")
    fails(run(generated, "--results", "nowhere", "--out", "page"), "nowhere: no such file or folder")
    assert not (tmp_path / "page").exists()


def test_it_serves_on_this_computer_until_ctrl_c(generated, tmp_path):
    with started(tmp_path, "view", generated, "--no-open", PYTHONUNBUFFERED="1") as command:
        assert command.process.stdout is not None
        url = command.process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        connection = http.client.HTTPConnection(url.removeprefix("http://").removesuffix("/"), timeout=30)
        connection.request("GET", "/data/index.js")
        assert connection.getresponse().read().startswith(b"personamem(")
        connection.close()
        command.send(signal.SIGINT, to_group=True)
        status, _, talk = command.ends()
    assert status == 0
    assert "Traceback" not in talk
    assert talk.endswith("ended\n")


def test_results_that_cannot_be_read_are_named_and_hide_no_others(run, generated, tmp_path):
    write_results(tmp_path / "results" / "good", generated, "org/good", right)
    broken = tmp_path / "results" / "bad" / f"results_{DATE}.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    done = run(generated, "--split", "32k", "--out", "page", "--results", tmp_path / "results")
    assert done.exit_code == 1
    assert str(broken) in done.err
    assert "org/good" in (tmp_path / "page" / "data" / "index.js").read_text(encoding="utf-8")
