"""Names and numbers as people read them."""

import math

__all__ = ["change_text", "figure_text", "plain", "size_text", "time_text", "work_text"]


def plain(text: str) -> str:
    r"""Return the text on one line, with what a terminal would act on or cannot show escaped.

    Names come out of model files, where anything may stand.

    >>> plain("conv\x1b[31m\nrelu")
    'conv\\x1b[31m relu'
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else " "
        if char in "\n\t\r"
        else char.encode("unicode_escape").decode()
        for char in text
    )


def time_text(seconds: float) -> str:
    """Return a time in milliseconds; a dash where there is none.

    >>> [time_text(seconds) for seconds in (0.0000125, 0.0123, 1.5, float("inf"))]
    ['0.013 ms', '12.30 ms', '1500 ms', '-']
    """
    if not math.isfinite(seconds):
        return "-"
    ms = seconds * 1e3
    for limit, digits in ((10, 3), (100, 2), (1000, 1)):
        if ms < limit:
            return f"{ms:.{digits}f} ms"
    return f"{ms:.0f} ms"


def change_text(seconds: float) -> str:
    """Return a difference of times in milliseconds, with its sign.

    >>> [change_text(seconds) for seconds in (0.0123, -0.0000125, -1e-9)]
    ['+12.30 ms', '-0.013 ms', '0.000 ms']
    """
    text = time_text(abs(seconds))
    if text in ("-", time_text(0.0)):
        return text
    return f"{'+' if seconds > 0 else '-'}{text}"


def figure_text(seconds: float, unit_s: float) -> str:
    """Return a time as a number of units of a file, to six digits; a dash where there is none.

    >>> [figure_text(seconds, 1e-3) for seconds in (0.0177154, 1203.2, float("inf"))]
    ['17.7154', '1.2032e+06', '-']
    """
    return f"{seconds / unit_s:.6g}" if math.isfinite(seconds) else "-"


def size_text(size_bytes: float) -> str:
    """Return a size in bytes, kB, MB, ... of 1000 each.

    >>> [size_text(size) for size in (0, 999, 4096, 31_900_000)]
    ['0 B', '999 B', '4.1 kB', '31.9 MB']
    """
    return scaled(size_bytes, ("B", "kB", "MB", "GB", "TB", "PB"))


def work_text(flop: float) -> str:
    """Return an amount of work in floating-point operations.

    >>> [work_text(work) for work in (0, 2e6, 5.72e9)]
    ['0 FLOP', '2.0 MFLOP', '5.7 GFLOP']
    """
    return scaled(flop, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))


def scaled(amount: float, units: tuple[str, ...]) -> str:
    """Return an amount in the largest unit that leaves at least 1 before the point."""
    if not math.isfinite(amount):
        return "-"
    step = 0
    while amount >= 999.95 and step < len(units) - 1:
        amount /= 1000
        step += 1
    return f"{amount:.{min(step, 1)}f} {units[step]}"
