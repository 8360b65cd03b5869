from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from generation.errors import UserError
from personamem_builder.build.write import Source, write_dataset
from personamem_builder.dataset.load import iter_examples
from personamem_builder.inspection import (
    InspectedQuestion,
    Paragraph,
    history_api_dict,
    history_string,
    inspect_question,
    question_lines,
    question_list,
    show,
)
from personamem_builder.schema import QUESTION_SCHEMA, SHORT_TYPES


def shown(inspected: InspectedQuestion, *, full: bool = False, **console: Any) -> str:
    file = io.StringIO()
    show(question_lines(inspected, full=full), Console(file=file, **console))
    return file.getvalue()


def inspected(question: dict[str, Any] | None = None, **context: Any) -> InspectedQuestion:
    """A question that was made up: three messages, two sessions, evidence in the second message."""
    contents = ["About  the\nuser.", "I like tea.\n\nAnd [red]more[/red].", "x" * 300, "later"]
    roles = ["system", "user", "assistant", "user"]
    row = {
        "question_id": "q-1",
        "persona_id": 3,
        "question_type": "suggest_new_ideas",
        "source_question_type": "suggest_new_ideas",
        "topic": "drinks",
        "distance_to_ref_in_blocks": 2,
        "distance_to_ref_in_tokens": 1234,
        "distance_to_ref_proportion_in_context": 0.5,
        "user_question_or_message": "What now?",
        "all_options": ["(a) tea", "(b) coffee", "(c) milk", "(d) water"],
        "answer_index": 2,
        "end_index_in_shared_context": 3,
        "evidence_message_indices": [1],
        "evidence_event_ids": ["e1"],
    }
    described = {"session_starts": [0, 2], "session_topics": ["drinks", ""], "session_dates": ["2020-05-01", ""]}
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    return InspectedQuestion("32k", row | (question or {}), {"messages": messages} | described | context)


def test_what_is_shown() -> None:
    text = shown(inspected({"option_states": [["tea"], ["tea", "coffee"], ["milk"], []], "option_roles": list("wxyz")}))
    assert text.splitlines() == [
        "question  q-1 (32k)",
        "persona   3",
        "type      suggest_new_ideas",
        "topic     drinks",
        "distance  2 sessions, 1,234 tokens (50.0% of the context)",
        "evidence  messages 1, marked >>>",
        "",
        "--- session 1: drinks, initial, 2020-05-01 ---",
        "      0 system    About the user.",
        ">>>   1 user      [evidence: e1]",
        ">>>               I like tea.",
        ">>>",
        ">>>               And [red]more[/red].",
        "",
        "--- filler ---",
        "      2 assistant " + "x" * 101 + "…",
        "",
        "=== the question, after 3 of 4 messages; what follows is not seen ===",
        "        user      What now?",
        "",
        "   (a) tea",
        "       w; asserts tea",
        "   (b) coffee",
        "       x; asserts tea, then coffee",
        "=> (c) milk",
        "       right; y; asserts milk",
        "   (d) water",
        "       z; asserts nothing",
    ]


def test_in_full_every_message_is_whole() -> None:
    lines = shown(inspected(), full=True).splitlines()
    assert lines[8:10] == ["      0 system    About  the", "                  user."]
    assert "      2 assistant " + "x" * 300 in lines
    assert "later" not in lines


def test_without_evidence_topics_and_what_options_assert_it_says_so() -> None:
    nothing: dict[str, Any] = {"evidence_message_indices": [], "evidence_event_ids": [], "source_question_type": "old"}
    text = shown(inspected(nothing, session_topics=["", ""], session_dates=["", ""]))
    assert "evidence  none is recorded in this dataset\n" in text
    assert "type      suggest_new_ideas (in the source old)\n" in text
    assert "--- session 1: topic and date unknown ---\n" in text
    assert "--- session 2: topic and date unknown ---\n" in text
    assert ">>>" not in text
    assert "=> (c) milk\n       right\n   (d) water\n" in text
    assert "asserts" not in text


def test_sessions_of_a_topic_are_named_by_their_periods() -> None:
    described = {"session_starts": [0, 1, 2], "session_topics": ["drinks", "films", "drinks"]}
    text = shown(inspected(session_dates=["2020-05-01", "2020-05-03", "2020-05-07"], **described))
    for number, words in enumerate(
        ("drinks, initial, 2020-05-01", "films, initial, 2020-05-03", "drinks, next week, 20"), 1
    ):
        assert f"--- session {number}: {words}" in text


def test_data_with_more_sessions_of_a_topic_than_periods_have_no_periods() -> None:
    five = {"session_starts": [0, 0, 0, 0, 2], "session_topics": ["drinks"] * 5, "session_dates": ["2020-05-01"] * 5}
    assert "--- session 5: drinks, 2020-05-01 ---" in shown(inspected(**five))


def test_two_events_in_one_message_are_told_together() -> None:
    both = {"evidence_message_indices": [1, 0, 1], "evidence_event_ids": ["e1", "e0", "e2"]}
    text = shown(inspected(both))
    assert "evidence  messages 0, 1, marked >>>\n" in text
    assert ">>>   1 user      [evidence: e1, e2]\n" in text
    assert text.count("I like tea.") == 1


def test_a_terminal_gets_colours_and_lines_of_its_width() -> None:
    text = shown(inspected(), full=True, force_terminal=True, width=60, color_system="standard")
    assert "\x1b[33mI like tea.\x1b[0m" in text
    assert "x" * 42 + "\x1b[0m\n" in text
    assert "x" * 43 not in text


def test_no_color_is_respected() -> None:
    # Given to the console: other libraries in this process may have replaced the environment that rich looks at.
    environment = {"NO_COLOR": "1"}
    text = shown(inspected(), force_terminal=True, width=60, color_system="standard", _environ=environment)
    assert not any(f"\x1b[{code}m" in text for code in ("33", "1;33", "1;36", "32", "1;32"))
    assert ">>>               I like tea.\n" in text


def test_a_text_cannot_steer_the_terminal() -> None:
    text = shown(inspected({"user_question_or_message": "a\x1b[2Jb\x07\x9bc\td"}))
    assert "        user      a�[2Jb��c" in text
    assert not {"\x1b", "\x07", "\x9b", "\t"} & set(text)


def test_a_narrow_terminal_still_shows_something() -> None:
    assert "x" * 19 + "…" in shown(inspected(), force_terminal=True, width=5, color_system=None)


def test_questions_of_a_generated_dataset_can_be_shown(generated: Path) -> None:
    for row in list(iter_examples("32k", data=generated))[::8]:
        found = inspect_question(generated, "32k", row["question_id"])
        assert found.question == {key: value for key, value in row.items() if key != "context"}
        assert found.history == row["context"]
        text = shown(found, full=True)
        assert text.count("[evidence: ") == len(set(row["evidence_message_indices"]))
        for message in row["context"]:
            assert all(line.rstrip() in text for line in message["content"].split("\n"))
        assert text.count("\n=> (") == 1
        assert f"\n=> {row['all_options'][row['answer_index']]}\n" in text
        assert text.count("\n       right; ") == 1
        starts = [start for start in found.context["session_starts"] if start < len(found.history)]
        assert text.count("\n--- ") == len(starts)


def test_evidence_holds_its_event_whole(generated: Path) -> None:
    row = next(iter(iter_examples("32k", data=generated)))
    text = shown(inspect_question(generated, "32k", row["question_id"]))
    for i in row["evidence_message_indices"]:
        assert all(f">>>               {line}".rstrip() in text for line in row["context"][i]["content"].split("\n"))


def test_the_official_excerpt_can_be_shown(dataset_folder: Path) -> None:
    row = next(iter(iter_examples("32k", data=dataset_folder)))
    text = shown(inspect_question(dataset_folder, "32k", row["question_id"]))
    assert "evidence  none is recorded in this dataset\n" in text
    assert "--- session 2: topic and date unknown ---\n" in text
    assert f"after {row['end_index_in_shared_context']} of 183 messages" in text


def test_the_history_in_either_form(dataset_folder: Path) -> None:
    row = next(iter(iter_examples("32k", data=dataset_folder)))
    history = inspect_question(dataset_folder, "32k", row["question_id"]).history
    assert json.loads(history_api_dict(history)) == row["context"]
    assert history_string(history[:2]) == "\n\n".join(f"{m['role']}: {m['content']}" for m in row["context"][:2])
    assert history_string([]) == ""
    assert history_api_dict([]) == "[]"


def test_the_beginning_of_an_id_is_enough(generated: Path) -> None:
    for row in list(iter_examples("32k", data=generated))[:5]:
        found = inspect_question(generated, "32k", row["question_id"][:8])
        assert found.question["question_id"] == row["question_id"]


def with_ids(folder: Path, *ids: str) -> Path:
    """Write a dataset whose questions have these ids."""
    counts = {"context_length_in_tokens": 1, "context_length_in_letters": 1, "num_irrelevant_tokens": 0}
    row = inspected().question | {"shared_context_id": "c", "correct_answer": "(c)"} | counts
    context = {"shared_context_id": "c", "persona_id": 3, "num_tokens": 9} | inspected().context
    rows = [row | {"question_id": key} for key in ids]
    questions = {"32k": [pa.Table.from_pylist(rows, schema=QUESTION_SCHEMA)]}
    write_dataset(folder, questions, [("32k", context)], Source("a test", "", "mit", "1.0.0", "f"))
    return folder


def test_an_id_that_begins_another_is_found_and_a_short_one_too(tmp_path: Path) -> None:
    folder = with_ids(tmp_path / "d", "abcdef1", "abcdef", "q1")
    for key in ("abcdef", "abcdef1", "q1"):
        assert inspect_question(folder, "32k", key).question["question_id"] == key


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("abcdef", r"'abcdef' begins 4 ids: abcdef1, abcdef2, abcdef3, …", "give more of the id"),
        ("abcde", r"'abcde' is not the id of a question in 32k", "the first 6 characters"),
        ("", r"'' is not the id", "the first 6 characters"),
        ("abcdeg", r"d: no id begins with 'abcdeg'", "leave --question out"),
    ],
)
def test_an_id_that_means_none_or_several_is_an_error(tmp_path: Path, given: str, message: str, hint: str) -> None:
    folder = with_ids(tmp_path / "d", *(f"abcdef{i}" for i in (1, 2, 3, 4)))
    with pytest.raises(UserError, match=message) as raised:
        inspect_question(folder, "32k", given)
    assert hint in raised.value.hint


def test_the_list_has_the_first_twenty(generated: Path) -> None:
    rows, count = question_list(generated, "32k")
    examples = list(iter_examples("32k", data=generated))
    assert count == len(examples) > 20
    expected = [(e["question_id"], SHORT_TYPES[e["question_type"]], e["topic"]) for e in examples[:20]]
    assert [row[:3] for row in rows] == expected
    first = examples[0]
    assert rows[0].sessions == str(first["distance_to_ref_in_blocks"])
    assert rows[0].tokens == f"{first['distance_to_ref_in_tokens']:,}"


@pytest.mark.parametrize("name", ["questions_32k.parquet", "shared_contexts_32k.parquet"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_file_is_an_error_that_names_it(dataset_folder: Path, tmp_path: Path, name: str, damage: str) -> None:
    key = next(iter(iter_examples("32k", data=dataset_folder)))["question_id"]
    folder = tmp_path / "d"
    shutil.copytree(dataset_folder, folder)
    path = folder / "data" / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        path.unlink()
    with pytest.raises(UserError, match=rf"{name} cannot be read"):
        inspect_question(folder, "32k", key)


def test_a_file_with_another_content_is_an_error(dataset_folder: Path, tmp_path: Path) -> None:
    row = list(iter_examples("32k", data=dataset_folder))[-1]
    folder = tmp_path / "d"
    shutil.copytree(dataset_folder, folder)
    path = folder / "data" / "shared_contexts_32k.parquet"
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    with pytest.raises(UserError, match=r"shared_contexts_32k\.parquet cannot be read: it is not as"):
        inspect_question(folder, "32k", row["question_id"])


def test_a_paragraph_is_shown_under_what_leads_it() -> None:
    file = io.StringIO()
    show(iter([Paragraph("lead  ", "one\ntwo")]), Console(file=file))
    assert file.getvalue() == "lead  one\n      two\n"
