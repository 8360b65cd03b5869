"""What commands share: options, the dataset that is meant, and what they print."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from generation.errors import UserError
from generation.parallel import MAX_WORKERS, Workers
from generation.ray_cluster import LOCAL, RayCluster
from generation.resources import install_hint

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]

PATH: Final = click.Path(path_type=Path)

dataset_argument: Final = click.argument("folder", required=False, type=PATH)
"""The dataset folder that `dataset_folder` completes."""

run_argument: Final = click.argument("run", type=PATH)

split_option: Final = click.option("--split", help="The split. [default: the first of the dataset]")

data_option: Final = click.option(
    "--data", metavar="FOLDER|ORG/NAME", help="The dataset. [default: PERSONAMEM_DATA, else ./personamem]"
)


def splits_option(default: str) -> _Decorator[Any]:
    """Return the option `--split`, which may be repeated; `default` says in words what is taken without it."""
    shown = f"Only this split (repeatable). [default: {default}]"
    return click.option("--split", "splits", multiple=True, help=shown)


def dataset_out_option(default: str = "personamem") -> _Decorator[Any]:
    """Return the option `--out` of a command that writes a dataset folder."""
    return click.option("--out", type=PATH, default=default, show_default=True, help="The dataset folder to write.")


def workers_option(help: str = "Processes to use.") -> _Decorator[Any]:
    """Return the option `--workers`."""
    return click.option("--workers", type=click.IntRange(1, MAX_WORKERS), default=1, show_default=True, help=help)


_ADDRESS: Final = re.compile(r"local|auto|(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")


def _checked_address(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    if not _ADDRESS.fullmatch(value):
        raise UserError(
            f"--ray {value[:80]}: that is not an address of a Ray cluster",
            "give auto or host:port; without an address, put --ray at the end of the command",
        )
    return value


def ray_option() -> _Decorator[Any]:
    """Return the option `--ray`, the address of a cluster; see `workers_of`."""
    return click.option(
        "--ray",
        is_flag=False,
        flag_value=LOCAL,
        metavar="[ADDRESS]",
        callback=_checked_address,
        help="Work on a Ray cluster: auto or host:port. Without an address, start one on this machine, with a CPU for "
        "each of --workers, else all.",
    )


def workers_of(workers: int, ray: str | None) -> Workers:
    """Return who works, by what `--workers` and `--ray` say.

    Raises:
        UserError: They contradict each other, or there is no Ray.
    """
    if ray is None:
        return workers
    if find_spec("ray") is None:
        raise UserError("--ray needs Ray, which is not installed", install_hint("ray"))
    if ray != LOCAL and workers > 1:
        raise UserError(
            f"--workers {workers} is for this machine, and --ray {ray} uses all CPUs of its cluster", "give one of them"
        )
    return RayCluster(ray, workers if workers > 1 else None)


def json_option(help: str = "Print JSON.") -> _Decorator[Any]:
    """Return the flag `--json`, whose parameter is `as_json`: JSON is printed in place of text."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def dataset_folder(folder: Path | None) -> Path:
    """Return the dataset folder that a command was given, else the one that is found without a name.

    Raises:
        UserError: None was given, and none is found.
    """
    from personamem_builder.dataset.locate import resolve_data

    return folder or resolve_data().folder


def chosen_split(folder: Path, split: str | None) -> str:
    """Return a split of a dataset folder, the first one unless it is named.

    Raises:
        UserError: There is no such dataset or split.
    """
    from personamem_builder.dataset.folder import check_split
    from personamem_builder.manifest import read_manifest

    manifest = read_manifest(folder)
    split = split or str(next(iter(manifest["splits"])))
    check_split(manifest, split, folder)
    return split


def print_json(value: object) -> None:
    """Print a value as JSON that people can read too."""
    import json

    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Print to stderr what the user should know."""
    click.echo(f"note: {text}", err=True)


def next_step(text: str) -> None:
    """Print to stderr what the user may do next."""
    click.echo(f"next: {text}", err=True)
