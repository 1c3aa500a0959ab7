"""Retention: the bytes of what was deleted or has expired go first, then its rows; what has no owner goes, too.

Each step may be repeated, cut off anywhere, and run by several runners at once. Objects of an unknown kind of owner
stay: a newer release may have written them.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import Expired, PayloadStore, owner_of

GROUP = 500
"""Owners of one round: their deletion takes some seconds of S3."""
EVERY_S = 60.0
"""Seconds between two rounds: bytes are gone within the hour, though a store is away for most of it."""
SWEEP_EVERY_S = 600.0
ORPHAN_S = 2700.0
"""Seconds after which an object without an owner, or an unfinished one, is an orphan: the longest upload is 27 min."""


class Expiring(Protocol):
    """The rows that own objects of one kind."""

    kind: str

    async def expired(self, now: float, limit: int) -> Sequence[Expired]:
        """Return owners that were deleted or have expired by now, with all their objects."""
        ...

    async def forget(self, owners: Sequence[str], now: float) -> None:
        """Drop what these owners' rows said of objects, or the rows: their bytes are gone."""
        ...

    async def known(self, owners: Sequence[str]) -> frozenset[str]:
        """Return those of the owners that have a row."""
        ...


class Retention:
    name = "retention"
    every_s = EVERY_S

    def __init__(self, payloads: PayloadStore, owners: Sequence[Expiring]) -> None:
        self._payloads, self._owners = payloads, {one.kind: one for one in owners}
        self._swept_at = 0.0

    async def step(self, now: float) -> None:
        """Raises the last error of a store, after everything else was tried."""
        failed: PenstockError | None = None
        for owner in self._owners.values():
            failed = await self._expire(owner, now) or failed
        if now - self._swept_at >= SWEEP_EVERY_S:
            await self._payloads.sweep(now - ORPHAN_S)
            await self._drop_orphans(now - ORPHAN_S)
            self._swept_at = now
        if failed is not None:
            raise failed

    async def _expire(self, owner: Expiring, now: float) -> PenstockError | None:
        while found := await owner.expired(now, GROUP):
            gone: list[str] = []
            failed: PenstockError | None = None
            for one in found:
                if (error := await self._delete(one.objects)) is None:
                    gone.append(one.owner)
                failed = error or failed
            await owner.forget(gone, now)
            if failed is not None or len(found) < GROUP:
                return failed
        return None

    async def _delete(self, objects: Sequence[ObjectId]) -> PenstockError | None:
        try:
            for one in objects:
                await self._payloads.delete(one)
        except PenstockError as error:
            return error
        return None

    async def _drop_orphans(self, before: float) -> None:
        async for group in self._payloads.names(before):
            by_kind: dict[str, dict[str, list[ObjectId]]] = defaultdict(lambda: defaultdict(list))
            for name in group:
                kind, owner = owner_of(name)
                by_kind[kind][owner].append(name)
            for kind, objects in by_kind.items():
                if kind in self._owners:
                    known = await self._owners[kind].known(list(objects))
                    orphans = [name for owner, names in objects.items() if owner not in known for name in names]
                    for name in orphans:
                        await self._payloads.delete(name)
