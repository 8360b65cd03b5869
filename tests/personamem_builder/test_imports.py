from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Python = Callable[..., Any]

HEAVY = ("datasets", "torch", "transformers", "pandas", "matplotlib", "lm_eval", "pyarrow", "tiktoken", "numpy")

PRINT_HEAVY = """
import atexit, sys
atexit.register(lambda: print(f"loaded: {[name for name in sys.argv[1].split() if name in sys.modules]}"))
"""


@pytest.mark.parametrize(
    "code",
    [
        "import personamem_builder",
        "import sys; from personamem_builder.cli import main; sys.argv[1:] = ['--help']; main()",
        "import sys; from personamem_builder.cli import main; sys.argv[1:] = ['import-official', '--help']; main()",
    ],
    ids=["import personamem_builder", "personamem --help", "personamem import-official --help"],
)
def test_nothing_heavy_is_loaded(python: Python, code: str) -> None:
    assert python(PRINT_HEAVY + code, " ".join(HEAVY)).stdout.endswith("loaded: []\n")


def test_the_public_names_are_loaded_when_asked_for(python: Python) -> None:
    code = """
import sys, personamem_builder
for name in personamem_builder.__all__:
    assert callable(getattr(personamem_builder, name)), name
assert not hasattr(personamem_builder, "no_such_name")
"""
    python(code)


# `datasets` may be loaded before or after; and libraries such as transformers look whether it is there.
@pytest.mark.parametrize(
    "imports",
    [
        "from datasets import load_dataset; import personamem_builder",
        "import personamem_builder; from datasets import load_dataset",
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
