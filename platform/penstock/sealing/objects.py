"""Sealed objects as bytes: the header, then segments of 64 KiB, of which the last may be shorter.

Ranges are read without the rest. The size is taken from the sealed bytes; a read to the end opens the last
segment, so an object that was cut off fails.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.sealing.segments import TAG_BYTES, Opening, Sealing, Subject, TenantKey, Unreadable

SEGMENT_BYTES = 64 << 10
"""Clear bytes of a segment: 50 µs of sealing, and the least that is read to read a byte."""
_SEALED_BYTES = SEGMENT_BYTES + TAG_BYTES


class ObjectSealer:
    """Turns an object's bytes, as they come, into sealed ones; ``size`` counts the clear bytes."""

    def __init__(self, key: TenantKey, subject: Subject) -> None:
        self._sealing = Sealing(key, subject)
        self._ready = [self._sealing.header]
        self._rest = bytearray()
        self.size = 0

    def write(self, data: bytes) -> bytes:
        """Return the sealed bytes that are ready; a segment is, once it can't be the last one."""
        self._rest += data
        self.size += len(data)
        while len(self._rest) > SEGMENT_BYTES:
            self._ready.append(self._sealing.close(bytes(self._rest[:SEGMENT_BYTES]), is_last=False))
            del self._rest[:SEGMENT_BYTES]
        return self._taken()

    def finish(self) -> bytes:
        self._ready.append(self._sealing.close(bytes(self._rest), is_last=True))
        return self._taken()

    def _taken(self) -> bytes:
        taken = b"".join(self._ready)
        self._ready.clear()
        return taken


class Block(NamedTuple):
    """Whole segments of an object that are read together: ``length`` sealed bytes from ``start``."""

    first: int
    start: int
    length: int
    skip: int
    """Clear bytes before the wanted ones."""
    size: int
    """Clear bytes wanted."""


class ObjectOpener:
    """Opens ranges of one sealed object of ``sealed_bytes``; of the secrets, the one that fits is used."""

    def __init__(self, secrets: Sequence[bytes], subject: Subject, header: bytes, sealed_bytes: int) -> None:
        self._starts_at = len(header)
        body = sealed_bytes - self._starts_at
        self._segments = -(-body // _SEALED_BYTES)
        self.size = body - self._segments * TAG_BYTES
        if body < TAG_BYTES or not secrets:
            raise Unreadable
        self._openings = [Opening(secret, subject, header) for secret in secrets]

    def blocks(self, at: int, size: int | None, most_segments: int) -> Iterator[Block]:
        """Yield the blocks of a range, which is cut at the object's end; at least one, also for no bytes."""
        at = min(at, self.size)
        end = self.size if size is None else min(at + size, self.size)
        last = min(max(at, end - 1) // SEGMENT_BYTES, self._segments - 1)
        first = min(at // SEGMENT_BYTES, last)
        for number in range(first, last + 1, most_segments):
            count = min(most_segments, last + 1 - number)
            start, clear_at = self._starts_at + number * _SEALED_BYTES, number * SEGMENT_BYTES
            skip = max(0, at - clear_at)
            wanted = max(0, min(end, clear_at + count * SEGMENT_BYTES) - clear_at - skip)
            yield Block(number, start, count * _SEALED_BYTES, skip, wanted)

    def open(self, block: Block, sealed: bytes) -> bytes:
        """Raises ``Unreadable`` for other bytes than the block's."""
        parts = [sealed[at : at + _SEALED_BYTES] for at in range(0, len(sealed), _SEALED_BYTES)]
        clear = b"".join(self._open(number, part) for number, part in enumerate(parts, block.first))
        found = clear[block.skip : block.skip + block.size]
        if not parts or len(found) != block.size:
            raise Unreadable
        return found

    def _open(self, number: int, segment: bytes) -> bytes:
        is_last = number == self._segments - 1
        for opening in self._openings[:-1]:
            try:
                found = opening.open(number, segment, is_last=is_last)
            except Unreadable:
                continue
            self._openings = [opening]
            return found
        return self._openings[-1].open(number, segment, is_last=is_last)
