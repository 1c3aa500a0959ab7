"""The decoded size of header blocks before the client has acknowledged the server's settings."""

from collections.abc import Iterator

import pytest

from penstock.intake.frames import PREFACE, Frames, HeadersTooLong, NotHttp2
from penstock.intake.limits import Limits
from penstock.intake.opening import Opening, TooLarge
from tests.support.clients.http2 import ACK, END_HEADERS, HEADERS, PRIORITY, SETTINGS, call, frame, indexed, referring

CONTINUATION, PADDED = 9, 8
METHOD = "/inference.GRPCInferenceService/ServerLive"
PUBLISHED = (
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
)
"""Requests on one connection and their fields' sizes (RFC 7541, C.3)."""
SIZES = (180, 233, 245)
FAR = 3000
"""References in 3 KB: with a field of 3.9 KB, 12 MB."""


def blocks() -> Iterator[tuple[bytes, int]]:
    return zip(map(bytes.fromhex, PUBLISHED), SIZES, strict=True)


@pytest.mark.parametrize("short", [0, 1])
def test_blocks_have_the_published_sizes(short: int) -> None:
    """A bound of a block's own size lets it through, and one byte less doesn't."""
    for count in (1, 2, 3):
        opening = Opening(SIZES[count - 1] - short)
        found = [block for block, _ in blocks()][:count]
        if short:
            with pytest.raises(TooLarge):
                send(opening, found)
        else:
            send(opening, found)


def send(opening: Opening, found: list[bytes]) -> None:
    for block in found:
        opening.add(block[:5])
        opening.add(block[5:])
        opening.end_frame(END_HEADERS, is_last=True, is_first=True)


def fed(*frames: bytes, cut: int, is_greeted: bool = False) -> Frames:
    counted, data = Frames(Limits().header_bytes), PREFACE + b"".join(frames)
    counted.is_greeted = is_greeted
    for at in range(0, len(data), cut):
        counted.feed(data[at : at + cut], now=0.0)
    return counted


@pytest.mark.parametrize("cut", [7, 1000, 1 << 18])
@pytest.mark.parametrize("early", [b"", frame(SETTINGS, ACK, 0)], ids=["never", "before the server's settings"])
def test_references_to_a_long_field_are_refused_unacknowledged(early: bytes, cut: int) -> None:
    """Also after an acknowledgement that answers nothing, and however the network cuts the frames."""
    with pytest.raises(HeadersTooLong):
        fed(early, indexed(1, METHOD, 3900), referring(3, METHOD, FAR), cut=cut)


@pytest.mark.parametrize("cut", [7, 1 << 18])
def test_acknowledged_connections_are_left_to_the_core(cut: int) -> None:
    """It bounds decoded blocks itself from then on."""
    acknowledged = fed(frame(SETTINGS, 0, 0), frame(SETTINGS, ACK, 0), cut=cut, is_greeted=True)
    acknowledged.feed(indexed(1, METHOD, 3900) + referring(3, METHOD, FAR), now=0.0)
    assert acknowledged.calls == 2


@pytest.mark.parametrize("cut", [1, 1 << 18])
def test_padding_priority_and_parts_are_no_field(cut: int) -> None:
    """A block is what is left of its frames; a later block refers to the table of earlier ones."""
    first, *later = [block for block, _ in blocks()]
    padded = frame(HEADERS, PADDED | PRIORITY, 1, b"\x03" + bytes(5) + first[:4] + bytes(3))
    ended = frame(CONTINUATION, END_HEADERS, 1, first[4:])
    rest = [frame(HEADERS, END_HEADERS, 3 + 2 * i, block) for i, block in enumerate(later)]
    assert fed(padded, ended, *rest, cut=cut).calls == 3


@pytest.mark.parametrize(
    "odd", [frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09ab")]
)
def test_no_hpack_is_no_http2(odd: bytes) -> None:
    """An index beyond the table, and padding beyond the frame."""
    with pytest.raises(NotHttp2):
        fed(odd, cut=1 << 18)


def test_calls_of_usual_size_pass() -> None:
    """A token of 4 KB before the acknowledgement, more than once."""
    assert fed(*(call(stream, METHOD, "k" * 4000) for stream in (1, 3, 5)), cut=1 << 18).calls == 3
