"""Tensors of the Open Inference Protocol: bytes, shape and datatype belong together, or the field is named."""

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import InvalidField
from penstock.domain.models.tensors import (
    Datatype,
    Tensor,
    TensorSpec,
    checked,
    elements_of,
    joined,
    packed,
    unpacked,
)

NUMBERS = [one for one in Datatype if one not in (Datatype.BF16, Datatype.BYTES)]


def spec(datatype: Datatype, *shape: int) -> TensorSpec:
    """Return the description of a tensor ``x``."""
    return TensorSpec(name="x", datatype=datatype, shape=shape)


def tensor(datatype: Datatype, data: bytes, *shape: int) -> Tensor:
    """Return a checked tensor of these bytes."""
    return checked(spec(datatype, *shape), memoryview(data))


@pytest.mark.parametrize("datatype", [one for one in Datatype if one is not Datatype.BYTES])
@pytest.mark.parametrize("off", [-1, 1])
def test_bytes_must_be_as_many_as_the_shape_says(datatype: Datatype, off: int) -> None:
    """One byte too few or too many is refused, for every datatype of a fixed size."""
    size = 6 * datatype.size_bytes
    assert tensor(datatype, bytes(size), 2, 3).elements == 6
    with pytest.raises(InvalidField, match="of this shape has"):
        tensor(datatype, bytes(size + off), 2, 3)


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_come_back_as_they_were_packed(datatype: Datatype) -> None:
    """What was packed is unpacked unchanged, little-endian."""
    values = (False, True) if datatype is Datatype.BOOL else (0, 1, 2, 127)
    data = packed(spec(datatype, len(values)), values)
    assert unpacked(tensor(datatype, data, len(values))) == values


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        (Datatype.UINT8, 256),
        (Datatype.UINT8, -1),
        (Datatype.INT64, 1 << 63),
        (Datatype.INT8, 0.5),
        (Datatype.FP16, 1e6),
        (Datatype.FP32, 1e300),
        (Datatype.FP64, 10**400),
        (Datatype.FP32, "1"),
        (Datatype.BOOL, "yes"),
        (Datatype.BOOL, 2),
        (Datatype.INT32, None),
        (Datatype.FP32, [1.0]),
    ],
)
def test_a_value_that_is_none_of_the_datatype_is_refused(datatype: Datatype, value: object) -> None:
    """Out of range, of another kind, or no number at all: the tensor is named."""
    with pytest.raises(InvalidField, match=f"a value that is no {datatype}") as refused:
        packed(spec(datatype, 1), [value])  # type: ignore[list-item]  # what JSON may hold
    assert refused.value.param == "x"


@pytest.mark.parametrize("datatype", [Datatype.BF16, Datatype.BYTES])
def test_datatypes_without_numbers_are_sent_binary(datatype: Datatype) -> None:
    """JSON has no numbers for them: both ways say what to do instead."""
    with pytest.raises(InvalidField, match="send it binary"):
        packed(spec(datatype, 1), [1])
    with pytest.raises(InvalidField, match="ask for it binary"):
        unpacked(Tensor(spec=spec(datatype, 1), data=memoryview(b"xx")))


@pytest.mark.parametrize("shape", [(-1,), (2, -3), (1,) * 9])
def test_impossible_shapes_are_refused(shape: tuple[int, ...]) -> None:
    """Dimensions below 0, or more of them than any model has."""
    with pytest.raises(InvalidField):
        tensor(Datatype.UINT8, b"x", *shape)


def test_floats_that_are_no_numbers_pass() -> None:
    """What NaN and infinities mean is the model's business: they are valid elements."""
    values = unpacked(tensor(Datatype.FP32, packed(spec(Datatype.FP32, 3), [math.nan, math.inf, -math.inf]), 3))
    assert math.isnan(values[0])
    assert values[1:] == (math.inf, -math.inf)


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_byte_elements_come_back_as_they_were_joined(elements: list[bytes]) -> None:
    """Any bytes, empty ones too, in their order."""
    found = elements_of(tensor(Datatype.BYTES, joined(elements), len(elements)))
    assert [bytes(one) for one in found] == elements


@given(st.binary(max_size=40), st.integers(0, 5))
def test_no_lengths_can_crash_it(data: bytes, count: int) -> None:
    """Any bytes are so many elements that fill them exactly, or refused."""
    with suppress(InvalidField):
        found = elements_of(Tensor(spec=spec(Datatype.BYTES, count), data=memoryview(data)))
        assert joined(found) == data
        assert len(found) == count


def test_a_length_beyond_the_end_is_refused() -> None:
    """An element can't be longer than what there is."""
    with pytest.raises(InvalidField, match="do not add up"):
        tensor(Datatype.BYTES, struct.pack("<I", 0xFFFFFFFF) + b"abc", 1)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (TensorSpec(name="x", datatype=Datatype.FP32, shape=(7, 3)), True),
        (TensorSpec(name="y", datatype=Datatype.FP32, shape=(7, 3)), False),
        (TensorSpec(name="x", datatype=Datatype.FP64, shape=(7, 3)), False),
        (TensorSpec(name="x", datatype=Datatype.FP32, shape=(7, 4)), False),
        (TensorSpec(name="x", datatype=Datatype.FP32, shape=(7,)), False),
    ],
)
def test_a_description_takes_what_fits(given: TensorSpec, *, fits: bool) -> None:
    """Name, datatype, rank and each dimension that does not vary."""
    assert spec(Datatype.FP32, -1, 3).takes(given) is fits
