"""The prompts are what the examples in `rendered/` show, and a template can do nothing but insert its facts.

`rendered/facts.json` holds the facts of real calls of a run of `examples/tiny.yaml`, frozen so that an edited bank
changes no example. To write facts and examples anew: PERSONAMEM_WRITE_RENDERED=1 python -m pytest THIS_FILE
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_runs import tiny_work

from generation import prompts
from generation.banks.load import load_shipped_banks
from generation.banks.topic import TopicBank
from generation.errors import UserError
from generation.generic_replies import generic_request
from generation.history_records import History
from generation.llm.client import Request
from generation.new_topic_parts import OutlineReply, outline_part, parts_of
from generation.prompts import render, template_digests
from generation.question_plans import QuestionPlan, plan_questions
from generation.records import QUESTION_TYPES, Persona, Question
from generation.resources import data_dir
from generation.revision import rewrite_request
from generation.run_inputs import RunInputs
from generation.session_text import SessionReply, coverage_request, expand_request, mend_request
from generation.stages.fillers import filler_request, filler_tasks
from generation.stages.histories import draw_history, history_request, write_history
from generation.stages.personas import draw_personas, persona_request, write_persona
from generation.stages.questions import QuestionReply, question_request, read_options_request, write_question
from generation.stages.sessions import session_request, session_tasks
from personamem_builder.annotation.errors import WrongAnswer
from personamem_builder.annotation.judge import judge_request
from personamem_builder.evaluation.chat import history_text
from personamem_builder.refine.no_context import no_context_request
from personamem_builder.schema import Message, question_columns

RENDERED = Path(__file__).parent / "rendered"
NAMES = sorted(name.removesuffix(".j2") for name in template_digests() if not name.startswith("_"))
# Read before the fixture that hides the user's settings.
WRITE = bool(os.environ.get("PERSONAMEM_WRITE_RENDERED"))

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def work() -> RunInputs:
    return tiny_work()


@pytest.fixture(scope="module")
def user(work: RunInputs) -> tuple[Persona, History]:
    client = work.client()
    persona = write_persona(client, draw_personas(work.config, work.banks)[0])
    return persona, write_history(client, draw_history(work.config, persona, work.banks))


@pytest.fixture(scope="module")
def plans(work: RunInputs, user: tuple[Persona, History]) -> list[QuestionPlan]:
    return plan_questions(work.config, *user, work.banks)


@pytest.fixture(scope="module")
def real_facts(work: RunInputs, user: tuple[Persona, History], plans: list[QuestionPlan]) -> dict[str, Facts]:
    """For each template, the facts of a call that the tiny run makes."""
    config, banks = work.config, work.banks
    # One that tells things of every kind, in every way, of everybody, and life events.
    session = session_request(max(session_tasks(config, *user, banks), key=lambda task: _variety(task.facts)))
    written = work.client().ask(session, SessionReply)
    question = question_request(plans[0], banks)
    words = work.client().ask(question, QuestionReply)
    faults = ["option 2 is to assert: one thing; it was taken for: another"]
    requests = [
        persona_request(draw_personas(config, banks)[0]),
        history_request(draw_history(config, user[0], banks)),
        session,
        coverage_request(session, written),
        expand_request(session, written),
        mend_request(session, written, ["turn 3: the user names 'one thing', which must not be named there"], (0, 0)),
        filler_request(filler_tasks(config)[0]),
        read_options_request(question, words)[0],
        rewrite_request(question, words, faults, (0, 0)),
        no_context_request(write_question(work.client(), plans[0], banks), 0),
        _judged(write_question(work.client(), plans[0], banks), written),
        generic_request(question, plans[0].question_type, words.message, words.options[2:]),
        *(question_request(plan, banks) for plan in reversed(plans)),
    ]
    outline = OutlineReply.model_validate(_outline(load_shipped_banks().topics["musicRecommendation"]))
    music = "listening to music"
    requests += [part.request for part in (outline_part(music), *parts_of(music, outline))]
    faults = ["turns.3.user: Field required", "1f5b is told in no turn"]
    return {"repair": {"faults": faults}} | {request.template: dict(request.facts) for request in requests}


def _judged(question: Question, session: SessionReply) -> Request:
    said: list[Message] = []
    for turn in session.turns[:2]:
        said += [{"role": "user", "content": turn.user}, {"role": "assistant", "content": turn.assistant}]
    wrong = next(letter for letter in "ab" if letter != "abcd"[question.answer_index])
    error = WrongAnswer(question_columns(question), wrong, False, f"I choose ({wrong}).", "answered")
    return judge_request(error, history_text(said))


def _outline(bank: TopicBank) -> dict[str, Any]:
    named = {key: [{"id": one.id, "name": one.name} for one in getattr(bank, key)] for key in ("slots", "facts")}
    return {"label": bank.label, "items": [item.model_dump() for item in bank.items[:24]], **named}


def _variety(facts: Facts) -> int:
    kinds = {(one["kind"], one["changed"], one["whose"], one["telling"]) for one in facts["told"]}
    return len(kinds) + 100 * bool(facts["life_events"])


@pytest.fixture(scope="module", autouse=True)
def written(real_facts: dict[str, Facts]) -> None:
    if WRITE:
        text = json.dumps(real_facts, indent=1, ensure_ascii=False, sort_keys=True)
        (RENDERED / "facts.json").write_text(text + "\n", encoding="utf-8")
        for name, facts in real_facts.items():
            (RENDERED / f"{name}.txt").write_text(render(name, facts), encoding="utf-8")


def frozen_facts(name: str) -> Facts:
    facts: Facts = json.loads((RENDERED / "facts.json").read_text(encoding="utf-8"))[name]
    return facts


# --- the rendered examples


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_what_its_example_shows(name: str) -> None:
    assert render(name, frozen_facts(name)) == (RENDERED / f"{name}.txt").read_text(encoding="utf-8")


def test_every_template_has_an_example_and_every_example_a_template() -> None:
    assert {path.stem for path in RENDERED.glob("*.txt")} == set(NAMES)
    readers = {"coverage", "read_options"}
    assert {"persona", "general_history", "session", "filler", "repair", "expand", "rewrite", *readers} < set(NAMES)
    assert set(QUESTION_TYPES) < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_have_the_facts_that_real_calls_have(name: str, real_facts: dict[str, Facts]) -> None:
    assert shape(frozen_facts(name)) == shape(real_facts[name])


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items()}
    if isinstance(value, list):  # of texts there may be none
        return [shape(value[0])] if value and not isinstance(value[0], str) else "texts"
    return type(value).__name__


OF_A_RUN = [name for name in NAMES if not name.startswith("new_topic") and name not in ("repair", "rewrite")]


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_prompt_names_things_as_people_do_and_no_identifiers_but_those_of_events(name: str) -> None:
    prompt, _, answer = render(name, frozen_facts(name)).rpartition("Answer with JSON")
    assert answer
    for original in re.findall(r"Answer with JSON.*", prompt):  # of a text that is written anew
        prompt = prompt.replace(original, "")
    assert re.findall(r"\b[a-z]+_[a-z_]+\b|\b[a-z]+[A-Z][A-Za-z]*\b", prompt.replace("told_ids", "")) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_asks_for_json(name: str) -> None:
    assert "JSON" in render(name, frozen_facts(name))


def test_a_session_prompt_tells_all_that_the_session_must_hold() -> None:
    facts = frozen_facts("session")
    prompt = render("session", facts)
    assert {one["whose"] for one in facts["told"]} >= {"user", "other"}
    assert len({one["kind"] for one in facts["told"]}) >= 2
    assert len({one["telling"] for one in facts["told"]}) >= 2
    for one in facts["told"]:
        state = one["state"].replace("; ", ", ")
        for part in (one["told_id"], one["when"], one["person"], state, one["reason"], *one["avoid"]):
            assert part in prompt
    for name in (*facts["named"], *facts["circle"]):
        assert name in prompt
    for offer in facts["offers"]:
        assert "; ".join(offer["names"]) in prompt
    assert f"Exactly {facts['turns']} turns" in prompt


def test_a_coverage_prompt_does_not_say_whose_anything_is() -> None:
    facts = frozen_facts("coverage")
    assert {(one["whose"], one["person"]) for one in facts["told"]} == {("", "")}
    assert [one["told_id"] for one in facts["told"]] == sorted(one["told_id"] for one in facts["told"])


@pytest.mark.parametrize("name", QUESTION_TYPES)
def test_a_question_prompt_names_every_state_once_and_in_order(name: str) -> None:
    facts = frozen_facts(name)
    prompt = render(name, facts)
    numbered = [line for line in prompt.splitlines() if line[:3] in ("1. ", "2. ", "3. ", "4. ")]
    said = [facts["meanings"].get(states[0], ", then ".join(states)) for states in facts["states"]]
    assert numbered == [f"{i}. {text}" for i, text in enumerate(said, start=1)]


# --- no prompt tells which option is right


@pytest.mark.parametrize("name", QUESTION_TYPES)
def test_a_prompt_is_the_same_whichever_option_is_right(name: str, plans: list[QuestionPlan], work: RunInputs) -> None:
    asked = [plan for plan in plans if plan.question_type == name]
    assert asked
    for plan in asked:
        prompt = _prompt(plan, work)
        for right in range(1, 4):
            options = [option._replace(role="never") for option in plan.options]
            options[0], options[right] = options[right]._replace(role="current"), options[0]
            assert _prompt(plan._replace(options=tuple(options), evidence=plan.evidence[:1]), work) == prompt


@pytest.mark.parametrize("name", ["acknowledge_latest_user_preferences", "track_full_preference_evolution"])
def test_a_prompt_about_an_item_does_not_tell_which_item_the_user_knows(name: str, work: RunInputs) -> None:
    config = work.config.model_copy(update={"personas": 8})
    about_items = [
        plan
        for task in draw_personas(config, work.banks)
        for plan in plan_questions(
            config,
            task.persona,
            History(
                persona_id=task.persona.persona_id,
                general=(),
                topics=draw_history(config, task.persona, work.banks).topics,
            ),
            work.banks,
        )
        if plan.question_type == name and plan.kind == "item"
    ]
    assert about_items
    for plan in about_items:
        items = {state.partition(": ")[2] for option in plan.options for state in option.states}
        assert len(items) == 2
        (other,) = items - {plan.subject}
        assert _prompt(plan, work) == _prompt(plan._replace(subject=other), work)


def _prompt(plan: QuestionPlan, work: RunInputs) -> str:
    request = question_request(plan, work.banks)
    return render(request.template, request.facts)


# --- strict and sandboxed


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Replace the templates by one, named `mine`, beside those that are shipped."""
    folder = Path(shutil.copytree(data_dir("templates"), tmp_path / "templates"))
    monkeypatch.setattr(prompts, "data_dir", lambda name: folder)
    prompts._environment.cache_clear()
    yield lambda text: (folder / "mine.j2").write_text(text, encoding="utf-8") and None
    prompts._environment.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "{{ nmae }}",
        "{% if nmae %}x{% endif %}",
        "{% for x in nmae %}{% endfor %}",
        "{{ user.nmae }}",
        "{{ nmae | join }}",
    ],
)
def test_an_undefined_name_is_an_error_that_names_it(template: Callable[[str], None], text: str) -> None:
    template(text)
    with pytest.raises(UserError) as caught:
        render("mine", {"name": "Ada", "user": {"age": 3}})
    assert caught.value.message.startswith("templates/mine.j2: ")
    assert "nmae" in caught.value.message
    assert caught.value.hint == "a template may refer to name, user"


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_fact_is_an_error_that_names_it_unless_the_prompt_needs_it_not(name: str) -> None:
    facts = frozen_facts(name)
    for missing in facts:
        rest = {key: value for key, value in facts.items() if key != missing}
        if _needs(name, missing):
            with pytest.raises(UserError, match=rf"templates/{name}\.j2: .*'{missing}'"):
                render(name, rest)
        else:
            assert render(name, rest) == render(name, facts)


def _needs(name: str, fact: str) -> bool:
    """Say whether a prompt changes with a fact."""
    facts = frozen_facts(name)
    other = {"a": 1} if isinstance(facts[fact], str) else f"other {fact}"
    try:
        return render(name, {**facts, fact: other}) != render(name, facts)
    except (UserError, TypeError, AttributeError):
        return True


@pytest.mark.parametrize(
    "text",
    [
        "{{ name.__class__ }}",
        "{{ name.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ name.format.__globals__ }}",
        "{{ name['__class__'] }}",
        "{{ name | attr('__class__') }}",
        "{{ '{0.__class__}'.format(name) }}",
        "{{ items.append(3) }}",
    ],
)
def test_a_template_cannot_reach_behind_its_facts_or_change_them(template: Callable[[str], None], text: str) -> None:
    template(text)
    items = [1, 2]
    with pytest.raises(UserError, match=r"templates/mine\.j2: "):
        render("mine", {"name": "Ada", "items": items})
    assert items == [1, 2]


def test_a_template_includes_no_file_from_elsewhere(template: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "secret.j2").write_text("secret")
    template('{% include "../secret.j2" %}')
    with pytest.raises(UserError, match=r"templates/mine\.j2: TemplateNotFound"):
        render("mine", {})


def test_a_template_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r"templates/nothing\.j2: TemplateNotFound"):
        render("nothing", {})


def test_a_template_with_an_error_of_syntax_is_named(template: Callable[[str], None]) -> None:
    template("{% if name %}")
    with pytest.raises(UserError, match=r"templates/mine\.j2: TemplateSyntaxError"):
        render("mine", {"name": "Ada"})


def test_facts_that_look_like_templates_are_not_rendered(template: Callable[[str], None]) -> None:
    template("{{ text }}|{{ texts | join(',') }}|{% for t in texts %}{{ t }}{% endfor %}")
    text = "{{ 7 * 7 }}{% if %}{# gone #}<b>&amp;"
    assert render("mine", {"text": text, "texts": [text]}) == f"{text}|{text}|{text}"


def test_facts_with_braces_come_through_a_shipped_template_as_they_are() -> None:
    facts = frozen_facts("persona") | {"description": "someone who writes {{ name }} and {% raw %}"}
    assert "- in short: someone who writes {{ name }} and {% raw %}\n" in render("persona", facts)


def test_an_edited_template_has_another_digest(template: Callable[[str], None]) -> None:
    template("one")
    before = template_digests()
    template("two")
    after = template_digests()
    assert {name for name in before if before[name] != after[name]} == {"mine.j2"}
    assert "_option_rules.j2" in before, "what templates include counts as well"
