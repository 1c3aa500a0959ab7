"""Counts the bytes of unfinished messages in one client's HTTP/2 stream as they arrive; keeps none of them. Pure.

A gRPC library holds a message until its last byte, without telling its size; here it is known.
"""

from struct import Struct

from penstock.intake.opening import Opening, TooLarge

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_STREAMS = 256
"""Streams with an incomplete message: twice the number that the server grants. A client beyond that violates the
protocol.
"""
MOST_FRAMES = 4096
"""Frames in one read of 256 KiB at most: 2.5 ms of the event loop. Requests of 130 bytes come to as many."""
_HEAD, _SIZE = Struct(">BHBBI"), Struct(">xI")
_HEAD_BYTES, _PREFIX_BYTES = _HEAD.size, _SIZE.size
_DATA, _HEADERS, _RESET, _SETTINGS, _GOAWAY, _CONTINUATION = 0, 1, 3, 4, 7, 9
_ENHANCE_YOUR_CALM = 11
"""The error code that gRPC reads as RESOURCE_EXHAUSTED."""
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
_IN_PARTS = frozenset({_RESET, _CONTINUATION})
_OF_HEADERS = frozenset({_HEADERS, _CONTINUATION})
_ACK = 1
_STREAM_MASK = 0x7FFF_FFFF


class NotHttp2(Exception):
    """The bytes are not HTTP/2 from a client."""


class HeadersTooLong(NotHttp2):
    """A call's header block is larger than the bound; ``last_words`` is the answer, in whole frames."""

    def __init__(self, stream: int) -> None:
        super().__init__(stream)
        reset = _HEAD.pack(0, 4, _RESET, 0, stream) + _ENHANCE_YOUR_CALM.to_bytes(4, "big")
        away = _HEAD.pack(0, 8, _GOAWAY, 0, 0) + stream.to_bytes(4, "big") + _ENHANCE_YOUR_CALM.to_bytes(4, "big")
        self.last_words = _HEAD.pack(0, 0, _SETTINGS, 0, 0) + reset + away


class Unfinished:
    """One stream's incomplete message: the bytes that have arrived, and those still missing."""

    __slots__ = ("is_dropped", "left", "prefix", "since", "size")

    def __init__(self, since: float) -> None:
        self.since = since
        self.prefix = b""
        self.left = self.size = 0
        self.is_dropped = False


class Frames:
    """Follows one connection; ``held`` counts the bytes of its unfinished messages, ``now`` is monotonic seconds.

    ``header_bytes`` bounds a header block over all its frames, frame headers included, and any other frame except a
    message's: the library keeps a block until its last frame. Before the client acknowledges the server's settings,
    decoded blocks have a bound, too.
    """

    def __init__(self, header_bytes: int) -> None:
        self._header_bytes = header_bytes
        self._opening: Opening | None = Opening(2 * header_bytes)
        self.is_greeted = False
        """The server's settings were sent: an earlier acknowledgement counts for nothing."""
        self.held = self.calls = self.resets = self._frames_left = self._block = 0
        self._preface = PREFACE
        self._head = b""
        self._left = self._padding = 0
        self._kind = self._flags = self._stream = 0
        self._reads_padding = False
        self._streams: dict[int, Unfinished] = {}

    def feed(self, data: bytes, now: float) -> None:
        """Count the next bytes as they arrive; raises ``NotHttp2``."""
        at, end, self._frames_left = self._opened(data), len(data), MOST_FRAMES
        while at < end:
            if self._left:
                at += self._payload(data, at, min(self._left, end - at), now)
            elif self._head or end - at < _HEAD_BYTES:
                taken = data[at : at + _HEAD_BYTES - len(self._head)]
                self._head += taken
                at += len(taken)
                if len(self._head) == _HEAD_BYTES:
                    head, self._head = self._head, b""
                    self._begin(head, 0)
            elif (after := self._complete(data, at, end)) > at:
                at = after
            else:
                self._begin(data, at)
                at += _HEAD_BYTES

    def drop(self) -> None:
        """Stop counting the bytes of all unfinished messages, since their calls were refused."""
        for one in self._streams.values():
            one.is_dropped, one.size = True, 0
        self.held = 0

    def late(self, before: float) -> bool:
        """Stop counting messages that began before ``before``; True if any was still counted."""
        late = [stream for stream, one in self._streams.items() if one.since < before]
        counted = [one for one in map(self._streams.pop, late) if not one.is_dropped]
        self.held -= sum(one.size for one in counted)
        return bool(counted)

    def _opened(self, data: bytes) -> int:
        if not self._preface:
            return 0
        given = data[: len(self._preface)]
        if not self._preface.startswith(given):
            raise NotHttp2
        self._preface = self._preface[len(given) :]
        return len(given)

    def _complete(self, data: bytes, at: int, end: int) -> int:
        """Return the offset of the next frame. Nearly all frames leave no message unfinished: one costs 0.3 µs here,
        1.1 µs in parts.
        """
        if self._block or self._opening is not None:
            return at
        streams, last = self._streams, end - _HEAD_BYTES
        while at <= last and self._frames_left >= 0:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            payload, after = at + _HEAD_BYTES, at + _HEAD_BYTES + (high << 16 | low)
            if after > end or kind in _IN_PARTS or (kind <= _HEADERS and stream & _STREAM_MASK in streams):
                break
            if kind == _HEADERS:
                if not flags & _END_HEADERS:
                    break
                self.calls += 1
            elif kind == _DATA and not flags & _END_STREAM and not _is_message(data, payload, after, flags):
                break
            self._frames_left -= 1
            at = after
        if self._frames_left < 0:
            raise NotHttp2
        return at

    def _begin(self, data: bytes, at: int) -> None:
        high, low, self._kind, self._flags, stream = _HEAD.unpack_from(data, at)
        self._left, self._padding, self._stream = high << 16 | low, 0, stream & _STREAM_MASK
        self._reads_padding = self._kind == _DATA and bool(self._flags & _PADDED)
        self._frames_left -= 1
        if self._frames_left < 0:
            raise NotHttp2
        if self._block or self._kind != _DATA:
            self._open_block()
        if self._kind == _HEADERS:
            self.calls += 1
        elif self._kind == _RESET:
            self.resets += 1
            self._forget(self._stream)
        if not self._left:
            self._end()

    def _open_block(self) -> None:
        block = self._block + _HEAD_BYTES + self._left
        if bool(self._block) != (self._kind == _CONTINUATION):
            raise NotHttp2
        is_head = self._kind in _OF_HEADERS
        if block > self._header_bytes:
            raise HeadersTooLong(self._stream) if is_head else NotHttp2
        is_open = is_head and not self._flags & _END_HEADERS
        self._block = block if is_open else 0

    def _payload(self, data: bytes, at: int, size: int, now: float) -> int:
        if self._kind == _DATA:
            if self._reads_padding:
                self._reads_padding, self._padding, size = False, data[at], 1
            else:
                content = min(size, self._left - self._padding)
                if content > 0:
                    self._content(data, at, content, now)
        elif self._opening is not None and self._kind in _OF_HEADERS:
            self._opening.add(data[at : at + size])
        self._left -= size
        if not self._left:
            self._end()
        return size

    def _content(self, data: bytes, at: int, size: int, now: float) -> None:
        one = self._streams.get(self._stream)
        if one is None:
            one = self._streams[self._stream] = Unfinished(now)
            if len(self._streams) > MOST_STREAMS:
                raise NotHttp2
        while size:
            if not one.left:
                taken = data[at : at + min(size, _PREFIX_BYTES - len(one.prefix))]
                one.prefix += taken
                part = len(taken)
                if len(one.prefix) == _PREFIX_BYTES:
                    one.left, one.prefix = int.from_bytes(one.prefix[1:], "big"), b""
                    one.since, one.is_dropped = now, False
            else:
                part = min(size, one.left)
                one.left -= part
                self._grow(one, part)
            at, size = at + part, size - part
        if not one.left and not one.prefix:
            del self._streams[self._stream]

    def _grow(self, one: Unfinished, part: int) -> None:
        if one.is_dropped:
            return
        one.size += part
        self.held += part
        if not one.left:
            self.held -= one.size
            one.size = 0

    def _end(self) -> None:
        if self._opening is not None:
            self._end_opening(self._opening)
        if self._kind in (_DATA, _HEADERS) and self._flags & _END_STREAM:
            self._forget(self._stream)

    def _end_opening(self, opening: Opening) -> None:
        if self._kind in _OF_HEADERS:
            is_last = bool(self._flags & _END_HEADERS)
            try:
                opening.end_frame(self._flags, is_last=is_last, is_first=self._kind == _HEADERS)
            except TooLarge:
                raise HeadersTooLong(self._stream) from None
            except ValueError as error:
                raise NotHttp2 from error
        elif self._kind == _SETTINGS and self._flags & _ACK and self.is_greeted:
            self._opening = None

    def _forget(self, stream: int) -> None:
        one = self._streams.pop(stream, None)
        if one is not None and not one.is_dropped:
            self.held -= one.size


def _is_message(data: bytes, at: int, end: int, flags: int) -> bool:
    content = end - at - _PREFIX_BYTES
    return content >= 0 and not flags & _PADDED and content == _SIZE.unpack_from(data, at)[0]
