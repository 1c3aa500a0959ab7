from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.answers.sse import MAX_HELD_BYTES, EventScanner, data_of, parted, split

_EVENTS = st.lists(
    st.one_of(
        st.sampled_from([b"data: [DONE]\n\n", b": comment\n\n", b"event: x\ndata: {}\n\n"]),
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=30).map(
            lambda text: b"data: " + text.encode() + b"\n\n"
        ),
    ),
    max_size=8,
)


@given(_EVENTS, st.lists(st.integers(0, 400)), st.binary(max_size=5).filter(lambda b: b"\n" not in b))
def test_any_cut_gives_the_same_events(events: list[bytes], cuts: list[int], rest: bytes) -> None:
    """However the bytes are cut, the same whole events come out, in order, and only the rest is held."""
    stream = b"".join(events) + rest
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    scanner = EventScanner()
    out = [scanner.feed(stream[a:b]) for a, b in pairwise(edges)]
    assert all(piece.endswith(b"\n\n") for piece in out if piece)
    assert [event for piece in out for event in split(piece)] == events
    assert scanner.held_bytes == len(rest)


def test_event_without_an_end_is_given_up() -> None:
    """What never ends is not held for ever."""
    scanner = EventScanner()
    try:
        for _ in range(MAX_HELD_BYTES // 65_536 + 2):
            scanner.feed(b"x" * 65_536)
    except ValueError:
        return
    raise AssertionError("held without bound")


def test_data_of_an_event() -> None:
    """The JSON is found with and without a name and a space."""
    assert data_of(b"data: {}\n\n") == b"{}"
    assert data_of(b"event: a\ndata:{1}\n\n") == b"{1}"
    assert data_of(b": comment\n\n") == b""


@given(_EVENTS, st.sampled_from([(b"data: [DONE]",), (b"event: x", b": comm"), (b"never",)]))
def test_parted_keeps_order_and_loses_nothing(events: list[bytes], marks: tuple[bytes, ...]) -> None:
    """What is plain comes first, unmarked; the rest begins with the first marked event."""
    plain, rest = parted(b"".join(events), marks)
    assert plain + rest == b"".join(events)
    assert not any(mark in plain for mark in marks)
    first = next(iter(split(rest)), b"")
    assert not rest or any(mark in first for mark in marks)
