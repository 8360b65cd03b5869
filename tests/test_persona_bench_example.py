"""The example of PERSONA-Bench is invented, small and whole, and its README can be followed to the end."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from command_line import Outcome, personamem

from personamem_builder.persona_bench.prompt_files import write_prompts
from personamem_builder.persona_bench.records import CONDITIONS, DOMAINS, TASKS
from personamem_builder.persona_bench.write import import_file

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "persona_bench"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand where `examples` is, in a place that may be written to."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def follow_readme() -> dict[str, Outcome]:
    """Do what the README says, from the top; returns what each command printed, by its name."""
    done = {}
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(block, {})
            continue
        for line in block.splitlines():
            words = line.removeprefix("personamem persona-bench ").removeprefix("personamem ").split()
            done[words[0]] = personamem(*line.split()[1:])
            assert done[words[0]].exit_code == 0, done[words[0]].err
    return done


def test_the_file_is_what_its_readme_says() -> None:
    posts = json.loads((EXAMPLE / "posts.json").read_text(encoding="utf-8"))
    assert (EXAMPLE / "posts.json").stat().st_size < 300_000
    assert Counter(post["__sub__"] for post in posts) == dict.fromkeys(DOMAINS, 4)
    assert len({post["author"] for post in posts}) == 18
    assert "invented" in README


@pytest.mark.slow
def test_the_readme_leads_from_the_posts_to_a_report(folder: Path) -> None:
    done = follow_readme()
    assert "40 posts, 297 comments, 18 authors" in done["import"].out
    assert "leaks: 0" in done["audit"].out
    for task in TASKS:
        assert f"{task}, test split" in done["report"].out
    by_domain = done["report"].out.split("By domain, on the same items")[1].split("\n\n")[1].split("\n")
    assert [line.split()[0] for line in by_domain[1:]] == list(DOMAINS)
    assert " - " not in "".join(by_domain)
    drawn = {path.name for path in (folder / "demo" / "radars").glob("*.svg")}
    assert drawn >= {"sentiment-test-classes.svg", "impact-test-errors.svg", "next_text-test-words.svg"}
    (items,) = re.findall(r"impact\.jsonl: (\d+) prompts", done["prompts"].out)
    assert f"impact: {items} rows; the source's rules leave out 0" in done["evaluate-log"].out


def test_all_tasks_and_conditions_have_items_in_both_forms(tmp_path: Path) -> None:
    import_file(EXAMPLE / "posts.json", tmp_path / "data", seed=5310)
    for released in (False, True):
        written = write_prompts(tmp_path / "data", tmp_path / f"{released}", TASKS, CONDITIONS, released=released)
        assert len(written) == len(TASKS) * len(CONDITIONS)
        assert all(file.rows > 10 for file in written)
