"""The parts of an evaluation put together: the results and the answers of the run as if it had not been divided."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_one
from generation.shards import Shard, parse_shard
from personamem_builder.evaluation.journal_lm import SHAPES_NO_ANSWER
from personamem_builder.evaluation.merged_results import merged_results
from personamem_builder.evaluation.shards import plan_digest
from personamem_builder.results.answers import line_from_prediction, line_from_sample
from personamem_builder.results.files import ResultsFile, find_results, read_lines
from personamem_builder.results.settings import LmEvalResults, printable
from personamem_builder.schema import Prediction

_SHOWN: Final = 5
_ONE_RUN: Final = "the commands of the parts differ in nothing but --shard; name the parts of one run"
_AGAIN: Final = "evaluate this part again"

_OF_A_PART: Final = re.compile(
    r"(results|groups|usage|task_hashes)(\..*)?"
    r"|n-samples\..*\.effective"
    r"|date|git_hash|upper_git_hash|pretty_env_info|total_evaluation_time_seconds"
    r"|config\.(batch_size|batch_sizes(\..*)?|use_cache)"
    r"|configs\.[^.]+\.metadata\.(data|config_source|shard|memory_.*)"
    rf"|(config\.model_args|configs\.[^.]+\.metadata)\.({'|'.join(sorted(SHAPES_NO_ANSWER))})"
)
"""What parts of one run need not have in common: what was found, when and where, and what shapes no answer. (Where
the data lay may differ, as their digest and the plan of the parts do not.)"""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


class _Part(NamedTuple):
    file: ResultsFile
    results: LmEvalResults
    shard: Shard


class Merged(NamedTuple):
    """What `merge_parts` wrote.

    Attributes:
        written: The results and the predictions.
        questions: Number of questions, over all tasks.
        failed: How many of them got no answer, by the part in which they were asked; only parts with such.
        notes: What to tell people about files left out.
    """

    written: list[Path]
    questions: int
    failed: dict[Shard, int]
    notes: list[str]


def merge_parts(places: Iterable[Path], out: Path) -> Merged:
    """Put the parts of one run together, and write the results and predictions of the whole run.

    Metrics and standard errors are computed anew from the answers, in the order of the questions, so they are those of
    a run that was not divided to the last digit. Where plain `lm_eval` left samples, predictions are made of them.

    Args:
        places: The results files of the parts, and folders that are searched for them.
        out: The folder to write to; the files are in a folder there that is named after the model.

    Raises:
        UserError: Parts are missing, are there twice, or are of different runs; their answers are not those that were
            planned; or a file cannot be read or written. Then no results are written.
    """
    notes: list[str] = []
    parts = _newest(_find_parts(places, notes), notes)
    _check_complete(parts)
    _check_alike(parts)
    faults: list[UserError] = []
    answers = [_read_answers(part, faults) for part in parts]
    if faults:
        raise as_one(faults)
    tasks = {task: _whole(task, parts, [own[task] for own in answers]) for task in _tasks(parts[0])}
    results = merged_results([part.file.content for part in parts], tasks)
    written = _write(out, parts, results, [row for rows in tasks.values() for row in rows])
    failed = {
        part.shard: sum(row["outcome"] == "failed" for rows in own.values() for row in rows)
        for part, own in zip(parts, answers, strict=True)
    }
    questions = sum(map(len, tasks.values()))
    return Merged(written, questions, {shard: count for shard, count in failed.items() if count}, notes)


# ---- which parts there are


def _find_parts(places: Iterable[Path], notes: list[str]) -> list[_Part]:
    found = find_results(places)
    if found.misnamed or found.damaged:
        raise as_one([*found.misnamed, *found.damaged])
    parts = []
    for file in found.files:
        results = file.read("personamem")
        shards = {_metadata(config).get("shard") for config in results.configs.values()}
        if shards <= {None}:
            what = f"{file.path} is not part of a run"
            if file.is_named:
                raise UserError(what, "leave it out; parts are made with `personamem eval --shard`")
            notes.append(f"left out: {what}")
        elif len(shards) > 1:
            raise UserError(f"{file.path}: only some of its tasks were asked in parts", "evaluate those on their own")
        else:
            parts.append(_Part(file, results, parse_shard(shards.pop())))
    if not parts:
        listed = ", ".join(map(str, found.places))
        raise UserError(f"{listed}: no parts of a run", "personamem eval … --shard 1/8, and so on")
    return sorted(parts, key=lambda part: (part.shard.of, part.shard.number, part.file.date))


def _metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    metadata = config.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _newest(parts: Sequence[_Part], notes: list[str]) -> list[_Part]:
    """Return the newest results of each part in each folder: the same command again asks what had failed."""
    newest: dict[tuple[Shard, Path, tuple[str, ...]], _Part] = {}
    for part in parts:
        key = part.shard, part.file.path.parent, tuple(sorted(part.results.configs))
        if older := newest.get(key):
            notes.append(f"left out: {older.file.path} is an older run of part {part.shard}")
        newest[key] = part
    return list(newest.values())


def _check_complete(parts: Sequence[_Part]) -> None:
    counts = {part.shard.of: part for part in parts}
    if len(counts) > 1:
        listed = ", ".join(f"{part.shard} in {part.file.path}" for part in counts.values())
        raise UserError(f"these are parts of different divisions: {listed}", _ONE_RUN)
    by_number: dict[int, list[Path]] = {}
    for part in parts:
        by_number.setdefault(part.shard.number, []).append(part.file.path)
    count = parts[0].shard.of
    if twice := {number: paths for number, paths in by_number.items() if len(paths) > 1}:
        listed = "; ".join(f"{number}/{count} in {' and '.join(map(str, paths))}" for number, paths in twice.items())
        raise UserError(f"some parts appear more than once: {listed}", "name each part once")
    if missing := [number for number in range(1, count + 1) if number not in by_number]:
        listed = ", ".join(f"{number}/{count}" for number in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        have = ", ".join(str(path) for paths in list(by_number.values())[:_SHOWN] for path in paths)
        raise UserError(
            f"parts are missing: {listed}{more}; there are {len(by_number)} of {count}, such as {have}",
            f"run the same command with --shard {missing[0]}/{count}, then merge again",
        )


# ---- whether they are of one run


def _check_alike(parts: Sequence[_Part]) -> None:
    entries = [(part.file.path, {"tasks": ", ".join(_tasks(part))}) for part in parts]
    if len({own["tasks"] for _, own in entries}) == 1:
        entries = [(part.file.path, _comparable(part)) for part in parts]
    differing = []
    for name in dict.fromkeys(name for _, own in entries for name in own):
        values: dict[str, list[Path]] = {}
        for path, own in entries:
            values.setdefault(own.get(name, "absent"), []).append(path)
        if len(values) > 1:
            told = [f"{_short(value)} in {_some(paths)}" for value, paths in values.items()]
            differing.append(f"{printable(name)} is {', '.join(told[:_SHOWN])}")
    if differing:
        more = f"\nand {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        listed = "\n".join(differing[:_SHOWN])
        raise UserError(f"the parts are not of one run:\n{listed}{more}", _ONE_RUN)


def _tasks(part: _Part) -> list[str]:
    """Return the tasks in the order in which they were asked."""
    return [name for name in part.file.content["results"] if name in part.results.configs]


def _comparable(part: _Part) -> dict[str, str]:
    content = part.file.content
    content = {**content, "config": {**content["config"], "model_args": part.results.model_args}}
    return {name: value for name, value in _flat(content, "") if not _OF_A_PART.fullmatch(name)}


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield what JSON holds, by its place: `config.model_args.policy`."""
    if isinstance(value, Mapping | list) and value:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield from _flat(item, f"{name}.{key}" if name else str(key))
        return
    text = _ADDRESS.sub("", json.dumps(value, ensure_ascii=False))
    yield name, re.sub(r"^(\"cuda):\d+", r"\1", text) if name.endswith("device") else text


def _short(value: str) -> str:
    return printable(value if len(value) <= 60 else f"{value[:59]}…")


def _some(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


# ---- their answers


def _read_answers(part: _Part, faults: list[UserError]) -> dict[str, list[Prediction]]:
    """Return the answers of a part by task: our predictions, or what plain `lm_eval` left as samples."""
    folder, date = part.file.path.parent, part.file.date
    rows: dict[str, dict[str, Prediction]] = {task: {} for task in part.results.configs}
    predictions = folder / f"predictions_{date}.jsonl"
    if os.path.lexists(predictions):
        for where, row in read_lines(predictions, _prediction, faults, _AGAIN):
            if row["question_id"] in rows.setdefault(row["task"], {}):
                faults.append(UserError(f"{where}: question {row['question_id']} appears twice", _AGAIN))
            rows[row["task"]][row["question_id"]] = row
    else:
        for task, own in rows.items():
            path = folder / f"samples_{task}_{date}.jsonl"
            if not os.path.lexists(path):
                what = f"{part.file.path}: no answers beside it: neither {predictions.name} nor {path.name}"
                faults.append(
                    UserError(what, "evaluate with `personamem eval`, or give lm_eval the flag --log_samples")
                )
                continue
            for _, row in read_lines(path, partial(_prediction_of_sample, task=task), faults, _AGAIN):
                earlier = own.setdefault(row["question_id"], row)
                earlier["predictions"] |= row["predictions"]
                earlier["credits"] |= row["credits"]
    for task, own in rows.items():
        count = part.results.n_samples.get(task)
        if not faults and (count is None or count.effective != len(own)):
            asked = "no" if count is None else count.effective
            faults.append(UserError(f"{part.file.path}: {len(own)} answers to {asked} questions of {task}", _AGAIN))
    return {task: list(own.values()) for task, own in rows.items()}


def _prediction(value: Any, where: str) -> Prediction:
    line_from_prediction(value, where)
    return _numbered(value, value, where)


def _prediction_of_sample(value: Any, where: str, task: str) -> Prediction:
    line = line_from_sample(value, where, task)
    row = line.model_dump(exclude={"seconds", "prompt_tokens", "reply_tokens", "cached_tokens"})
    return _numbered(value, row | {"shared_context_id": value["doc"].get("shared_context_id", "")}, where)


def _numbered(value: Mapping[str, Any], row: dict[str, Any], where: str) -> Prediction:
    number = value.get("doc_id")
    if not isinstance(number, int):
        raise UserError(f"{where}: no doc_id, the number of the question", "an earlier version wrote it: " + _AGAIN)
    return cast(Prediction, {"task": row["task"], "doc_id": number, **row})


def _whole(task: str, parts: Sequence[_Part], answers: Sequence[Sequence[Prediction]]) -> list[Prediction]:
    """Return the answers of all parts in the order of the questions, after making sure that they are as planned."""
    ids = [[row["question_id"] for row in sorted(own, key=lambda row: row["doc_id"])] for own in answers]
    planned = _metadata(parts[0].results.configs[task]).get("shard_plan")
    if plan_digest(ids) != planned:
        owners: dict[str, Shard] = {}
        for part, own in zip(parts, ids, strict=True):
            for question in own:
                if (other := owners.setdefault(question, part.shard)) != part.shard:
                    where = f"{part.file.path}: part {part.shard} of {task}"
                    raise UserError(f"{where} has question {question}, as part {other} does", _ONE_RUN)
        raise UserError(
            f"{parts[0].file.path} and the other parts: they do not have the questions of {task} dealt to them",
            "a file was edited or put in another place: evaluate the parts again",
        )
    return sorted((row for own in answers for row in own), key=lambda row: row["doc_id"])


# ---- what is written


def _write(out: Path, parts: Sequence[_Part], results: Mapping[str, Any], rows: Sequence[Prediction]) -> list[Path]:
    from lm_eval.utils import sanitize_model_name

    date = max(part.file.date for part in parts)
    model = sanitize_model_name(str(results.get("model_name_sanitized") or "model")).strip(".") or "model"
    folder = out / model
    paths = [folder / f"results_{date}.json", folder / f"predictions_{date}.jsonl"]
    lines = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    texts = [json.dumps(results, indent=2, ensure_ascii=False), lines]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in reversed(list(zip(paths, texts, strict=True))):  # results without answers would be half a run
            with replacing(path) as new:
                new.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{error.filename or folder} cannot be written: {error.strerror}", "name another --out"
        ) from error
    return paths
