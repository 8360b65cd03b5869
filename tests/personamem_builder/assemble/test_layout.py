from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from small_contexts import SYSTEM, SYSTEM_TOKENS, wordless, wordless_fillers

from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.records import Block
from personamem_builder.assemble.run_records import PersonaRecords

FILLERS = wordless_fillers(20)


class Context(NamedTuple):
    """A context and what it was made of."""

    records: PersonaRecords
    blocks: list[Block]
    layout: Layout

    def __repr__(self) -> str:
        return f"Context({self.blocks})"


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    """Any sessions of a user and any fillers, in any order."""
    records = wordless(draw(st.integers(0, 3)))
    shown = records.persona.model_copy(update={"shown": draw(st.sampled_from([SYSTEM, ""]))})
    records = records._replace(persona=shown)
    sessions = [Block(kind="session", id=id_) for id_ in records.sessions]
    fillers = [Block(kind="filler", id=id_) for id_ in FILLERS]
    blocks = draw(st.lists(st.sampled_from(sessions + fillers), min_size=1, unique_by=lambda block: block.id))
    return Context(records, blocks, lay_out(records, blocks, FILLERS))


@settings(max_examples=50)
@given(contexts())
def test_messages_are_those_of_the_blocks_in_order(context: Context) -> None:
    records, blocks, layout = context
    starts = [*layout.session_starts, len(layout.messages)]
    assert len(blocks) == len(layout.session_starts)
    ends = []
    for block, start, end in zip(blocks, starts, starts[1:], strict=False):
        found = layout.messages[start:end]
        if block.kind == "session":
            ends.append(end)
            if records.persona.shown:
                assert found.pop(0) == {"role": "system", "content": SYSTEM}
        conversation = records.sessions[block.id] if block.kind == "session" else FILLERS[block.id]
        assert found == [{"role": m.role, "content": m.content} for m in conversation.messages]
    assert layout.session_ends == ends
    assert layout.session_ids == [block.id for block in blocks if block.kind == "session"]


@settings(max_examples=50)
@given(contexts(), st.data())
def test_prefix_sums_equal_direct_counts(context: Context, data: st.DataObject) -> None:
    records, _, layout = context
    lengths = {SYSTEM: SYSTEM_TOKENS}
    for conversation in records.sessions.values():
        lengths |= {message.content: n for message, n in zip(conversation.messages, conversation.tokens, strict=True)}
    tokens, filler_tokens = _direct(context, lengths)
    end = data.draw(st.integers(0, len(layout.messages)))
    assert layout.tokens_before[end] == sum(tokens[:end])
    assert layout.filler_tokens_before[end] == sum(filler_tokens[:end])
    assert layout.letters_before[end] == sum(len(message["content"]) for message in layout.messages[:end])
    for sums in (layout.tokens_before, layout.letters_before, layout.filler_tokens_before):
        assert len(sums) == len(layout.messages) + 1


def _direct(context: Context, lengths: dict[str, int]) -> tuple[list[int], list[int]]:
    _, blocks, layout = context
    tokens, filler_tokens = [], []
    starts = [*layout.session_starts, len(layout.messages)]
    for block, start, end in zip(blocks, starts, starts[1:], strict=False):
        for i in range(start, end):
            filler = FILLERS[block.id].tokens[i - start] if block.kind == "filler" else 0
            filler_tokens.append(filler)
            tokens.append(filler or lengths[layout.messages[i]["content"]])
    return tokens, filler_tokens


@settings(max_examples=50)
@given(contexts())
def test_each_event_of_a_session_has_its_message(context: Context) -> None:
    records, _, layout = context
    told = {
        event_id: (message.content, session_id)
        for session_id in layout.session_ids
        for message in records.sessions[session_id].messages
        for event_id in message.event_ids
    }
    assert layout.event_places.keys() == layout.event_sessions.keys() == told.keys()
    for event_id, (content, session_id) in told.items():
        assert layout.messages[layout.event_places[event_id]] == {"role": "user", "content": content}
        assert layout.session_ids[layout.event_sessions[event_id]] == session_id
