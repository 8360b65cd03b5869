"""Secrets in the files of a release: each kind is found, nothing else is, and no line of the report tells one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from personamem_builder.build.contexts_parquet import ContextWriter
from personamem_builder.publish.secrets import find_secrets

# Put together here, so that this file holds none.
HEX = "0123456789abcdef" * 4
LETTERS = "abcdefghijKLMNOPQRSTUVWXYZ0123456789abcdefghijKLMNOPQRSTUVWXYZ"
SECRETS = {
    "Hugging Face token": "hf" + "_" + LETTERS[:34],
    "Anthropic key": "sk-" + "ant-api03-" + LETTERS[:40] + "-_" + LETTERS[:10],
    "OpenAI key": "sk-" + LETTERS[:48],
    "AWS access key": "AK" + "IAIOSFODNN7EXAMPLE",
    "AWS secret key": "aws_secret_" + "access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "GitHub token": "gh" + "p_" + LETTERS[:36],
    "Google key": "AI" + "za" + LETTERS[:35],
    "Google OAuth secret": "GOC" + "SPX-" + LETTERS[:28],
    "Slack token": "xo" + "xb-123456789012-123456789012-" + LETTERS[:24],
    "Slack webhook": "hooks" + ".slack.com/services/T00000000/B00000000/" + LETTERS[:24],
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "URL with a password": "https://me:" + "hunter2secret@example.org/path",
}
MORE = [
    ("OpenAI key", "sk-" + "proj-" + LETTERS[:50]),
    ("OpenAI key", "sk-" + "or-v1-" + HEX),
    ("GitHub token", "github" + "_pat_" + LETTERS[:22] + "_" + LETTERS[:50]),
    ("private key", "-----BEGIN " + "PRIVATE KEY-----"),
    ("private key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----"),
    ("private key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----"),
    ("URL with a password", "postgresql://admin:" + "s3cr3t-pw@10.0.0.1:5432/db"),
]
HARMLESS = [
    "sk-learn and sk-2 are short; so is hf_token, and hf_hub_download is a function",
    "hf_transfer_is_a_long_name_of_a_python_module_and_not_a_token",
    f"sha256 {HEX}, revision {HEX[:40]}, id {HEX[:16]}",
    "personamem:canary:7f0c2b1e-5a8d-4d0e-9c43-2f6b1d7a90e5",
    "Write to me@example.org, or see https://example.org:8080/a/b?c=d@e, at 12:30 @ the café",
    "http://localhost:8000/v1 and git@github.com:org/name.git and ssh://git@host/x",
    "He said: well: that is it@home. AKIA is the start of a key, AIza too, xoxb- and ghp_ as well.",
    "-----BEGIN PUBLIC KEY-----",
    "task-ant-hill-with-a-long-name-behind-it and risk-proj-anything-that-is-long-enough",
    "aws_secret_access_key = ...",
    "Ça va? 日本語のテキスト:パスワード",
]


@pytest.fixture(autouse=True)
def _no_keys_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})


def parquet(path: Path, texts: list[str]) -> Path:
    """A file of shared contexts in which each text is a message, twice."""
    messages = [{"role": "user", "content": text} for text in texts]
    with ContextWriter(path) as writer:
        for key in ("c1", "c2"):
            row: dict[str, Any] = {"shared_context_id": key, "persona_id": 0, "messages": messages, "num_tokens": 1}
            writer.write(row | {"session_starts": [0], "session_topics": [""], "session_dates": [""]})
    return path


@pytest.mark.parametrize(("kind", "secret"), [*SECRETS.items(), *MORE])
def test_each_kind_is_found_in_text_and_in_parquet(tmp_path: Path, kind: str, secret: str) -> None:
    prose = f"Here you are: {secret}, keep it."
    files = {"README.md": f"# A\n\n{prose}\n".encode(), "data/c.parquet": parquet(tmp_path / "c", ["Hello.", prose])}
    lines = find_secrets(files)
    assert len(lines) == 2
    assert lines[0].startswith(f"README.md, line 3: {kind} ")
    assert lines[1].startswith(f"data/c.parquet, column messages, row group 0: {kind} ")
    assert secret[:4] in lines[0]
    assert not any(secret[4:] in line for line in lines)


@pytest.mark.parametrize("kind", SECRETS)
def test_also_in_json_and_beside_letters_of_other_alphabets(kind: str) -> None:
    text = f'{{"a": "これ{SECRETS[kind]}です"}}'
    assert [kind in line for line in find_secrets({"manifest.json": text.encode()})] == [True]


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_is_no_secret(tmp_path: Path, text: str) -> None:
    assert find_secrets({"a.md": text.encode(), "b.parquet": parquet(tmp_path / "b", [text])}) == []


def test_real_datasets_raise_no_alarm(dataset_folder: Path, generated: Path) -> None:
    for folder in (dataset_folder, generated):
        files: dict[str, Path | bytes] = {
            path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
        }
        assert len(files) >= 4
        assert find_secrets(files) == []


def test_every_text_of_a_parquet_file_is_seen(tmp_path: Path) -> None:
    token = SECRETS["Hugging Face token"]
    tables = {
        "text": pa.array([None, token]),
        "list": pa.array([["a"], None, ["b", token]]),
        "lists": pa.array([[["a"], [token]]]),
        "struct": pa.array([{"number": 1, "inner": {"text": token}}]),
        "large": pa.array([token], pa.large_string()),
    }
    for name, array in tables.items():
        pq.write_table(pa.table({"number": pa.nulls(len(array), pa.int32()), name: array}), tmp_path / "t.parquet")
        for content in (tmp_path / "t.parquet", (tmp_path / "t.parquet").read_bytes()):
            assert [f"column {name}" in line for line in find_secrets({"t.parquet": content})] == [True], name
    table = pa.table({"a": ["b"]}).replace_schema_metadata({"note": token})
    pq.write_table(table, tmp_path / "t.parquet")
    assert "metadata" in find_secrets({"t.parquet": tmp_path / "t.parquet"})[0]


@pytest.mark.parametrize("name", ["MY_API_KEY", "my_token", "A_SECRET_B"])
def test_values_of_this_processs_variables_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    value = "quite+ordinary (words) é"
    monkeypatch.setattr("os.environ", {name: value, "HOME": "/home/me", "SHORT_TOKEN": "ordinary"})
    text = f"These are {value}, in /home/me."
    lines = find_secrets({"a.md": text.encode(), "b.parquet": parquet(tmp_path / "b", [text])})
    assert [f"value of the variable {name}" in line for line in lines] == [True, True]
    assert not any("ordinary" in line for line in lines)
    assert find_secrets({"a.md": b"These are quite other words, in /home/me."}) == []
