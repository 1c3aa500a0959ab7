"""Bound on each list's concurrent items: two full batches while no other tenant is present, else the list's own share.

A list's share (``meter.share``) protects other tenants; without any it would leave batches partly empty. Items already
running when another tenant arrives fit the queue's slots and end within two batches; until then the list adds none.
Slots, charges and weights in the queue are unchanged.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.share import Share


class Sharing:
    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: Counter[TenantId] = Counter()
        self._lists: list[Share] = []

    @contextmanager
    def of(self, tenant: TenantId, share: Share | None) -> Iterator[None]:
        """The platform's own requests do not count as other tenants. The platform's own requests do not count as
        neighbours.
        """
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
        is_alone = len(self._tenants) == 1
        for share in self._lists:
            share.widen(self._most // len(self._lists) if is_alone else 0)
