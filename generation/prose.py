"""Small rules of English that a text made of parts may break: marks, articles, agreement, forms of verbs.

Each rule is narrow: it would rather miss a fault than see one where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_CODE: Final = re.compile(r"`[^`]*`")

# Words that begin with another sound than their letter says.
_AN_BEFORE: Final = (
    r"(?:hour|honest|honou?r|heir|MRI|MP|X-|SOS|HR|LED|SSD|HTTP|HTML|SQL|XML|NHS|FAQ|RSS|SMS|SMTP|LP|[nfSLMRNFH]-"
    r"|8|11\b|18\b|80)"
)
_A_BEFORE: Final = (
    r"(?:uni(?!n|m|d)|us[aeu]|usb|utensil|util|eu|ewe|one\b|one-|once|ubiq|ufo|UK|US\b|U-|uranium|urin|URL|utopi"
    r"|ukulele|unanim|unicorn)"
)

_PAST_OR_THIRD: Final = (
    "is|was|were|has|had|does|did|went|goes|gets|got|makes|made|takes|took|came|comes|gave|gives|knew|knows|said|says"
    "|told|thought|thinks|found|finds|saw|sees|ran|runs|wrote|writes|began|begins|kept|keeps|needed|needs|wanted|wants"
    "|tried|tries"
)
_MODALS: Final = "can|could|will|would|should|must|may|might|cannot|can't|couldn't|won't|wouldn't|shouldn't|mustn't"
_BEFORE_TO: Final = "want|wants|wanted|have|had|need|needs|going|able|how|order|like|used|ought"

_RULES: Final = [
    (name, re.compile(rule, flags))
    for name, rule, flags in (
        ("a blank before a mark", r"\w +[,.;:!?](?= |$)", 0),
        ("two marks", r"[,;:] ?[,;:.!?]|[.!?] ?[,;:](?!\))|(?<!\.)\.\.(?!\.)|[!?]\.(?!\w)", 0),
        (
            "a word twice",
            r"\b(?!(?:that|had|is|so|very|no|bye|ha|there|now|hey|hello|cool) )([a-z]+) \1\b",
            re.IGNORECASE,
        ),
        ("a before a vowel", rf"\ba (?!{_A_BEFORE})[aeiou]\w*", re.IGNORECASE),
        ("an before a consonant", rf"\ban (?!{_AN_BEFORE})[bcdfghjklmnpqrstvwxyz]\w*", re.IGNORECASE),
        ("an before the sound of you or w", rf"\ban (?!unin|unim|unid){_A_BEFORE}\w*", re.IGNORECASE),
        (
            "two articles",
            r"\b(?:a|an|the) (?:a|an|the|my|your|his|her|our|their|this|that|these|those)\b"
            r"(?! (?:level|grade|list|side|lot)\b)",
            0,
        ),
        ("agreement with I", r"(?<!\w)(?<!and )(?<!or )I (?:is|are|has|does|goes|needs|wants|makes|takes)\b", 0),
        (
            "agreement with he or she",
            r"(?<!\w)(?<!\bdo )(?<!\bdid )(?<!\bdoes )(?<!\bto )(?<!\blet )(?<!\bhelp )(?<!\bmake )(?<!\bwill )"
            r"(?<!\bcan )(?:he|she) (?:are|have|do|go|need|want|make|take|don't)\b",
            re.IGNORECASE,
        ),
        (
            "agreement with a plural",
            r"(?<!\w)(?<!of )(?<!between )(?:we|they|these|those) (?:is|was|has|does|doesn't|isn't|wasn't|hasn't)\b",
            re.IGNORECASE,
        ),
        ("a plural after this", r"\bthis (?:are|were|have)\b", re.IGNORECASE),
        ("a kind of plural", r"\b(?:these|those) (?:kind|sort|type) of\b", re.IGNORECASE),
        ("a form after a modal", rf"\b(?:{_MODALS}) (?:{_PAST_OR_THIRD})\b", re.IGNORECASE),
        (
            "a form after do",
            r"\b(?:didn't|doesn't|don't|did not|does not|do not) (?:" + _PAST_OR_THIRD + r")\b",
            re.IGNORECASE,
        ),
        (
            "a form after to",
            rf"\b(?:{_BEFORE_TO}) to (?:is|are|was|were|has|had|does|did|went|goes|gets|makes|took|takes|came|gave)\b",
            re.IGNORECASE,
        ),
        ("two prepositions", r"\b(?:of|with|from) (?:of|into|onto)\b", re.IGNORECASE),
        (
            "more of more",
            r"\b(?:more|most) (?:better|easier|bigger|smaller|cheaper|faster|quicker|simpler|best|easiest|cheapest)\b",
            re.IGNORECASE,
        ),
        ("half of an hour", r"\b(?:a )?half of an? (?:hour|day|year|mile)\b", re.IGNORECASE),
        ("depends with", r"\bdepend(?:s|ed)? (?:with|from|of)\b", re.IGNORECASE),
    )
]


def prose_faults(text: str) -> Iterator[str]:
    """Yield what breaks a rule: its name and the words; code between backticks is not read."""
    prose = _CODE.sub("code", text)
    for name, rule in _RULES:
        for match in rule.finditer(prose):
            yield f"{name}: {match[0]!r}"
