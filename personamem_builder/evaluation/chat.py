"""From a stored history to the messages a model gets.

The stored histories hold the persona as a system message at the start of every session, neighbouring messages of one
role, and speaker labels inside the text. Many chat templates refuse the first two. `normalise` is the one way in
which the benchmark changes them; `lm_eval_tasks/README.md` shows its result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from generation.errors import UserError
from personamem_builder.memory.sessions import spoken
from personamem_builder.schema import Message

Roles = Literal["normalised", "verbatim", "no_system"]

_MARK: Final = re.compile(r"\[Session \d+\]\n")


def build_messages(
    history: Sequence[Message],
    session_starts: Sequence[int],
    question: str,
    *,
    roles: Roles,
    instruction: str | None = None,
) -> list[Message]:
    """Return the message list for one question, the last of which is the user's.

    Args:
        history: The context, cut at the question's end index; empty for a run without context.
        session_starts: Indices into the whole context at which a session starts.
        question: Text of the last user turn.
        roles: `normalised` (see `normalise`), `no_system` (the same, with the persona moved to the front of the
            first user message, for templates that know no system role), or `verbatim` (as stored).
        instruction: A system instruction of the user's, put before everything else.
    """
    if roles == "verbatim":
        messages = [message.copy() for message in history] + [{"role": "user", "content": question}]
        return [{"role": "system", "content": instruction}, *messages] if instruction else messages
    messages = normalise(history, session_starts)
    if instruction:
        messages = _with_instruction(messages, instruction)
    _append(messages, "user", question)
    return _without_system(messages) if roles == "no_system" else messages


def normalise(history: Sequence[Message], session_starts: Sequence[int]) -> list[Message]:
    """Return a history that any chat template can take.

    - The persona stays once, as the leading system message; its repeats are dropped. Another system text keeps its
      place, inside the message that follows it.
    - Each session starts with a line `[Session N]`.
    - Neighbouring messages of one role become one, with a blank line between them. The first message after the
      system message is the user's: a session that the assistant opens has its mark there.
    - Texts are kept as they are, speaker labels included.
    """
    starts = {0, *session_starts}
    persona: str | None = None
    result: list[Message] = []
    pending = ""
    session = 0
    for index, message in enumerate(history):
        if index in starts:
            session += 1
            pending += f"[Session {session}]\n"
        if message["role"] != "system":
            if pending and message["role"] == "assistant" and not any(m["role"] == "user" for m in result):
                _append(result, "user", pending.rstrip("\n"))
                pending = ""
            _append(result, message["role"], pending + message["content"])
            pending = ""
        elif persona is None:
            persona = message["content"]
        elif message["content"] != persona:
            pending += f"{message['content']}\n\n"
    if persona is not None:
        result.insert(0, {"role": "system", "content": persona})
    return result


def _append(messages: list[Message], role: str, content: str) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += f"\n\n{content}"
    else:
        messages.append({"role": role, "content": content})


def _with_instruction(messages: list[Message], instruction: str) -> list[Message]:
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{instruction}\n\n{messages[0]['content']}"}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]


def _without_system(messages: list[Message]) -> list[Message]:
    if messages[0]["role"] != "system":
        return messages
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def to_text(messages: Sequence[Message]) -> str:
    """Return the history as plain text that ends where the assistant's answer would start.

    Messages are parted by a blank line and get `User: ` or `Assistant: ` in front, unless their text already names
    its speaker. This is what a model sees without a chat template.
    """
    return f"{history_text(messages)}\n\nAssistant:"


def history_text(messages: Sequence[Message]) -> str:
    """Return what was said as plain text, in the form of `to_text`."""
    return "\n\n".join(map(_labelled, messages))


def _labelled(message: Message) -> str:
    content = message["content"]
    mark = found[0] if (found := _MARK.match(content)) else ""
    if message["role"] == "system":
        return content
    return mark + spoken({"role": message["role"], "content": content[len(mark) :]})


class HistoryPlace(NamedTuple):
    """Which history a prompt shows, by the name of those that start alike, and how far: its end index."""

    group: str
    end: int


def by_history(requests: Sequence[Any]) -> list[list[int]]:
    """Return the numbers of requests, those that share a history together and ordered by how much of it they show.

    Asked in this order, most of a prompt is in a cache of prefixes. Requests of other tasks say nothing of a history.
    """
    groups: dict[object, list[int]] = {}
    for number, request in enumerate(requests):
        place = getattr(request, "history", None)
        groups.setdefault(place.group if place else number, []).append(number)
    return [
        sorted(own, key=lambda number: requests[number].history.end) if isinstance(group, str) else own
        for group, own in groups.items()
    ]


class RenderedPrompt(str):
    """A prompt whose trailing white space belongs to it.

    lm-eval moves white space from the end of the context to the start of the continuation, so that with most chat
    templates the score of an option would include the line break before it. It finds that white space by `rstrip`.
    """

    def rstrip(self, chars: str | None = None, /) -> str:
        """Return the prompt as it is."""
        return self


class PromptRef(str):
    """Stands for a prompt that is rendered when its turn comes: a history would otherwise be held once per question.

    As a string it is a digest, which is what lm-eval logs and caches by. Prompts of one `group` share their history.
    Without the chat template (`templated`) the messages become plain text.
    """

    group: str
    messages: Callable[[], list[Message]]
    templated: bool

    def __new__(
        cls, digest: str, group: str, messages: Callable[[], list[Message]], templated: bool = True
    ) -> PromptRef:
        """Make a reference."""
        ref = super().__new__(cls, digest)
        ref.group, ref.messages, ref.templated = group, messages, templated
        return ref

    def rstrip(self, chars: str | None = None, /) -> str:
        """Return the reference as it is, see `RenderedPrompt`."""
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Other processes get the digest only."""
        return str, (str(self),)


def render(chat_template: Any, messages: Sequence[Message]) -> Any:
    """Apply lm-eval's `LM.apply_chat_template` and make sure that nothing was lost.

    Returns:
        Text for local models, the encoded messages for chat endpoints.

    Raises:
        UserError: The template refuses the messages, or its text lacks one of them. (lm-eval itself drops all system
            messages when a template refuses them, with no more than a warning.)
    """
    hint = "try --metadata roles=no_system, which moves the persona into the first user message"
    try:
        prompt = chat_template(list(messages), add_generation_prompt=True)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "jinja2":
            raise
        raise UserError(f"the model's chat template refuses the messages: {error}", hint) from error
    if not isinstance(prompt, str):
        _check_encoded(prompt, messages)
        return prompt
    position = 0
    for message in messages:
        text = message["content"].strip()
        found = prompt.find(text, position)
        # Some templates move the system message to the end, so look behind as well.
        if found < 0 and text not in prompt:
            raise UserError(f"the model's chat template drops a message of the role {message['role']!r}", hint)
        position = max(position, found)
    return RenderedPrompt(prompt) if type(prompt) is str else prompt


def _check_encoded(prompt: Any, messages: Sequence[Message]) -> None:
    encoded = getattr(prompt, "prompt", None)  # lm-eval's JsonChatStr
    if isinstance(encoded, str) and json.loads(encoded) != list(messages):
        raise UserError("the model backend changed the messages", "report this with the name of the backend")
