"""Where measurements are found: the Prometheus that was named, the home's own, or the pages of its processes."""

from pathlib import Path

import pytest

from penstock.apps import observed
from penstock.apps.settings import Settings
from penstock.domain.command_error import CommandError
from penstock.telemetry import pages
from tests.support.clock import ManualClock


def test_the_nearest_word_names_the_prometheus(tmp_path: Path) -> None:
    """What is said at the command goes before the setting, and that before what the home runs."""
    home = Settings(home=tmp_path)
    assert observed.prometheus(home) is None
    home.paths.run.mkdir()
    home.paths.prometheus_address.write_text("http://home:9090\n")
    told = Settings(home=tmp_path, prometheus_url="http://set:9090")
    found = [
        observed.prometheus(settings, given) for settings, given in ((home, ""), (told, ""), (told, "http://said:9"))
    ]
    assert [one.url for one in found if one] == ["http://home:9090", "http://set:9090", "http://said:9"]


async def test_pages_are_read_at_the_begin_and_the_end(clock: ManualClock) -> None:
    """A watch reads now, each second, and when its time is over; in between it sleeps."""

    async def page() -> tuple[int, str, bytes]:
        return 200, "text/plain", b"x_total %d\n" % clock.monotonic()

    server = await pages.serve("127.0.0.1", 0, {pages.METRICS: page})
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{pages.METRICS}"
    import asyncio

    async with server:
        window = await asyncio.to_thread(observed.watch, lambda: [url], clock, 2.5, clock.advance)
    assert window.seconds == 2.5
    assert [one.value for one in window.increases("x_total")] == [2.0]


def test_without_pages_there_is_nothing_to_watch(clock: ManualClock) -> None:
    """A home in which nothing runs is told so, with the ways on."""
    with pytest.raises(CommandError) as told:
        observed.watch(list, clock, 1.0, clock.advance)
    assert "penstock up" in told.value.do
