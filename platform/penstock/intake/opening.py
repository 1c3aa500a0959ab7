"""The decoded size of header blocks that a client sends before it acknowledges the server's settings.

gRPC's core (grpcio 1.85) bounds decoded headers only by acknowledged settings: before that, 3 KB that refer 3,000 times
to one long field of HPACK's table (RFC 7541, 2.3.2) are 12 MB to it. Only a client's first calls come this way, which
costs some 100 µs.
"""

from hpack import Decoder, HPACKError, OversizedHeaderListError

_PADDED, _PRIORITY = 8, 0x20
_PRIORITY_BYTES = 5


class TooLarge(Exception):
    """A header block's decoded size is above the bound."""


class Opening:
    """Header blocks until the acknowledgement; ``most_bytes`` bounds one block as HPACK counts (32 bytes a field)."""

    def __init__(self, most_bytes: int) -> None:
        self._decoder = Decoder(max_header_list_size=most_bytes)
        self._block = bytearray()
        self._frame = bytearray()

    def add(self, payload: bytes) -> None:
        self._frame += payload

    def end_frame(self, flags: int, *, is_last: bool, is_first: bool) -> None:
        """End the frame; after its block's last one decode the block. Raises ``TooLarge`` and ``ValueError``."""
        start, end = 0, len(self._frame)
        if is_first and flags & _PADDED:
            start, end = 1, end - (self._frame[0] if self._frame else 0)
        if is_first and flags & _PRIORITY:
            start += _PRIORITY_BYTES
        if start > end:
            raise ValueError("a HEADERS frame is shorter than its padding")
        self._block += self._frame[start:end]
        self._frame.clear()
        if is_last:
            block = bytes(self._block)
            self._block.clear()
            self._decode(block)

    def _decode(self, block: bytes) -> None:
        try:
            self._decoder.decode(block, raw=True)
        except OversizedHeaderListError as error:
            raise TooLarge from error
        except HPACKError as error:
            raise ValueError("a header block is no HPACK") from error
