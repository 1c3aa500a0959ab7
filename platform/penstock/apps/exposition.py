"""Metrics and probes on a listener of their own: whoever may ask a model has no business with others' numbers.

A supervised process that follows another waits until that one lets the port go; one that was told its port ends where
somebody has it, for whoever looks there would take another's answers for its own.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from penstock.apps.settings import MetricsSettings, TenantNames
from penstock.domain.tenancy.keys import Purpose, derive, tenant_label
from penstock.supervision.files import write_private
from penstock.supervision.listening import check_free, url_of
from penstock.telemetry import logs, pages
from penstock.telemetry.metrics import CONTENT_TYPE, OPENMETRICS_TYPE
from penstock.telemetry.pages import Page
from penstock.telemetry.tenants import OTHER, TenantLabels

Exposition = Callable[[], bytes]
AGAIN_S = 0.5
FOLDER = "metrics"


def address_file(run: Path, pid: int) -> Path:
    """Return the file that says where a process shows its metrics."""
    return run / FOLDER / str(pid)


def address(run: Path, pid: int) -> str:
    """Return where a process shows its metrics, empty where it doesn't."""
    try:
        return address_file(run, pid).read_text().strip()
    except OSError:
        return ""


def addresses(run: Path) -> list[str]:
    """Return where the living processes of a home show their metrics."""
    pids = sorted(int(file.name) for file in (run / FOLDER).glob("[0-9]*"))
    return [found for pid in pids if Path(f"/proc/{pid}").exists() and (found := address(run, pid))]


def show(run: Path, url: str) -> None:
    """Leave a file that says where this process shows its metrics."""
    file = address_file(run, os.getpid())
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, f"{url}{pages.METRICS}")


def hide(run: Path) -> None:
    """Take the file away."""
    address_file(run, os.getpid()).unlink(missing_ok=True)


def check_port(settings: MetricsSettings) -> None:
    """Raise ``CommandError`` where a port that was named can't be had."""
    check_free(settings.metrics_host, settings.metrics_port, "PENSTOCK_METRICS_PORT", "PENSTOCK_METRICS_HOST")


async def serve(settings: MetricsSettings, exposition: Exposition, probes: Mapping[str, Page] | None = None) -> None:
    """Serve ``/metrics`` and these pages until cancelled, and leave a file that says where."""
    server = await _when_free(settings, exposition, probes or {})
    port = server.sockets[0].getsockname()[1]
    url = url_of(settings.metrics_host, port)
    show(settings.paths.run, url)
    logs.logger().info("metrics_served", url=url)
    try:
        async with server:
            await server.serve_forever()
    finally:
        hide(settings.paths.run)


def openmetrics(expose: Exposition) -> Page:
    """Return the page of metrics with exemplars."""

    async def page() -> tuple[int, str, bytes]:
        return 200, OPENMETRICS_TYPE, expose()

    return page


async def _when_free(settings: MetricsSettings, exposition: Exposition, probes: Mapping[str, Page]) -> asyncio.Server:
    async def page() -> tuple[int, str, bytes]:
        return 200, CONTENT_TYPE, exposition()

    is_told = False
    while True:
        try:
            return await pages.serve(settings.metrics_host, settings.metrics_port, {**probes, pages.METRICS: page})
        except OSError as error:
            if not is_told:
                logs.logger().warning("metrics_not_served", reason=errno.errorcode.get(error.errno or 0, str(error)))
            is_told = True
            await asyncio.sleep(AGAIN_S)


def tenant_labels(settings: MetricsSettings, platform_key: bytes) -> TenantLabels:
    """Return how metrics call tenants, as the settings say."""
    if settings.metrics_tenants is TenantNames.OFF:
        return TenantLabels(limit=0)
    return TenantLabels(limit=settings.metrics_most_tenants, name=_namer(settings, platform_key))


def scope_label(settings: MetricsSettings, platform_key: bytes) -> Callable[[str], str]:
    """Return how metrics call a budget's scope, such as ``tenant:shop``."""
    if settings.metrics_tenants is TenantNames.OFF:
        return lambda scope: f"{scope.partition(':')[0]}:{OTHER}"
    named = _namer(settings, platform_key)
    return lambda scope: f"{scope.partition(':')[0]}:{named(scope.partition(':')[2])}"


def _namer(settings: MetricsSettings, platform_key: bytes) -> Callable[[str], str]:
    if settings.metrics_tenants is TenantNames.NAMED:
        return str
    return partial(tenant_label, label_key=derive(platform_key, Purpose.METRICS))
