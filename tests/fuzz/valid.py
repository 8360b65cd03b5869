"""One small valid instance of every file that a command reads, in one folder."""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from command_line import personamem
from loopback_hub import LoopbackHub
from reddit_like import make_posts, write_flat, write_prompt_rows, write_store_rows

from generation.tokenizer import num_tokens

ROOT: Final = Path(__file__).parents[2]

_CONFIG: Final = """\
seed: 7
personas: 2
topics: [bank.yaml, travelPlanning, bookRecommendation]
persona_source: people.jsonl
items_per_topic: 6
slots_per_topic: 3
facts_per_topic: 2
updates_per_topic: 5
turns_per_session: { min: 6, max: 8 }
questions_per_topic: { recall_user_shared_facts: 2 }
fillers: 40
llm: { temperature: 0.5, prices: { small: { input: 1, output: 2.5 } } }
"""
_METADATA: Final = "data=personamem"


def make_all(folder: Path) -> None:
    """Make the files, by the commands that make them; the working directory has to be `folder`."""
    (folder / "config.yaml").write_text(_CONFIG, encoding="utf-8")
    shutil.copy(ROOT / "generation" / "banks" / "files" / "topics" / "foodRecommendation.yaml", folder / "bank.yaml")
    people = [{"persona": "A retired engineer who restores clocks."}, {"persona": "A nurse who sings in a choir."}]
    _write_lines(folder / "people.jsonl", people)
    shutil.copy(ROOT / "personamem_builder" / "audit" / "gates.yaml", folder / "gates.yaml")
    _run("generate", "config.yaml", "--out", "run")
    _run("assemble", "run", "--split", "32k", "--n-variants", "1")
    _run("build", "run", "--out", "personamem")
    _pass_audit(folder / "personamem" / "audit.json")
    _run("generate", "config.yaml", "--out", "refined")
    # The release standard finds nothing in so few questions that are fair.
    (folder / "strict.yaml").write_text('"probe.*": {all: {max: 0.0}, types: {max: 0.0}}\n', encoding="utf-8")
    _run("refine", "refined", "--rounds", "1", "--gates", "strict.yaml")
    _write_lines(
        folder / "run" / "failed.jsonl",
        [{"stage": "questions", "item": "0/travelPlanning", "reason": "no usable reply"}],
    )
    _run("export", "personamem", "--out", "release")
    for name in ("a", "b"):
        _run("memory", "run", "--system", "bm25", "--data", "personamem", "--k", "5" if name == "a" else "6",
             "--out", f"memories/{name}")  # fmt: skip
    for policy in ("longest", "first"):
        _run("eval", "--tasks", "personamem_32k", "--model", "personamem-floor", "--model_args", f"policy={policy}",
             "--metadata", _METADATA, "--output_path", "results")  # fmt: skip
    _rename_results(folder / "results" / "personamem-floor-longest", "results")
    _run("annotate", "personamem", "--errors", "results", "--model", "floor: longest", "--sample", "8",
         "--out", "errors.csv")  # fmt: skip
    _run("eval", "--tasks", "personamem_32k", "--model", "dummy", "--metadata", _METADATA, "--log_samples",
         "--output_path", "logged")  # fmt: skip
    for predictions in (folder / "logged").rglob("predictions_*"):
        predictions.unlink()
    _rename_results(folder / "logged", "logged")
    _run("space", "--out", "leaderboard", "--results", "logged", "--data", "personamem", "--contexts", "1")
    _run("audit", "personamem", "--export-hard", "hard.json", exits=None)
    _make_study(folder)
    _make_persona_bench(folder)


def _run(*arguments: str, exits: int | None = 0) -> None:
    outcome = personamem(*arguments)
    if exits is not None and outcome.exit_code != exits:
        raise RuntimeError(f"personamem {' '.join(arguments)} ended with {outcome.exit_code}: {outcome.err[-3000:]}")


def _pass_audit(path: Path) -> None:
    """Have an audit pass, which such small data cannot."""
    audit = json.loads(path.read_text(encoding="utf-8"))
    for finding in (finding for split in audit["splits"] for finding in split["findings"]):
        finding["verdict"] = finding["verdict"] and "pass"
    path.write_text(json.dumps(audit, indent=1), encoding="utf-8")


_LIBRARIES: Final = (
    "datasets.packaged_modules.parquet.parquet", "pandas", "pyarrow.parquet", "sklearn.linear_model", "scipy.stats",
    "lm_eval.evaluator", "lm_eval.__main__", "lm_eval.models.dummy", "nltk", "rouge_score.rouge_scorer", "sacrebleu",
    "ijson", "bm25s", "huggingface_hub.hf_api",
)  # fmt: skip
"""What commands import while they run: once here, instead of once in each process."""


_DATE: Final = "2026-11-27T10-11-12.123456"


def _rename_results(folder: Path, name: str) -> None:
    """Give results a date that does not change: kinds name them."""
    (results,) = folder.rglob("results_*.json")
    date = results.stem.removeprefix("results_")
    for path in results.parent.iterdir():
        if date in path.name:
            path.rename(path.with_name(path.name.replace(date, _DATE)))


def _make_study(folder: Path) -> None:
    _run("annotate", "personamem", "--sample", "8", "--out", "study")
    key = json.loads((folder / "study" / "key.json").read_text(encoding="utf-8"))
    said = {"best": "a", "appropriate": "yes", "relevant": "yes", "correct": "yes", "comment": "fine"}
    answers = {item["id"]: said for item in key["items"]}
    ratings = folder / "ratings"
    ratings.mkdir()
    for rater in ("Ann", "Bob"):
        content = {"format": "personamem-annotations", "version": 1, "sample": key["sample"], "rater": rater}
        (ratings / f"{rater}.json").write_text(json.dumps({**content, "answers": answers}), encoding="utf-8")
    tasks = [_label_studio_task(item, key["sample"], said) for item in answers]
    (ratings / "label_studio.json").write_text(json.dumps(tasks), encoding="utf-8")
    labels = {item: [[{"schema": name, "name": value}, value] for name, value in said.items()] for item in answers}
    state = {"user_id": "cleo", "instance_id_to_label_to_value": labels, "instance_id_ordering": list(labels)}
    (ratings / "user_state.json").write_text(json.dumps(state), encoding="utf-8")


def _label_studio_task(item: str, sample: str, said: dict[str, str]) -> dict[str, Any]:
    result = [
        {"id": "x", "from_name": name, "to_name": "message", "type": "choices", "value": {"choices": [value]}}
        if name != "comment"
        else {"id": "y", "from_name": name, "to_name": "message", "type": "textarea", "value": {"text": [value]}}
        for name, value in said.items()
    ]
    annotation = {"id": 1, "completed_by": {"id": 2, "email": "dee@example.org"}, "result": result}
    return {"id": 7, "data": {"item": item, "sample": sample}, "annotations": [annotation], "predictions": []}


def _make_persona_bench(folder: Path) -> None:
    posts = make_posts(seed=1, users=6, posts=2, comments=5)
    write_flat(posts, folder / "posts.json")
    write_store_rows(posts, folder / "store.jsonl")
    write_prompt_rows(posts, folder / "prompts.jsonl")
    _run("persona-bench", "import", "posts.json", "--out", "persona_bench")
    _write_lines(folder / "log.jsonl", [{"true_label": 5, "response": "7"}, {"true_label": -3, "response": "no idea"}])
    _run("eval", "--tasks", "persona_bench_impact_pconv", "--model", "dummy", "--log_samples",
         "--metadata", "data=persona_bench", "--output_path", "bench")  # fmt: skip
    _rename_results(folder / "bench", "bench")


def _write_lines(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


@contextlib.contextmanager
def served(scratch: Path, kept: Path | None = None) -> Iterator[Path]:
    """Make the valid files, load what commands need, and have a Hub on this machine; give the folder of the files.

    Args:
        scratch: A folder to work in.
        kept: Where the valid files are to lie; they are made only if they are not there. By default in `scratch`.
    """
    with _hub() as url:
        for name in [name for name in os.environ if name.startswith(("PERSONAMEM_", "HF_"))]:
            del os.environ[name]
        os.environ |= {
            "HF_HOME": str(scratch / "hf"), "HF_ENDPOINT": url, "HF_TOKEN": "hf_writer", "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        }  # fmt: skip
        valid = kept or scratch / "valid"
        if not valid.exists():
            valid.mkdir(parents=True)
            _in_a_process(_make, valid)
        _load()
        yield valid


def _load() -> None:
    own = (module.name for package in ("generation", "personamem_builder") for module in _modules(package))
    for name in [*_LIBRARIES, *own]:
        with contextlib.suppress(ImportError):  # of a library that is not installed
            importlib.import_module(name)
    num_tokens("loaded")


def _modules(package: str) -> Iterator[pkgutil.ModuleInfo]:
    return pkgutil.walk_packages([str(ROOT / package)], f"{package}.")


@contextlib.contextmanager
def _hub() -> Iterator[str]:
    """A Hub in another process: one with threads must not be forked."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException), LoopbackHub({}) as hub:
            os.write(sending, hub.url.encode())
            signal.pause()
        os._exit(0)
    os.close(sending)
    try:
        yield os.read(receiving, 100).decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _make(folder: Path) -> None:
    os.chdir(folder)
    make_all(folder)


def _in_a_process(function: object, folder: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=function, args=(folder,))  # type: ignore[arg-type]
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("the valid files could not be made")
