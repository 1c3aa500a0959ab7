"""A client of HTTP/2 that does what no library does: messages without an end, windows of no use, calls taken back."""

import asyncio
from contextlib import suppress
from struct import pack, unpack
from types import TracebackType
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK, PRIORITY = 1, 4, 1, 0x20
INITIAL_WINDOW_SIZE = 4
FRAME_BYTES = 16 << 10
Frame = tuple[int, int, int, bytes]
"""Kind, flags, stream, payload."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return pack(">I", len(payload))[1:] + pack(">BBI", kind, flags, stream) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a field without Huffman's code and without a table (RFC 7541, 6.2.2)."""
    return b"\0" + _sized(name) + _sized(value)


def _sized(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    left, size = len(text) - 127, b"\x7f"
    while left >= 128:
        size, left = size + bytes([left % 128 + 128]), left // 128
    return size + bytes([left]) + text


def call(stream: int, method: str, key: str = "") -> bytes:
    """Return the head of a gRPC call."""
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", b"x")]
    fields += [(b"te", b"trailers"), (b"content-type", b"application/grpc")]
    fields += [(b"authorization", f"Bearer {key}".encode())] if key else []
    return frame(HEADERS, END_HEADERS, stream, b"".join(_literal(*field) for field in fields))


def indexed(stream: int, method: str, size: int) -> bytes:
    """Return a call's head that puts a field of this size into the table (RFC 7541, 6.2.1)."""
    return _longer(call(stream, method), stream, b"\x40" + _sized(b"much") + _sized(b"z" * size))


def referring(stream: int, method: str, count: int) -> bytes:
    """Return a call's head that refers to the table's newest field, a byte each time (RFC 7541, 6.1)."""
    return _longer(call(stream, method), stream, b"\xbe" * count)


def _longer(head: bytes, stream: int, more: bytes) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, head[9:] + more)


class Http2:
    """One connection: what came is kept as frames, and read for windows alone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.frames: list[Frame] = []
        self.closed = asyncio.Event()
        self.windows: dict[int, int] = {0: 65_535}
        self._news = asyncio.Event()
        self._first_window = 65_535
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def to(cls, address: str, *, window: int = 65_535, local: str = "127.0.0.1") -> Self:
        host, _, port = address.rpartition(":")
        made = cls(*await asyncio.open_connection(host, int(port), local_addr=(local, 0)))
        made.send(PREFACE + frame(SETTINGS, 0, 0, pack(">HI", INITIAL_WINDOW_SIZE, window)))
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._writer.transport.abort()

    def send(self, data: bytes) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(data)

    async def flush(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()

    async def message(self, stream: int, size: int, sent: int) -> int:
        """Begin a message of this size and send so many of its bytes as the server takes; return how many went."""
        data = bytes(5 + sent)
        data = b"\0" + pack(">I", size) + data[5:]
        at = 0
        while at < len(data) and not self.closed.is_set():
            room = min(self.windows[0], self.windows.get(stream, self._first_window), FRAME_BYTES)
            if room <= 0:
                self._news.clear()
                if self.ended(stream):
                    break
                await self._news.wait()
                continue
            part = data[at : at + room]
            self.send(frame(DATA, 0, stream, part))
            self.windows[0] -= len(part)
            self.windows[stream] = self.windows.get(stream, self._first_window) - len(part)
            at += len(part)
            await self.flush()
        return at

    def ended(self, stream: int) -> bool:
        """Tell whether the server has ended this stream, or the connection."""
        ends = [one for one in self.frames if one[2] == stream and (one[0] == RESET or one[1] & END_STREAM)]
        return bool(ends) or self.closed.is_set()

    async def until_ended(self, *streams: int) -> None:
        while not all(map(self.ended, streams)):
            self._news.clear()
            await self._news.wait()

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                kind, flags, stream = unpack(">BBI", head[3:])
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._take(kind, flags, stream, payload)
                self._news.set()
        except (OSError, asyncio.IncompleteReadError):
            self.closed.set()
            self._news.set()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == WINDOW:
            (more,) = unpack(">I", payload)
            self.windows[stream] = self.windows.get(stream, self._first_window) + more
        elif kind == SETTINGS and not flags & ACK:
            self._set(dict(unpack(">HI", payload[at : at + 6]) for at in range(0, len(payload), 6)))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        else:
            self.frames.append((kind, flags, stream, payload))

    def _set(self, told: dict[int, int]) -> None:
        if (first := told.get(INITIAL_WINDOW_SIZE)) is not None:
            for stream in [stream for stream in self.windows if stream]:
                self.windows[stream] += first - self._first_window
            self._first_window = first
        self.send(frame(SETTINGS, ACK, 0))
