"""What the edge accepts from the network: bounds in bytes, counts and seconds."""

from dataclasses import dataclass

QUESTION_BYTES = 64 << 10
"""Of the body or message that asks for no inference: a name and a version."""
LINGER_S = 2.0
LINGER_BYTES = 8 << 20
"""After a refusal, how long and how much of what still arrives is thrown away, so that the answer is not lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    body_bytes: int = 8 << 20
    header_bytes: int = 32 << 10
    """Request line and headers together; over gRPC a call's header block."""
    headers: int = 100
    connections: int = 4096
    header_timeout_s: float = 10.0
    """From the first byte of a request (or the start of the connection) to the end of its headers."""
    body_timeout_s: float = 30.0
    keep_alive_s: float = 75.0
    write_buffer_bytes: int = 256 << 10
    """A client that leaves more than this unread is paused."""
    unread_s: float = 30.0
    """How long a client may leave unread what was written to it; then its connection ends."""
    drain_grace_s: float = 30.0
    drain_linger_s: float = 1.0
    """How long idle connections stay while draining: a request may be on the wire already."""
