from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dplace.errors import InputError
from dplace.plan.records import ValueType
from dplace.runtime.inputs import InputCheck, draw_inputs
from dplace.runtime.npz import read_npz, write_npz
from dplace.runtime.values import DTYPES, dtype_of


def value(name: str, kind: str, shape: tuple[int | str | None, ...] | None = None) -> ValueType:
    return ValueType(name=name, type=kind, shape=shape)


def draw(*values: ValueType, **options: Any) -> dict[str, Any]:
    return draw_inputs(values, rng=np.random.default_rng(0), **({"dims": {}} | options))


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_a_tensor_of_each_type_is_drawn(name: str) -> None:
    drawn = draw(value("x", f"tensor({name})", ("N", 3)), dims={"N": 50})["x"]
    assert drawn.shape == (50, 3)
    assert drawn.dtype == dtype_of(f"tensor({name})")
    if "int" in name:
        assert set(drawn.astype(int).ravel().tolist()) == {0, 1}
    elif name not in ("string", "bool"):
        assert len(set(drawn.ravel().tolist())) > 2
        assert np.isfinite(drawn.astype(np.complex128)).all()


def test_the_same_seed_draws_the_same() -> None:
    x = value("x", "tensor(float)", (4,))
    np.testing.assert_array_equal(draw(x)["x"], draw(x)["x"])


def test_integers_stay_below_the_rows_of_the_table_they_index() -> None:
    ids = draw(value("ids", "tensor(int64)", (1000,)), index_limits={"ids": 30})["ids"]
    assert ids.min() == 0
    assert ids.max() == 29
    small = draw(value("x", "tensor(int8)", (1000,)), index_limits={"x": 50_000})["x"]
    assert small.min() == 0
    assert small.max() == 127


def test_unknown_dimensions_are_one() -> None:
    assert draw(value("x", "tensor(float)", ("N", None, 2)))["x"].shape == (1, 1, 2)
    assert draw(value("x", "tensor(float)"))["x"].shape == ()


def test_sequences_and_optionals_are_drawn_and_maps_are_not() -> None:
    drawn = draw(value("s", "seq(tensor(float))"), value("o", "optional(tensor(bool))"))
    assert [type(element) for element in drawn["s"]] == [np.ndarray] * 2
    assert drawn["o"].dtype == bool
    with pytest.raises(InputError, match='"m": nothing is drawn for the type map'):
        draw(value("m", "map(string,tensor(float))"))


def test_all_faults_are_told_at_once_and_not_too_many() -> None:
    check = InputCheck([value(f"x{i}", "tensor(float)", (i,)) for i in range(20)], [])
    with pytest.raises(InputError) as caught:
        check.hold({"y": 1, "x0": np.zeros(1, np.float32)})
    assert str(caught.value) == (
        'input "y": the model has no such input; it has "x0", "x1", "x2", "x3", "x4", "x5", "x6", '
        '"x7", "x8", "x9" and 10 more; input "x0": expected tensor(float) [0], got tensor(float) '
        '[1]; input "x1" is not given; it is tensor(float) [1]; and 18 more'
    )


def test_names_with_any_characters_survive_a_file(tmp_path: Path) -> None:
    names = ["gpu_0/data_0", "serving_default_input_2:0", "file", "a.npy", "../x", "é ä", "arr_0"]
    arrays = {name: np.full(2, number) for number, name in enumerate(names)}
    assert write_npz(tmp_path / "x.npz", arrays) == []
    read = read_npz(tmp_path / "x.npz")
    assert list(read) == names
    for name in names:
        np.testing.assert_array_equal(read[name], arrays[name])
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_strings_sequences_and_what_has_no_form(tmp_path: Path) -> None:
    values = {
        "text": np.array(["ab", "ö"], dtype=object),
        "rows": [np.zeros(1), np.ones(2)],
        "map": {"a": 1.0},
        "absent": None,
        "none": [],
    }
    assert write_npz(tmp_path / "x.npz", values) == ["map", "absent"]
    read = read_npz(tmp_path / "x.npz")
    assert list(read) == ["text", "rows[0]", "rows[1]"]
    assert read["text"].tolist() == ["ab", "ö"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "one.npy", np.zeros(2))
    np.savez(tmp_path / "pickle.npz", x=np.array([{}], dtype=object))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "pickle.npz").read_bytes()[:50])
    for name, message in (
        ("missing.npz", "No such file"),
        ("text.npz", "expected an .npz file without pickles"),
        ("empty.npz", "expected an .npz file without pickles"),
        ("cut.npz", "expected an .npz file without pickles"),
        ("pickle.npz", "expected an .npz file without pickles"),
        ("one.npy", "got one array"),
        (".", "Is a directory"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            read_npz(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        write_npz(tmp_path / "no/x.npz", {"x": np.zeros(1)})
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match="folder.npz"):
        write_npz(tmp_path / "folder.npz", {"x": np.zeros(1)})
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npz"]
