"""The main job in small: two benchmarks, one generated offline, one that a language model wrote; scores, a report.

Run it with `make demo`. Everything happens offline, in `.demo/`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"


def personamem(*arguments: str) -> None:
    """Run one command of the installed `personamem`, showing it first."""
    sys.stderr.write(f"\n$ personamem {' '.join(arguments)}\n")
    command = Path(sys.executable).with_name("personamem")
    environment = {**os.environ, "PERSONAMEM_DATA": str(DEMO / "personamem"), "LMEVAL_LOG_LEVEL": "WARNING"}
    subprocess.run([command, *arguments], cwd=DEMO, env=environment, check=True)


def main() -> None:
    """Run the demo."""
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir()
    personamem("generate", str(ROOT / "examples" / "tiny.yaml"), "--out", "run", "--workers", "2")
    personamem("timeline", "run", "--persona", "0", "--topic", "travelPlanning", "--out", "timeline.svg")
    personamem("assemble", "run", "--split", "32k")
    personamem("build", "run", "--out", "offline")
    shutil.copytree(ROOT / "examples" / "written", DEMO / "written")
    personamem("assemble", "written", "--split", "32k")
    personamem("build", "written", "--out", "personamem")
    for policy in ("longest", "shortest", "central"):
        personamem(
            "eval", "--tasks", "personamem_32k", "--model", "personamem-floor", "--model_args", f"policy={policy}"
        )
    personamem("eval", "--tasks", "personamem_32k,personamem_32k_nocontext", "--model", "dummy")
    personamem("report", "results", "--html", "report.html")
    personamem("view", "personamem", "--results", "results", "--out", "page")
    sys.stderr.write(
        "\nThat was a benchmark of two users, generated offline (.demo/offline), and one of three users that a\n"
        "language model wrote (.demo/personamem), scored by shortcuts that read none of it and by a guesser.\n"
        "Look at .demo/report.html, and at .demo/page/index.html: histories, questions, answers.\n"
        "Next, the full size and your own model:\n"
        "  source .venv/bin/activate\n"
        "  pip install -e '.[hf]'\n"
        "  personamem generate examples/full.yaml --out runs/full --workers 2\n"
        "  personamem assemble runs/full && personamem build runs/full --out personamem\n"
        "  personamem eval --tasks personamem_32k,personamem_32k_nocontext --model hf \\\n"
        "      --model_args pretrained=MODEL --apply_chat_template\n"
        "  personamem report results\n"
    )


if __name__ == "__main__":
    main()
