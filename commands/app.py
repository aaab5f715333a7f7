"""The Typer app, and how errors become one line and an exit code."""

import errno
import os
import sys
from typing import Annotated

import typer

from dplace.commands.compare import compare
from dplace.commands.doctor import doctor
from dplace.commands.finetune import finetune
from dplace.commands.generate import generate
from dplace.commands.inspect_model import inspect_model
from dplace.commands.place import place
from dplace.commands.policies import policies
from dplace.commands.pretrain import pretrain
from dplace.commands.profile import profile
from dplace.commands.run import run
from dplace.commands.simulate import simulate
from dplace.commands.terminal import INTERRUPTED, say, write
from dplace.errors import DplaceError

__all__ = ["app", "main"]

# Without rich, help is plain text and quick; the examples in it keep their line.
app = typer.Typer(
    name="dplace",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command("place")(place)
app.command("run")(run)
app.command("simulate")(simulate)
app.command("compare")(compare)
app.command("profile")(profile)
app.command("pretrain")(pretrain)
app.command("finetune")(finetune)
app.command("policies")(policies)
app.command("inspect")(inspect_model)
app.command("generate")(generate)
app.command("doctor")(doctor)

USER_ERRNOS = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EFBIG,
        errno.EIO,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMFILE,
        errno.ENAMETOOLONG,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENXIO,
        errno.EPERM,
        errno.EROFS,
        errno.ESTALE,
        errno.EXDEV,
    }
)
"""What a file system says that a user can mend; another OSError is a bug."""


def show_version(value: bool) -> None:
    """Print the version and end, when ``--version`` is given."""
    if value:
        from importlib.metadata import version

        write(f"dplace {version('dplace')}\n")
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell on standard error what is being done.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Decide which device runs each op of an ONNX model, and run it that way.

    Example: dplace place model.onnx --cluster 2xCPU -o plan

    Results go to standard output, progress and errors to standard error. Exit codes: 0 fine, 1 a
    fault in the input or the plan, 2 wrong usage, 3 does not fit in memory, 4 a device was lost,
    130 interrupted.
    """
    from dplace.commands.log_lines import show_log

    show_log(verbose=verbose)


def main() -> None:
    """Run the command line and leave with its exit code.

    What a user can cause ends in one line on standard error; anything else is a bug and keeps
    its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names come from files and folders and need not fit the terminal's encoding.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # closed by the caller; results go nowhere
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        app(prog_name="dplace")
    except DplaceError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        say(f"error: {os_error_text(error)}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(INTERRUPTED)
    except SystemExit as leave:
        if leave.code == INTERRUPTED:  # Typer has caught Ctrl-C
            say("interrupted")
        raise


def os_error_text(error: OSError) -> str:
    """Return what an OSError says, with the file or files it is about in front."""
    reason = error.strerror or os.strerror(error.errno or 0)
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
    return f"{' -> '.join(names)}: {reason}" if names else reason
