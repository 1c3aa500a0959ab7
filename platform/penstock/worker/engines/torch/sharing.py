"""How much of each list is under way at once: two full batches while its tenant is alone here, else its own share.

A list's share (``meter.share``) is made for neighbours; where there are none it would only leave batches empty. What is
under way when somebody comes is at most what the queue's slots could hold anyway, and is through within two batches;
until then the list adds nothing. The queue knows nothing of this: slots, charges and weights are as they were.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.share import Share


class Sharing:
    """Of one engine and its event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: Counter[TenantId] = Counter()
        self._lists: list[Share] = []

    @contextmanager
    def of(self, tenant: TenantId, share: Share | None) -> Iterator[None]:
        """Have a request here. The platform's own are nobody's neighbours."""
        if tenant == PLATFORM:
            yield
            return
        self._tenants[tenant] += 1
        if share is not None:
            self._lists.append(share)
        self._look()
        try:
            yield
        finally:
            self._tenants -= Counter([tenant])
            if share is not None:
                self._lists.remove(share)
            self._look()

    def _look(self) -> None:
        """Let the lists of a tenant that is alone have the room between them."""
        is_alone = len(self._tenants) == 1
        for share in self._lists:
            share.widen(self._most // len(self._lists) if is_alone else 0)
