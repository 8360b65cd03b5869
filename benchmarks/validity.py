"""Can the questions of a run be answered without reading it, and from the evidence alone?

    python benchmarks/validity.py                          # generates examples/full.yaml and measures it
    python benchmarks/validity.py --run runs/full          # measures a run that is there
    python benchmarks/validity.py --quick                  # a smaller configuration

Prints a table: shortcuts that see no conversation, a reader of the evidence alone, and a reader that never takes an
update in, each with a 95 % interval clustered by persona. Exits with 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.evidence_reader import EvidenceReader
from support.probes import cross_features, option_features, ranker_credits

from generation.banks.load import Banks, load_banks
from generation.config import Config, load_config
from generation.pipeline import Work, generate
from generation.records import QUESTION_TYPES, History, Question, Session
from generation.seeds import rng_for
from generation.store import RunStore
from personamem_builder.policies import at_position, central, longest, overlap, shortest
from personamem_builder.statistics import Estimate, overall, per_type

ROOT = Path(__file__).resolve().parent.parent
CHANCE = 0.25
STATE_TYPES = (
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "provide_preference_aligned_recommendations",
)


def row_of(question: Question) -> dict[str, Any]:
    """Return a question as the policies and probes see it."""
    texts = [option.text for option in question.options]
    return {
        "question_id": question.question_id,
        "persona": question.persona_id,
        "type": question.question_type,
        "message": question.message,
        "texts": texts,
        "answer": question.answer_index,
        "user_question_or_message": question.message,
        "all_options": [f"({'abcd'[i]}) {text}" for i, text in enumerate(texts)],
    }


def policy_credits(rows: Sequence[dict[str, Any]], policy: Callable[[Any], list[float]]) -> list[float]:
    """Return the credit of a policy for each row; ties share it."""
    credits_ = []
    for row in rows:
        values = policy(row)
        best = [i for i, value in enumerate(values) if value == max(values)]
        credits_.append((row["answer"] in best) / len(best))
    return credits_


def evidence_messages(questions: Sequence[Question], sessions: Sequence[Session]) -> dict[str, list[tuple[str, str]]]:
    """Return the evidence messages of each question, in order, with the topic of their session."""
    told = {e: (s.topic, m.content) for s in sessions for m in s.messages for e in m.event_ids}
    return {question.question_id: [told[e] for e in question.evidence_event_ids] for question in questions}


def first_held(question: Question, states: dict[str, str], seed: int) -> float:
    """Return the credit of a reader that goes on believing the first state it heard of."""
    first = states[question.evidence_event_ids[0]]
    fits = [i for i, option in enumerate(question.options) if option.states[-1] == first]
    if not fits:  # no option says so: it guesses
        fits = [rng_for(seed, "first held", question.question_id).randrange(4)]
    return (question.answer_index in fits) / len(fits)


def measure(
    config: Config, banks: Banks, store: RunStore
) -> list[tuple[str, Estimate, dict[str, Estimate], str, bool]]:
    """Measure a run.

    Returns:
        For each line of the table its name, the overall estimate, that of each type, the limit, and whether it is met.
    """
    questions = list(store.read("questions", Question))
    rows = [row_of(question) for question in questions]
    personas = [row["persona"] for row in rows]
    types = [row["type"] for row in rows]
    lines = []

    def add(
        name: str, credits_: Sequence[float], limit: str, met: Callable[[Estimate, dict[str, Estimate]], bool]
    ) -> None:
        total, by_type = overall(credits_, personas), per_type(credits_, types, personas)
        lines.append((name, total, by_type, limit, met(total, by_type)))

    def probe_met(total: Estimate, by_type: dict[str, Estimate]) -> bool:
        return total.value <= 0.30 and all(estimate.value <= 0.35 for estimate in by_type.values())

    def holds_chance(total: Estimate, by_type: dict[str, Estimate]) -> bool:
        return total.low is not None and total.high is not None and total.low <= CHANCE <= total.high

    add("ranker: option words, lengths", ranker_credits(rows, option_features), "≤ 30, types ≤ 35", probe_met)
    add("ranker: question x option", ranker_credits(rows, cross_features), "≤ 30, types ≤ 35", probe_met)
    surface = {"longest": longest, "shortest": shortest, "most central": central, "most overlapping": overlap}
    for name, policy in surface.items():
        add(name, policy_credits(rows, policy), "interval holds 25", holds_chance)
    for i, letter in enumerate("abcd"):
        add(f"always ({letter})", policy_credits(rows, at_position(i)), "interval holds 25", holds_chance)

    evidence = evidence_messages(questions, list(store.read("sessions", Session)))
    reader = EvidenceReader(banks)
    read = [float(reader.answer(q, evidence[q.question_id]) == q.answer_index) for q in questions]
    add("reader of the evidence alone", read, "100", lambda total, _: total.value == 1.0)

    histories = list(store.read("histories", History))
    states = {}
    for history in histories:
        for topic in history.topics:
            subjects = {p.preference_id: p for p in topic.preferences}
            for event in topic.events:
                preference = subjects[event.preference_id]
                item = preference.kind == "item"
                states[event.event_id] = f"{event.state}: {preference.subject}" if item else event.state
    stuck = [first_held(q, states, config.seed) if q.question_type in STATE_TYPES else CHANCE for q in questions]
    add(
        "reader of the first state",
        stuck,
        "3 types ≤ 35",
        lambda _, by_type: all(by_type[name].value <= 0.35 for name in STATE_TYPES),
    )
    return lines


def table(lines: Sequence[tuple[str, Estimate, dict[str, Estimate], str, bool]]) -> str:
    """Return the measurements as a Markdown table, in per cent."""
    short = ("facts", "ideas", "latest", "evolution", "reasons", "recommend", "generalize")
    out = [f"| % right | all [95 %] | {' | '.join(short)} | limit | met |", "|---|" + "---|" * (len(short) + 3)]
    for name, total, by_type, limit, met in lines:
        interval = f" [{100 * total.low:.1f}, {100 * total.high:.1f}]" if total.low is not None else ""
        cells = [f"{100 * by_type[t].value:.1f}" if t in by_type else "-" for t in QUESTION_TYPES]
        if name == "reader of the first state":
            cells = [cell if t in STATE_TYPES else "-" for cell, t in zip(cells, QUESTION_TYPES, strict=True)]
            all_ = "-"
        else:
            all_ = f"{100 * total.value:.1f}{interval}"
        out.append(f"| {name} | {all_} | {' | '.join(cells)} | {limit} | {'yes' if met else 'NO'} |")
    return "\n".join(out)


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "full.yaml")
    parser.add_argument("--run", type=Path, help="a run of that configuration; by default one is made")
    parser.add_argument("--seed", type=int, help="another seed than the configuration's")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="8 personas, 6 topics")
    parser.add_argument("--json", type=Path, help="write every figure there")
    arguments = parser.parse_args()
    config = load_config(arguments.config)
    if arguments.quick:
        config = config.model_copy(update={"personas": 8, "topics": config.topics[:6], "fillers": 0})
    if arguments.seed is not None:
        config = config.model_copy(update={"seed": arguments.seed})
    banks = load_banks(config)
    work = Work(config, banks, "offline")
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore.open(arguments.run or Path(folder) / "run", work.fingerprint())
        generate(work, store, arguments.workers)
        lines = measure(config, banks, store)
    print(f"{lines[0][1].n} questions of {lines[0][1].clusters} personas, seed {config.seed}\n")
    print(table(lines))
    if arguments.json:
        document = [
            {"name": n, "all": t._asdict(), "types": {k: e._asdict() for k, e in b.items()}, "limit": limit, "met": met}
            for n, t, b, limit, met in lines
        ]
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    # A quick run has too few questions for the limits.
    sys.exit(0 if arguments.quick or all(met for *_, met in lines) else 1)


if __name__ == "__main__":
    main()
