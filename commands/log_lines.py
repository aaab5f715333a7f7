"""Log records as lines on standard error."""

import logging

from dplace.commands.terminal import say

__all__ = ["show_log"]


class LineHandler(logging.Handler):
    """Writes each record as one line, like any other message of the command line."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def show_log(*, verbose: bool) -> None:
    """Show dplace's warnings, and with ``verbose`` all that it logs; not what others log."""
    logger = logging.getLogger("dplace")
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    if not any(isinstance(handler, LineHandler) for handler in logger.handlers):
        logger.addHandler(LineHandler())
