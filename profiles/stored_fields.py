"""Fields of a stored profile, each checked as it is read."""

from collections.abc import Mapping
from typing import Any

from dplace.errors import InputError

__all__ = ["Fields", "as_list", "as_mapping"]

LARGEST = 1e18
"""Above all times, sizes and rates; sums and ratios of such numbers stay finite."""


class Fields:
    """One JSON object; what is missing or wrong is named with the object's place."""

    def __init__(self, where: str, content: object) -> None:
        self.where = where
        self.content = as_mapping(content, where)

    def get(self, name: str) -> Any:
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
        if not all(isinstance(item, str) for item in value):
            raise InputError(f"{self.where}.{name}: expected texts, got {value!r:.60}")
        return tuple(value)

    def number(self, name: str, *, above: bool = False) -> float:
        """Return a number of at least 0, or above 0, and no larger than ``LARGEST``.

        Raises:
            InputError: It is missing or none.
        """
        value = self.get(name)
        lowest = 1 / LARGEST if above else 0
        # Compared before it is a float: JSON's whole numbers may be larger than any float.
        if type(value) in (int, float) and lowest <= value <= LARGEST:
            return float(value)
        least = "above 0" if above else "of at least 0"
        raise InputError(
            f"{self.where}.{name}: expected a number {least}, {LARGEST:.0e} at most, got "
            f"{value!r:.60}"
        )


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
