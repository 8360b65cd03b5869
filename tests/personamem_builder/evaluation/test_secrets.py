"""No backend of an evaluation, ours or lm-eval's, prints or writes a key, even one that its endpoint echoes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loopback_chat import LoopbackChat, Message, Raw

ROOT = Path(__file__).parents[3]
KEYS = {"OPENAI_API_KEY": "sk-proj-OpEnAi-0123456789", "ANTHROPIC_API_KEY": "sk-ant-ClAuDe/0123+456789=="}


def evaluate(server: LoopbackChat, model: str, at_once: int, folder: Path, data: Path) -> tuple[int, str]:
    path = "/v1/messages" if "anthropic" in model else "/v1/chat/completions"
    arguments = f"model=parrot,base_url={server.url}{path},num_concurrent={at_once},max_retries=2"
    command = [
        *(sys.executable, "-c", "from personamem_builder.cli import main; main()", "eval", "run"),
        *("--model", model, "--model_args", arguments, "--tasks", "personamem_32k_generate", "--limit", "3"),
        *("--output_path", str(folder / "out")),
    ]
    env = os.environ | KEYS | {"PYTHONPATH": str(ROOT), "PERSONAMEM_DATA": str(data), "LMEVAL_LOG_LEVEL": "DEBUG"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def files_below(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("model", "at_once", "status"),
    [
        pytest.param("local-chat-completions", 3, 401, marks=pytest.mark.slow),
        pytest.param("local-chat-completions", 1, 500, marks=pytest.mark.slow),
        pytest.param("openai-chat-completions", 3, 429, marks=pytest.mark.slow),
        pytest.param("anthropic-chat-completions", 3, 500, marks=pytest.mark.slow),
        pytest.param("anthropic-chat-completions", 1, 401, marks=pytest.mark.slow),
        pytest.param("local-chat-completions", 3, 200, marks=pytest.mark.slow),
        ("personamem-chat", 3, 401),
        pytest.param("personamem-chat", 3, 500, marks=pytest.mark.slow),
        pytest.param("personamem-anthropic", 2, 429, marks=pytest.mark.slow),
    ],
)
def test_no_key_is_shown_or_written(
    model: str, at_once: int, status: int, tmp_path: Path, dataset_folder: Path
) -> None:
    def answer(messages: list[Message]) -> Any:
        headers = dict(server.requests[-1].headers)
        body = {"error": {"message": f"{' '.join(KEYS.values())} {headers}", "headers": headers}}
        return Raw(body, status, {"X-Echo": headers.get("x-api-key", headers.get("authorization", ""))})

    with LoopbackChat(answer) as server:
        code, said = evaluate(server, model, at_once, tmp_path, dataset_folder)
    sent = {value.removeprefix("Bearer ") for request in server.requests for value in request.headers.values()}
    assert sent & set(KEYS.values()), "the key was not even sent"
    if not model.startswith("personamem"):
        assert code != 0 or status == 200
        assert status == 200 or "[redacted]" in said, "the key was not even near"
    for key in KEYS.values():
        assert key not in said
        assert not [content for content in files_below(tmp_path) if key.encode() in content]
