"""Reads messages of tensors; large element-wise contents are read in a child process, like large JSON.

The child returns raw contents, so that this process never iterates over the elements.
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.domain.errors import BodyTooLarge
from penstock.gateway.oip.grpc.messages import LARGE_BYTES, Received, check_told, packed_head, parted
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.preprocess.offload import DONE

MAX_LISTED_BYTES = 4 << 20
"""Bytes of element-wise contents, as much as JSON may have. Raw contents may be larger."""


async def received_by(reader: BodyReader, who: str, data: bytes) -> Received:
    """Parse a message; raises ``BadRequest``."""
    if len(data) <= LARGE_BYTES:
        return Received(data)
    head, raw = parted(data)
    if raw:
        check_told(head)
    if len(head) > MAX_LISTED_BYTES:
        raise BodyTooLarge(f"contents take more than {MAX_LISTED_BYTES} bytes: send them in raw_input_contents")
    if raw or len(head) <= LARGE_BYTES:
        return Received(head, raw)
    answer = await reader.message(who, head)
    if answer is None:
        return Received(head, raw)
    line, _, packed = bytes(answer).partition(b"\n")
    told, *blobs = _views(packed, map(int, line.split()))
    return Received(bytes(told), blobs)


def _views(packed: bytes, sizes: Iterable[int]) -> Iterator[memoryview]:
    left = memoryview(packed)
    for size in sizes:
        yield left[:size]
        left = left[size:]


def read(frame: memoryview) -> Sequence[bytes]:
    """Answer a frame with a message's head, in the child process."""
    told, blobs = packed_head(bytes(frame))
    sizes = b" ".join(b"%d" % len(part) for part in (told, *blobs))
    return (DONE, sizes, b"\n", told, *blobs)
