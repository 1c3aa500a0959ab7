"""A request's share of its engine: who of its prompts comes in, in which order, and that every wait ends."""

import asyncio
from collections.abc import Coroutine

import pytest

from penstock.worker.meter import Meter
from penstock.worker.share import Share


async def begun(waiting: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Return the task once it is in or waits."""
    task = asyncio.create_task(waiting)
    await asyncio.sleep(0)
    return task


async def settled() -> None:
    """Let everybody go on who may."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_first_come_first_served() -> None:
    """As many as fit are in, and each that is through lets the next one in; nobody small passes who came first."""
    share = Share(4)
    tasks = [await begun(share.take(sequences)) for sequences in (2, 2, 2, 1)]
    assert [task.done() for task in tasks] == [True, True, False, False]
    share.give(1)
    await settled()
    assert not tasks[3].done()
    share.give(1)
    await settled()
    assert [task.done() for task in tasks] == [True, True, True, False]


async def test_a_prompt_with_more_choices_than_the_share_goes_in_alone() -> None:
    """Nothing waits for ever for room that there will never be."""
    share = Share(2)
    await share.take(1)
    large = await begun(share.take(5))
    assert not large.done()
    share.give(1)
    await large
    small = await begun(share.take(1))
    assert not small.done()
    share.give(5)
    await small


async def test_who_is_cancelled_while_it_waits_holds_nothing() -> None:
    """It is passed over, and what did not fit behind it comes in at once where it fits."""
    share = Share(3)
    await share.take(2)
    large, small = await begun(share.take(3)), await begun(share.take(1))
    large.cancel()
    await settled()
    assert large.cancelled()
    assert small.done()


async def test_who_is_cancelled_as_it_is_let_in_gives_its_room_back() -> None:
    """The room of a prompt that is let in and leaves in the same moment is the next one's."""
    share = Share(1)
    await share.take(1)
    leaving, following = await begun(share.take(1)), await begun(share.take(1))
    share.give(1)
    leaving.cancel()
    await settled()
    assert leaving.cancelled()
    assert following.done()


async def test_nothing_comes_in_after_the_end() -> None:
    """A request that is over adds nothing: neither what waits, nor what was just let in, nor what comes."""
    meter = Meter()
    meter.share = share = Share(1)
    await share.take(1)
    let_in, waiting = await begun(share.take(1)), await begun(share.take(1))
    share.give(1)
    meter.close()
    await settled()
    assert let_in.cancelled()
    assert waiting.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await share.take(1)
