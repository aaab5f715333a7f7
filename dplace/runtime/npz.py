"""Tensors in NumPy's .npz files, under the names that the model gives them.

Names such as ``gpu_0/data_0`` or ``file`` are fine: the archive is written entry by entry, for
``np.savez`` would take some names for options of its own. Nothing is pickled: strings are stored as
NumPy's fixed-width text, the elements of a sequence as ``NAME[0]``, ``NAME[1]``, ... Types that
NumPy lacks are stored as plain bytes, as NumPy does with arrays of ml_dtypes.
"""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.new_file import new_file
from dplace.runtime.reason import reason
from dplace.runtime.values import Value

__all__ = ["read_npz", "write_npz"]


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name.

    Raises:
        InputError: The file is missing, is none, or holds pickled objects.
    """
    try:
        # Opened here, for np.load leaves a broken file open.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                raise InputError(f"{path}: expected an .npz file with named arrays, got one array")
            with loaded as archive:
                return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or reason(error)}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: expected an .npz file without pickles: {reason(error)}"
        ) from error


def write_npz(path: Path, values: Mapping[str, Value]) -> list[str]:
    """Write values to an .npz file; it appears when it is whole.

    Returns:
        The names of values that have no form in it: maps and absent optionals.

    Raises:
        InputError: The file cannot be written.
    """
    left_out: list[str] = []
    try:
        with new_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as out:
            for name, value in values.items():
                arrays = list(_arrays(name, value))
                if not arrays and not isinstance(value, list):
                    left_out.append(name)
                for entry, array in arrays:
                    with out.open(f"{entry}.npy", "w", force_zip64=True) as stream:
                        np.lib.format.write_array(stream, array, allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or reason(error)}") from error
    return left_out


def _arrays(name: str, value: Value) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays that a value is stored as, each with its name."""
    if isinstance(value, np.ndarray):
        yield name, value.astype(np.str_) if value.dtype.kind == "O" else value
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _arrays(f"{name}[{index}]", element)
