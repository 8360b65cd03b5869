"""The tasks for Inspect (https://inspect.aisi.org.uk), which finds them by the name of this module.

`inspect eval personamem/personamem_32k --model …` asks what lm-eval asks as `personamem_32k_generate`: the options are
shown, the model writes, its letter is extracted. All but Inspect's own objects is in
`personamem_builder.evaluation.written_task`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
    get_model_info,
)
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    grouped,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from generation.errors import UserError
from personamem_builder.evaluation.responses import Reply
from personamem_builder.evaluation.written_task import RULES, WrittenTask, by_id
from personamem_builder.schema import AnswerOutcome, Message, QuestionRow, option_letter
from personamem_builder.usage import AnswerUsage

_MESSAGES: Final = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
_OUTCOMES: Final[Mapping[str, AnswerOutcome]] = {
    "max_tokens": "cut",
    "model_length": "cut",
    "content_filter": "refused",
}


def _registered(own: str, ending: str = "") -> Callable[..., Task]:
    """Register the task that asks a split of its own, with or without the history."""

    @task(name=f"personamem_{own}{ending}")
    def personamem_task(
        data: str | None = None,
        repo: str | None = None,
        revision: str | None = None,
        config: str | None = None,
        seed: int | None = None,
        split: str | None = None,
        subset: str | None = None,
        memory: str | None = None,
        settings: dict[str, Any] | None = None,
        k: int | None = None,
        store: str | None = None,
        roles: str | None = None,
        instruction: str | None = None,
        explain: bool | None = None,
        overlength: str | None = None,
        max_length: int | None = None,
    ) -> Task:
        """Ask the questions of a split; the arguments are those of the lm-eval task's `--metadata`.

        Args:
            data: A dataset folder, or `ORG/NAME` on the Hub.
            repo: `ORG/NAME` on the Hub, whatever folders there are here.
            revision: Branch, tag or commit there.
            config: A generator's configuration, from which the data are made.
            seed: A seed in place of its own.
            split: A split of the dataset in place of the task's own.
            subset: A file that names the questions to ask.
            memory: What is shown before the question; the whole history by default.
            settings: Those of the memory.
            k: The most memories that a memory system is asked for.
            store: A folder of `personamem memory run --out`.
            roles: `normalised` (default), `no_system` or `verbatim`.
            instruction: A file with an instruction in place of ours.
            explain: Whether the model is asked for an explanation first.
            overlength: What becomes of questions too long for the model: `error` (default) or `skip`.
            max_length: The model's window in tokens, where Inspect does not know it.
        """
        data_keys = {"data": data, "repo": repo, "revision": revision, "config": config, "seed": seed}
        asked_keys = {"split": split, "subset": subset, "overlength": overlength}
        memory_keys = {"memory": memory, "settings": settings, "k": k, "store": store}
        prompt_keys = {"roles": roles, "instruction": instruction, "explain": explain}
        given = data_keys | asked_keys | memory_keys | prompt_keys
        try:
            written = WrittenTask(f"personamem_{own}_generate{ending}", given)
        except UserError as error:  # as Inspect's command prints without a traceback
            raise click.ClickException(str(error)) from error
        return _make(written, max_length)

    registered: Callable[..., Task] = personamem_task
    return registered


def _make(written: WrittenTask, max_length: int | None) -> Task:
    rows = by_id(written.rows)
    generation = {
        "temperature": written.generation["temperature"],
        "max_tokens": written.generation["max_gen_toks"],
    }
    return Task(
        dataset=MemoryDataset([_sample(written, row) for row in written.rows], location=written.origin),
        setup=_history(written, rows, max_length),
        scorer=[_scorer(rule, written, rows) for rule in RULES],
        config=GenerateConfig(**generation, cache_prompt=True),
        version=written.version,
        metadata={**written.metadata, "questions": len(rows), "generation": generation},
    )


def _sample(written: WrittenTask, row: QuestionRow) -> Sample:
    """Return a question without its history, which is added when its turn comes."""
    return Sample(
        id=row["question_id"],
        input=[ChatMessageUser(content=written.last_turn(row))],
        target=option_letter(row["answer_index"]),
        metadata={
            "question_type": row["question_type"],
            "topic": row["topic"],
            "persona_id": row["persona_id"],
            "shared_context_id": row["shared_context_id"],
            "n_options": len(row["all_options"]),
        },
    )


def _history(written: WrittenTask, rows: Mapping[str, QuestionRow], max_length: int | None) -> Solver:
    """Return the solver that puts the history before a question, and passes over those that are too long."""
    overlong: set[str] | None = None

    @solver
    def history() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            nonlocal overlong
            if overlong is None:
                window = max_length or _window()
                overlong = {row["question_id"] for row in written.overlong(window)} if window else set()
            row = rows[str(state.sample_id)]
            if row["question_id"] in overlong:
                state.metadata["skipped"] = state.completed = True
            else:
                state.messages = [_message(message) for message in written.messages(row)]
            return state

        return solve

    return history()


def _message(message: Message) -> ChatMessage:
    return _MESSAGES[message["role"]](content=message["content"])


def _window() -> int | None:
    info = get_model_info(get_model())
    return info.context_length if info else None


def _scorer(rule: str, written: WrittenTask, rows: Mapping[str, QuestionRow]) -> Scorer:
    by_type = grouped(mean(), "question_type", all="groups", all_label="acc_macro", name_template="acc_{group_name}")

    @scorer(name=rule, metrics=[accuracy(), stderr(cluster="persona_id"), by_type, outcomes()])
    def extracted() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            if state.metadata.get("skipped") or _was_too_long(written, state.output):
                return Score(value=0.0, metadata={"skipped": True, **_told(Reply(""))})
            reply = _reply(state.output)
            letters, credit = written.extracted(rule, reply, rows[str(state.sample_id)])
            return Score(
                value=credit,
                answer=letters or None,
                explanation=reply,
                metadata={"skipped": False, **_told(reply)},
            )

        return score

    return extracted()


def _reply(output: ModelOutput) -> Reply:
    used, usage = output.usage, AnswerUsage(output.time)
    if used is not None:
        cached = used.input_tokens_cache_read
        prompt = used.input_tokens + (cached or 0) + (used.input_tokens_cache_write or 0)
        usage = usage._replace(prompt_tokens=prompt, reply_tokens=used.output_tokens, cached_tokens=cached)
    return Reply(output.completion, _OUTCOMES.get(output.stop_reason, "answered"), output.stop_reason, usage)


def _told(reply: Reply) -> dict[str, Any]:
    """Return what a log says of an answer beside its letter, as a line of a predictions file has it."""
    return {"outcome": reply.outcome, "finish_reason": reply.finish_reason, **reply.usage._asdict()}


def _was_too_long(written: WrittenTask, output: ModelOutput) -> bool:
    """Say whether an endpoint refused the input for its length: then it wrote nothing.

    Raises:
        UserError: It did, and such questions are not to be skipped.
    """
    used = output.usage
    if not output.choices or output.stop_reason != "model_length" or (used and used.output_tokens):
        return False
    if not written.skips_overlong:
        raise UserError(
            f"{written.name}: the endpoint says that a question is too long for the model: {output.completion}",
            "take a model with a longer window, or count such questions as wrong: -T overlength=skip",
        )
    return True


@metric
def outcomes() -> Metric:
    """Shares of the replies without a letter, cut and refused, and of the questions too long to be asked."""

    def shares(scores: list[SampleScore]) -> dict[str, float]:
        told = [(score.score.answer, score.score.metadata or {}) for score in scores]
        counts = {
            "invalid_rate": [answer is None and not about["skipped"] for answer, about in told],
            "cut": [about["outcome"] == "cut" for _, about in told],
            "refused": [about["outcome"] == "refused" for _, about in told],
            "skipped": [about["skipped"] for _, about in told],
        }
        return {name: sum(values) / len(values) for name, values in counts.items() if values}

    return shares


personamem_32k = _registered("32k")
personamem_128k = _registered("128k")
personamem_1M = _registered("1M")
personamem_32k_nocontext = _registered("32k", "_nocontext")
personamem_128k_nocontext = _registered("128k", "_nocontext")
personamem_1M_nocontext = _registered("1M", "_nocontext")
