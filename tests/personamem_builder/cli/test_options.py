from __future__ import annotations

from pathlib import Path

import pytest
from command_line import fails, personamem

from generation.errors import UserError
from generation.ray_cluster import RayCluster
from personamem_builder.cli import options
from personamem_builder.cli.options import chosen_split, workers_of


def test_the_first_split_unless_it_is_named(dataset_folder: Path, tmp_path: Path) -> None:
    assert chosen_split(dataset_folder, None) == chosen_split(dataset_folder, "32k") == "32k"
    with pytest.raises(UserError, match="has no split '1M', it has 32k"):
        chosen_split(dataset_folder, "1M")
    with pytest.raises(UserError, match="is not a personamem dataset folder"):
        chosen_split(tmp_path, None)


@pytest.fixture
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is there, as far as options look."""
    monkeypatch.setattr(options, "find_spec", lambda name: object())


@pytest.mark.usefixtures("_ray")
@pytest.mark.parametrize(
    ("workers", "ray", "expected"),
    [
        (1, None, 1),
        (8, None, 8),
        (1, "local", RayCluster("local", None)),
        (4, "local", RayCluster("local", 4)),
        (1, "auto", RayCluster("auto", None)),
    ],
)
def test_who_works(workers: int, ray: str | None, expected: object) -> None:
    assert workers_of(workers, ray) == expected


@pytest.mark.usefixtures("_ray")
def test_a_cluster_elsewhere_has_its_own_number_of_processes() -> None:
    with pytest.raises(UserError, match="--workers 4 is for this machine, and --ray auto uses all CPUs of its cluster"):
        workers_of(4, "auto")


@pytest.mark.parametrize("address", ["runs/full", "ray://head:10001", "head", "head:port", ""])
def test_what_is_no_address_of_a_cluster_is_an_error(address: str) -> None:
    outcome = personamem("assemble", f"--ray={address}", "runs/full")
    fails(
        outcome,
        f"--ray {address}: that is not an address of a Ray cluster",
        "give auto or host:port; without an address",
    )


def test_a_run_after_the_option_is_not_taken_for_an_address_silently() -> None:
    fails(personamem("assemble", "--ray", "runs/full"), "--ray runs/full: that is not an address of a Ray cluster")


def test_a_cluster_without_ray_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    fails(personamem("build", "runs/full", "--ray"), "--ray needs Ray, which is not installed", "pip install")
