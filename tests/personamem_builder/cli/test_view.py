from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_datasets import make_dataset
from small_results import DATE, right, write_results

from generation.errors import UserError
from personamem_builder.cli.view import view

ROOT = Path(__file__).parents[3]

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated dataset; tests leave it as it is."""
    return make_dataset(tmp_path_factory.mktemp("generated"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, **env: str) -> Result:
        return CliRunner().invoke(view, [str(one) for one in arguments], env=env, catch_exceptions=True)

    return call


def test_it_writes_the_page_and_says_what_to_open(run, generated, tmp_path):
    done = run(generated, "--split", "32k", "--out", "page")
    assert done.exit_code == 0
    assert done.stdout == f"{Path('page/index.html')}\n"
    assert "next: open" in done.stderr
    assert (tmp_path / "page" / "data" / "0" / "questions-0.js").is_file()


def test_the_folder_is_found_in_the_environment_and_beside(run, generated, tmp_path):
    assert run("--out", "a", PERSONAMEM_DATA=str(generated)).exit_code == 0
    (tmp_path / "personamem").symlink_to(generated)
    assert run("--out", "b").exit_code == 0
    assert (tmp_path / "a" / "data" / "index.js").is_file()


def test_bad_input_is_one_error_for_people(run, generated, tmp_path):
    assert "no data" in str(run("--out", "page").exception)
    assert "no split '1M'" in str(run(generated, "--split", "1M", "--out", "page").exception)
    lacking = run(generated, "--results", "nowhere", "--out", "page").exception
    assert isinstance(lacking, UserError)
    assert "nowhere: no such file or folder" in str(lacking)
    assert not (tmp_path / "page").exists()


def test_it_serves_on_this_computer_until_ctrl_c(generated, tmp_path):
    code = "from personamem_builder.cli.view import view; view()"
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code, str(generated), "--no-open"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        connection = http.client.HTTPConnection(url.removeprefix("http://").removesuffix("/"), timeout=30)
        connection.request("GET", "/data/index.js")
        assert connection.getresponse().read().startswith(b"personamem(")
        connection.close()
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in talk
    assert talk.endswith("ended\n")


def test_results_that_cannot_be_read_are_named_and_hide_no_others(run, generated, tmp_path):
    write_results(tmp_path / "results" / "good", generated, "org/good", right)
    broken = tmp_path / "results" / "bad" / f"results_{DATE}.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    done = run(generated, "--split", "32k", "--out", "page", "--results", tmp_path / "results")
    assert isinstance(done.exception, UserError)
    assert str(broken) in done.exception.message
    assert "org/good" in (tmp_path / "page" / "data" / "index.js").read_text(encoding="utf-8")
