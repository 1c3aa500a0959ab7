"""The listeners' bounds on the network: bytes, counts and seconds."""

from dataclasses import dataclass

QUESTION_BYTES = 64 << 10
"""Bytes of a body or message other than inference: a name and a version."""
LINGER_S = 2.0
LINGER_BYTES = 8 << 20
"""Seconds and bytes of input discarded after a refusal, so that the answer is not lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    body_bytes: int = 8 << 20
    header_bytes: int = 32 << 10
    """Request line and headers together; over gRPC a call's header block."""
    headers: int = 100
    connections: int = 4096
    header_timeout_s: float = 10.0
    """Seconds from the first byte of a request (or the start of the connection) to the end of its headers."""
    body_timeout_s: float = 30.0
    keep_alive_s: float = 75.0
    write_buffer_bytes: int = 256 << 10
    """Unread bytes above which writing to a client pauses."""
    unread_s: float = 30.0
    """Seconds for which a client may leave written bytes unread; then its connection ends."""
    drain_grace_s: float = 30.0
    drain_linger_s: float = 1.0
    """Seconds for which idle connections stay while draining: a request may already be on the wire."""
