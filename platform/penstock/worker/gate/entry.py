"""Entry to the gate: requests with a valid ticket, and the platform's own orders.

A resting or draining worker refuses tenants' new requests. Earlier ones continue: no order ends a stream, and waiting
requests keep their order.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.domain.clock import Clock
from penstock.domain.errors import Unauthenticated
from penstock.domain.serving.request import Api
from penstock.domain.serving.ticket import HEADER, Presented, Ticket
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.gate.asgi import BodyTooLarge, Receive, Scope, body_of, header, replay
from penstock.worker.gate.refusals import GateRefusal, Refused
from penstock.worker.gate.tickets import TicketCheck

_TICKET = HEADER.encode()
_MAX_BODY_BYTES = 64 << 20
"""More than any gateway accepts: a bound for a holder of a worker's key that is no gateway."""
_SERVED = frozenset(Api)
"""The engine's reachable paths, by POST only."""


class Entry:
    def __init__(self, key: bytes, clock: Clock) -> None:
        self._tickets, self._clock = TicketCheck(key, clock), clock
        self.is_draining = self.is_resting = False
        self.inside = 0
        """Requests that were let in and have not ended, also those that have yet to send their body."""

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    def presented(self, scope: Scope) -> Presented:
        try:
            presented = self._tickets.presented(header(scope, _TICKET))
        except Unauthenticated as error:
            raise Refused(GateRefusal.TICKET) from error
        if self._clock.now() > presented.ticket.deadline_at:
            raise Refused(GateRefusal.LATE)
        if (self.is_draining or self.is_resting) and presented.ticket.tenant != PLATFORM:
            raise Refused(GateRefusal.DRAINING if self.is_draining else GateRefusal.SLEEPING)
        return presented

    async def accept(self, presented: Presented, scope: Scope, receive: Receive) -> tuple[Ticket, Receive]:
        """The ticket is marked as used; the channel begins with the request's body."""
        if scope["path"] not in _SERVED or scope["method"] != "POST":
            raise Refused(GateRefusal.PATH)
        body = await self._body(presented, scope, receive)
        return presented.ticket, replay(body, receive)

    async def order(self, scope: Scope, receive: Receive) -> bytes:
        try:
            presented = self.presented(scope)
        except Refused as refused:
            raise Refused(GateRefusal.TICKET) from refused
        if presented.ticket.tenant != PLATFORM or scope["method"] != "POST":
            raise Refused(GateRefusal.TICKET)
        return await self._body(presented, scope, receive)

    async def _body(self, presented: Presented, scope: Scope, receive: Receive) -> bytes:
        try:
            body = await body_of(receive, _MAX_BODY_BYTES)
            self._tickets.accept(presented, scope["path"], body)
        except (BodyTooLarge, Unauthenticated) as error:
            raise Refused(GateRefusal.TICKET) from error
        return body
