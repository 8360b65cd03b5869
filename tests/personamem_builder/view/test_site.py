from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.results.runs import read_runs
from personamem_builder.schema import option_text
from personamem_builder.table_files import contexts_path
from personamem_builder.view import site as site_module
from personamem_builder.view.site import INDEX, PAGE_FILES, Sample, Site


def value(site: Site, name: str) -> Any:
    content = site.content(name)
    assert content is not None, name
    given, value = json.loads(content.decode().removeprefix("personamem(...").removesuffix(");\n"))
    assert given == name
    return value


def questions_of(site: Site) -> list[dict[str, Any]]:
    rows = []
    for name in site.names():
        if "/questions-" in name:
            columns = value(site, name)
            rows += [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return rows


def test_every_question_is_in_one_file_with_its_options_and_its_context(generated, monkeypatch):
    monkeypatch.setattr(site_module, "CHUNK", 7)
    site = Site(generated)
    rows = {row["question_id"]: row for row in read_questions(generated, "32k").to_pylist()}
    contexts = {row["shared_context_id"]: row for row in iter_contexts(generated / contexts_path("32k"))}
    shown = questions_of(site)
    assert sorted(row["question_id"] for row in shown) == sorted(rows)
    assert len([name for name in site.names() if "/questions-" in name]) == -(-len(rows) // 7)
    for one in shown:
        row = rows[one["question_id"]]
        assert one["options"] == [option_text(option) for option in row["all_options"]]
        same = ("option_states", "evidence_message_indices", "answer_index", "end_index_in_shared_context", "topic")
        same += ("telling", "evidence_tellings")
        assert {name: one[name] for name in same} == {name: row[name] for name in same}
        context = value(site, f"data/0/context-{one['context']}.js")
        messages = [
            {"role": context["roles"][role], "content": context["texts"][text]}
            for role, text in zip(context["role"], context["text"], strict=True)
        ]
        assert messages == contexts[row["shared_context_id"]]["messages"]


def test_the_tellings_of_a_split_are_counted_in_a_fixed_order(generated, make_folder, dataset_folder):
    rows = read_questions(generated, "32k").to_pylist()
    counts = Counter(row["telling"] for row in rows)
    (split,) = value(Site(generated), INDEX)["splits"]
    assert [name for name, _ in split["tellings"]] == [
        t for t in ("named", "paraphrased", "implied", "mixed") if counts[t]
    ]
    assert dict(split["tellings"]) == counts
    hello = [{"role": "user", "content": "Hello."}]
    (split,) = value(Site(make_folder(hello, [{"telling": t} for t in ("mixed", "named", "mixed")])), INDEX)["splits"]
    assert split["tellings"] == [["named", 1], ["mixed", 2]]
    (split,) = value(Site(dataset_folder), INDEX)["splits"]
    assert split["tellings"] == [], "an imported release does not say"


def test_a_text_is_stored_once_however_often_a_history_has_it(make_folder):
    messages = [{"role": role, "content": f"{role} says {i % 3}"} for i in range(50) for role in ("user", "assistant")]
    context = value(Site(make_folder(messages, [{}])), "data/0/context-0.js")
    assert len(context["texts"]) == 6
    assert len(context["text"]) == 100


def test_sessions_are_numbered_and_fillers_are_not(make_folder):
    messages = [{"role": "user", "content": "x"}] * 6
    sessions = [(0, "", ""), (1, "cooking", "2020-01-01"), (3, "", ""), (4, "travel", "2020-02-01")]
    context = value(Site(make_folder(messages, [{}], sessions)), "data/0/context-0.js")
    assert context["sessions"] == [
        [0, 0, "", ""],
        [1, 1, "cooking", "2020-01-01"],
        [3, 0, "", ""],
        [4, 2, "travel", "2020-02-01"],
    ]
    unknown = value(Site(make_folder(messages, [{}], [(0, "", ""), (2, "", "")])), "data/0/context-0.js")
    assert unknown["sessions"] == [[0, 1, "", ""], [2, 2, "", ""]]


def test_the_index_counts_what_can_be_picked_and_is_small_however_many_questions_there_are(make_folder):
    messages = [{"role": "user", "content": "x"}]
    sizes = []
    for many in (10, 3000):
        folder = make_folder(messages, [{"topic": "abc"[i % 3]} for i in range(many)])
        site = Site(folder)
        [split] = value(site, INDEX)["splits"]
        assert split["questions"] == many
        assert sum(count for _, count in split["topics"]) == many
        assert split["personas"] == [[3, many]]
        assert split["types"] == [["acknowledge_latest_user_preferences", many]]
        sizes.append(len(site.content(INDEX) or b""))
    assert sizes[1] - sizes[0] < 50


def test_the_contexts_that_are_written_are_those_that_are_served(generated):
    site = Site(generated)
    names = dict(site.contexts())
    assert set(names) == {f"data/0/context-{row['context']}.js" for row in questions_of(site)}
    assert all(site.content(name) == content for name, content in names.items())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nothing.js",
        "site.py",
        "../site.py",
        "data",
        "data/../index.html",
        "data/0/questions-9.js",
        "data/0/context-999.js",
        "data/0/answers-0.js",
        "data/1/questions-0.js",
        "data/0/questions-０.js",
        "data/0/questions--1.js",
        "/etc/passwd",
    ],
)
def test_other_names_are_no_files(generated, name):
    assert Site(generated).content(name) is None


def test_page_files_load_nothing_from_elsewhere_and_hold_no_code_in_markup():
    page = (Path(site_module.__file__).parent / "index.html").read_text(encoding="utf-8")
    assert "//" not in page.replace("<!--", "")
    assert " on" not in page.split("<body")[1].replace(" one", "").replace(" option", "")
    assert "<script>" not in page
    assert "style=" not in page
    for name in PAGE_FILES:
        text = (Path(site_module.__file__).parent / name).read_text(encoding="utf-8")
        assert not [
            word for word in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(") if word in text
        ]


def test_answers_stand_beside_their_questions(generated, answers):
    ids = [row["question_id"] for row in questions_of(Site(generated))]
    folders = [answers(generated, {ids[0]: "a", ids[2]: None}), answers(generated, dict.fromkeys(ids, "b"), "other")]
    site = Site(generated, runs=read_runs(folders).runs)
    first, second = value(site, "data/0/answers-0.js")
    assert first[0][0] == ["a"]
    assert first[1] is None
    assert first[2][0] == [""]
    assert first[2][4] == "I take it."
    assert [given[0] for given in second] == [["b"]] * len(second)
    runs = value(site, INDEX)["splits"][0]["runs"]
    assert [run["label"] for run in runs] == ["org/model · personamem_32k_generate", "other · personamem_32k_generate"]
    assert [bool(run["notes"]) for run in runs] == [True, False]


def test_results_of_another_dataset_are_refused_with_both_digests(generated, answers, dataset_folder):
    results = answers(dataset_folder, {"x": "a"})
    with pytest.raises(UserError) as caught:
        Site(generated, runs=read_runs([results]).runs)
    digests = [json.loads((folder / "manifest.json").read_text())["digest"] for folder in (generated, dataset_folder)]
    assert all(digest in caught.value.message for digest in digests)
    assert str(results) in caught.value.message


def test_an_answer_to_a_question_that_is_not_there_is_refused(generated, answers):
    with pytest.raises(UserError, match="answers question nowhere, which"):
        Site(generated, runs=read_runs([answers(generated, {"nowhere": "a"})]).runs)


def test_damaged_files_and_unknown_splits_are_refused(generated, tmp_path):
    with pytest.raises(UserError, match="no split '1M'"):
        Site(generated, ["1M"])
    copy = tmp_path / "copy"
    shutil.copytree(generated, copy)
    path = copy / contexts_path("32k")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UserError, match=r"shared_contexts_32k.parquet is not as the manifest says"):
        Site(copy)


def test_a_sample_is_of_as_many_personas_as_there_are_and_its_files_are_those_of_the_whole(generated):
    rows = read_questions(generated, "32k").to_pylist()
    personas = sorted({row["persona_id"] for row in rows})
    whole, sample = Site(generated), Site(generated, sample=Sample(len(personas), 100, "../index.html"))
    chosen = questions_of(sample)
    assert sorted({row["persona_id"] for row in chosen}) == personas
    [split] = sample.splits
    assert len(split.contexts) == len(personas)
    ids = {row["shared_context_id"] for row in rows}
    assert split.left_out == (len(rows) - len(chosen), len(ids) - len(personas))
    of_whole = {row["question_id"]: row for row in questions_of(whole)}
    written = dict(sample.contexts())
    every = dict(whole.contexts())
    for row in chosen:
        full = of_whole[row["question_id"]]
        assert row == full | {"context": row["context"]}
        text = written[f"data/0/context-{row['context']}.js"].partition(b",")[2]
        assert text == every[f"data/0/context-{full['context']}.js"].partition(b",")[2]
    more = Site(generated, sample=Sample(len(ids) + 1, 100, ""))
    assert questions_of(more) == questions_of(whole)
    assert more.splits[0].left_out == (0, 0)
