"""Batches as callers make them: windows and bounds of their plans, keys that make a batch once."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict
from penstock.domain.ids import Alias, TenantId
from penstock.domain.jobs.batch import Batch, window_s, windows
from penstock.domain.jobs.errors import WindowNotOffered
from penstock.domain.jobs.file import MOST_KEPT_S
from penstock.domain.jobs.ids import BatchId, ObjectId
from penstock.domain.jobs.job import Reason
from penstock.domain.tenancy.tenant import Plan, Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.batches import NewBatch
from penstock.gateway.deferred.shapes import Paged
from penstock.jobs import hours
from penstock.jobs.principal import check_model

_ENCODER = msgspec.json.Encoder(order="deterministic")
_ROUTE = "batches"


class BatchRecords(Protocol):
    """The store; batches and files of other tenants raise ``UnknownObject``."""

    async def keyed(self, tenant: TenantId, idempotency: str, fingerprint: str) -> Batch | None: ...

    async def create(self, batch: Batch, idempotency: str, fingerprint: str, kept_bytes: int) -> Batch | None: ...

    async def find(self, tenant: TenantId, batch: BatchId) -> Batch: ...

    async def page(
        self, tenant: TenantId, *, after: BatchId, limit: int, is_oldest_first: bool
    ) -> tuple[Batch, ...] | None: ...

    async def cancel(self, tenant: TenantId, batch: BatchId, now: float) -> Batch: ...

    async def pause(self, tenant: TenantId, batch: BatchId, now: float) -> Batch: ...

    async def resume(self, tenant: TenantId, batch: BatchId) -> Batch: ...

    async def waiting(self, which: Collection[BatchId], now: float) -> Mapping[BatchId, Reason]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIntake:
    """Implements the routes' ``Batches``; ``ids`` gives hex digits that are used once."""

    store: BatchRecords
    workers: hours.Workers
    clock: Clock
    ids: Callable[[], str]

    async def create(self, who: Principal, wish: NewBatch) -> tuple[Batch, bool]:
        print_of_wish = hashlib.sha256(_ENCODER.encode(wish)).hexdigest()
        key = _key(wish.idempotency_key)
        if key and (earlier := await self.store.keyed(who.tenant, key, print_of_wish)) is not None:
            return _usable(who, earlier), True
        batch = await self.store.create(self._batch(who, wish), key, print_of_wish, who.plan.file_bytes)
        if batch is not None:
            return batch, False
        earlier = await self.store.keyed(who.tenant, key, print_of_wish)
        if earlier is None:
            raise Conflict("another request under this idempotency key was undone: send it again")
        return _usable(who, earlier), True

    async def find(self, who: Principal, batch: BatchId) -> Batch:
        return await self._seen(who, await self.store.find(who.tenant, batch))

    async def page(self, who: Principal, page: Paged) -> tuple[Sequence[Batch], bool]:
        found = await self.store.page(
            who.tenant, after=BatchId(page.after), limit=page.limit + 1, is_oldest_first=page.is_oldest_first
        )
        if found is None:
            raise shapes.unlisted()
        return await self._all_seen(who, found[: page.limit]), len(found) > page.limit

    async def cancel(self, who: Principal, batch: BatchId) -> Batch:
        return await self.store.cancel(who.tenant, batch, self.clock.now())

    async def pause(self, who: Principal, batch: BatchId) -> Batch:
        return await self._seen(who, await self.store.pause(who.tenant, batch, self.clock.now()))

    async def resume(self, who: Principal, batch: BatchId) -> Batch:
        return await self._seen(who, await self.store.resume(who.tenant, batch))

    async def _seen(self, who: Principal, batch: Batch) -> Batch:
        (seen,) = await self._all_seen(who, [batch])
        return seen

    async def _all_seen(self, who: Principal, found: Sequence[Batch]) -> tuple[Batch, ...]:
        """Return the batches with the reasons why those that have not ended wait."""
        now, running = self.clock.now(), [one.id for one in found if one.state.is_pausable]
        reasons = await self.store.waiting(running, now) if running else {}
        seen = {
            one.id: hours.seen(reasons[one.id], who.plan, now, one.versions.values(), self.workers)
            for one in found
            if one.id in reasons
        }
        return tuple([replace(one, reason=seen.get(one.id, Reason.NONE)) for one in found])

    def _batch(self, who: Principal, wish: NewBatch) -> Batch:
        now = self.clock.now()
        return Batch(
            id=BatchId(f"batch_{self.ids()}"),
            tenant=who.tenant,
            key=who.key,
            endpoint=wish.endpoint,
            input_file=wish.input_file,
            input_object=ObjectId(""),
            window=wish.window,
            created_at=now,
            deadline_at=now + min(_window_s(who.plan, wish.window), who.plan.job_deadline_s),
            metadata=wish.metadata,
            output_keep_s=min(wish.output_keep_s or MOST_KEPT_S, who.plan.keep_files_s or who.plan.keep_s),
        )


def _usable(who: Principal, batch: Batch) -> Batch:
    """Return a batch that this key could have made; raises ``UnknownModel``."""
    for model, version in batch.versions.items():
        check_model(who, Alias(model), version)
    return batch


def _window_s(plan: Plan, window: str) -> float:
    offered = windows(plan)
    if window not in offered:
        raise WindowNotOffered(f"this tenant's plan offers {' or '.join(offered)}", param="completion_window")
    return window_s(window)


def _key(given: str) -> str:
    """Return the key as it is stored: the caller's own text stays out of the database."""
    return hashlib.sha256(f"{_ROUTE}\x1f{given}".encode()).hexdigest() if given else ""
