"""When the certificate of a process ends, as a metric: a process without one shows nothing, which is not 0."""

from collections.abc import Callable

from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.tls.files import Own


def show(own: Callable[[], Own], metrics: Metrics) -> None:
    """Show from when and until when the certificate is valid that is in force when somebody looks."""
    role = own().identity.role
    metrics.gauge(names.CERTIFICATE_STARTS_AT).labels(role).set_function(lambda: own().starts_at)
    metrics.gauge(names.CERTIFICATE_ENDS_AT).labels(role).set_function(lambda: own().ends_at)
