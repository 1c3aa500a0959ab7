"""What tests of the operators' API share: a controller in memory, and an operator of it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room


@pytest.fixture
def room(clock: ManualClock) -> Room:
    """Return a controller in memory."""
    return Room(clock)


@pytest.fixture
async def operator(room: Room) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client with an admin key."""
    async with room.client(await room.key(Role.ADMIN)) as client:
        yield client
