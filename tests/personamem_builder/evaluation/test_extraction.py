"""Which option a reply names: by the `robust` rule, and by the published one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personamem_builder.evaluation.extraction import extract_choice, v1_parity_letters

SHEET = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "answer_extraction_cases.jsonl"
LETTERS = st.sampled_from(ascii_lowercase)
N_OPTIONS = st.integers(min_value=2, max_value=26)


def test_every_case_of_the_collected_sheet_is_read_as_expected() -> None:
    wrong = []
    for case in collected_cases():
        expected = case["expected"] and case["expected"].lower()
        read = extract_choice(case["response"], case["n_options"])
        if read != expected:
            wrong.append((case["id"], case["response"], read, expected))
    assert wrong == []


REPLIES: dict[str, list[tuple[str, str | None]]] = {
    "the marker, however it is dressed": [
        ("<final_answer>(c)", "c"),
        ("<final_answer>(c)</final_answer>", "c"),
        ("<final_answer> (c) </final_answer>.", "c"),
        ("<final_answer>: c", "c"),
        ("<final_answer>\n\n**C**\n", "c"),
        ("**<final_answer>**(c)**</final_answer>**", "c"),
        ("<FINAL_ANSWER>(C)</FINAL_ANSWER>", "c"),
        ("<final\\_answer>\\(c\\)", "c"),
        ("<final_answer: (c)>", "c"),
        ("<final_answer>(c)<final_answer>", "c"),
        ("<final_answer>c. Since you gave up pottery, try a walk.", "c"),
        ("<final_answer>(c)<|eot_id|>", "c"),
        ("<answer>C</answer>", "c"),
    ],
    "prose inside the marker": [
        ("<final_answer>The answer is (c)", "c"),
        ("<final_answer>Based on your history I'd pick (c) over (a).", "c"),
        ("<final_answer>not (a) but (c)", "c"),
        ("<final_answer>(b) because (a) is generic</final_answer>", "b"),
        ("<final_answer>A good match would be outdoors.", None),
        ("<final_answer>(a) or (b)", None),
        ("<final_answer>(a)(b)", None),
        ("<final_answer>(a)\n(b)</final_answer>", None),
        ("<final_answer>between (a) and (b)", None),
    ],
    "several markers: the last that names an option": [
        ("<final_answer>(a)</final_answer> Wait. <final_answer>(c)</final_answer>", "c"),
        ("I put it after <final_answer> as told. <final_answer>(c)", "c"),
        ("<final_answer>(c)</final_answer> I used <final_answer> as told.", "c"),
        ("<final_answer>(c)</final_answer> <final_answer>(a) or (b)</final_answer>", None),
    ],
    "the marker has the last word": [
        ("The answer is (a). <final_answer>(c)", "c"),
        ("<final_answer>(c)</final_answer> The answer (a) is tempting, and so is option (b).", "c"),
        ("Option (a) is generic. <final_answer>None of these</final_answer>", None),
        ("The answer is (a). <final_answer>(e)", None),
        ("The answer is (c). <final_answer></final_answer>", "c"),
        ("I choose (c) <final_answer>", "c"),
    ],
    "thinking is not the answer": [
        ("<think>(a)? It goes after <final_answer>. <final_answer>(a)</think><final_answer>(c)", "c"),
        ("the answer is (a), or rather</think>\n\n(c)", "c"),
        ("<think>I need a <think> tag.</think>(c)", "c"),
        ("<thinking>(a)</thinking>(c)<thinking>(b)</thinking>", "c"),
        ("[THINK]the answer is (a)[/THINK](c)", "c"),
        ("<think>the answer is (a)", None),
        ("<think>the answer is <final_answer>(a)", None),
        ("<think>the answer is (a)</think>", None),
    ],
    "the answer is stated": [
        ("**Answer:** (c)", "c"),
        ("Final answer: option C", "c"),
        ("### Final Answer\n\n(c)", "c"),
        ("The best option is (c) because (a) and (b) ignore it.", "c"),
        ("The response that fits you best is (c).", "c"),
        ("(a) is generic, whereas (c) is the best answer: (b) is old.", "c"),
        ("I'd go with **c**.", "c"),
        ("The answer is B—because it fits.", "b"),
        ('{"reason": "(a) is old", "answer": "c"}', "c"),
        ("<strong>Answer</strong>: <b>C</b>", "c"),
        ("Answer (a/b/c/d): c", "c"),
        ("My final answer, (a), (b), (c) or (d), is (b).", "b"),
        ("Thinking of (a) and (b).\n\n**C**", "c"),
    ],
    "the last statement counts": [
        ("The answer is (a). No, wait: the answer is (c).", "c"),
        ("I would choose (a). On reflection I would choose (c).", "c"),
        ("The answer is (c). I ruled out option (b).", "c"),
        ("I choose (c). I would never choose (b).", "c"),
    ],
    "LaTeX": [
        ("$\\boxed{C}$", "c"),
        ("\\[ \\boxed{\\textbf{(C)}} \\]", "c"),
        ("The final answer is: $\\boxed{\\text{(c)}}$", "c"),
        ("\\(C\\)", "c"),
        ("\\boxed{B and C}", None),
    ],
    "a label at the start": [
        ("(c)", "c"),
        ("c", "c"),
        ("C.", "c"),
        ("C)", "c"),
        ("> C - try a walk", "c"),
        ("(c) I remember that you do not like crowds (who does?).", "c"),
        ("(c) because (a) and (b) are too generic.", "c"),
        ("(a) is tempting, but (c) fits.", "c"),
        ("(a) Tea\n(b) Coffee\n(c) Water\n(d) Juice", None),
        ("(a) Tea, (b) coffee, (c) water, or (d) juice?", None),
        ("(a) is generic.\n(b) is old.\n(c) fits.\n\nSo I choose (c).", "c"),
    ],
    "an option is mentioned": [
        ("Option (c) fits; option (a) is too generic.", "c"),
        ("Options (a) and (b) are old. Option C reflects what you said.", "c"),
        ("Sure, go with (c) rather than (a).", "c"),
        ("Both option B and option C fit.", None),
    ],
    "one letter in brackets": [
        ("Given that you don't like crowds, (c) suits you.", "c"),
        ("I don't think (b) suits you.", None),
        ("I ruled out (b).", None),
        ("(b) is wrong.", None),
        ("The answer is not (b).", None),
        ("The option(s) I like", None),
    ],
    "words that look like letters": [
        ("I", None),
        ("Answer: I think so", None),
        ("Answer: a walk would suit you", None),
        ("I choose a quiet evening", None),
        ("C'est la vie", None),
        ("Answer: d'accord", None),
        ("D major is a key", None),
        ("Answer: B-side", None),
        ("Answer: C++", None),
        ("Answer: e.g. a walk", None),
        ("Vitamin C helps.", None),
        ("choose wisely", None),
        ("Answer: ABCD", None),
    ],
    "no answer, or two": [
        (" \n ", None),
        ("N/A", None),
        ("Yes", None),
        ("I'm sorry, I can't help with that.", None),
        ("Answer: 3", None),
        ("(a) is generic. ANSWER: None of the above", None),
        ("Answer: A/B", None),
        ("Answer: A, B", None),
        ("Answer: (a) and (b)", None),
        ("A or B", None),
        ("C\nD", None),
        ("(e)", None),
        ("Answer: F", None),
    ],
    "other languages and scripts": [
        ("答案是C", "c"),
        ("正确答案为：（Ｃ）。", "c"),
        ("选项(a)不好，我选C", "c"),
        ("不选B", None),
        ("答えはCです", "c"),
        ("정답은 C입니다", "c"),
        ("Die richtige Antwort ist C.", "c"),
        ("La respuesta correcta es la C.", "c"),
        ("La bonne réponse est la (c).", "c"),
        ("A resposta correta é a C", "c"),
        ("Правильный ответ — C.", "c"),
        ("＜final_answer＞（ｃ）", "c"),
        ("【C】", "c"),
        ("⒞", "c"),
        ("\ufeff“c”", "c"),
    ],
}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [pytest.param(*case, id=f"{fault}: {case[0]!r}") for fault, cases in REPLIES.items() for case in cases],
)
def test_a_reply_is_read_as_a_person_would(reply: str, expected: str | None) -> None:
    assert extract_choice(reply) == expected


@pytest.mark.parametrize("letter", "abcd")
@pytest.mark.parametrize(
    "reply",
    [
        "The answer is {} because a walk suits you.",
        "I would pick {} - a safe choice.",
        "{}. A gentle plan for the weekend",
        "{} is the best fit.",
        "{}, a safe choice",
        "Option {} acknowledges your love of pottery.",
        "Answer: {} (a walk)",
        "Answer: {}\nA walk suits you.",
        "Answer: **{}** good",
    ],
)
def test_a_bare_letter_is_read_whichever_letter_it_is(reply: str, letter: str) -> None:
    """Were "A" given up wherever an article is spelled alike, a gold (a) would score lower."""
    assert extract_choice(reply.format(letter.upper())) == letter
    assert extract_choice(reply.format(letter)) == letter


@given(letter=LETTERS, n_options=N_OPTIONS)
def test_only_an_offered_letter_is_an_answer(letter: str, n_options: int) -> None:
    expected = letter if letter in ascii_lowercase[:n_options] else None
    assert extract_choice(f"It suits you. <final_answer>({letter})", n_options) == expected


@given(
    letter=st.sampled_from("abcd"),
    before=st.text(alphabet=" \n\t*_`\u00a0\u200b"),
    after=st.text(alphabet=" \n\t*_`.\u00a0\u200b"),
    capital=st.booleans(),
)
def test_typography_changes_nothing(letter: str, before: str, after: str, capital: bool) -> None:
    shown = letter.upper() if capital else letter
    assert extract_choice(f"{before}<final_answer>({shown})</final_answer>{after}") == letter
    assert extract_choice(f"<final_answer>{before}({shown}){after}</final_answer>") == letter


MARKERS = ["<final_answer>", "</final_answer>", "<think>", "</think>", "\\boxed{", "}", "**", "\n"]
CUES = ["the answer is ", "Answer:", "option ", "I choose ", "not ", " or ", ", ", ". ", "答案", "none"]
PIECES = st.sampled_from([*MARKERS, *CUES, "(a)", "(b)", "(e)", "A ", "B", "c", "I"])
REPLY = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join))


@given(text=REPLY, n_options=N_OPTIONS)
def test_any_text_gives_an_offered_letter_or_none(text: str, n_options: int) -> None:
    assert extract_choice(text, n_options) in (None, *ascii_lowercase[:n_options])


ADVERSARIAL = [
    "(",
    "<final_answer>",
    "<final_answer>(a) ",
    "<think>",
    " ",
    " \n",
    "\\boxed{",
    "not (b) ",
    "(a), ",
    "a ",
    "eliminated: (a) ",
    "all but ",
    "conclusion ",
]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_a_long_reply_of_anything_is_read(piece: str) -> None:
    """A pattern that backtracks without bound would not come back from these."""
    reply = piece * (150_000 // len(piece))
    assert extract_choice(reply) in (None, "a")
    assert v1_parity_letters(reply) in ("", "a", "b")


@pytest.mark.parametrize("n_options", [0, 27])
@pytest.mark.parametrize("rule", [extract_choice, v1_parity_letters])
def test_options_beyond_the_alphabet_are_refused(rule: Any, n_options: int) -> None:
    with pytest.raises(ValueError, match=f"n_options is {n_options}"):
        rule("(a)", n_options)


# The column "v1 credits" of the sheet's table. D44 is left out there: it has ten options.
V1_CREDITS = {
    "": "D4 D6 D7 D9 D10 D18 D19 D20 D21 D23 D24 D25 D29 D35 D38 D39 D40 D42",
    "a": "D2 D32",
    "b": "D12 D13 D33 D37",
    "c": "D14 D15",
    "d": "D1 D3 D27",
}


def test_the_published_rule_credits_the_collected_cases_as_published() -> None:
    credited = {c["id"]: v1_parity_letters(c["response"]) for c in collected_cases() if c["id"] != "D44"}
    assert credited == {case: letter for letter, cases in V1_CREDITS.items() for case in cases.split()}


@pytest.mark.parametrize(
    ("reply", "credited"),
    [
        ("<final_answer>(c)</final_answer>", "c"),
        ("(a) is old. <final_answer>(c)", "c"),
        ("Sure. <final_answer></final_answer> (c)", "c"),
        # One way or the other: after the marker, or in the whole reply.
        ("I like (a). <final_answer> c", "ac"),
        ("(c) fits. <final_answer> done", "c"),
        # Bracketed letters hide bare ones, wherever they are.
        ("I considered (A). Final answer: D.", "a"),
        # The marker is found as it is written, letters in either case.
        ("(a) <FINAL_ANSWER>(C)", ""),
        ("<final_answer>(C)", "c"),
        # The article counts, and so does what the model thought.
        ("A good match.", "a"),
        ("<think>(a)</think>(c)", ""),
        ("(a) or (b)", ""),
        ("(e)", ""),
        ("（ｃ）", ""),
        ("", ""),
    ],
)
def test_the_published_rule(reply: str, credited: str) -> None:
    assert v1_parity_letters(reply) == credited


@given(reply=REPLY)
def test_the_published_rule_counts_exactly_the_letters_returned(reply: str) -> None:
    def named(part: str) -> set[str]:
        bracketed = {letter for letter in "abcd" if f"({letter})" in part.lower()}
        return bracketed or set("abcd") & set(re.split(r"\W+", part.lower()))

    def counts_as_right(gold: str) -> bool:
        return {gold} in (named(reply.split("<final_answer>")[-1]), named(reply))

    assert v1_parity_letters(reply) == "".join(filter(counts_as_right, "abcd"))


def test_the_published_rule_reads_as_many_letters_as_there_are_options() -> None:
    assert v1_parity_letters("(j)", n_options=10) == "j"
    assert v1_parity_letters("(j)", n_options=9) == ""


def collected_cases() -> list[dict[str, Any]]:
    """The sheet of replies that broke other projects' extraction, where it lies beside the repository."""
    if not SHEET.is_file():
        pytest.skip("the sheet of collected replies, shared/data/answer_extraction_cases.jsonl, is not here")
    return [json.loads(line) for line in SHEET.read_text(encoding="utf-8").splitlines()]


# Replies that list what they eliminated beside what they choose, as a person would read them.
ELIMINATED: list[tuple[str, str | None]] = [
    ("Conclusion: (B). Eliminated: (A), (C), (D).", "b"),
    ("Eliminated: (A), (C), (D). Conclusion: (B).", "b"),
    ("Verdict: B. Ruled out: A, C and D.", "b"),
    ("Ruled out: A, C, D. Verdict: B.", "b"),
    ("Decision: (B), eliminating (A), (C) and (D).", "b"),
    ("**Decision:** Option B\n\n**Eliminated:** Options A, C, D", "b"),
    ("Verdict: B\n\nEliminated:\n- A: too generic\n- C: outdated\n- D: wrong topic", "b"),
    ("Rejected:\n- (A)\n- (C)\n- (D)\n\nConclusion: (B)", "b"),
    ("Conclusion: (B)\nRejected:\n(A)\n(C)\n(D)", "b"),
    ("Eliminated (A), (C), (D) → (B)", "b"),
    ("(A), (C) and (D) are eliminated. (B)", "b"),
    ("(A), (C), (D) eliminated; (B) remains.", "b"),
    ("(A) and (C) have been ruled out, (D) is wrong. In conclusion, (B).", "b"),
    ("Discarded: (a), (c), (d). Therefore (b).", "b"),
    ("After elimination of (a), (c) and (d), my decision is (b).", "b"),
    ("Wrong options: (A), (C), (D). Kept: (B).", "b"),
    ("Remaining: B. Crossed out: A, C, D.", "b"),
    ("Distractors: (a), (c), (d). Chosen option: (b).", "b"),
    ("All options but (B) are eliminated.", "b"),
    ("I eliminated everything except (B).", "b"),
    ("Only (B) was not eliminated.", "b"),
    ("Not eliminated: (B). Eliminated: (A), (C), (D).", "b"),
    ("A ❌, B ✅, C ❌, D ❌", "b"),
    ("(A) ✗ (B) ✓ (C) ✗ (D) ✗", "b"),
    ("Fazit: B. Ausgeschlossen: A, C und D.", "b"),
    ("Conclusión: B. Descartadas: A, C y D.", "b"),
    ("Conclusion : (B). Éliminées : (A), (C), (D).", "b"),
    ("结论：B。排除：A、C、D。", "b"),
    ("Вывод: (B). Исключены: (A), (C), (D).", "b"),
    ("Final: (b). Excluded: (a), (c), (d).", "b"),
    ("Judgment: b - rejected a, c and d", "b"),
    ("My verdict is (D); I reject (A), (B) and (C).", "d"),
    ("Conclusion: (A). Eliminated: (B), (C), (D).", "a"),
    ("Conclusion: A. Eliminated: B, C, D.", "a"),
    ("Eliminated: B, C, D. Conclusion: A", "a"),
    ("Eliminated: (b) because it is old, (c) since it is generic, (d) as it is for another user. Verdict: (a)", "a"),
    ("Verdict: (c). Eliminated: (a) (generic), (b) (outdated), (d) (invented).", "c"),
    ("Eliminated: (A), (C), (D), (B) is the answer", "b"),
    ("A is wrong, B is right, C is wrong, D is wrong.", "b"),
    ("<final_answer>Conclusion: (B). Eliminated: (A), (C), (D).", "b"),
    ("Conclusion: B. I ruled out options A, C, and D because they are outdated.", "b"),
    ("Options (a), (c), and (d) can be ruled out. The conclusion is therefore (b).", "b"),
    ("Conclusion: the fitting reply is (b). Dismissed: (a), (c), (d)", "b"),
    ("Eliminated: (A), (C), (D).", None),
    ("Eliminated: (A), (B), (C), (D).", None),
    ("Conclusion: (A), (C) and (D) are eliminated.", None),
    ("Conclusion: (B) is eliminated.", None),
    ("Conclusion: (B) and (C). Eliminated: (A), (D).", None),
    ("Verdict: B or C. Ruled out: A, D.", None),
    ("Conclusion: none of them. Eliminated: (A), (B), (C), (D).", None),
    ("Decision: not (B). Eliminated: (A).", None),
    ("Verdict: eliminate (B).", None),
    ("Eliminated (A) and (C), leaving (B) or (D).", None),
    ("Remaining: (B), (D). Eliminated: (A), (C).", None),
    ("Conclusion: I cannot decide. Ruled out: (a).", None),
    ("Verdict pending. Rejected: (d).", None),
    ("Conclusion: (E). Eliminated: (A), (B), (C), (D).", None),
    ("Decision: a compromise. Eliminated: (b), (c).", None),
    ("All but (B) and (C) are eliminated.", None),
    ("Verdict on (A): rejected. Verdict on (C): rejected.", None),
    ("Wrong: A, C, D.", None),
    ("None survives: (a), (b), (c) and (d) are ruled out.", None),
    ("(A) ❌ (B) ❌ (C) ❌ (D) ❌", None),
    ("Final choice: (B); not (A), (C), (D)", "b"),
    ("Not A, C or D. Conclusion: B", "b"),
    ("By process of elimination ((A), (C), (D) are out), the answer must be (B).", "b"),
    ("Eliminated options: (A), (C), (D)\nSelected option: (B)", "b"),
    ("Selected: B\nEliminated: A, C, D", "b"),
    ("Winner: (c). Losers: (a), (b), (d).", "c"),
    ("Conclusion — (B) — after ruling out (A), (C), (D).", "b"),
    ("I rule out (A), (C) and (D). So (B).", "b"),
    ("I rule out (A), (C) and (D). That leaves (B).", "b"),
    ("(A), (C), and (D) don't fit. Conclusion: (B).", "b"),
    ("Conclusion: (B). The others, (A), (C) and (D), do not fit.", "b"),
    ("Conclusion: (B). (A), (C), (D) do not match the profile.", "b"),
    ("Conclusion: The user would like (B). Eliminated: (A), (C), (D).", "b"),
    ("My conclusion is that (B) fits. Eliminated: (A), (C), (D).", "b"),
    ("Conclusion: (B)\nEliminated: (A) [generic], (C) [old], (D) [wrong user]", "b"),
    ("Eliminated: (A) [generic], (C) [old], (D) [wrong user]\n\nConclusion: (B)", "b"),
    ("**Conclusion**\n(B)\n\n**Eliminated**\n(A), (C), (D)", "b"),
    (
        "## Verdict\n\nOption (b)\n\n## Eliminated\n\n- Option (a): generic\n- Option (c): old\n- Option (d): wrong",
        "b",
    ),
    ("Result: (B). Eliminated: (A), (C), (D).", "b"),
    ("Outcome: (B). Eliminated: (A), (C), (D).", "b"),
    ("Pick: B. Not picked: A, C, D.", "b"),
    ("(B). Eliminated: (A), (C), (D).", "b"),
    ("Based on the history, (B). Eliminated: (A), (C), (D).", "b"),
    ("The user prefers jazz now (B). Eliminated: (A), (C), (D).", "b"),
    ("Conclusion: (B) is not eliminated; (A), (C), (D) are.", "b"),
    ("Eliminated: (A), (C). Conclusion: undecided.", None),
    ("Eliminated: (B). Conclusion: one of (A), (C), (D).", None),
    ("Conclusion: everything is eliminated: (A), (B), (C), (D).", None),
    ("Conclusion: anything but (B).", None),
    ("Conclusion: definitely not (B). Eliminated: (B).", None),
    ("Tentative conclusion: (A). Final conclusion: (B).", "b"),
    ("Conclusion: (B)? Eliminated: (A), (C), (D).", "b"),
    ("Conclusion: only (B) survives. Eliminated: (A), (C), (D).", "b"),
    ("Options considered: (A), (B), (C), (D). Eliminated: (A), (C), (D). Conclusion: (B).", "b"),
    ("Options considered: (A), (B), (C), (D). Eliminated: (A), (C), (D).", None),
    ("I have eliminated nothing: (a), (b), (c), (d).", None),
]


@pytest.mark.parametrize(("reply", "letter"), ELIMINATED)
def test_options_that_a_reply_eliminated_are_not_its_answer(reply: str, letter: str | None) -> None:
    assert extract_choice(reply) == letter


@pytest.mark.parametrize("cue", ["Conclusion", "Verdict", "Decision", "Judgement", "Final decision"])
@pytest.mark.parametrize("out", ["Eliminated", "Ruled out", "Rejected", "Discarded", "Excluded", "Crossed out"])
@settings(max_examples=12)
@given(data=st.data())
def test_a_conclusion_is_read_beside_any_list_of_the_others(cue: str, out: str, data: st.DataObject) -> None:
    letter = data.draw(st.sampled_from("ABCD"))
    others = data.draw(st.permutations([other for other in "ABCD" if other != letter]))
    form = data.draw(st.sampled_from(["({})", "{}", "**{}**", "option {}"]))
    between = data.draw(st.sampled_from([", ", " and ", "/", "; "]))
    parts = [f"{cue}: {form.format(letter)}.", f"{out}: {between.join(map(form.format, others))}."]
    reply = data.draw(st.sampled_from([" ", "\n", "\n\n"])).join(data.draw(st.permutations(parts)))
    assert extract_choice(reply) == letter.lower()
    assert extract_choice(parts[1]) is None


# A reply may name an answer that it gave up, or that another user would get. Found among replies in many styles.
SET_ASIDE = [
    ("At first I thought the answer was (a), but it is (c).", "c"),
    ("I was going to choose (a), but after re-reading I prefer (b).", "b"),
    ("The best answer is (c); the second best answer is (a).", "c"),
    ("Most fitting: (c); second most fitting: (a)", "c"),
    ("I choose (c). If the user had said otherwise I would choose (a).", "c"),
    ("Previously the best option was (a); now (c).", "c"),
    ("A naive reader would say the answer is (a). The user now prefers pottery, hence (c).", "c"),
]


@pytest.mark.parametrize(("reply", "letter"), SET_ASIDE)
def test_an_answer_that_the_reply_sets_aside_is_not_its_answer(reply: str, letter: str) -> None:
    assert extract_choice(reply) in (letter, None)
