"""The configured sources of measurements: a Prometheus, or the metrics pages of this home's processes."""

from collections.abc import Sequence
from dataclasses import replace

from penstock.apps import slos
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.window import reading
from penstock.domain.clock import SystemClock
from penstock.settings import Settings
from penstock.settings.processes import ControllerSettings
from penstock.slo import budgets as error_budgets
from penstock.slo.budget import Budget
from penstock.slo.budgets import ErrorBudgets
from penstock.supervision import exposition
from penstock.supervision.files import read_if_there


def prometheus(settings: Settings, given: str = "") -> Prometheus | None:
    url = given or settings.prometheus_url or read_if_there(settings.paths.prometheus_address)
    return Prometheus(url) if url else None


def heeded(settings: Settings | ControllerSettings) -> Prometheus | None:
    """Return the Prometheus whose error budgets decide rollouts: the controller's own, or this home's."""
    url = settings.budgets_url or read_if_there(settings.paths.prometheus_address)
    return Prometheus(url) if url else None


def heeded_budgets(settings: ControllerSettings) -> tuple[Budget, ...]:
    found = heeded(settings)
    return error_budgets.of_prometheus(found, slos.promised()).budgets if found is not None else ()


def budgets(settings: Settings, given: str = "") -> ErrorBudgets:
    found, counts = prometheus(settings, given), heeded(settings)
    if found is None:
        read = reading(lambda: pages(settings), SystemClock())
        return error_budgets.of_pages(read.pages, read.silent, slos.promised())
    recorded = error_budgets.of_prometheus(found, slos.promised())
    return replace(recorded, heeded=counts is not None and counts.url == found.url)


def pages(settings: Settings) -> Sequence[str]:
    return exposition.addresses(settings.paths.run)
