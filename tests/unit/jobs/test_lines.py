from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.lines import BYTE_ORDER_MARK, Line, LineReader

PARTS = st.sampled_from(
    [b"a", b"\n", b"\r\n", b"\r", b" ", b"\xef", b"\xbb", b"\xbf", BYTE_ORDER_MARK, b"bcd", b"x" * 9]
)


def read(pieces: list[bytes], most_bytes: int = 8) -> list[Line]:
    reader = LineReader(most_bytes)
    return [*(line for piece in pieces for line in reader.feed(piece)), *reader.end()]


def cut(data: bytes, at: list[int]) -> Iterator[bytes]:
    last = 0
    for one in sorted(at):
        yield data[last : min(one, len(data))]
        last = min(one, len(data))
    yield data[last:]


def test_ends_of_lines() -> None:
    """LF, CRLF and no end are the same; blank lines count, and are not yielded."""
    lines = read([b"one\r\n\n  \ntwo\nlast"])
    assert [(line.number, line.at, line.raw) for line in lines] == [(1, 0, b"one"), (4, 9, b"two"), (5, 13, b"last")]


def test_byte_order_mark_in_pieces() -> None:
    """The mark is skipped even if its bytes come one by one; ranges are those of the file."""
    assert read([b"\xef", b"\xbb", b"\xbf", b"one\n"]) == [Line(1, 3, 3, b"one")]
    assert read([BYTE_ORDER_MARK]) == []


def test_a_long_line_is_counted_and_not_kept() -> None:
    """A line beyond the bound is told with its size; the next one is read."""
    reader = LineReader(8)
    for _ in range(1_000):
        assert list(reader.feed(b"x" * 1_000)) == []
    assert reader._pieces == []
    assert list(reader.feed(b"\nok\n")) == [Line(1, 0, 1_000_000, b""), Line(2, 1_000_001, 2, b"ok")]


@given(st.lists(PARTS, max_size=20).map(b"".join), st.lists(st.integers(0, 80), max_size=6))
def test_pieces_do_not_matter(data: bytes, at: list[int]) -> None:
    """However the bytes are cut into pieces, the lines are the same, and their ranges show them."""
    whole = read([data])
    assert read(list(cut(data, at))) == whole
    for line in whole:
        assert line.raw in (b"", data[line.at : line.at + line.size])
        assert not line.raw.startswith(BYTE_ORDER_MARK) or line.at
