"""A whole audit: all checks of all splits, and what it finds in the official release."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from official_splits import official_questions
from symmetric import symmetric

from personamem_builder.audit.audit import Audit, audit, audit_splits
from personamem_builder.audit.gates import Gate, Limit, judge, read_gates
from personamem_builder.audit.hard import write_hard
from personamem_builder.audit.packed_rows import PackedRows
from personamem_builder.audit.page import to_html
from personamem_builder.audit.probes import PROBES, probe_credits
from personamem_builder.audit.render import to_json, to_text
from personamem_builder.manifest import read_manifest

GROUPS = ["surface", "probe", "cue", "balance", "text", "integrity", "reader", "history"]


@pytest.fixture(scope="module")
def of_generated(generated: Path) -> Audit:
    return audit(generated, (), read_gates())


def groups(found: Audit) -> list[str]:
    return list(dict.fromkeys(one.finding.check.partition(".")[0] for one in found.judged))


def test_a_dataset_folder_is_named_with_its_digest(
    of_generated: Audit, generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (of_generated.source, of_generated.digest) == ("personamem", read_manifest(generated)["digest"])
    assert [split.name for split in of_generated.splits] == ["32k"]
    monkeypatch.chdir(generated)
    assert audit(Path(), (), {}).source == "personamem"


def test_other_things_have_no_digest(generated: Path) -> None:
    found = audit(generated.parent / "run", (), read_gates())
    assert (found.source, found.digest) == ("run", "")


def test_all_groups_of_checks_are_made_and_held_against_the_gates(of_generated: Audit) -> None:
    found = of_generated
    assert groups(found) == GROUPS
    assert list(found.judged) == judge([one.finding for one in found.judged], read_gates())
    assert found.failed == [one for one in found.judged if one.verdict == "FAIL"]


@pytest.mark.slow
def test_splits_are_audited_each_for_itself() -> None:
    one, other = (
        dataclasses.replace(symmetric(seed, personas=4, each=12), name=name) for seed, name in ((1, "32k"), (2, "own"))
    )
    together = audit_splits([one, other], read_gates())
    apart = [judged for split in (one, other) for judged in audit_splits([split], read_gates()).judged]
    assert list(together.judged) == apart
    assert {judged.finding.split for judged in together.judged} == {"32k", "own"}


def test_credits_of_the_probes_are_kept() -> None:
    split = symmetric(personas=4, each=12)
    found = audit_splits([split], {})
    assert found.probes == {"32k": probe_credits(split)}
    assert list(found.probes["32k"]) == list(PROBES)


def test_packed_rows_are_audited_as_a_list_of_them_is() -> None:
    split = symmetric(personas=4, each=12)
    packed = dataclasses.replace(split, rows=PackedRows(split.rows))
    assert audit_splits([packed], read_gates()).judged == audit_splits([split], read_gates()).judged


@pytest.fixture(scope="module")
def sampled() -> tuple[Audit, Audit]:
    """The audit of 120 questions of ten personas, whole and with probes of at most 70."""
    split = symmetric(personas=10, each=12)
    return audit_splits([split], {}), audit_splits([split], {}, most_probed=70)


def test_probes_look_at_a_sample_of_many_questions_and_all_else_at_all(sampled: tuple[Audit, Audit]) -> None:
    whole, part = sampled
    [split] = whole.splits
    probed = part.probed["32k"]
    assert set(probed.personas) == set(split.personas), "some questions of each, as they are few"
    assert part.probes == {"32k": probe_credits(probed)}
    changed = {
        one.finding.check for one, other in zip(whole.judged, part.judged, strict=True) if one.finding != other.finding
    }
    assert changed == {*(f"probe.{name}" for name in PROBES), "history.pooled"}
    for one in part.judged:
        if one.finding.check in changed and one.finding.slice == "all":
            assert one.finding.n == 70
            assert "a sample: 70 of 120 questions" in one.finding.note


def test_what_is_shown_says_that_there_is_a_sample(sampled: tuple[Audit, Audit], tmp_path: Path) -> None:
    whole, part = sampled
    assert "32k: 120 questions of 10 personas; probes: of 120 questions, a sample of 70\n" in to_text(part)
    assert to_json(part)["splits"][0]["sampled"] == 70
    assert "on a sample: of 120 questions, 70." in to_html(part)
    for shown in (to_text(whole), json.dumps(to_json(whole)), to_html(whole)):
        assert "a sample" not in shown
    [hard] = write_hard(tmp_path / "hard.json", part).values()
    assert set(hard) <= {row["question_id"] for row in part.probed["32k"].rows}
    assert "32k: of a sample of 70 questions" in (tmp_path / "hard.json").read_text()


def test_what_a_model_answered_is_judged_too() -> None:
    split = symmetric(personas=4, each=12)
    gates = {"model.no_context": Gate(all=Limit(not_above_chance=0.95))}
    right = {row["question_id"]: 1.0 for row in split.rows}
    [failed] = audit_splits([split], gates, {"32k": {"no_context": right}}).failed
    assert failed.finding.check == "model.no_context"
    assert groups(audit_splits([split], gates, {"128k": {"no_context": right}})) == GROUPS, "asked about another split"


# --- the official release


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "identical", "letters", "overlap", "merged"),
    [
        pytest.param("32k", 17, "pass", "FAIL", 1),
        pytest.param("128k", 115, "FAIL", "FAIL", 0, marks=pytest.mark.slow),
        pytest.param("1M", 120, "pass", "FAIL", 0, marks=pytest.mark.slow),
    ],
)
def test_the_official_release_fails(
    split: str, identical: int, letters: str, overlap: str, merged: int, official_audit: Audit
) -> None:
    # Of the other splits only the questions are there.
    audited = official_audit if split == "32k" else audit_splits([official_questions(split)], read_gates())
    found = {(one.finding.check, one.finding.slice): one for one in audited.judged}
    typed = found["probe.typed", "all"]
    assert (typed.finding.value or 0) > 0.75
    assert typed.verdict == "FAIL"
    for check in ("surface.longest", "surface.central", "cue.any_word"):
        assert found[check, "all"].verdict == "FAIL", check
    assert found["surface.overlap", "all"].verdict == overlap
    assert found["surface.shortest", "suggest_new_ideas"].verdict == "FAIL"
    assert found["surface.longest", "revisit_reasons_behind_preference_updates"].verdict == "FAIL"
    twins = found["balance.identical_options", "all"]
    assert (twins.finding.value, twins.verdict) == (identical, "FAIL")
    assert found["balance.letters", "all"].verdict == letters
    labels = found["balance.merged_labels", "all"]
    assert (labels.finding.value, labels.verdict) == (merged, "")
    assert ("recalling_facts_mentioned_by_the_user (17)" in labels.finding.note) == bool(merged)


@pytest.mark.slow
def test_the_official_contexts_are_whole(official_audit: Audit) -> None:
    """What is wrong with 32k is its options: its contexts, references and lengths are as they are stated."""
    found = {one.finding.check: one.verdict for one in official_audit.judged}
    verdicts = {check: verdict for check, verdict in found.items() if check.startswith("integrity.") and verdict}
    for check in ("missing_contexts", "orphan_contexts", "end_index", "letters", "tokens", "distance"):
        assert f"integrity.{check}" in verdicts
    assert set(verdicts.values()) == {"pass"}


@pytest.mark.slow
def test_several_processes_find_what_one_does(excerpt: Path) -> None:
    alone, together = (audit(excerpt, (), read_gates(), workers=workers) for workers in (1, 2))
    assert to_json(together) == to_json(alone)
    assert together.probes == alone.probes
