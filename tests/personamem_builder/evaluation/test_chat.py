"""From stored histories to message lists: nothing is lost, and any chat template can take the result."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.errors import UserError
from personamem_builder.evaluation.chat import RenderedPrompt, build_messages, normalise, render, to_text

PERSONA = "Current user persona: Ada, who likes chess."
HISTORY = [
    {"role": "system", "content": PERSONA},
    {"role": "user", "content": "User: I took up chess."},
    {"role": "assistant", "content": "Assistant: Good."},
    {"role": "system", "content": PERSONA},
    {"role": "assistant", "content": "Assistant: Welcome back."},
    {"role": "assistant", "content": "Assistant: Still chess?"},
    {"role": "user", "content": "User: No, go."},
]
STARTS = [0, 3]

histories = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": PERSONA if role == "system" else text},
        st.sampled_from(["system", "user", "assistant"]),
        st.text(min_size=1, max_size=20),
    ),
    max_size=20,
).flatmap(lambda h: st.tuples(st.just(h), st.lists(st.integers(0, max(0, len(h) - 1)), unique=True).map(sorted)))


def test_the_normalised_form_of_a_small_history() -> None:
    assert build_messages(HISTORY, STARTS, "What now?", roles="normalised") == [
        {"role": "system", "content": PERSONA},
        {"role": "user", "content": "[Session 1]\nUser: I took up chess."},
        {
            "role": "assistant",
            "content": "Assistant: Good.\n\n[Session 2]\nAssistant: Welcome back.\n\nAssistant: Still chess?",
        },
        {"role": "user", "content": "User: No, go.\n\nWhat now?"},
    ]


@given(histories)
def test_any_history_becomes_one_that_every_template_takes(drawn: tuple[list[dict[str, str]], list[int]]) -> None:
    history, starts = drawn
    messages = build_messages(history, starts, "What now?", roles="normalised")
    roles = [message["role"] for message in messages]
    assert "system" not in roles[1:]
    talk = roles[1:] if roles[0] == "system" else roles
    assert talk[0] == talk[-1] == "user"
    assert all(a != b for a, b in pairwise(talk))


@given(histories)
def test_every_text_is_kept_in_order(drawn: tuple[list[dict[str, str]], list[int]]) -> None:
    history, starts = drawn
    whole = "\n\n".join(message["content"] for message in normalise(history, starts) if message["role"] != "system")
    position = 0
    for message in history:
        if message["role"] != "system":
            position = whole.index(message["content"], position) + len(message["content"])


def test_a_session_that_the_assistant_opens_has_its_mark_in_a_user_message() -> None:
    history = [{"role": "assistant", "content": "Assistant: Hello."}]
    assert normalise(history, [0]) == [{"role": "user", "content": "[Session 1]"}, history[0]]


def test_another_system_text_keeps_its_place() -> None:
    history = [HISTORY[0], HISTORY[1], {"role": "system", "content": "Ada moved to Rome."}, HISTORY[6]]
    assert normalise(history, [0, 2])[-1] == {
        "role": "user",
        "content": "[Session 1]\nUser: I took up chess.\n\n[Session 2]\nAda moved to Rome.\n\nUser: No, go.",
    }


def test_verbatim_changes_nothing_and_adds_the_question() -> None:
    assert build_messages(HISTORY, STARTS, "What now?", roles="verbatim") == [
        *HISTORY,
        {"role": "user", "content": "What now?"},
    ]


def test_no_system_moves_the_persona_into_the_first_user_message() -> None:
    normal = build_messages(HISTORY, STARTS, "What now?", roles="normalised")
    assert build_messages(HISTORY, STARTS, "What now?", roles="no_system") == [
        {"role": "user", "content": f"{PERSONA}\n\n{normal[1]['content']}"},
        *normal[2:],
    ]


@pytest.mark.parametrize("roles", ["normalised", "verbatim", "no_system"])
def test_a_system_instruction_comes_first_and_the_history_is_not_touched(roles: Any) -> None:
    before = json.dumps(HISTORY)
    messages = build_messages(HISTORY, STARTS, "What now?", roles=roles, instruction="Be brief.")
    assert messages[0]["content"].startswith("Be brief.")
    assert json.dumps(HISTORY) == before


def test_without_history_only_the_question_is_left() -> None:
    assert build_messages([], [], "What now?", roles="normalised") == [{"role": "user", "content": "What now?"}]


def test_plain_text_names_each_speaker_once() -> None:
    messages = [
        {"role": "system", "content": PERSONA},
        {"role": "user", "content": "[Session 1]\nI took up chess."},
        {"role": "assistant", "content": "Assistant: Good."},
        {"role": "user", "content": "What now?"},
    ]
    assert to_text(messages) == (
        f"{PERSONA}\n\n[Session 1]\nUser: I took up chess.\n\nAssistant: Good.\n\nUser: What now?\n\nAssistant:"
    )


def template(source: str) -> Any:
    """Return an `apply_chat_template` that renders a Jinja chat template, as tokenizers do."""

    def apply(messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        def refuse(message: str) -> None:
            raise jinja2.TemplateError(message)

        return (
            jinja2.Environment(keep_trailing_newline=True)
            .from_string(source)
            .render(messages=messages, raise_exception=refuse)
        )

    return apply


CHATML = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content | trim }}\n{% endfor %}<|assistant|>\n"


def test_a_rendered_prompt_keeps_its_last_line_break_from_lm_eval() -> None:
    prompt = render(template(CHATML), build_messages(HISTORY, STARTS, "What now?", roles="normalised"))
    assert isinstance(prompt, RenderedPrompt)
    assert prompt.endswith("<|assistant|>\n")
    assert prompt.rstrip() == prompt


def test_a_template_that_refuses_the_messages_is_an_error_that_says_what_to_do() -> None:
    strict = template("{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}")
    messages = build_messages(HISTORY, STARTS, "What now?", roles="normalised")
    with pytest.raises(UserError, match="no system role") as caught:
        render(strict, messages)
    assert "roles=no_system" in caught.value.hint


@pytest.mark.parametrize("dropped", ["system", "assistant"])
def test_a_template_that_drops_a_message_is_an_error(dropped: str) -> None:
    lossy = template(
        CHATML.replace("%}<", f"%}}{{% if m.role != '{dropped}' %}}<", 1).replace("{% endfor", "{% endif %}{% endfor")
    )
    messages = build_messages(HISTORY, STARTS, "What now?", roles="normalised")
    with pytest.raises(UserError, match=f"drops a message of the role '{dropped}'"):
        render(lossy, messages)


def test_a_template_may_put_the_system_message_last() -> None:
    """Mistral's does."""
    moved = template("{% for m in messages[1:] %}{{ m.content }}\n{% endfor %}{{ messages[0].content }}\n")
    assert PERSONA in render(moved, build_messages(HISTORY, STARTS, "What now?", roles="normalised"))


def test_an_error_in_the_backend_is_not_taken_for_a_refusal() -> None:
    def broken(messages: Any, add_generation_prompt: bool = True) -> str:
        raise RuntimeError("no tokenizer")

    with pytest.raises(RuntimeError, match="no tokenizer"):
        render(broken, [{"role": "user", "content": "What now?"}])
