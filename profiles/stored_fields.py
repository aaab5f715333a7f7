"""Fields of a stored profile, each checked as it is read."""

import math
from collections.abc import Mapping
from typing import Any

from dplace.errors import InputError

__all__ = ["Fields", "as_list", "as_mapping"]


class Fields:
    """One JSON object; what is missing or wrong is named with the object's place."""

    def __init__(self, where: str, content: object) -> None:
        self.where = where
        self.content = as_mapping(content, where)

    def get(self, name: str) -> object:
        """Return a field.

        Raises:
            InputError: It is missing.
        """
        if name not in self.content:
            raise InputError(f"{self.where}.{name}: is missing; is the file cut short?")
        return self.content[name]

    def text(self, name: str) -> str:
        """Return a field that is text.

        Raises:
            InputError: It is missing or none.
        """
        value = self.get(name)
        if not isinstance(value, str):
            raise InputError(f"{self.where}.{name}: expected text, got {value!r:.60}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of texts.

        Raises:
            InputError: It is missing or none.
        """
        value = as_list(self.content, name)
        return tuple(str(item) for item in value)

    def number(self, name: str, *, above: bool = False) -> float:
        """Return a finite number of at least 0, or above 0.

        Raises:
            InputError: It is missing or none.
        """
        value = self.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number) and (number > 0 if above else number >= 0):
                return number
        least = "above 0" if above else "of at least 0"
        raise InputError(f"{self.where}.{name}: expected a number {least}, got {value!r:.60}")


def as_list(content: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field that is a list.

    Raises:
        InputError: It is missing or none.
    """
    value = content.get(name)
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list, got {value!r:.60}")
    return value


def as_mapping(value: object, where: str) -> dict[str, Any]:
    """Return a value that is a JSON object.

    Raises:
        InputError: It is none.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, got {value!r:.60}")
    return value
