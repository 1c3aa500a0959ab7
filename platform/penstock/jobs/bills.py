"""Ledger rows of jobs: kept back from the spool, since they are stored in the transaction that ends the attempt.

A row that were delivered apart could bill an answer that its tenant never got, or be lost with this machine's disk.
"""

import asyncio

from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import LedgerRow, Opening, close
from penstock.domain.tokens import Usage
from penstock.gateway.admission.reservations import Journal
from penstock.lateness.awake import timeout

WITHIN_S = 15.0
"""Seconds in which a request's worker is asked for its usage, after the answer."""


class Bills:
    """A ``Journal`` before the spool; ``expect`` a request before it is asked."""

    def __init__(self, spool: Journal) -> None:
        self._spool = spool
        self._opened: dict[RequestId, asyncio.Future[LedgerRow] | None] = {}
        self._openings: dict[RequestId, Opening] = {}

    def expect(self, request: RequestId) -> None:
        self._opened[request] = None

    async def row(self, request: RequestId) -> LedgerRow | None:
        """Return the ended request's row; None if it was not admitted. It is expected no longer."""
        coming = self._opened.get(request)
        try:
            if coming is None:
                return None
            async with timeout(WITHIN_S):
                return await coming
        except TimeoutError:
            return None
        finally:
            del self._opened[request]
            self._openings.pop(request, None)

    def so_far(self, request: RequestId, output_tokens: int, now: float) -> LedgerRow | None:
        """Return the row of a running attempt if it were lost now; None before its admission."""
        opening = self._openings.get(request)
        if opening is None:
            return None
        prompt_tokens = opening.prompt_tokens if output_tokens else 0
        usage = Usage(prompt_tokens=prompt_tokens, output_tokens=output_tokens, exact=False)
        return close(opening, Outcome.INTERNAL, usage, gpu_s=0.0, now=now)

    def opened(self, opening: Opening) -> None:
        if opening.request not in self._opened:
            self._spool.opened(opening)
            return
        self._openings[opening.request] = opening
        if self._opened[opening.request] is None:
            self._opened[opening.request] = asyncio.get_running_loop().create_future()

    def delivered(self, request: RequestId, tokens: int) -> None:
        if request not in self._opened:
            self._spool.delivered(request, tokens)

    def closed(self, row: LedgerRow) -> None:
        coming = self._opened.get(row.request)
        if row.request not in self._opened or coming is None:
            self._spool.closed(row)
        elif not coming.done():
            coming.set_result(row)
