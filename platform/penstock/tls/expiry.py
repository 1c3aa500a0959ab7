"""Metrics of a certificate's validity; a process without a certificate has no series, which is not 0."""

from collections.abc import Callable

from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.tls.files import Own


def show(own: Callable[[], Own], metrics: Metrics) -> None:
    """Register gauges that read the certificate in force at each scrape."""
    role = own().identity.role
    metrics.gauge(names.CERTIFICATE_STARTS_AT).labels(role).set_function(lambda: own().starts_at)
    metrics.gauge(names.CERTIFICATE_ENDS_AT).labels(role).set_function(lambda: own().ends_at)
