"""Bounds the bytes held of bodies until their requests are admitted, by tenant. Pure.

Bytes count as they arrive, from the first one beyond a small body until the request is admitted; afterwards the plan's
concurrency bounds them.
"""

from penstock.domain.errors import OverLimit, Overloaded, PenstockError
from penstock.domain.ids import TenantId
from penstock.intake.addresses import Addresses, Placed
from penstock.intake.share import SharedRoom

RETRY_S = 1.0
TOTAL_BYTES = 256 << 20
MOST_CONNECTIONS = 4096
MOST_ARRIVING = 1024
"""Concurrent requests with incomplete bodies: a quarter of a gateway's connections."""


class Intake:
    def __init__(
        self, *, total_bytes: int = TOTAL_BYTES, most_arriving: int = MOST_ARRIVING, connections: int = MOST_CONNECTIONS
    ) -> None:
        self.addresses = Addresses[Placed](connections)
        self._bytes = SharedRoom(total_bytes)
        self._arriving = SharedRoom(2 * most_arriving)

    @property
    def held_bytes(self) -> int:
        return self._bytes.used

    def begin(self, tenant: TenantId) -> "HeldBytes":
        return HeldBytes(self._bytes, self._arriving, tenant)


class HeldBytes:
    """The held bytes of one body; ``release`` may be called repeatedly."""

    __slots__ = ("_arriving", "_bytes", "_held", "_is_arriving", "_tenant")

    def __init__(self, room: SharedRoom, arriving: SharedRoom, tenant: TenantId) -> None:
        self._bytes, self._arriving, self._tenant = room, arriving, tenant
        self._held = 0
        self._is_arriving = False

    def arrives(self) -> None:
        """Count an incomplete body, or refuse it if this caller has too many."""
        if not self._arriving.take(self._tenant, 1):
            raise self._refusal(self._arriving, "bodies on their way", "tenant_arriving")
        self._is_arriving = True

    def is_here(self) -> None:
        if self._is_arriving:
            self._is_arriving = False
            self._arriving.give(self._tenant, 1)

    def grow(self, size: int) -> None:
        """Hold more bytes; raise ``OverLimit``, or ``Overloaded`` if other callers hold most of the room."""
        if not self._bytes.take(self._tenant, size):
            raise self._refusal(self._bytes, "bytes of requests", "tenant_bytes")
        self._held += size

    def hold(self, size: int) -> None:
        """Hold this number of bytes from now on; raises as ``grow``."""
        if size >= self._held:
            self.grow(size - self._held)
        else:
            self._bytes.give(self._tenant, self._held - size)
            self._held = size

    def release(self) -> None:
        self.is_here()
        if self._held:
            self._bytes.give(self._tenant, self._held)
            self._held = 0

    def _refusal(self, room: SharedRoom, what: str, reason: str) -> PenstockError:
        if 2 * room.held(self._tenant) >= room.used:
            return OverLimit(f"this tenant has too many {what} to this gateway", retry_after_s=RETRY_S, reason=reason)
        return Overloaded(f"this gateway holds too many {what}", retry_after_s=RETRY_S)
