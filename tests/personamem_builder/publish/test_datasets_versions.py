"""The oldest and the newest `datasets` that we claim load what we publish, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

import pytest
from command_line import personamem
from hub_client import HubClient
from loopback_hub import READER, LoopbackHub
from small_datasets import make_dataset

REPO = "org/personamem"

LOAD = """
import json, sys, datasets
split, revision = "32k", "v1.0.0"
questions = datasets.load_dataset(sys.argv[1], split=split, revision=revision)
contexts = datasets.load_dataset(sys.argv[1], "shared_contexts", split=split, revision=revision)
place = {key: i for i, key in enumerate(contexts["shared_context_id"])}
row = questions[0]
messages = contexts[place[row["shared_context_id"]]]["messages"][: row["end_index_in_shared_context"]]
joined = len(messages) == row["end_index_in_shared_context"]
print(json.dumps([datasets.__version__, len(questions), len(contexts), joined, sorted(row)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["datasets==4.0.0", "datasets"])
def test_plain_datasets_loads_a_published_version(wanted: str, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    interpreter = environment / "bin" / "python"
    install = [interpreter, "-m", "pip", "install", "--quiet", wanted]
    if (done := subprocess.run(install, capture_output=True, text=True)).returncode:
        pytest.skip(f"{wanted} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    dataset = make_dataset(tmp_path)
    with LoopbackHub({}) as hub, HubClient(hub.url, tmp_path) as client:
        arguments = ["publish", str(dataset), REPO, "--tag", "v1.0.0", "--allow-failed-audit"]
        assert client.call(personamem, *arguments).exit_code == 0
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PYTHON"))}
        environ |= {"HF_ENDPOINT": hub.url, "HF_TOKEN": READER, "HF_HOME": str(tmp_path / "home")}
        environ |= {"HF_HUB_DISABLE_XET": "1"}
        loaded = subprocess.run(
            [interpreter, "-c", LOAD, REPO], capture_output=True, text=True, env=environ, cwd=tmp_path
        )
    assert loaded.returncode == 0, loaded.stderr
    version, questions, contexts, joined, columns = json.loads(loaded.stdout.splitlines()[-1])
    manifest = json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))["splits"]["32k"]
    assert version == wanted.partition("==")[2] or "==" not in wanted
    assert (questions, contexts) == (manifest["questions"], manifest["shared_contexts"])
    assert joined
    assert {"all_options", "option_states", "evidence_message_indices"} <= set(columns)
