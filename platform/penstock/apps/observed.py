"""Where what was measured is found: a Prometheus, or the pages of this home's own processes."""

import time
from collections.abc import Callable, Sequence

from penstock.apps import exposition
from penstock.apps.settings import ControllerSettings, Settings
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.page import Reading, read
from penstock.connectors.prometheus.window import PagesWindow, PrometheusWindow
from penstock.domain.clock import Clock, SystemClock
from penstock.domain.command_error import CommandError

Window = PrometheusWindow | PagesWindow
READ_EVERY_S = 1.0


def prometheus(settings: Settings, given: str = "") -> Prometheus | None:
    """Return the Prometheus that was given, or set, or that this home runs; None where there is none."""
    url = given or settings.prometheus_url or _of_home(settings)
    return Prometheus(url) if url else None


def heeded(settings: Settings | ControllerSettings) -> Prometheus | None:
    """Return the Prometheus whose error budgets count for rollouts: the controller's own, or this home's."""
    url = settings.budgets_url or _of_home(settings)
    return Prometheus(url) if url else None


def pages(settings: Settings) -> Sequence[str]:
    """Return the addresses of this home's pages of metrics, gateways, controller and workers."""
    return exposition.addresses(settings.paths.run)


def watch(
    addresses: Callable[[], Sequence[str]], clock: Clock, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> PagesWindow:
    """Read the pages now, each second and at the end, so that gauges have a mean; raise ``CommandError`` for none."""
    end = clock.monotonic() + seconds
    readings = [_reading(addresses, clock)]
    while (left := end - clock.monotonic()) > 0:
        sleep(min(READ_EVERY_S, left))
        readings.append(_reading(addresses, clock))
    return PagesWindow(readings)


def look(settings: Settings) -> Reading:
    """Read this home's pages once, or raise ``CommandError`` where no process shows any."""
    return _reading(lambda: pages(settings), SystemClock())


def _reading(addresses: Callable[[], Sequence[str]], clock: Clock) -> Reading:
    found = read(addresses(), clock.monotonic())
    if not found.pages:
        raise CommandError(
            "No process of this home shows metrics.",
            do="Start the platform with `penstock up`, name its folder in PENSTOCK_HOME, or give a Prometheus with"
            " --prometheus.",
        )
    return found


def _of_home(settings: Settings | ControllerSettings) -> str:
    try:
        return settings.paths.prometheus_address.read_text().strip()
    except OSError:
        return ""
