"""Serves metrics and probes on a separate listener, and writes its address to a file in the home.

The listener is separate since callers of models must not read other tenants' figures. A process with a port given by
the user refuses to start if another program has the port, since probes would reach that program.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.supervision.files import read_if_there, write_private
from penstock.supervision.listening import check_free, url_of
from penstock.telemetry import logs, pages
from penstock.telemetry.metrics import CONTENT_TYPE, OPENMETRICS_TYPE
from penstock.telemetry.pages import Page

Exposition = Callable[[], bytes]
Address = tuple[str, int]
"""Host and port of the private listener; port 0 takes a free one."""
AGAIN_S = 0.5
FOLDER = "metrics"


def address_file(run: Path, pid: int) -> Path:
    return run / FOLDER / str(pid)


def address(run: Path, pid: int) -> str:
    return read_if_there(address_file(run, pid))


def addresses(run: Path) -> list[str]:
    pids = sorted(int(file.name) for file in (run / FOLDER).glob("[0-9]*"))
    return [found for pid in pids if Path(f"/proc/{pid}").exists() and (found := address(run, pid))]


def show(run: Path, url: str) -> None:
    write_private(address_file(run, os.getpid()), f"{url}{pages.METRICS}")


def hide(run: Path) -> None:
    address_file(run, os.getpid()).unlink(missing_ok=True)


def check_port(address: Address) -> None:
    """Raise ``CommandError`` if another program has the port that the user named."""
    check_free(*address, "PENSTOCK_METRICS_PORT", "PENSTOCK_METRICS_HOST")


async def serve(address: Address, run: Path, exposition: Exposition, probes: Mapping[str, Page] | None = None) -> None:
    server = await _when_free(address, exposition, probes or {})
    url = url_of(address[0], server.sockets[0].getsockname()[1])
    show(run, url)
    logs.logger().info("metrics_served", url=url)
    try:
        async with server:
            await server.serve_forever()
    finally:
        hide(run)


def openmetrics(expose: Exposition) -> Page:
    async def page() -> tuple[int, str, bytes]:
        return 200, OPENMETRICS_TYPE, expose()

    return page


async def _when_free(address: Address, exposition: Exposition, probes: Mapping[str, Page]) -> asyncio.Server:
    async def page() -> tuple[int, str, bytes]:
        return 200, CONTENT_TYPE, exposition()

    is_told = False
    while True:
        try:
            return await pages.serve(*address, {**probes, pages.METRICS: page})
        except OSError as error:
            if not is_told:
                logs.logger().warning("metrics_not_served", reason=errno.errorcode.get(error.errno or 0, str(error)))
            is_told = True
            await asyncio.sleep(AGAIN_S)
