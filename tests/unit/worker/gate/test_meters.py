"""The meters of a gate's requests, by name and time."""

import asyncio

from penstock.domain.ids import RequestId
from penstock.worker.gate.meters import MOST_ENDED, Meters
from penstock.worker.gate.queueing.constants import MINUTE_S

A, B = RequestId("a"), RequestId("b")


async def test_who_ended_is_known_for_a_minute() -> None:
    """A request's counts can be asked for after its end, and are forgotten in time."""
    meters = Meters()
    meter = meters.open(A)
    meter.made(3)
    meters.close(A, meter, 0.0)
    meters.close(B, meters.open(B), MINUTE_S - 1)
    assert (await meters.used([A]))[A].output_tokens == 3
    meters.close(RequestId("c"), meters.open(RequestId("c")), MINUTE_S + 1)
    assert set(await meters.used([A, B])) == {B}


async def test_so_many_are_remembered_at_most() -> None:
    """A flood of short requests can't fill the engine's memory."""
    meters = Meters()
    for number in range(MOST_ENDED + 10):
        name = RequestId(str(number))
        meters.close(name, meters.open(name), 0.0)
    assert len(meters) == MOST_ENDED


async def test_a_running_request_is_not_forgotten_with_its_namesake() -> None:
    """A request that comes again takes the name; the old one's minute says nothing of it."""
    meters = Meters()
    meters.close(A, meters.open(A), 0.0)
    again = meters.open(A)
    again.made(2)
    meters.close(B, meters.open(B), MINUTE_S + 1)
    assert (await meters.used([A]))[A].output_tokens == 2


async def test_an_end_is_waited_for() -> None:
    """Whoever asks for a request that is just ending gets its last word."""
    meters = Meters()
    meter = meters.open(A)
    asking = asyncio.create_task(meters.used([A], 5.0))
    await asyncio.sleep(0)
    meter.made(7)
    meters.close(A, meter, 0.0)
    used = (await asking)[A]
    assert (used.output_tokens, used.is_final) == (7, True)
    assert meters._awaited == {}


async def test_what_does_not_end_is_told_as_it_is() -> None:
    """The wait is bounded, leaves nothing behind, and an unfinished count says that it is one."""
    meters = Meters()
    meter = meters.open(A)
    used = (await meters.used([A], 0.001))[A]
    assert not used.is_final
    meters.close(A, meter, 0.0)
    assert meters._awaited == {}


async def test_who_left_before_its_request_came_is_waited_for_a_moment() -> None:
    """A caller may be gone before its request is here: the question overtakes it, and is answered all the same."""
    meters = Meters()
    asking = asyncio.create_task(meters.used([A], 5.0))
    await asyncio.sleep(0)
    meter = meters.open(A)
    meter.prompt(9)
    meters.close(A, meter, 0.0)
    assert (await asking)[A].prompt_tokens == 9
    assert (meters._expected, meters._awaited) == ({}, {})


async def test_who_never_came_is_left_out() -> None:
    """Nothing is told of a request that was never here."""
    meters = Meters()
    assert await meters.used([A], 0.001) == {}
    assert meters._expected == {}
