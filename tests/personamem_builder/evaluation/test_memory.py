"""What each `memory` shows before a question, and what the results say of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import small_memories
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from generation.errors import UserError
from generation.resources import data_dir
from generation.tokenizer import num_tokens
from personamem_builder.dataset.load import iter_examples
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.schema import Message

TASK = "personamem_32k"


class MessageLM(LM):
    """It keeps the messages that the task makes, as `hf-prefix` gets them."""

    takes_prompt_refs = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"<{m['role']}>\n{m['content']}\n" for m in messages) + "<assistant>\n"

    def chat_template(self, name: Any = None) -> str:
        return "toy"

    @property
    def tokenizer_name(self) -> str:
        return "words"

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        self.asked += requests
        return [(0.0, False) for _ in requests]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError

    def refs(self) -> dict[str, Any]:
        return {request.doc["question_id"]: request.args[0] for request in self.asked}


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:
    small_memories.CALLS.clear()
    small_memories.KEY.clear()


def ask(
    data: Path, task: str = TASK, limit: int | None = None, **metadata: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reference of each question's prompt, and the recorded metadata."""
    lm = MessageLM()
    metadata = {"data": str(data), "roles": "verbatim", **metadata}
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    results = simple_evaluate(
        model=lm, tasks=[task], task_manager=manager, apply_chat_template=True, bootstrap_iters=1, limit=limit
    )
    assert results is not None
    return lm.refs(), results["configs"][task]["metadata"]


def shown(data: Path, **metadata: Any) -> dict[str, list[Message]]:
    """Return what stands before each question."""
    refs, _ = ask(data, **metadata)
    rows = {row["question_id"]: row for row in iter_examples("32k", data=data)}
    history = {}
    for question_id, ref in refs.items():
        *before, last = ref.messages()
        assert last == {"role": "user", "content": rows[question_id]["user_question_or_message"]}
        history[question_id] = before
    return history


def persona(row: dict[str, Any]) -> Message:
    return next(message for message in row["context"] if message["role"] == "system")


# ---- without a system


def test_full_is_the_default(generated: Path) -> None:
    assert shown(generated) == shown(generated, memory="full")
    assert ask(generated, limit=1)[1]["memory"] == "full"


def test_none_and_persona_show_no_more(generated: Path) -> None:
    none, profile = shown(generated, memory="none"), shown(generated, memory="persona")
    for row in iter_examples("32k", data=generated):
        assert none[row["question_id"]] == []
        assert profile[row["question_id"]] == [persona(row)]


def test_recent_shows_the_profile_and_whole_messages_up_to_so_many_tokens(generated: Path) -> None:
    limit = 1500
    history = shown(generated, memory="recent", settings={"tokens": limit})
    for row in iter_examples("32k", data=generated):
        first, *rest = history[row["question_id"]]
        said = [message for message in row["context"] if message["role"] != "system"]
        assert first == persona(row)
        assert rest == said[len(said) - len(rest) :]
        tokens = [num_tokens(message["content"]) for message in said]
        assert sum(tokens[len(said) - len(rest) :]) <= limit
        assert len(rest) == len(said) or sum(tokens[len(said) - len(rest) - 1 :]) > limit


def test_recent_sessions_are_the_last_ones_and_are_parted(generated: Path) -> None:
    history = shown(generated, memory="recent", settings={"sessions": 2}, roles="normalised")
    for messages in history.values():
        marks = re.findall(r"^\[Session (\d+)\]$", "\n".join(message["content"] for message in messages), re.MULTILINE)
        assert marks == ["1", "2"]
    one = shown(generated, memory="recent", settings={"sessions": 1})
    assert all(len(one[key]) < len(messages) for key, messages in shown(generated, memory="recent",
               settings={"sessions": 2}).items())  # fmt: skip
    assert shown(generated, memory="recent", settings={"sessions": 99}) == {
        row["question_id"]: [persona(row), *(m for m in row["context"] if m["role"] != "system")]
        for row in iter_examples("32k", data=generated)
    }


# ---- with one


def test_what_was_found_is_one_system_message_after_the_profile(generated: Path) -> None:
    history = shown(generated, memory="small_memories:Last", k=3)
    for row in iter_examples("32k", data=generated):
        (message,) = history[row["question_id"]]
        assert message["role"] == "system"
        assert message["content"].startswith(
            f"{persona(row)['content']}\n\nWhat is remembered of earlier conversations"
        )
        place = 0
        for said in row["context"][-3:]:
            place = message["content"].index(said["content"], place) + len(said["content"])


@pytest.mark.slow
def test_every_task_shows_the_same(generated: Path) -> None:
    memory = {"memory": "bm25", "k": 4}
    history = shown(generated, **memory)
    refs, _ = ask(generated, "personamem_32k_letters", **memory)
    assert {key: ref.messages()[:-1] for key, ref in refs.items()} == history


@pytest.mark.slow
def test_histories_are_taken_in_once_for_all_tasks_and_models(generated: Path) -> None:
    memory = {"memory": "small_memories:Snapshots", "k": 2}
    _, first = ask(generated, **memory)
    assert small_memories.CALLS
    small_memories.CALLS.clear()
    _, second = ask(generated, "personamem_32k_letters", **memory)
    assert small_memories.CALLS == []
    assert first["memory_digest"] == second["memory_digest"]
    assert first["memory_store"] == second["memory_store"]


def test_a_question_needs_one_history(generated: Path) -> None:
    ask(generated, limit=1, memory="small_memories:Answers")
    assert sum(name == "reset" for name, _ in small_memories.CALLS) == 1


def test_the_results_name_the_memory_and_its_settings(generated: Path) -> None:
    _, named = ask(generated, memory="bm25", limit=1)
    assert (named["memory"], named["k"], named["settings"]) == ("bm25", 10, {})
    assert (named["memory_tainted"], named["memory_failed"]) == (0, 0)
    measured = {line["measure"]: line["value"] for line in named["memory_measures"]}
    assert 0 <= measured["evidence recall"] <= 1
    assert 0 < measured["share of history"] < 1
    _, named = ask(generated, memory="bm25", k=2, settings={"unit": "session"}, limit=1)
    assert (named["k"], named["settings"]) == (2, {"unit": "session"})
    assert json.dumps(named)


def test_a_tainted_memory_is_named_so_in_the_results(generated: Path) -> None:
    for row in iter_examples("32k", data=generated):
        small_memories.KEY[row["user_question_or_message"]] = row["all_options"][row["answer_index"]]
    _, named = ask(generated, memory="small_memories:Cheats")
    assert named["memory_tainted"] > 30


def test_a_stored_run_is_read_and_names_its_system(generated: Path, tmp_path: Path) -> None:
    run_memory(generated, "32k", find_system("small_memories:Last"), 3, out=tmp_path / "out")
    small_memories.CALLS.clear()
    assert shown(generated, store=str(tmp_path / "out")) == shown(generated, memory="small_memories:Last",
                                                                    store=str(tmp_path / "out"), k=3)  # fmt: skip
    assert small_memories.CALLS == []
    _, named = ask(generated, store=str(tmp_path / "out"), limit=1)
    assert (named["memory"], named["k"]) == ("small_memories:Last", 3)


def test_prompts_of_other_memories_are_others(generated: Path) -> None:
    digests: set[str] = set()
    memories: list[dict[str, Any]] = [
        {"memory": "none"}, {"memory": "persona"}, {"memory": "bm25"}, {"memory": "bm25", "k": 3},
        {"memory": "recent", "settings": {"tokens": 700}}, {"memory": "recent", "settings": {"sessions": 1}},
    ]  # fmt: skip
    for memory in memories:
        refs, _ = ask(generated, limit=20, **memory)
        digests |= set(refs.values())
        opening: dict[str, str] = {}
        for ref in refs.values():
            first = repr(ref.messages()[:2])
            if memory["memory"] in ("bm25", "recent"):
                assert opening.setdefault(ref.group, first) == first  # as `hf-prefix` takes it
    assert len(digests) == len(memories) * len(refs)


# ---- bad settings


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"memory": "half"}, "memory=half: no such value"),
        ({"memory": 7}, "memory=7 is not a name"),
        ({"memory": "bm25", "k": 0}, "one memory or more"),
        ({"memory": "bm25", "k": "5"}, "one memory or more"),
        ({"memory": "bm25", "settings": "unit=session"}, "are not settings"),
        ({"memory": "bm25", "settings": {"unit": "word"}}, "unit=word"),
        ({"memory": "small_memories:WithoutSearch"}, "has no method search"),
        ({"memory": "persona", "k": 5}, "k=… has no meaning with memory=persona"),
        ({"memory": "none", "settings": {"a": 1}}, "memory=none has no settings"),
        ({"memory": "recent"}, "tokens or sessions"),
        ({"memory": "recent", "settings": {"tokens": 5, "sessions": 1}}, "tokens or sessions"),
        ({"memory": "recent", "settings": {"sessions": 0}}, "no positive whole number"),
        ({"store": "nowhere"}, "nowhere holds no results"),
    ],
)
def test_bad_settings_are_errors(metadata: dict[str, Any], message: str, generated: Path) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        ask(generated, **metadata)


def test_a_stored_run_of_something_else_is_an_error(generated: Path, dataset_folder: Path, tmp_path: Path) -> None:
    run_memory(generated, "32k", find_system("bm25"), 3, out=tmp_path / "out")
    store = str(tmp_path / "out")
    for metadata, message in (({"k": 4}, "has k=3, not 4"), ({"memory": "dense"}, "has memory=bm25, not dense")):
        with pytest.raises(UserError, match=message):
            ask(generated, store=store, **metadata)
    with pytest.raises(UserError, match="is about other data"):
        ask(dataset_folder, store=store)


def test_an_unfinished_store_is_an_error(generated: Path, tmp_path: Path) -> None:
    rows = list(iter_examples("32k", data=generated))
    run_memory(generated, "32k", find_system("bm25"), 3, out=tmp_path / "out", contexts={rows[0]["shared_context_id"]})
    with pytest.raises(UserError, match=r"lacks \d+ of \d+ questions of the split 32k"):
        ask(generated, store=str(tmp_path / "out"))
