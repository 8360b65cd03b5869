"""Scores that others published, quoted as they stand: on the official release, by protocols of their own.

They are shown beside a table of the same split, never ranked with its rows: nobody's answers to single questions are
known, so they have no interval here and no comparison question by question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_PAPER: Final = "arXiv 2504.14225, full context, options shown"
_MEMORY: Final = "memory systems by the protocol of MemOS and Memind, answers by GPT-4o-mini"
_AUTHOR: Final = "the author of PersonaMem, github.com/bowen-upenn/PersonaMem, issues 28 and 29"


class PublishedScore(NamedTuple):
    """A published score, as a fraction, and who says so; `types` is by question type, where that was published."""

    system: str
    score: float
    source: str
    types: Mapping[str, float] = {}


_TYPES: Final = (
    "revisit_reasons_behind_preference_updates",
    "track_full_preference_evolution",
    "provide_preference_aligned_recommendations",
    "recall_user_shared_facts",
    "acknowledge_latest_user_preferences",
    "generalize_to_new_scenarios",
    "suggest_new_ideas",
)
"""In the order of the author's table."""


def _author(system: str, score: float, *types: float) -> PublishedScore:
    return PublishedScore(system, score, _AUTHOR, dict(zip(_TYPES, types, strict=False)))


def _memory(scores: Mapping[str, float]) -> tuple[PublishedScore, ...]:
    return tuple(PublishedScore(system, score, _MEMORY) for system, score in scores.items())


def _paper(scores: Mapping[str, float]) -> tuple[PublishedScore, ...]:
    return tuple(PublishedScore(system, score, _PAPER) for system, score in scores.items())


PUBLISHED: Final[Mapping[str, tuple[PublishedScore, ...]]] = {
    "32k": (
        _author("GPT-4o + Mem0", 0.58, 0.77, 0.58, 0.67, 0.47, 0.67, 0.65, 0.26),
        _author("GPT-4o", 0.39, 0.74, 0.65, 0.31, 0.18, 0.43, 0.09, 0.33),
        # Its scores by type repeat those of GPT-4o + Mem0, most likely a slip: they are not quoted.
        _author("GPT-4o-mini + Mem0", 0.39),
        _author("GPT-4o-mini", 0.32, 0.74, 0.48, 0.29, 0.29, 0.18, 0.07, 0.16),
        PublishedScore(
            "Memind",
            0.679,
            _MEMORY,
            {
                "revisit_reasons_behind_preference_updates": 0.889,
                "track_full_preference_evolution": 0.604,
                "provide_preference_aligned_recommendations": 0.800,
                # Two labels of the release in one: 71.3 % of 129 questions and 76.5 % of 17.
                "recall_user_shared_facts": 0.719,
                "generalize_to_new_scenarios": 0.754,
                "suggest_new_ideas": 0.387,
            },
        ),
        *_memory(
            {
                "MemOS": 0.612,
                "MemoBase": 0.589,
                "Zep": 0.578,
                "MemU": 0.568,
                "Supermemory": 0.539,
                "GPT-4o-mini": 0.435,
                "Mem0": 0.431,
                "MIRIX": 0.383,
            }
        ),
    ),
    "128k": _paper(
        {
            "Gemini-1.5-Flash": 0.52,
            "GPT-4.5": 0.52,
            "GPT-4.1": 0.52,
            "o1": 0.50,
            "Gemini-2.0-Flash": 0.49,
            "o4-mini": 0.48,
            "Gemini-2.0-Flash-Lite": 0.48,
            "GPT-4o": 0.45,
            "DeepSeek-R1": 0.45,
            "Llama-4-Maverick": 0.43,
            "o3-mini": 0.39,
            "GPT-4o-mini": 0.39,
            "Llama-3.1-405B": 0.31,
            "Claude-3.5-Haiku": 0.30,
            "Claude-3.7-Sonnet": 0.26,
        }
    ),
    "1M": _paper(
        {
            "Gemini-1.5-Flash": 0.45,
            "Gemini-2.0-Flash-Lite": 0.38,
            "Gemini-2.0-Flash": 0.37,
            "Llama-4-Maverick": 0.28,
        }
    ),
}
"""By split and source, best first."""
