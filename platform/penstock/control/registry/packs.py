"""The shipped safety packs of a new platform, and the end of old interventions. A later release never changes a pack
that a platform has.
"""

import asyncio
from contextlib import suppress
from typing import Protocol

from penstock.control.registry.operators import PLATFORM
from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.tenancy.audit import Act
from penstock.filters import shipped
from penstock.filters.book import StoredPack
from penstock.filters.pack import Pack

KEEP_S = 90 * 86_400.0
"""Interventions are kept for a quarter: a thousand a second are 86 million rows a day, an attack is rarely as long."""
EVERY_S = 3600.0


class Packs(Protocol):
    async def packs(self) -> tuple[StoredPack, ...]: ...

    async def push(self, pack: Pack, act: Act) -> None: ...

    async def forget(self, before: float) -> None: ...


async def seed(store: Packs, now: float) -> None:
    known = {one.pack.id for one in await store.packs()}
    for name in shipped.NAMES:
        if name not in known:
            await store.push(shipped.pack(name), Act(who=PLATFORM, what="safety.push", target=name, at=now))


async def forget_old(store: Packs, clock: Clock) -> None:
    while True:
        with suppress(StoreUnavailable):
            await store.forget(clock.now() - KEEP_S)
        await asyncio.sleep(EVERY_S)
