from __future__ import annotations

from pathlib import Path

import pytest

from generation.errors import UserError
from personamem_builder.cli.options import chosen_split


def test_the_first_split_unless_it_is_named(dataset_folder: Path, tmp_path: Path) -> None:
    assert chosen_split(dataset_folder, None) == chosen_split(dataset_folder, "32k") == "32k"
    with pytest.raises(UserError, match="has no split '1M', it has 32k"):
        chosen_split(dataset_folder, "1M")
    with pytest.raises(UserError, match="is not a personamem dataset folder"):
        chosen_split(tmp_path, None)
