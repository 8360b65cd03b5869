"""The files of the page: what is in each of them, made when it is asked for."""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from generation.records import TELLINGS
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts, read_context
from personamem_builder.dataset.folder import check_files, check_split, context_files
from personamem_builder.dataset.tables import has_values
from personamem_builder.manifest import read_manifest
from personamem_builder.results.runs import Run
from personamem_builder.schema import MIXED, SHORT_TYPES, ContextRow, numbered_sessions, option_text
from personamem_builder.view.model_answers import RunAnswers, model_answers
from personamem_builder.view.script import data_script

PAGE_FILES: Final = (
    "index.html",
    "style.css",
    "icon.svg",
    "list.js",
    "timeline.js",
    "data.js",
    "history.js",
    "panel.js",
    "app.js",
)
"""The files of the page that are the same for every dataset."""

INDEX: Final = "data/index.js"

CHUNK: Final = 200
"""Questions in a file: few enough that the first of them are there at once."""

_KEPT: Final = 2
"""Contexts kept as the page gets them: several readers, or reloads, ask for the same."""

_HERE: Final = Path(__file__).parent
_DATA_FILE: Final = re.compile(r"data/([0-9]{1,6})/(questions|answers|context)-([0-9]{1,9})\.js")

_COLUMNS: Final = (
    "question_id",
    "persona_id",
    "question_type",
    "source_question_type",
    "topic",
    "context_length_in_tokens",
    "distance_to_ref_in_blocks",
    "distance_to_ref_in_tokens",
    "distance_to_ref_proportion_in_context",
    "user_question_or_message",
    "end_index_in_shared_context",
    "answer_index",
    "evidence_message_indices",
    "evidence_event_ids",
    "option_states",
    "option_roles",
    "option_stereotypical",
    "updates_spanned",
    "telling",
    "evidence_tellings",
    "stereotypical",
    "groundtruth_info",
)
"""Columns of the question table that the page gets as they are, where a dataset has them."""


def page_file(name: str) -> bytes:
    """Return one of `PAGE_FILES`."""
    return (_HERE / name).read_bytes()


class Sample(NamedTuple):
    """How much of a dataset a page that the public reads holds, and the page that it leads back to.

    Attributes:
        contexts: Shared contexts of each split; the page has the questions about these.
        reply: Letters of a reply of a model; longer ones are cut in the middle.
        home: Address of the page that it belongs to.
    """

    contexts: int
    reply: int
    home: str


class SiteSplit(NamedTuple):
    """A split as the page shows it.

    Attributes:
        questions: The question table, sorted by persona, context and place in the context.
        contexts: The number of each shared context, by its id.
        left_out: What the split has beyond these: questions and contexts.
    """

    name: str
    questions: pa.Table
    contexts: Mapping[str, int]
    left_out: tuple[int, int] = (0, 0)

    @property
    def chunks(self) -> int:
        """How many files its questions take."""
        return -(-len(self.questions) // CHUNK)


class Site:
    """The files of the page about a dataset.

    Args:
        folder: A dataset folder.
        splits: All of the dataset by default.
        runs: Whose answers are shown; those to other splits of the dataset are left out.
        sample: How much of each split it shows; all by default.

    Raises:
        UserError: There is no such dataset or split, its files are damaged, or a run is of another dataset.
    """

    def __init__(
        self, folder: Path, splits: Sequence[str] = (), runs: Sequence[Run] = (), sample: Sample | None = None
    ) -> None:
        self._folder, self._sample = folder, sample
        self._manifest = read_manifest(folder)
        names = list(dict.fromkeys(splits)) or list(self._manifest["splits"])
        for name in names:
            check_split(self._manifest, name, folder)
        check_files(folder, names)
        whole = [_read_split(folder, name) for name in names]
        self.splits = [_sampled(split, sample.contexts) for split in whole] if sample else whole
        self._context_files = {name: context_files(folder, name) for name in names}
        ids = {split.name: set(split.questions["question_id"].to_pylist()) for split in whole}
        elsewhere = self._manifest["splits"].keys() - ids.keys()
        shown = [run for run in runs if run.split not in elsewhere]
        self._lock = threading.Lock()
        self._context_script = functools.lru_cache(maxsize=_KEPT)(self._make_context_script)
        longest = sample.reply if sample else None
        self.answers = model_answers(shown, self._manifest["digest"], ids, str(folder), longest)

    def names(self) -> Iterator[str]:
        """Yield the names of all files except those of contexts."""
        yield from PAGE_FILES
        yield INDEX
        for number, split in enumerate(self.splits):
            for chunk in range(split.chunks):
                yield f"data/{number}/questions-{chunk}.js"
                if self._answers_to(split):
                    yield f"data/{number}/answers-{chunk}.js"

    def contexts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of the file of each context; one of them is in memory at a time."""
        for number, split in enumerate(self.splits):
            for row in self._rows(split):
                if row["shared_context_id"] in split.contexts:  # one that no question is about cannot be opened
                    name = f"data/{number}/context-{split.contexts[row['shared_context_id']]}.js"
                    yield name, data_script(name, _context(row))

    def _rows(self, split: SiteSplit) -> Iterator[ContextRow]:
        files = self._context_files[split.name]
        if self._sample is None:
            return iter_contexts(*files)
        return (read_context(files, context) for context in split.contexts)

    def content(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is no such file."""
        if name in PAGE_FILES:
            return page_file(name)
        if name == INDEX:
            return data_script(name, self._index())
        match = _DATA_FILE.fullmatch(name)
        if match is None or int(match[1]) >= len(self.splits):
            return None
        split, number = self.splits[int(match[1])], int(match[3])
        if match[2] == "context":
            if number >= len(split.contexts):
                return None
            with self._lock:  # one after the other: a row group of texts is in memory meanwhile
                return self._context_script(name, split.name, list(split.contexts)[number])
        if number >= split.chunks:
            return None
        part = split.questions.slice(number * CHUNK, CHUNK)
        if match[2] == "questions":
            return data_script(name, _columns(part, split.contexts))
        if not (answers := self._answers_to(split)):
            return None
        ids = part["question_id"].to_pylist()
        # NamedTuples become lists.
        return data_script(name, [[one.answers.get(question_id) for question_id in ids] for one in answers])

    def _make_context_script(self, name: str, split: str, context_id: str) -> bytes:
        return data_script(name, _context(read_context(self._context_files[split], context_id)))

    def _answers_to(self, split: SiteSplit) -> list[RunAnswers]:
        return [one for one in self.answers if one.split == split.name]

    def _index(self) -> dict[str, object]:
        return {
            "title": self._folder.name,
            "version": self._manifest["version"],
            "digest": self._manifest["digest"],
            "source": self._manifest["source"]["name"],
            "home": self._sample.home if self._sample else "",
            "short_types": list(SHORT_TYPES.items()),
            "splits": [self._split_entry(split) for split in self.splits],
        }

    def _split_entry(self, split: SiteSplit) -> dict[str, object]:
        personas, types, topics = (
            sorted(Counter(split.questions[column].to_pylist()).items())
            for column in ("persona_id", "question_type", "topic")
        )
        order = list(SHORT_TYPES)
        tellings = Counter(split.questions["telling"].to_pylist()) if has_values(split.questions, "telling") else {}
        return {
            "name": split.name,
            "questions": len(split.questions),
            "contexts": len(split.contexts),
            "left_out": split.left_out,
            "chunks": split.chunks,
            "personas": personas,
            "types": sorted(types, key=lambda entry: order.index(entry[0])),
            "topics": topics,
            "tellings": [(name, tellings[name]) for name in (*TELLINGS, MIXED) if tellings.get(name)],
            "runs": [{"label": one.label, "scores": one.scores, "notes": one.notes} for one in self._answers_to(split)],
        }


def _read_split(folder: Path, name: str) -> SiteSplit:
    table = read_questions(folder, name)
    keys = ("persona_id", "shared_context_id", "end_index_in_shared_context", "question_id")
    table = table.sort_by([(key, "ascending") for key in keys])
    contexts = dict.fromkeys(table["shared_context_id"].to_pylist())
    return SiteSplit(name, table, {context: number for number, context in enumerate(contexts)})


def _sampled(split: SiteSplit, count: int) -> SiteSplit:
    """Return a split with some of its contexts: those of as many personas as there are, in the order of the table."""
    table, turns = split.questions, Counter[int]()
    owners = dict(zip(table["shared_context_id"].to_pylist(), table["persona_id"].to_pylist(), strict=True))
    place = {}
    for context, persona in owners.items():
        place[context] = (turns[persona], split.contexts[context])
        turns[persona] += 1
    chosen = set(sorted(place, key=place.__getitem__)[:count])
    questions = table.filter(pc.is_in(table["shared_context_id"], pa.array(sorted(chosen), pa.string())))
    contexts = [context for context in split.contexts if context in chosen]
    left_out = len(table) - len(questions), len(split.contexts) - len(contexts)
    return SiteSplit(split.name, questions, {context: number for number, context in enumerate(contexts)}, left_out)


def _columns(table: pa.Table, contexts: Mapping[str, int]) -> dict[str, list[Any]]:
    columns = {name: table[name].to_pylist() for name in _COLUMNS if name in table.column_names}
    share = "distance_to_ref_proportion_in_context"
    return columns | {
        share: [None if value is None else round(value, 4) for value in columns[share]],
        "options": [[option_text(option) for option in options] for options in table["all_options"].to_pylist()],
        "context": [contexts[context] for context in table["shared_context_id"].to_pylist()],
    }


def _context(row: ContextRow) -> dict[str, object]:
    """Return a context with each distinct text once."""
    roles: dict[str, int] = {}
    texts: dict[str, int] = {}
    messages = row["messages"]
    return {
        "persona": row["persona_id"],
        "tokens": row["num_tokens"],
        "role": [roles.setdefault(message["role"], len(roles)) for message in messages],
        "text": [texts.setdefault(message["content"], len(texts)) for message in messages],
        "roles": list(roles),
        "texts": list(texts),
        "sessions": numbered_sessions(row),
    }
