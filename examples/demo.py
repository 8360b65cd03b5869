"""The main job in small: import an excerpt of the official release, evaluate shortcuts and a dummy, report.

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
    personamem("import-official", str(ROOT / "examples" / "official_excerpt"), "--out", "personamem")
    for policy in ("longest", "shortest", "central"):
        personamem(
            "eval", "--tasks", "personamem_32k", "--model", "personamem-floor", "--model_args", f"policy={policy}"
        )
    personamem("eval", "--tasks", "personamem_32k,personamem_32k_nocontext", "--model", "dummy")
    personamem("report", "results")
    sys.stderr.write(
        "\nThat was an excerpt of two histories, scored by shortcuts that read none of it and by a guessing model.\n"
        "Next, with your own model and the whole release:\n"
        "  source .venv/bin/activate\n"
        "  pip install -e '.[hf]'\n"
        "  personamem import-official --hub --split 32k --out personamem\n"
        "  personamem eval --tasks personamem_32k,personamem_32k_nocontext --model hf \\\n"
        "      --model_args pretrained=MODEL --apply_chat_template\n"
        "  personamem report results\n"
    )


if __name__ == "__main__":
    main()
