"""`personamem persona-bench`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from generation.reading import clean, clean_text
from personamem_builder.cli.help import Group
from personamem_builder.cli.options import PATH, dataset_out_option, json_option
from personamem_builder.persona_bench.prompts import LIMITS, Limits
from personamem_builder.persona_bench.records import CONDITIONS, SPLITS, TASKS

if TYPE_CHECKING:
    from personamem_builder.persona_bench.report import BenchReport
    from personamem_builder.persona_bench.runs import Run
    from personamem_builder.results.files import ReadRuns

_CHARACTERS: Final = click.IntRange(0, 10**9)


@click.group(name="persona-bench", cls=Group)
def persona_bench() -> None:
    """Import, audit and score PERSONA-Bench, whose tasks are to classify, forecast and write as a Reddit user would."""


@persona_bench.command(
    "import",
    short_help="Turn posts into a dataset folder.",
    examples=["personamem persona-bench import Raw_Data_Postized.json --out persona_bench"],
)
@click.argument("file", type=PATH)
@dataset_out_option("persona_bench")
@click.option(
    "--seed",
    type=click.IntRange(-(2**63), 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the splits and of the other users' histories.",
)
def import_(file: Path, out: Path, seed: int) -> None:
    """Turn a FILE of posts into a dataset folder with the items of the three tasks.

    FILE is the raw list of posts, the same grouped by author, or one of the prompt files (JSON lines). It is checked
    before anything is written, and all faults are listed. If it looks like the full release, counts are shown beside
    the published ones.
    """
    from personamem_builder.persona_bench.published import compare_counts
    from personamem_builder.persona_bench.write import import_file

    manifest = import_file(file, out, seed)
    click.echo(manifest["terms"], err=True)
    counts = manifest["counts"]
    click.echo(f"{out}: {counts['posts']} posts, {counts['messages']} comments, {counts['users']} authors")
    for task, splits in manifest["items"].items():
        click.echo(f"{task}: " + ", ".join(f"{entry['items']} {split}" for split, entry in splits.items()))
    if compared := compare_counts(manifest):
        click.echo(f"\n{compared}")
    click.echo(f"next: personamem persona-bench audit {out}", err=True)


@persona_bench.command(
    "audit",
    short_help="Check the items for leaks and shortcuts.",
    examples=["personamem persona-bench audit persona_bench"],
)
@click.argument("folder", type=PATH)
def audit(folder: Path) -> None:
    """Check the items of a FOLDER for leaks, and probe shortcuts to their labels.

    The exit status is 1 if anything leaks.
    """
    show_audit(folder)


def show_audit(folder: Path) -> None:
    """Print an audit of a PERSONA-Bench folder, and exit with 1 if anything leaks."""
    from personamem_builder.persona_bench.audit import audit_folder, render

    found = audit_folder(folder)
    click.echo(render(found))
    if found.leaks:
        sys.exit(1)
    click.echo(f"next: personamem eval --tasks persona_bench --log_samples --metadata data={folder}", err=True)


@persona_bench.command(
    short_help="Write the prompts to files, for any harness.",
    examples=["personamem persona-bench prompts persona_bench --task impact --condition pconv --out impact.jsonl"],
)
@click.argument("folder", type=PATH)
@click.option(
    "--task", "tasks", type=click.Choice(TASKS), multiple=True, help="Only this task (repeatable). [default: all]"
)
@click.option(
    "--condition",
    "conditions",
    type=click.Choice(CONDITIONS),
    multiple=True,
    help="Only this one (repeatable). [default: all]",
)
@click.option("--released", is_flag=True, help="Take the items and prompts as released, of all posts.")
@click.option("--split", type=click.Choice(SPLITS), help="The split. [default: test]")
@click.option("--history-chars", type=_CHARACTERS, help=f"Characters of earlier texts. [default: {Limits.history}]")
@click.option("--thread-chars", type=_CHARACTERS, help=f"Characters of the comments so far. [default: {Limits.thread}]")
@click.option("--text-chars", type=_CHARACTERS, help=f"Characters of each text. [default: {Limits.text}]")
@click.option("--out", type=PATH, required=True, help="The file to write (.jsonl), or the folder for several.")
def prompts(
    folder: Path,
    tasks: tuple[str, ...],
    conditions: tuple[str, ...],
    released: bool,
    split: str | None,
    out: Path,
    **chars: int | None,
) -> None:
    """Write the prompts of a FOLDER to files, for any other harness.

    Each line of JSON has the item's id, author and domain, the prompt as text and as messages, and the label. Add the
    model's answer as `response`, and `personamem persona-bench evaluate-log` scores the file.
    """
    from personamem_builder.persona_bench.prompt_files import write_prompts

    given = {LIMITS[key]: value for key, value in chars.items() if value is not None}
    if released and (split or given):
        raise click.UsageError("--released takes all posts and shows them whole: leave out --split and --…-chars")
    written = write_prompts(
        *(folder, out, tasks or TASKS, conditions or CONDITIONS),
        split=split or "test",
        released=released,
        limits=Limits(**given),
    )
    for path, rows in written:
        click.echo(f"{path}: {rows} prompts")
    click.echo("next: add a field `response` to each line, then: personamem persona-bench evaluate-log FILE", err=True)


@persona_bench.command(
    "report",
    short_help="Show scores in each condition, and differences.",
    examples=["personamem persona-bench report results", "personamem persona-bench report results --plots radars"],
)
@click.argument("results", nargs=-1, type=PATH)
@json_option()
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also draw radars of the domains, as SVG and PNG.",
)
def report(results: tuple[Path, ...], as_json: bool, plots: Path | None) -> None:
    """Show what models and floors score in each condition, and how conditions differ.

    RESULTS are results_<date>.json files of `personamem eval --log_samples`, or folders that hold some; by default
    the folder results.

    Intervals are clustered by author; differences between conditions are paired, item by item. Then follow the scores
    by domain (the ten subreddits of the source, and all others as `other`) and the published table, with the floors
    that reach its cells.

    --plots draws a radar of the domains for each task and metric. Outwards is better: errors are drawn as
    1 − error / error of the floor `median` on the same items.
    """
    from personamem_builder.persona_bench.report import to_json
    from personamem_builder.persona_bench.runs import read_runs
    from personamem_builder.results.files import left_out

    if plots:
        from personamem_builder.persona_bench.radar import check_matplotlib

        check_matplotlib()
    content = make_bench_report(read_runs(results or (Path("results"),)))
    values = json.dumps(clean(to_json(content)), indent=2, ensure_ascii=False) if as_json else bench_text(content)
    click.echo(values)
    if plots:
        from personamem_builder.persona_bench.radar import draw_radars

        written = draw_radars(content, plots)
        for path in written:
            click.echo(f"wrote {path}", err=True)
        if not written:
            click.echo("note: no domain has enough items for a radar", err=True)
    if content.unreadable:
        raise left_out(content.unreadable)


def make_bench_report(read: ReadRuns[Run]) -> BenchReport:
    """Make a report on runs of PERSONA-Bench, and print notes on them."""
    from personamem_builder.persona_bench.report import make_report

    content = make_report(read)
    for note in content.notes:
        click.echo(f"note: {note}", err=True)
    return content


def bench_text(content: BenchReport) -> str:
    """Return a report in plain text, as wide as the terminal."""
    from personamem_builder.persona_bench.report import render_report
    from personamem_builder.text_table import terminal_width

    return clean_text(render_report(content, terminal_width()))


@persona_bench.command(
    "evaluate-log",
    short_help="Score a file of logged outputs.",
    examples=["personamem persona-bench evaluate-log log.jsonl --task impact"],
)
@click.argument("file", type=PATH)
@click.option("--task", type=click.Choice(TASKS), required=True, help="What the log answers.")
def evaluate_log(file: Path, task: str) -> None:
    """Score a FILE of logged outputs, by the rules of the original log evaluator and by ours."""
    from personamem_builder.persona_bench.log import evaluate_log, render_log

    click.echo(render_log(evaluate_log(file, task)))
