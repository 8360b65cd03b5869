"""`personamem tasks list`: how the splits of a dataset are asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import personamem

from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.build.from_run import build


@pytest.fixture(scope="module")
def blocks(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of contexts of one, two and three sessions."""
    folder = tmp_path_factory.mktemp("blocks")
    store = RunStore(Path(shutil.copytree(tiny_run, folder / "run")))
    assemble(store, chosen_sizes((), "1-3", None), 1, 1)
    build(store, folder / "personamem")
    return folder / "personamem"


def test_each_split_has_its_task_and_what_it_needs(blocks: Path, dataset_folder: Path) -> None:
    lines = personamem("tasks", "list", blocks).out.splitlines()
    assert lines[0].split()[:2] == ["split", "questions"]
    assert [line.split()[0] for line in lines[1:]] == ["1blocks", "2blocks", "3blocks"]
    assert lines[2].endswith("""personamem_32k --metadata '{"split": "2blocks"}'""")
    assert personamem("tasks", "list", dataset_folder).out.splitlines()[1].split() == ["32k", "17", "personamem_32k"]


def test_what_it_lists_can_be_run_and_the_report_has_a_curve(
    blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for count in (1, 3):
        metadata = f'{{"split": "{count}blocks", "data": "{blocks}"}}'
        arguments = ["--tasks", "personamem_32k_letters", "--model", "personamem-floor", "--metadata", metadata]
        assert personamem("eval", *arguments, "--output_path", f"results/{count}").exit_code == 0
    out = personamem("report").out
    assert "personamem_1blocks_letters (data " in out
    assert "Accuracy over sessions, personamem_blocks_letters" in out
    assert personamem("report", "--html", "r.html").exit_code == 0
    assert "Accuracy over sessions" in Path("r.html").read_text(encoding="utf-8")


def test_a_split_that_is_not_there_and_tasks_that_ask_the_same_are_refused(blocks: Path) -> None:
    metadata = f'{{"split": "7blocks", "data": "{blocks}"}}'

    def refusal(tasks: str) -> str:
        outcome = personamem("eval", "--tasks", tasks, "--model", "personamem-floor", "--metadata", metadata)
        assert outcome.exit_code == 1
        return outcome.err

    assert "has no split '7blocks', it has 1blocks, 2blocks, 3blocks" in refusal("personamem_32k")
    both = "personamem_32k,personamem_128k"
    assert "personamem_32k and personamem_128k would ask the same questions" in refusal(both)
