"""Reads a multipart form as its bytes come (RFC 7578): nothing of a file is kept, and nothing written to disk. Pure.

Each piece is searched for the delimiter once, in C: no content makes a piece dear. Trade-off: stricter than RFC 2046,
since a form's preamble is bounded and its parts are not encoded.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from penstock.domain.errors import MalformedBody
from penstock.domain.jobs.errors import NotAForm

MOST_HEAD_BYTES = 8 << 10
"""Bytes of a part's headers, and of what may come before the first part."""
MOST_PARTS = 16
"""Parts of a form: an upload has four."""
_BOUNDARY = re.compile(r'multipart/form-data\s*;.*?\bboundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_PARAMETER = re.compile(r';\s*([a-z*]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', re.IGNORECASE)
_PLAIN = frozenset({"", "7bit", "8bit", "binary"})


class Part(NamedTuple):
    """Its bytes follow. ``filename`` is None for a plain field."""

    name: str
    filename: str | None


class _At(Enum):
    START = "start"
    DELIMITER = "delimiter"
    HEAD = "head"
    DATA = "data"
    END = "end"


class FormReader:
    """``end`` checks that the form was whole."""

    def __init__(self, content_type: str) -> None:
        found = _BOUNDARY.match(content_type)
        if found is None:
            raise NotAForm
        self._delimiter = b"\r\n--" + (found[1] or found[2]).encode()
        self._rest, self._at, self._parts = b"\r\n", _At.START, 0

    def feed(self, data: bytes) -> Iterator[Part | bytes]:
        """Raises ``MalformedBody``, and is to be read to its end."""
        self._rest += data
        while True:
            before, size = self._at, len(self._rest)
            yield from self._step()
            if self._at is before and len(self._rest) == size:
                return

    def end(self) -> None:
        if self._at is not _At.END:
            raise MalformedBody("the form ends before its last delimiter")

    def _step(self) -> Iterator[Part | bytes]:
        match self._at:
            case _At.START:
                self._start()
            case _At.DELIMITER:
                self._delimited()
            case _At.HEAD:
                yield from self._head()
            case _At.DATA:
                yield from self._data()
            case _At.END:
                self._rest = b""

    def _start(self) -> None:
        at = self._rest.find(self._delimiter)
        if at >= 0:
            self._take(at + len(self._delimiter), _At.DELIMITER)
        elif len(self._rest) > MOST_HEAD_BYTES:
            raise MalformedBody("the form does not begin with the delimiter that its content type names")

    def _delimited(self) -> None:
        if self._rest.startswith(b"--"):
            self._at = _At.END
        elif self._rest.startswith(b"\r\n"):
            self._at = _At.HEAD  # the line's end stays: a head may be empty
        elif len(self._rest) > 1:
            raise MalformedBody("a delimiter of the form is followed by something else than a part")

    def _head(self) -> Iterator[Part]:
        at = self._rest.find(b"\r\n\r\n")
        if at > MOST_HEAD_BYTES or (at < 0 and len(self._rest) > MOST_HEAD_BYTES):
            raise MalformedBody(f"the headers of a part are larger than {MOST_HEAD_BYTES} bytes")
        if at >= 0:
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise MalformedBody(f"the form has more than {MOST_PARTS} parts")
            part = _part(self._rest[:at])
            self._take(at + 4, _At.DATA)
            yield part

    def _data(self) -> Iterator[bytes]:
        at = self._rest.find(self._delimiter)
        until = at if at >= 0 else len(self._rest) - len(self._delimiter) + 1
        if until > 0:
            yield self._rest[:until]
        if at >= 0:
            self._take(at + len(self._delimiter), _At.DELIMITER)
        elif until > 0:
            self._take(until, _At.DATA)

    def _take(self, size: int, at: _At) -> None:
        self._rest, self._at = self._rest[size:], at


def _part(raw: bytes) -> Part:
    try:
        lines = raw.decode().split("\r\n")
    except UnicodeDecodeError as error:
        raise MalformedBody("the headers of a part are not UTF-8") from error
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    disposition = headers.get("content-disposition", "")
    told = {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) if plain == "" else plain
        for name, quoted, plain in _PARAMETER.findall(disposition)
    }
    if not disposition.lower().startswith("form-data") or not told.get("name"):
        raise MalformedBody("a part of the form has no name")
    if headers.get("content-transfer-encoding", "").lower() not in _PLAIN:
        raise MalformedBody("a part of the form is encoded: send it as it is")
    return Part(told["name"], told.get("filename"))
