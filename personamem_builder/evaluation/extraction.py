r"""Which option a free-text reply names: the `robust` rule, and the published rule made blind to the gold.

Neither is told the right answer, so a wrong reply gets no second reading; and a reply that names no option,
or several, gives none instead of a guess. Patterns read lower-case text with single blanks, and what they
repeat is bounded, so that the time they take grows no faster than the reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from string import ascii_lowercase
from typing import Final

from personamem_builder.evaluation.reply_form import normal_form


def extract_choice(text: str, n_options: int = 4, *, marked_only: bool = False) -> str | None:
    r"""Return the option a reply names, by the `robust` rule.

    Typography is brought to one form (Unicode NFKC, emphasis, LaTeX wrappers) and thinking parts are dropped;
    a reply that ends inside one has no answer. So are options that the reply says it eliminated, of which nothing
    is inferred about the rest. Then the first rule that has a say decides:

    1. the last `<final_answer>` span that names an option, the letter it begins with first;
    2. the last statement of the answer: "the answer is c", "I choose c", "(c) is the best option", "verdict: c",
       or a letter alone on the last line;
    3. the last `\boxed{c}`;
    4. the label the reply begins with: "c. Try pottery";
    5. the one letter spoken of as an option: "option c";
    6. the one letter in brackets.

    Two letters, a letter that was not offered, and "none of the above" are no answer. A bare "I" is never a
    letter, nor is "a" where it can be the article. The rule is this project's own; for the published one see
    `v1_parity_letters`.

    Args:
        text: The reply as the model wrote it.
        n_options: How many options were offered, from `a` on.
        marked_only: Stop after the first rule: for a reply that was cut, whose other letters may be those it had not
            decided on.

    Returns:
        The lower-case letter, or None.
    """
    offered = _offered(n_options)
    shown = _without_eliminated(normal_form(text))
    named = _marked(shown)
    if named is None and not marked_only:
        named = _first(_IN_REPLY, _MARKER.sub("\n", shown).strip())
    return "".join(named) if named and len(named) == 1 and named <= set(offered) else None


def v1_parity_letters(text: str, n_options: int = 4) -> str:
    """Return the letters that PersonaMem's published rule counts as right, whichever the gold is.

    The rule of the benchmark's evaluation script (arXiv 2504.14225, its latest version) takes, in lower case,
    the set of letters in round brackets or, if there are none, of letters that stand alone. It counts a reply
    as right when that set is the gold alone, in the part after the last `<final_answer>` or in the whole
    reply. So a reply is right when its gold is among the letters returned here. (The script also strips a
    closing tag, which holds no letter.) Its faults, the article "a" among them, are kept on purpose: this is
    for comparison with published scores.

    Args:
        text: The reply as the model wrote it.
        n_options: How many options were offered; the published rule knows four.

    Returns:
        The letters in alphabetical order: one or none, or two when the part after the marker and the whole
        reply each name a different single letter.
    """
    offered = f"[a-{_offered(n_options)[-1]}]"
    credited: set[str] = set()
    for part in (text.rpartition("<final_answer>")[2].lower(), text.lower()):
        letters = set(re.findall(rf"\(({offered})\)", part)) or set(re.findall(rf"\b({offered})\b", part))
        if len(letters) == 1:
            credited |= letters
    return "".join(sorted(credited))


def has_marker(text: str) -> bool:
    """Say whether a reply got as far as the marker of its answer; one that it thought of is none."""
    return _SPAN.search(normal_form(text)) is not None


def _offered(n_options: int) -> str:
    if not 1 <= n_options <= len(ascii_lowercase):
        raise ValueError(f"n_options is {n_options}: options are lettered from a to z")
    return ascii_lowercase[:n_options]


# What a letter looks like. Every group of a pattern built from these is a letter.

_LATIN: Final = "a-z0-9\u00c0-\u024f"
# Where one of these follows, "a" is no article: "the answer is A because", "A and B".
_NO_ARTICLE: Final = "is|was|seems|fits|would|because|since|as|for|and|or|but|over|porque|weil|parce|perché"
_NO_NOUN: Final = rf"(?! (?!(?:{_NO_ARTICLE})(?![{_LATIN}-]))[{_LATIN}])"


def _letter(bare: str) -> str:
    """Pattern of a letter in brackets, set off, or bare; bare it is no part of "AB", "d'accord", "C++"."""
    alone = rf"(?![{_LATIN}_+#]|['-][{_LATIN}]|\.[a-z](?![{_LATIN}]))"
    return rf'(?:\(([a-z])\)|"([a-hj-z])"|(?<![{_LATIN}_])({bare}){alone})'


_CUED: Final = _letter(f"a{_NO_NOUN}|[b-hj-z]")
_UNCUED: Final = _letter(f"[a-hj-z]{_NO_NOUN}")
_NONE: Final = r"(?:none(?! of the other)|neither|n/a|no answer)\b"
_GAP: Final = r"[ \n\"'(\[{$:=>_-]{0,6}"
_FILLER: Final = (
    rf"{_GAP}(?:(?:the|la|le|el|il|die|der|das|l'|option|choice|letter|response|answer|reply|opción|opção|opzione"
    rf"|вариант|most likely|likely|clearly|definitely|probably|indeed|therefore|simply){_GAP}){{0,3}}"
    rf"(?:\\boxed{_GAP})?"
)
_SAID: Final = rf"{_FILLER}(?:{_CUED}|{_NONE})"
_LABEL: Final = rf"[ \n#>\"'(\[{{$_-]{{0,8}}{_UNCUED}"
_LINE: Final = rf"{_LABEL}[)\].\" ]{{0,3}}"
_SECOND: Final = re.compile(
    r"[)\"]?(?: ?(?:[/&+]|,? ?(?:(?:or|and|vs\.?|und|oder|et|ou|y|o|и|или)(?= )|和|或)) ?(?:option )?[(\"]?"
    rf"{_CUED}|,? ?{_UNCUED}(?=[)\"]? ?(?:[.,;:!?\n]|$|or |and ))|\n{_LINE}(?=\n|$))"
)


def _letters(match: re.Match[str]) -> set[str]:
    """The letters of a match, with another offered next to it ("b or c"); no letter where it says "none"."""
    second = _SECOND.match(match.string, match.end()) if match.lastindex else None
    return {letter for found in (match, second) if found for letter in found.groups() if letter}


# Letters that are eliminated: "ruled out: a, c and d", "(a) and (c) are eliminated".

_ELIMINATED: Final = (
    r"eliminat(?:e[ds]?|ing|ions?)|rul(?:e[ds]?|ing) out|reject(?:ed|s|ing|ions?)?|discard(?:ed|s|ing)?"
    r"|dismiss(?:ed|es|ing)?|exclud(?:e[ds]?|ing)|exclusions?|disqualif(?:y|ies|ied|ying)|discount(?:ed|ing)?"
    r"|disregard(?:ed|ing)?|(?:cross(?:ed|ing)?|struck|strike|striking) (?:out|off)|(?:set|put) aside"
    r"|weed(?:ed|ing)? out"
    r"|ausgeschlossen|verworfen|éliminée?s?|écartée?s?|(?:elimin|descart)ad[oa]s?|eliminat[eaio]|scartat[eaio]"
    r"|исключен[а-я]{1,3}|отброшен[а-я]{1,3}"
)
_UNFIT: Final = (
    "wrong|incorrect|unsuitable|invalid|inappropriate|distractors?"
    "|not (?:chosen|selected|picked|suitable|fitting|appropriate|correct|right|valid)"
)
_KIND: Final = "(?:options?|choices?|answers?|responses?|candidates?|alternatives?|letters?|ones?)"
_ITEM: Final = _letter("[a-hj-z]")
_NEXT: Final = (
    rf"(?: ?[,;/&|+])? ?(?:(?:and|or|nor|as well as|plus|und|oder|et|ou|y|o|e|и|和|及) ?)?(?:the )?(?:{_KIND} )?{_ITEM}"
)
_ITEMS: Final = rf"(?:{_KIND} )?{_ITEM}(?:{_NEXT}(?! ?(?:is|was|fits|suits|matches|remains|stands|wins)\b))*+"
_LIST_AFTER: Final = re.compile(
    rf"(?:(?<![{_LATIN}])(?<!not )(?<!n't )(?<!never )(?<!cannot )(?<!not been )(?:{_ELIMINATED})"
    rf"|(?<![{_LATIN}])(?<!not )(?<!n't )(?<!was )(?<!were )(?<!am )(?<!be )(?<!is )(?<!are )(?:{_UNFIT})"
    r"|排除|除外|제외)"
    rf"(?: (?:the|all|both|following|other|remaining|are|were|is|was|as|{_KIND})){{0,4}}(?:\(s\))? ?[:=-]{{0,2}}"
    rf"(?: ?(?!{_KIND} ?{_ITEM} (?:is|was|fits)\b)(?!{_ITEM} (?:is|was|fits)\b){_ITEMS}"
    rf"|\n{_ITEM}{_NEXT}(?:{_NEXT})*+|(?:\n[-•+ ]{{0,3}}{_ITEM}[).:]?(?=\n|$)){{1,26}})"
)
_LIST: Final = re.compile(_ITEMS)
_ELIMINATED_NEXT: Final = re.compile(
    r",?(?: ?(?:[:-]|(?:is|are|was|were|gets?|got|(?:has|have|can|could|should|must|may)(?: all| both)? (?:been|be))"
    r"(?: (?:all|both|also|clearly|thus|hence|therefore|now|each|then|safely|simply|out|already)){0,2}))?"
    rf" ?(?:{_ELIMINATED}|{_UNFIT}|[✗✘❌✕✖])(?![{_LATIN}])"
)
_EXCEPTED: Final = re.compile(r"\b(?:but|except|than|save|besides|for|from) $")


def _without_eliminated(text: str) -> str:
    text = _LIST_AFTER.sub(" ", text)

    def shown(letters: re.Match[str]) -> str:
        eliminated = _ELIMINATED_NEXT.match(text, letters.end())
        excepted = eliminated and _EXCEPTED.search(text[max(0, letters.start() - 10) : letters.start()])
        return letters[0] if not eliminated or excepted else " "

    return _LIST.sub(shown, text)


# Letters that are named, not chosen: "not (b)", "rather than (b)", "(b) is wrong", a list of all options.

_CLAUSE_END: Final = re.compile(r"[.,;:!?\n]| - |(?<!anything) (?:but|so|and|because|hence|therefore|then) ")
_DENIED: Final = re.compile(
    r"\b(?:not|never|cannot|[a-z]{2,8}n't|neither|nor|incorrect|wrong|worst|least"
    r"|nicht|pas|não|non|не|no es)\b|不"
)
_SET_ASIDE: Final = re.compile(
    r"\b(?:rul[a-z]{1,3} out|(?:reject|exclud|eliminat|consider)[a-z]{0,3}|than|over|unlike|instead of|anything but"
    r"|except)(?: the| option| response){0,2} ?$"
)
_FOUND_WANTING: Final = re.compile(
    r"[)\"]?,? (?:is|was|seems|looks|sounds|feels|does|do|would|could|can|might|may)"
    rf"(?:(?:n't|not| not)\b(?! (?:yet )?(?:been |be )?(?:{_ELIMINATED}))"
    rf"| (?:also )?(?:wrong|incorrect|out|tempting|too|less|generic|{_ELIMINATED})\b)"
)
_LINE_START: Final = re.compile(r"(?:^|\n)[^a-z0-9\n]*$")
_LINE_GOES_ON: Final = re.compile(r"[)\].:\"]{0,2} ?[^\s)\].:\"]")
_NEXT_LABEL: Final = re.compile(r"[\n.!?,;] ?(?:and |or )?(?:\(b\)|b[).:])")


# What was answered at first, or would be answered for another user.
_ASIDE: Final = re.compile(
    r"\b(?:at first|first glance|initially|previously|formerly|the old|naive|second(?: choice|[ -](?:best|most))|runner"
    r"|was going to|might|one could|i could|would have been|if (?!forced|pressed|i |we |asked)[^.;!?\n]*)\b"
    r"|以前|乍一看|如果"
)
_SENTENCE_END: Final = re.compile(r"[.;!?\n。]|\b(?:but|however|yet)\b")


def _turned_down(match: re.Match[str]) -> bool:
    text, start = match.string, match.start()
    sentence = _SENTENCE_END.split(text[max(0, start - 100) : start])[-1]
    before = _CLAUSE_END.split(text[max(0, start - 60) : start])[-1]
    after = _FOUND_WANTING.match(text, match.end())
    denied = _DENIED.search(before + match[0]) or _SET_ASIDE.search(before) or after
    return bool(denied or _ASIDE.search(sentence + match[0]))


def _opens_a_list(match: re.Match[str]) -> bool:
    """Whether the letter heads a list of the options: (a) at the start of a line, text, and then (b)."""
    text, letter, end = match.string, match.start(match.lastindex or 0), match.end()
    starts_line = text[letter] == "a" and _LINE_START.search(text[max(0, letter - 9) : letter])
    return bool(starts_line and _LINE_GOES_ON.match(text, end) and _NEXT_LABEL.search(text, end, end + 2000))


# The cues.

_TAG: Final = "(?:final[ _-]?)?answer(?![a-z_]) ?>?"
_MARKER: Final = re.compile(f"< ?/? ?{_TAG}")
_SPAN: Final = re.compile(rf"< ?{_TAG}([\s\S]*?)(?=< ?/? ?{_TAG}|\Z)")

_ANSWER: Final = "answer|antwort|antwoord|réponse|respuesta|resposta|risposta|odpowiedź|ответ|الإجابة|उत्तर"
_ONE: Final = "option|choice|response|reply|pick|selection|match|fit|one|letter"
_BEST: Final = r"best|correct[ae]?|most (?:appropriate|fitting|suitable)"
_CHOOSE: Final = r"choos(?:e|ing)|chosen?|(?:pick|select)(?:ed|ing)?|(?:go|going|went) with"
_CONCLUSION: Final = (
    "conclusion|verdict|decision|judge?ment|determination|winner|survivor|final(?: (?:call|verdict|decision))?"
    "|chosen|selected"
    "|kept|remaining|left|not (?:eliminated|ruled out|rejected|excluded)"
    "|fazit|schlussfolgerung|conclusión|conclusão|conclusione|вывод"
)
_ALL_BUT: Final = (
    "(?:all|every(?:thing)?|any(?:thing)?|each|the rest)(?: (?:of them|options?|choices?|others?|one|else))?"
    "(?: (?:but|except|except for|other than|apart from|besides|save))"
)
_IS: Final = " (?:is|be|was|seems to be|appears to be|remains|ist|lautet|est|es|é(?: a)?|è|это|adalah|هي|है)"
_WORDS: Final = r"(?: (?!choices|options|answers)[^\W\d_][^\W_]{0,15}(?:'[a-z])?){0,6}?"
_RESTATED: Final = r"(?:[ ,(\[]{0,3}\(?[a-z]\)?(?:[ ,/|-]{1,3}(?:(?:or|and) )?\(?[a-z]\)?){1,25}[)\]]?,?)?"

_STATEMENTS: Final = (
    # "(c) is the best answer" comes first: its last word must not pass for the cue of what follows.
    rf"{_CUED} (?:is|was|seems|looks|would be|fits)(?: (?:the|my|clearly|likely|also|not|you|this)){{0,4}}"
    rf" (?:{_BEST}|right|answer)\b(?: (?:answer|{_ONE})\b)?",
    # "the answer to this is (c)", "answer: c", a heading "Answer" above c, "answer (a), (b) or (c): c"
    rf"(?<![a-z/])(?:{_ANSWER}){_WORDS}{_RESTATED}(?:{_IS}|[\"')]{{0,2}} ?[:=>\n-]){_SAID}",
    rf"(?<![a-z])(?:{_BEST}|(?:my|right|final) (?:{_ONE})){_WORDS}{_RESTATED}(?:{_IS}| ?:){_SAID}",
    rf"(?<![a-z])(?:i|we)(?:'[a-z]{{1,2}})?(?: [a-z']{{1,12}}){{0,3}}? (?:{_CHOOSE}|say){_FILLER}{_CUED}",
    rf"(?<![a-z])(?:ich wähle|ik kies|je choisis|elijo|escolho|scelgo|wybieram|выбираю){_FILLER}{_CUED}",
    # "conclusion: (c)", "the decision after all is c", "hence (c)."
    rf"(?<![a-z])(?:{_CONCLUSION})(?: {_KIND})?{_WORDS}{_RESTATED}(?:{_IS}| ?[:=>\n-]){_SAID}",
    rf"(?<![a-z])(?:in conclusion|to conclude|therefore|thus|hence|consequently|accordingly)[,:]?{_FILLER}{_CUED}"
    r"(?=[)\"]? ?(?:[.;!\n]|$))",
    # "all but (c) are eliminated"
    rf"(?<![a-z]){_ALL_BUT} (?:{_KIND} )?{_CUED}(?: (?:and|or) {_CUED})?"
    rf",? (?:is|are|was|were|(?:has|have|can) (?:been|be)) (?:{_ELIMINATED}|{_UNFIT})",
    rf"(?<![a-z])(?:{_ELIMINATED})[: ]{{1,2}}{_ALL_BUT} (?:{_KIND} )?{_CUED}",
    rf"{_CUED} ?[✓✔✅☑]",
    rf"(?:结论|結論|결론)[^\x00-\x7f]{{0,4}}{_GAP}{_CUED}",
    rf"(?<!不)(?:答案|选(?!项)|選(?!項|択肢)|答え|正解|回答|정답|답)[^\x00-\x7f]{{0,4}}{_GAP}{_CUED}",
    # alone on the last line (two such lines are two answers)
    rf"(?:\A|(?<=\n))(?:{_LINE}\n)?{_LINE}\Z",
)
_MENTIONS: Final = (
    # No article stands behind "option".
    rf"(?<![a-z])(?:option|letter|opción|opção|opzione|вариант|选项|選項)(?:\(s\))?{_GAP}{_letter('[a-hj-z]')}",
    rf"(?<![a-z])(?:{_ANSWER}|choice|response|{_CHOOSE}|it is|it's|leaving|leaves)(?:\(s\))?{_FILLER}{_CUED}",
)

# The steps. Each gives the letters a text names by one rule, or None where that rule has no say.

_Step = Callable[[str], set[str] | None]


def _last(*patterns: str) -> _Step:
    """Make the step that reads the last letter a text chooses in one of these ways."""
    compiled = re.compile("|".join(patterns))

    def step(text: str) -> set[str] | None:
        matches = reversed(list(compiled.finditer(text)))
        return next((_letters(m) for m in matches if not _turned_down(m) and not _opens_a_list(m)), None)

    return step


def _every(*patterns: str) -> _Step:
    """Make the step that reads all letters a text names in one of these ways."""
    compiled = re.compile("|".join(patterns))

    def step(text: str) -> set[str] | None:
        matches = compiled.finditer(text)
        return {letter for m in matches if not _turned_down(m) for letter in _letters(m)} or None

    return step


def _first(steps: Iterable[_Step], text: str) -> set[str] | None:
    return next((named for step in steps if (named := step(text)) is not None), None)


_stated: Final = _last(*_STATEMENTS)
_boxed: Final = _last(rf"\\boxed{_FILLER}{_CUED}")
_mentioned: Final = _every(*_MENTIONS)
_bracketed: Final = _every(r"(?<![a-z0-9])\(([a-z])\)")
_IN_SPAN: Final = (_last(rf"\A[ \n#.]{{0,4}}{_SAID}"), _stated, _boxed, _mentioned, _bracketed)
_IN_REPLY: Final = (_stated, _boxed, _last(rf"\A{_LABEL}"), _mentioned, _bracketed)


def _marked(text: str) -> set[str] | None:
    """The letters in the last span behind the marker that names any; its closing tag is optional."""
    spans = reversed(_SPAN.findall(text))
    return next((named for span in spans if (named := _first(_IN_SPAN, span)) is not None), None)
