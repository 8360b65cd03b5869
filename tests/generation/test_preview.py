"""A preview shows what the run will hold, an estimate says what it will take, and neither writes anything."""

from __future__ import annotations

import json
import re
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from scripted_model import GoodModel
from small_runs import make_run, tiny_work, work_of

from generation.config import LLMConfig, Price
from generation.history_records import History
from generation.llm.client import MAX_REPAIRS, Call, Client, Completion, ReplyError
from generation.llm.paid_models import ATTEMPTS
from generation.preview import Estimate, estimate, preview, sample
from generation.question_plans import plan_questions
from generation.records import QUESTION_TYPES, Filler, Persona, Question, Session
from generation.request_facts import OfferFacts
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.stages.fillers import filler_tasks
from generation.stages.histories import draw_history, write_history
from generation.stages.personas import draw_personas, write_persona
from generation.stages.sessions import session_tasks
from generation.store import RunStore
from generation.tokenizer import num_tokens, token_length


@pytest.fixture(scope="module")
def work() -> RunInputs:
    return tiny_work()


@pytest.fixture
def run(tiny: Path) -> RunStore:
    return RunStore(tiny)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sample_is_a_part_of_the_run(work: RunInputs, run: RunStore) -> None:
    shown = sample(work)
    assert shown.persona == next(run.read("personas", Persona))
    assert shown.history == next(run.read("histories", History))
    assert shown.session == next(run.read("sessions", Session))
    questions = {question.question_id: question for question in run.read("questions", Question)}
    assert all(questions[question.question_id] == question for question in shown.questions)
    assert [question.question_type for question in shown.questions] == list(QUESTION_TYPES)


def test_a_preview_shows_a_profile_a_session_and_a_question_of_each_type(work: RunInputs) -> None:
    persona, _, session, questions = sample(work)
    text = preview(work)
    lines = text.splitlines()
    assert lines[:2] == [persona.demographics, persona.profile]
    for message in session.messages[:2]:
        assert any(line.startswith(f"  {message.role}: {message.content}") for line in lines)
    for question in questions:
        assert f"{question.question_type} ({question.topic})" in lines
        assert f"  user: {question.message}" in lines


def test_a_preview_marks_the_right_option_of_each_question_and_no_other(work: RunInputs) -> None:
    blocks = preview(work).split("\n\n")[2:]
    questions = sample(work).questions
    assert len(blocks) == len(questions) == 7
    for block, question in zip(blocks, questions, strict=True):
        options = block.splitlines()[2:]
        marks = ["*" if i == question.answer_index else " " for i in range(4)]
        assert [line[2:6] for line in options] == [f"{m}({c})" for m, c in zip(marks, "abcd", strict=True)]
        assert [re.sub(r"^  [* ]\([a-d]\) |  \[\w+\]$", "", line) for line in options] == [
            option.text for option in question.options
        ]


def test_a_preview_says_which_events_a_message_tells(work: RunInputs) -> None:
    session = sample(work).session
    text = preview(work)
    first = next(message for message in session.messages if message.event_ids)
    assert f"{first.content}  [tells {', '.join(first.event_ids)}]" in text
    assert text.count("[tells ") == 1


def test_a_preview_of_a_configuration_without_some_types_leaves_them_out() -> None:
    work = tiny_work(questions_per_topic=dict.fromkeys(QUESTION_TYPES, 0) | {"suggest_new_ideas": 1})
    assert [question.question_type for question in sample(work).questions] == ["suggest_new_ideas"]
    assert preview(work).count("*(") == 1


def test_neither_writes_a_file(work: RunInputs, tmp_path: Path) -> None:
    preview(work)
    estimate(work)
    assert list(tmp_path.iterdir()) == []


# --- the estimate


def calls_of(run: RunStore) -> Counter[str]:
    """Count the calls that a run made, by template."""
    counts = Counter(question.question_type for question in run.read("questions", Question))
    counts["persona"] = sum(1 for _ in run.read("personas", Persona))
    counts["general_history"] = sum(1 for _ in run.read("histories", History))
    counts["session"] = sum(1 for _ in run.read("sessions", Session))
    counts["filler"] = sum(1 for _ in run.read("fillers", Filler))
    return counts


def test_the_number_of_calls_is_that_of_the_run(work: RunInputs, run: RunStore) -> None:
    assert {entry.template: entry.calls for entry in estimate(work)} == calls_of(run)


@pytest.mark.parametrize("personas", [1, 3])
def test_the_number_of_calls_grows_with_the_users(tmp_path: Path, personas: int) -> None:
    work = tiny_work(personas=personas)
    entries = {entry.template: entry.calls for entry in estimate(work)}
    assert entries == calls_of(make_run(work, tmp_path / "run"))
    assert entries["session"] == personas * 4 * 4


def test_the_tokens_of_the_replies_are_about_those_of_the_run(work: RunInputs, run: RunStore) -> None:
    texts = {
        "persona": [persona.profile for persona in run.read("personas", Persona)],
        "general_history": [event.text for history in run.read("histories", History) for event in history.general],
        "session": [message.content for session in run.read("sessions", Session) for message in session.messages],
        "filler": [message.content for filler in run.read("fillers", Filler) for message in filler.messages],
    }
    for question in run.read("questions", Question):
        texts.setdefault(question.question_type, []).append(question.message)
        texts[question.question_type] += [option.text for option in question.options]
    real = {template: sum(map(token_length, written)) for template, written in texts.items()}
    said = {entry.template: entry.reply_tokens for entry in estimate(work)}
    assert set(said) == set(real)
    assert sum(said.values()) == pytest.approx(sum(real.values()), rel=0.2)
    for template, tokens in real.items():
        assert said[template] == pytest.approx(tokens, rel=0.2), template


def test_an_estimate_is_in_the_order_of_use_and_has_a_time_for_every_call(work: RunInputs) -> None:
    entries = estimate(work)
    assert [entry.template for entry in entries] == [
        "persona",
        "general_history",
        "session",
        *QUESTION_TYPES,
        "filler",
    ]
    assert all(entry.seconds > 0 and entry.prompt_tokens > 0 for entry in entries)


def test_an_estimate_without_fillers_has_none() -> None:
    assert "filler" not in {entry.template for entry in estimate(tiny_work(fillers=0))}


def test_an_estimate_counts_prompts_whole(work: RunInputs) -> None:
    by_template: dict[str, Estimate] = {entry.template: entry for entry in estimate(work)}
    # A prompt for a session holds at least its profile and its events; ten tokens a line are the least.
    assert by_template["session"].prompt_tokens > 300 * by_template["session"].calls
    assert by_template["session"].prompt_tokens < 2 * by_template["session"].reply_tokens


# --- the estimate of a run by a language model, which is read back


class Counted(GoodModel):
    """A good model that counts what it is asked, by template."""

    def __init__(self, work: RunInputs) -> None:
        super().__init__(work)
        self.calls: Counter[str] = Counter()
        self.prompt_tokens: Counter[str] = Counter()
        self.reply_tokens: Counter[str] = Counter()

    def complete(self, call: Call) -> Completion:
        completion = super().complete(call)
        template = call.request.template
        self.calls[template] += 1
        self.prompt_tokens[template] += sum(num_tokens(message.content) for message in call.messages)
        self.reply_tokens[template] += num_tokens(completion.text)
        return completion


class Worst(GoodModel):
    """A model that needs all turns of all attempts, and a reader that finds a fault in everything."""

    def __init__(self, work: RunInputs) -> None:
        super().__init__(work)
        self.calls: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._whole: dict[str, str] = {}  # by the same message cut short

    def complete(self, call: Call) -> Completion:
        template, facts = call.request.template, call.request.facts
        self.calls[template] += 1
        self._asked[call.messages[0].content] += 1
        if self._asked[call.messages[0].content] % (ATTEMPTS * (1 + MAX_REPAIRS)):
            return Completion("not yet", "stop")
        reply: dict[str, Any]
        if template == "coverage":
            told = [{"told_id": one["told_id"], "message": None, "whose": None} for one in facts["told"]]
            reply = {"told": told, "other_tastes": []}
        elif template == "read_options":
            reply = {"numbers": [0, 0, 0, 0]}
        elif template == "expand":
            reply = {"turns": [{**turn, "assistant": self._whole[turn["assistant"]]} for turn in facts["turns"]]}
        elif template == "rewrite_turns":
            reply = self._another({"turns": deepcopy(facts["written"])}, facts["offers"])
        else:
            draft = facts["draft"] if template == "rewrite" else super().complete(call).text
            reply = self._another(json.loads(draft), facts.get("offers", []))
        return Completion(json.dumps(reply), "stop")

    def _another(self, reply: dict[str, Any], offers: list[OfferFacts]) -> dict[str, Any]:
        """Return a reply in other words, as one that was refused is not taken again; a session too short."""
        more = f" That is {self.calls.total()} by my count."
        if "message" in reply:
            return {**reply, "message": reply["message"] + more}
        for turn in reply["turns"]:
            whole = turn["assistant"]
            lower = whole.lower()
            kept = [", ".join(o["names"]) for o in offers if all(name.lower() in lower for name in o["names"])]
            short = ". ".join([" ".join(whole.split()[:55]), *kept])
            self._whole[short] = turn["assistant"]
            turn |= {"user": turn["user"] + more, "assistant": short}
        return reply


def asked(work: RunInputs, stage: str) -> RunInputs:
    """Return the work with a model for one stage."""
    return work._replace(stage_backends={stage: "openai:parrot"})


def by_template(entries: list[Estimate]) -> dict[str, Estimate]:
    assert len({entry.template for entry in entries}) == len(entries)
    return {entry.template: entry for entry in entries}


@pytest.fixture(scope="module")
def one_topic() -> RunInputs:
    """Of one user and one topic everything is measured."""
    return tiny_work(personas=1, topics=("travelPlanning",), fillers=4)


@pytest.fixture(scope="module")
def counted(one_topic: RunInputs) -> Counted:
    """What a run asks a good model."""
    model = Counted(one_topic)
    client, config, banks = Client(model), one_topic.config, one_topic.banks

    def write(stage: str, tasks: list[Any]) -> list[Any]:
        return [STAGES[stage].write(client, banks, task) for task in tasks]

    [persona] = write("personas", draw_personas(config, banks))
    [history] = write("histories", [draw_history(config, persona, banks)])
    write("sessions", session_tasks(config, persona, history, banks))
    write("questions", plan_questions(config, persona, history, banks))
    write("fillers", filler_tasks(config))
    return model


def test_the_calls_that_read_back_are_those_of_a_good_model(one_topic: RunInputs, counted: Counted) -> None:
    entries = by_template([e for e in estimate(one_topic._replace(backend="openai:parrot")) if not e.if_needed])
    assert {template: entry.calls for template, entry in entries.items()} == counted.calls
    assert (entries["coverage"].calls, entries["read_options"].calls) == (4, 7)
    assert {template: entry.prompt_tokens for template, entry in entries.items()} == counted.prompt_tokens
    for template in ("coverage", "read_options"):
        assert entries[template].reply_tokens == pytest.approx(counted.reply_tokens[template], rel=0.05)
        assert entries[template].seconds == 0


def test_generic_distractors_are_calls_of_their_own_and_read_back_too(one_topic: RunInputs) -> None:
    work = work_of(one_topic.config.model_copy(update={"generic_distractors": 1}))
    model = Counted(work)
    client, config, banks = Client(model), work.config, work.banks
    persona = write_persona(client, draw_personas(config, banks)[0])
    history = write_history(client, draw_history(config, persona, banks))
    for plan in plan_questions(config, persona, history, banks):
        STAGES["questions"].write(client, banks, plan)
    entries = by_template(estimate(work._replace(backend="openai:parrot")))
    assert (entries["generic_replies"].calls, entries["read_options"].calls, entries["rewrite"].calls) == (6, 13, 13)
    for template in ("generic_replies", "read_options"):
        assert entries[template].calls == model.calls[template]
        assert entries[template].prompt_tokens == pytest.approx(model.prompt_tokens[template], rel=0.05)


def test_what_depends_on_the_model_is_shown_for_each_text_once_and_last(work: RunInputs) -> None:
    entries = estimate(work._replace(backend="openai:parrot"))
    sessions = work.config.personas * len(work.config.topics) * work.config.periods
    questions = sum(entry.calls for entry in entries if entry.template in QUESTION_TYPES)
    assert [(e.template, e.stage, e.calls) for e in entries if e.if_needed] == [
        ("expand", "sessions", sessions),
        ("rewrite_turns", "sessions", sessions),
        ("rewrite", "questions", questions),
    ]
    assert all(entry.if_needed for entry in entries[-3:])
    [session] = [entry for entry in entries if entry.template == "session"]
    # A longer or a mended session goes there, a mended one with its first prompt; of a mended one a turn comes back.
    assert entries[-3].reply_tokens == session.reply_tokens
    assert entries[-3].prompt_tokens > session.reply_tokens
    assert entries[-2].reply_tokens < 0.2 * session.reply_tokens
    assert entries[-2].prompt_tokens > session.prompt_tokens + session.reply_tokens


@pytest.mark.parametrize("stage", ["sessions", "questions"])
def test_only_what_a_language_model_writes_is_read_back(work: RunInputs, stage: str) -> None:
    written = by_template(estimate(work))
    extra = {entry.template: entry.model for entry in estimate(asked(work, stage)) if entry.template not in written}
    read = {"sessions": ("coverage", "expand", "rewrite_turns"), "questions": ("read_options", "rewrite")}
    assert extra == dict.fromkeys(read[stage], "parrot")


def test_calls_have_a_price_whatever_they_are_for(work: RunInputs) -> None:
    prices = LLMConfig(prices={"parrot": Price(input=2, output=8)})
    priced = work._replace(config=work.config.model_copy(update={"llm": prices}), backend="openai:parrot")
    for entry in estimate(priced):
        assert entry.cost == pytest.approx((entry.prompt_tokens * 2 + entry.reply_tokens * 8) / 1e6)


@pytest.mark.slow
def test_there_are_no_more_calls_than_the_estimate_says(one_topic: RunInputs) -> None:
    """The worst model and reader there are reach the bound and do not pass it."""
    config, banks = one_topic.config, one_topic.banks
    offline = Client(GoodModel(one_topic))
    persona = write_persona(offline, draw_personas(config, banks)[0])
    history = write_history(offline, draw_history(config, persona, banks))
    tasks = {
        "sessions": session_tasks(config, persona, history, banks),
        "questions": plan_questions(config, persona, history, banks),
    }
    for stage, of_stage in tasks.items():
        worst = Worst(one_topic)
        for task in of_stage:
            with pytest.raises(ReplyError, match="still wrong after 2 rewrites"):
                STAGES[stage].write(Client(worst, attempts=ATTEMPTS), banks, task)
        entries = [entry for entry in estimate(asked(one_topic, stage)) if entry.model]
        assert worst.calls == {entry.template: entry.most_calls for entry in entries}
    worst = Worst(one_topic)
    for task in filler_tasks(config):
        STAGES["fillers"].write(Client(worst, attempts=ATTEMPTS), banks, task)
    assert worst.calls == {"filler": 9 * config.fillers}
    assert by_template(estimate(asked(one_topic, "fillers")))["filler"].most_calls == 9 * config.fillers


def test_the_offline_backend_is_asked_once_for_everything(work: RunInputs) -> None:
    assert all(entry.most_calls == entry.calls and not entry.if_needed for entry in estimate(work))
