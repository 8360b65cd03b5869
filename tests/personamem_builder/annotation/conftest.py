"""Items as they come out of a dataset, made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from personamem_builder.annotation.items import AnnotationItem, history_lines

MakeItem = Callable[..., AnnotationItem]


@pytest.fixture
def make_item() -> MakeItem:
    """Make an item with four options, whose second message is the evidence; or one that shows all its history."""

    def make(number: int = 0, *, whole: bool = False, text: str = "I like tea now.", **row: Any) -> AnnotationItem:
        question: Mapping[str, Any] = {
            "question_id": f"question-{number}",
            "persona_id": number,
            "question_type": "suggest_new_ideas",
            "topic": "foodRecommendation",
            "user_question_or_message": f"What shall I drink, {number}?",
            "all_options": ["(a) Tea.", "(b) Coffee.", "(c) Water.", "(d) Juice."],
            "answer_index": number % 4,
            "shared_context_id": f"context-{number}",
            **row,
        }
        context = {
            "messages": [
                {"role": "system", "content": "Name: Kim."},
                {"role": "user", "content": text},
                {"role": "assistant", "content": "Noted."},
            ],
            "session_starts": [0],
            "session_topics": ["foodRecommendation"],
            "session_dates": ["2024-01-01"],
        }
        return AnnotationItem(question, history_lines(context, range(3), set() if whole else {1}, 3), whole)

    return make
