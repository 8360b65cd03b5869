"""Questions that probes answer are put into other words, or dropped; and the files of the run survive anything."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from small_leaks import LENIENT, is_leaky, leaky_work, plant, questions_of
from small_runs import contents, make_run

from generation.errors import UserError
from generation.llm.backends import parse_backend
from generation.pipeline import generate
from generation.record_files import record_line
from generation.records import Question
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.refined import Refined, find_refined, read_refined
from personamem_builder.assemble.sizes import Size
from personamem_builder.assemble.splits import read_assembly
from personamem_builder.audit.audit import audit
from personamem_builder.audit.gates import Gate, Limit
from personamem_builder.build.from_run import build
from personamem_builder.build.verify import verify_dataset
from personamem_builder.manifest import read_manifest
from personamem_builder.refine.clients import Clients
from personamem_builder.refine.commit import commit, forget, read_state
from personamem_builder.refine.drafts import QuestionDraft, read_drafts
from personamem_builder.refine.origin import work_of_run
from personamem_builder.refine.refine import Refinement, Settings, refine
from personamem_builder.refine.repair import missed_limits
from personamem_builder.refine.rewrite import rewrite

SIZE = Size("5blocks", 5, None, 20, 3)


@pytest.fixture(scope="module")
def fair(fair_run: Path) -> RunStore:
    return RunStore(fair_run)


@pytest.fixture(scope="module")
def leaky(fair: RunStore, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """The same with a leak in every question but each tenth."""
    return plant(copy_of(fair, tmp_path_factory.mktemp("leaky") / "run"), lambda i: i % 10 > 0)


@pytest.fixture(scope="module")
def repaired(leaky: RunStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunStore, Refinement]:
    store = copy_of(leaky, tmp_path_factory.mktemp("repaired") / "run")
    return store, refine(store, Settings(2, LENIENT))


@pytest.fixture(scope="module")
def thinned(leaky: RunStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunStore, Refinement]:
    """The leaky run, where nothing may be rewritten."""
    store = copy_of(leaky, tmp_path_factory.mktemp("thinned") / "run")
    return store, refine(store, Settings(0, LENIENT))


def copy_of(store: RunStore, folder: Path) -> RunStore:
    return RunStore(Path(shutil.copytree(store.folder, folder)))


def decided(outcome: Refinement) -> Refined:
    assert outcome.refined is not None
    return outcome.refined


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def identity(question: Question) -> tuple[Any, ...]:
    """What a question asks, whatever its words."""
    gold = question.options[question.answer_index]
    wrong = sorted(o.states for i, o in enumerate(question.options) if i != question.answer_index)
    rest = question.model_dump(exclude={"question_id", "message", "num_tokens", "options", "answer_index"})
    return gold.states, wrong, json.dumps(rest)


# --- what is missed


@pytest.mark.slow
def test_the_limits_that_are_missed_are_those_of_an_audit(leaky: RunStore) -> None:
    drafts = read_drafts(leaky, leaky_work(), leaky.path("questions"))
    gates = {"probe.*": Gate(all=Limit(max=0.0), types=Limit(max=0.0))}
    missed = missed_limits(drafts, gates)
    assert [one.judged for one in missed] == audit(leaky.folder, (), gates).failed
    assert missed[0].name == "probe.lengths, all"
    assert len(missed[0].right) > 0.8 * len(drafts)


# --- other words


@pytest.mark.slow
def test_a_leak_is_repaired_by_other_words(leaky: RunStore, repaired: tuple[RunStore, Refinement]) -> None:
    store, outcome = repaired
    assert "probe.lengths, all" in outcome.missed_at_first
    assert outcome.missed_at_last == ()
    assert [one.finding.check for one in audit(leaky.folder, (), LENIENT).failed]
    assert audit(store.folder, (), LENIENT).failed == []
    before, after = questions_of(leaky), questions_of(store)
    assert [identity(q) for q in after] == [identity(q) for q in before], "the same plans, in the same order"
    fates = decided(outcome).questions
    assert list(fates) == [question.question_id for question in after]
    lines = zip(*(s.path("questions").read_bytes().splitlines() for s in (leaky, store)), strict=True)
    for old, new, (old_line, new_line) in zip(before, after, lines, strict=True):
        assert bool(fates[new.question_id].rewritten) == (old != new)
        assert (old_line == new_line) == (old == new)
        assert old == new or not is_leaky(new)
        assert set(fates[new.question_id].rewritten) <= {1, 2}
    rewritten = sum(map(is_leaky, before)) - sum(map(is_leaky, after))
    assert rewritten > 0.8 * len(before)


def test_the_offline_backend_has_other_words_for_each_round(fair: RunStore) -> None:
    work = leaky_work()
    drafts = read_drafts(fair, work, fair.path("questions"))
    clients = Clients(fair, work, [], None)
    words = [[words_of(draft) for draft in drafts]]
    for round_ in (1, 2):
        assert rewrite(clients, clients.connect(parse_backend("offline")), work, drafts, round_) == 0
        words.append([words_of(draft) for draft in drafts])
    new = sum(len(set(of_one)) == 3 for of_one in zip(*words, strict=True))
    assert new > 0.95 * len(drafts)
    assert [identity(draft.question) for draft in drafts] == [identity(q) for q in questions_of(fair)]
    assert len({draft.question.question_id for draft in drafts}) == len(drafts)


def words_of(draft: QuestionDraft) -> tuple[str, ...]:
    return (draft.question.message, *sorted(option.text for option in draft.question.options))


def test_where_limits_are_met_nothing_is_done(fair: RunStore, tmp_path: Path) -> None:
    store = copy_of(fair, tmp_path / "run")
    assert refine(store, Settings(2, LENIENT)) == Refinement(None, (), ())
    assert contents(store.folder) == contents(fair.folder)


# --- dropping


def test_what_probes_still_answer_is_dropped_a_tenth_of_each_type_at_most(
    leaky: RunStore, thinned: tuple[RunStore, Refinement]
) -> None:
    store, outcome = thinned
    assert store.path("questions").read_bytes() == leaky.path("questions").read_bytes()
    assert outcome.missed_at_last, "dropping a tenth does not help where nine tenths leak"
    made = Counter(question.question_type for question in questions_of(leaky))
    fates = decided(outcome).questions
    dropped = [question for question in questions_of(store) if fates[question.question_id].dropped]
    assert Counter(q.question_type for q in dropped) == {name: n // 10 for name, n in made.items() if n // 10}
    assert all(fates[question.question_id].dropped == "probe" for question in dropped)
    assert all(map(is_leaky, dropped)), "the probe would not answer the others"


@pytest.mark.slow
def test_dropping_ends_when_the_limits_are_met(fair: RunStore, tmp_path: Path) -> None:
    store = plant(copy_of(fair, tmp_path / "run"), lambda i: i % 7 == 3)
    outcome = refine(store, Settings(0, LENIENT))
    assert outcome.missed_at_first
    assert outcome.missed_at_last == ()
    dropped = decided(outcome).funnel.all.dropped["probe"]
    assert 0 < dropped < sum(count.made // 10 for count in decided(outcome).funnel.types.values())
    assert [one for one in audit(store.folder, (), LENIENT).failed] == []


def test_a_score_that_may_be_luck_drops_nothing(fair: RunStore, tmp_path: Path) -> None:
    """A cap may be missed by luck: what is dropped has to be shown to be above chance."""
    store = copy_of(fair, tmp_path / "run")
    outcome = refine(store, Settings(0, {"probe.*": Gate(all=Limit(max=0.0))}))
    assert outcome.missed_at_first
    assert outcome.refined is None
    assert contents(store.folder) == contents(fair.folder)


# --- what is written, and what follows


@pytest.mark.parametrize("which", ["repaired", "thinned"])
def test_the_funnel_adds_up(which: str, request: pytest.FixtureRequest) -> None:
    store, outcome = request.getfixturevalue(which)
    refined = decided(outcome)
    assert find_refined(store) == read_refined(store) == refined
    questions = {question.question_id: question for question in questions_of(store)}
    assert refined.questions.keys() == questions.keys()
    for count in (refined.funnel.all, *refined.funnel.types.values()):
        assert count.made == count.kept + sum(count.dropped.values())
    for name, count in refined.funnel.types.items():
        fates = [refined.questions[id_] for id_, q in questions.items() if q.question_type == name]
        assert count.made == len(fates)
        assert count.rewritten == sum(bool(fate.rewritten) for fate in fates)
        assert count.dropped["probe"] == sum(fate.dropped == "probe" for fate in fates)
    for key in ("made", "rewritten", "kept"):
        assert getattr(refined.funnel.all, key) == sum(getattr(c, key) for c in refined.funnel.types.values())
    assert refined.result == sha256(store.path("questions"))
    written = json.loads((store.folder / "refined.json").read_text(encoding="utf-8"))
    assert written["format"] == "personamem-refined-1"


@pytest.mark.slow
def test_contexts_ask_no_question_that_was_dropped(thinned: tuple[RunStore, Refinement], tmp_path: Path) -> None:
    store = copy_of(thinned[0], tmp_path / "run")
    dropped = decided(thinned[1]).dropped()
    assert len(dropped) > 5
    assemble(store, [SIZE], n_variants=2)
    asked = (store.folder / "splits" / "5blocks" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert not dropped & {json.loads(line)["source_question_id"] for line in asked}
    [split] = audit(store.folder, (), {}).splits
    assert not dropped & {row["question_id"] for row in split.rows}
    assert len(split.rows) == decided(thinned[1]).funnel.all.kept
    assert "refined.json" in read_assembly(store, "5blocks").files

    manifest = build(store, tmp_path / "personamem")
    verify_dataset(tmp_path / "personamem")
    assert read_manifest(tmp_path / "personamem")["funnel"] == manifest["funnel"] == decided(thinned[1]).published()
    assert manifest["funnel"]["all"]["dropped"] == {"probe": len(dropped), "no_context": 0}
    card = (tmp_path / "personamem" / "README.md").read_text(encoding="utf-8")
    assert f"0 were reworded and {len(dropped)} left out because trained probes answered them: see `funnel`" in card

    (store.folder / "refined.json").write_bytes(b"{}")
    with pytest.raises(UserError, match=r"refined\.json is not what the split 5blocks was assembled from"):
        build(store, tmp_path / "personamem")
    with pytest.raises(UserError, match=r"refined\.json cannot be read: made: Field required"):
        assemble(store, [SIZE], n_variants=2)


@pytest.mark.slow
def test_a_split_from_before_is_assembled_again(leaky: RunStore, tmp_path: Path) -> None:
    store = copy_of(leaky, tmp_path / "run")
    assemble(store, [SIZE], n_variants=1)
    manifest = build(store, tmp_path / "personamem")
    assert "funnel" not in manifest
    assert "funnel" not in (tmp_path / "personamem" / "README.md").read_text(encoding="utf-8")
    assert "refined.json" not in read_assembly(store, "5blocks").files
    refine(store, Settings(0, LENIENT))  # which leaves the questions as they are
    with pytest.raises(UserError, match=r"refined\.json is not what the split 5blocks was assembled from"):
        build(store, tmp_path / "personamem")


# --- again


@pytest.mark.slow
def test_the_same_again_does_nothing_and_other_settings_begin_anew(
    leaky: RunStore, repaired: tuple[RunStore, Refinement], thinned: tuple[RunStore, Refinement], tmp_path: Path
) -> None:
    store = copy_of(repaired[0], tmp_path / "run")
    before = contents(store.folder)
    again = refine(store, Settings(2, LENIENT))
    assert not again.is_new
    assert again.refined == repaired[1].refined
    assert contents(store.folder) == before
    refine(store, Settings(0, LENIENT))
    kept = {"refined.json", "stages/questions.jsonl"}
    assert {n: b for n, b in contents(store.folder).items() if n in kept} == {
        n: b for n, b in contents(thinned[0].folder).items() if n in kept
    }
    assert refine(store, Settings(2, LENIENT)).is_new
    assert contents(store.folder) == before
    # With limits that all questions meet, they are as they were made.
    assert refine(store, Settings(2, {})).refined is None
    assert contents(store.folder) == contents(leaky.folder)


def test_generate_goes_on_from_a_refined_run_and_what_it_makes_anew_is_stale(
    repaired: tuple[RunStore, Refinement], tmp_path: Path
) -> None:
    store = copy_of(repaired[0], tmp_path / "run")
    before = contents(store.folder)
    make_run(leaky_work(), store.folder)
    assert contents(store.folder) == before
    store.drop("questions")
    make_run(leaky_work(), store.folder)
    for use in (lambda: assemble(store, [SIZE], 1), lambda: audit(store.folder, (), {})):
        with pytest.raises(UserError, match="they were made anew, or personamem refine was interrupted") as raised:
            use()
        assert raised.value.hint.startswith(f"personamem refine {store.folder}; or remove refined.json")
    outcome = refine(store, Settings(2, LENIENT))
    assert outcome.was_stale
    assert outcome.refined is None
    assert not (store.folder / "refined.json").exists()


def test_a_run_that_another_model_read_back_can_be_refined(fair: RunStore, tmp_path: Path) -> None:
    store = copy_of(fair, tmp_path / "run")
    path = store.folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"reader": "openai:owl"}))
    assert work_of_run(store).reader == "openai:owl"
    assert refine(store, Settings(0, {})).refined is None


@pytest.mark.parametrize("which", ["repaired", "thinned"])
def test_a_refined_run_that_gets_more_users_is_again_as_it_was_made(
    which: str, leaky: RunStore, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = copy_of(request.getfixturevalue(which)[0], tmp_path / "run")
    assert (store.folder / "refined.json").exists()
    more = leaky_work()
    more = more._replace(config=more.config.model_copy(update={"personas": 5}))
    generate(more, RunStore.open(store.folder, more.fingerprint(), before_growing=forget))
    made = leaky.path("questions").read_bytes()
    assert store.path("questions").read_bytes().startswith(made)
    assert {question.persona_id for question in questions_of(store)} == set(range(5))
    assert not list(store.folder.glob("refined.json")) + list(store.folder.glob("questions_made.jsonl"))
    assert not forget(store)
    assemble(store, [SIZE], 1)


class Killed(BaseException):
    pass


def test_after_a_kill_the_same_command_ends_with_the_same_bytes(
    leaky: RunStore,
    repaired: tuple[RunStore, Refinement],
    thinned: tuple[RunStore, Refinement],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed at each file that takes its place, on the way from each state to each other."""
    made = sha256(leaky.path("questions"))
    states = {"made": None, "repaired": repaired, "thinned": thinned}
    decisions = {name: pair and decisions_of(pair[0]) for name, pair in states.items()}
    kills = 0
    for begun, ended in permutations(states, 2):
        for at in range(4):
            store = copy_of((states[begun] or (leaky,))[0], tmp_path / f"{begun}-{ended}-{at}")

            def replace(path: Path, target: Path, left: list[int] = [at]) -> Path:  # noqa: B006 (counts down)
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return REPLACE(path, target)

            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", replace)
                try:
                    commit(store, read_state(store).made, *(decisions[ended] or ([], None)))
                except Killed:
                    kills += 1
                    # The questions are whole, and a decision that is not of them is noticed.
                    refined, now = find_refined(store), sha256(store.path("questions"))
                    assert now == made if refined is None else now in (refined.made, refined.result)
            commit(store, read_state(store).made, *(decisions[ended] or ([], None)))
            kept = ("refined.json", "stages/questions.jsonl")
            expected = contents((states[ended] or (leaky,))[0].folder)
            assert {name: contents(store.folder).get(name) for name in kept} == {
                name: expected.get(name) for name in kept
            }
    assert kills > 8


REPLACE = Path.replace


def decisions_of(store: RunStore) -> tuple[list[QuestionDraft], Refined | None]:
    made = read_state(store).made
    drafts = read_drafts(store, leaky_work(), made)
    for draft, question, line in zip(
        drafts, questions_of(store), store.path("questions").read_bytes().splitlines(keepends=True), strict=True
    ):
        draft.question, draft.line = question, line
    return drafts, find_refined(store)


@pytest.mark.slow
def test_what_an_interrupted_refinement_left_is_not_assembled(
    repaired: tuple[RunStore, Refinement], leaky: RunStore, tmp_path: Path
) -> None:
    store = copy_of(repaired[0], tmp_path / "run")
    shutil.copy(leaky.path("questions"), store.path("questions"))  # a kill before the last file
    with pytest.raises(UserError, match="or personamem refine was interrupted"):
        assemble(store, [SIZE], 1)
    assert refine(store, Settings(2, LENIENT)).is_new
    assert contents(store.folder) == contents(repaired[0].folder)


# --- runs that cannot be refined


def test_the_questions_from_before_are_needed(repaired: tuple[RunStore, Refinement], tmp_path: Path) -> None:
    store = copy_of(repaired[0], tmp_path / "run")
    with (store.folder / "questions_made.jsonl").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(UserError, match=r"questions_made\.jsonl is not what it was"):
        refine(store, Settings(1, LENIENT))


@pytest.mark.parametrize("stage", ["fillers", "questions"])
def test_a_run_that_is_not_finished(fair: RunStore, tmp_path: Path, stage: str) -> None:
    store = copy_of(fair, tmp_path / "run")
    store.drop(stage)
    with pytest.raises(UserError, match=rf"{stage}\.jsonl: No such file") as raised:
        refine(store, Settings(2, LENIENT))
    assert raised.value.hint.startswith("finish the run")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        refine(RunStore(tmp_path), Settings(2, LENIENT))


def test_a_question_that_no_plan_asks_is_refused(fair: RunStore, tmp_path: Path) -> None:
    store = copy_of(fair, tmp_path / "run")
    lines = store.path("questions").read_bytes().splitlines(keepends=True)
    other = questions_of(fair)[0].model_copy(update={"subject": "nothing of the kind"})
    store.path("questions").write_bytes(b"".join([record_line(other), *lines[1:]]))
    with pytest.raises(UserError, match="does not hold the questions that the histories of"):
        refine(store, Settings(2, LENIENT))
