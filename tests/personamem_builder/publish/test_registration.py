from __future__ import annotations

from pathlib import Path

import yaml

from generation.resources import data_dir
from personamem_builder.manifest import read_manifest
from personamem_builder.publish.registration import eval_yaml


def test_one_task_for_each_split_under_the_name_of_its_lm_eval_task(dataset_folder: Path) -> None:
    manifest = read_manifest(dataset_folder)
    entry = manifest["splits"]["32k"]
    manifest["splits"] = {"32k": entry, "1M": entry}
    registered = yaml.safe_load(eval_yaml(manifest))
    assert registered["tasks"] == [
        {"id": "personamem_32k", "config": "benchmark", "split": "32k"},
        {"id": "personamem_1M", "config": "benchmark", "split": "1M"},
    ]
    assert all((data_dir("lm_eval_tasks") / f"{task['id']}.yaml").is_file() for task in registered["tasks"])
    assert set(registered) == {"name", "description", "evaluation_framework", "tasks"}
    assert all(registered.values())
