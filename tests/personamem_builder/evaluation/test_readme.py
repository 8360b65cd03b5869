"""The prompts shown in `lm_eval_tasks/README.md` are those that the tasks give.

To write them anew after a change: PERSONAMEM_WRITE_README=1 python -m pytest THIS_FILE
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from generation.resources import data_dir
from personamem_builder.evaluation import chat

README = Path(__file__).parents[3] / "lm_eval_tasks" / "README.md"
START = "<!-- prompts: written by tests/personamem_builder/evaluation/test_readme.py -->\n"
END = "<!-- end of prompts -->"
# Read before the fixture that hides the user's settings.
WRITE = bool(os.environ.get("PERSONAMEM_WRITE_README"))


def shortened(text: str, characters: int = 160) -> str:
    return text if len(text) <= characters else f"{text[:characters].rstrip()} … ({len(text)} characters)"


def message_block(messages: list[chat.Message]) -> str:
    shown = [f"<{m['role']}>\n{shortened(m['content'])}" for m in messages[:3]]
    if len(messages) > 4:
        shown.append(f"… {len(messages) - 4} more messages …")
    return "\n".join([*shown, f"<{messages[-1]['role']}>\n{messages[-1]['content']}"])


def section(name: str, task: Any) -> str:
    doc = task.eval_docs[0]
    messages = task.messages(doc)
    block = message_block(messages) if len(messages) > 1 else f"<user>\n{messages[0]['content']}"
    scored = ""
    if task.OUTPUT_TYPE == "multiple_choice":
        options = "\n".join(f"  {shortened(option, 100)}" for option in task.doc_to_choice(doc))
        scored = f"Scored after it, each alone:\n\n```\n{options}\n```\n\n"
    return f"### `{name}`\n\n```\n{block}\n```\n\n{scored}"


@pytest.fixture
def prompts(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    names = [
        f"personamem_32k{setting}{context}"
        for setting in ("", "_letters", "_generate")
        for context in ("", "_nocontext")
    ]
    tasks = manager.load(names)["tasks"]
    text = chat.to_text(tasks["personamem_32k"].messages(tasks["personamem_32k"].eval_docs[0]))
    plain = f"### `personamem_32k` without a chat template\n\n```\n{shortened(text)}\n…{text[-200:]}\n```\n\n"
    return "\n" + "".join(section(name, tasks[name]) for name in names) + plain


def test_the_prompts_in_the_readme_are_those_of_the_tasks(prompts: str) -> None:
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    shown, _, after = rest.partition(END)
    if WRITE:
        README.write_text(f"{before}{START}{prompts}{END}{after}", encoding="utf-8")
        return
    assert shown == prompts
