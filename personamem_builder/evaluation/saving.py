"""What is left of a run: lm-eval's results and our predictions, whole, without keys, or a clear error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval.loggers import EvaluationTracker
from lm_eval.utils import handle_non_serializable, sanitize_model_name

from generation.errors import UserError
from generation.files import replacing
from generation.reading import clean
from generation.redaction import redact, redact_data
from personamem_builder.results.model_names import ends_of
from personamem_builder.schema import Prediction


class Tracker(EvaluationTracker):
    """lm-eval's tracker, which passes over what it cannot save with no more than a warning."""

    journal: Path | None = None

    def save_results_aggregated(self, results: dict[str, Any], samples: Any = None) -> None:
        """Save the results; a `UserError` says why they cannot be written."""
        config = self.general_config_tracker
        config.model_name = config.model_name and redact(config.model_name)
        if config.model_name:  # the folder's name
            config.model_name_sanitized = sanitize_model_name(ends_of(config.model_name)[0])
        results = clean(redact_data(results))
        super().save_results_aggregated(results, samples)
        if not self.output_path:
            return
        if not hasattr(self, "date_id"):
            raise UserError(f"lm-eval could not save its results to {self.output_path}", "see the warning above")
        path = self.file("results", ".json")
        if not _is_whole(path):
            # As lm-eval writes it, to learn what is wrong.
            text = json.dumps(results, indent=2, default=handle_non_serializable, ensure_ascii=False)
            try:
                path.unlink(missing_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as part:
                    part.write_text(text, encoding="utf-8")
            except OSError as error:
                raise self.cannot_write(path, error) from error

    def save_results_samples(self, task_name: str, samples: Any) -> None:
        """Save the samples of a task, which hold the prompts; a `UserError` says why they cannot be written."""
        super().save_results_samples(task_name, [{**sample, "resps": clean(sample["resps"])} for sample in samples])
        if not self.output_path:
            return
        path = self.file(f"samples_{task_name}", ".jsonl", folder=True)
        try:
            with path.open("rb") as file:
                lines = sum(1 for line in file if line.endswith(b"\n"))
        except OSError:
            lines = 0
        if lines < len(samples):
            path.unlink(missing_ok=True)
            raise self.cannot_write(path, f"only {lines} of {len(samples)} lines were written")

    def save_predictions(self, rows: Sequence[Prediction]) -> Path:
        """Write the predictions beside the results, which are removed where that fails, since a run needs both."""
        path = self.file("predictions", ".jsonl", folder=True)
        try:
            with replacing(path) as part, part.open("w", encoding="utf-8") as file:
                for row in rows:
                    file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
        except OSError as error:
            self.file("results", ".json").unlink(missing_ok=True)
            raise self.cannot_write(path, error) from error
        return path

    def file(self, stem: str, suffix: str, *, folder: bool = False) -> Path:
        """Return where a file of this run is; with `folder` also if `--output_path` names a file of results."""
        output = Path(self.output_path)
        if output.suffix != ".json":
            output = output / str(self.general_config_tracker.model_name_sanitized)
        elif folder:
            output = output.parent
        else:
            return output.with_name(f"{output.stem}_{self.date_id}.json")
        return output / f"{stem}_{self.date_id}{suffix}"

    def cannot_write(self, path: Path, error: OSError | str) -> UserError:
        """Return the error for a file that cannot be written."""
        existing = next(folder for folder in path.absolute().parents if folder.is_dir())
        free = shutil.disk_usage(existing).free
        why = error if isinstance(error, str) else error.strerror or str(error)
        kept = (
            f"; rerunning the command reads all answers from {self.journal} and asks nothing again"
            if self.journal
            else ""
        )
        return UserError(
            f"{path} cannot be written: {why} ({free / 2**20:,.1f} MiB are free there)",
            f"free some space, or name another --output_path{kept}",
        )


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
