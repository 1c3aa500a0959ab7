"""The count of unfinished messages: the same for any cut of the bytes, and bounded for any client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.intake.frames import MOST_FRAMES, MOST_STREAMS, PREFACE, Frames, HeadersTooLong, NotHttp2
from penstock.intake.limits import Limits
from tests.support.clients.http2 import ACK, DATA, END_STREAM, GOAWAY, HEADERS, PING, RESET, SETTINGS, frame

PADDED = 8
HEADER_BYTES = Limits().header_bytes


def message(size: int, sent: int) -> bytes:
    """Return a message that says it has ``size`` bytes and holds ``sent`` of them."""
    return b"\0" + size.to_bytes(4, "big") + bytes(sent)


def acknowledged() -> Frames:
    """Return the count of a connection whose client has acknowledged the server's settings."""
    frames = Frames(HEADER_BYTES)
    frames.is_greeted = True
    frames.feed(PREFACE + frame(SETTINGS, ACK, 0), now=0.0)
    return frames


def held(*frames: bytes, cut: int = 1 << 20) -> int:
    """Return the bytes that are counted after these frames, fed in pieces."""
    counted, data = acknowledged(), b"".join(frames)
    for at in range(0, len(data), cut):
        counted.feed(data[at : at + cut], now=0.0)
    return counted.held


WAYS = {
    "begun": ((frame(DATA, 0, 1, message(100, 40)),), 40),
    "whole": ((frame(DATA, 0, 1, message(100, 100)),), 0),
    "whole and another begun": ((frame(DATA, 0, 1, message(100, 100) + message(9, 2)),), 2),
    "over several frames": (
        (frame(DATA, 0, 1, message(9, 2)), frame(PING, 0, 0, bytes(8)), frame(DATA, 0, 1, b"ab")),
        4,
    ),
    "its length alone": ((frame(DATA, 0, 1, b"\0\0"), frame(DATA, 0, 1, b"\0\0")), 0),
    "of two calls": ((frame(DATA, 0, 1, message(9, 2)), frame(DATA, 0, 3, message(9, 3))), 5),
    "taken back": ((frame(DATA, 0, 1, message(9, 2)), frame(RESET, 0, 1, bytes(4))), 0),
    "ended early": ((frame(DATA, END_STREAM, 1, message(9, 2)),), 0),
    "padded": ((frame(DATA, PADDED, 1, b"\x07" + message(9, 2) + bytes(7)), frame(DATA, 0, 1, b"abc")), 5),
    "padding alone": ((frame(DATA, PADDED, 1, b"\x02\0\0"),), 0),
}


@pytest.mark.parametrize("name", WAYS)
@given(cut=st.integers(1, 60))
def test_what_is_unfinished_is_counted(name: str, cut: int) -> None:
    """Whole messages count nothing, begun ones their bytes so far, however the network cuts them."""
    frames, expected = WAYS[name]
    assert held(*frames, cut=cut) == expected


def test_what_was_refused_counts_no_more() -> None:
    """The rest of a refused message is on its way for a while; the next message of its stream counts again."""
    frames = Frames(HEADER_BYTES)
    frames.feed(PREFACE + frame(DATA, 0, 1, message(9, 2)), now=0.0)
    frames.drop()
    frames.feed(frame(DATA, 0, 1, b"abc"), now=0.0)
    assert frames.held == 0
    frames.feed(frame(DATA, 0, 1, b"abcd" + message(9, 3)), now=0.0)
    assert frames.held == 3


def test_a_message_without_an_end_is_late() -> None:
    """A message's time runs from its own first byte, not from the stream's."""
    frames = Frames(HEADER_BYTES)
    frames.feed(PREFACE + frame(DATA, 0, 1, message(9, 9)), now=0.0)
    frames.feed(frame(DATA, 0, 1, message(9, 1)), now=50.0)
    assert (frames.late(before=40.0), frames.held) == (False, 1)
    assert (frames.late(before=60.0), frames.held) == (True, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        PREFACE + frame(PING, 0, 0) * (MOST_FRAMES + 1),
        PREFACE + b"".join([frame(DATA, 0, 2 * i + 1, b"\0") for i in range(MOST_STREAMS + 1)]),
    ],
)
def test_what_no_client_sends_ends_the_connection(data: bytes) -> None:
    """Another protocol, frames without content by the thousand, more begun calls than the server grants."""
    with pytest.raises(NotHttp2):
        Frames(HEADER_BYTES).feed(data, now=0.0)


def test_calls_and_their_resets_are_counted() -> None:
    """The relay bounds both by connection."""
    frames = Frames(HEADER_BYTES)
    frames.feed(PREFACE + frame(HEADERS, 4, 1) + frame(RESET, 0, 1, bytes(4)), now=0.0)
    assert (frames.calls, frames.resets) == (1, 1)


CONTINUATION, END_HEADERS = 9, 4


@pytest.mark.parametrize("cut", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("part", [0, 1, 500, 15_000])
def test_a_header_block_without_an_end_ends_the_connection(part: int, cut: int) -> None:
    """A block counts over all its frames, their own heads included: the library would hold it until its last one."""
    block = frame(HEADERS, 0, 1, bytes(part))
    while len(block) <= HEADER_BYTES:
        block += frame(CONTINUATION, 0, 1, bytes(part))
    with pytest.raises(HeadersTooLong) as caught:
        held(block, cut=cut)
    assert caught.value.last_words == (
        frame(SETTINGS, 0, 0) + frame(RESET, 0, 1, b"\0\0\0\x0b") + frame(GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\x0b")
    )


@given(cut=st.integers(1, 4000))
def test_blocks_that_end_are_free(cut: int) -> None:
    """Each block of a long connection has the bound of its own, in one frame or in parts."""
    parts = frame(HEADERS, 0, 1, bytes(9000)) + frame(CONTINUATION, END_HEADERS, 1, bytes(9000))
    assert held(*[parts, frame(HEADERS, END_HEADERS, 3, bytes(16_000))] * 5, cut=cut) == 0


@pytest.mark.parametrize(
    "data",
    [
        frame(CONTINUATION, END_HEADERS, 1, bytes(9)),
        frame(HEADERS, 0, 1, bytes(9)) + frame(PING, 0, 0, bytes(8)),
        frame(HEADERS, 0, 1, bytes(9)) + frame(DATA, 0, 1, message(9, 2)),
        frame(99, 0, 1, bytes(HEADER_BYTES))[:100],
    ],
)
def test_frames_out_of_their_order_or_size_end_the_connection(data: bytes) -> None:
    """Nothing stands between the parts of a block, no part stands alone, and only messages may be large."""
    with pytest.raises(NotHttp2):
        held(data)
