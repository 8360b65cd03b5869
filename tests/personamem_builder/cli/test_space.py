"""`personamem space`: what the folder holds, that nothing comes from elsewhere, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from command_line import Run, fails, personamem
from small_results import DATE, first, right, right_half_the_time, write_results

from personamem_builder.dataset.check import read_questions
from personamem_builder.manifest import read_manifest
from personamem_builder.space import write

MARKUP = "<script>document.title='owned'</script>"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return partial(personamem, "space", "--out")


@pytest.fixture
def data(generated: Path, tmp_path: Path) -> Path:
    """A copy of the generated dataset, to be changed."""
    return Path(shutil.copytree(generated, tmp_path / "personamem"))


@pytest.fixture
def results(generated: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    write_results(folder / "a", generated, "org/good", right)
    write_results(folder / "b", generated, MARKUP, right_half_the_time)
    write_results(folder / "c", generated, "org/good", first, kind="_nocontext")
    write_results(folder / "d", generated, "org/good", right_half_the_time, memory="bm25", k=10)
    write_results(folder / "e", generated, "org/writer", right_half_the_time, kind="_generate")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parse(path: Path) -> ET.Element:
    """Parse a page as XML, which fails on anything that is not nested well."""
    return ET.fromstring(path.read_text(encoding="utf-8").removeprefix("<!DOCTYPE html>\n"))


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def addresses(page: ET.Element) -> Iterator[tuple[str, str, ET.Element]]:
    for element in page.iter():
        for name in ("href", "src"):
            if name in element.attrib:
                yield element.tag, element.attrib[name], element


def script_value(path: Path) -> Any:
    """Return the value that a data file of the viewer hands over."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text.removeprefix("personamem(...").removesuffix(");\n"))[1]


def test_the_space_is_whole_and_loads_nothing_from_elsewhere(run, results, data, tmp_path):
    done = run("out", "--results", "results", "--code", "https://example.org/code", "--dataset", "org/set@v1.0.0")
    assert done.exit_code == 0, done.err
    assert done.out == f"{Path('out/index.html')}\n"
    assert "next: personamem publish-space out ORG/NAME --dry-run" in done.err
    out = tmp_path / "out"
    for name in ("index.html", "differences.html"):
        page = parse(out / name)
        seen = []
        for tag, url, element in addresses(page):
            seen.append(url)
            if url.startswith("https://"):
                assert tag == "a", url
                assert element.attrib["target"] == "_blank", (
                    "a Space stands in a frame, in which other sites refuse to be"
                )
                assert "noopener" in element.attrib["rel"]
            else:
                place, _, anchor = url.partition("#")
                assert (out / place).is_file(), url
                if anchor:
                    assert any(element.get("id") == anchor for element in parse(out / place).iter())
        assert "https://huggingface.co/datasets/org/set/tree/v1.0.0" in seen
        assert "https://example.org/code" in seen
        assert "viewer/index.html" in seen
        # Each table has a name, heads of columns and of rows; each plot repeats what stands in words.
        for table in page.iter("table"):
            assert table.find("caption") is not None
            assert all(th.get("scope") == "col" for th in table.find("thead").iter("th"))
            assert all(row[0].tag == "th" and row[0].get("scope") == "row" for row in table.find("tbody"))
            assert len({sum(1 for _ in row) for row in table.iter("tr")}) == 1
        assert all(svg.get("aria-hidden") == "true" for svg in page.iter("svg"))
    for path in out.rglob("*"):
        if path.suffix in (".css", ".js", ".html", ".svg") and "data" not in path.parts:
            found = re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}", path.read_text(encoding="utf-8"))
            assert {url.partition("//")[2] for url in found} <= {
                "arxiv.org",
                "huggingface.co",
                "example.org",
                "www.w3.org",
            }, path


def test_each_head_is_explained_where_a_keyboard_and_a_finger_reach_it(run, results, data, tmp_path):
    assert run("out").exit_code == 0
    page = parse(tmp_path / "out" / "index.html")
    [reading] = [one for one in page.iter("details") if one.get("class") == "reading"]
    for abbr in page.iter("abbr"):
        if abbr.text != "group":
            assert f"{abbr.text}: {abbr.attrib['title'][0].lower()}{abbr.attrib['title'][1:]}" in words(reading)


def test_models_are_named_as_text(run, results, data, tmp_path):
    assert run("out").exit_code == 0
    for name in ("index.html", "differences.html"):
        page = parse(tmp_path / "out" / name)
        assert MARKUP in words(page)
        assert [script.get("src") for script in page.iter("script")] in (["leaderboard.js"], [])
    assert MARKUP.encode() not in b"".join(contents(tmp_path / "out").values())


def test_the_readme_is_what_the_hub_asks_for(run, results, data, tmp_path):
    manifest = data / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"repo_id": "org/set"}))
    assert run("out", "--title", "How: well?").exit_code == 0
    front, text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8").split("---\n")[1:]
    card = yaml.safe_load(front)
    assert card["title"] == "How: well?"
    assert (card["sdk"], card["app_file"], card["pinned"]) == ("static", "index.html", False)
    assert card["license"] == read_manifest(data)["license"]
    assert card["datasets"] == ["org/set"]
    assert len(card["short_description"]) <= 60
    assert "| 32k, full options | 2 |" in text
    assert "https://huggingface.co/datasets/org/set/tree/v" in (tmp_path / "out" / "index.html").read_text()


def test_the_same_results_give_the_same_bytes_and_take_the_place_of_an_older_space(run, results, data, tmp_path):
    assert run("out", "--contexts", "2").exit_code == 0
    before = contents(tmp_path / "out")
    assert run("out", "--contexts", "1").exit_code == 0
    fewer = contents(tmp_path / "out")
    assert "viewer/data/0/context-1.js" in before.keys() - fewer.keys()
    assert run("out", "--contexts", "2").exit_code == 0
    assert contents(tmp_path / "out") == before


def test_the_viewer_holds_a_sample_and_says_so(run, results, data, tmp_path):
    assert run("out", "--contexts", "1").exit_code == 0
    out = tmp_path / "out" / "viewer"
    index = script_value(out / "data" / "index.js")
    [split] = index["splits"]
    rows = read_questions(data, "32k").to_pylist()
    chosen = {row["question_id"] for row in rows if row["shared_context_id"] == _first_context(rows)}
    questions = script_value(out / "data" / "0" / "questions-0.js")
    assert set(questions["question_id"]) == chosen
    assert split["contexts"] == 1
    assert split["left_out"] == [len(rows) - len(chosen), len({row["shared_context_id"] for row in rows}) - 1]
    assert index["home"] == "../index.html"
    assert [run["label"] for run in split["runs"]] == [
        "org/good · personamem_32k",
        f"{MARKUP} · personamem_32k",
        "org/good [bm25, k=10] · personamem_32k",
        "org/writer · personamem_32k_generate",
    ]
    assert len([*out.glob("data/0/context-*.js")]) == 1


def _first_context(rows: list[dict[str, Any]]) -> str:
    return min((row["persona_id"], row["shared_context_id"]) for row in rows)[1]


def test_no_contexts_no_viewer(run, results, data, tmp_path):
    assert run("out", "--contexts", "0").exit_code == 0
    assert not (tmp_path / "out" / "viewer").exists()
    assert "viewer/" not in (tmp_path / "out" / "index.html").read_text()


def test_long_replies_are_cut_in_the_middle(run, results, data, tmp_path):
    [path] = (results / "e").glob("predictions_*.jsonl")
    reply = "It begins so. " + "x" * 5000 + " The answer is (a)"
    path.write_text(path.read_text().replace('"response": "\\u2026"', f'"response": "{reply}"'))
    assert run("out").exit_code == 0
    shown = script_value(tmp_path / "out" / "viewer" / "data" / "0" / "answers-0.js")[3][0][4]
    assert shown.startswith("It begins so. ")
    assert shown.endswith(" The answer is (a)")
    assert len(shown) == write.LONGEST_REPLY + len(" […] ")


def audit(data: Path, **changes: Any) -> None:
    finding = {"check": "surface.longest", "slice": "all", "value": 0.25, "low": 0.2, "high": 0.3, "chance": 0.25}
    finding |= {"n": 40, "clusters": 2, "limit": "25.0 within 20 to 30", "verdict": "pass", "detectable": 0.1}
    split = {"split": "32k", "questions": 40, "personas": 2, "findings": [finding]}
    content = {"format": "personamem-audit", "schema_version": 1, "source": "personamem", "passed": True}
    content |= {"digest": read_manifest(data)["digest"], "splits": [split], **changes}
    (data / "audit.json").write_text(json.dumps(content), encoding="utf-8")


def test_the_audit_of_the_dataset_is_a_page_of_the_space(run, results, data, tmp_path):
    assert run("out").exit_code == 0
    assert "This dataset was not audited" in words(parse(tmp_path / "out" / "index.html"))
    assert not (tmp_path / "out" / "audit.html").exists()
    audit(data)
    assert run("out").exit_code == 0
    page = parse(tmp_path / "out" / "audit.html")
    assert "surface.longest" in words(page)
    assert "index.html" in [url for _, url, _ in addresses(page)]
    first_page = words(parse(tmp_path / "out" / "index.html"))
    assert "not audited" not in first_page
    assert "misses limits" not in first_page
    audit(data, passed=False)
    assert run("out").exit_code == 0
    assert "misses limits of its audit" in words(parse(tmp_path / "out" / "index.html"))


def test_an_audit_of_other_data_or_a_damaged_one_is_an_error(run, results, data, tmp_path):
    audit(data, digest="0" * 64)
    fails(run("out"), f"{data / 'audit.json'} is the audit of other data (digest 000000000000)", "audit it anew")
    audit(data, splits=[{"split": "32k"}])
    fails(run("out"), f"{data / 'audit.json'}: splits.0", "audit it anew")
    assert not (tmp_path / "out").exists()


def test_there_must_be_results_that_can_be_read(run, data, tmp_path, generated):
    fails(run("out"), "results: no such file or folder", "evaluate a model first")
    fails(run("out", "--results", data), f"{data}: no results_<date>.json in this folder")
    write_results(tmp_path / "results" / "good", generated, "good", right)
    broken = write_results(tmp_path / "results" / "broken", generated, "broken", right)
    broken.with_name(f"predictions_{DATE}.jsonl").write_text("{\n")
    fails(run("out"), "not everything could be read")
    assert not (tmp_path / "out").exists()


def test_results_on_other_data_are_refused(run, results, data, tmp_path, generated):
    write_results(results / "x", generated, "org/other", right, data_digest="f" * 64)
    path = results / "x" / f"results_{DATE}.json"
    fails(
        run("out"),
        f"{path.relative_to(tmp_path)}: personamem_32k was run on the dataset {'f' * 64}\n{data} is the dataset ",
        "a leaderboard is of one dataset",
    )
    write_results(results / "x", generated, "org/other", right, data_digest=None)
    fails(run("out"), f"{path.relative_to(tmp_path)}: personamem_32k was run on a dataset that it does not name")
    assert not (tmp_path / "out").exists()


def test_answers_to_questions_that_the_dataset_lacks_are_refused(run, results, data, tmp_path):
    [path] = (results / "b").glob("predictions_*.jsonl")
    path.write_text(re.sub(r'"question_id": "[^"]+"', '"question_id": "elsewhere"', path.read_text(), count=1))
    fails(run("out"), f"{path.parent.relative_to(tmp_path) / f'results_{DATE}.json'}: 1 of the ")


def test_a_model_must_have_answered_a_whole_split(run, data, tmp_path, generated):
    write_results(tmp_path / "results" / "a", generated, "quick", right, limit=3)
    write_results(tmp_path / "results" / "b", generated, "floor: longest", first)
    fails(run("out"), "no model answered all questions of a split\nquick on personamem_32k: partial: 3 of ")


def test_a_folder_that_holds_something_else_is_left_alone(run, results, data, tmp_path):
    (tmp_path / "out").mkdir()
    assert run("out").exit_code == 0, "an empty folder is as good as none"
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = contents(tmp_path / "out")
    fails(run("out"), "out is not empty, and holds something other than a Space: notes.txt", "choose another folder")
    assert contents(tmp_path / "out") == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    fails(run("other"), "other is not empty, and holds something other than a Space: notes.txt")
    fails(run("other/notes.txt"), "other/notes.txt exists and is not a folder")
    fails(run("."), ". is the current folder")
    fails(run("new", "--data", "nowhere"), "nowhere is not a personamem dataset folder")


def test_a_space_that_is_too_large_is_refused(run, results, data, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "MOST_BYTES", 300_000)
    fails(run("out"), "the Space would be larger than 0 MB", "show fewer histories: --contexts 1, or --contexts 0")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--dataset", "nobody", "--dataset nobody: that is not a dataset on the Hub"),
        ("--code", "javascript:alert(1)", "--code javascript:alert(1): that is not an address"),
        ("--title", " ", "--title must be one line of text"),
    ],
)
def test_odd_options_are_errors(run, results, data, option, value, message):
    fails(run("out", option, value), message)


def test_no_page_shows_where_on_this_machine_a_model_lies(run, results, data, generated, tmp_path):
    write_results(results / "p", generated, "/home/me/models/mine", right)
    assert run("out").exit_code == 0
    texts = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert any(b"mine" in text for text in texts)
    assert not any(b"/home/me" in text for text in texts)
