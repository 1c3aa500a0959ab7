"""Validates tickets: signed for this worker and request, in time, and unused.

Used tickets are remembered while they would be valid: two clock skews at most. A restarted gate remembers none: for
that long an intercepted ticket works once more.
"""

from collections import deque

from penstock.domain.clock import Clock
from penstock.domain.errors import Unauthenticated
from penstock.domain.serving.ticket import Presented, Ticket, binding_of, unseal


class UsedTickets:
    def __init__(self) -> None:
        self._nonces: set[bytes] = set()
        self._by_age: deque[tuple[float, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._nonces)

    def use(self, presented: Presented, now: float) -> bool:
        """False if the ticket was used before; ``now`` is Unix seconds."""
        while self._by_age and self._by_age[0][0] < now:
            self._nonces.discard(self._by_age.popleft()[1])
        if presented.nonce in self._nonces:
            return False
        self._nonces.add(presented.nonce)
        self._by_age.append((presented.stale_at, presented.nonce))
        return True


class TicketCheck:
    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key, self._clock = key, clock
        self._used = UsedTickets()

    def presented(self, header: bytes) -> Presented:
        """Raises ``Unauthenticated``. Cheap, since it runs before the body is read."""
        try:
            return unseal(header.decode("ascii"), self._key, self._clock.now())
        except UnicodeDecodeError as error:
            raise Unauthenticated("the internal ticket is damaged") from error

    def accept(self, presented: Presented, path: str, body: bytes) -> Ticket:
        if presented.binding != binding_of(path, body):
            raise Unauthenticated("the internal ticket is for another request")
        if not self._used.use(presented, self._clock.now()):
            raise Unauthenticated("the internal ticket was used before")
        return presented.ticket
