"""Large JSON of tensors, read elsewhere: the same request as from here, the same refusals, and nothing walked here."""

import asyncio
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import BadRequest
from penstock.domain.models.tensors import Datatype
from penstock.gateway.oip import asked, json_wire
from penstock.gateway.oip.asked import asked_by
from penstock.gateway.oip.nouns import InferRequest
from penstock.gateway.openai.reading import INLINE_BYTES, BodyReader
from tests.support.gateways.inline_pool import Here

SPACE = b" " * INLINE_BYTES


def read_by(other: Here, raw: bytes, head_length: int | None = None) -> InferRequest:
    return asyncio.run(asked_by(BodyReader(other, tensors_task=b"T"), "a", raw, head_length))


def told(read: InferRequest) -> object:
    """Return everything that was read, with bytes that can be compared."""
    inputs = [(one.spec, bytes(one.data)) for one in read.inputs]
    return read.id, dict(read.parameters), inputs, read.outputs, read.is_binary


def read_both(head: bytes, rest: bytes = b"") -> tuple[object, object]:
    """Return what is read elsewhere of a large body, and what is read of it here; or how each is refused."""

    def here() -> InferRequest:
        return json_wire.read(head + rest, len(head))

    def elsewhere() -> InferRequest:
        return read_by(Here(asked.read), head + rest, len(head))

    found: list[object] = []
    for reading in (elsewhere, here):
        try:
            found.append(told(reading()))
        except BadRequest as error:
            found.append(type(error))
    return found[0], found[1]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-300, 70_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
tensors = st.fixed_dictionaries(
    {
        "name": st.sampled_from("abc"),
        "datatype": st.sampled_from([*Datatype, "FP8"]),
        "shape": st.lists(st.integers(-1, 3), max_size=3),
    },
    optional={"data": values, "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 9))},
)


@given(inputs=st.lists(tensors, max_size=3), rest=st.binary(max_size=9), more=st.dictionaries(st.text(), values))
def test_a_large_body_says_the_same_as_a_small_one(
    inputs: list[dict[str, object]], rest: bytes, more: dict[str, object]
) -> None:
    """Whatever it holds, in JSON and behind it: the same tensors or the same words."""
    head = json.dumps({**more, "inputs": inputs}).encode() + SPACE
    elsewhere, here = read_both(head, rest)
    assert elsewhere == here


def test_numbers_become_bytes_elsewhere_beside_those_that_came_so() -> None:
    """A tensor in JSON before one in binary form: each has its own bytes, and none of them was walked here."""
    numbers = [float(i) for i in range(9000)]
    inputs = [
        {"name": "a", "datatype": "FP64", "shape": [9000], "data": numbers},
        {"name": "b", "datatype": "UINT8", "shape": [3], "parameters": {"binary_data_size": 3}},
        {"name": "c", "datatype": "BYTES", "shape": [0], "data": []},
    ]
    head, other = json.dumps({"inputs": inputs, "id": "7"}).encode(), Here(asked.read)
    read = read_by(other, head + b"xyz", len(head))
    assert (other.asked, read.id, [bytes(one.data) for one in read.inputs]) == (
        1,
        "7",
        [struct.pack("<9000d", *numbers), b"xyz", b""],
    )


def test_a_small_body_is_read_here() -> None:
    """A thread or a process for a few numbers would cost more than they do."""
    other = Here(asked.read)
    head = b'{"inputs": [{"name": "a", "datatype": "INT8", "shape": [1], "data": [1]}]}'
    read = read_by(other, head)
    assert (other.asked, bytes(read.inputs[0].data)) == (0, b"\1")


@pytest.mark.parametrize(
    "more", [{"parameters": {"x": "a" * json_wire.MAX_TOLD_BYTES}}, {"id": "a" * json_wire.MAX_TOLD_BYTES}]
)
def test_what_is_said_beside_data_is_bounded(more: dict[str, object]) -> None:
    """Megabytes of parameters would be read here after all."""
    one = {"name": "a", "datatype": "INT8", "shape": [1], "data": [1]}
    head = json.dumps({"inputs": [one], **more}).encode()
    with pytest.raises(BadRequest, match="names, shapes and parameters"):
        read_by(Here(asked.read), head)
