"""The shipped safety packs of a new platform; a later release never changes a pack that a platform has."""

from typing import Protocol

from penstock.control.registry.operators import PLATFORM
from penstock.domain.tenancy.audit import Act
from penstock.filters import shipped
from penstock.filters.book import StoredPack
from penstock.filters.pack import Pack


class Packs(Protocol):
    async def packs(self) -> tuple[StoredPack, ...]: ...

    async def push(self, pack: Pack, act: Act) -> None: ...


async def seed(store: Packs, now: float) -> None:
    known = {one.pack.id for one in await store.packs()}
    for name in shipped.NAMES:
        if name not in known:
            await store.push(shipped.pack(name), Act(who=PLATFORM, what="safety.push", target=name, at=now))
