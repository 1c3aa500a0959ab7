"""The keys that sign tickets: one per worker, also while the platform's key is rotated.

A worker keeps its secret as long as it runs, so a worker started before a rotation has the old key's; its heartbeats
carry its key's mark.
"""

from collections.abc import Mapping
from functools import lru_cache

from penstock.domain.fleet.table import RoutingTable
from penstock.domain.ids import WorkerId
from penstock.domain.tenancy.keys import key_mark, worker_secret

AT_HAND = 1 << 14


class TicketKeys:
    def __init__(self, platform_keys: tuple[bytes, ...]) -> None:
        self._platform_keys = platform_keys
        self._marks: Mapping[WorkerId, str] = {}
        self._cached = lru_cache(maxsize=AT_HAND)(self._key)

    def __call__(self, worker: WorkerId) -> bytes:
        return self._cached(worker, self._marks.get(worker, ""))

    @property
    def platform(self) -> tuple[bytes, ...]:
        return self._platform_keys

    @property
    def is_changing(self) -> bool:
        return len(self._platform_keys) > 1

    def exchange(self, platform_keys: tuple[bytes, ...]) -> None:
        self._platform_keys = platform_keys
        self._cached.cache_clear()

    def learn_from(self, table: RoutingTable) -> None:
        if self.is_changing:
            self.learn({worker.id: worker.key_mark for one in table.versions if not one.base for worker in one.workers})

    def learn(self, marks: Mapping[WorkerId, str]) -> None:
        self._marks = marks

    def _key(self, worker: WorkerId, mark: str) -> bytes:
        found = [worker_secret(key, worker) for key in self._platform_keys]
        return next((one for one in found if mark and key_mark(one) == mark), found[0])
