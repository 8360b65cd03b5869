"""`personamem memory`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generation.errors import UserError

if TYPE_CHECKING:
    from personamem_builder.audit.memory_reader import Given
    from personamem_builder.dataset.locate import DataSource
    from personamem_builder.memory.measures import Found, Measure

Row = Mapping[str, Any]

_CONTROLS = ("none", "full", "oracle", "wrong-user", "recent")
_KEPT = ("none", "oracle", "recent")
"""Controls that show little of the own history."""


@click.group()
def memory() -> None:
    """Run memory systems on a benchmark, and compare what they find."""


@memory.command(short_help="Take a split in, search it for each question, and print what was found.")
@click.option(
    "--system",
    default="bm25",
    show_default=True,
    help="bm25, dense, mem0, http, one of an installed package, or module:Class; or a control: "
    "none, full, oracle, wrong-user, recent.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the system (repeatable).")
@click.option("--data", metavar="FOLDER|ORG/NAME", help="The dataset. [default: PERSONAMEM_DATA, else ./personamem]")
@click.option("--split", default="32k", show_default=True, help="The split.")
@click.option("--k", default=10, show_default=True, help="The most memories to ask for.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the results there. [default: the cache]"
)
@click.option("--timeout", default=600.0, show_default=True, help="Seconds that one session, or one query, may take.")
@click.option(
    "--answer",
    type=click.Choice(["rules"]),
    help="Also answer by rule from what was found (generated data only).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    system: str,
    settings: tuple[str, ...],
    data: str | None,
    split: str,
    k: int,
    out: Path | None,
    timeout: float,
    answer: str | None,
    as_json: bool,
) -> None:
    """Have a memory system take in each history of a split once and search it for each question.

    The results are kept: the same command goes on where it stopped, and tasks with the same memory read them.

    personamem memory run --system bm25 --data personamem --split 32k --k 10
    """
    import json

    from personamem_builder.dataset.locate import resolve_data, split_folder
    from personamem_builder.memory.runner import MAX_TIMEOUT, check_k
    from personamem_builder.memory.summary import summarise, to_text

    if not 0 < timeout <= MAX_TIMEOUT:
        raise UserError(
            f"--timeout {timeout:g}: a system needs time, and not more than {MAX_TIMEOUT:g} seconds",
            "give seconds, such as 600",
        )
    check_k(k)
    source = resolve_data(data, splits=[split])
    split_folder(source, split)
    given = _settings(settings)
    if system in _CONTROLS:
        found, measures, about = _run_control(source, split, system, given, out, answer)
    else:
        found, measures, about = _run_system(source, split, system, given, k, out, timeout, answer)
    summary = {**about, **summarise(found, measures)}
    click.echo(json.dumps(summary, indent=2, ensure_ascii=False) if as_json else to_text(summary))
    if "store" in summary:
        click.echo(f"the results are in {summary['store']}", err=True)
        where: dict[str, Any] = {"settings": given} if given else {}
        if system not in _CONTROLS:
            where = {"store": str(out)} if out else {"k": k, **where}
        metadata = json.dumps({"data": str(source.folder), "memory": system, **where})
        click.echo(f"next: personamem eval --tasks personamem_{split} --metadata '{metadata}' --model …", err=True)
    queries, sessions = summary.get("failed_queries", 0), summary.get("failed_sessions", 0)
    if queries or sessions:
        raise UserError(
            f"{system} failed at {queries} queries and {sessions} sessions: {summary['first_error']}",
            "the same command goes on from there: it asks again only what failed, and what came after it",
        )


@memory.command(short_help="Compare two systems question by question.")
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option("--data", metavar="FOLDER|ORG/NAME", help="The dataset. [default: PERSONAMEM_DATA, else ./personamem]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(first: Path, second: Path, data: str | None, as_json: bool) -> None:
    """Compare what two systems found: A and B are folders of `personamem memory run --out`.

    A difference is that of the questions which both were asked, with a 95 % interval clustered by persona.

    personamem memory compare memory/bm25 memory/dense
    """
    import json

    from personamem_builder.memory.measures import check_same_questions, found_in_store, store_measures
    from personamem_builder.memory.measures import compare as compare_measures
    from personamem_builder.memory.store import MemoryStore
    from personamem_builder.memory.summary import comparison_to_text

    stores = MemoryStore(first), MemoryStore(second)
    check_same_questions(*stores)
    about = stores[0].about
    rows, contexts = _read(_source_of(data, about), about["split"])
    one, other = (store_measures(store, found_in_store(store, rows, contexts)) for store in stores)
    lines = compare_measures(one, other, {row["question_id"]: row for row in rows})
    if as_json:
        shown = {"first": str(first), "second": str(second), "measures": [line._asdict() for line in lines]}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    names = [_in_words(store.about, store.folder) for store in stores]
    click.echo(comparison_to_text(names[0], names[1], lines))
    for store in stores:
        if store.tainted:
            click.echo(f"TAINTED: {store.folder}, {len(store.tainted)} questions; see `personamem memory run`")


def _source_of(data: str | None, about: Mapping[str, Any]) -> DataSource:
    from personamem_builder.dataset.locate import resolve_data

    source = resolve_data(data, splits=[about["split"]])
    if source.digest != about["data_digest"]:
        raise UserError(f"the systems were run on other data than {source.origin}", "name these data with --data")
    return source


def _in_words(about: Mapping[str, Any], folder: Path) -> str:
    settings = "".join(f" {key}={value}" for key, value in about["settings"].items())
    return f"{about['system']}{settings} k={about['k']} ({folder})"


def _settings(given: Sequence[str]) -> dict[str, Any]:
    from generation.reading import parse_yaml

    settings: dict[str, Any] = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise UserError(f"--set {setting} is no setting", "give KEY=VALUE, such as --set unit=session")
        settings[key] = parse_yaml(value, f"--set {key}", "put a text with such signs in quotes: --set KEY='\"TEXT\"'")
    return settings


def _read(source: DataSource, split: str) -> tuple[list[Row], list[Mapping[str, Any]]]:
    from personamem_builder.contexts import iter_contexts
    from personamem_builder.dataset.folder import contexts_path
    from personamem_builder.dataset.load import read_questions

    rows: list[Row] = read_questions(source.folder, split).to_pylist()
    return rows, list(iter_contexts(source.folder / contexts_path(split)))


def _run_system(
    source: DataSource,
    split: str,
    system: str,
    settings: Mapping[str, Any],
    k: int,
    out: Path | None,
    timeout: float,
    answer: str | None,
) -> tuple[list[Found], list[Measure], dict[str, Any]]:
    from personamem_builder.audit.memory_reader import Given
    from personamem_builder.memory.measures import found_in_store, store_measures
    from personamem_builder.memory.registry import find_system
    from personamem_builder.memory.runner import run_memory
    from personamem_builder.memory.summary import of_store

    store = run_memory(source.folder, split, find_system(system, settings), k, out=out, timeout=timeout)
    rows, contexts = _read(source, split)

    def given(row: Row) -> Given:
        memories = store.memories(row["question_id"])
        places = [i for memory in memories for i in memory.message_indices]
        return Given(row["shared_context_id"], places, [m.text for m in memories if not m.message_indices])

    found = found_in_store(store, rows, contexts)
    measures = store_measures(store, found)
    if answer:
        measures.append(_rules(rows, contexts, given))
    return found, measures, of_store(store)


def _run_control(
    source: DataSource, split: str, name: str, settings: Mapping[str, Any], out: Path | None, answer: str | None
) -> tuple[list[Found], list[Measure], dict[str, Any]]:
    """Measure what a control shows: nothing is taken in, and what is shown is kept where `out` says so."""
    from personamem_builder.audit.memory_reader import Given
    from personamem_builder.memory.controls import WrongUser, check_evidence, recent
    from personamem_builder.memory.measures import found_in_history, retrieval_measures
    from personamem_builder.memory.runner import keep_history

    if settings and name != "recent":
        raise UserError(f"--system {name} is a control: it has no settings", "leave out --set")
    if out is not None and name not in _KEPT:
        raise UserError(
            f"--system {name} is a control whose results cannot be kept: what it shows is the whole history of a user",
            "leave out --out",
        )
    rows, contexts = _read(source, split)
    by_id = {context["shared_context_id"]: context for context in contexts}
    if name == "oracle":
        check_evidence(rows, source.origin)
    shown = recent(settings) if name == "recent" else None
    wrong = WrongUser(rows, source.origin) if name == "wrong-user" else None

    def given(row: Row) -> Given:
        own, end = row["shared_context_id"], row["end_index_in_shared_context"]
        if wrong is not None:
            other = wrong.context_id(row)
            return Given(other, range(wrong.end(row, by_id[other]["session_starts"])))
        if shown is not None:
            context = by_id[own]
            return Given(own, range(shown.first_index(context["messages"][:end], context["session_starts"]), end))
        return Given(own, {"none": (), "full": range(end), "oracle": row["evidence_message_indices"]}[name])

    places = {row["question_id"]: (found.context_id, found.indices) for row in rows for found in [given(row)]}
    found = found_in_history(rows, contexts, places)
    measures = retrieval_measures(found)
    if wrong is not None:  # of another history nothing is recalled, and it has no share in this one
        measures = [measure for measure in measures if measure.unit == "tokens"]
    if answer:
        measures.append(_rules(rows, contexts, given))
    about = {"system": name, "settings": dict(settings), "split": split, "data_digest": source.digest}
    if out is not None:
        shown_places = {question_id: indices for question_id, (_, indices) in places.items()}
        about["store"] = str(keep_history(out, about, rows, by_id, shown_places).folder)
    return found, measures, about


def _rules(rows: Sequence[Row], contexts: Sequence[Mapping[str, Any]], given: Any) -> Measure:
    from personamem_builder.audit.memory_reader import read_with_rules
    from personamem_builder.memory.measures import Measure

    return Measure("answers by rules", "share", read_with_rules(rows, contexts, given))
