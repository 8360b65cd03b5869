"""The kinds of files that commands read, how each is damaged, and the commands that read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fuzz.damage import Damage
from fuzz.damage_csv import CSV
from fuzz.damage_data import CARD, JSON, JSONL, YAML
from fuzz.damage_parquet import CONTEXTS, PARQUET, QUESTIONS

Owner = str


class Command(NamedTuple):
    """A command that reads a kind of file.

    Attributes:
        arguments: As one types them, in the folder of the files.
        writes: What it may change or make where it does its work. Of these, only what is under `grows` may be there
            after a refusal.
        grows: What it goes on with where it stopped, and so may have changed when it fails.
        limits: Whether exit status 1 without an error may be its verdict.
        takes_wrong: Whether it may take data that are wrong in themselves (`damage_parquet.WRONG`).
    """

    arguments: str
    writes: tuple[str, ...] = ()
    grows: tuple[str, ...] = ()
    limits: bool = False
    takes_wrong: bool = False


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        owner: The part of the code that reads it.
        path: The file that is damaged.
        needs: What else the commands need.
        damages: The ways to damage it.
        commands: Those that read it.
        names: What a message may call it by; its file name always will do.
    """

    owner: Owner
    path: str
    needs: tuple[str, ...]
    damages: Mapping[str, Damage]
    commands: tuple[Command, ...]
    names: tuple[str, ...] = ()


_DATASET: Final = ("personamem", "results")
_INPUTS: Final = ("config.yaml", "bank.yaml", "people.jsonl")

_OF_CONFIG: Final = (
    Command("generate config.yaml --estimate"),
    Command("generate config.yaml --preview"),
    Command("generate config.yaml --out made", writes=("made",)),
)
# One unreadable result does not hide the others: they are shown, and the exit status is 1.
_PAGE: Final = {"writes": ("page.html",), "grows": ("page.html",)}
_RESUME: Final = Command("generate config.yaml --out run", writes=("run",), grows=("run",))
_ASSEMBLE: Final = Command("assemble run --split 32k --n-variants 1", writes=("run",))
_BUILD: Final = Command("build run --out made", writes=("made",))
_TIMELINE: Final = Command("timeline run --topic travelPlanning --out picture.svg", writes=("picture.svg",))
_AUDIT_RUN: Final = Command("audit run", limits=True)
_REFINE: Final = Command("refine run --rounds 0 --config config.yaml", writes=("run",), grows=("run",))


def _stage(name: str, *commands: Command) -> Kind:
    return Kind("runs", f"run/stages/{name}.jsonl", (*_INPUTS, "run"), JSONL, commands, names=("run",))


_FLOOR: Final = "--model personamem-floor --model_args policy=longest"
_EVAL: Final = Command(
    f"eval --tasks personamem_32k {_FLOOR} --metadata data=personamem --output_path made", writes=("made",)
)
_OF_DATASET: Final = (
    Command("view personamem --out made", writes=("made",)),
    Command("inspect personamem --split 32k"),
    Command("annotate personamem --sample 8 --out made", writes=("made",)),
    Command("export personamem --out made", writes=("made",)),
    Command("memory run --system bm25 --data personamem --split 32k --out made", writes=("made",)),
    Command("memory run --system oracle --data personamem --split 32k --answer rules"),
    Command("audit personamem", limits=True),
    _EVAL,
    Command("report results --data personamem --html page.html", **_PAGE, takes_wrong=True),
    Command("publish personamem org/name --tag v1.0.0 --dry-run --allow-failed-audit"),
    Command("diff personamem personamem", takes_wrong=True),
)
_OF_CONTEXTS: Final = tuple(
    # Neither reads contexts here: floors look at options alone, and the list of questions shows none.
    command._replace(takes_wrong=True) if command.arguments.startswith(("eval", "inspect")) else command
    for command in _OF_DATASET
)

_REPORT: Final = (
    Command("report results --data personamem"),
    Command("report results --data personamem --json"),
    Command("report results --data personamem --html page.html", **_PAGE),
    Command("view personamem --results results --out made", writes=("made",), grows=("made",)),
)
_SPACE: Final = Command("space --out made --results logged --data personamem --contexts 1", writes=("made",))
_RESULTS: Final = "results/personamem-floor-longest/{}_2026-11-27T10-11-12.123456.{}"

_IMPORT: Final = (
    Command("import-official release --out made", writes=("made",)),
    Command("audit release", limits=True),
)

_STORE_COMMANDS: Final = (
    Command(
        "memory run --system bm25 --data personamem --k 5 --out memories/a", writes=("memories",), grows=("memories",)
    ),
    Command("memory compare memories/a memories/b --data personamem"),
    Command(
        f'eval --tasks personamem_32k {_FLOOR} --metadata {{"data":"personamem","memory":"bm25","store":"memories/a"}} '
        "--output_path made",
        writes=("made", "memories"),
    ),
)


def _store(name: str, damages: Mapping[str, Damage]) -> Kind:
    path = f"memories/a/{name}"
    return Kind("data", path, ("memories", "personamem"), damages, _STORE_COMMANDS, names=("memories/a",))


_OF_BENCH: Final = (Command("persona-bench audit persona_bench", limits=True),)
_RATERS: Final = "ratings/Ann.json ratings/Bob.json"


def _bench(name: str, damages: Mapping[str, Damage]) -> Kind:
    folder = "persona_bench"
    return Kind("reports", f"{folder}/{name}", (folder,), damages, _OF_BENCH, names=(folder,))


def _posts(path: str) -> Kind:
    return Kind("reports", path, (), JSON if path.endswith("json") else JSONL, (
        Command(f"persona-bench import {path} --out made", writes=("made",)),
    ))  # fmt: skip


KINDS: Final[Mapping[str, Kind]] = {
    "config": Kind("runs", "config.yaml", _INPUTS, YAML, _OF_CONFIG),
    "bank": Kind("runs", "bank.yaml", _INPUTS, YAML, _OF_CONFIG, names=("config.yaml",)),
    "people": Kind("runs", "people.jsonl", _INPUTS, JSONL, _OF_CONFIG),
    "run-config": Kind(
        "runs", "run/config.json", (*_INPUTS, "run"), JSON,
        (_RESUME, _TIMELINE, _ASSEMBLE, _BUILD, _AUDIT_RUN, _REFINE), names=("run",),
    ),
    "personas": _stage("personas", _RESUME, _ASSEMBLE, _BUILD, _AUDIT_RUN),
    "histories": _stage("histories", _RESUME, _TIMELINE, _ASSEMBLE, _AUDIT_RUN),
    "sessions": _stage("sessions", _RESUME, _ASSEMBLE, _AUDIT_RUN),
    "questions": _stage("questions", _RESUME, _ASSEMBLE, _AUDIT_RUN, _REFINE),
    "fillers": _stage("fillers", _RESUME, _ASSEMBLE, _BUILD),
    "failed": Kind("runs", "run/failed.jsonl", (*_INPUTS, "run"), JSONL, (_RESUME, _ASSEMBLE, _BUILD, _REFINE)),
    "split-contexts": Kind("runs", "run/splits/32k/contexts.jsonl", ("run",), JSONL, (_BUILD,), names=("run",)),
    "split-questions": Kind("runs", "run/splits/32k/questions.jsonl", ("run",), JSONL, (_BUILD,), names=("run",)),
    "assembly": Kind("runs", "run/splits/32k/assembly.json", ("run",), JSON, (_BUILD, _ASSEMBLE), names=("run",)),
    "refined": Kind("runs", "refined/refined.json", (*_INPUTS, "refined"), JSON, (
        Command("assemble refined --split 32k", writes=("refined",)),
        Command("audit refined", limits=True),
        Command("refine refined --rounds 0", writes=("refined",), grows=("refined",)),
    )),
    "gates": Kind("data", "gates.yaml", ("gates.yaml", "personamem", "run"), YAML, (
        Command("audit personamem --gates gates.yaml", limits=True),
        Command("refine run --rounds 0 --gates gates.yaml", writes=("run",)),
    )),
    "manifest": Kind("data", "personamem/manifest.json", _DATASET, JSON, _OF_DATASET, names=_DATASET[:1]),
    "card": Kind("data", "personamem/README.md", _DATASET, CARD, (
        Command("publish personamem org/name --tag v1.0.0 --dry-run --allow-failed-audit"),
        Command("inspect personamem"),
    )),
    "audit": Kind("data", "personamem/audit.json", (*_DATASET, "logged"), JSON, (
        Command("publish personamem org/name --tag v1.0.0 --dry-run"),
        Command("inspect personamem"),
        _SPACE,
    ), names=("personamem cannot be published",)),
    "questions-parquet": Kind(
        "data", "personamem/data/questions_32k.parquet", _DATASET, QUESTIONS, _OF_DATASET,
        names=_DATASET[:1],
    ),
    "contexts-parquet": Kind(
        "data", "personamem/data/shared_contexts_32k.parquet", _DATASET, CONTEXTS, _OF_CONTEXTS,
        names=_DATASET[:1],
    ),
    "official-csv": Kind("data", "release/questions_32k.csv", ("release",), CSV, (
        *_IMPORT, Command("audit release/questions_32k.csv --export-hard made", writes=("made",), limits=True),
    ), names=("split 32k: ",)),
    "official-contexts": Kind("data", "release/shared_contexts_32k.jsonl", ("release",), JSONL, _IMPORT),
    "memory-about": _store("store.json", JSON),
    "memory-found": _store("questions.jsonl", JSONL),
    "memory-sessions": _store("sessions.jsonl", JSONL),
    "subset": Kind("reports", "hard.json", ("hard.json", "personamem", "results"), JSON, (
        Command(
            f"eval --tasks personamem_32k {_FLOOR} --output_path made "
            '--metadata {"data":"personamem","subset":"hard.json"}',
            writes=("made",),
        ),
        Command("report results --data personamem --hard hard.json"),
    )),
    "key": Kind("reports", "study/key.json", ("study", "ratings"), JSON, (
        Command(f"agreement {_RATERS} --key study/key.json"),
    ), names=("Ann.json",)),
    "ratings": Kind("reports", "ratings/Ann.json", ("study", "ratings"), JSON, (
        Command(f"agreement {_RATERS} --key study/key.json"),
        Command(f"agreement {_RATERS} --key study/key.json --json"),
    )),
    "label-studio": Kind("reports", "ratings/label_studio.json", ("study", "ratings"), JSON, (
        Command("agreement ratings/label_studio.json ratings/Bob.json --key study/key.json"),
    )),
    "potato": Kind("reports", "ratings/user_state.json", ("study", "ratings"), JSON, (
        Command("agreement ratings/user_state.json ratings/Bob.json --key study/key.json"),
    )),
    "error-labels": Kind("reports", "errors.csv", ("errors.csv", "personamem", "results"), CSV, (
        Command("report results --data personamem --errors errors.csv"),
        Command("report results --data personamem --errors errors.csv --html page.html", **_PAGE),
    )),
    "results": Kind("reports", _RESULTS.format("results", "json"), ("results", "personamem"), JSON, _REPORT),
    "predictions": Kind(
        "reports", _RESULTS.format("predictions", "jsonl"), ("results", "personamem"), JSONL, _REPORT,
        names=("results_2026",),
    ),
    "samples": Kind(
        "reports", "logged/dummy/samples_personamem_32k_2026-11-27T10-11-12.123456.jsonl", ("logged", "personamem"),
        JSONL, (Command("report logged --data personamem"), _SPACE), names=("results_2026",),
    ),
    "space": Kind("reports", "leaderboard/space.json", ("leaderboard", "logged", "personamem"), JSON, (
        Command("publish-space leaderboard org/name --dry-run"),
        Command("space --out leaderboard --results logged --data personamem --contexts 1", writes=("leaderboard",)),
    ), names=("leaderboard",)),
    "posts": _posts("posts.json"),
    "post-stores": _posts("store.jsonl"),
    "post-prompts": _posts("prompts.jsonl"),
    "bench-manifest": _bench("manifest.json", JSON),
    "bench-items": _bench("data/items_impact_test.parquet", PARQUET),
    "bench-log": Kind("reports", "log.jsonl", (), JSONL, (
        Command("persona-bench evaluate-log log.jsonl --task impact"),
    )),
    "bench-results": Kind(
        "reports", "bench/dummy/results_2026-11-27T10-11-12.123456.json", ("bench", "persona_bench"), JSON,
        (Command("report bench"), Command("persona-bench report bench")),
    ),
    "bench-samples": Kind(
        "reports", "bench/dummy/samples_persona_bench_impact_pconv_2026-11-27T10-11-12.123456.jsonl",
        ("bench", "persona_bench"), JSONL, (Command("report bench"),), names=("results_2026",),
    ),
}  # fmt: skip
