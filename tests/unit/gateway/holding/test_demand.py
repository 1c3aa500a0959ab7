"""What a gateway wants awake: told at once, each second while it is wanted, and refused where nobody can hear it."""

import asyncio
from contextlib import suppress

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.gateway.holding import WakeDemand
from penstock.gateway.holding import demand as telling
from penstock.gateway.holding.demand import Want
from tests.support.gateways.dispatch import until
from tests.twins.wanted import MemoryWanted

A, B = VersionId("a@1"), VersionId("b@1")


class Ears:
    """Hears, or is away."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.heard: list[tuple[VersionId, int, int]] = []
        self.is_away = is_away

    async def tell(self, version: VersionId, requests: int, tokens: int) -> None:
        if self.is_away:
            raise StoreUnavailable
        self.heard.append((version, requests, tokens))


async def test_it_is_told_at_once_and_again_while_it_is_held() -> None:
    """The first of them does not wait for the second to pass; what is held no more is told no more."""
    held, ears = {A: Want(2, 70)}, Ears()
    demand = WakeDemand(held=lambda: held)
    running = asyncio.create_task(demand.run(ears))
    demand.begin(A)
    await until(lambda: bool(ears.heard), within_s=telling.EVERY_S / 2)
    demand.begin(A)
    await until(lambda: len(ears.heard) == 2)
    held.clear()
    await asyncio.sleep(1.2 * telling.EVERY_S)
    assert ears.heard == [(A, 2, 70), (A, 2, 70)]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_who_is_not_held_is_wanted_too() -> None:
    """Requests that another version answers, or whose time is too short, are told once, added up."""
    ears, demand = Ears(), WakeDemand()
    demand.note(B, 10)
    demand.note(B, 20)
    for _ in range(2):
        await demand.tell(ears)
    assert ears.heard == [(B, 2, 30)]


async def test_where_nobody_hears_it_those_that_wait_are_told() -> None:
    """A database that is away is noticed with the first telling, and told anew as soon as there is one again."""
    told: list[str] = []
    demand = WakeDemand(held=lambda: {A: Want(1, 7)}, away=lambda: told.append("away"))
    ears = Ears(is_away=True)
    await demand.tell(ears)
    assert told == ["away"]
    ears.is_away = False
    await demand.tell(ears)
    assert (told, ears.heard) == (["away"], [(A, 1, 7)])


async def test_a_way_that_never_answers_is_away() -> None:
    """A frozen database is given a little time, and no more."""

    class Frozen(Ears):
        async def tell(self, version: VersionId, requests: int, tokens: int) -> None:
            await asyncio.Event().wait()

    told: list[str] = []
    demand = WakeDemand(held=lambda: {A: Want(1, 7)}, away=lambda: told.append("away"))
    await demand.tell(Frozen())
    assert told == ["away"]


async def test_the_memory_twin_carries_it() -> None:
    """In one process the controller's side hears what a gateway tells."""
    memory, heard = MemoryWanted(), list[object]()
    listening = asyncio.create_task(memory.run(heard.append))
    await asyncio.sleep(0)
    await WakeDemand(held=lambda: {A: Want(1, 7)}).tell(memory)
    assert len(heard) == 1
    listening.cancel()
