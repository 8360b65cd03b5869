"""Generic distractors: replies that suit anybody, each in the place of one that asserts something of the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel

from generation.grammar import mentions
from generation.llm.client import Request
from generation.records import QuestionType
from generation.request_facts import GenericFacts
from generation.text_checks import near_duplicates, role_faults, text_faults
from generation.tokenizer import token_length

GENERIC_TEMPLATE: Final = "generic_replies"
"""Of the call that asks for them; its name begins that of no other."""

# What a reply says that knows the user, or makes believe so.
_KNOWS: Final = re.compile(
    r"\b(?:you(?:'ve| have)? (?:once |already |just |also )*(?:told|mentioned|said|described|shared)"
    r"|I (?:still )?(?:remember|recall|know|have not forgotten|haven't forgotten)|last time|as you know"
    r"|knowing you|our (?:earlier|last|previous|past) (?:talks?|conversations?|chats?)|given (?:that you|your)"
    r"|since you|you (?:now|always|used to|usually|tend to|love|like|enjoy|prefer|dislike|hate|avoid)"
    r"|your (?:favou?rites?|usual|taste|tastes|preferences?|habits?|love of|dislike of))\b",
    re.IGNORECASE,
)


class GenericReply(BaseModel):
    """What the model writes: a reply for each of those whose places are to be taken, in the order given."""

    replies: list[str]


def generic_request(request: Request, question_type: QuestionType, message: str, replies: Sequence[str]) -> Request:
    """Return the call for generic replies to the message of a question.

    Whoever writes them sees the replies whose places they take, and none of those that are kept.

    Args:
        request: That of the question.
        question_type: Of the question.
        message: What the user writes.
        replies: Those whose places are to be taken.
    """
    facts: GenericFacts = {
        "question_type": question_type,
        "topic_label": request.facts["topic_label"],
        "message": message,
        "replies": list(replies),
        "form": request.facts["form"],
        "max_length_ratio": request.facts["max_length_ratio"],
    }
    return request._replace(template=GENERIC_TEMPLATE, facts=facts, seed=("generic", *request.seed))


def generic_faults(reply: GenericReply, kept: Sequence[str], count: int, max_length_ratio: float) -> list[str]:
    """Return what is wrong with the form of generic replies: their number, their lengths beside the others, repeats.

    Args:
        reply: What was written.
        kept: The other options of the question.
        count: How many are wanted.
        max_length_ratio: Tokens of the longest option over those of the shortest, at most.
    """
    if len(reply.replies) != count:
        return [f"there are {len(reply.replies)} replies; {count} are wanted"]
    options = [*kept, *reply.replies]
    if len({option.strip().lower() for option in options}) < len(options):
        return ["two replies are the same"]
    lengths = [token_length(option) for option in options]
    low, high = max(lengths[: len(kept)]) / max_length_ratio, min(lengths[: len(kept)]) * max_length_ratio
    faults = [
        f"reply {number} has {length} tokens; it is to have {low:.0f} to {high:.0f}, as the other options need"
        for number, length in enumerate(lengths[len(kept) :], start=1)
        if not low <= length <= high
    ]
    if not faults and max(lengths) > max_length_ratio * min(lengths):
        faults.append(f"the replies have {', '.join(map(str, lengths[len(kept) :]))} tokens, and must be more alike")
    return faults


def generic_wording_faults(reply: GenericReply, names: Sequence[str]) -> list[str]:
    """Return what is wrong with the words of generic replies: they must show no knowledge of the user.

    Args:
        reply: What was written.
        names: What the options of the question speak of; none may stand in a generic reply.
    """
    faults = []
    for number, text in enumerate(reply.replies, start=1):
        found = [*text_faults(text), *role_faults(text, "assistant")]
        if claim := _KNOWS.search(text.replace("’", "'")):
            found.append(f"speaks as if it knew the user ({claim[0]!r})")
        found += [f"names {name!r}" for name in names if mentions(text.lower(), name.lower())]
        faults += [f"reply {number} {fault}" for fault in found]
    return faults + [
        f"replies {first + 1} and {second + 1} say nearly the same" for first, second in near_duplicates(reply.replies)
    ]
