"""Pages of metrics are watched for a while without a Prometheus."""

import asyncio

import pytest

from penstock.connectors.prometheus.window import watch
from penstock.domain.command_error import CommandError
from penstock.telemetry import pages
from tests.support.clock import ManualClock


async def test_pages_are_read_at_the_begin_and_the_end(clock: ManualClock) -> None:
    """A watch reads now, each second, and when its time is over; in between it sleeps."""

    async def page() -> tuple[int, str, bytes]:
        return 200, "text/plain", b"x_total %d\n" % clock.monotonic()

    server = await pages.serve("127.0.0.1", 0, {pages.METRICS: page})
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{pages.METRICS}"
    async with server:
        window = await asyncio.to_thread(watch, lambda: [url], clock, 2.5, clock.advance)
    assert window.seconds == 2.5
    assert [one.value for one in window.increases("x_total")] == [2.0]


def test_without_pages_there_is_nothing_to_watch(clock: ManualClock) -> None:
    """A home in which nothing runs is told so, with the ways on."""
    with pytest.raises(CommandError) as told:
        watch(list, clock, 1.0, clock.advance)
    assert "penstock up" in told.value.do
