"""Dataset folders to view: a small generated one, and others made by hand, with answers of models to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from personamem_builder.build.write import Source, write_dataset
from personamem_builder.dataset.check import read_questions
from personamem_builder.manifest import read_manifest
from personamem_builder.schema import GENERATED_QUESTION_FIELDS, QUESTION_SCHEMA

MakeFolder = Callable[..., Path]
Answers = Callable[..., Path]


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> MakeFolder:
    """Make a dataset folder of one context, and of questions that differ from a plain one."""

    def make(
        messages: Sequence[Mapping[str, str]],
        questions: Sequence[Mapping[str, Any]],
        sessions: Sequence[tuple[int, str, str]] = ((0, "", ""),),
        split: str = "32k",
    ) -> Path:
        context = {
            "shared_context_id": "context",
            "persona_id": 3,
            "messages": list(messages),
            "session_starts": [start for start, _, _ in sessions],
            "session_topics": [topic for _, topic, _ in sessions],
            "session_dates": [date for _, _, date in sessions],
            "num_tokens": 10 * len(messages),
        }
        rows = [_plain(i, len(messages)) | question for i, question in enumerate(questions)]
        schema = pa.schema([*QUESTION_SCHEMA, *GENERATED_QUESTION_FIELDS])
        folder = tmp_path_factory.mktemp("made") / "personamem"
        source = Source("made by hand", "", "mit", "1.0.0", "none")
        write_dataset(folder, {split: [pa.Table.from_pylist(rows, schema=schema)]}, [(split, context)], source)
        return folder

    return make


def _plain(number: int, end: int) -> dict[str, Any]:
    return {
        "persona_id": 3,
        "question_id": f"q{number}",
        "question_type": "acknowledge_latest_user_preferences",
        "topic": "cooking",
        "context_length_in_tokens": 10 * end,
        "context_length_in_letters": 50 * end,
        "distance_to_ref_in_blocks": 1,
        "distance_to_ref_in_tokens": 10,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.5,
        "user_question_or_message": "What now?",
        "correct_answer": "(b)",
        "all_options": ["(a) One.", "(b) Two.", "(c) Three.", "(d) Four."],
        "shared_context_id": "context",
        "end_index_in_shared_context": end,
        "source_question_type": "acknowledge_latest_user_preferences",
        "answer_index": 1,
        "evidence_message_indices": [],
        "evidence_event_ids": [],
        "option_states": [["one"], ["two"], ["three"], ["four"]],
        "option_roles": ["never", "current", "outdated", "never"],
        "option_stereotypical": [False, False, True, False],
        "updates_spanned": 0,
    }


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    """Write the results of a model that wrote text: by question id the letter it chose, None for no option."""

    def write(
        folder: Path,
        chosen: Mapping[str, str | None],
        model: str = "org/model",
        split: str = "32k",
        response: str = "I take it.",
        digest: str | None = None,
    ) -> Path:
        task, date = f"personamem_{split}_generate", "2026-11-27T10-11-12.123456"
        rows = {row["question_id"]: row for row in read_questions(folder, split).to_pylist()}
        out = tmp_path / f"results-{len(list(tmp_path.iterdir()))}"
        out.mkdir()
        results = {
            "results": {},
            "configs": {task: {"metadata": {"data_digest": digest or read_manifest(folder)["digest"]}}},
            "config": {"model": "hf", "model_args": {"pretrained": model}},
        }
        (out / f"results_{date}.json").write_text(json.dumps(results), encoding="utf-8")
        lines = [
            _line(task, question_id, rows.get(question_id, {}), at, response) for question_id, at in chosen.items()
        ]
        (out / f"predictions_{date}.jsonl").write_text(
            "".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8"
        )
        return out

    return write


def _line(task: str, question_id: str, row: Mapping[str, Any], chosen: str | None, response: str) -> dict[str, Any]:
    right = "abcd"[row.get("answer_index", 0)]
    return {
        "task": task,
        "question_id": question_id,
        "persona_id": 3,
        "question_type": "recall_user_shared_facts",
        "answer": right,
        "n_options": 4,
        "response": response,
        "predictions": {"robust": chosen},
        "credits": {"robust": float(chosen == right)},
        "skipped": False,
        "truncated": False,
    }
