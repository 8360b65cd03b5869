"""The card of a dataset: what is generated, what is kept, and that its YAML and its code do what they say."""

from __future__ import annotations

import json
import re
import shutil
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from generation.errors import UserError
from generation.resources import data_dir
from generation.tokenizer import num_tokens
from personamem_builder.build.card import card_pictures, render_card, split_card
from personamem_builder.build.front_matter import to_yaml
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.manifest import read_manifest
from personamem_builder.table_files import contexts_path

Manifest = dict[str, Any]


@pytest.fixture
def manifest(generated: Path) -> Manifest:
    return read_manifest(generated)


def published(manifest: Manifest, **more: Any) -> Manifest:
    return manifest | {"repo_id": "org/name", "version": "1.1.0"} | more


def finding(check: str, value: float, verdict: str = "pass", slice_: str = "all") -> dict[str, Any]:
    return {
        "check": check,
        "slice": slice_,
        "value": value,
        "low": value - 0.05,
        "high": value + 0.05,
        "chance": 0.25,
        "limit": "upper end at most 30.0",
        "verdict": verdict,
    }


def audit(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"splits": [{"split": "32k", "findings": list(findings)}]}


def sections(card: str) -> dict[str, str]:
    """The parts under each second-level heading."""
    _, *parts = re.split(r"^## (.*)\n", card, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


# --- what is generated


def test_it_shows_what_the_questions_are_made_of(manifest: Manifest) -> None:
    text = sections(render_card(manifest))["Statistics"]
    assert "](figures/32k.svg)" in text
    own = manifest["figures"]["32k"]
    for name, count in own["topics"].items():
        assert f"| {name} | {count} (" in text
    assert list(card_pictures(manifest)) == ["figures/32k.svg"]
    older = {key: value for key, value in manifest.items() if key != "figures"}
    assert "Statistics" not in sections(render_card(older))


def test_it_says_what_users_ask_for(manifest: Manifest) -> None:
    card = render_card(published(manifest), audit(finding("surface.longest", 0.25)))
    text = sections(card)
    assert list(text) == [
        "Statistics",
        "Load",
        "Evaluate",
        "Audit",
        "How it was made",
        "Columns",
        "Use",
        "Known limits",
        "Personal data",
        "Licence",
        "Citation",
        "Canary",
    ]
    assert f"| `32k` | {manifest['splits']['32k']['questions']} | 4 | 2 |" in card
    assert "| `surface.longest` | 25.0 [20.0, 30.0] |" in text["Audit"]
    assert "lm_eval --include_path" in text["Evaluate"]
    assert "data=org/name@v1.1.0" in text["Evaluate"]
    assert "| seed | 7 |" in text["How it was made"]
    assert "| backend | offline |" in text["How it was made"]
    assert "| `messages` | `list<{role: string, content: string}>` |" in text["Columns"]
    assert "banks of hand-written sentences" in text["Known limits"]
    assert "are invented" in text["Personal data"]
    assert "https://huggingface.co/datasets/org/name/tree/v1.1.0" in text["Citation"]
    assert "2504.14225" in text["Citation"]
    assert manifest["canary"] in text["Canary"]


def test_every_column_has_a_meaning(generated: Path, dataset_folder: Path) -> None:
    for folder in (generated, dataset_folder):
        columns = sections(render_card(read_manifest(folder)))["Columns"]
        rows = [line.strip("|").split("|") for line in columns.splitlines() if line.startswith("| `")]
        assert len(rows) > 25
        assert all(meaning.strip() for _, _, meaning in rows)


def test_the_manifest_and_the_audit_suffice(generated: Path, manifest: Manifest) -> None:
    path = generated / "audit.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    assert render_card(manifest, found) == (generated / "README.md").read_text(encoding="utf-8")


def test_an_imported_dataset_speaks_of_its_authors_and_not_of_ours(dataset_folder: Path) -> None:
    card = render_card(read_manifest(dataset_folder))
    assert "made by the authors of the original release" in sections(card)["Personal data"]
    assert "often be told from the options alone" in sections(card)["Known limits"]
    assert "1 of 17 questions have identical options" in sections(card)["Known limits"]
    assert "| seed |" not in card
    assert split_card(card).metadata["source_datasets"] == ["extended|bowen-upenn/PersonaMem"]


def test_the_highest_floor_is_named_and_failures_are_counted(manifest: Manifest) -> None:
    text = sections(
        render_card(
            manifest,
            audit(
                finding("surface.longest", 0.31),
                finding("probe.words", 0.42, "FAIL"),
                finding("reader.evidence", 0.99),
                finding("probe.words", 0.77, "FAIL", "suggest_new_ideas"),
            ),
        )
    )["Audit"]
    assert "The highest floor: `32k` 42.0 (`probe.words`)." in text
    assert "**2 of 4 limits of the release standard are missed:**" in text
    assert "- 32k: probe.words, suggest_new_ideas (upper end at most 30.0)" in text


def test_it_says_that_probes_looked_at_a_sample(manifest: Manifest) -> None:
    found = audit(finding("probe.words", 0.25))
    assert "a sample" not in render_card(manifest, found)
    found["splits"][0] |= {"questions": 100_000, "sampled": 20_000}
    text = sections(render_card(manifest, found))["Audit"]
    assert "`probe.*` and `history.pooled` of `32k`: of 100,000 questions, a sample of 20,000." in text


def test_without_an_audit_it_says_so(manifest: Manifest) -> None:
    assert "This dataset was not audited." in sections(render_card(manifest))["Audit"]


def test_warnings_stand_before_everything_else(manifest: Manifest) -> None:
    card = render_card(published(manifest, audit_banner="It misses 2 of 40 limits", superseded_by="org/name@v2.0.0"))
    lines = [line for line in card.split("-->\n", 1)[1].splitlines() if line]
    assert lines[0].startswith("> **Superseded:** use [org/name@v2.0.0]")
    assert "https://huggingface.co/datasets/org/name/tree/v2.0.0" in lines[0]
    assert lines[1].startswith("> **Warning:** It misses 2 of 40 limits.")
    assert lines[2] == "# PersonaMem"


def test_the_changelog_goes_by_tag(manifest: Manifest) -> None:
    log = [{"version": "1.1.0", "changes": ["3 questions removed."]}, {"version": "1.0.0", "changes": ["First."]}]
    changes = sections(render_card(published(manifest, changelog=log)))["Changes"]
    assert " ".join(changes.split()) == "v1.1.0: - 3 questions removed. v1.0.0: - First."


def test_it_stays_small_whatever_there_is_to_say(manifest: Manifest) -> None:
    checks = [finding(f"probe.number_{i}", 0.5, "FAIL", "track_full_preference_evolution") for i in range(500)]
    log = [{"version": f"1.{i}.0", "changes": ["A line about what changed."] * 50} for i in range(40)]
    split = manifest["splits"]["32k"]
    files = {name.replace("32k", s): entry for name, entry in manifest["files"].items() for s in ("32k", "128k", "1M")}
    three = {"splits": {"32k": split, "128k": split, "1M": split}, "files": files}
    card = render_card(published(manifest, changelog=log, **three), audit(*checks))
    assert len(card.encode()) < 25_000
    assert "480 more, see `audit.json`" in card
    assert "38 more, see `manifest.json`" in card


def test_the_manifest_of_an_older_folder_will_do(manifest: Manifest) -> None:
    for key in ("notes", "generation", "features"):
        del manifest[key]
    del manifest["splits"]["32k"]["num_bytes"]
    card = render_card(manifest)
    assert "dataset_info" not in split_card(card).metadata
    assert "| `answer_index` | `int8` |" in card
    assert "are invented" in card


# --- its YAML


def test_the_front_matter_describes_configs_and_data(manifest: Manifest) -> None:
    data = split_card(render_card(manifest)).metadata
    assert [config["config_name"] for config in data["configs"]] == ["benchmark", "shared_contexts"]
    assert [config.get("default", False) for config in data["configs"]] == [True, False]
    assert data["configs"][0]["version"] == "1.0.0"
    assert manifest["splits"]["32k"]["digests"]["benchmark"] in data["configs"][0]["description"]
    info = {entry["config_name"]: entry for entry in data["dataset_info"]}
    assert info["benchmark"]["splits"][0]["num_examples"] == manifest["splits"]["32k"]["questions"]
    assert info["shared_contexts"]["splits"][0]["num_examples"] == 4
    assert info["benchmark"]["features"] == manifest["features"]["benchmark"]
    assert data["size_categories"] == ["n<1K"]
    assert data["license"] == "mit"
    assert data["annotations_creators"] == ["machine-generated"]


@pytest.mark.parametrize(
    ("questions", "category"), [(999, "n<1K"), (1000, "1K<n<10K"), (9_999, "1K<n<10K"), (10_000, "10K<n<100K")]
)
def test_the_size_category(manifest: Manifest, questions: int, category: str) -> None:
    manifest["splits"]["32k"]["questions"] = questions
    assert split_card(render_card(manifest)).metadata["size_categories"] == [category]


@pytest.mark.parametrize(
    ("license_", "expected"),
    [
        ("cc-by-4.0", {"license": "cc-by-4.0"}),
        (["mit", "cc-by-4.0"], {"license": ["mit", "cc-by-4.0"]}),
        ("House-Rules-1", {"license": "other", "license_name": "house-rules-1", "license_link": "https://l.org"}),
        ("", {}),
    ],
)
def test_a_licence_that_the_hub_does_not_know_is_named_and_linked(
    manifest: Manifest, license_: Any, expected: dict[str, Any]
) -> None:
    manifest |= {"license": license_, "license_link": "https://l.org"}
    data = split_card(render_card(manifest)).metadata
    assert {key: value for key, value in data.items() if key.startswith("license")} == expected


TRICKY = [
    "1.0", "1.10", "1e3", "12e4", "0o17", "0x1f", "017", "1_000", "12:30", "2026-01-31", "yes", "no", "No", "on", "y",
    "n", "null", "~", "true", "", " a", "a ", "a: b", "a #b", "- a", "[a", "{a", "*a", "&a", "!a", "%a", "@a", "`a",
    "'a", '"a', "a\nb", ".inf", ".5", "+1", "-1", "=", "<<", "32k", "1M", "n<1K", "ä", "…", "a\tb", "\u2028",
]  # fmt: skip


@pytest.mark.parametrize("text", TRICKY)
def test_strings_stay_strings(text: str) -> None:
    written = to_yaml({text: [text], "key": text})
    assert yaml.safe_load(written) == {text: [text], "key": text}
    # Readers of YAML 1.2 coerce other plain words than ours does: those that look like values are quoted.
    value = written.rstrip("\n").rpartition("key: ")[2]
    assert value.startswith(('"', "'")) or re.fullmatch(r"[A-Za-z][\w<]*", value)


def test_what_yaml_cannot_hold_is_refused() -> None:
    with pytest.raises(UserError, match="would not read back"):
        to_yaml({"a": float("nan")})


# --- what is kept


def by_hand(card: str, text: str = "## Thanks\n\nTo *all*.", yaml_: str = "extra: 2026-01-31\nviewer: false\n") -> str:
    return card.replace("---\npretty_name", f"---\n{yaml_}pretty_name").rstrip("\n") + f"\n\n{text}\n"


def test_what_was_written_by_hand_is_kept(manifest: Manifest) -> None:
    older = (
        by_hand(render_card(manifest)).replace("tags:\n", "tags:\n- mine\n").replace("<!-- p", "Hello!\n\n<!-- p", 1)
    )
    older = older.replace("# PersonaMem", "# Changed inside")
    card = render_card(published(manifest), None, older)
    assert split_card(card).before == "Hello!"
    assert card.endswith("## Thanks\n\nTo *all*.\n")
    data = split_card(card).metadata
    assert data["viewer"] is False
    assert str(data["extra"]) == "2026-01-31"
    assert "mine" not in data["tags"], "keys of ours win"
    assert "Changed inside" not in card
    assert "v1.1.0" in card
    assert render_card(published(manifest), None, card) == card, "doing it again changes nothing"


def test_windows_line_ends_do_no_harm(manifest: Manifest) -> None:
    older = by_hand(render_card(manifest))
    assert render_card(manifest, None, older.replace("\n", "\r\n")) == render_card(manifest, None, older)


def test_a_readme_of_somebody_else_is_kept_whole(manifest: Manifest) -> None:
    card = render_card(manifest, None, "# My data\n\nSome words.\n")
    assert card.endswith("# My data\n\nSome words.\n")
    assert split_card(card).metadata["pretty_name"] == "PersonaMem"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"<!-- personamem:end.*", "", "one of the two marks"),
        (r"<!-- personamem:begin.*", "", "one of the two marks"),
        (r"(<!-- personamem:end.*)", r"\1\n\n<!-- personamem:begin x -->", "several generated parts"),
        (r"pretty_name: .*", "pretty_name: a: b", "not YAML"),
        (r"\A---\n(?s:.*?)\n---\n", "---\n- a\n---\n", "not a YAML mapping"),
    ],
)
def test_a_damaged_card_is_not_guessed_at(manifest: Manifest, old: str, new: str, message: str) -> None:
    damaged = re.sub(old, new, by_hand(render_card(manifest)), count=1)
    with pytest.raises(UserError, match=message):
        render_card(manifest, None, damaged)


# --- its code


OTHER_COUNT = """
from pathlib import Path
from datasets import load_dataset
card = Path("other/README.md")
text = card.read_text(encoding="utf-8")
said = f"num_examples: {len(questions)}"
assert text.count(said) == 1
card.write_text(text.replace(said, f"num_examples: {len(questions) + 1}"), encoding="utf-8")
try:
    load_dataset("other", split="32k")
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
def test_the_code_of_the_card_runs(python: Callable[..., Any], generated: Path, tmp_path: Path) -> None:
    for name in ("personamem", "other"):
        shutil.copytree(generated, tmp_path / name)
    plain, ours = re.findall(r"```python\n(.*?)```", (generated / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    show = "\nimport json, sys\nprint(json.dumps([len(questions), question['question_id'], context]))\n"
    # Without our package: its folder is not on the path.
    done = python(f"{plain}{show}assert 'personamem_builder' not in sys.modules\n{OTHER_COUNT}", PYTHONPATH="")
    shown, refused = done.stdout.splitlines()
    assert refused == "NonMatchingSplitsSizesError"  # `datasets` enforces what the card says
    count, question_id, context = json.loads(shown)
    assert count == read_manifest(generated)["splits"]["32k"]["questions"]
    assert {"role", "content"} == set(context[0])
    done = python(ours + show.replace("question['question_id']", "questions[0]['question_id']"))
    assert json.loads(done.stdout) == [count, question_id, context]


def test_the_columns_hold_what_the_card_says(generated: Path) -> None:
    contexts = {row["shared_context_id"]: row for row in iter_contexts(generated / contexts_path("32k"))}
    roles = set(re.findall(r"`(\w+)`", meaning("option_roles")))
    blocks = set()
    for row in read_questions(generated, "32k").to_pylist():
        context, end = contexts[row["shared_context_id"]], row["end_index_in_shared_context"]
        starts, topics = context["session_starts"], context["session_topics"]
        tokens = [num_tokens(message["content"]) for message in context["messages"]]
        block = [bisect_right(starts, place) - 1 for place in range(len(tokens))]
        question = num_tokens(row["user_question_or_message"])
        distance = row["distance_to_ref_in_tokens"]
        reference = next(i for i in row["evidence_message_indices"] if sum(tokens[i:end]) + question == distance)

        filler = [i for i in range(end) if not topics[block[i]]]
        assert row["num_irrelevant_tokens"] == sum(tokens[i] for i in filler)
        assert row["context_length_in_tokens"] == sum(tokens[:end]) + question
        assert row["context_length_in_letters"] == sum(len(m["content"]) for m in context["messages"][:end])
        assert row["distance_to_ref_in_blocks"] == len({block[i] for i in range(reference, end) if i not in filler})
        share = distance / row["context_length_in_tokens"]
        assert row["distance_to_ref_proportion_in_context"] == pytest.approx(share, rel=1e-5)
        assert set(row["option_roles"]) <= roles
        assert context["num_tokens"] == sum(tokens)
        blocks.add(row["distance_to_ref_in_blocks"])
    assert min(blocks) == 1, "1 if it stands in the last one"
    assert "fillers" in meaning("num_irrelevant_tokens")


def meaning(column: str) -> str:
    content = (data_dir("hub_card") / "columns.yaml").read_text(encoding="utf-8")
    texts: dict[str, str] = yaml.safe_load(content)["benchmark"]
    return texts[column]
