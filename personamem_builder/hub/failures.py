"""Why something could not be had from the Hugging Face Hub, in our words."""

from __future__ import annotations

from typing import cast

from generation.errors import UserError


def hub_failures() -> tuple[type[Exception], ...]:
    """Return the errors with which calls of the Hub client fail; importing it takes time."""
    from huggingface_hub.errors import HfHubHTTPError

    # What the Hub client does not wrap: errors of its HTTP library (which one depends on the version), and
    # RuntimeError, as its Xet transport reports a lost connection.
    http_error = cast("type[Exception]", HfHubHTTPError.__bases__[0])
    return (OSError, ValueError, RuntimeError, http_error)


def explain_hub_error(
    error: Exception, name: str, revision: str | None = None, instead: str = "", kind: str = "dataset"
) -> UserError:
    """Say in our words why a repository could not be had from the Hub; `instead` is what else the user may do."""
    from huggingface_hub import constants, errors

    hub = constants.ENDPOINT
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return UserError(f"{kind} {name} is gated", f"ask for access on its page, then {log_in}{instead}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(f"there is no {kind} {name} at {hub}", f"if it is private, {log_in}{instead}")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"dataset {name} has no revision {revision}", "give a commit, branch or tag of it")
    if isinstance(error, errors.HFValidationError):
        return UserError(f"{name!r} cannot be a {kind} on the Hub: {reason}", "give ORG/NAME")
    if isinstance(error, OSError) and error.errno is not None:
        return UserError(
            f"cannot store dataset {name} in {constants.HF_HUB_CACHE}: {error.strerror}",
            "free some space there, or set HF_HOME to a writable folder",
        )
    again = "check the connection and rerun the command, or set HF_ENDPOINT to a mirror"
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        again = log_in
    return UserError(f"cannot download dataset {name} from {hub}: {reason}", f"{again}{instead}")
