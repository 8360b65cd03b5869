"""A language model that labels wrong answers: it reads the whole history before each question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, Field

from generation.config import LLMConfig
from generation.errors import UserError
from generation.interruption import kept_if_interrupted
from generation.llm.backends import KINDS, BackendName, make_model, parse_backend
from generation.llm.cache import ReplyCache
from generation.llm.client import Account, Client, ReplyError, Request
from generation.llm.ledger import Ledger, check_budget
from generation.llm.paid_calls import StageUsage
from generation.llm.paid_models import ATTEMPTS, LEDGER, REPLIES
from generation.llm.prices import known_prices
from generation.parallel import calls_under_way, ordered_results
from generation.progress import track
from personamem_builder.annotation.errors import Label, WrongAnswer
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.evaluation.chat import history_text, normalise
from personamem_builder.results.error_labels import CATEGORIES, FORMAT
from personamem_builder.schema import option_label, option_letter, table_order

_AHEAD: Final = 2  # histories that each call under way may be ahead of: one may have a million tokens

KINDS_OF_MISTAKES: Final[Mapping[str, str]] = {name: text for name, text in CATEGORIES.items() if name != FORMAT}
"""What a judge chooses from: a row has a judge only if there was a letter."""


class Verdict(BaseModel):
    """What the judge replies."""

    why: str = Field(min_length=1, max_length=2000)
    category: Literal["personalization", "update", "hallucination", "other"]


class Judgement(NamedTuple):
    """What came of a judge's work.

    Attributes:
        labels: By question id.
        unusable: Why there is no label, by question id.
        usage: Of the calls so far, those of earlier runs of the command included.
    """

    labels: dict[str, Label]
    unusable: dict[str, str]
    usage: list[StageUsage]


class Judge:
    """Asks a language model about wrong answers; replies and costs are kept beside the file of labels.

    Args:
        name: The backend, `openai:MODEL` or `hf:PATH`.
        llm: How it is asked.
        folder: Where replies and the ledger are kept; made if it is not there.
        budget: Most that the calls may cost, in US dollars, earlier ones included; None for no limit.

    Raises:
        UserError: There is no such backend, it needs a key that is not there, or a price; or the folder cannot be
            written.
    """

    def __init__(self, name: str, llm: LLMConfig, folder: Path, budget: float | None = None) -> None:
        check_budget(budget)
        self._backend: BackendName = parse_backend(name)
        if self._backend.is_offline:
            raise UserError("--judge: the offline backend cannot read answers", f"give {' or '.join(KINDS[:2])}")
        self._name, self._llm, self._folder = name, llm, folder
        self._model = make_model(self._backend, llm)
        prices = known_prices([self._backend.model], llm.prices)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder} cannot be made: {error.strerror}", "choose another --out") from error
        self._ledger = Ledger(folder / LEDGER, {key: known.price for key, known in prices.items()}, budget)
        self._ledger.require_prices([self._backend.model])

    def label(self, data: Path, errors: Sequence[WrongAnswer]) -> Judgement:
        """Label wrong answers to questions of a dataset folder; those without a chosen option are left out.

        An answer about which nothing usable came is asked about again the next time.

        Raises:
            UserError: The model cannot be asked, the budget is spent, or a history cannot be read.
        """
        # By context, and by point in it: each is read once, and prompts that begin alike come together.
        asked = sorted((error for error in errors if error.letter), key=lambda error: table_order(error.row))
        account = Account(self._ledger, "errors", self._backend.model, self._llm.reply_tokens)
        labels: dict[str, Label] = {}
        unusable: dict[str, str] = {}
        kept = f"the judge's replies are kept in {self._folder}; rerun the command to resume"
        with (
            kept_if_interrupted(kept),
            ReplyCache(self._folder / REPLIES) as replies,
            calls_under_way(self._llm.concurrency) as pool,
        ):
            client = Client(self._model, replies, ATTEMPTS, account)

            def verdict(request: Request) -> Verdict | str:
                try:
                    return client.ask(request, Verdict)
                except ReplyError as error:
                    return error.message

            requests = _requests(data, asked)
            results = ordered_results(pool, self._llm.concurrency * _AHEAD, verdict, requests)
            for error, result in zip(asked, track(results, "labelling wrong answers", len(asked)), strict=True):
                if isinstance(result, Verdict):
                    labels[error.row["question_id"]] = Label(result.category, self._name, result.why)
                else:
                    unusable[error.row["question_id"]] = result
        return Judgement(labels, unusable, self._ledger.summary())


def judge_request(error: WrongAnswer, history: str) -> Request:
    """Return the call about a wrong answer with a letter; `history` is what was said before the question, as text."""
    assert error.letter is not None
    row = error.row
    facts = {
        "history": history,
        "message": row["user_question_or_message"],
        "options": row["all_options"],
        "right": option_label(row["answer_index"]),
        "chosen": f"({error.letter})",
        "reply": error.reply,
        "kinds": [{"name": name, "meaning": meaning} for name, meaning in KINDS_OF_MISTAKES.items()],
    }
    seed = ("judge", row["question_id"], option_letter(row["answer_index"]), error.letter)
    return Request("judge_error", facts, seed, row["persona_id"], row["topic"])


def _requests(data: Path, errors: Sequence[WrongAnswer]) -> Iterator[Request]:
    """Yield the calls, with the histories as models are shown them."""
    contexts = ContextStore(data)
    for error in errors:
        context_id, end = error.row["shared_context_id"], error.row["end_index_in_shared_context"]
        history = normalise(contexts.messages(context_id, end), contexts.session_starts(context_id))
        yield judge_request(error, history_text(history))
