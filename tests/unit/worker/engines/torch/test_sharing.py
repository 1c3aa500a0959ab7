"""How much of a list is under way at once: all the room while its tenant is alone, its share beside others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.engines.torch.service import Sharing
from penstock.worker.share import Share

ROOM, SHARE, ITEMS = 16, 2, 64
ANN, BOB = TenantId("ann"), TenantId("bob")


class List:
    """A list whose items come in as they may, and leave when told to."""

    def __init__(self) -> None:
        self.share, self.came, self.gone = Share(SHARE), 0, 0

    @property
    def inside(self) -> int:
        return self.came - self.gone

    async def comes(self) -> None:
        for _ in range(ITEMS):
            await self.share.take(1)
            self.came += 1

    async def lets_go(self, items: int) -> None:
        for _ in range(items):
            self.gone += 1
            self.share.give(1)
        await settled()


async def settled() -> None:
    for _ in range(2 * ROOM):
        await asyncio.sleep(0)


@asynccontextmanager
async def here(sharing: Sharing, tenant: TenantId) -> AsyncIterator[List]:
    """Have a list of this tenant under way."""
    one = List()
    with sharing.of(tenant, one.share):
        coming = asyncio.create_task(one.comes())
        await settled()
        yield one
        coming.cancel()


async def test_a_list_alone_has_all_the_room() -> None:
    """Two full batches of it are under way, and no more."""
    sharing = Sharing(ROOM)
    async with here(sharing, ANN) as own:
        assert own.inside == ROOM
        await own.lets_go(5)
        assert own.inside == ROOM


@pytest.mark.parametrize("is_list", [True, False])
async def test_beside_another_tenant_it_has_its_share(*, is_list: bool) -> None:
    """It adds nothing until it is within its share again, and has all the room when the other has left."""
    sharing = Sharing(ROOM)
    async with here(sharing, ANN) as own:
        with sharing.of(BOB, Share(SHARE) if is_list else None):
            await own.lets_go(ROOM - SHARE)
            assert own.inside == SHARE
            await own.lets_go(1)
            assert own.inside == SHARE
        await settled()
        assert own.inside == ROOM


async def test_lists_of_one_tenant_have_the_room_between_them() -> None:
    """Several of them fill batches together, and none has less than its share."""
    sharing = Sharing(ROOM)
    async with here(sharing, ANN) as first, here(sharing, ANN) as second:
        assert second.inside == ROOM // 2
        await first.lets_go(ROOM)
        assert first.inside == ROOM // 2


async def test_the_platforms_probes_are_nobodys_neighbours() -> None:
    """A probe takes no room from a list that is alone."""
    sharing = Sharing(ROOM)
    with sharing.of(PLATFORM, None):
        async with here(sharing, ANN) as own, here(Sharing(ROOM), BOB):
            assert own.inside == ROOM
