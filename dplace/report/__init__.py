"""A timeline as a table, JSON or a Chrome trace.

These functions only turn records into text; they neither simulate nor print.
"""

__all__: list[str] = []
