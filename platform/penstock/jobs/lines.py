"""Cuts an input file into lines as its bytes come, with at most one line and one piece in memory. Pure.

A line ends with LF or CRLF, the last one also without; a byte order mark before the first is skipped, and so are blank
lines. Numbers count all lines from 1; offsets are those of the file.
"""

from collections.abc import Iterator
from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line without its end; ``raw`` is empty if the line is longer than the reader's bound."""

    number: int
    at: int
    size: int
    raw: bytes


class LineReader:
    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._number, self._at, self._size = 1, 0, 0
        self._pieces: list[bytes] = []
        self._begins = b""

    def feed(self, data: bytes) -> Iterator[Line]:
        """Yield the lines that end in this piece."""
        if self._at == 0 and self._number == 1:
            data = self._unmarked(data)
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._take(part)
            yield from self._line()
            self._number, self._at = self._number + 1, self._at + self._size + 1
            self._pieces, self._size = [], 0
        self._take(rest)

    def end(self) -> Iterator[Line]:
        """Yield the last line, if the file does not end with a line's end."""
        self._pieces.insert(0, self._begins)
        self._size += len(self._begins)
        yield from self._line()

    def _unmarked(self, data: bytes) -> bytes:
        """Return the file's beginning without the mark; nothing while it may still be one."""
        data, self._begins = self._begins + data, b""
        if self._size or not data:
            return data
        if data.startswith(BYTE_ORDER_MARK):
            self._at = len(BYTE_ORDER_MARK)
            return data[self._at :]
        if BYTE_ORDER_MARK.startswith(data):
            data, self._begins = b"", data
        return data

    def _take(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._most:
            self._pieces.append(part)
        else:
            self._pieces = []

    def _line(self) -> Iterator[Line]:
        raw = b"".join(self._pieces)
        if self._size > self._most:
            yield Line(self._number, self._at, self._size, b"")
        elif (stripped := raw.rstrip(b"\r")) and not stripped.isspace():
            yield Line(self._number, self._at, len(stripped), stripped)
