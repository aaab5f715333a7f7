"""Where a policy is written, and what lies beside it while its training lasts.

docs/policy-format.md describes them. A training that was broken off is taken up by what was asked
then being asked again; what was asked is its ``recipe``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dplace.errors import InputError
from dplace.policies.learned import POLICY_FILE
from dplace.policies.placeto.kept import Kept, load_kept, save_kept
from dplace.policies.placeto.ranks import ALONE, Ranks
from dplace.policies.placeto.weights import read_weights

__all__ = ["PolicyFiles", "check_out", "files_of", "read_state", "write_state"]

STATE_FILE, LOG_FILE = "state.safetensors", "log.jsonl"


class PolicyFiles(NamedTuple):
    """Where things are."""

    out: Path
    """As it was given."""
    policy: Path
    state: Path
    """What the training goes on from; gone when it is finished."""
    log: Path
    """A line of JSON for each step."""


def files_of(out: Path) -> PolicyFiles:
    """Return the files of a policy that is to be ``NAME.safetensors``, or a folder."""
    if out.suffix == ".safetensors" and not out.is_dir():
        return PolicyFiles(out, out, out.with_suffix(".state"), out.with_suffix(".log.jsonl"))
    return PolicyFiles(out, out / POLICY_FILE, out / STATE_FILE, out / LOG_FILE)


def check_out(out: Path, *, overwrite: bool) -> PolicyFiles:
    """Return the files of a policy that may be written, before any work is done.

    Raises:
        InputError: There is something else, or a finished policy and ``overwrite`` is not given.
    """
    files = files_of(out)
    if out.is_symlink() and not out.exists():
        raise InputError(f"{out}: is a broken link; give another -o")
    is_file = files.policy == out
    if is_file and out.exists() and not out.is_file():
        raise InputError(f"{out}: expected a file, or nothing yet")
    if not is_file and out.exists():
        if not out.is_dir():
            raise InputError(f"{out}: expected a folder or a name that ends in .safetensors")
        others = {path.name for path in out.iterdir()} - {POLICY_FILE, STATE_FILE, LOG_FILE}
        if others and not files.policy.exists() and not files.state.exists():
            raise InputError(f"{out}: the folder exists and has no policy; give another -o")
    nearest = files.policy.absolute().parent
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InputError(f"{out}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{out}: {nearest} may not be written to; give another -o")
    if files.policy.exists():
        read_weights(files.policy)  # what is none, or of another version, is not ours to replace
        if not files.state.exists() and not overwrite:
            raise InputError(
                f"{out}: there is a finished policy; give another -o, --overwrite to train anew, "
                f"or --from {out} and another -o to go on from it"
            )
    return files


def read_state(
    files: PolicyFiles, recipe: Mapping[str, Any], *, ranks: Ranks = ALONE
) -> Kept | None:
    """Return what a training that was broken off goes on from, if there is one.

    The first process reads it for all: the others may be on hosts that do not see the file.

    Raises:
        InputError: It was asked something else, or what is kept is damaged.
    """
    content = b""
    if ranks.is_first and files.state.exists():
        content = files.state.read_bytes() or b" "
    content = ranks.from_first(content)
    if not content:
        return None
    try:
        kept = load_kept(content, str(files.state))
    except InputError as error:
        raise InputError(f"{error}; give --overwrite to train anew") from error
    before = kept.told.get("recipe")
    if not isinstance(before, dict) or "course" not in kept.told:
        raise InputError(f"{files.state}: no training is kept there; give --overwrite")
    unlike = [name for name in recipe if before.get(name) != recipe[name]]
    if unlike:
        shown = "; ".join(f"{name}: {_short(before.get(name), recipe[name])}" for name in unlike)
        raise InputError(
            f"{files.out}: a training of something else was interrupted there ({shown}); ask the "
            "same as then, give another -o, or --overwrite to train anew"
        )
    return kept.all_of("course")


def _short(before: object, now: object) -> str:
    if isinstance(before, int | float | str | None) and isinstance(now, int | float | str | None):
        return f"{before} then, {now} now"
    return "not as it was then"


def write_state(files: PolicyFiles, recipe: Mapping[str, Any], course: Kept) -> None:
    """Keep a training, so that it can go on.

    Raises:
        OSError: The file cannot be written.
    """
    kept = Kept({}, {"recipe": dict(recipe)})
    kept.put_all("course", course)
    save_kept(files.state, kept)
