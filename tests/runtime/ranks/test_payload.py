"""Values become messages and values again, over a wire that is a list of bytes."""

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dplace.errors import DplaceError
from dplace.runtime.ranks.message import HEADER_BYTES, INLINE_BYTES, Header, Kind, Message
from dplace.runtime.ranks.payload import (
    crosses,
    decode,
    device_bytes,
    goes_directly,
    messages_of,
    order_message,
    order_of,
    room_for,
)
from dplace.runtime.values import DTYPES, Held, copy_in, hold, to_python

SHAPES = [(), (0,), (3,), (2, 0, 3), (5, 3), (1,) * 9, (2,) * 10]
NUMERIC = [name for name in DTYPES if name != "string" and not name.startswith("complex")]


def carried(message: Message) -> Held:
    """Return what a receiver makes of a message, from nothing but the bytes sent."""
    sent = bytearray(HEADER_BYTES)
    message.header.pack(sent)
    payload = bytes(memoryview(message.payload).cast("B"))
    assert len(payload) == message.header.size_bytes
    header = Header.unpack(sent)
    if header.shape_bytes:
        shape = message.header.pack_shape()
        assert len(shape) == header.shape_bytes
        header = header.with_shape(shape)
    assert header == message.header
    held, room = room_for(header)
    memoryview(room).cast("B")[:] = payload
    return decode(header, held, room)


def there(value: Any) -> Any:
    """Return a value after it has crossed."""
    held, owner = hold(value)
    first, *others = messages_of(held, value=3, request=7)
    assert (first.header.value, first.header.request) == (3, 7)
    del owner
    if first.header.kind is Kind.SEQUENCE:
        assert first.header.shape == (len(others),)
        return [to_python(carried(message)) for message in others]
    assert not others
    return to_python(carried(first))


@pytest.mark.parametrize("name", NUMERIC)
def test_a_tensor_of_each_type_and_shape_keeps_every_bit(name: str) -> None:
    _, dtype = DTYPES[name]
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        array = rng.integers(0, 2 if name in ("bool", "int2") else 4, size=shape).astype(dtype)
        found = there(array)
        assert (found.dtype, found.shape) == (dtype, shape)
        assert found.tobytes() == array.tobytes()


def test_bytes_go_as_they_lie_in_memory() -> None:
    packed = copy_in(np.array([1, -2, 3], dtype=ml_dtypes.int4))  # 0xE1, 0x03
    (message,) = messages_of(packed, value=0, request=0)
    assert bytes(memoryview(message.payload).cast("B")) == b"\xe1\x03"
    array = np.array([1.5, -2.0], dtype=np.float32)
    (message,) = messages_of(hold(array)[0], value=0, request=0)
    array[0] = 4.0  # no copy was made
    assert bytes(memoryview(message.payload).cast("B")) == array.tobytes()


@pytest.mark.parametrize("name", NUMERIC)
def test_torch_sees_the_bytes_of_what_goes_directly(name: str) -> None:
    held = copy_in(np.array([[1, 0, 1]]).astype(DTYPES[name][1]))
    assert goes_directly(held) is (DTYPES[name][0] <= 16)
    if goes_directly(held):
        (message,) = messages_of(held, value=0, request=0)
        seen = device_bytes(held)
        assert seen.numpy().tobytes() == bytes(memoryview(message.payload).cast("B"))
        seen.zero_()
        assert not to_python(held).any()  # it is the same memory


@pytest.mark.parametrize(
    "texts", [[], ["", "a", "ä\x00€", "x" * 1000], [["a"], ["b"]], np.array("s", dtype=object)]
)
def test_strings_keep_shape_and_content(texts: Any) -> None:
    array = np.asarray(texts, dtype=object)
    found = there(array)
    assert found.dtype == object
    np.testing.assert_array_equal(found, array)


def test_an_absent_optional_is_absent() -> None:
    assert there(None) is None


def test_sequences_keep_the_shape_of_each_element() -> None:
    elements: list[NDArray[Any]] = [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.zeros((0, 4), dtype=np.float32),
        np.array(["a", "b"], dtype=object),
        np.array(True),
    ]
    for length in range(5):
        found = there(elements[:length])
        assert len(found) == length
        for one, element in zip(found, elements, strict=False):
            assert (one.dtype, one.shape) == (element.dtype, element.shape)
            np.testing.assert_array_equal(one, element)


def test_a_map_is_refused() -> None:
    with pytest.raises(DplaceError, match="a value of type dict does not cross"):
        messages_of({"a": 1.0}, value=0, request=0)
    with pytest.raises(DplaceError, match="a sequence of dict does not cross"):
        messages_of([{"a": 1.0}], value=0, request=0)


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("tensor(int4)", True),
        ("tensor(string)", True),
        ("seq(tensor(float))", True),
        ("optional(seq(tensor(int64)))", True),
        ("seq(tensor(bfloat16))", False),
        ("map(int64,tensor(float))", False),
        ("seq(map(string,tensor(float)))", False),
        ("sparse_tensor(float)", False),
        ("tensor(complex64)", False),
    ],
)
def test_types_that_cross(name: str, does: bool) -> None:
    assert crosses(name) is does


@given(
    kind=st.sampled_from(Kind),
    value=st.integers(0, 2**32 - 1),
    request=st.integers(0, 2**64 - 1),
    element_type=st.integers(0, 255),
    shape=st.lists(st.integers(0, 2**62), max_size=12),
    size_bytes=st.integers(0, 2**63),
    is_on_device=st.booleans(),
)
def test_a_header_says_the_same_after_it_was_packed(shape: list[int], **fields: Any) -> None:
    header = Header(shape=tuple(shape), **fields)
    buffer = bytearray(HEADER_BYTES)
    header.pack(buffer)
    found = Header.unpack(buffer)
    assert found.shape_bytes == header.shape_bytes == (8 * len(shape) if len(shape) > 8 else 0)
    assert (found.with_shape(header.pack_shape()) if found.shape_bytes else found) == header
    assert found.is_inline == (header.size_bytes <= INLINE_BYTES and not header.is_on_device)


def test_bytes_of_another_program_are_no_header() -> None:
    with pytest.raises(ValueError, match="not a message of dplace"):
        Header.unpack(bytearray(HEADER_BYTES))


def test_orders_are_json() -> None:
    message = order_message({"do": "run", "outputs": ["ä"], "request": 2**40})
    assert message.header.kind is Kind.ORDER
    assert order_of(message.payload) == {"do": "run", "outputs": ["ä"], "request": 2**40}


def test_a_sequence_that_a_session_made_crosses() -> None:
    from onnx import TensorProto, helper

    from tests.runtime.plans import FLOAT, graph, node
    from tests.runtime.plans import given as value_info

    floats = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    model = graph(
        [node("SequenceConstruct", ["x", "x"], ["s"])],
        [value_info("x", TensorProto.FLOAT)],
        [value_info("s", floats)],
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.array([1.0, 2.0], dtype=np.float32)
    (made,) = session._sess.run_with_ort_values({"x": hold(x)[0]}, ["s"], None)
    first, *elements = messages_of(made, value=0, request=0, session=session)
    assert first.header.shape == (2,)
    for element in elements:
        np.testing.assert_array_equal(to_python(carried(element)), x)
