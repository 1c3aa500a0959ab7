"""Reads bodies of tensors; large JSON numbers in a child process, like other large bodies.

The child returns binary tensors, which this process never walks.
"""

from collections.abc import Sequence

from penstock.gateway.oip import json_wire
from penstock.gateway.oip.nouns import InferRequest
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.preprocess.offload import DONE


async def asked_by(reader: BodyReader, who: str, raw: bytes, head_length: int | None) -> InferRequest:
    """Parse a body; raises ``BadRequest``."""
    head, rest = json_wire.parted(raw, head_length)
    answer = await reader.tensors(who, head)
    if answer is None:
        return json_wire.read(raw, head_length)
    size, _, packed = bytes(answer).partition(b"\n")
    told, blobs = memoryview(packed)[: int(size)], memoryview(packed)[int(size) :]
    return json_wire.read_packed(told, blobs, rest)


def read(frame: memoryview) -> Sequence[bytes]:
    """Answer such a frame, in the child process."""
    told, blobs = json_wire.packed_head(frame)
    return (DONE, b"%d\n" % len(told), told, *blobs)
