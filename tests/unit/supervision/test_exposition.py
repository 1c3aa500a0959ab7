"""Metrics have a listener of their own."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx

from penstock.local import services
from penstock.settings import Settings
from penstock.supervision import exposition

WITHIN_S = 10.0


async def address(settings: Settings) -> str:
    """Wait until metrics are served, and return where."""
    async with asyncio.timeout(WITHIN_S):
        while not (url := exposition.address(settings.paths.run, os.getpid())):  # noqa: ASYNC110  a file has no events
            await asyncio.sleep(0.01)
    return url


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[str]:
    """Serve one line, and yield where."""
    task = asyncio.create_task(exposition.serve(settings.metrics_address, settings.paths.run, lambda: b"up 1\n"))
    try:
        yield await address(settings)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_metrics_are_served_on_loopback_and_nothing_else_is(tmp_path: Path) -> None:
    """Finding 8: without a setting the listener is on loopback, a file says where, and it goes with the process."""
    settings = Settings(home=tmp_path)
    async with served(settings) as url, httpx.AsyncClient(trust_env=False) as http:
        assert url.startswith("http://127.0.0.1:")
        assert (await http.get(url)).text == "up 1\n"
        assert (await http.get(url.removesuffix("metrics") + "admin/v1/keys")).status_code == 404
    assert exposition.address(settings.paths.run, os.getpid()) == ""


async def test_a_successor_waits_for_its_port(tmp_path: Path) -> None:
    """A process that is started beside its predecessor takes the port when that one lets it go."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(home=tmp_path, metrics_port=taken.getsockname()[1])
        task = asyncio.create_task(exposition.serve(settings.metrics_address, settings.paths.run, lambda: b"up 1\n"))
        await asyncio.sleep(0)
        assert exposition.address(settings.paths.run, os.getpid()) == ""
    assert await address(settings)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_each_process_has_a_port_of_its_own(tmp_path: Path) -> None:
    """With a fixed port gateways count up from it, the controller follows, and gateways that are added later; with 0
    each takes a free one.
    """
    for port, expected in ((9464, ["9464", "9465", "9467", "9466"]), (0, ["0", "0", "0", "0"])):
        settings = Settings(home=tmp_path, gateways=2, metrics_port=port)
        gateways = [services.gateway(settings, number, 3, most=4) for number in (1, 2, 3)]
        commands = [*gateways, services.controller(settings)]
        assert [(one.environment or {})["PENSTOCK_METRICS_PORT"] for one in commands] == expected
        assert {one.environment["PENSTOCK_GATEWAYS"] for one in gateways} == {"4"}, "each gives its part of limits"


async def test_the_pages_of_a_home_are_those_of_its_living_processes(tmp_path: Path) -> None:
    """Whoever lives and shows its metrics is listed; a file that a killed process left behind is not."""
    settings = Settings(home=tmp_path)
    assert exposition.addresses(settings.paths.run) == []
    async with served(settings) as url:
        exposition.address_file(settings.paths.run, 2**22 + 1).write_text("http://127.0.0.1:1/metrics")
        assert exposition.addresses(settings.paths.run) == [url]
    exposition.show(settings.paths.run, "http://127.0.0.1:2")
    assert exposition.addresses(settings.paths.run) == ["http://127.0.0.1:2/metrics"]
    exposition.hide(settings.paths.run)
    assert exposition.addresses(settings.paths.run) == []
