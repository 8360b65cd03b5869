from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY

import personamem_builder
from personamem_builder.cli import _COMMANDS

Python = Callable[..., Any]

WHAT_IS_LOADED = """
import io, sys
from contextlib import redirect_stdout
from personamem_builder.cli import cli
config, *commands = sys.argv[1:]
heavy = ["datasets", "huggingface_hub", "lm_eval", "matplotlib", "numpy", "openai", "pandas", "pyarrow", "rich"]
heavy += ["scipy", "sklearn", "tiktoken", "torch", "transformers", "yaml"]
def tell(what): print(what, *(name for name in heavy if name in sys.modules), sep=": ")
tell("import")
for words in [], *([name] for name in commands):
    with redirect_stdout(io.StringIO()):
        cli.main([*words, "--help"], standalone_mode=False)
    tell(" ".join([*words, "--help"]))
cli.main(["generate", config, "--out", "run"], standalone_mode=False)
tell("generate")
import personamem_builder.hub.download, personamem_builder.official.download
tell("download")
"""

HEAVY = ("memory", "eval", "report", "persona-bench", "canary", "tasks")
LIGHT = ["audit", *(name for name in _COMMANDS if name not in ("audit", *HEAVY))]
"""Commands whose help takes a moment. That of `audit` comes first: it needs no YAML."""


def test_what_is_not_used_is_not_loaded(python: Python, tmp_path: Path) -> None:
    config = tmp_path / "one.yaml"
    config.write_text(TINY.read_text().replace("personas: 2", "personas: 1").replace("fillers: 60", "fillers: 2"))
    loaded = python(WHAT_IS_LOADED, str(config), *LIGHT).stdout.splitlines()
    assert loaded[:3] == ["import", "--help", "audit --help"]
    assert [line.removesuffix(": yaml") for line in loaded[3:-3]] == [f"{name} --help" for name in LIGHT[1:]]
    assert loaded[-2] == "generate: tiktoken: yaml"
    assert "huggingface_hub" not in loaded[-1]


def test_the_public_names_are_loaded_when_asked_for() -> None:
    for name in personamem_builder.__all__:
        assert callable(getattr(personamem_builder, name)), name
    assert not hasattr(personamem_builder, "no_such_name")


# `datasets` may be loaded before or after; and libraries such as transformers look whether it is there.
@pytest.mark.parametrize(
    "imports",
    [
        pytest.param("from datasets import load_dataset; import personamem_builder", marks=pytest.mark.slow),
        pytest.param("import personamem_builder; from datasets import load_dataset", marks=pytest.mark.slow),
        "import personamem_builder, importlib.util; importlib.util.find_spec('datasets');"
        "from datasets import load_dataset",
    ],
    ids=["datasets first", "personamem_builder first", "datasets looked for, then loaded"],
)
def test_the_order_of_imports_does_not_matter(python: Python, dataset_folder: Path, imports: str) -> None:
    code = "rows = load_dataset('personamem', split='32k'); print(len(rows), len(rows[0]['context']))"
    assert python(f"{imports}\n{code}", PERSONAMEM_DATA=str(dataset_folder)).stdout == "17 182\n"


def test_a_datasets_without_the_names_we_build_on_still_works_and_says_what_is_lost(
    python: Python, dataset_folder: Path
) -> None:
    code = """
import datasets, datasets.formatting, warnings
del datasets.formatting._register_formatter
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import personamem_builder
print([str(w.message) for w in caught if "iter_examples" in str(w.message)])
print(datasets.load_dataset("personamem", split="32k").num_rows)
print(sum(1 for row in personamem_builder.iter_examples("32k") if row["context"]))
"""
    warning, rows, examples = python(code, cwd=dataset_folder.parent).stdout.splitlines()
    assert "will not add `context`" in warning
    assert rows == examples == "17"
