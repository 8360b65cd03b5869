"""The checks at a glance find what they are for, and leave alone what people and models really write."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from generation.llm.offline.fillers import filler
from generation.text_checks import (
    AIMS,
    Speaker,
    conversation_faults,
    is_english,
    near_duplicates,
    role_faults,
    text_faults,
    too_long,
    too_short,
    words_of,
)

OTHER_LANGUAGES = {
    "German": "Ich habe gestern lange mit meiner Schwester gesprochen, und wir sind uns einig, dass der neue Garten "
    "hinter dem Haus viel mehr Arbeit macht, als wir am Anfang dachten.",
    "German with an English title": "Gestern lief bei uns im Kino noch einmal 'The Lord of the Rings', und danach "
    "saßen wir lange in der Küche und stritten darüber, welcher Teil eigentlich der beste ist und warum.",
    "French": "Je me suis levé tôt ce matin et j'ai pris le train pour aller voir ma mère, qui habite sur la côte. On "
    "a mangé ensemble, puis on a marché le long du port.",
    "Spanish": "Ayer me di cuenta de que no me gusta tanto la comida rápida como antes, y ahora prefiero cocinar en "
    "casa con mis hijos. ¿Qué me recomiendas para una cena sencilla?",
    "Italian": "Ieri sono andato al mercato con mia sorella e abbiamo comprato molte verdure fresche per la cena. Non "
    "so ancora che cosa cucinare, ma vorrei provare un piatto nuovo.",
    "Dutch": "Het is koud en er is veel wind, of is dat in het huis van je oma niet zo? We hebben over een week vrij, "
    "en dan is het weer vast beter, of wil je liever wachten?",
    "Polish": "Wczoraj byłem na targu z moją siostrą i kupiliśmy dużo świeżych warzyw i owoców na kolację. Jeszcze nie "
    "wiem, co ugotować, ale chciałbym spróbować czegoś nowego.",
    "Danish": "Jeg var på markedet i går for at købe grøntsager, og der var så mange mennesker, at jeg måtte vente "
    "længe for at komme til. Har du et forslag til en ret for i aften?",
    "Indonesian": "Kemarin saya pergi ke pasar dengan adik saya dan kami membeli banyak sayuran segar untuk makan "
    "malam. Saya belum tahu mau masak apa, tetapi saya ingin mencoba sesuatu.",
    "Chinese": "我昨天和姐姐去了市场，买了很多新鲜蔬菜准备做晚饭。",
    "Russian": "Вчера я ходил на рынок с сестрой.",
}


# --- one text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "says nothing"),
        (" \n", "says nothing"),
        ("…", "says nothing"),
        ("User: hello", "has a speaker label (User:)"),
        ("  ASSISTANT : hello", "has a speaker label (ASSISTANT:)"),
        ("**User:** hello", "has a speaker label (User:)"),
        ("[Human]: hello", "has a speaker label (Human:)"),
        ("Side_Note: it rains", "has a speaker label (Side_Note:)"),
        ("User 1: hello", "has a speaker label (User:)"),
        ("I am back.\nAI: good", "has a speaker label (AI:)"),
        ("I am back. Assistant: Welcome.", "has a speaker label (Assistant:)"),
        ("Ayse Arslan: hello", "has a speaker label (Ayse Arslan:)"),
        ("ayse: hello", "has a speaker label (ayse:)"),
        ("Dear [name], hello", "has a placeholder ([name])"),
        ("I went to [insert city here].", "has a placeholder ([insert city here])"),
        ("I went to [CITY].", "has a placeholder ([CITY])"),
        ("I went to {city}.", "has a placeholder ({city})"),
        ("I went to {{ city }}.", "has a placeholder ({{ city }})"),
        ("Hello {…}", "has a placeholder ({…})"),
        ("Hello <user name>", "has a placeholder (<user name>)"),
        ("TODO: say something", "has a placeholder (TODO)"),
        ("It was lorem ipsum.", "has a placeholder (lorem ipsum)"),
        ("Sure, here is the conversation you asked for.", "speaks of the task"),
        ("Here’s a short profile:", "speaks of the task"),
        *((text, "is not in English") for text in OTHER_LANGUAGES.values()),
    ],
)
def test_each_fault_of_a_text_is_named(text: str, fault: str) -> None:
    assert text_faults(text, ["Ayse Arslan", "Ayse"]) == [fault]


@pytest.mark.parametrize(
    "text",
    [
        "The user: a puzzle.",
        "Each user has an id.",
        "Ayse says: hello.",
        "My TODO list is long.",
        "See [the map](https://example.org/map) or note [1].",
        "Chapter 3: what the user wants.",
        "```yaml\nuser: alice\nname: {name}\n```",
        "Write `{name}` where the name is to stand.",
        "```python\nclass Node:\n    pass\n# User: x",
        "Here is a thought.",
        "Here is the thing: it rained.",
        "Guten Morgen! That is all the German I have.",
        "So kalt heute.",
    ],
)
def test_what_only_looks_like_a_fault_is_none(text: str) -> None:
    assert text_faults(text, ["Ayse Arslan", "Ayse"]) == []


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_other_languages_are_told_from_english(language: str) -> None:
    assert not is_english(OTHER_LANGUAGES[language])


def test_a_text_with_a_foreign_name_or_a_few_foreign_words_is_english() -> None:
    assert is_english("We read 'Бедные люди' and talked about what the two of them write to each other every day.")
    assert is_english("Yes, 東京!")


# --- roles


@pytest.mark.parametrize(
    "text",
    [
        "As an AI, I have no tastes.",
        "As a large language model, I cannot eat.",
        "Well, I'm an AI assistant.",
        "How can I help you today?",
        "I’m here to help you with that.",
        "Feel free to ask more.",
        "Let me know if you have any other questions!",
        "Is there anything else I can help with?",
    ],
)
def test_a_user_who_speaks_as_the_assistant_is_noticed(text: str) -> None:
    [fault] = role_faults(text, "user")
    assert fault.startswith("speaks as the assistant (")
    assert role_faults(text, "assistant") == []


@pytest.mark.parametrize(
    "text",
    [
        "As a user, I want more.",
        "Thank you so much for the advice! I'll try it.",
        "Thanks for your help.",
        "Hi! Can you help me with dinner?",
        "Could you recommend something?",
    ],
)
def test_an_assistant_that_speaks_as_the_user_is_noticed(text: str) -> None:
    [fault] = role_faults(text, "assistant")
    assert fault.startswith("speaks as the user (")
    assert role_faults(text, "user") == []


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("user", "I am an AI researcher and I work as an AI engineer."),
        ("user", "My sister said: how can they help me?"),
        ("user", "The letter says that I may ask. I feel free."),
        ("assistant", "Thank you for telling me. You could ask the waiter: what can you recommend?"),
        ("assistant", "As an AI, I have no tastes of my own."),
        ("assistant", "Say `as a user` there."),
    ],
)
def test_ordinary_words_are_no_break_of_a_role(role: Speaker, text: str) -> None:
    assert role_faults(text, role) == []


# --- lengths and repeats


@pytest.mark.parametrize("role", AIMS)
def test_the_mean_length_has_a_band_of_half_to_twice_the_aim(role: Speaker) -> None:
    def texts(*lengths: int) -> list[str]:
        return [" ".join(["word"] * length) for length in lengths]

    aim = AIMS[role]
    assert too_short(texts(aim // 2, aim // 2), role) == []
    assert too_long(texts(2 * aim, 2 * aim), role) == []
    [fault] = too_short(texts(aim // 2, aim // 2 - 2), role)
    assert fault == f"the {role}'s messages have {aim // 2 - 1} words on average; about {aim} are wanted"
    [fault] = too_long(texts(2 * aim, 2 * aim + 2), role)
    assert fault == f"the {role}'s messages have {2 * aim + 1} words on average; about {aim} are wanted"
    assert too_short([], role) == too_long([], role) == []


def test_faults_of_a_conversation_name_turn_and_speaker() -> None:
    story = "On Monday the bus stood still in the tunnel and everybody looked at the one man who was still singing"
    assert conversation_faults([("Hello there.", "Good morning."), (f"{story}.", "That is how it goes.")]) == []
    assert conversation_faults(
        [
            ("User: hi", "Can you help me?"),
            ("", f"{story}, quite loudly."),
            (f"{story}.", "word " * 561),
            ("How can I help you?", "word " * 560),
        ],
    ) == [
        "turn 1: the user's message has a speaker label (User:)",
        "turn 1: the assistant's message speaks as the user ('can you help me')",
        "turn 2: the user's message says nothing",
        "turn 3: the assistant's message is not in English",
        "turn 3: the assistant's message has 561 words; about 140 are wanted",
        "turn 4: the user's message speaks as the assistant ('how can i help you')",
        "turn 4: the assistant's message is not in English",
        "turn 3: the user's message repeats turn 2: the assistant's message",
        "turn 4: the assistant's message repeats turn 3: the assistant's message",
    ]
    assert conversation_faults([("Ann: hello", "Hello.")], ["Ann"]) != []


def test_near_duplicates_share_more_than_half_of_their_word_triples() -> None:
    base = "one two three four five six seven eight nine ten"  # eight triples
    assert near_duplicates([base, "other words stand here", base.upper() + "!"]) == [(0, 2)]
    assert near_duplicates([base, base.replace("ten", "eleven")]) == [(0, 1)]  # seven of nine
    assert near_duplicates([base, base.replace("five", "other")]) == []  # five of eleven
    assert near_duplicates(["Yes, please.", "Yes, please."]) == []


def test_words_have_no_punctuation_and_keep_their_apostrophes() -> None:
    assert words_of("Don’t—stop, “it's” 3 a_b!") == ["don't", "stop", "it's", "3", "a", "b"]


# --- what is really written


def test_the_messages_of_the_official_release_have_no_faults_but_their_labels(excerpt: Path) -> None:
    """Text of a real model: nothing of it is taken for another language, a placeholder or a break of a role."""
    found = []
    for line in (excerpt / "shared_contexts_32k.jsonl").read_text(encoding="utf-8").splitlines():
        for messages in json.loads(line).values():
            for message in messages:
                if message["role"] != "system":
                    text = re.sub(r"^(User|Assistant)\s*:\s*", "", message["content"])
                    found += [*text_faults(text), *role_faults(text, message["role"])]
    assert found == []
    with (excerpt / "questions_32k.csv").open(encoding="utf-8", newline="") as file:
        questions = [re.sub(r"^User:\s*", "", row["user_question_or_message"]) for row in csv.DictReader(file)]
    assert [fault for text in questions for fault in text_faults(text)] == []


def test_shipped_fillers_have_no_faults() -> None:
    for index in range(80):
        assert conversation_faults(filler(index, 0).turns) == []
