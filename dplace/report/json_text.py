"""JSON as every program reads it: ASCII, one line, numbers finite."""

import json
import math
from collections.abc import Mapping, Sequence

__all__ = ["json_text"]


def json_text(value: Mapping[str, object]) -> str:
    r"""Return a JSON object as ASCII text on one line.

    JSON has no infinity and no NaN, so both become null. Numpy's numbers are taken as Python's.

    >>> json_text({"name": "caf\u00e9", "bound_s": float("inf")})
    '{"name": "caf\\u00e9", "bound_s": null}'

    Raises:
        TypeError: A value in it is none that JSON knows.
    """
    return json.dumps(finite(value), ensure_ascii=True, allow_nan=False)


def finite(value: object) -> object:
    """Return the value as plain Python, with null for what is not finite."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [finite(item) for item in value]
    item = getattr(value, "item", None)
    if callable(item):
        return finite(item())
    raise TypeError(f"{type(value).__name__} has no form in JSON")
