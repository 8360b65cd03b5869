"""The conditions of an audit, with a model that knows the answer only where it can read the evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from personamem_builder.dataset.load import iter_examples
from personamem_builder.evaluation.audit_conditions import possible_conditions, run_conditions
from personamem_builder.schema import option_letter

CONDITIONS = ["no_context", "wrong_user", "oracle", "full"]
LOADED: list[LM] = []


@register_model("finds-evidence-for-tests")
class FindsEvidence(LM):
    """It gives the right answer if all messages of the evidence are in the prompt, else it takes all for alike."""

    def __init__(self, folder: str, **_: Any) -> None:
        super().__init__()
        LOADED.append(self)
        self.evidence = {
            row["question_id"]: [row["context"][i]["content"] for i in row["evidence_message_indices"]]
            for row in iter_examples("32k", data=folder)
        }

    def finds(self, request: Any) -> bool:
        return all(text in request.args[0] for text in self.evidence[request.doc["question_id"]])

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        return [
            (float(self.finds(request) and request.idx == request.doc["answer_index"]), False) for request in requests
        ]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [
            f"A line of thought, then <final_answer> ({option_letter(request.doc['answer_index'])})"
            if self.finds(request)
            else "I cannot know."
            for request in requests
        ]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError


def ask(folder: Path, output: Path, *options: str, **more: Any) -> dict[str, dict[str, float]]:
    return run_conditions(
        folder,
        "32k",
        "finds-evidence-for-tests",
        f"folder={folder}",
        options,
        output,
        **({"conditions": CONDITIONS} | more),
    )


def metadata(output: Path) -> list[dict[str, Any]]:
    """Return the metadata of each task of each results file."""
    return [
        {"task": task, **config["metadata"]}
        for path in sorted(output.rglob("results_*.json"))
        for task, config in json.loads(path.read_text(encoding="utf-8"))["configs"].items()
    ]


def test_data_allow_the_conditions_that_they_have_users_and_evidence_for(generated: Path, dataset_folder: Path) -> None:
    assert possible_conditions(generated, "32k") == CONDITIONS
    assert possible_conditions(dataset_folder, "32k") == ["no_context", "full"]


def test_each_condition_shows_what_it_should(generated: Path, tmp_path: Path) -> None:
    LOADED.clear()
    credits_ = ask(generated, tmp_path)
    ids = [row["question_id"] for row in iter_examples("32k", data=generated)]
    assert list(credits_) == CONDITIONS
    for condition, expected in zip(CONDITIONS, (0.25, 0.25, 1.0, 1.0), strict=True):
        assert credits_[condition] == dict.fromkeys(ids, expected)
    assert len(LOADED) == 3
    assert {(one["task"], one.get("memory")) for one in metadata(tmp_path)} == {
        ("personamem_32k_nocontext", None),
        ("personamem_32k", "full"),
        ("personamem_32k", "wrong-user"),
        ("personamem_32k", "oracle"),
    }


def test_letters_are_read_from_what_the_model_writes(generated: Path, tmp_path: Path) -> None:
    credits_ = ask(generated, tmp_path, conditions=["no_context", "oracle"], setting="generate")
    assert list(credits_) == ["no_context", "oracle"]
    assert set(credits_["no_context"].values()) == {0.0}
    assert set(credits_["oracle"].values()) == {1.0}
    assert {one["task"] for one in metadata(tmp_path)} == {
        "personamem_32k_generate_nocontext",
        "personamem_32k_generate",
    }


def test_options_go_to_the_evaluation_but_the_data_and_the_memory_are_those_of_the_condition(
    generated: Path, tmp_path: Path
) -> None:
    credits_ = ask(
        generated,
        tmp_path,
        *("--limit", "3", "--metadata", '{"roles": "no_system", "memory": "persona", "data": "elsewhere"}'),
        conditions=["wrong_user", "full"],
        setting="letters",
    )
    assert credits_["wrong_user"].keys() == credits_["full"].keys()
    assert len(credits_["full"]) == 3
    assert {(one["task"], one["memory"], one["roles"], one["data"]) for one in metadata(tmp_path)} == {
        ("personamem_32k_letters", memory, "no_system", str(generated)) for memory in ("wrong-user", "full")
    }
