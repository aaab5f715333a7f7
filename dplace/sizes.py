"""Sizes of memory as people read them."""

__all__ = ["size_in_words"]


def size_in_words(size_bytes: int) -> str:
    """Return a size for messages.

    >>> size_in_words(3 * 2**30), size_in_words(1536), size_in_words(5)
    ('3.00 GiB', '1.50 KiB', '5 bytes')
    """
    for name, unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes} bytes"
