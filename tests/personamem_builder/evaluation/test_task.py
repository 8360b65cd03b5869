"""The task through lm-eval's own evaluator, with small models that show what they were asked."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from generation.errors import UserError
from generation.resources import data_dir
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.load import iter_examples
from personamem_builder.schema import Message, option_text
from personamem_builder.subset import write_subset
from personamem_builder.table_files import contexts_path


class WordLM(LM):
    """Its tokens are words; it likes an option the more the longer it is, by a given value per word."""

    def __init__(self, per_word: float = -1.0, max_length: int = 10**9, answer: str = "<final_answer>(a)") -> None:
        super().__init__()
        self.per_word, self.max_length, self.answer = per_word, max_length, answer
        self.asked: list[Any] = []

    def tok_encode(self, text: str, **_: Any) -> list[str]:
        return text.split()

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"<{m['role']}>\n{m['content']}\n" for m in messages) + "<assistant>\n"

    def chat_template(self, name: Any = None) -> str:
        return "toy"

    @property
    def tokenizer_name(self) -> str:
        return "words"

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        self.asked += requests
        # A constant beside the sum makes the mean per word prefer long options where the sum prefers short ones.
        return [(-20 + self.per_word * len(request.args[1].split()), False) for request in requests]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        self.asked += requests
        return [self.answer for _ in requests]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def data(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    return dataset_folder


def run(lm: LM, task: str = "personamem_32k", *, chat: bool = True, **arguments: Any) -> dict[str, Any]:
    metadata = arguments.pop("metadata", {})
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    return simple_evaluate(  # type: ignore[no-any-return]
        model=lm, tasks=[task], task_manager=manager, apply_chat_template=chat, bootstrap_iters=1, **arguments
    )


def test_the_sum_and_the_mean_per_token_are_both_exact() -> None:
    results = run(WordLM())["results"]["personamem_32k"]
    rows = list(iter_examples("32k"))
    expected: dict[str, float] = defaultdict(float)
    for row in rows:
        words = [len(option_text(option).split()) for option in row["all_options"]]
        for name, best in (("acc", min(words)), ("acc_per_token", max(words))):
            tied = [i for i, n in enumerate(words) if n == best]
            expected[name] += (row["answer_index"] in tied) / len(tied) / len(rows)
    assert results["acc,none"] == pytest.approx(expected["acc"])
    assert results["acc_per_token,none"] == pytest.approx(expected["acc_per_token"])
    assert expected["acc"] != expected["acc_per_token"]


def test_every_metric_has_a_standard_error_and_macro_is_the_mean_of_the_types() -> None:
    results = run(WordLM())["results"]["personamem_32k"]
    metrics = {name.removesuffix(",none") for name in results if name.endswith(",none") and "_stderr" not in name}
    types = {row["question_type"] for row in iter_examples("32k")}
    by_type = {f"acc_{name}" for name in types}
    assert metrics == {"acc", "acc_per_token", "acc_macro", "skipped", "truncated", *by_type}
    assert all(isinstance(results[f"{name}_stderr,none"], float) for name in metrics)
    assert results["acc_macro,none"] == pytest.approx(sum(results[f"{name},none"] for name in by_type) / len(types))


def test_macro_counts_the_questions_that_were_asked() -> None:
    results = run(WordLM(), limit=5)["results"]["personamem_32k"]
    types = {row["question_type"] for row, _ in zip(iter_examples("32k"), range(5), strict=False)}
    assert results["acc_macro,none"] == pytest.approx(sum(results[f"acc_{name},none"] for name in types) / len(types))


def test_options_are_scored_as_rendered() -> None:
    """The line break after the assistant's tag stays in the context; the option is its bare text."""
    lm = WordLM()
    run(lm)
    prompt, option = lm.asked[0].args
    assert prompt.endswith("<assistant>\n")
    assert prompt.rstrip() == prompt
    assert option == option_text(lm.asked[0].doc["all_options"][0])


def test_the_model_sees_roles_with_a_chat_template_and_labelled_text_without() -> None:
    with_template, without = WordLM(), WordLM()
    run(with_template)
    run(without, chat=False)
    assert with_template.asked[0].args[0].startswith("<system>\nCurrent user persona: ")
    assert without.asked[0].args[0].startswith("Current user persona: ")
    assert without.asked[0].args[0].endswith("\n\nAssistant:")
    assert without.asked[0].args[1].startswith(" ")


def test_questions_go_out_context_by_context() -> None:
    lm = WordLM()
    run(lm)
    order = [(r.doc["shared_context_id"], r.doc["end_index_in_shared_context"]) for r in lm.asked]
    assert order == sorted(order)


def test_without_context_neither_history_nor_persona_is_shown() -> None:
    lm = WordLM()
    run(lm, "personamem_32k_nocontext")
    for request in lm.asked:
        assert request.args[0] == f"<user>\n{request.doc['user_question_or_message']}\n<assistant>\n"


@pytest.mark.parametrize("task", ["personamem_32k_letters", "personamem_32k_generate"])
def test_the_options_are_shown_where_a_letter_is_asked_for(task: str) -> None:
    lm = WordLM()
    run(lm, task)
    assert all("\n".join(request.doc["all_options"]) in request.args[0] for request in lm.asked)


def test_letters_are_scored_as_letters() -> None:
    lm = WordLM()
    run(lm, "personamem_32k_letters")
    assert [request.args[1] for request in lm.asked[:4]] == ["(a)", "(b)", "(c)", "(d)"]


def test_generation_has_no_stop_string_and_both_filters_are_reported() -> None:
    lm = WordLM(answer="I considered (a), but no. Final answer: b")
    results = run(lm, "personamem_32k_generate")["results"]["personamem_32k_generate"]
    answers = [row["answer_index"] for row in iter_examples("32k")]
    assert lm.asked[0].args[1]["until"] == []
    assert results["acc,robust"] == pytest.approx(answers.count(1) / len(answers))
    assert results["acc,v1_parity"] == pytest.approx(answers.count(0) / len(answers))
    assert results["invalid_rate,robust"] == results["invalid_rate,v1_parity"] == 0


def test_answers_without_a_letter_are_invalid_and_wrong() -> None:
    results = run(WordLM(answer="I cannot say."), "personamem_32k_generate")["results"]["personamem_32k_generate"]
    assert (results["acc,robust"], results["invalid_rate,robust"]) == (0, 1)


def lengths(lm: WordLM) -> list[int]:
    """Return the tokens that each question needs."""
    needed: dict[int, int] = defaultdict(int)
    for request in lm.asked:
        tokens = len(lm.tok_encode(request.args[0])) + len(lm.tok_encode(request.args[1]))
        needed[request.doc_id] = max(needed[request.doc_id], tokens)
    return list(needed.values())


@pytest.fixture(scope="module")
def needed(dataset_folder: Path) -> list[int]:
    lm = WordLM()
    run(lm, metadata={"data": str(dataset_folder)})
    return lengths(lm)


def test_a_question_too_long_for_the_model_is_an_error_before_the_first_request(needed: list[int]) -> None:
    window = sorted(needed)[10]
    lm = WordLM(max_length=window)
    with pytest.raises(UserError) as caught:
        run(lm)
    too_long = sum(n > window for n in needed)
    assert f"{too_long} of 17 questions are too long" in caught.value.message
    assert f"window is {window} tokens, the longest needs {max(needed)}" in caught.value.message
    assert "no split of this dataset fits" in caught.value.message
    assert "overlength=skip" in caught.value.hint
    assert lm.asked == []


def test_a_window_that_just_fits_is_no_error(needed: list[int]) -> None:
    lm = WordLM(max_length=max(needed))
    assert run(lm)["results"]["personamem_32k"]["skipped,none"] == 0


@pytest.mark.parametrize("task", ["personamem_32k", "personamem_32k_generate"])
def test_skipped_questions_are_not_asked_and_count_as_wrong(needed: list[int], task: str) -> None:
    window = sorted(needed)[10]
    lm = WordLM(max_length=window)
    arguments = {"gen_kwargs": "max_gen_toks=0"} if task.endswith("generate") else {}
    results = run(lm, task, metadata={"overlength": "skip"}, **arguments)
    scores = results["results"][task]
    asked = {request.doc["question_id"] for request in lm.asked}
    key = "robust" if task.endswith("generate") else "none"
    assert 0 < len(asked) < 17
    assert scores[f"skipped,{key}"] == pytest.approx(1 - len(asked) / 17)
    assert results["n-samples"][task] == {"original": 17, "effective": 17}
    right = sum(sample["acc"] for sample in results["samples"][task] if sample["doc"]["question_id"] in asked)
    filters = 2 if task.endswith("generate") else 1
    assert scores[f"acc,{key}"] == pytest.approx(right / filters / 17)


def test_left_lets_lm_eval_cut_and_says_how_often(needed: list[int]) -> None:
    window = sorted(needed)[10]
    scores = run(WordLM(max_length=window), metadata={"overlength": "left"})["results"]["personamem_32k"]
    assert scores["truncated,none"] == pytest.approx(sum(n > window for n in needed) / 17)
    assert scores["skipped,none"] == 0


def test_the_answer_budget_counts_towards_the_length(needed: list[int]) -> None:
    with pytest.raises(UserError, match="17 of 17 questions are too long"):
        run(WordLM(max_length=max(needed)), "personamem_32k_generate", gen_kwargs="max_gen_toks=50000")


def test_the_results_name_the_data(dataset_folder: Path) -> None:
    metadata = run(WordLM(), limit=1)["configs"]["personamem_32k"]["metadata"]
    assert metadata["data"] == str(dataset_folder)
    assert len(metadata["data_digest"]) == 64


def test_metadata_names_other_data_than_the_environment(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_DATA", "nowhere")
    assert run(WordLM(), limit=1, metadata={"data": str(dataset_folder)})


@pytest.mark.parametrize(("key", "value"), [("roles", "mixed"), ("overlength", "right"), ("memory", "half")])
def test_an_unknown_setting_is_an_error(key: str, value: str) -> None:
    with pytest.raises(UserError, match=f"--metadata {key}={value}: no such value"):
        run(WordLM(), metadata={key: value})


def test_every_task_file_loads_as_a_task_of_its_split_and_setting() -> None:
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False)
    names = {
        f"personamem_{split}{setting}{context}"
        for split in ("32k", "128k", "1M")
        for setting in ("", "_letters", "_generate")
        for context in ("", "_nocontext")
    }
    assert {name for name in manager.all_subtasks if name.startswith("personamem_")} == names
    assert "personamem" in manager.all_groups
    loaded = manager.load([name for name in sorted(names) if "_32k" in name])["tasks"]
    for name, task in loaded.items():
        assert ("generate_until" if "generate" in name else "multiple_choice") == task.OUTPUT_TYPE
        assert task.messages(task.eval_docs[0])[0]["role"] == ("user" if "nocontext" in name else "system")


# --- an instruction of the user's


def last_message(task: str, **metadata: Any) -> str:
    lm = WordLM()
    run(lm, task, limit=1, metadata=metadata)
    return str(lm.asked[0].args[0])


def test_an_instruction_stands_in_the_place_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("Pick {one} of {% these %}.\n", encoding="utf-8")
    for task in ("personamem_32k_letters", "personamem_32k_generate"):
        own, other = last_message(task), last_message(task, instruction=str(file))
        before, _, options = own.partition("\n\nWhich of these")
        assert other == f"{before}\n\nPick {{one}} of {{% these %}}.\n\n(a) {options.partition('(a) ')[2]}"


def test_an_instruction_with_fields_is_the_whole_turn(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    turn = "{{user_question_or_message}}\n{% for one in all_options %}* {{one}}\n{% endfor %}Which?"
    file.write_text(turn, encoding="utf-8")
    shown = last_message("personamem_32k_generate_nocontext", instruction=str(file))
    assert shown.count("\n* (") == 4
    assert shown.endswith("Which?\n<assistant>\n")


def test_the_results_name_the_instruction_and_the_model_may_explain(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("Pick one.", encoding="utf-8")
    task = "personamem_32k_generate"
    named = run(WordLM(), task, limit=1, metadata={"instruction": str(file)})["configs"][task]["metadata"]
    assert named["instruction_sha256"] == hashlib.sha256(b"Pick one.").hexdigest()
    assert "Explain in a sentence or two" not in last_message(task)
    assert "Explain in a sentence or two" in last_message(task, explain=True)


@pytest.mark.parametrize(
    ("task", "text", "said"),
    [
        ("personamem_32k_letters", " \n", "mine.txt is empty: there is no instruction in it"),
        ("personamem_32k", "Pick one.", "personamem_32k shows no options"),
        ("personamem_32k_letters", "{{question}} {{all_options}}", "has fields, but not user_question_or_message"),
        (
            "personamem_32k_letters",
            "{{user_question_or_message}}{{all_options}}{{correct_answer}}",
            "mine.txt: correct_answer is not shown to a model",
        ),
        ("personamem_32k_letters", "Pick.\n{{all_options", "mine.txt, line 2: "),
    ],
)
def test_a_faulty_instruction_is_one_clear_error(tmp_path: Path, task: str, text: str, said: str) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as raised:
        run(WordLM(), task, metadata={"instruction": str(file)})
    assert said in raised.value.message


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"instruction": "nowhere.txt"}, "nowhere.txt"),
        ({"instruction": 3}, "--metadata instruction=3 is not a path"),
        ({"explain": "yes"}, "explain='yes' is neither true nor false"),
        ({"explain": True, "instruction": "x"}, "both explain and instruction"),
        ({"split": 32}, "--metadata split=32 is not the name of a split"),
    ],
)
def test_faulty_words_about_the_prompt_are_one_clear_error(metadata: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        run(WordLM(), "personamem_32k_generate", metadata=metadata)
    assert said in raised.value.message


def test_letters_take_no_explanation() -> None:
    with pytest.raises(UserError, match="personamem_32k_letters takes no explanation"):
        run(WordLM(), "personamem_32k_letters", metadata={"explain": True})


def chosen_ids(count: int) -> list[str]:
    """Return ids of the excerpt's questions, not in their order."""
    return [row["question_id"] for row in iter_examples("32k")][: 2 * count : 2][::-1]


def asked_ids(lm: WordLM) -> list[str]:
    return list(dict.fromkeys(request.doc["question_id"] for request in lm.asked))


def test_a_subset_restricts_a_task_to_its_questions_and_the_results_say_so(
    tmp_path: Path, dataset_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERSONAMEM_DATA")
    ids = sorted(row["question_id"] for row in iter_examples("32k", data=dataset_folder))[:5]
    write_subset(Path("hard.json"), {"128k": ["other"], "32k": ids}, method="m", source="s", digest=None)
    Path("hard.txt").write_text("\n".join([*reversed(ids), "", ids[0]]), encoding="utf-8")
    whole = WordLM()
    run(whole, metadata={"data": str(dataset_folder)})
    for file in ("hard.json", "hard.txt"):
        for task in ("personamem_32k", "personamem_32k_generate_nocontext"):
            lm = WordLM()
            results = run(lm, task, metadata={"data": str(dataset_folder), "subset": file})
            assert sorted(asked_ids(lm)) == ids
            assert asked_ids(lm) == [question_id for question_id in asked_ids(whole) if question_id in ids]
            assert results["n-samples"][task] == {"original": 5, "effective": 5}
            named = results["configs"][task]["metadata"]
            lines = "".join(f"{question_id}\n" for question_id in ids)
            assert (named["subset"], named["subset_size"]) == (file, 5)
            assert named["subset_sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert (
        "subset_sha256"
        not in run(whole, metadata={"data": str(dataset_folder)})["configs"]["personamem_32k"]["metadata"]
    )


def test_macro_counts_the_questions_of_the_subset(tmp_path: Path) -> None:
    ids = chosen_ids(6)
    (tmp_path / "ids.txt").write_text("\n".join(ids), encoding="utf-8")
    results = run(WordLM(), metadata={"subset": str(tmp_path / "ids.txt")})["results"]["personamem_32k"]
    types = {row["question_type"] for row in iter_examples("32k") if row["question_id"] in ids}
    assert results["acc_macro,none"] == pytest.approx(sum(results[f"acc_{name},none"] for name in types) / len(types))


def test_ids_that_the_data_lack_are_an_error_before_the_first_request(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_text("\n".join([*chosen_ids(3), "zebra", "aardvark"]), encoding="utf-8")
    lm = WordLM()
    with pytest.raises(UserError) as caught:
        run(lm, metadata={"subset": str(file)})
    assert f"{file}: 2 of its 5 questions are not in the split 32k of " in caught.value.message
    assert caught.value.message.endswith("such as aardvark")
    assert "data=" in caught.value.hint
    assert lm.asked == []


@pytest.mark.parametrize("value", ["", 7, ["q1"]])
def test_a_subset_is_a_path(value: Any) -> None:
    with pytest.raises(UserError, match=r"--metadata subset=.* is not a path"):
        run(WordLM(), metadata={"subset": value})


# ---- other histories


class MessageLM(WordLM):
    """It keeps the messages that the task makes, as `hf-prefix` gets them."""

    takes_prompt_refs = True

    def messages(self) -> dict[str, list[Message]]:
        return {request.doc["question_id"]: request.args[0].messages() for request in self.asked}


def shown(generated: Path, memory: str, **metadata: Any) -> tuple[MessageLM, dict[str, Any]]:
    lm = MessageLM()
    results = run(lm, metadata={"data": str(generated), "memory": memory, "roles": "verbatim", **metadata})
    return lm, results["configs"]["personamem_32k"]["metadata"]


def test_the_evidence_arm_shows_the_user_and_the_evidence_alone(generated: Path) -> None:
    lm, named = shown(generated, "oracle")
    assert named["memory"] == "oracle"
    rows = {row["question_id"]: row for row in iter_examples("32k", data=generated)}
    assert lm.messages().keys() == rows.keys()
    for question_id, messages in lm.messages().items():
        row = rows[question_id]
        told = [row["context"][i] for i in sorted(row["evidence_message_indices"])]
        question = {"role": "user", "content": row["user_question_or_message"]}
        persona = next(message for message in row["context"] if message["role"] == "system")
        assert messages == [persona, *told, question]


def test_the_evidence_is_parted_by_session(generated: Path) -> None:
    starts = {
        row["shared_context_id"]: row["session_starts"] for row in iter_contexts(generated / contexts_path("32k"))
    }
    rows = {row["question_id"]: row for row in iter_examples("32k", data=generated)}
    lm, _ = shown(generated, "oracle", roles="normalised")
    several = 0
    for question_id, messages in lm.messages().items():
        row = rows[question_id]
        sessions: dict[int, list[str]] = defaultdict(list)
        for i in sorted(row["evidence_message_indices"]):
            assert row["context"][i]["role"] == "user"
            sessions[sum(start <= i for start in starts[row["shared_context_id"]])].append(row["context"][i]["content"])
        told = [f"[Session {n}]\n" + "\n\n".join(texts) for n, texts in enumerate(sessions.values(), 1)]
        assert messages[-1]["content"] == "\n\n".join([*told, row["user_question_or_message"]])
        several += len(sessions) > 1
    assert several > 10


def test_the_wrong_user_is_another_one_with_about_as_long_a_history(generated: Path) -> None:
    lm, named = shown(generated, "wrong-user")
    assert named["memory"] == "wrong-user"
    contexts = {row["shared_context_id"]: row for row in iter_contexts(generated / contexts_path("32k"))}
    wrong: dict[str, set[str]] = {}
    for question_id, messages in lm.messages().items():
        row = next(request.doc for request in lm.asked if request.doc["question_id"] == question_id)
        history = messages[:-1]
        assert messages[-1] == {"role": "user", "content": row["user_question_or_message"]}
        # Contexts of a user may begin alike.
        others = {id_: c for id_, c in contexts.items() if c["messages"][: len(history)] == history}
        assert others
        for other in others.values():
            assert other["persona_id"] != row["persona_id"]
            assert len(history) in (*other["session_starts"], len(other["messages"]))  # no session breaks off
        assert history[0]["content"] != contexts[row["shared_context_id"]]["messages"][0]["content"]
        ends = [min(row["end_index_in_shared_context"], len(other["messages"])) for other in others.values()]
        assert min(abs(len(history) - end) for end in ends) <= 12  # half a session
        wrong[row["shared_context_id"]] = wrong.get(row["shared_context_id"], set(others)) & set(others)
    assert len(wrong) == len(contexts)
    assert all(wrong.values())  # one context takes the place of another, wherever it is asked


def test_the_wrong_user_is_the_same_on_a_subset(generated: Path, tmp_path: Path) -> None:
    whole = shown(generated, "wrong-user")[0].messages()
    rows = list(iter_examples("32k", data=generated))
    of_one = [row["question_id"] for row in rows if row["persona_id"] == rows[0]["persona_id"]][:5]
    (tmp_path / "ids.txt").write_text("\n".join(of_one), encoding="utf-8")
    part = shown(generated, "wrong-user", subset=str(tmp_path / "ids.txt"))[0].messages()
    assert part == {question_id: whole[question_id] for question_id in of_one}


def test_prompts_of_other_histories_are_others_and_are_grouped_by_what_they_share(generated: Path) -> None:
    digests: set[str] = set()
    groups: dict[str, dict[str, str]] = {}
    for history in ("full", "wrong-user", "oracle"):
        lm, _ = shown(generated, history)
        refs = {request.doc["question_id"]: request.args[0] for request in lm.asked}
        digests |= set(refs.values())
        groups[history] = {question_id: ref.group for question_id, ref in refs.items()}
        opening: dict[str, str] = {}
        for ref in refs.values():
            first = ref.messages()[0]["content"]
            assert opening.setdefault(ref.group, first) == first  # as `hf-prefix` takes it
    assert len(digests) == 3 * len(groups["full"])
    assert all(len({of[question_id] for of in groups.values()}) == 3 for question_id in groups["full"])
    assert len(set(groups["full"].values())) == 4


def test_no_wrong_history_is_shared_by_two_processes(generated: Path) -> None:
    metadata = {"data": str(generated), "memory": "wrong-user", "roles": "verbatim"}
    manager = TaskManager(include_path=str(data_dir("lm_eval_tasks")), include_defaults=False, metadata=metadata)
    task = manager.load(["personamem_32k"])["tasks"]["personamem_32k"]
    # A persona may have several histories, which begin with the same profile.
    first, second = (
        {
            tuple(message["content"] for message in task.messages(doc)[:4])
            for _, doc in task.doc_iterator(rank=rank, world_size=2)
        }
        for rank in (0, 1)
    )
    assert first
    assert second
    assert not first & second


def test_lengths_are_those_of_what_is_shown(generated: Path) -> None:
    short = 2000
    with pytest.raises(UserError, match=r"(\d+) of \1 questions are too long .* no split of this dataset fits"):
        run(WordLM(max_length=short), metadata={"data": str(generated)})
    with pytest.raises(UserError, match=r"(\d+) of \1 questions are too long") as caught:
        run(WordLM(max_length=short), metadata={"data": str(generated), "memory": "wrong-user"})
    assert "fits" not in caught.value.message
    assert run(WordLM(max_length=short), metadata={"data": str(generated), "memory": "oracle"})


def test_tasks_without_context_take_no_other_history_and_name_none(generated: Path) -> None:
    metadata = {"data": str(generated), "memory": "oracle"}
    with pytest.raises(UserError, match="personamem_32k_generate_nocontext shows no history") as caught:
        run(WordLM(), "personamem_32k_generate_nocontext", metadata=metadata)
    assert caught.value.hint == "use --tasks personamem_32k_generate"
    results = run(WordLM(), "personamem_32k_nocontext", metadata={"data": str(generated), "memory": "full"}, limit=1)
    assert "memory" not in results["configs"]["personamem_32k_nocontext"]["metadata"]
    assert run(WordLM(), limit=1)["configs"]["personamem_32k"]["metadata"]["memory"] == "full"


def test_the_official_release_has_no_evidence_to_show() -> None:
    with pytest.raises(UserError, match=r"17 of 17 questions of .* do not say where their evidence stands"):
        run(WordLM(), metadata={"memory": "oracle"})


def test_one_persona_has_no_wrong_user() -> None:
    with pytest.raises(UserError, match="has one persona"):
        run(WordLM(), metadata={"memory": "wrong-user"})
